//! Long lists: the structure chooses as a scan of everybody would, and nobody is forgotten.
#![cfg(not(loom))]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{GET, World};
use labor_core::report::explain;
use labor_core::rng::Rng;
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Fit, Member, Outcome, Params, Policy, Reason, Request, Shared};

/// More than what is scanned.
const N: usize = 300;
const RETRY: Request = Request { first: false, ..GET };

fn long(policy: Policy, weights: &[u32]) -> World {
    let world = World::new(Params { policy, ..Params::default() }, weights, 3);
    assert!(world.balancer.is_long());
    world
}

/// Latency of server `i`: 5 to 25 ms.
fn latency(i: usize) -> u64 {
    5_000 + 20_000 * i as u64 / N as u64
}

/// Whatever other workers have done to the queues: once the sweep has passed, the choice costs what a scan's does, and before
/// that not much more.
#[test]
fn a_long_list_chooses_as_a_scan_does() {
    let mut world = long(Policy::Fastest, &[1; N]);
    world.run(20_000, 2_000, latency);
    let mut rng = Rng::new(8);
    let (mut fresh, mut stale) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        for peer in &world.peers {
            let queue = if rng.unit() < 0.9 { (rng.unit() * 6.0) as i32 } else { 0 };
            peer.q.store(queue, Relaxed);
            peer.last_answer.store(world.now - (rng.unit() * 20_000.0) as u64, Relaxed);
            peer.failure.store(if rng.unit() < 0.02 { 0.1f32.to_bits() } else { 0 }, Relaxed);
        }
        let members = world.balancer.members().to_vec();
        let scores: Vec<f32> =
            explain(world.shared(), &members, &Params::default(), world.now).iter().filter_map(|e| e.score).collect();
        assert_eq!(scores.len(), N);
        let least = scores.iter().copied().fold(f32::INFINITY, f32::min);
        let shared = Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
        let mut loss = |request| {
            let choice = world.balancer.pick(shared, &world.candidates, request, world.now).unwrap();
            f64::from((scores[choice.index] - least).exp())
        };
        stale.push(loss(RETRY));
        for _ in 0..N / 2 {
            loss(GET);
        }
        fresh.push(loss(RETRY));
    }
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&fresh) < 1.03, "{fresh:?}");
    assert!(fresh.iter().all(|&loss| loss < 1.15), "{fresh:?}");
    // Ranks from before everything changed at once: still the best of those looked at.
    assert!(mean(&stale) < 1.6, "{stale:?}");
}

/// That a request may not come back to a server it has been to is nothing to the next request.
#[test]
fn a_retry_takes_its_first_server_from_nobody_else() {
    let mut world = World::new(Params { explore: 0.0, ..Params::default() }, &[1; N], 3);
    let fast = |i: usize| if i == 7 { 1_000 } else { 50_000 };
    world.run(3_000, 1_000, fast);
    for _ in 0..20 {
        let (first, attempt) = world.begin(GET).unwrap();
        assert_eq!(first.index, 7);
        world.finish(attempt, Outcome::Void);
        world.candidates[7].fit = Fit::Unfit;
        let (second, attempt) = world.begin(RETRY).unwrap();
        assert_ne!(second.index, 7);
        world.candidates[7].fit = Fit::Usable;
        world.now += 100;
        world.finish(attempt, Outcome::Abort);
    }
}

#[test]
fn fixed_shares_are_exact() {
    let weights: Vec<u32> = (0..N as u32).map(|i| 1 + i % 3).collect();
    let mut world = long(Policy::RoundRobin, &weights);
    for (i, count) in world.run(20 * 2 * N, 10, latency).into_iter().enumerate() {
        assert!(count.abs_diff(20 * weights[i] as usize) <= 2, "{i}: {count}");
    }
}

#[test]
fn equal_servers_take_turns_by_weight() {
    for policy in [Policy::Fastest, Policy::LeastConn] {
        let weights: Vec<u32> = (0..N as u32).map(|i| if i < 100 { 3 } else { 1 }).collect();
        let mut world = long(policy, &weights);
        let counts = world.run(100 * 500, 10, |_| 5_000);
        let heavy: usize = counts[..100].iter().sum();
        let share = heavy as f64 / 50_000.0;
        assert!((share - 0.6).abs() < 0.03, "{policy:?}: {share}");
        assert!(counts.iter().zip(&weights).all(|(&c, &w)| c >= 60 * w as usize), "{policy:?}: {counts:?}");
    }
}

/// With everything in flight at once, equal servers get what their weights say.
#[test]
fn equal_servers_are_filled_evenly() {
    for policy in [Policy::Fastest, Policy::LeastConn] {
        let mut world = long(policy, &[1; N]);
        world.run(5 * N, 10, |_| 5_000);
        let _open: Vec<_> = (0..4 * N).map(|_| world.begin(GET).unwrap().1).collect();
        let queues: Vec<u32> = world.peers.iter().map(|p| p.queue()).collect();
        assert!(queues.iter().all(|&q| (3..=5).contains(&q)), "{policy:?}: {queues:?}");
    }
}

