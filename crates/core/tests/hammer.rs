//! Processes that share one zone, killed at any instruction, under a checker that computes every counter again.
//!
//! Here what loom cannot have: real processes, real memory, SIGKILL. Bounded by a number of kills, not by a clock: `HAMMER=N` for
//! some N seconds. Not here: the interleavings themselves (`src/interleavings.rs`).
#![cfg(not(loom))]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use labor_core::inflight;
use labor_core::{
    Attempt, Balancer, Candidate, Cell, Failure, Fit, Group, Member, Outcome, Params, Peer, Request, Shared,
};

const WORKERS: usize = 4;
const SERVERS: usize = 6;
/// Attempts that a worker has under way at most.
const DEPTH: usize = 12;
/// Time between two kills, µs: thousands of attempts, and fifty kills a second.
const PAUSE: u32 = 20_000;

/// What the processes share; valid when zeroed, as their memory comes.
#[repr(C)]
struct Zone {
    group: Group,
    peers: [Peer; SERVERS],
    cells: [[Cell; SERVERS]; WORKERS],
    /// What each worker slot has begun, by its own count.
    begun: [[AtomicU64; SERVERS]; WORKERS],
    finished: AtomicU64,
    stop: AtomicU32,
}

impl Zone {
    /// Memory that children of this process share with it, for as long as it lives.
    fn create() -> &'static Self {
        let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping of the right size, aligned to a page and zeroed, which is a valid `Zone`; never unmapped.
        unsafe {
            let map = libc::mmap(std::ptr::null_mut(), size_of::<Self>(), read_write, shared, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            &*map.cast::<Self>()
        }
    }

    fn shared(&self, worker: usize) -> Shared<'_> {
        Shared { group: &self.group, peers: &self.peers, cells: &self.cells[worker] }
    }

    /// Attempts that workers have counted themselves.
    fn begun(&self) -> u64 {
        self.begun.iter().flatten().map(|count| count.load(Ordering::Acquire)).sum()
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One worker: picks, begins and finishes attempts in any order until told to stop, then finishes what is left.
fn work(zone: &Zone, worker: usize, seed: u64) {
    let outcomes =
        [Outcome::Pass, Outcome::Pass, Outcome::Refused, Outcome::Fail(Failure::Reset), Outcome::Abort, Outcome::Void];
    let shared = zone.shared(worker);
    let params = Params::default();
    let mut balancer = Balancer::new(params, seed);
    balancer.set_members(&(0..SERVERS as u32).map(|slot| Member { slot: Some(slot), weight: 1 }).collect::<Vec<_>>());
    let candidates = [Candidate { fit: Fit::Usable, conns: 0 }; SERVERS];
    let (mut state, mut now, mut open) = (seed, 1_000_000, Vec::with_capacity(DEPTH));
    loop {
        now += random(&mut state) % 2000;
        let stopping = zone.stop.load(Ordering::Acquire) != 0;
        if !stopping && open.len() < DEPTH && random(&mut state).is_multiple_of(2) {
            let request = Request { first: true, safe: true, backup: false, spare: false };
            let choice = balancer.pick(shared, &candidates, request, now).expect("all are usable");
            open.push(Attempt::begin(shared, &choice, now));
            zone.begun[worker][choice.index].fetch_add(1, Ordering::AcqRel);
        } else if !open.is_empty() {
            let at = random(&mut state) as usize % open.len();
            let mut attempt: Attempt = open.swap_remove(at);
            if random(&mut state).is_multiple_of(2) {
                attempt.header(shared, &params, 200, false, now);
            }
            let outcome = outcomes[random(&mut state) as usize % outcomes.len()];
            let receipt = attempt.finish(shared, &params, outcome, now);
            balancer.settle(shared, &receipt);
            zone.finished.fetch_add(1, Ordering::AcqRel);
        } else if stopping {
            return;
        }
    }
}

/// A child that works in slot `worker`.
fn spawn(zone: &'static Zone, worker: usize, seed: u64) -> libc::pid_t {
    // SAFETY: the child uses only this thread's memory and the shared zone, and ends without returning to the test's runtime.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            let good = std::panic::catch_unwind(|| work(zone, worker, seed)).is_ok();
            libc::_exit(i32::from(!good));
        }
        pid
    }
}

/// Waits for a child; whether it ended as it should: killed, or by itself.
fn ended(pid: libc::pid_t, killed: bool) -> bool {
    let mut status = 0;
    // SAFETY: a child of ours, and a place to write to.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if killed { libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL } else { status == 0 }
}

/// What survivors do for a dead worker: every cell of its row, until the totals are exact.
fn reclaim(zone: &Zone, worker: usize) {
    for (server, peer) in zone.peers.iter().enumerate() {
        let column = || zone.cells.iter().map(move |row| &row[server]);
        let exact = (0..10_000).any(|_| inflight::reclaim(peer, &zone.cells[worker][server], column()));
        assert!(exact, "the others paused long enough");
    }
}

#[test]
fn no_count_survives_its_worker() {
    let seconds: u64 = std::env::var("HAMMER").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let zone = Zone::create();
    let (mut state, mut kills) = (7, 0);
    let mut workers: Vec<_> = (0..WORKERS).map(|worker| spawn(zone, worker, 1 + worker as u64)).collect();
    while kills < seconds * 1_000_000 / u64::from(PAUSE) {
        // SAFETY: sleeps.
        unsafe { libc::usleep(PAUSE / 2 + random(&mut state) as u32 % PAUSE) };
        let victim = random(&mut state) as usize % WORKERS;
        // SAFETY: a living child of ours.
        assert_eq!(unsafe { libc::kill(workers[victim], libc::SIGKILL) }, 0);
        assert!(ended(workers[victim], true));
        reclaim(zone, victim);
        kills += 1;
        workers[victim] = spawn(zone, victim, 100 + kills);
    }
    zone.stop.store(1, Ordering::Release);
    assert!(workers.into_iter().all(|pid| ended(pid, false)), "a worker ended with a panic");

    for (server, peer) in zone.peers.iter().enumerate() {
        let cells = || zone.cells.iter().map(|row| &row[server]);
        assert!(!cells().any(Cell::is_left_over), "server {server}: a cell holds something");
        assert_eq!((peer.q.load(Ordering::Acquire), peer.conns.load(Ordering::Acquire)), (0, 0), "server {server}");
    }
    let load = |word: &AtomicU64| word.load(Ordering::Acquire);
    let (begun, requests) = (zone.begun(), zone.peers.iter().map(|peer| load(&peer.requests)).sum::<u64>());
    let reasons: u64 = zone.peers.iter().flat_map(|peer| &peer.picks).map(load).sum();
    let (picks, finished) = (load(&zone.group.picks), load(&zone.finished));
    // A worker killed between two of these counts is one off in one of them, no more.
    for (name, count) in [("requests", requests), ("picks by reason", reasons), ("picks of the list", picks)] {
        assert!((begun..=begun + kills).contains(&count), "{name}: {count}, begun {begun}, kills {kills}");
    }
    assert!(
        finished + kills * DEPTH as u64 + kills >= begun && finished <= begun + kills,
        "finished {finished} of {begun}"
    );
    assert!(finished > 1000 * seconds, "little was done: {finished}");
    println!(
        "hammer: {begun} attempts in {WORKERS} processes, {kills} killed: totals are the sums of the cells, and all are 0"
    );
}
