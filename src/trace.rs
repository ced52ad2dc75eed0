//! What the request remembers of its attempts: for the log variables, and to find the request path's own data again.
//!
//! Here because nothing of nginx's keeps it: an internal redirect (`error_page`, X-Accel-Redirect, a named location) gives the
//! request another upstream object and wipes the modules' contexts, and other modules wrap `peer.data`. So the record lives
//! in the request's pool and is found by a cleanup handler of ours, which serves as the marker; the context only shortens
//! the way. Subrequests share the pool: a record belongs to one `r`. Nothing is decided and nothing is formatted here.

use core::ffi::c_void;
use core::ptr;

use labor_core::time::Micros;
use labor_core::{Choice, Receipt};
use nginx_sys::{
    ngx_array_t, ngx_http_request_t, ngx_http_upstream_state_t, ngx_http_upstream_t, ngx_palloc, ngx_pool_cleanup_add,
    ngx_pool_t,
};

/// One attempt at one server.
pub struct Record {
    /// Position of nginx's own record of this attempt in `r->upstream_states`.
    pub state: usize,
    /// What the pick knew and promised, and why it fell on this server.
    pub choice: Choice,
    /// Pick to end, µs; `None` while under way.
    pub total: Option<Micros>,
    /// Pick to header, µs; `None` while under way and when no header came.
    pub header: Option<Micros>,
    next: *mut Record,
}

/// One upstream object of the request that `labor` balances: one per `proxy_pass` the request went through.
pub struct Upstream {
    /// nginx's object, compared and never followed.
    u: *mut ngx_http_upstream_t,
    /// The request path's own data.
    data: *mut c_void,
    /// The client could not take more when it was last written to.
    pub blocked: bool,
    /// The server had to wait for the client.
    pub held: bool,
    next: *mut Upstream,
}

/// Everything about one request or subrequest.
pub struct Trace {
    r: *mut ngx_http_request_t,
    /// Newest first: it is the one that is asked for.
    upstreams: *mut Upstream,
    /// Oldest first, as they are logged.
    first: *mut Record,
    last: *mut Record,
    count: usize,
    closed: bool,
}

impl Trace {
    /// The attempts, oldest first.
    pub fn records(&self) -> Records<'_> {
        Records { at: self.first, _of: core::marker::PhantomData }
    }

    fn upstream(&self, u: *mut ngx_http_upstream_t) -> Option<*mut Upstream> {
        let mut at = self.upstreams;
        // SAFETY: the list is made by `attach` of records in the request's pool, which outlives this trace.
        while let Some(one) = unsafe { at.as_ref() } {
            if one.u == u {
                return Some(at);
            }
            at = one.next;
        }
        None
    }
}

/// Iterator over a request's attempts.
pub struct Records<'a> {
    at: *mut Record,
    _of: core::marker::PhantomData<&'a Trace>,
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a Record;

    fn next(&mut self) -> Option<&'a Record> {
        // SAFETY: null or a record in the request's pool, made by `begin`; nobody writes while the trace is borrowed, since
        // a worker is one thread and the borrow does not outlive the caller's callback.
        let one = unsafe { self.at.as_ref() }?;
        self.at = one.next;
        Some(one)
    }
}

/// Remembers that the request path's `data` belongs to `u` of `r`. Called when the peer is initialised, before any attempt.
///
/// Without memory nothing is remembered: the variables stay empty and the filters see nothing.
pub fn attach(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t, data: *mut c_void) {
    let Some(trace) = find(r).or_else(|| create(r)) else { return };
    // SAFETY: `r` is the live request nginx called us with; `trace` is in its pool; one thread.
    unsafe {
        remember(r, trace);
        if let Some(known) = (*trace).upstream(u) {
            (*known).data = data;
            return;
        }
        let next = (*trace).upstreams;
        if let Some(new) = allocate((*r).pool, Upstream { u, data, blocked: false, held: false, next }) {
            (*trace).upstreams = new;
        }
    }
}

/// The data that [`attach`] was given for `u` of `r`.
pub fn data(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t) -> Option<*mut c_void> {
    let known = upstream(r, u)?;
    // SAFETY: in the pool of the live request `r`.
    Some(unsafe { (*known).data })
}

/// The record of `u`, found by whatever way there is.
pub fn upstream(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t) -> Option<*mut Upstream> {
    let trace = find(r)?;
    // SAFETY: in the pool of the live request `r`.
    unsafe { (*trace).upstream(u) }
}

/// The record of the request's present upstream object, if it is ours. Costs two loads when it is not: the filters ask for
/// every response of the whole server. An upstream of ours always has the context set, by [`attach`].
pub fn current(r: *mut ngx_http_request_t) -> Option<(*mut ngx_http_upstream_t, *mut Upstream)> {
    // SAFETY: `r` is the live request nginx called the filter with.
    let u = unsafe { (*r).upstream };
    if u.is_null() {
        return None;
    }
    let trace = context(r)?;
    // SAFETY: what our context holds is a trace in the request's pool.
    unsafe { (*trace).upstream(u) }.map(|known| (u, known))
}

/// The request's record, if an upstream of it was ever balanced by `labor`.
pub fn get<'a>(r: *mut ngx_http_request_t) -> Option<&'a Trace> {
    let trace = find(r)?;
    // SAFETY: in the pool of the live request; the callers (variables) do not keep it beyond their callback.
    Some(unsafe { &*trace })
}

