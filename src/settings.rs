//! What the configuration says, as the rest of the module reads it.
//!
//! Plain data, here so that the request path, the zone and the status pages can share it without knowing directives.
//! Parsing and checking is `conf.rs`, which alone writes these values; nothing changes them once the configuration is read.

use core::ptr;

use labor_core::Params;
use nginx_sys::{ngx_http_upstream_srv_conf_t, ngx_shm_zone_t};

use crate::upstream::Lists;

/// Settings of the whole `http {}`.
pub struct MainConf {
    /// Upstreams with `labor`, in the order of the configuration.
    pub upstreams: Vec<*mut ngx_http_upstream_srv_conf_t>,
    /// Size that `labor_zone` asks for, bytes; 0 lets the configuration decide.
    pub zone_size: usize,
    /// The shared memory zone, null until every `server` line is known.
    pub zone: *mut ngx_shm_zone_t,
}

impl Default for MainConf {
    fn default() -> Self {
        Self { upstreams: Vec::new(), zone_size: 0, zone: ptr::null_mut() }
    }
}

/// Settings of one `upstream {}` (nginx also makes one for `http {}` and each `server {}`, where it stays unused).
pub struct UpstreamConf {
    /// What the directive says.
    pub params: Params,
    /// Whether the block has the directive.
    pub enabled: bool,
    /// Whether nginx has called our `init_upstream`: if not, another method took its place.
    pub initialised: bool,
    /// This worker's state of the lists, null until first used; opaque to all but the request path.
    pub local: *mut Lists,
}

impl Default for UpstreamConf {
    fn default() -> Self {
        Self { params: Params::default(), enabled: false, initialised: false, local: ptr::null_mut() }
    }
}

impl Drop for UpstreamConf {
    fn drop(&mut self) {
        if !self.local.is_null() {
            // SAFETY: the request path made it with `Box` and uses it only while the configuration lives.
            drop(unsafe { Box::from_raw(self.local) });
        }
    }
}
