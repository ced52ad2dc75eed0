//! The shared memory zone: made for a configuration, kept over reloads, read by every worker.
//!
//! nginx puts its slab pool first and keeps it; one allocation from the pool, as large as it gives, is ours (`zone/layout.rs`
//! says what lies where). Nothing in it belongs to a configuration, so a reload finds it as it was, and old and new workers
//! write it at once. Only another size makes nginx map fresh memory: then what was learned is copied once. Not here: how big
//! (`zone/size.rs`), which worker owns which row of cells (`worker.rs`), and anything about balancing.

mod layout;
mod listed;
mod recent;
mod size;

use core::cell::Cell as Slot;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;
use std::thread::LocalKey;

use labor_core::slots::{self, Record};
use labor_core::time::{Micros, SECOND, since};
use labor_core::{Group, Peer, Shared};
use nginx_sys::{
    NGX_ERROR, NGX_LOG_EMERG, NGX_LOG_NOTICE, NGX_LOG_WARN, NGX_OK, ngx_conf_t, ngx_cycle, ngx_cycle_t, ngx_int_t,
    ngx_log_t, ngx_pagesize, ngx_shared_memory_add, ngx_shm_zone_t, ngx_slab_calloc_locked, ngx_slab_pool_t, ngx_str_t,
};
use ngx::{ngx_conf_log_error, ngx_log_error, ngx_string};

use crate::settings::MainConf;
pub use layout::Map;
use layout::Shape;
use listed::Listed;
use recent::Recent;

/// The zone's name for nginx. The colon keeps it apart from zones that users name after their upstreams.
const NAME: ngx_str_t = ngx_string!("labor:state");

/// A server that no worker has confirmed for so long is gone: longer than any DNS answer that comes and goes.
const GONE: Micros = 600 * SECOND;

/// When the zone is full, a server unconfirmed for this long makes room. Workers confirm every second or so; a minute is
/// beyond any stall.
const REPLACEABLE: Micros = 60 * SECOND;

/// Servers come and go by DNS many times a second at worst; the log hears of a full zone once a minute.
const WARN_EVERY: Micros = 60 * SECOND;

/// Shown for lists without a record; nothing is ever learned there.
static NOTHING: LazyLock<Group> = LazyLock::new(Group::default);

thread_local! {
    /// This worker's view. A thread local because an nginx worker runs its event loop in one thread.
    static VIEW: Slot<Option<View>> = const { Slot::new(None) };
    static PEERS: Listed = Listed::default();
    static GROUPS: Listed = Listed::default();
    static RECENT: Recent = Recent::default();
    /// Grows when lists must be made again.
    static EPOCH: Slot<u32> = const { Slot::new(0) };
}

/// The shared memory as this worker uses it.
#[derive(Clone, Copy)]
pub struct View {
    map: Map,
    /// This worker's slot; none when all were taken, and then nothing is counted or learned.
    worker: Option<usize>,
    /// Size of the whole zone, bytes.
    size: usize,
    log: *mut ngx_log_t,
}

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
        zone.data = pool.data;
        return NGX_OK as ngx_int_t;
    }
    if !pool.data.is_null() {
        ngx_log_error!(NGX_LOG_NOTICE, zone.shm.log, "labor: shared memory of another build, starting afresh");
    }
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
    let copy_group = |to: &Group, from: &Group| to.carry_from(from);
    let copy_peer = |to: &Peer, from: &Peer| to.carry_from(from);
    slots::carry(from.groups, new.groups, &new.header.group_reach, now, copy_group);
    let (copied, left) = slots::carry(from.peers, new.peers, &new.header.peer_reach, now, copy_peer);
    ngx_log_error!(
        NGX_LOG_NOTICE,
        log,
        "labor: zone has another size, what {copied} servers have taught is carried over ({left} found no room); \
         requests in flight in old workers are not counted in the new ones"
    );
}

