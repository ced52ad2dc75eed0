//! Where round robin counts or chooses in our place: it knows nothing of what is set at run time.

use core::ffi::c_void;

use labor_core::key::{Identity, peer_key};
use nginx_sys::{
    NGX_BUSY, NGX_OK, ngx_http_upstream_free_round_robin_peer, ngx_http_upstream_get_round_robin_peer, ngx_int_t,
    ngx_peer_connection_t, ngx_uint_t,
};

use super::{PeerData, rules};
use crate::ffi::{self, RrPeer, RrPeers};
use crate::{worker, zone};

/// More servers than any list has.
const MOST_SERVERS: usize = 1 << 20;

impl PeerData {
    /// How many servers may be tried, where nginx counts `tries` by its configuration alone.
    pub(super) fn tries(&self, tries: ngx_uint_t) -> ngx_uint_t {
        let (Some(lists), Some(view)) = (self.lists(), zone::view()) else { return tries };
        let now = worker::now();
        let more = [false, true].map(|backup| {
            let list = lists.get(backup);
            list.follow(view, now);
            list.tries()
        });
        let more = isize::try_from(more.iter().sum::<i64>()).unwrap_or(0);
        tries.saturating_add_signed(more)
    }

    /// Round robin's choice, when ours cannot be had; asked for again until it is one that may be used.
    pub(super) fn round_robin(&mut self, pc: &mut ngx_peer_connection_t) -> ngx_int_t {
        let (connection, data) = (&raw mut *pc, (&raw mut *self).cast::<c_void>());
        // Round robin tries each server once; this is only to be sure of an end.
        for _ in 0..MOST_SERVERS {
            // SAFETY: the data begins with what round robin expects.
            let status = unsafe { ngx_http_upstream_get_round_robin_peer(connection, data) };
            if status != NGX_OK as ngx_int_t || !self.is_forbidden() {
                return status;
            }
            // SAFETY: round robin has just set list and server and counted a reference; no other list lock is held, and this
            // one is given back before round robin takes it.
            unsafe {
                let (list, peer) = (RrPeers::read(self.rrp.peers), RrPeer::new(self.rrp.current));
                list.lock(peer).withdraw_trial();
                let single = list.single();
                drop(list);
                let tries = (*connection).tries;
                ngx_http_upstream_free_round_robin_peer(connection, data, 0);
                (*connection).tries = tries;
                if single {
                    break;
                }
            }
        }
        // SAFETY: the list lives as long as the upstream; its name is what nginx logs and shows.
        pc.name = unsafe { (*self.primary).name };
        NGX_BUSY as ngx_int_t
    }

    /// Whether what is set at run time forbids the server that round robin has chosen.
    fn is_forbidden(&self) -> bool {
        let (Some(lists), Some(view)) = (self.lists(), zone::view()) else { return false };
        // SAFETY: round robin has just set list and server, and counted a reference to it, so that its strings live.
        let (peer, name, address) = unsafe {
            let peer = RrPeer::new(self.rrp.current);
            (peer, ffi::bytes(peer.server()), ffi::bytes(peer.name()))
        };
        let backup = self.rrp.peers != self.primary;
        let metric = lists.get(backup).balancer.params().metric;
        let identity = Identity { upstream: self.host(), backup, name, address, ordinal: 0, metric };
        let control = view.control(view.known(peer_key(&identity)));
        // What nginx itself has down, round robin does not choose.
        !control.is_empty() && rules::closed(peer, &control, false)
    }
}
