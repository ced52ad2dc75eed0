//! How large the shared memory must be for a configuration, and whether what `labor_zone` gives is enough.
//!
//! Here because it counts `server` lines and knows nginx's slab; where things lie is `layout.rs`.

use nginx_sys::{
    ngx_array_t, ngx_conf_t, ngx_core_conf_t, ngx_core_module, ngx_http_upstream_server_t,
    ngx_http_upstream_srv_conf_t, ngx_ncpu, ngx_pagesize, ngx_slab_page_t,
};

use super::layout::{Shape, peers_for};

/// Smallest automatic size: room for some hundred servers, so that ordinary changes of a configuration do not change the size
/// (another size is a fresh mapping, which the requests in flight of old workers do not reach).
const SMALLEST: usize = 1 << 20;

/// Room for a name whose addresses come by `resolve`: DNS answers over UDP rarely carry more.
const RESOLVED: usize = 16;

/// Worker slots per configured worker: a reload leaves the old generation running as long as its requests last, so there must
/// be room for several generations at once.
const GENERATIONS: usize = 8;

/// Fewest worker slots: `worker_processes` may stand after `http {}`, or grow by a reload that keeps the zone.
const FEWEST_WORKERS: usize = 64;

/// What a configuration needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Servers: addresses in the configuration, and room for those to be resolved.
    pub servers: usize,
    /// Lists of servers: each upstream has one, and one more for its backup servers.
    pub lists: usize,
    /// Worker slots.
    pub workers: usize,
}

impl Need {
    /// Bytes of zone, nginx's own part included, for `times` the servers.
    pub fn zone(self, times: usize) -> Option<usize> {
        let shape =
            Shape { workers: self.workers, peers: self.servers.max(peers_for(self.lists)).max(1).checked_mul(times)? };
        // SAFETY: a number that nginx sets at start.
        let page = unsafe { ngx_pagesize };
        let pages = shape.bytes()?.div_ceil(page);
        // The slab keeps a word triple for each page, and its own header, slots and statistics in less than one.
        pages.checked_mul(page.checked_add(size_of::<ngx_slab_page_t>())?)?.checked_add(page.checked_mul(2)?)
    }

    /// The size to ask nginx for when the configuration does not say: a power of two, at least twice the need.
    pub fn automatic(self) -> Option<usize> {
        self.zone(2)?.max(SMALLEST).checked_next_power_of_two()
    }
}

/// Counts what the configuration needs.
///
/// # Safety
/// `cf` is the configuration being read, `upstreams` are its upstreams, complete.
pub unsafe fn need(cf: *mut ngx_conf_t, upstreams: &[*mut ngx_http_upstream_srv_conf_t]) -> Need {
    // SAFETY: handed on.
    let counts = upstreams.iter().map(|u| unsafe { servers_of(*u) });
    let (servers, lists) =
        counts.fold((0_usize, 0_usize), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)));
    // SAFETY: the core module's configuration is always there, created before any `http {}` is read.
    let (configured, cpus) = unsafe {
        let core = (*(*cf).cycle).conf_ctx.add(ngx_core_module.index).read().cast::<ngx_core_conf_t>();
        (if core.is_null() { -1 } else { (*core).worker_processes }, ngx_ncpu)
    };
    // Not set (yet) is -1; the default is one worker and `auto` one a CPU. Never fewer than CPUs: the slots are made once,
    // and `auto` may come with a later reload.
    let workers = usize::try_from(configured.max(cpus)).unwrap_or(1).max(1);
    Need { servers, lists, workers: workers.saturating_mul(GENERATIONS).max(FEWEST_WORKERS) }
}

/// Servers and lists of an upstream.
///
/// # Safety
/// `uscf` is null or points to a complete upstream.
unsafe fn servers_of(uscf: *mut ngx_http_upstream_srv_conf_t) -> (usize, usize) {
    // SAFETY: by contract.
    let Some(uscf) = (unsafe { uscf.as_ref() }) else { return (0, 0) };
    // SAFETY: nginx's array of servers, or null in a block without.
    let Some(array) = (unsafe { uscf.servers.cast::<ngx_array_t>().as_ref() }) else { return (0, 1) };
    // SAFETY: nginx made the array with elements of this type.
    let lines = unsafe { array.as_slice::<ngx_http_upstream_server_t>() };
    let lists = if lines.iter().any(|line| line.backup() != 0) { 2 } else { 1 };
    (lines.iter().map(addresses_of).fold(0, usize::saturating_add), lists)
}

/// Addresses a `server` line stands for.
fn addresses_of(server: &ngx_http_upstream_server_t) -> usize {
    #[cfg(ngx_ge_1_27_3)]
    if server.host.len > 0 {
        return RESOLVED.max(server.naddrs);
    }
    // A name that does not resolve at start is refused by nginx where `resolve` is not known.
    if server.naddrs == 0 { RESOLVED } else { server.naddrs }
}
