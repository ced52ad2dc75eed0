//! What a pick costs by the number of servers, and what renewing rows adds to it. Speed is measured here, never asserted.
//!
//! `cargo bench -p labor-core --bench pick`. Requests come as in life: a clock that goes on by the gap between two requests,
//! answers after 5 to 25 ms, so that rows are renewed as often as they are per request.
#![allow(clippy::disallowed_methods, missing_docs, reason = "measures itself, so it needs the clock")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use labor_core::{
    Attempt, Balancer, Candidate, Cell, Fit, Group, Member, Outcome, Params, Peer, Policy, Request, Shared,
};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Requests a second, as in the bar for rebuilding.
const RATE: u64 = 10_000;

/// Servers, one worker, and a clock.
struct World {
    params: Params,
    group: Group,
    peers: Vec<Peer>,
    cells: Vec<Cell>,
    balancer: Balancer,
    candidates: Vec<Candidate>,
    open: VecDeque<(u64, Attempt)>,
    now: u64,
}

impl World {
    fn new(servers: usize, policy: Policy, scan: bool) -> Self {
        let params = Params { policy, ..Params::default() };
        let mut balancer = Balancer::new(params, 1);
        if scan {
            balancer.scan_always();
        }
        balancer.set_members(&(0..servers as u32).map(|i| Member { slot: Some(i), weight: 1 }).collect::<Vec<_>>());
        let mut world = Self {
            params,
            group: Group::default(),
            peers: (0..servers).map(|_| Peer::default()).collect(),
            cells: (0..servers).map(|_| Cell::default()).collect(),
            balancer,
            candidates: vec![Candidate { fit: Fit::Usable, conns: 0 }; servers],
            open: VecDeque::new(),
            now: 1_000_000,
        };
        // Some answers of everybody, and ten seconds for the rows.
        for _ in 0..(10 * RATE).max(4 * servers as u64) {
            world.request();
        }
        world
    }

    /// One request; returns what its pick took.
    fn request(&mut self) -> Duration {
        self.now += 1_000_000 / RATE;
        let shared = Shared { group: &self.group, peers: &self.peers, cells: &self.cells };
        while let Some((at, attempt)) = self.open.pop_front() {
            if at > self.now {
                self.open.push_front((at, attempt));
                break;
            }
            let receipt = attempt.finish(shared, &self.params, Outcome::Pass, self.now);
            self.balancer.settle(shared, &receipt);
        }
        let request = Request { first: true, safe: true, backup: false, spare: false };
        let begun = Instant::now();
        let choice = black_box(self.balancer.pick(shared, &self.candidates, request, self.now));
        let took = begun.elapsed();
        if let Some(choice) = choice {
            let own = 5_000 + 20_000 * choice.index as u64 / self.peers.len() as u64;
            let end = self.now + own * 3 / 4 + self.now.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (own / 2);
            let attempt = Attempt::begin(shared, &choice, self.now);
            let at = self.open.partition_point(|(other, _)| *other <= end);
            self.open.insert(at, (end, attempt));
        }
        took
    }
}

fn pick(c: &mut Criterion) {
    let mut group = c.benchmark_group("pick");
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for (name, policy, scan) in
        [("fastest", Policy::Fastest, false), ("scan", Policy::Fastest, true), ("least_conn", Policy::LeastConn, false)]
    {
        for servers in [4, 10, 100, 200, 256, 257, 1000, 10_000] {
            if scan && servers < 257 {
                continue;
            }
            let mut world = World::new(servers, policy, scan);
            group.bench_with_input(BenchmarkId::new(name, servers), &servers, |b, _| {
                b.iter_custom(|rounds| (0..rounds).map(|_| world.request()).sum());
            });
        }
    }
}

criterion_group!(benches, pick);
criterion_main!(benches);
