//! The shared memory zone, as a worker uses it: records found and claimed, kept while listed, freed when gone.
//!
//! nginx puts its slab pool first and keeps it; one allocation from the pool, as large as it gives, is ours (`zone/layout.rs`
//! says what lies where, `zone/create.rs` makes it and keeps it over reloads, `zone/size.rs` says how large). Nothing in it
//! belongs to a configuration, so old and new workers write it at once. Not here: which worker owns which row of cells
//! (`worker.rs`), and anything about balancing.

mod control;
mod create;
mod layout;
mod listed;
mod recent;
mod secret;
mod size;

use core::cell::Cell as Slot;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;
use std::thread::LocalKey;

use labor_core::events::Events;
use labor_core::ledger::Ledger;
use labor_core::slots::{self, Record};
use labor_core::time::{Micros, SECOND, since};
use labor_core::{Cell, Group, Peer, Shared};
use nginx_sys::{NGX_LOG_WARN, ngx_cycle_t, ngx_log_t};
use ngx::ngx_log_error;

pub use create::add;
pub use layout::Map;
use listed::Listed;
use recent::Recent;

/// A server that no worker has confirmed for so long is gone: longer than any DNS answer that comes and goes.
const GONE: Micros = 600 * SECOND;

/// When the zone is full, a server unconfirmed for this long makes room. Workers confirm every second or so; a minute is
/// beyond any stall.
const REPLACEABLE: Micros = 60 * SECOND;

/// Servers come and go by DNS many times a second at worst; the log hears of a full zone once a minute.
const WARN_EVERY: Micros = 60 * SECOND;

/// A keeper that has not said for so long that it lives is replaced. It says so once a second.
const KEEPER_GONE: Micros = 3 * SECOND;

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