/// The zone of ours in `cycle`.
///
/// # Safety
/// `cycle` is null or a cycle whose list of zones is initialised or zeroed.
unsafe fn find<'a>(cycle: *mut ngx_cycle_t) -> Option<&'a ngx_shm_zone_t> {
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
unsafe fn mapped(zone: &ngx_shm_zone_t) -> Option<Map> {
    // SAFETY: the pool is the first thing in every zone.
    let pool = unsafe { &*zone.shm.addr.cast::<ngx_slab_pool_t>() };
    let bytes = pool.end.addr().checked_sub(pool.data.addr()).filter(|_| !pool.data.is_null())?;
    // SAFETY: `data` is our allocation, written nowhere else; it lies within the pool and is accessed as `Map` only.
    unsafe { layout::map(pool.data.cast(), bytes) }
}

/// This worker's view; `None` in a process that balances nothing (master, helpers, `nginx -t`).
pub fn view() -> Option<View> {
    VIEW.get()
}

/// Makes the zone of `cycle` this process's, with the worker slot that `claim` finds. Lists made before must be made again.
pub fn attach(cycle: *mut ngx_cycle_t, claim: impl FnOnce(&Map) -> Option<usize>) -> Option<View> {
    // SAFETY: called by nginx's process and module callbacks with a complete cycle, whose zones stay mapped until the process
    // ends or (single process) until the next call of this.
    let view = unsafe {
        find(cycle).and_then(|zone| {
            let map = mapped(zone)?;
            Some(View { map, worker: claim(&map), size: zone.shm.size, log: (*cycle).log })
        })
    };
    PEERS.with(Listed::clear);
    GROUPS.with(Listed::clear);
    RECENT.with(Recent::clear);
    if let Some(view) = &view {
        RECENT.with(|r| r.note(view.map.peers, crate::worker::now()));
    }
    EPOCH.set(EPOCH.get().wrapping_add(1));
    VIEW.set(view);
    view
}

/// Ends this process's use of the zone.
pub fn detach() {
    VIEW.set(None);
}

/// Grows when this worker's records are to be asked for again: the memory is another, or a record was lost to a long stop.
pub fn epoch() -> u32 {
    EPOCH.get()
}

impl View {
    /// Finds or claims the record of a list (`labor_core::key::group_key`); `None` when the zone is full.
    pub fn group(&self, key: u64, now: Micros) -> Option<u32> {
        let claimed = slots::claim(self.map.groups, &self.map.header.group_reach, key, now);
        Self::book(&GROUPS, claimed, key)
    }

    /// Finds or claims a server's record (`labor_core::key::peer_key`) and confirms it from now on. In a full zone the server
    /// that has been gone for longest makes room; `None` when there is none such.
    pub fn peer(&self, key: u64, now: Micros) -> Option<u32> {
        let claim = || slots::claim(self.map.peers, &self.map.header.peer_reach, key, now);
        let claimed = claim().or_else(|| {
            // A second look within the same second finds the same servers.
            let look = PEERS.with(Listed::refused) == 0;
            look.then(|| slots::evict(self.map.peers, REPLACEABLE, now, |i| self.map.idle(i))).flatten()?;
            claim()
        });
        Self::book(&PEERS, claimed, key)
    }

    fn book(list: &'static LocalKey<Listed>, slot: Option<u32>, key: u64) -> Option<u32> {
        match slot {
            Some(slot) => list.with(|l| l.add(slot, slots::usable_key(key))),
            None => list.with(Listed::refuse),
        }
        slot
    }

    /// This worker no longer lists the server of `slot`; it expires unless another does.
    pub fn release(&self, slot: u32) {
        PEERS.with(|l| l.remove(slot));
    }

    /// What a pick in the list of `group` sees. Without a group, or without a worker slot, nothing is counted or learned.
    pub fn shared(&self, group: Option<u32>) -> Shared<'static> {
        let cells = self.worker.map_or(&[] as &[_], |w| self.map.row(w));
        match group.and_then(|g| self.map.groups.get(g as usize)) {
            Some(group) => Shared { group, peers: self.map.peers, cells },
            None => Shared { group: &NOTHING, peers: &[], cells: &[] },
        }
    }

    /// The record of a server, if it has one.
    pub fn known(&self, key: u64) -> Option<u32> {
        slots::find(self.map.peers, &self.map.header.peer_reach, slots::usable_key(key))
    }

    /// The record of a list, if it has one.
    pub fn known_group(&self, key: u64) -> Option<u32> {
        slots::find(self.map.groups, &self.map.header.group_reach, slots::usable_key(key))
    }

    /// What is known of the server of `slot`.
    pub fn record(&self, slot: u32) -> Option<&'static Peer> {
        self.map.peers.get(slot as usize)
    }

    /// Requests sent to the server of `slot` in the last 10 to 20 seconds, by all workers.
    pub fn recent(&self, slot: u32) -> u64 {
        self.record(slot).map_or(0, |peer| RECENT.with(|r| r.of(slot, peer)))
    }

    /// The memory itself, for the workers' housekeeping and for status pages.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// This worker's slot.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Figures of the zone.
    pub fn usage(&self) -> Usage {
        let taken = |key: &AtomicU64| key.load(Ordering::Relaxed) != 0;
        Usage {
            size: self.size,
            peers: self.map.peers.iter().filter(|p| taken(p.key())).count(),
            peers_max: self.map.peers.len(),
            groups: self.map.groups.iter().filter(|g| taken(g.key())).count(),
            workers: self.map.workers.iter().filter(|w| taken(w)).count(),
            workers_max: self.map.workers.len(),
            configurations: self.map.header.configurations.load(Ordering::Relaxed),
        }
    }

    /// Once a second: confirms what this worker lists, frees what nobody has confirmed for long.
    pub fn tend(&self, now: Micros) {
        let lost = PEERS.with(|l| l.confirm(self.map.peers, now)) | GROUPS.with(|l| l.confirm(self.map.groups, now));
        if lost {
            EPOCH.set(EPOCH.get().wrapping_add(1));
        }
        slots::expire(self.map.peers, GONE, now, |i| self.map.idle(i));
        slots::expire(self.map.groups, GONE, now, |_| true);
        RECENT.with(|r| r.note(self.map.peers, now));
        let refused = PEERS.with(Listed::forgive).max(GROUPS.with(Listed::forgive));
        if refused > 0 {
            self.warn_full(refused, now);
        }
    }

    /// Says at most once a minute, over all workers, that `refused` servers of this one found no room.
    fn warn_full(&self, refused: u32, now: Micros) {
        let warned = &self.map.header.warned;
        let last = warned.load(Ordering::Acquire);
        let due = last == 0 || since(last, now) >= WARN_EVERY;
        if due && warned.compare_exchange(last, now, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let usage = self.usage();
            ngx_log_error!(
                NGX_LOG_WARN,
                self.log,
                "labor: zone is full ({} bytes): {} servers known, {} possible; learning is off for {refused} servers of this \
                 worker; raise \"labor_zone\"",
                usage.size,
                usage.peers,
                usage.peers_max
            );
        }
    }
}

/// How full the zone is.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Whole zone, bytes.
    pub size: usize,
    /// Servers with a record.
    pub peers: usize,
    /// Servers possible.
    pub peers_max: usize,
    /// Lists of servers with a record.
    pub groups: usize,
    /// Worker slots taken.
    pub workers: usize,
    /// Worker slots possible.
    pub workers_max: usize,
    /// Configurations (start and reloads) that have used this memory.
    pub configurations: u64,
}