#[test]
fn nobody_unfit_is_picked_and_who_comes_back_is_found() {
    for policy in [Policy::Fastest, Policy::LeastConn, Policy::RoundRobin, Policy::Decay] {
        let mut world = long(policy, &[1; N]);
        world.run(2_000, 100, latency);
        let mut rng = Rng::new(4);
        for _ in 0..20 {
            for candidate in &mut world.candidates {
                candidate.fit = [Fit::Usable, Fit::CountedOut, Fit::Unfit][(rng.unit() * 3.0) as usize];
            }
            let only = (rng.unit() * N as f64) as usize;
            for step in 0..N {
                if step == N / 2 {
                    world.candidates.iter_mut().for_each(|c| c.fit = Fit::Unfit);
                    world.candidates[only].fit = Fit::Usable;
                }
                let choice = world.one(GET, latency, |_| Outcome::Pass);
                let fit = world.candidates[choice.index].fit;
                assert!(fit == Fit::Usable || (fit == Fit::CountedOut && choice.reason == Reason::Trial), "{choice:?}");
                assert!(step < N / 2 || choice.index == only);
            }
        }
        let nobody = |world: &mut World, fit| {
            world.candidates.iter_mut().for_each(|c| c.fit = fit);
            let shared = Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
            let picked = world.balancer.pick(shared, &world.candidates, RETRY, world.now);
            assert!(picked.is_none(), "{picked:?}");
            world.balancer.least_bad(shared, &world.candidates, world.now)
        };
        assert!(nobody(&mut world, Fit::Unfit).is_none());
        assert_eq!(nobody(&mut world, Fit::CountedOut).map(|choice| choice.reason), Some(Reason::Panic));
    }
}

/// A request goes from server to server while each fails it, and to none twice.
#[test]
fn a_retry_visits_everybody_once() {
    let mut world = long(Policy::Fastest, &[1; N]);
    world.run(2_000, 100, latency);
    let mut seen = vec![false; N];
    for attempt in 0..N {
        let request = if attempt == 0 { GET } else { RETRY };
        let index = world.one(request, |_| 100, |_| Outcome::Void).index;
        assert!(!seen[index], "{attempt}: {index}");
        seen[index] = true;
        world.candidates[index].fit = Fit::Unfit;
    }
    // Others may have them all the same.
    world.candidates.iter_mut().for_each(|c| c.fit = Fit::Usable);
    let counts = world.run(10 * N, 100, latency);
    assert!(counts[..N / 10].iter().sum::<usize>() > 8 * N, "{counts:?}");
}

/// The slowest server becomes the fastest: exploration finds it, and then it has the traffic.
#[test]
fn a_server_that_becomes_the_fastest_is_found() {
    let mut world = long(Policy::Fastest, &[1; N]);
    world.run(20_000, 200, latency);
    let counts = world.run(60_000, 200, |i| if i == N - 1 { 1_000 } else { latency(i) });
    // A scan of everybody takes as long: the credit for a visit has to be earned.
    assert!(counts[N - 1] > 8_000, "{}", counts[N - 1]);
}

/// Failing servers get their trials, few of them, and come back.
#[test]
fn lowered_servers_are_tried_and_recover() {
    let mut world = long(Policy::Fastest, &[1; N]);
    let failing = |i: usize| if i < 5 { Outcome::Fail(labor_core::Failure::Status) } else { Outcome::Pass };
    let mut failed = 0;
    for _ in 0..40_000 {
        failed += usize::from(world.one(GET, latency, failing).index < 5);
        world.now += 200;
    }
    assert!(failed < 1_000, "{failed}");
    assert!(world.peers[0].picks[Reason::Trial as usize].load(Relaxed) > 0);
    let before: u64 = world.peers[..5].iter().map(|p| p.requests.load(Relaxed)).sum();
    world.run(40_000, 200, latency);
    let after: u64 = world.peers[..5].iter().map(|p| p.requests.load(Relaxed)).sum();
    assert!(world.peers[..5].iter().all(|p| p.failure_level() < 0.02) && after - before > 2_000, "{before} {after}");
}

/// Weights that change at run time keep what was learned, and count from the next pick on.
#[test]
fn new_weights_keep_what_was_learned() {
    let mut world = long(Policy::Fastest, &[1; N]);
    world.run(20_000, 200, latency);
    let members: Vec<Member> =
        (0..N as u32).map(|i| Member { slot: Some(i), weight: if i < 50 { 0 } else { 1 + i % 2 } }).collect();
    world.balancer.set_members(&members);
    let counts = world.run(5_000, 200, latency);
    assert_eq!(counts[..50].iter().sum::<usize>(), 0, "{counts:?}");
    assert!(counts[50..120].iter().sum::<usize>() > 4_500, "{counts:?}");
}

/// Servers that come, go or change places leave what is known of the others as it is, from the next pick on.
#[test]
fn a_changed_list_keeps_what_was_learned() {
    let mut world = World::new(Params { explore: 0.0, ..Params::default() }, &[1; N], 3);
    world.run(20_000, 200, latency);
    let left = N - 20;
    let members: Vec<Member> = (20..N as u32).rev().map(|i| Member { slot: Some(i), weight: 1 }).collect();
    world.balancer.set_members(&members);
    let counts = world.run(12, 200, |i| latency(N - 1 - i));
    // The fastest are last now; who begins anew takes all in turn for as many picks.
    assert_eq!(counts[left - 50..].iter().sum::<usize>(), 12, "{counts:?}");
}
