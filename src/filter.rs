//! Sees the answer on its way to the client: when its header comes, and whether the server has to wait for the client.
//!
//! Here because nothing else tells: nginx before 1.29.6 does not notify a balancer of the header, and no nginx tells it that a
//! client reads slowly. The module is the last one loaded, so its filters are the first to be called. They cost a request
//! without `labor` a few loads, change nothing, and decide nothing: `outcome.rs` and `upstream.rs` do.
//!
//! Limits: a filter after us that keeps the answer back (gzip, image_filter) hides a slow client until it passes data on; of an
//! HTTP/2 or HTTP/3 client one sees the stream's own window, and the connection's when it stops this stream. Memory that
//! nginx may still fill, or a temporary file, is no waiting: only when the server cannot be read from is it held back.

use nginx_sys::{
    NGX_HTTP_WRITE_BUFFERED, ngx_chain_t, ngx_event_pipe_t, ngx_http_output_body_filter_pt,
    ngx_http_output_header_filter_pt, ngx_http_request_t, ngx_http_top_body_filter, ngx_http_top_header_filter,
    ngx_http_upstream_t, ngx_int_t,
};

use crate::{outcome, trace, upstream};

/// The filters that were first before ours. Written while a configuration is read, when there is one thread and no request;
/// every configuration builds its chain anew, so it is the same pointer each time.
static mut NEXT_HEADER: ngx_http_output_header_filter_pt = None;
static mut NEXT_BODY: ngx_http_output_body_filter_pt = None;

/// Puts the filters before all others. Called once per configuration, after it was read.
pub fn install() {
    // SAFETY: nginx runs postconfiguration in one thread, and no request is served from this chain yet.
    unsafe {
        NEXT_HEADER = ngx_http_top_header_filter;
        ngx_http_top_header_filter = Some(header_filter);
        NEXT_BODY = ngx_http_top_body_filter;
        ngx_http_top_body_filter = Some(body_filter);
    }
}

/// A response header goes out: is it the one that our server sent?
///
/// # Safety
/// nginx calls it with a live request.
unsafe extern "C" fn header_filter(r: *mut ngx_http_request_t) -> ngx_int_t {
    if let Some((u, _)) = trace::current(r) {
        // SAFETY: `r` and its upstream object are live.
        let status = unsafe { answered(u).then(|| outcome::status(u)) };
        if let Some(status) = status {
            upstream::on_header(r, u, status);
        }
    }
    // SAFETY: set by `install` before any request.
    match unsafe { NEXT_HEADER } {
        // SAFETY: a filter of nginx's, called with what nginx gave us.
        Some(next) => unsafe { next(r) },
        None => nginx_sys::NGX_OK as ngx_int_t,
    }
}

/// Whether the attempt of `u` is under way and its header was read. Otherwise the header is nginx's own: an error page, a
/// cached answer, the target of a redirect. (nginx clears `sockaddr` when the attempt is over.)
///
/// # Safety
/// `u` is the live upstream object of the request at hand.
unsafe fn answered(u: *mut ngx_http_upstream_t) -> bool {
    // SAFETY: `u` is live; its state is null or in the request's pool.
    unsafe { !(*u).peer.sockaddr.is_null() && outcome::has_header(u) }
}

/// A piece of a response goes out, or an earlier one goes on going out.
///
/// # Safety
/// nginx calls it with a live request and a chain of buffers, possibly null.
unsafe extern "C" fn body_filter(r: *mut ngx_http_request_t, chain: *mut ngx_chain_t) -> ngx_int_t {
    let watched = trace::current(r);
    if let Some((u, known)) = watched {
        // SAFETY: `r`, `u` and our record of it are live; one thread.
        unsafe {
            // The client reads again; what the server could not send meanwhile is still to be seen.
            if (*known).blocked {
                note_held(r, u, known);
            }
        }
    }
    // SAFETY: set by `install` before any request.
    let rc = match unsafe { NEXT_BODY } {
        // SAFETY: a filter of nginx's, called with what nginx gave us.
        Some(next) => unsafe { next(r, chain) },
        None => nginx_sys::NGX_OK as ngx_int_t,
    };
    if let Some((u, known)) = watched {
        // SAFETY: sending a body frees neither the request nor what is in its pool.
        unsafe {
            (*known).blocked = client_blocked(r);
            if (*known).blocked {
                note_held(r, u, known);
            }
        }
    }
    rc
}

/// Tells the request path, once per attempt, that the server has to wait.
///
/// # Safety
/// All three are live and belong together.
unsafe fn note_held(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t, known: *mut trace::Upstream) {
    // SAFETY: as required.
    unsafe {
        if !(*known).held && answered(u) && server_waits(u) {
            (*known).held = true;
            upstream::on_blocked(r, u);
        }
    }
}

/// Whether the client takes nothing at the moment: its socket or stream window is full, its rate is limited, or an earlier
/// part of the page (a subrequest's turn) is not out yet.
///
/// # Safety
/// `r` is live.
unsafe fn client_blocked(r: *mut ngx_http_request_t) -> bool {
    // SAFETY: a live request has a connection, and that its write event.
    unsafe {
        let c = (*r).connection;
        let write = (*c).write;
        (*c).buffered() & NGX_HTTP_WRITE_BUFFERED != 0
            || (*write).ready() == 0
            || (*write).delayed() != 0
            || (*c).data != r.cast()
    }
}

/// Whether the server has more to send and nginx has no place to read it into, given that the client takes nothing.
///
/// # Safety
/// `u` is live.
pub unsafe fn server_waits(u: *mut ngx_http_upstream_t) -> bool {
    // SAFETY: the pipe and the connection are null or live as long as `u` is being worked on.
    unsafe {
        if (*u).header_sent() == 0 || (*u).upgrade() != 0 {
            return false;
        }
        if (*u).buffering() != 0 {
            return (*u).pipe.as_ref().is_some_and(pipe_waits);
        }
        let finished = (*u).length == 0 || (*u).peer.connection.is_null() || {
            let read = (*(*u).peer.connection).read;
            (*read).eof() != 0 || (*read).error() != 0
        };
        !finished
    }
}

/// The same for a buffered answer: all buffers are full and none may go to a temporary file.
fn pipe_waits(pipe: &ngx_event_pipe_t) -> bool {
    let finished =
        pipe.upstream_done() != 0 || pipe.upstream_eof() != 0 || pipe.upstream_error() != 0 || pipe.length == 0;
    let full = pipe.free_raw_bufs.is_null() && pipe.allocated >= pipe.bufs.num;
    // SAFETY: null, or the pipe's own record of its temporary file.
    let offset = unsafe { pipe.temp_file.as_ref() }.map_or(0, |file| file.offset);
    let spills = pipe.cacheable() != 0 || offset < pipe.max_temp_file_size;
    !finished && full && !spills && !pipe.upstream.is_null()
}
