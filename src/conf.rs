//! Every directive of the module, and where nginx's stages of reading a configuration call it.
//!
//! Text becomes values here and nowhere else; the words of `labor` itself are read in `conf/parameters.rs`, and how the
//! directive gets along with others in its block is `conf/method.rs`. Nothing here is on the way of a request.

mod api;
mod breaker;
mod check;
mod doors;
mod hash;
mod location;
mod method;
mod parameters;
mod wrappers;

use core::ffi::{c_char, c_void};
use core::ptr;

use labor_core::Params;
use nginx_sys::{
    NGX_CONF_1MORE, NGX_CONF_ANY, NGX_CONF_NOARGS, NGX_CONF_TAKE1, NGX_ERROR, NGX_HTTP_LOC_CONF,
    NGX_HTTP_LOC_CONF_OFFSET, NGX_HTTP_MAIN_CONF, NGX_HTTP_MAIN_CONF_OFFSET, NGX_HTTP_SRV_CONF_OFFSET,
    NGX_HTTP_UPS_CONF, NGX_OK, ngx_command_t, ngx_conf_t, ngx_int_t, ngx_pagesize, ngx_parse_size, ngx_parse_time,
    ngx_uint_t,
};
use ngx::core::Pool;
use ngx::ngx_string;

use crate::ffi;
use crate::settings::{LocationConf, MainConf, UpstreamConf};
use crate::status::{self, Format};
use crate::{filter, vars, zone};

/// What a directive's handler returns when all is well.
const CONF_OK: *mut c_char = ptr::null_mut();
/// What it returns when it has said itself what is wrong (nginx's `NGX_CONF_ERROR`).
const CONF_ERROR: *mut c_char = ptr::without_provenance_mut(usize::MAX);

