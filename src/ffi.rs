//! nginx's pointers as safe views: strings, configurations, error messages; lists of servers and TLS in files of their own.
//!
//! Most of the module's `unsafe` is here, so that the request path reads like ordinary code. What nginx's macros do (locks,
//! reference counts, configuration look-ups) is written out, because bindings carry no macros. Nothing here decides anything.

mod peers;
pub mod tls;

use core::ffi::c_void;
use core::fmt;
use core::ptr;
use core::slice;

use nginx_sys::{
    NGX_LOG_EMERG, NGX_LOG_WARN, ngx_conf_log_error, ngx_conf_t, ngx_cycle_t, ngx_http_conf_ctx_t, ngx_http_module,
    ngx_http_upstream_srv_conf_t, ngx_palloc, ngx_pool_t, ngx_str_t, ngx_uint_t,
};

pub use peers::{RrPeer, RrPeers, full};

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