/// The shared memory as this worker uses it. A word, since every step of a request carries it.
#[derive(Clone, Copy)]
pub struct View(&'static Mapped);

/// What a view is of.
struct Mapped {
    map: Map,
    /// This worker's row of cells.
    cells: &'static [Cell],
    /// This worker's slot; none when all were taken, and then nothing is counted or learned.
    worker: Option<usize>,
    /// Size of the whole zone, bytes.
    size: usize,
    /// Configurations that had used the memory when this worker began.
    configurations: u64,
    log: *mut ngx_log_t,
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
        create::find(cycle).and_then(|zone| {
            let map = create::mapped(zone)?;
            let worker = claim(&map);
            let cells = worker.map_or(&[] as &[_], |w| map.row(w));
            // Kept for good: a process does this once, a single process without a master once per configuration.
            let configurations = map.header.configurations.load(Ordering::Acquire);
            let mapped = Mapped { map, cells, worker, size: zone.shm.size, configurations, log: (*cycle).log };
            Some(View(Box::leak(Box::new(mapped))))
        })
    };
    PEERS.with(Listed::clear);
    GROUPS.with(Listed::clear);
    RECENT.with(Recent::clear);
    if let Some(view) = &view {
        RECENT.with(|r| r.note(view.0.map.peers, crate::worker::now()));
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
        let claimed = slots::claim(self.0.map.groups, &self.0.map.header.group_reach, key, now);
        Self::book(&GROUPS, claimed, key)
    }

    /// Finds or claims a server's record (`labor_core::key::peer_key`) and confirms it from now on. In a full zone the server
    /// that has been gone for longest makes room; `None` when there is none such.
    pub fn peer(&self, key: u64, now: Micros) -> Option<u32> {
        let claim = || slots::claim(self.0.map.peers, &self.0.map.header.peer_reach, key, now);
        let claimed = claim().or_else(|| {
            // A second look within the same second finds the same servers.
            let look = PEERS.with(Listed::refused) == 0;
            look.then(|| slots::evict(self.0.map.peers, REPLACEABLE, now, |i| self.0.map.idle(i))).flatten()?;
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
        let cells = self.0.cells;
        match group.and_then(|g| self.0.map.groups.get(g as usize)) {
            Some(group) => Shared { group, peers: self.0.map.peers, cells },
            None => Shared { group: &NOTHING, peers: &[], cells: &[] },
        }
    }

    /// The record of a server, if it has one.
    pub fn known(&self, key: u64) -> Option<u32> {
        slots::find(self.0.map.peers, &self.0.map.header.peer_reach, slots::usable_key(key))
    }

    /// The record of a list, if it has one.
    pub fn known_group(&self, key: u64) -> Option<u32> {
        slots::find(self.0.map.groups, &self.0.map.header.group_reach, slots::usable_key(key))
    }

    /// What is known of the server of `slot`.
    pub fn record(&self, slot: u32) -> Option<&'static Peer> {
        self.0.map.peers.get(slot as usize)
    }

    /// What is counted for people of the server of `slot`, whose record is `peer`.
    pub fn ledger(&self, slot: u32, peer: &Peer) -> Option<&'static Ledger> {
        let generation = peer.generation.load(Ordering::Acquire);
        self.0.map.ledgers.get(slot as usize).map(|ledger| ledger.belongs_to(generation))
    }

    /// What happened in the list of `group`.
    pub fn events(&self, group: u32) -> Option<&'static Events> {
        let key = self.0.map.groups.get(group as usize)?.key.load(Ordering::Acquire);
        self.0.map.rings.get(group as usize).map(|ring| ring.belongs_to(key))
    }

    /// Whether this worker is the one to look after states and histories at `now`: the one that did so last, or any once that
    /// has not for some seconds. To be asked once a second.
    pub fn keeps(&self, now: Micros) -> bool {
        let Some(own) = self.0.worker.and_then(|worker| u64::try_from(worker).ok()) else { return false };
        let keeper = &self.0.map.header.keeper;
        let word = keeper.load(Ordering::Acquire);
        // 48 bits of µs are nine years of uptime; there are fewer than 65,536 worker slots.
        let (at, who) = (word >> 16, word & 0xffff);
        if word != 0 && who != own & 0xffff && since(at, now) < KEEPER_GONE {
            return false;
        }
        keeper.compare_exchange(word, now << 16 | own & 0xffff, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Lets another worker be the one at once, if this one is.
    pub fn stops_keeping(&self) {
        let keeper = &self.0.map.header.keeper;
        let word = keeper.load(Ordering::Acquire);
        if self.0.worker.and_then(|worker| u64::try_from(worker).ok()) == Some(word & 0xffff) {
            let _ = keeper.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Configurations (start and reloads) that have used this memory.
    pub fn configurations(&self) -> u64 {
        self.0.map.header.configurations.load(Ordering::Relaxed)
    }

    /// Requests sent to the server of `slot` in the last 10 to 20 seconds, by all workers.
    pub fn recent(&self, slot: u32) -> u64 {
        self.record(slot).map_or(0, |peer| RECENT.with(|r| r.of(slot, peer)))
    }

    /// The time that [`View::recent`] is about, µs.
    pub fn recent_period(&self, now: Micros) -> Micros {
        RECENT.with(|r| r.period(now))
    }

    /// The memory itself, for the workers' housekeeping and for status pages.
    pub fn map(&self) -> &Map {
        &self.0.map
    }

    /// This worker's slot.
    pub fn worker(&self) -> Option<usize> {
        self.0.worker
    }

    /// Figures of the zone.
    pub fn usage(&self) -> Usage {
        let taken = |key: &AtomicU64| key.load(Ordering::Relaxed) != 0;
        Usage {
            size: self.0.size,
            peers: self.0.map.peers.iter().filter(|p| taken(p.key())).count(),
            peers_max: self.0.map.peers.len(),
            groups: self.0.map.groups.iter().filter(|g| taken(g.key())).count(),
            workers: self.0.map.workers.iter().filter(|w| taken(w)).count(),
            workers_max: self.0.map.workers.len(),
            configurations: self.configurations(),
        }
    }

    /// For each `part` of the servers once a second: confirms what this worker lists, frees what nobody has confirmed for long.
    pub fn tend(&self, part: Range<usize>, now: Micros) {
        let Some(peers) = self.0.map.peers.get(part.clone()) else { return };
        let lost =
            PEERS.with(|l| l.confirm(peers, part.start, now)) | GROUPS.with(|l| l.confirm(self.0.map.groups, 0, now));
        if lost {
            EPOCH.set(EPOCH.get().wrapping_add(1));
        }
        slots::expire(peers, GONE, now, |i| self.0.map.idle(part.start.saturating_add(i)));
        if part.start > 0 {
            return;
        }
        slots::expire(self.0.map.groups, GONE, now, |_| true);
        RECENT.with(|r| r.note(self.0.map.peers, now));
        let refused = PEERS.with(Listed::forgive).max(GROUPS.with(Listed::forgive));
        if refused > 0 {
            self.warn_full(refused, now);
        }
    }

    /// Says at most once a minute, over all workers, that `refused` servers of this one found no room.
    fn warn_full(&self, refused: u32, now: Micros) {
        let warned = &self.0.map.header.warned;
        let last = warned.load(Ordering::Acquire);
        let due = last == 0 || since(last, now) >= WARN_EVERY;
        if due && warned.compare_exchange(last, now, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let usage = self.usage();
            ngx_log_error!(
                NGX_LOG_WARN,
                self.0.log,
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
