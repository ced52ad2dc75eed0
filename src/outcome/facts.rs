//! What can be seen of an attempt when nginx gives the server back.
//!
//! Here are the only reads of nginx's structures that the judgement of an attempt needs; each says for which nginx behaviour it
//! stands in. What the facts mean is decided in `outcome.rs`.

use labor_core::Failure;
use nginx_sys::{
    NGX_PEER_FAILED, NGX_PEER_NEXT, ngx_connection_t, ngx_http_request_t, ngx_http_upstream_t, ngx_list_t,
    ngx_peer_connection_t, ngx_str_t, ngx_table_elt_t,
};

use crate::{filter, trace};

/// The status that opens a tunnel; other 1xx precede the answer.
const SWITCHING: u16 = 101;

/// How much of the body was read from the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// nginx did not begin to pass it on.
    Unwanted,
    /// All of it.
    Complete,
    /// The server broke it off, or took too long.
    Broken(Failure),
    /// Not all, and no sign from the server. `local`: a full disk may be the reason.
    Unfinished { local: bool },
}

/// What can be seen when an attempt is over.
pub struct Facts {
    /// nginx says that the attempt failed, or that another server is asked.
    pub given_up: bool,
    /// The connection had been used before.
    pub reused: bool,
    /// Sending the request had begun, so the connection stood.
    pub connected: bool,
    /// Any byte came back.
    pub received: bool,
    /// Connecting, sending or reading took longer than allowed.
    pub timed_out: bool,
    /// The server's side of the connection ended or broke.
    pub closed: bool,
    /// The header was read.
    pub header: bool,
    /// Of the header; 0 when the answer had none.
    pub status: u16,
    /// Of an answer that calls itself gRPC.
    pub grpc: Option<u32>,
    /// The connection was upgraded.
    pub tunnel: bool,
    /// nginx turned to another location for the answer.
    pub redirected: bool,
    /// How much of the body was read.
    pub body: Body,
    /// The client left, was cut off, or took nothing any more.
    pub client_gone: bool,
    /// The client was still to send the rest of its request, and the server would have taken it.
    pub uploading: bool,
    /// The server had to wait for the client.
    pub held: bool,
}

/// Collects the facts about the attempt of `u` for `r`; `state` and `held` as in [`super::classify`].
///
/// # Safety
/// nginx is in `peer.free` of `pc`: request, upstream object and peer are live, the connection is null or live.
pub unsafe fn observe(
    r: *mut ngx_http_request_t,
    u: *mut ngx_http_upstream_t,
    pc: *mut ngx_peer_connection_t,
    state: usize,
    held: bool,
) -> Facts {
    // SAFETY: as required; a connection has both events as long as it lives.
    unsafe {
        let server = (*pc).connection;
        let timed_out = !server.is_null() && ((*(*server).read).timedout() | (*(*server).write).timedout()) != 0;
        let header = has_header(u);
        Facts {
            given_up: state & (NGX_PEER_FAILED | NGX_PEER_NEXT) as usize != 0,
            reused: (*pc).cached() != 0,
            connected: !server.is_null() && (*u).request_sent() != 0,
            received: (*u).state.as_ref().is_some_and(|s| s.bytes_received > 0),
            timed_out,
            closed: closed(server),
            header,
            status: if header { status(u) } else { 0 },
            grpc: if header { grpc_status(u) } else { None },
            tunnel: (*u).upgrade() != 0,
            redirected: !(*u).headers_in.x_accel_redirect.is_null(),
            body: body(r, u, server),
            client_gone: client_gone(r, u),
            uploading: (*u).request_sent() != 0 && (*r).reading_body() != 0 && (*u).request_body_blocked() == 0,
            held: held || held_back(r, u),
        }
    }
}

/// Whether the header of the present attempt was read.
///
/// # Safety
/// `u` is live.
pub unsafe fn has_header(u: *mut ngx_http_upstream_t) -> bool {
    // SAFETY: null or nginx's record of this attempt; nginx presets the time to "never", all ones.
    unsafe { (*u).state.as_ref() }.is_some_and(|s| s.header_time != usize::MAX)
}

/// The HTTP status that the server of the present attempt answered; 0 when its answer had no status line.
///
/// nginx's record of the attempt comes first: `headers_in` holds the cached answer once a stale one is served instead. But the
/// record keeps the first status it saw, which may be an interim one.
///
/// # Safety
/// `u` is live.
pub unsafe fn status(u: *mut ngx_http_upstream_t) -> u16 {
    // SAFETY: as for `has_header`.
    unsafe {
        let last = u16::try_from((*u).headers_in.status_n).unwrap_or(u16::MAX);
        let first = (*u).state.as_ref().map_or(0, |s| u16::try_from(s.status).unwrap_or(u16::MAX));
        let interim = (100..200).contains(&first) && first != SWITCHING;
        if last == 0 || first == 0 || interim { last } else { first }
    }
}

/// # Safety
/// `server` is null or a live connection.
unsafe fn closed(server: *mut ngx_connection_t) -> bool {
    // SAFETY: a live connection has both events.
    unsafe {
        !server.is_null() && {
            let (read, write) = ((*server).read, (*server).write);
            ((*read).eof() | (*read).error() | (*write).error()) != 0
        }
    }
}

