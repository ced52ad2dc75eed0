//! nginx's lists of servers as safe views: a list under its lock, one server, one server under its own lock.
//!
//! What nginx's macros do (locks, reference counts) is written out, because bindings carry no macros. Nothing here decides
//! anything but what nginx itself decides.

use core::ptr;
use core::slice;

use labor_core::control::{Control, Settings, State};
use nginx_sys::{
    ngx_http_upstream_rr_peer_t, ngx_http_upstream_rr_peers_t, ngx_rwlock_rlock, ngx_rwlock_unlock, ngx_rwlock_wlock,
    ngx_str_t, ngx_uint_t,
};

/// The bit of `down` that takes a server out for all but its sticky sessions (`NGX_HTTP_UPSTREAM_DRAINING`, 1.29.6).
pub const DRAINING: ngx_uint_t = 8;

/// Whether a server has all the connections it may have: by what is set at run time, over all workers, or else by its configured
/// `max_conns` (0 for no limit). `conns` is nginx's count, `ours` that of its record.
///
/// nginx's count is never put right after the sudden death of a worker, ours is, but it also has the connections of workers
/// from before a reload. So by the configuration a server is full when both say so.
pub fn full(control: &Control, max_conns: u64, conns: ngx_uint_t, ours: impl FnOnce() -> Option<u32>) -> bool {
    match control.max_conns {
        Some(most) => most.value != 0 && ours().is_some_and(|count| count >= most.value),
        None => {
            let reached = |count: u64| count >= max_conns;
            max_conns != 0 && reached(conns as u64) && ours().is_none_or(|count| reached(u64::from(count)))
        }
    }
}

/// A list of servers under its shared lock; unlocked when dropped.
///
/// Without `zone` the list belongs to this worker alone and there is nothing to lock. Nothing that may panic, allocate or
/// take long belongs in its life: a worker that dies there leaves the lock behind.
pub struct RrPeers(*mut ngx_http_upstream_rr_peers_t);

impl RrPeers {
    /// Locks `peers` for reading.
    ///
    /// # Safety
    /// `peers` must be a live list of the upstream in use; this worker must hold no list lock.
    pub unsafe fn read(peers: *mut ngx_http_upstream_rr_peers_t) -> Self {
        // SAFETY: the list is live; the lock word is nginx's own and is used by nginx's own function.
        unsafe {
            if !(*peers).shpool.is_null() {
                ngx_rwlock_rlock(&raw mut (*peers).rwlock);
            }
        }
        Self(peers)
    }

    /// The counter of changes to the upstream's servers; 0 where they cannot change.
    pub fn config(&self) -> ngx_uint_t {
        #[cfg(ngx_ge_1_27_3)]
        // SAFETY: the list is live and locked; `config` is null without `zone`.
        unsafe {
            if !(*self.0).config.is_null() {
                return ptr::read_volatile((*self.0).config);
            }
        }
        0
    }

    /// How many servers the list has.
    pub fn number(&self) -> usize {
        // SAFETY: the list is live and locked.
        unsafe { ptr::read_volatile(&raw const (*self.0).number) }
    }

    /// Whether this is the only server of the upstream, which nginx never counts out.
    pub fn single(&self) -> bool {
        // SAFETY: the list is live and locked; the bit changes only under the exclusive lock.
        unsafe { (*self.0).single() != 0 }
    }

    /// The servers in order.
    pub fn iter(&self) -> impl Iterator<Item = RrPeer> {
        // SAFETY: the list is live and locked, so that its links stay as they are.
        let first = unsafe { (*self.0).peer };
        let some = |peer: *mut ngx_http_upstream_rr_peer_t| (!peer.is_null()).then_some(RrPeer(peer));
        // SAFETY: as above; every link leads to a server of the list or is null.
        core::iter::successors(some(first), move |peer| some(unsafe { (*peer.0).next }))
    }

    /// Locks one server of this list for writing; unlocked when dropped.
    pub fn lock(&self, peer: RrPeer) -> Locked<'_> {
        // SAFETY: list and server are live under the list's lock; order list, then server is nginx's own.
        unsafe {
            if !(*self.0).shpool.is_null() {
                ngx_rwlock_wlock(&raw mut (*peer.0).lock);
            }
        }
        Locked { list: self, peer }
    }
}

impl Drop for RrPeers {
    fn drop(&mut self) {
        // SAFETY: `read` locked it, and the list outlives the request that uses it.
        unsafe {
            if !(*self.0).shpool.is_null() {
                ngx_rwlock_unlock(&raw mut (*self.0).rwlock);
            }
        }
    }
}

/// One server of a list. Its values may be changed by other workers at any time, so each is read once, whole.
#[derive(Clone, Copy)]
pub struct RrPeer(*mut ngx_http_upstream_rr_peer_t);

