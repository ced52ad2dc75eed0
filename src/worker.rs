//! This process: its clock, its entropy, its slot among the workers, and what it does once a second.
//!
//! The only file that reads time or entropy. A worker's slot is claimed by process id and start time, so that a dead worker's
//! slot is known as such by anybody, and what it had in flight is taken off the totals within a second or two. Not here:
//! what lies in the shared memory (`zone.rs`) and the arithmetic of the counts (`labor_core`).

mod audit;
mod process;
mod timer;

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

use std::sync::OnceLock;

use labor_core::inflight;
use labor_core::time::Micros;
use nginx_sys::{
    NGX_LOG_WARN, NGX_OK, NGX_PROCESS_SINGLE, NGX_PROCESS_WORKER, ngx_cycle_t, ngx_event_t, ngx_exiting, ngx_int_t,
    ngx_msec_t, ngx_process, ngx_quit, ngx_terminate, ngx_uint_t,
};
use ngx::ngx_log_error;

use crate::zone::{self, Map, View};

pub use timer::Timer;

/// How often a worker looks after the shared memory, ms. A dead worker's requests are counted for no longer than this.
const TICK: ngx_msec_t = 1000;
/// In a large zone it does so part by part within that time, so many records at once: a fraction of a millisecond, where all
/// of ten thousand would keep requests waiting for several.
const PART: usize = 512;
/// But it wakes up no more often than every 50 ms.
const PARTS_MOST: usize = 20;

/// What else a worker does at each part.
static EACH_PART: OnceLock<fn(Micros, bool)> = OnceLock::new();

/// Has `task` called for each part of a second that a worker looks after the memory in, with the time and whether it is the first
/// part, which comes once a second. One task; the first call counts.
pub fn each_part(task: fn(Micros, bool)) {
    let _ = EACH_PART.set(task);
}

/// Now on the clock that all processes of the machine share, µs.
pub fn now() -> Micros {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place to write to. CLOCK_MONOTONIC cannot fail on Linux; if it did, the time would be 0, "never".
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)
}

/// Now, ms since 1970: for people only, this clock may jump.
pub fn wall() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place to write to. CLOCK_REALTIME cannot fail on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let millis = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1000).saturating_add(millis)
}

/// A seed that differs between workers and between starts.
pub fn seed() -> u64 {
    let mut bytes = [0_u8; 8];
    // SAFETY: writes at most the given length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    // Early at boot there may be no entropy yet; ties need difference, not secrecy.
    now() ^ (u64::from(std::process::id()) << 32)
}

/// A process begins: a worker, the single process, or a helper that balances nothing. Once a process: without a master, nginx
/// itself does not survive a reload.
pub fn init_process(cycle: *mut ngx_cycle_t) -> ngx_int_t {
    // SAFETY: set by nginx before it calls this.
    let kind = unsafe { ngx_process };
    if kind == NGX_PROCESS_WORKER as ngx_uint_t || kind == NGX_PROCESS_SINGLE as ngx_uint_t {
        start(cycle);
    }
    NGX_OK as ngx_int_t
}

/// A process ends: what it had in flight is no longer.
pub fn exit_process(_cycle: *mut ngx_cycle_t) {
    TIMER.disarm();
    if let Some(view) = zone::view() {
        view.stops_keeping();
        if let Some(worker) = view.worker() {
            // Otherwise the slot is that of a dead process from now on, which another worker empties.
            if empty(view.map(), worker) {
                release(view.map(), worker);
            }
        }
        zone::detach();
    }
}

fn start(cycle: *mut ngx_cycle_t) {
    TIMER.disarm();
    if let Some(view) = zone::attach(cycle, claim) {
        if view.worker().is_none() {
            // SAFETY: nginx's cycle has a log.
            let log = unsafe { (*cycle).log };
            ngx_log_error!(
                NGX_LOG_WARN,
                log,
                "labor: all {} worker slots are taken, learning is off in this worker",
                view.map().workers.len()
            );
        }
        reclaim(view.map());
        TIMER.arm(cycle, tick);
        TIMER.after(pause());
    }
}

