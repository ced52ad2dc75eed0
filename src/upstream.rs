//! The way of a request: what nginx calls for an upstream with `labor`, from the configuration to the end of each attempt.
//!
//! `init` prepares a request, `get` chooses a server (`upstream/select.rs`), the header is noted, `free` books what came of it. All
//! else is round robin's: weights, `max_fails`, references to servers, TLS sessions. No parsing, no formula, no status page here.

mod books;
mod fallback;
mod keyed;
mod list;
mod rules;
mod select;
mod stand;
mod tried;

use core::ffi::c_void;

use labor_core::time::Micros;
use labor_core::{Attempt, Metric, Outcome};
use nginx_sys::{
    NGX_BUSY, NGX_ERROR, NGX_HTTP_GET, NGX_HTTP_HEAD, NGX_HTTP_OPTIONS, NGX_OK, NGX_PEER_FAILED, NGX_PROCESS_SINGLE,
    NGX_PROCESS_WORKER, ngx_conf_t, ngx_cycle_t, ngx_http_request_t, ngx_http_upstream_free_round_robin_peer,
    ngx_http_upstream_init_round_robin, ngx_http_upstream_init_round_robin_peer, ngx_http_upstream_rr_peer_data_t,
    ngx_http_upstream_rr_peers_t, ngx_http_upstream_srv_conf_t, ngx_http_upstream_t, ngx_int_t, ngx_peer_connection_t,
    ngx_process, ngx_time, ngx_uint_t,
};

pub use list::Lists;
use list::Scan;
use select::Selected;
use tried::Tried;

use crate::ffi::{self, RrPeer, RrPeers};
use crate::{outcome, trace, worker, zone};

/// What a request needs to know between its steps. nginx sees the first field only.
#[repr(C)]
pub struct PeerData {
    rrp: ngx_http_upstream_rr_peer_data_t,
    request: *mut ngx_http_request_t,
    /// Saved at the start: an internal redirect gives the request another one while this attempt is still to be freed.
    upstream: *mut ngx_http_upstream_t,
    us: *mut ngx_http_upstream_srv_conf_t,
    /// This worker's lists of the upstream; null when there are none.
    lists: *mut Lists,
    primary: *mut ngx_http_upstream_rr_peers_t,
    /// The text that decides where it belongs; it lives as long as the request.
    key: Option<&'static [u8]>,
    tried: Tried,
    attempt: Option<Attempt>,
    /// The attempt's record for the variables.
    record: Option<usize>,
    /// The attempt is at a server of the backup list.
    backup: bool,
    /// The method is safe in the sense of HTTP.
    safe: bool,
    header_seen: bool,
    /// The client held the answer back.
    held: bool,
    /// Round robin has taken over for the rest of the request.
    round_robin: bool,
}

impl PeerData {
    /// nginx's list of primary or of backup servers.
    fn list(&self, backup: bool) -> Option<*mut ngx_http_upstream_rr_peers_t> {
        // SAFETY: the primary list lives as long as the upstream; its link to the backups is set once.
        let list = if backup { unsafe { (*self.primary).next } } else { self.primary };
        (!list.is_null()).then_some(list)
    }

    /// This worker's lists of the upstream.
    fn lists<'a>(&self) -> Option<&'a mut Lists> {
        // SAFETY: as for [`lists`], which found them.
        unsafe { self.lists.as_mut() }
    }

    /// Whether servers are led up to their share.
    fn leads(&self) -> bool {
        self.lists().is_some_and(|lists| lists.primary.balancer.params().slow_start > 0)
    }