/// Notes an attempt at its pick. Returns its index for [`finish`]; `None` when there is no memory or no [`attach`].
pub fn begin(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t, choice: &Choice) -> Option<usize> {
    let trace = find(r)?;
    // SAFETY: `r` and `u` are live (nginx is in peer.get of `u`), `trace` is in the pool of `r`; one thread.
    unsafe {
        if let Some(known) = (*trace).upstream(u) {
            (*known).blocked = false;
            (*known).held = false;
        }
        let state = state_index((*r).upstream_states, (*u).state)?;
        let record = Record { state, choice: *choice, total: None, header: None, next: ptr::null_mut() };
        let new = allocate((*r).pool, record)?;
        if (*trace).last.is_null() {
            (*trace).first = new;
        } else {
            (*(*trace).last).next = new;
        }
        (*trace).last = new;
        let index = (*trace).count;
        (*trace).count = index.saturating_add(1);
        Some(index)
    }
}

/// Notes what attempt `index` measured.
pub fn finish(r: *mut ngx_http_request_t, index: usize, receipt: &Receipt) {
    let Some(trace) = find(r) else { return };
    // SAFETY: the records are in the pool of the live request `r`; one thread.
    unsafe {
        let mut at = (*trace).first;
        for _ in 0..index {
            if at.is_null() {
                return;
            }
            at = (*at).next;
        }
        if let Some(record) = at.as_mut() {
            record.total = Some(receipt.total);
            record.header = receipt.header;
        }
    }
}

/// Where `state` stands in nginx's list: pointers into it move when it grows, the position does not.
fn state_index(states: *mut ngx_array_t, state: *mut ngx_http_upstream_state_t) -> Option<usize> {
    // SAFETY: null or the request's array; only its header is read.
    let states = unsafe { states.as_ref() }?;
    let offset = (state as usize).checked_sub(states.elts as usize)?;
    let index = offset / size_of::<ngx_http_upstream_state_t>();
    (index < states.nelts).then_some(index)
}

fn find(r: *mut ngx_http_request_t) -> Option<*mut Trace> {
    context(r).or_else(|| marked(r))
}

fn context(r: *mut ngx_http_request_t) -> Option<*mut Trace> {
    // SAFETY: `r` is live; its `ctx` has a place for every HTTP module (or is null in nginx's own failed requests), and
    // nothing but `remember` writes ours.
    let trace = unsafe {
        let ctx = (*r).ctx;
        if ctx.is_null() { return None } else { (*ctx.add(ctx_index())).cast::<Trace>() }
    };
    // A module that clones a request may copy its contexts; a record is one request's own.
    // SAFETY: what is in our place is null or a trace in the request's pool.
    unsafe { trace.as_ref() }.is_some_and(|t| t.r == r).then_some(trace)
}

/// Puts `trace` into the context of `r`.
///
/// # Safety
/// `r` is a live request and `trace` is in its pool.
unsafe fn remember(r: *mut ngx_http_request_t, trace: *mut Trace) {
    // SAFETY: as for `context`.
    unsafe {
        if !(*r).ctx.is_null() {
            *(*r).ctx.add(ctx_index()) = trace.cast();
        }
    }
}

fn ctx_index() -> usize {
    // SAFETY: nginx sets it while it loads the configuration, before there are requests; later it is only read.
    unsafe { crate::ngx_http_labor_module.ctx_index }
}

/// The trace of `r` by its marker among the pool's cleanup handlers.
fn marked(r: *mut ngx_http_request_t) -> Option<*mut Trace> {
    // SAFETY: `r` is live, so is its pool; nginx keeps the list sound, and whatever carries our handler is our Trace.
    unsafe {
        let mut at = (*(*r).pool).cleanup;
        while let Some(one) = at.as_ref() {
            if one.handler.is_some_and(|h| ptr::fn_addr_eq(h, close as unsafe extern "C" fn(*mut c_void))) {
                let trace = one.data.cast::<Trace>();
                if (*trace).r == r {
                    return Some(trace);
                }
            }
            at = one.next;
        }
    }
    None
}

/// The marker. It writes something, so that no linker folds it with an empty function and makes the two addresses equal.
///
/// # Safety
/// nginx calls it with the data that `create` put beside it.
unsafe extern "C" fn close(trace: *mut c_void) {
    // SAFETY: `create` put a Trace there; the pool is still whole while its handlers run.
    unsafe { (*trace.cast::<Trace>()).closed = true };
}

fn create(r: *mut ngx_http_request_t) -> Option<*mut Trace> {
    // SAFETY: `r` is live. The handler is set last, when its data is whole.
    unsafe {
        let null = ptr::null_mut();
        let trace = Trace { r, upstreams: ptr::null_mut(), first: null, last: null, count: 0, closed: false };
        let trace = allocate((*r).pool, trace)?;
        let marker = ngx_pool_cleanup_add((*r).pool, 0);
        if marker.is_null() {
            return None;
        }
        (*marker).data = trace.cast();
        (*marker).handler = Some(close);
        Some(trace)
    }
}

/// Places `value` in `pool`; it is never dropped, so it must own nothing.
///
/// # Safety
/// `pool` is a live pool, and `T` needs no greater alignment than a pointer's.
unsafe fn allocate<T>(pool: *mut ngx_pool_t, value: T) -> Option<*mut T> {
    const { assert!(align_of::<T>() <= align_of::<usize>() && !core::mem::needs_drop::<T>()) };
    // SAFETY: nginx returns null or that many bytes, aligned for a pointer.
    unsafe {
        let place = ngx_palloc(pool, size_of::<T>()).cast::<T>();
        if place.is_null() {
            return None;
        }
        place.write(value);
        Some(place)
    }
}
