//! `keepalive` (up to nginx 1.29.6) and `sticky` (from 1.29.6 on) before `labor`.
//!
//! Such a directive notes the method of its block when it is read, round robin if there is none yet, and calls it later. A
//! method that follows would replace the wrapper, which would silently be without effect. So the method is put where the
//! wrapper noted round robin. That field is private to nginx's modules, at the same place in all versions concerned; it is
//! changed only if it holds what it must hold, else the order is refused. From 1.29.7 on `keepalive` wraps every upstream after
//! all methods are set and needs no help.

use core::ffi::CStr;

use nginx_sys::{
    ngx_conf_t, ngx_http_upstream_init_round_robin, ngx_http_upstream_srv_conf_t, ngx_int_t, ngx_module_t,
};

use crate::upstream;

/// A method's function that initialises an upstream.
type InitUpstream = unsafe extern "C" fn(*mut ngx_conf_t, *mut ngx_http_upstream_srv_conf_t) -> ngx_int_t;

/// The wrapping modules by name, and the word of their settings that notes the method.
const WRAPPERS: &[(&CStr, usize)] = &[
    // Behind four numbers and two queues of two links, from 1.19.10 on.
    #[cfg(not(ngx_ge_1_29_7))]
    (c"ngx_http_upstream_keepalive_module", 8),
    #[cfg(ngx_ge_1_29_6)]
    (c"ngx_http_upstream_sticky_module", 0),
];

/// Takes the place of round robin behind a wrapper; `false` if none noted it. Should yet another method have followed the
/// wrapper, ours is never called, which is noticed when the upstreams are initialised.
pub fn adopt(cf: *mut ngx_conf_t, us: *mut ngx_http_upstream_srv_conf_t) -> bool {
    WRAPPERS.iter().any(|(name, word)| {
        // SAFETY: the module is looked up by name, so its index leads to its own settings of this block, made before the block
        // was read and longer than `word` words in the versions the list is compiled for.
        unsafe {
            let Some(module) = find(cf, name) else { return false };
            let settings = (*(*us).srv_conf.add((*module).ctx_index)).cast::<usize>();
            if settings.is_null() {
                return false;
            }
            let noted = settings.add(*word);
            let found = *noted == ngx_http_upstream_init_round_robin as InitUpstream as usize;
            if found {
                *noted = upstream::init_upstream as InitUpstream as usize;
            }
            found
        }
    })
}

/// The module called `name`, if this nginx has it. (Naming its symbol would make ours unloadable where it is left out.)
///
/// # Safety
/// `cf` must be the configuration being read.
unsafe fn find(cf: *mut ngx_conf_t, name: &CStr) -> Option<*mut ngx_module_t> {
    // SAFETY: the cycle's modules end with null; each has a name that ends in 0.
    unsafe {
        let mut next = (*(*cf).cycle).modules;
        while !(*next).is_null() {
            if CStr::from_ptr((**next).name) == name {
                return Some(*next);
            }
            next = next.add(1);
        }
    }
    None
}