    /// The upstream's name.
    fn host(&self) -> &'static [u8] {
        // SAFETY: the name lives as long as the configuration, which outlives its requests; it is used for hashing at once.
        unsafe { ffi::bytes((*self.us).host) }
    }

    /// The response header is there: in header mode, and for tunnels, this is what is measured.
    fn header(&mut self, status: ngx_uint_t, now: Micros) {
        let lists = self.lists();
        let (Some(attempt), Some(lists), Some(view)) = (self.attempt.as_mut(), lists, zone::view()) else {
            return;
        };
        if self.header_seen {
            return;
        }
        self.header_seen = true;
        let list = lists.get(self.backup);
        let (shared, params) = (list.shared(view), list.balancer.params());
        // SAFETY: the saved upstream lives until its peer is freed.
        let upgraded = unsafe { (*self.upstream).upgrade() } != 0;
        let status = u16::try_from(status).unwrap_or(0);
        attempt.header(shared, params, status, upgraded, now);
        books::header(view, shared, attempt, upgraded || params.metric == Metric::Header, now);
    }

    /// Books the attempt that nginx ends with `state`; the state round robin is to see.
    fn finish(&mut self, pc: *mut ngx_peer_connection_t, state: ngx_uint_t) -> ngx_uint_t {
        let now = worker::now();
        // SAFETY: the saved upstream lives until its peer is freed.
        let header = unsafe { outcome::has_header(self.upstream).then(|| outcome::status(self.upstream)) };
        // An answer that nginx did not pass on (a retry, its own error page) went past the filter.
        if let Some(status) = header {
            self.header(ngx_uint_t::from(status), now);
        }
        let (Some(attempt), Some(lists), Some(view)) = (self.attempt.take(), self.lists(), zone::view()) else {
            return state;
        };
        let list = lists.get(self.backup);
        let params = *list.balancer.params();
        let outcome = outcome::classify(self.request, self.upstream, pc, state, self.held, &params);
        let shared = list.shared(view);
        let place = attempt.record(shared);
        let receipt = attempt.finish(shared, &params, outcome, now);
        // SAFETY: the saved upstream lives until its peer is freed.
        unsafe {
            let answer = (header, (*self.upstream).upgrade() != 0, params.metric);
            books::finish(view, place, self.upstream, answer, (outcome, &receipt));
        }
        if let Some(record) = self.record.take() {
            trace::finish(self.request, record, &receipt);
        }
        outcome::log(self.upstream, pc, outcome, &receipt);
        list.balancer.settle(shared, &receipt);
        // SAFETY: nginx hands over the connection of this attempt.
        if outcome == Outcome::Void && unsafe { (*pc).cached() } != 0 {
            return self.discount(state);
        }
        state
    }

    /// A kept connection that the server had closed is no failure of the server: nginx is not to count it, nor to take it for
    /// proof that a server on trial is well, and the request may come back.
    fn discount(&mut self, state: ngx_uint_t) -> ngx_uint_t {
        self.tried.last_was_void();
        if state & NGX_PEER_FAILED as ngx_uint_t == 0 {
            return state;
        }
        // SAFETY: `get` set list and server, and counted a reference that holds until round robin's free().
        let (list, peer) = unsafe { (RrPeers::read(self.rrp.peers), RrPeer::new(self.rrp.current)) };
        list.lock(peer).withdraw_trial();
        state & !(NGX_PEER_FAILED as ngx_uint_t)
    }
}

/// This worker's lists of an upstream, made when first asked for.
fn lists<'a>(us: *mut ngx_http_upstream_srv_conf_t) -> Option<&'a mut Lists> {
    // SAFETY: every upstream that comes here has the directive and so our settings; they and the lists live as long as the
    // configuration, and nginx runs one callback at a time, none of which keeps the reference.
    unsafe {
        let conf = ffi::upstream_conf(us).as_mut()?;
        if conf.local.is_null() {
            let lists = Lists::new(conf, [worker::seed(), worker::seed()]);
            conf.local = Box::into_raw(Box::new(lists));
        }
        conf.local.as_mut()
    }
}

/// A worker starts: every list is read, so that servers keep their records though no request comes.
pub fn init_process(cycle: *mut ngx_cycle_t) {
    // SAFETY: plain reads of nginx's globals in a process that has just started.
    let process = unsafe { ngx_process };
    if process != NGX_PROCESS_SINGLE as ngx_uint_t && process != NGX_PROCESS_WORKER as ngx_uint_t {
        return;
    }
    // SAFETY: nginx hands over the cycle it starts with; no other reference is in use.
    let (Some(main), Some(view)) = (unsafe { ffi::cycle_conf(cycle) }, zone::view()) else { return };
    let (now, tried) = (worker::now(), Tried::new());
    for us in &main.upstreams {
        // SAFETY: the upstreams live as long as the configuration; by now their lists are where they stay.
        let (primary, host) =
            unsafe { ((**us).peer.data.cast::<ngx_http_upstream_rr_peers_t>(), ffi::bytes((**us).host)) };
        let Some(lists) = lists(*us) else { continue };
        if primary.is_null() {
            continue;
        }
        // SAFETY: as above.
        for (list, backup) in [(primary, false), (unsafe { (*primary).next }, true)] {
            if !list.is_null() {
                // What cannot be read now is read with the first request.
                let scan = Scan { list, host, tried: &tried, view, now, time: ngx_time() };
                let _ = lists.get(backup).refresh(&scan);
            }
        }
    }
}

/// nginx reads the configuration to its end: the servers become round robin's list, requests come to us.
pub unsafe extern "C" fn init_upstream(cf: *mut ngx_conf_t, us: *mut ngx_http_upstream_srv_conf_t) -> ngx_int_t {
    // SAFETY: nginx hands over the configuration being read and one of its upstreams.
    unsafe {
        if ngx_http_upstream_init_round_robin(cf, us) != NGX_OK as ngx_int_t {
            return NGX_ERROR as ngx_int_t;
        }
        let Some(conf) = ffi::upstream_conf(us).as_mut() else { return NGX_ERROR as ngx_int_t };
        conf.initialised = true;
        (*us).peer.init = Some(init);
    }
    NGX_OK as ngx_int_t
}

