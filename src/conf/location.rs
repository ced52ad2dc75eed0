//! Locations that this module answers: taking their handler, and noticing who else wants it.
//!
//! nginx lets the last directive that sets a handler win without a word; here the loser would be without effect, so the
//! combination is refused. What the directives themselves say is not here.

use core::ffi::{CStr, c_char};
use core::ptr;

use nginx_sys::{NGX_LOG_EMERG, ngx_conf_t, ngx_http_conf_ctx_t, ngx_http_core_loc_conf_t, ngx_http_core_module};
use ngx::ngx_log_error;

use super::{CONF_ERROR, CONF_OK};
use crate::ffi;
use crate::settings::{Claim, Handler, LocationConf};

/// The core module's configuration of the location being read or merged.
pub fn of<'a>(cf: *mut ngx_conf_t) -> Option<&'a mut ngx_http_core_loc_conf_t> {
    // SAFETY: inside `http {}` the context has the core module's configuration of the location.
    unsafe {
        let context = (*cf).ctx.cast::<ngx_http_conf_ctx_t>();
        (*(*context).loc_conf.add(ngx_http_core_module.ctx_index)).cast::<ngx_http_core_loc_conf_t>().as_mut()
    }
}

/// File and line of the directive being read.
pub fn place(cf: *mut ngx_conf_t) -> String {
    // SAFETY: a directive is being handled, and so is its file.
    unsafe {
        let file = (*cf).conf_file;
        format!("{}:{}", String::from_utf8_lossy(ffi::bytes((*file).file.name)), (*file).line)
    }
}

/// Makes `handler` answer the location being read, by order of `directive`. What is wrong is said as nginx expects it of a
/// directive's own handler.
pub fn claim(cf: *mut ngx_conf_t, conf: &mut LocationConf, directive: &'static CStr, handler: Handler) -> *mut c_char {
    // SAFETY: a directive is being handled, inside `http {}`.
    let (Some(main), Some(location)) = (unsafe { ffi::main_conf(cf) }, of(cf)) else { return CONF_ERROR };
    let own = main.claims.iter().find(|claim| ptr::eq(claim.location, location));
    if own.is_some_and(|claim| claim.directive == directive) {
        return c"is duplicate".as_ptr().cast_mut();
    }
    let name = directive.to_string_lossy();
    if location.handler.is_some() {
        ffi::conf_error(
            cf,
            format_args!("\"{name}\" must be the only handler of its location, remove what else answers there"),
        );
        return CONF_ERROR;
    }
    location.handler = Some(handler);
    conf.handler = Some(handler);
    main.claims.push(Claim { location, handler, directive, place: place(cf) });
    CONF_OK
}

/// `limit_except` makes a location of its own, which nginx gives no handler; without this it would serve files.
pub fn inherit(cf: *mut ngx_conf_t, parent: &LocationConf, child: &mut LocationConf) {
    let Some(location) = of(cf) else { return };
    let limits = location.lmt_excpt() != 0;
    if child.api.is_none() && (limits || location.noname() != 0) {
        child.api = parent.api;
    }
    if limits && location.handler.is_none() {
        location.handler = parent.handler;
    }
}

/// Whether another directive took a location from us after ours; if so, that is logged. Call when everything is merged.
pub fn lost(cf: *mut ngx_conf_t, claims: &[Claim]) -> bool {
    // SAFETY: locations live as long as the configuration, which is being read.
    let (log, taken) = unsafe {
        let is_ours = |claim: &&Claim| (*claim.location).handler.is_some_and(|h| ptr::fn_addr_eq(h, claim.handler));
        ((*cf).log, claims.iter().find(|claim| !is_ours(claim)))
    };
    if let Some(claim) = taken {
        let name = claim.directive.to_string_lossy();
        ngx_log_error!(
            NGX_LOG_EMERG,
            log,
            "\"{name}\" has no effect because another directive of its location answers there, remove one of them, in {}",
            claim.place
        );
    }
    taken.is_some()
}
