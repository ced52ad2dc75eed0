//! `labor` as the method of its block: taking the place, and noticing who else wants it.
//!
//! nginx itself only warns when a second method takes the place of the first. Here the combination is refused, because the
//! loser would be silently without effect. Modules that wrap a method (`keepalive`, `sticky`) are no second method. The
//! request path is not here.

use nginx_sys::{
    NGX_HTTP_UPSTREAM_BACKUP, NGX_HTTP_UPSTREAM_CREATE, NGX_HTTP_UPSTREAM_DOWN, NGX_HTTP_UPSTREAM_FAIL_TIMEOUT,
    NGX_HTTP_UPSTREAM_MAX_CONNS, NGX_HTTP_UPSTREAM_MAX_FAILS, NGX_HTTP_UPSTREAM_WEIGHT, NGX_LOG_EMERG, ngx_conf_t,
    ngx_http_conf_ctx_t, ngx_http_upstream_module, ngx_http_upstream_srv_conf_t, ngx_log_error_core, ngx_uint_t,
};

use super::wrappers;
use crate::ffi;
use crate::upstream;

/// All `server` parameters nginx knows: the method supports each.
const FLAGS: u32 = NGX_HTTP_UPSTREAM_CREATE
    | NGX_HTTP_UPSTREAM_WEIGHT
    | NGX_HTTP_UPSTREAM_MAX_FAILS
    | NGX_HTTP_UPSTREAM_FAIL_TIMEOUT
    | NGX_HTTP_UPSTREAM_DOWN
    | NGX_HTTP_UPSTREAM_BACKUP
    | NGX_HTTP_UPSTREAM_MAX_CONNS;
#[cfg(ngx_ge_1_27_3)]
const MODIFY: u32 = nginx_sys::NGX_HTTP_UPSTREAM_MODIFY;
#[cfg(not(ngx_ge_1_27_3))]
const MODIFY: u32 = 0;

/// Makes `labor` the method of the block being read. The error is logged.
pub fn install(cf: *mut ngx_conf_t) -> Result<*mut ngx_http_upstream_srv_conf_t, ()> {
    // SAFETY: in `upstream {}` the context is an `ngx_http_conf_ctx_t`, and the upstream module's configuration of the block
    // is in its place before any directive inside is read.
    let us = unsafe {
        let ctx = (*cf).ctx.cast::<ngx_http_conf_ctx_t>();
        let confs = (*ctx).srv_conf;
        (*confs.add(ngx_http_upstream_module.ctx_index)).cast::<ngx_http_upstream_srv_conf_t>()
    };
    // SAFETY: as above.
    let block = unsafe { us.as_mut() }.ok_or(())?;
    if block.peer.init_upstream.is_none() {
        block.peer.init_upstream = Some(upstream::init_upstream);
    } else if !wrappers::adopt(cf, us) {
        ffi::conf_error(
            cf,
            format_args!(
                "load balancing method is already set, \"labor\" must be the only method of its block: remove the other, or \
                 place \"labor\" first if that is a module that wraps methods"
            ),
        );
        return Err(());
    }
    block.flags = (FLAGS | MODIFY) as ngx_uint_t;
    Ok(us)
}

/// Whether another method took our place after `labor`; if so, that is logged. Call when every upstream is initialised.
pub fn replaced(cf: *mut ngx_conf_t, us: *mut ngx_http_upstream_srv_conf_t) -> bool {
    // SAFETY: `us` was noted while its block was read and lives as long as the configuration.
    let (conf, block) = unsafe { (ffi::upstream_conf(us).as_ref(), &mut *us) };
    if conf.is_some_and(|conf| conf.initialised) {
        return false;
    }
    // SAFETY: the format takes what is given: two strings (the file's name ends in 0) and an unsigned number.
    unsafe {
        ngx_log_error_core(
            NGX_LOG_EMERG as ngx_uint_t,
            (*cf).log,
            0,
            c"load balancing method \"labor\" of upstream \"%V\" in %s:%ui is redefined by another method, remove one of them"
                .as_ptr(),
            &raw mut block.host,
            block.file_name,
            ngx_uint_t::from(block.line),
        );
    }
    true
}
