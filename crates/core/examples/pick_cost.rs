//! Prints what a pick and a finished attempt cost in ns (medians; the clock's 30 ns included), by number of servers.
//! Run with `cargo run --release -p labor-core --example pick_cost`. A guide, no test: speed is measured, never asserted.
#![allow(clippy::disallowed_methods, reason = "measures itself, so it needs the clock")]

use labor_core::{
    Attempt, Balancer, Candidate, Cell, Fit, Group, Member, Outcome, Params, Peer, Policy, Request, Shared,
};
use std::time::Instant;

/// Enough for a stable mean, few enough to end within a second.
const ROUNDS: usize = 200_000;

fn main() {
    println!("{:>12} {:>8} {:>10} {:>10}", "policy", "servers", "pick ns", "book ns");
    for policy in [Policy::Fastest, Policy::LeastConn, Policy::RoundRobin] {
        for servers in [1, 6, 64, 200, 1000] {
            let (pick, book) = measure(policy, servers, ROUNDS / servers.max(10));
            println!("{:>12} {servers:>8} {pick:>10.0} {book:>10.0}", format!("{policy:?}"));
        }
    }
}

fn measure(policy: Policy, servers: usize, rounds: usize) -> (f64, f64) {
    let params = Params { policy, ..Params::default() };
    let group = Group::default();
    let peers: Vec<Peer> = (0..servers).map(|_| Peer::default()).collect();
    let cells: Vec<Cell> = (0..servers).map(|_| Cell::default()).collect();
    let shared = Shared { group: &group, peers: &peers, cells: &cells };
    let mut balancer = Balancer::new(params, 1);
    balancer.set_members(&(0..servers as u32).map(|i| Member { slot: Some(i), weight: 1 }).collect::<Vec<_>>());
    let candidates = vec![Candidate { fit: Fit::Usable, conns: 0 }; servers];
    let request = Request { first: true, safe: true, backup: false, spare: false };
    let mut now = 1_000_000u64;
    let (mut picking, mut booking) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    // Half the servers are busy on average, as at ordinary load.
    let mut open = std::collections::VecDeque::new();
    for _ in 0..rounds {
        now += 100;
        let start = Instant::now();
        let choice = balancer.pick(shared, &candidates, request, now);
        picking.push(start.elapsed().as_nanos());
        let Some(choice) = choice else { continue };
        open.push_back(Attempt::begin(shared, &choice, now));
        if open.len() > servers.div_ceil(2)
            && let Some(attempt) = open.pop_front()
        {
            let start = Instant::now();
            let receipt = attempt.finish(shared, &params, Outcome::Pass, now);
            booking.push(start.elapsed().as_nanos());
            balancer.settle(shared, &receipt);
        }
    }
    (median(&mut picking), median(&mut booking))
}

/// Other processes make means useless.
fn median(times: &mut [u128]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |&t| t as f64)
}
