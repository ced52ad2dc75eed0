//! nginx's pointers as safe views: strings, a list of servers under its lock, one server, configurations, error messages.
//!
//! Most of the module's `unsafe` is here, so that the request path reads like ordinary code. What nginx's macros do (locks,
//! reference counts, configuration look-ups) is written out, because bindings carry no macros. Nothing here decides anything.

use core::ffi::c_void;
use core::fmt;
use core::ptr;
use core::slice;

use labor_core::control::{Control, Settings, State};
use nginx_sys::{
    NGX_LOG_EMERG, NGX_LOG_WARN, ngx_conf_log_error, ngx_conf_t, ngx_cycle_t, ngx_http_conf_ctx_t, ngx_http_module,
    ngx_http_upstream_rr_peer_t, ngx_http_upstream_rr_peers_t, ngx_http_upstream_srv_conf_t, ngx_palloc, ngx_pool_t,
    ngx_rwlock_rlock, ngx_rwlock_unlock, ngx_rwlock_wlock, ngx_str_t, ngx_uint_t,
};

use crate::ngx_http_labor_module;
use crate::settings::{MainConf, UpstreamConf};

/// What the C compiler says about nginx's structures; comparing it with the bindings is all it is for.
#[allow(dead_code, missing_docs, non_upper_case_globals)]
mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// The bytes of an nginx string; empty when it has none.
///
/// # Safety
/// The string's memory must stay unchanged for `'a`.
pub unsafe fn bytes<'a>(text: ngx_str_t) -> &'a [u8] {
    if text.data.is_null() {
        return &[];
    }
    // SAFETY: nginx keeps `len` bytes at `data`; the caller vouches for their life.
    unsafe { slice::from_raw_parts(text.data, text.len) }
}

/// An nginx string over `text`, for calls that only read it.
pub fn ngx_str(text: &[u8]) -> ngx_str_t {
    ngx_str_t { len: text.len(), data: text.as_ptr().cast_mut() }
}

/// Uninitialised memory for `count` values from `pool`, null on failure. Their destructors never run.
///
/// # Safety
/// `pool` must be a live pool.
pub unsafe fn palloc<T>(pool: *mut ngx_pool_t, count: usize) -> *mut T {
    const { assert!(align_of::<T>() <= align_of::<usize>() && !core::mem::needs_drop::<T>()) };
    let Some(size) = size_of::<T>().checked_mul(count) else { return ptr::null_mut() };
    // SAFETY: the pool is live; nginx aligns to the word, which suffices for the word-sized types stored here.
    unsafe { ngx_palloc(pool, size) }.cast()
}

/// Logs a configuration error with the place that nginx is reading.
pub fn conf_error(cf: *mut ngx_conf_t, message: fmt::Arguments<'_>) {
    conf_log(cf, NGX_LOG_EMERG, message);
}

/// Logs a doubt about the configuration that is no error.
pub fn conf_warn(cf: *mut ngx_conf_t, message: fmt::Arguments<'_>) {
    conf_log(cf, NGX_LOG_WARN, message);
}

fn conf_log(cf: *mut ngx_conf_t, level: u32, message: fmt::Arguments<'_>) {
    let text = message.to_string();
    let mut text = ngx_str(text.as_bytes());
    // SAFETY: `cf` is the configuration nginx handed to us; "%V" reads the string before the call returns.
    unsafe { ngx_conf_log_error(level as ngx_uint_t, cf, 0, c"%V".as_ptr(), &raw mut text) };
}

/// The words of the directive being read, its name included.
///
/// # Safety
/// `cf` must be the configuration nginx is reading, inside a directive's handler; the words live as long as its cycle.
pub unsafe fn args<'a>(cf: *mut ngx_conf_t) -> impl Iterator<Item = &'a [u8]> {
    // SAFETY: `cf->args` is an array of strings while a directive is handled.
    let words = unsafe {
        let args = (*cf).args;
        slice::from_raw_parts((*args).elts.cast::<ngx_str_t>(), (*args).nelts)
    };
    // SAFETY: the strings come from the configuration's pool and are not changed.
    words.iter().map(|word| unsafe { bytes(*word) })
}

/// This module's slot in an array of configurations.
///
/// # Safety
/// `confs` must be null or an array of module configurations filled by nginx.
pub unsafe fn slot(confs: *mut *mut c_void) -> *mut c_void {
    if confs.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: nginx sized the array for every HTTP module, ours included, before any of our callbacks can run.
    unsafe { *confs.add(ngx_http_labor_module.ctx_index) }
}

/// The settings of the `http {}` being read.
///
/// # Safety
/// `cf` must be the configuration nginx is reading, inside `http {}`. No other reference may be in use.
pub unsafe fn main_conf<'a>(cf: *mut ngx_conf_t) -> Option<&'a mut MainConf> {
    // SAFETY: inside `http {}` the context is an `ngx_http_conf_ctx_t`; `create_main_conf` filled our slot.
    unsafe {
        let ctx = (*cf).ctx.cast::<ngx_http_conf_ctx_t>();
        slot(ctx.as_ref()?.main_conf).cast::<MainConf>().as_mut()
    }
}

/// The settings of a cycle's `http {}`; `None` when it has none.
///
/// # Safety
/// `cycle` must be a live cycle whose configuration is read. No other reference may be in use.
pub unsafe fn cycle_conf<'a>(cycle: *mut ngx_cycle_t) -> Option<&'a mut MainConf> {
    // SAFETY: `conf_ctx` has one entry per module; that of the HTTP core module is null without `http {}`.
    unsafe {
        let ctx = *(*cycle).conf_ctx.add(ngx_http_module.index);
        let ctx = ctx.cast::<ngx_http_conf_ctx_t>();
        slot(ctx.as_ref()?.main_conf).cast::<MainConf>().as_mut()
    }
}

/// The settings of an upstream; null for implicit ones.
///
/// # Safety
/// `us` must be a live upstream configuration.
pub unsafe fn upstream_conf(us: *mut ngx_http_upstream_srv_conf_t) -> *mut UpstreamConf {
    // SAFETY: `srv_conf` is null for implicit upstreams, else an array filled by nginx.
    unsafe { slot((*us).srv_conf) }.cast()
}

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