/// # Safety
/// As for [`observe`].
unsafe fn body(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t, server: *mut ngx_connection_t) -> Body {
    // SAFETY: as required; the pipe is null or in the request's pool.
    unsafe {
        if (*u).header_sent() == 0 && (*r).subrequest_in_memory() == 0 {
            return Body::Unwanted;
        }
        let late = |read_timed_out: bool| if read_timed_out { Failure::Timeout } else { Failure::Reset };
        let timed_out = !server.is_null() && (*(*server).read).timedout() != 0;
        let pipe = (*u).pipe.as_ref().filter(|pipe| (*u).buffering() != 0 && !pipe.upstream.is_null());
        if let Some(pipe) = pipe {
            let local = pipe.temp_file.as_ref().is_some_and(|t| t.file.fd >= 0);
            return if pipe.upstream_done() != 0 || pipe.length == 0 {
                Body::Complete
            } else if pipe.upstream_error() != 0 {
                Body::Broken(late(timed_out))
            } else if pipe.upstream_eof() != 0 {
                if pipe.length == -1 { Body::Complete } else { Body::Broken(Failure::Reset) }
            } else if (*r).header_only() != 0 {
                Body::Complete
            } else {
                Body::Unfinished { local }
            };
        }
        // Unbuffered. A keepalive module before us takes the connection away only when the answer is complete.
        if (*r).header_only() != 0 || (*u).length == 0 || server.is_null() {
            Body::Complete
        } else if timed_out {
            Body::Broken(Failure::Timeout)
        } else if (*u).error() != 0 || (*(*server).read).error() != 0 {
            Body::Broken(Failure::Reset)
        } else if (*(*server).read).eof() != 0 {
            if (*u).length == -1 { Body::Complete } else { Body::Broken(Failure::Reset) }
        } else {
            Body::Unfinished { local: false }
        }
    }
}

/// The client left, was cut off, or takes nothing any more. A pipe that only fills a cache says so as well, and is not meant.
///
/// # Safety
/// As for [`observe`].
unsafe fn client_gone(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t) -> bool {
    // SAFETY: as required; the client's connection outlives the request.
    unsafe {
        let c = (*r).connection;
        let (read, write) = ((*c).read, (*c).write);
        let broken = ((*c).error() | (*c).timedout() | (*read).error() | (*write).error() | (*write).timedout()) != 0;
        let cut_off = (*r).header_only() == 0 && (*u).pipe.as_ref().is_some_and(|p| p.downstream_error() != 0);
        broken || cut_off
    }
}

/// The server had to wait, by what the body filter saw last (it is not called while a client is blocked), or because
/// `proxy_limit_rate` reads no faster.
///
/// # Safety
/// As for [`observe`].
unsafe fn held_back(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t) -> bool {
    // SAFETY: as required; our record of `u` is in the request's pool.
    unsafe {
        let limited = (*u).pipe.as_ref().is_some_and(|p| {
            !p.upstream.is_null() && p.limit_rate > 0 && usize::try_from(p.read_length).is_ok_and(|n| n >= p.limit_rate)
        });
        let client =
            trace::upstream(r, u).is_some_and(|known| (*known).held || ((*known).blocked && filter::server_waits(u)));
        limited || client
    }
}

/// The gRPC status of an answer that calls itself gRPC: from the trailer, or from the header when there is nothing else.
///
/// # Safety
/// As for [`observe`].
unsafe fn grpc_status(u: *mut ngx_http_upstream_t) -> Option<u32> {
    // SAFETY: the lists are zeroed or initialised, and their elements live in the request's pool.
    unsafe {
        let kind = text(&(*u).headers_in.content_type.as_ref()?.value);
        if !kind.get(..16)?.eq_ignore_ascii_case(b"application/grpc") {
            return None;
        }
        let headers = &raw const (*u).headers_in.headers;
        let trailers = &raw const (*u).headers_in.trailers;
        find(trailers, b"grpc-status").or_else(|| find(headers, b"grpc-status"))
    }
}

/// The number that the header `name` of `list` holds.
///
/// # Safety
/// `list` is a list of headers, zeroed or initialised.
unsafe fn find(list: *const ngx_list_t, name: &[u8]) -> Option<u32> {
    // SAFETY: as required; every part has `nelts` elements.
    unsafe {
        let mut part = &raw const (*list).part;
        while let Some(p) = part.as_ref() {
            if !p.elts.is_null() {
                let headers = core::slice::from_raw_parts(p.elts.cast::<ngx_table_elt_t>(), p.nelts);
                if let Some(found) = headers.iter().find(|h| text(&h.key).eq_ignore_ascii_case(name)) {
                    return core::str::from_utf8(text(&found.value)).ok()?.trim().parse().ok();
                }
            }
            part = p.next;
        }
    }
    None
}

/// # Safety
/// `s` is empty or points to `len` bytes that live as long as `s`.
unsafe fn text(s: &ngx_str_t) -> &[u8] {
    if s.data.is_null() {
        return &[];
    }
    // SAFETY: as required.
    unsafe { core::slice::from_raw_parts(s.data, s.len) }
}