/// Claims a worker slot: this process's own from before, or a free one.
fn claim(map: &Map) -> Option<usize> {
    let own = process::own();
    reclaim(map);
    let held = map.workers.iter().position(|o| o.load(Ordering::Acquire) == own);
    let taken = held.or_else(|| {
        map.workers.iter().position(|o| o.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire).is_ok())
    })?;
    if held.is_none() {
        // Slots are freed when they are empty; what somebody who died in between left behind, the audit corrects.
        let _exact = empty(map, taken);
    }
    Some(taken)
}

fn release(map: &Map, worker: usize) {
    if let Some(slot) = map.workers.get(worker) {
        pass(slot, process::own(), 0);
    }
}

/// Makes `owner`'s slot `next`'s.
fn pass(slot: &AtomicU64, owner: u64, next: u64) {
    // Fails when it is no longer the owner's, and then there is nothing to pass on.
    let _ = slot.compare_exchange(owner, next, Ordering::AcqRel, Ordering::Acquire);
}

/// Zeroes a row of cells that is ours or a dead worker's, and takes what it held off the totals. Says whether all of them are
/// exact; if not, what is left over shows in the cells, and the next call goes on with that.
fn empty(map: &Map, worker: usize) -> bool {
    let mut exact = true;
    for (i, (cell, peer)) in map.row(worker).iter().zip(map.peers).enumerate() {
        if cell.is_left_over() {
            exact &= inflight::reclaim(peer, cell, map.column(i));
        }
    }
    exact
}

/// Empties and frees the slots of workers that are dead.
///
/// A slot is taken over by its reclaimer first, so that two never work at one and nobody claims it half-emptied; if the
/// reclaimer dies in between, the slot is a dead worker's again.
fn reclaim(map: &Map) {
    let own = process::own();
    let current = zone::view().and_then(|v| v.worker());
    for (worker, slot) in map.workers.iter().enumerate() {
        let owner = slot.load(Ordering::Acquire);
        if owner == 0 || owner == own || !process::is_dead(owner) {
            continue;
        }
        debug_assert!(current != Some(worker));
        if slot.compare_exchange(owner, own, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // Totals that are not exact yet: the slot stays the dead worker's, and whoever comes next tries again.
            let next = if empty(map, worker) { 0 } else { owner };
            pass(slot, own, next);
        }
    }
}

thread_local! {
    /// Which part of the records comes next.
    static NEXT_PART: Cell<usize> = const { Cell::new(0) };
}

/// The parts that the zone's records are looked after in.
fn parts(records: usize) -> usize {
    records.div_ceil(PART).clamp(1, PARTS_MOST)
}

/// Looks after the next part; says whether it was the first one, which is so once a second.
fn look_after(view: View, now: Micros) -> bool {
    let records = view.map().peers.len();
    let (parts, part) = (parts(records), NEXT_PART.get());
    // Fails for a part that a smaller zone does not have.
    let part = if part < parts { part } else { 0 };
    NEXT_PART.set(part.saturating_add(1));
    let size = records.div_ceil(parts);
    let from = part.saturating_mul(size).min(records);
    let range = from..from.saturating_add(size).min(records);
    view.tend(range.clone(), now);
    audit::run(view.map(), range);
    part == 0
}

/// Whether this process has been told to end and only finishes what it has begun.
pub fn is_leaving() -> bool {
    // SAFETY: numbers that nginx sets.
    unsafe { ngx_exiting != 0 || ngx_quit != 0 || ngx_terminate != 0 }
}

/// Time to the next part, ms.
fn pause() -> ngx_msec_t {
    let parts = zone::view().map_or(1, |view| parts(view.map().peers.len()));
    TICK / parts.max(1) as ngx_msec_t
}

static TIMER: Timer = Timer::new();

/// Once a second, or in a large zone for each part once a second.
unsafe extern "C" fn tick(_event: *mut ngx_event_t) {
    let leaving = is_leaving();
    if let Some(view) = zone::view() {
        let now = now();
        let first = look_after(view, now);
        if first {
            reclaim(view.map());
        }
        if leaving {
            view.stops_keeping();
        } else if let Some(task) = EACH_PART.get() {
            task(now, first);
        }
    }
    if !leaving {
        TIMER.after(pause());
    }
}