/// Getters of word-sized fields that other workers may be writing.
macro_rules! volatile {
    ($($(#[$doc:meta])* $name:ident: $field:ident -> $ty:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(self) -> $ty {
            // SAFETY: views are made and used under the list's lock, or while its generation is checked to be unchanged,
            // so the server is live; the field is one aligned word.
            unsafe { ptr::read_volatile(&raw const (*self.0).$field) }
        }
    )*};
}

impl RrPeer {
    volatile! {
        /// The printable address.
        name: name -> ngx_str_t;
        /// The server as configured.
        server: server -> ngx_str_t;
        /// Configured weight.
        weight: weight -> nginx_sys::ngx_int_t;
        /// Connections held, as nginx counts them.
        conns: conns -> ngx_uint_t;
        /// `max_conns`, 0 for no limit.
        max_conns: max_conns -> ngx_uint_t;
        /// Failures within `fail_timeout`.
        fails: fails -> ngx_uint_t;
        /// When the server was last tried, s.
        checked: checked -> nginx_sys::time_t;
        /// `max_fails`, 0 for never counted out.
        max_fails: max_fails -> ngx_uint_t;
        /// `fail_timeout`, s.
        fail_timeout: fail_timeout -> nginx_sys::time_t;
        /// Bits: 1 down, 8 draining (sticky sessions only).
        down: down -> ngx_uint_t;
    }

    /// The address as the system has it.
    ///
    /// # Safety
    /// To be used only while the list is locked.
    pub unsafe fn sockaddr<'a>(self) -> &'a [u8] {
        // SAFETY: written once, before the server is in the list; nginx keeps `socklen` bytes there.
        unsafe { slice::from_raw_parts((*self.0).sockaddr.cast(), (*self.0).socklen as usize) }
    }

    /// The session id that `sticky` knows the server by.
    #[cfg(ngx_ge_1_29_6)]
    pub fn sid(self) -> ngx_str_t {
        // SAFETY: as for the other fields; written once, before the server is in the list.
        unsafe { ptr::read_volatile(&raw const (*self.0).sid) }
    }

    /// What the configuration says of it.
    pub fn configured(self) -> Settings {
        let state = match self.down() {
            0 => State::Up,
            bits if bits & !DRAINING == 0 => State::Drain,
            _ => State::Down,
        };
        let weight = u32::try_from(self.weight().max(0)).unwrap_or(u32::MAX);
        Settings { weight, state, max_conns: self.max_conns() as u64 }
    }

    /// Whether nginx counts the server out for its failures at `now` (s).
    pub fn counted_out(self, now: nginx_sys::time_t) -> bool {
        let limit = self.max_fails();
        limit != 0 && self.fails() >= limit && now.saturating_sub(self.checked()) <= self.fail_timeout()
    }

    /// A view of a server.
    ///
    /// # Safety
    /// `peer` must be a live server for as long as the view is used.
    pub unsafe fn new(peer: *mut ngx_http_upstream_rr_peer_t) -> Self {
        Self(peer)
    }

    /// The pointer, for nginx's own functions.
    pub fn as_ptr(self) -> *mut ngx_http_upstream_rr_peer_t {
        self.0
    }
}

/// One server under its own lock and its list's.
pub struct Locked<'a> {
    list: &'a RrPeers,
    peer: RrPeer,
}

impl Locked<'_> {
    /// Takes a connection: what round robin does when it has chosen. `trial` marks the server as being tried at `now` (s), so
    /// that nginx forgets its failures on success; without it that happens once per `fail_timeout`.
    pub fn take(&mut self, now: nginx_sys::time_t, trial: bool) {
        let peer = self.peer.0;
        // SAFETY: the server is live and this worker holds its lock; nobody else writes these fields now.
        unsafe {
            (*peer).conns = (*peer).conns.wrapping_add(1);
            #[cfg(ngx_ge_1_27_3)]
            {
                (*peer).refs = (*peer).refs.wrapping_add(1);
            }
            if trial || now.saturating_sub((*peer).checked) > (*peer).fail_timeout {
                (*peer).checked = now;
            }
        }
    }

    /// Makes the attempt under way say nothing about the server: neither a failure nor proof that it is well.
    pub fn withdraw_trial(&mut self) {
        let peer = self.peer.0;
        // SAFETY: as above.
        unsafe { (*peer).accessed = (*peer).accessed.max((*peer).checked) };
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: `RrPeers::lock` locked it; the list's lock is still held.
        unsafe {
            if !(*self.list.0).shpool.is_null() {
                ngx_rwlock_unlock(&raw mut (*self.peer.0).lock);
            }
        }
    }
}
