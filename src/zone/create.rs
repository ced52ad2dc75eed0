//! Making the zone: asked for while the configuration is read, filled in once nginx has mapped it, found again by reloads.
//!
//! A reload with the same size finds the memory as it was. Only another size makes nginx map fresh memory: then what was
//! learned is copied once, and the old memory is left alone, because the rest of the reload may still fail. Runs in the
//! master. Not here: what workers do with it (`zone.rs`).

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use labor_core::slots::Record;
use labor_core::{Group, Peer, slots};
use nginx_sys::{
    NGX_ERROR, NGX_LOG_EMERG, NGX_LOG_NOTICE, NGX_LOG_WARN, NGX_OK, ngx_conf_t, ngx_cycle, ngx_cycle_t, ngx_int_t,
    ngx_log_t, ngx_pagesize, ngx_shared_memory_add, ngx_shm_zone_t, ngx_slab_calloc_locked, ngx_slab_pool_t, ngx_str_t,
};
use ngx::{ngx_conf_log_error, ngx_log_error, ngx_string};

use super::layout::{self, Map, Shape};
use super::size;
use crate::settings::MainConf;

/// The zone's name for nginx. The colon keeps it apart from zones that users name after their upstreams.
const NAME: ngx_str_t = ngx_string!("labor:state");

/// Adds the shared zone, sized for the configuration, once every `server` line is known. Says itself what is wrong.
pub fn add(cf: *mut ngx_conf_t, main: &mut MainConf) -> Result<(), ()> {
    if main.upstreams.is_empty() {
        return Ok(());
    }
    // SAFETY: called while this configuration is read, after nginx's upstream module has seen all of it.
    let need = unsafe { size::need(cf, &main.upstreams) };
    let least = need.zone(1).unwrap_or(usize::MAX);
    let size = if main.zone_size > 0 { main.zone_size } else { need.automatic().unwrap_or(usize::MAX) };
    if size < least || size == usize::MAX {
        ngx_conf_log_error!(
            NGX_LOG_EMERG,
            cf,
            "zone \"labor\" is too small: {size} bytes available, {least} bytes needed for {} servers and {} workers, \
             old ones included; raise \"labor_zone\" or remove it to have the size computed",
            need.servers,
            need.workers
        );
        return Err(());
    }
    let mut name = NAME;
    // SAFETY: nginx copies the name's pointer, which points to a static, and compares the tag.
    let zone = unsafe { ngx_shared_memory_add(cf, &raw mut name, size, tag()) };
    // SAFETY: null or a zone of this cycle.
    let Some(zone) = (unsafe { zone.as_mut() }) else { return Err(()) };
    zone.init = Some(init);
    zone.data = ptr::without_provenance_mut(need.workers);
    main.zone = zone;
    Ok(())
}

/// What tells our zones from others: the address of the module, which another .so does not share.
fn tag() -> *mut c_void {
    (&raw mut crate::ngx_http_labor_module).cast()
}

/// nginx has mapped the zone: `data` is what the same zone of the old cycle had, null when the memory is fresh.
unsafe extern "C" fn init(zone: *mut ngx_shm_zone_t, data: *mut c_void) -> ngx_int_t {
    // SAFETY: nginx calls this with a zone of the cycle being built, its pool initialised, in the master.
    let (zone, pool) = unsafe { (&mut *zone, &mut *(*zone).shm.addr.cast::<ngx_slab_pool_t>()) };
    let workers = zone.data.addr();
    // SAFETY: a zone of ours that was initialised before keeps its allocation for as long as it is mapped.
    let old = unsafe { (!data.is_null()).then(|| mapped(zone)).flatten() };
    if let Some(map) = old {
        map.header.configurations.fetch_add(1, Ordering::Relaxed);
        if workers > map.workers.len() {
            ngx_log_error!(
                NGX_LOG_WARN,
                zone.shm.log,
                "labor: zone has {} worker slots and {workers} are wanted: some workers may not learn until nginx is \
                 restarted or \"labor_zone\" asks for another size",
                map.workers.len()
            );
        }
        zone.data = pool.data;
        return NGX_OK as ngx_int_t;
    }
    if !pool.data.is_null() {
        ngx_log_error!(NGX_LOG_NOTICE, zone.shm.log, "labor: shared memory of another build, starting afresh");
    }
    // Only a single process without a master has the old memory in use here, and nginx is about to unmap it.
    super::detach();
    let Some(map) = fresh(pool, workers) else {
        ngx_log_error!(NGX_LOG_EMERG, zone.shm.log, "labor: zone of {} bytes cannot be laid out", zone.shm.size);
        return NGX_ERROR as ngx_int_t;
    };
    map.header.configurations.store(1, Ordering::Relaxed);
    zone.data = pool.data;
    // SAFETY: during init the global cycle is still the old one, or an empty one at the first start.
    if let Some(previous) = unsafe { find(ngx_cycle) }.filter(|z| !ptr::eq(*z, zone)) {
        take_over(previous, &map, zone.shm.log);
    }
    NGX_OK as ngx_int_t
}

