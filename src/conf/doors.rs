//! Whether a location with `labor_api write=on` is open to anybody, which draws a warning.
//!
//! What guards a location belongs to modules of nginx that may be absent from a build: they are found by name, and their
//! settings are read as the words that they begin with in every version. Runs when everything is merged.

use core::ffi::{CStr, c_void};
use core::ptr;

use nginx_sys::{
    NGX_HTTP_DELETE, NGX_HTTP_MODULE, NGX_HTTP_PATCH, NGX_LOG_WARN, ngx_array_t, ngx_conf_t, ngx_http_conf_addr_t,
    ngx_http_conf_port_t, ngx_http_core_loc_conf_t, ngx_http_core_main_conf_t, ngx_http_core_module,
    ngx_http_core_srv_conf_t, ngx_module_t, ngx_str_t, ngx_uint_t,
};
use ngx::ngx_log_error;

use crate::ffi;
use crate::settings::Door;

/// Warns of every open door.
pub fn check(cf: *mut ngx_conf_t, doors: &[Door]) {
    for door in doors {
        if !is_guarded(cf, door) && !is_local(door) {
            // SAFETY: a configuration is being read.
            let log = unsafe { (*cf).log };
            ngx_log_error!(
                NGX_LOG_WARN,
                log,
                "\"labor_api write=on\" without \"allow\" and \"deny\", \"auth_basic\", \"auth_request\" or a server that only \
                 listens on unix sockets: whoever reaches it can take servers out of use, in {}",
                door.place
            );
        }
    }
}

/// Whether something asks who the client is before it may change anything.
fn is_guarded(cf: *mut ngx_conf_t, door: &Door) -> bool {
    // SAFETY: the context is a location's, and all its configurations are merged.
    unsafe {
        let confs = door.context.loc_conf;
        let core = &*conf(confs, &raw const ngx_http_core_module).cast::<ngx_http_core_loc_conf_t>();
        // A bit that is set in the mask is a method that `limit_except` is about.
        let writes = NGX_HTTP_PATCH | NGX_HTTP_DELETE;
        let limited = core.limit_except & writes == writes && !core.limit_except_loc_conf.is_null();
        has_rules(cf, confs) || (limited && has_rules(cf, core.limit_except_loc_conf))
    }
}

/// Whether `allow`, `deny`, `auth_basic` or `auth_request` hold there.
///
/// # Safety
/// `confs` is a merged location's array of configurations.
unsafe fn has_rules(cf: *mut ngx_conf_t, confs: *mut *mut c_void) -> bool {
    // SAFETY: by contract, and by the layouts named here, which are those of every nginx since 1.22: the access module has
    // arrays for IPv4, IPv6 and unix sockets (64-bit Linux has all three); auth_basic begins with its realm, a value that
    // begins with its text; auth_request begins with its URI.
    unsafe {
        let find = |name: &CStr| module(cf, name).map(|module| conf(confs, module)).filter(|conf| !conf.is_null());
        let access = find(c"ngx_http_access_module")
            .is_some_and(|conf| (0..3).any(|i| !conf.cast::<*mut ngx_array_t>().add(i).read().is_null()));
        let basic = find(c"ngx_http_auth_basic_module").is_some_and(|conf| {
            let realm = conf.cast::<*const ngx_str_t>().read();
            !realm.is_null() && realm.addr() != usize::MAX && ffi::bytes(*realm) != b"off"
        });
        let request = find(c"ngx_http_auth_request_module").is_some_and(|conf| {
            let uri = conf.cast::<ngx_str_t>().read();
            uri.len > 0 && !uri.data.is_null()
        });
        access || basic || request
    }
}

/// Whether the server of the location listens on unix sockets only.
fn is_local(door: &Door) -> bool {
    // SAFETY: the context is complete; while a configuration is read its ports are known and made of nginx's arrays.
    unsafe {
        let main = &*conf(door.context.main_conf, &raw const ngx_http_core_module).cast::<ngx_http_core_main_conf_t>();
        let server = conf(door.context.srv_conf, &raw const ngx_http_core_module).cast::<ngx_http_core_srv_conf_t>();
        let Some(ports) = main.ports.as_ref() else { return false };
        let listens = |port: &ngx_http_conf_port_t| {
            elements::<ngx_http_conf_addr_t>(&port.addrs)
                .any(|addr| elements::<*mut ngx_http_core_srv_conf_t>(&addr.servers).any(|own| ptr::eq(*own, server)))
        };
        let mut own = elements::<ngx_http_conf_port_t>(ports).filter(|port| listens(port)).peekable();
        own.peek().is_some() && own.all(|port| usize::try_from(port.family) == Ok(libc::AF_UNIX as usize))
    }
}

/// What an array of nginx holds.
///
/// # Safety
/// It was made with elements of `T`, or is empty.
unsafe fn elements<'a, T: 'a>(array: &ngx_array_t) -> impl Iterator<Item = &'a T> {
    let (first, count) = (array.elts.cast::<T>(), if array.elts.is_null() { 0 } else { array.nelts });
    // SAFETY: by contract.
    (0..count).map(move |i| unsafe { &*first.add(i) })
}

/// A module's configuration in an array of them.
///
/// # Safety
/// The array is nginx's, the module one of HTTP that is loaded.
unsafe fn conf(confs: *mut *mut c_void, module: *const ngx_module_t) -> *mut c_void {
    // SAFETY: by contract.
    unsafe { confs.add((*module).ctx_index).read() }
}

/// The HTTP module of that name, if this nginx has it.
fn module(cf: *mut ngx_conf_t, name: &CStr) -> Option<*const ngx_module_t> {
    // SAFETY: the list of modules ends by null; names are strings of C.
    unsafe {
        let list = (*(*cf).cycle).modules;
        (0..)
            .map(|i| (*list.add(i)).cast_const())
            .take_while(|module| !module.is_null())
            .find(|module| (**module).type_ == NGX_HTTP_MODULE as ngx_uint_t && CStr::from_ptr((**module).name) == name)
    }
}
