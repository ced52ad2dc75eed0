//! `labor_api` and `labor_state`: who may change what at run time, and where that is kept.
//!
//! What the directives say is stored here; a location that anybody may write through is found by `conf/doors.rs`.

use core::ffi::{CStr, c_char, c_void};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nginx_sys::{
    ngx_command_t, ngx_conf_full_name, ngx_conf_t, ngx_http_conf_ctx_t, ngx_http_core_loc_conf_t,
    ngx_http_get_variable_index, ngx_int_t,
};
use ngx::ngx_string;

use super::{CONF_ERROR, CONF_OK, location};
use crate::settings::{Api, Door, LocationConf, MainConf};
use crate::{api, ffi};

/// `labor_api [write=on|off];` in `location {}`.
pub unsafe extern "C" fn labor_api(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_loc_conf` made, inside `http {}`.
    let (conf, main) = unsafe { (conf.cast::<LocationConf>().as_mut(), ffi::main_conf(cf)) };
    let (Some(conf), Some(main), Some(location)) = (conf, main, location::of(cf)) else { return CONF_ERROR };
    if conf.api.is_some() {
        return c"is duplicate".as_ptr().cast_mut();
    }
    // SAFETY: a directive is being handled.
    let write = match (unsafe { ffi::args(cf) }).nth(1) {
        None | Some(b"write=off") => false,
        Some(b"write=on") => true,
        Some(word) => {
            let word = String::from_utf8_lossy(word);
            ffi::conf_error(cf, format_args!("invalid parameter \"{word}\", it must be \"write=on\" or \"write=off\""));
            return CONF_ERROR;
        }
    };
    if is_unnamed(location) {
        ffi::conf_error(
            cf,
            format_args!(
                "\"labor_api\" cannot be in a location given by regular expression or in a named location, its paths begin \
                 with the location: use one such as \"location /api/\""
            ),
        );
        return CONF_ERROR;
    }
    let mut name = ngx_string!("request_id");
    // SAFETY: nginx copies the name's pointer, which points to a static.
    let Ok(request_id) = usize::try_from(unsafe { ngx_http_get_variable_index(cf, &raw mut name) }) else {
        return CONF_ERROR;
    };
    conf.api = Some(Api { write, request_id });
    if write {
        // SAFETY: a directive is being handled: its context is that of the location.
        let context = unsafe { *(*cf).ctx.cast::<ngx_http_conf_ctx_t>() };
        main.doors.push(Door { context, place: location::place(cf) });
    }
    location::claim(cf, conf, c"labor_api", api::handler)
}

/// Whether the location has no path that a request's path could begin with.
fn is_unnamed(location: &ngx_http_core_loc_conf_t) -> bool {
    #[cfg(ngx_pcre)]
    let by_expression = !location.regex.is_null();
    // Without PCRE nginx has no such locations.
    #[cfg(not(ngx_pcre))]
    let by_expression = false;
    by_expression || location.named() != 0
}

/// `labor_state FILE;` in `http {}`.
pub unsafe extern "C" fn labor_state(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_main_conf` made.
    let Some(main) = (unsafe { conf.cast::<MainConf>().as_mut() }) else { return CONF_ERROR };
    if main.state_file.is_some() {
        return c"is duplicate".as_ptr().cast_mut();
    }
    // SAFETY: a directive is being handled; nginx made sure of one word behind it.
    let Some(word) = (unsafe { ffi::args(cf) }).nth(1) else { return CONF_ERROR };
    if word.is_empty() || word.ends_with(b"/") {
        ffi::conf_error(cf, format_args!("\"{}\" is no name of a file", String::from_utf8_lossy(word)));
        return CONF_ERROR;
    }
    let mut name = ffi::ngx_str(word);
    // SAFETY: nginx makes the name absolute by nginx's own prefix, in memory of the configuration.
    if unsafe { ngx_conf_full_name((*cf).cycle, &raw mut name, 0) } != nginx_sys::NGX_OK as ngx_int_t {
        return CONF_ERROR;
    }
    // SAFETY: nginx ends its names by a zero beyond their length.
    let path = PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name.data.cast()) }.to_bytes()));
    match path.parent().map(Path::metadata) {
        Some(Ok(directory)) if directory.is_dir() && !path.is_dir() => {}
        _ => {
            let path = path.display();
            ffi::conf_error(cf, format_args!("\"labor_state {path}\" must be a file in a directory that exists"));
            return CONF_ERROR;
        }
    }
    main.state_file = Some(path);
    CONF_OK
}