/// Takes all the pool has and makes it ours.
fn fresh(pool: &mut ngx_slab_pool_t, workers: usize) -> Option<Map> {
    // SAFETY: a number that nginx sets at start.
    let bytes = pool.pfree.checked_mul(unsafe { ngx_pagesize })?;
    let base = if pool.data.is_null() {
        // SAFETY: the pool is initialised, and only this process has it yet.
        unsafe { ngx_slab_calloc_locked(pool, bytes) }.cast::<u8>()
    } else {
        return None;
    };
    if base.is_null() {
        return None;
    }
    pool.data = base.cast();
    let shape = Shape::fitting(workers, bytes)?;
    // The low bits of the clock: two mappings of one master begin far apart.
    let generation = crate::worker::now() as u32;
    // SAFETY: a page-aligned allocation of `bytes` zeroed bytes, not yet seen by another process.
    unsafe { layout::create(base, shape, generation) }
}

/// Copies what was learned in the zone of the old cycle. That one stays as it is: its workers go on, and so do they if the
/// rest of this reload fails.
fn take_over(old: &ngx_shm_zone_t, new: &Map, log: *mut ngx_log_t) {
    // SAFETY: a zone of the old cycle, still mapped.
    let Some(from) = (unsafe { mapped(old) }) else {
        ngx_log_error!(NGX_LOG_NOTICE, log, "labor: shared memory of another build, starting afresh");
        return;
    };
    let now = crate::worker::now();
    // Before the copy: what is set there from now on might miss it.
    from.header.superseded.store(now, Ordering::Release);
    super::secret::carry(&from, new, crate::worker::seed);
    let copy_group = |to: &Group, from: &Group| to.carry_from(from);
    let copy_peer = |to: &Peer, from: &Peer| to.carry_from(from);
    slots::carry(from.groups, new.groups, &new.header.group_reach, now, copy_group);
    let (copied, left) = slots::carry(from.peers, new.peers, &new.header.peer_reach, now, copy_peer);
    pairs(from.groups, new.groups, &new.header.group_reach, |old, to| {
        if let Some((to, from)) = new.rings.get(to).zip(from.rings.get(old)) {
            to.carry_from(from);
        }
    });
    pairs(from.peers, new.peers, &new.header.peer_reach, |old, to| {
        let ledgers = new.ledgers.get(to).zip(from.ledgers.get(old));
        let generations = new.peers.get(to).zip(from.peers.get(old));
        if let (Some((to, from)), Some((new, old))) = (ledgers, generations)
            && from.is_of(old.generation.load(Ordering::Acquire))
        {
            to.carry_from(from, new.generation.load(Ordering::Acquire));
        }
    });
    ngx_log_error!(
        NGX_LOG_NOTICE,
        log,
        "labor: zone has another size, what {copied} servers have taught is carried over ({left} found no room); \
         requests in flight in old workers are not counted in the new ones"
    );
}

/// Calls `with(place in old, place in new)` for every record of `old` that `new` has as well.
fn pairs<R: Record>(old: &[R], new: &[R], reach: &AtomicU32, with: impl Fn(usize, usize)) {
    for (from, record) in old.iter().enumerate() {
        let key = record.key().load(Ordering::Acquire);
        if key != 0
            && key != slots::EMPTYING
            && let Some(to) = slots::find(new, reach, key)
        {
            with(from, to as usize);
        }
    }
}

/// The zone of ours in `cycle`.
///
/// # Safety
/// `cycle` is null or a cycle whose list of zones is initialised or zeroed.
pub unsafe fn find<'a>(cycle: *mut ngx_cycle_t) -> Option<&'a ngx_shm_zone_t> {
    // SAFETY: by contract.
    let mut part = unsafe { &raw const cycle.as_ref()?.shared_memory.part };
    while !part.is_null() {
        // SAFETY: a part of nginx's list of zones: `nelts` elements of this type.
        let (elements, count, next) = unsafe { ((*part).elts.cast::<ngx_shm_zone_t>(), (*part).nelts, (*part).next) };
        for i in 0..count {
            // SAFETY: in bounds.
            let zone = unsafe { &*elements.add(i) };
            if zone.tag == tag() && zone.shm.name.as_bytes() == NAME.as_bytes() && !zone.shm.addr.is_null() {
                return Some(zone);
            }
        }
        part = next;
    }
    None
}

/// What lies in a zone of ours that is mapped.
///
/// # Safety
/// nginx has mapped the zone and initialised its pool, and does not unmap it while the result is used.
pub unsafe fn mapped(zone: &ngx_shm_zone_t) -> Option<Map> {
    // SAFETY: the pool is the first thing in every zone.
    let pool = unsafe { &*zone.shm.addr.cast::<ngx_slab_pool_t>() };
    let bytes = pool.end.addr().checked_sub(pool.data.addr()).filter(|_| !pool.data.is_null())?;
    // SAFETY: `data` is our allocation, written nowhere else; it lies within the pool and is accessed as `Map` only.
    unsafe { layout::map(pool.data.cast(), bytes) }
}