/// A request comes to the upstream.
unsafe extern "C" fn init(r: *mut ngx_http_request_t, us: *mut ngx_http_upstream_srv_conf_t) -> ngx_int_t {
    // SAFETY: nginx hands over a live request, whose upstream it has just made, and the upstream's configuration.
    unsafe {
        let data = ffi::palloc::<PeerData>((*r).pool, 1);
        if data.is_null() {
            // Round robin needs less memory; should it have none either, the error is nginx's own.
            return ngx_http_upstream_init_round_robin_peer(r, us);
        }
        let u = (*r).upstream;
        let safe = (NGX_HTTP_GET | NGX_HTTP_HEAD | NGX_HTTP_OPTIONS) as ngx_uint_t;
        data.write(PeerData {
            rrp: core::mem::zeroed(),
            request: r,
            upstream: u,
            us,
            lists: lists(us).map_or(core::ptr::null_mut(), |lists| &raw mut *lists),
            primary: (*us).peer.data.cast(),
            key: keyed::key(r, us),
            tried: Tried::new(),
            attempt: None,
            record: None,
            backup: false,
            safe: (*r).method & safe != 0,
            header_seen: false,
            held: false,
            round_robin: false,
        });
        // Round robin fills what it finds, so that its functions work on our data.
        (*u).peer.data = data.cast();
        if ngx_http_upstream_init_round_robin_peer(r, us) != NGX_OK as ngx_int_t {
            return NGX_ERROR as ngx_int_t;
        }
        (*u).peer.tries = (*data.cast::<PeerData>()).tries((*u).peer.tries);
        (*u).peer.get = Some(get);
        (*u).peer.free = Some(free);
        #[cfg(ngx_ge_1_29_6)]
        {
            (*u).peer.notify = Some(notify);
        }
        trace::attach(r, u, data.cast());
    }
    NGX_OK as ngx_int_t
}

/// nginx wants to know where the next attempt goes.
unsafe extern "C" fn get(pc: *mut ngx_peer_connection_t, data: *mut c_void) -> ngx_int_t {
    // SAFETY: `init` made the data; nginx and its wrappers hand it back with the request's connection.
    let (connection, request) = unsafe { (&mut *pc, &mut *data.cast::<PeerData>()) };
    // A retry comes with what is left of the attempt before.
    connection.set_cached(0);
    connection.connection = core::ptr::null_mut();
    if !request.round_robin {
        match select::select(request, connection) {
            Selected::Yes => return NGX_OK as ngx_int_t,
            Selected::Busy => {
                // SAFETY: the list lives as long as the upstream; its name is what nginx logs and shows.
                connection.name = unsafe { (*request.primary).name };
                return NGX_BUSY as ngx_int_t;
            }
            Selected::Unavailable => request.round_robin = true,
        }
    }
    request.round_robin(connection)
}

/// An attempt ends.
unsafe extern "C" fn free(pc: *mut ngx_peer_connection_t, data: *mut c_void, state: ngx_uint_t) {
    // SAFETY: as for `get`; nothing of the server is touched after round robin's part, which may give its memory back.
    unsafe {
        let state = (*data.cast::<PeerData>()).finish(pc, state);
        ngx_http_upstream_free_round_robin_peer(pc, data, state);
    }
}

/// nginx has accepted the response header.
#[cfg(ngx_ge_1_29_6)]
unsafe extern "C" fn notify(_pc: *mut ngx_peer_connection_t, data: *mut c_void, kind: ngx_uint_t) {
    if kind == nginx_sys::NGX_HTTP_UPSTREAM_NOTIFY_HEADER as ngx_uint_t {
        // SAFETY: as for `get`; the saved upstream is the one whose header came.
        unsafe {
            let data = &mut *data.cast::<PeerData>();
            let status = (*data.upstream).headers_in.status_n;
            data.header(status, worker::now());
        }
    }
}

/// The header filter saw the response header of the attempt at `u` go to the client.
pub fn on_header(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t, status: u16) {
    if let Some(data) = trace::data(r, u) {
        // SAFETY: `init` attached it to this request and upstream, and it lives in the request's pool.
        unsafe { (*data.cast::<PeerData>()).header(ngx_uint_t::from(status), worker::now()) };
    }
}

/// The body filter found the client's connection blocked before the server's last byte.
pub fn on_blocked(r: *mut ngx_http_request_t, u: *mut ngx_http_upstream_t) {
    if let Some(data) = trace::data(r, u) {
        // SAFETY: as for `on_header`.
        unsafe { (*data.cast::<PeerData>()).held = true };
    }
}