static mut COMMANDS: [ngx_command_t; 9] = [
    ngx_command_t {
        name: ngx_string!("labor"),
        // Any number of words: which of them fit together is checked with better words than nginx's.
        type_: (NGX_HTTP_UPS_CONF | NGX_CONF_ANY) as ngx_uint_t,
        set: Some(labor),
        conf: NGX_HTTP_SRV_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t {
        name: ngx_string!("labor_breaker"),
        type_: (NGX_HTTP_UPS_CONF | NGX_CONF_ANY) as ngx_uint_t,
        set: Some(breaker::labor_breaker),
        conf: NGX_HTTP_SRV_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t {
        name: ngx_string!("labor_check"),
        type_: (NGX_HTTP_UPS_CONF | NGX_CONF_ANY) as ngx_uint_t,
        set: Some(check::labor_check),
        conf: NGX_HTTP_SRV_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t {
        name: ngx_string!("labor_hash"),
        type_: (NGX_HTTP_UPS_CONF | NGX_CONF_1MORE) as ngx_uint_t,
        set: Some(hash::labor_hash),
        conf: NGX_HTTP_SRV_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t {
        name: ngx_string!("labor_zone"),
        type_: (NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE1) as ngx_uint_t,
        set: Some(labor_zone),
        conf: NGX_HTTP_MAIN_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t {
        name: ngx_string!("labor_status"),
        type_: (NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS | NGX_CONF_TAKE1) as ngx_uint_t,
        set: Some(labor_status),
        conf: NGX_HTTP_LOC_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t {
        name: ngx_string!("labor_api"),
        type_: (NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS | NGX_CONF_TAKE1) as ngx_uint_t,
        set: Some(api::labor_api),
        conf: NGX_HTTP_LOC_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t {
        name: ngx_string!("labor_state"),
        type_: (NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE1) as ngx_uint_t,
        set: Some(api::labor_state),
        conf: NGX_HTTP_MAIN_CONF_OFFSET,
        offset: 0,
        post: ptr::null_mut(),
    },
    ngx_command_t::empty(),
];

/// The directives, for the module table.
pub const fn commands() -> *mut ngx_command_t {
    (&raw mut COMMANDS).cast()
}

/// Before `http {}` is read: the variables, so that `log_format` and others find them.
pub unsafe extern "C" fn preconfiguration(cf: *mut ngx_conf_t) -> ngx_int_t {
    vars::add(cf)
}

/// After `http {}` is read: the filters, and a look at who answers and who may change things.
pub unsafe extern "C" fn postconfiguration(cf: *mut ngx_conf_t) -> ngx_int_t {
    // SAFETY: nginx hands over the configuration being read, inside `http {}`.
    if let Some(main) = unsafe { ffi::main_conf(cf) } {
        if location::lost(cf, &main.claims) {
            return NGX_ERROR as ngx_int_t;
        }
        doors::check(cf, &main.doors);
    }
    filter::install();
    NGX_OK as ngx_int_t
}

/// Settings of `http {}`, all at their defaults.
pub unsafe extern "C" fn create_main_conf(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: nginx calls with the configuration being read, whose pool lives as long as its cycle.
    unsafe { Pool::from_ngx_pool((*cf).pool) }.allocate(MainConf::default()).cast()
}

/// Settings of one block, all at their defaults.
pub unsafe extern "C" fn create_srv_conf(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: as for the main configuration.
    unsafe { Pool::from_ngx_pool((*cf).pool) }.allocate(UpstreamConf::default()).cast()
}

/// Settings of one location, all at their defaults.
pub unsafe extern "C" fn create_loc_conf(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: as for the main configuration.
    unsafe { Pool::from_ngx_pool((*cf).pool) }.allocate(LocationConf::default()).cast()
}

/// A location takes over what it does not say itself.
pub unsafe extern "C" fn merge_loc_conf(cf: *mut ngx_conf_t, parent: *mut c_void, child: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_loc_conf` made.
    let confs = unsafe { (parent.cast::<LocationConf>().as_ref(), child.cast::<LocationConf>().as_mut()) };
    if let (Some(parent), Some(child)) = confs {
        location::inherit(cf, parent, child);
    }
    CONF_OK
}

/// Every upstream is initialised by now: checks that ours still are, and sizes the shared memory for them.
pub unsafe extern "C" fn init_main_conf(cf: *mut ngx_conf_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_main_conf` made.
    let Some(main) = (unsafe { conf.cast::<MainConf>().as_mut() }) else { return CONF_ERROR };
    let replaced = main.upstreams.iter().any(|us| method::replaced(cf, *us));
    if !hash::check(cf, &main.hashes) || replaced || breaker::is_alone(cf, &main.breakers) || check::is_wrong(cf, main)
    {
        return CONF_ERROR;
    }
    // Without a `labor` there is nothing to remember.
    if main.upstreams.is_empty() && main.zone_size != 0 {
        ffi::conf_warn(cf, format_args!("\"labor_zone\" has no effect, no upstream has \"labor\""));
    }
    if main.upstreams.is_empty() || zone::add(cf, main).is_ok() { CONF_OK } else { CONF_ERROR }
}

/// `labor [header | last_byte] [policy=…] [half_life=…] [explore=…] [failure=…] [slow_start=…];` in `upstream {}`.
unsafe extern "C" fn labor(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_srv_conf` made for this block, inside `http {}`.
    let (Some(conf), Some(main)) = (unsafe { (conf.cast::<UpstreamConf>().as_mut(), ffi::main_conf(cf)) }) else {
        return CONF_ERROR;
    };
    if conf.enabled {
        return c"is duplicate".as_ptr().cast_mut();
    }
    // SAFETY: a directive is being handled.
    match parameters::parse(unsafe { ffi::args(cf) }.skip(1), parse_time) {
        Ok(params) => {
            let check = conf.check.as_ref().map(|check| check.params);
            conf.params = Params { breaker: conf.breaker.flatten(), check, ..params };
        }
        Err(message) => {
            ffi::conf_error(cf, format_args!("{message}"));
            return CONF_ERROR;
        }
    }
    let Ok(us) = method::install(cf) else { return CONF_ERROR };
    conf.enabled = true;
    main.upstreams.push(us);
    CONF_OK
}

/// `labor_zone size;` in `http {}`.
unsafe extern "C" fn labor_zone(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_main_conf` made.
    let Some(main) = (unsafe { conf.cast::<MainConf>().as_mut() }) else { return CONF_ERROR };
    if main.zone_size != 0 {
        return c"is duplicate".as_ptr().cast_mut();
    }
    // SAFETY: a directive is being handled; nginx made sure of one word behind it.
    let Some(word) = (unsafe { ffi::args(cf) }).nth(1) else { return CONF_ERROR };
    let mut text = ffi::ngx_str(word);
    // SAFETY: the function only reads the string; the page size is set at start-up.
    let (size, page) = unsafe { (ngx_parse_size(&raw mut text), ngx_pagesize) };
    let word = String::from_utf8_lossy(word);
    match usize::try_from(size) {
        // nginx's own convention for zones.
        Ok(size) if size >= page.saturating_mul(8) => {
            main.zone_size = size;
            CONF_OK
        }
        Ok(_) => {
            ffi::conf_error(
                cf,
                format_args!("zone \"{word}\" is too small, it must have at least 8 pages of {page} bytes"),
            );
            CONF_ERROR
        }
        Err(_) => {
            ffi::conf_error(cf, format_args!("invalid zone size \"{word}\", it must be a size such as \"1m\""));
            CONF_ERROR
        }
    }
}

/// `labor_status [html | json | prometheus];` in `location {}`.
unsafe extern "C" fn labor_status(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_loc_conf` made; a directive is being handled.
    let (conf, word) = unsafe { (conf.cast::<LocationConf>().as_mut(), ffi::args(cf).nth(1)) };
    let Some(conf) = conf else { return CONF_ERROR };
    let format = match word {
        None => None,
        Some(b"html") => Some(Format::Html),
        Some(b"json") => Some(Format::Json),
        Some(b"prometheus") => Some(Format::Metrics),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            ffi::conf_error(
                cf,
                format_args!("invalid format \"{other}\", it must be \"html\", \"json\" or \"prometheus\""),
            );
            return CONF_ERROR;
        }
    };
    location::claim(cf, conf, c"labor_status", status::handler(format))
}

/// nginx's own reading of a time, in milliseconds.
fn parse_time(text: &[u8]) -> Option<u64> {
    let mut text = ffi::ngx_str(text);
    // SAFETY: the function only reads the string.
    u64::try_from(unsafe { ngx_parse_time(&raw mut text, 0) }).ok()
}
