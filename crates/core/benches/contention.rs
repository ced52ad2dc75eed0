//! Picks a second by 1, 2 and 4 processes that share one zone: what they lose to each other's cache lines.
//!
//! `cargo bench -p labor-core --bench contention`. Real processes on a shared mapping, as nginx's workers are; each picks,
//! begins and ends requests as fast as it can. On fewer processors than processes the sum over all says what sharing costs.
#![allow(clippy::disallowed_methods, missing_docs, reason = "measures itself, so it needs the clock")]

use labor_core::sync::{AtomicU64, Ordering};
use labor_core::{Attempt, Balancer, Candidate, Cell, Fit, Group, Member, Outcome, Params, Peer, Request, Shared};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long each measurement takes.
const LENGTH: Duration = Duration::from_secs(1);
/// The largest number of processes.
const MOST: usize = 4;
/// Requests that each process keeps under way.
const OPEN: usize = 16;

/// The zone: memory that children share with their parent.
#[derive(Clone, Copy)]
struct Zone {
    group: &'static Group,
    peers: &'static [Peer],
    cells: &'static [Cell],
    /// Picks done, by process; a line apart.
    counts: &'static [AtomicU64],
}

impl Zone {
    fn new(servers: usize) -> Self {
        let counts = MOST * 8;
        let sizes = [
            size_of::<Group>(),
            servers * size_of::<Peer>(),
            MOST * servers * size_of::<Cell>(),
            counts * size_of::<AtomicU64>(),
        ];
        let bytes: usize = sizes.iter().map(|size| size.next_multiple_of(64)).sum();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the system's choice.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert!(base != libc::MAP_FAILED, "no memory to share");
        let mut at = base.cast::<u8>();
        let mut part = |size: usize| {
            let here = at;
            at = at.wrapping_add(size.next_multiple_of(64));
            here
        };
        let [group, peers, cells, marks] = sizes.map(&mut part);
        // SAFETY: zeroed, aligned to the page and then to lines, as large as summed up, never unmapped; all of these types
        // are atomics that are valid when zeroed.
        unsafe {
            Self {
                group: &*group.cast(),
                peers: std::slice::from_raw_parts(peers.cast(), servers),
                cells: std::slice::from_raw_parts(cells.cast(), MOST * servers),
                counts: std::slice::from_raw_parts(marks.cast(), counts),
            }
        }
    }

    /// What one process does until the time is over.
    fn work(self, process: usize) {
        let servers = self.peers.len();
        let cells = &self.cells[process * servers..][..servers];
        let shared = Shared { group: self.group, peers: self.peers, cells };
        let params = Params::default();
        let mut balancer = Balancer::new(params, process as u64);
        balancer.set_members(&(0..servers as u32).map(|i| Member { slot: Some(i), weight: 1 }).collect::<Vec<_>>());
        let candidates = vec![Candidate { fit: Fit::Usable, conns: 0 }; servers];
        let request = Request { first: true, safe: true, backup: false, spare: false };
        let mut open = VecDeque::with_capacity(OPEN);
        let (begun, mut done) = (Instant::now(), 0u64);
        loop {
            let now = 1_000_000 + begun.elapsed().as_micros() as u64;
            let Some(choice) = balancer.pick(shared, &candidates, request, now) else { return };
            open.push_back(Attempt::begin(shared, &choice, now));
            if open.len() >= OPEN
                && let Some(attempt) = open.pop_front()
            {
                let receipt = attempt.finish(shared, &params, Outcome::Pass, now);
                balancer.settle(shared, &receipt);
            }
            done += 1;
            if done.is_multiple_of(64) && begun.elapsed() >= LENGTH {
                break;
            }
        }
        self.counts[process * 8].store(done, Ordering::Release);
    }
}

fn main() {
    println!("{:>8} {:>10} {:>14} {:>14}", "servers", "processes", "picks/s", "each");
    for servers in [4, 200, 1000, 10_000] {
        for processes in [1, 2, MOST] {
            let zone = Zone::new(servers);
            let children: Vec<_> = (0..processes)
                .map(|process| {
                    // SAFETY: this process has one thread.
                    let pid = unsafe { libc::fork() };
                    assert!(pid >= 0, "no process to fork");
                    if pid == 0 {
                        zone.work(process);
                        std::process::exit(0);
                    }
                    pid
                })
                .collect();
            for pid in children {
                // SAFETY: our own child; nowhere to put its status is allowed.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            }
            let sum: u64 = (0..processes).map(|process| zone.counts[process * 8].load(Ordering::Acquire)).sum();
            let rate = sum as f64 / LENGTH.as_secs_f64();
            println!("{servers:>8} {processes:>10} {rate:>14.0} {:>14.0}", rate / processes as f64);
        }
    }
}
