//! What the configuration says, as the rest of the module reads it.
//!
//! Plain data, here so that the request path, the zone and the status pages can share it without knowing directives.
//! Parsing and checking is `conf.rs`, which alone writes these values; nothing changes them once the configuration is read.

use core::ffi::CStr;
use core::ptr;
use std::path::PathBuf;

use labor_core::Params;
use labor_core::affinity::{Affinity, Secret};
use labor_core::params::{BreakerParams, CheckParams};
use labor_probe_format::http::Expected;
use nginx_sys::{
    ngx_http_complex_value_t, ngx_http_conf_ctx_t, ngx_http_core_loc_conf_t, ngx_http_request_t,
    ngx_http_upstream_srv_conf_t, ngx_int_t, ngx_shm_zone_t, ngx_uint_t,
};

use crate::upstream::Lists;

/// nginx's type of a content handler.
pub type Handler = unsafe extern "C" fn(*mut ngx_http_request_t) -> ngx_int_t;

/// Settings of the whole `http {}`.
pub struct MainConf {
    /// Upstreams with `labor`, in the order of the configuration.
    pub upstreams: Vec<*mut ngx_http_upstream_srv_conf_t>,
    /// Size that `labor_zone` asks for, bytes; 0 lets the configuration decide.
    pub zone_size: usize,
    /// Where to keep what is set at run time; none for nowhere.
    pub state_file: Option<PathBuf>,
    /// Blocks with `labor_breaker`, which need `labor` as well.
    pub breakers: Vec<Block>,
    /// The same with `labor_hash`.
    pub hashes: Vec<Block>,
    /// Blocks with `labor_check`, likewise.
    pub checks: Vec<Block>,
    /// Locations with `labor_api write=on`.
    pub doors: Vec<Door>,
    /// Locations that this module answers.
    pub claims: Vec<Claim>,
    /// The shared memory zone, null until every `server` line is known.
    pub zone: *mut ngx_shm_zone_t,
}

impl Default for MainConf {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            zone_size: 0,
            state_file: None,
            breakers: Vec::new(),
            hashes: Vec::new(),
            checks: Vec::new(),
            doors: Vec::new(),
            claims: Vec::new(),
            zone: ptr::null_mut(),
        }
    }
}

/// Settings of one location.
#[derive(Default)]
pub struct LocationConf {
    /// What `labor_api` says there.
    pub api: Option<Api>,
    /// Who answers there, if it is this module.
    pub handler: Option<Handler>,
}

/// What `labor_api` says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Api {
    /// Whether anything may be changed.
    pub write: bool,
    /// Where nginx keeps `$request_id`.
    pub request_id: ngx_uint_t,
}

/// A location that this module answers, by whose order, and where that stands in the configuration.
pub struct Claim {
    /// nginx's settings of the location.
    pub location: *const ngx_http_core_loc_conf_t,
    /// What answers.
    pub handler: Handler,
    /// The directive.
    pub directive: &'static CStr,
    /// File and line.
    pub place: String,
}

/// An `upstream {}` with a directive that needs `labor`, and where that stands in the configuration.
pub struct Block {
    /// Its settings.
    pub conf: *const UpstreamConf,
    /// File and line.
    pub place: String,
}

impl Block {
    /// The first that has no `labor`. Call when all blocks are read.
    pub fn without_labor(blocks: &[Self]) -> Option<&Self> {
        // SAFETY: settings of blocks live as long as the configuration, as do these.
        blocks.iter().find(|block| unsafe { block.conf.as_ref() }.is_some_and(|conf| !conf.enabled))
    }
}

/// A location through which things may be changed, and where it stands in the configuration.
pub struct Door {
    /// Configurations of its server and of itself.
    pub context: ngx_http_conf_ctx_t,
    /// File and line.
    pub place: String,
}

/// What `labor_hash` says.
#[derive(Clone, Copy)]
pub struct Hash {
    /// The key, compiled; it lives as long as the configuration.
    pub key: *mut ngx_http_complex_value_t,
    /// The numbers.
    pub affinity: Affinity,
    /// A secret that several hosts share; none for that of the zone.
    pub secret: Option<Secret>,
}

/// What a check asks a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An HTTP request.
    Http,
    /// Whether it takes a connection.
    Tcp,
    /// A call of the gRPC health protocol.
    Grpc,
}

/// What `labor_check` says.
pub struct Check {
    /// The numbers.
    pub params: CheckParams,
    /// What is asked.
    pub kind: Kind,
    /// Over TLS.
    pub tls: bool,
    /// Another port than the server's.
    pub port: Option<u16>,
    /// Another host than the server's name.
    pub host: Option<Vec<u8>>,
    /// Method and URI of an HTTP request.
    pub method: Vec<u8>,
    pub uri: Vec<u8>,
    /// What its answer is held against.
    pub expected: Expected,
    /// The gRPC service that is asked for; empty for the server as a whole.
    pub service: Vec<u8>,
}

/// Settings of one `upstream {}` (nginx also makes one for `http {}` and each `server {}`, where it stays unused).
pub struct UpstreamConf {
    /// What the directive says.
    pub params: Params,
    /// What `labor_hash` says, where the block has it.
    pub hash: Option<Hash>,
    /// Whether the block has the directive.
    pub enabled: bool,
    /// What `labor_breaker` says, if the block has it: `Some(None)` for off.
    pub breaker: Option<Option<BreakerParams>>,
    /// What `labor_check` says, where the block has it.
    pub check: Option<Check>,
    /// Whether nginx has called our `init_upstream`: if not, another method took its place.
    pub initialised: bool,
    /// This worker's state of the lists, null until first used; opaque to all but the request path.
    pub local: *mut Lists,
}

impl Default for UpstreamConf {
    fn default() -> Self {
        Self {
            params: Params::default(),
            hash: None,
            enabled: false,
            breaker: None,
            check: None,
            initialised: false,
            local: ptr::null_mut(),
        }
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
