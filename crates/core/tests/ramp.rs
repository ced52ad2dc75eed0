//! Slow start: servers that are new or come back are led up to their share, by the clock, and nobody is shut out by it.
#![cfg(not(loom))]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{GET, World};
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Failure, Fit, Member, Outcome, Params, Policy, Request, ramp};

const MS: u64 = 1000;
const SECOND: u64 = 1_000_000;
/// The ramp of these tests.
const TIME: u64 = 20 * SECOND;

fn params(policy: Policy) -> Params {
    Params { policy, slow_start: TIME, explore: 0.0, ..Params::default() }
}

fn members(slots: std::ops::Range<u32>) -> Vec<Member> {
    slots.map(|i| Member { slot: Some(i), weight: 1 }).collect()
}

/// `count` servers of which the last `new` join after the others are known, at once.
fn joined(policy: Policy, count: usize, new: usize, latency: impl Fn(usize) -> u64) -> World {
    let mut world = World::new(params(policy), &vec![1; count], 3);
    world.balancer.set_members(&members(0..(count - new) as u32));
    world.run(100 * count, MS, latency);
    assert!(world.peers.iter().all(|peer| ramp::fraction(peer, TIME, world.now) == 1.0), "all were new: nobody ramps");
    world.balancer.set_members(&members(0..count as u32));
    world
}

/// What the last server gets of each second.
fn seconds(world: &mut World, count: u64, per_second: u64, latency: impl Fn(usize) -> u64) -> Vec<usize> {
    let last = world.peers.len() - 1;
    let begin = world.now;
    let mut had = Vec::new();
    for second in 1..=count {
        let mut own = 0;
        while world.now < begin + second * SECOND {
            let before = world.now;
            own += usize::from(world.one(GET, &latency, |_| Outcome::Pass).index == last);
            world.now = world.now.max(before + SECOND / per_second);
        }
        had.push(own);
    }
    had
}

#[test]
fn a_new_server_among_equals_is_led_up_to_its_share() {
    for policy in [Policy::Fastest, Policy::LeastConn, Policy::RoundRobin] {
        let mut world = joined(policy, 4, 1, |_| 5 * MS);
        // A quarter of a hundred is its even share.
        let had = seconds(&mut world, 24, 100, |_| 5 * MS);
        assert!((1..=6).contains(&had[0]), "{policy:?}: {had:?}");
        assert!(had[..4].iter().sum::<usize>() < 30, "{policy:?}: {had:?}");
        assert!((10..=25).contains(&had[8]), "{policy:?}: {had:?}");
        assert!(had[20..].iter().all(|n| (20..=30).contains(n)), "{policy:?}: {had:?}");
    }
}

/// One that is to get nearly everything gets there without a step: never more than twice as much as the second before.
#[test]
fn the_fastest_joins_without_a_step() {
    let latency = |i: usize| if i == 2 { 2 * MS } else { 30 * MS };
    let mut world = joined(Policy::Fastest, 3, 1, latency);
    let had = seconds(&mut world, 24, 30, latency);
    assert!(had[0] <= 3, "{had:?}");
    assert!(had[18..].iter().all(|&n| n >= 24), "{had:?}");
    assert!(had.windows(2).all(|w| w[1] <= 2 * w[0] + 4), "{had:?}");
}

/// In a large group at light load, too: real picks from the beginning on.
#[test]
fn a_large_group_asks_its_new_servers_at_once() {
    for count in [60, 400] {
        let mut world = joined(Policy::Fastest, count, 2, |_| 5 * MS);
        let had = seconds(&mut world, 25, 100, |_| 5 * MS);
        assert!(had[..5].iter().sum::<usize>() >= 1, "{count}: {had:?}");
        let (early, late) = (had[..5].iter().sum::<usize>(), had[20..].iter().sum::<usize>());
        assert!(early <= 4 && late * count >= 350, "{count}: {had:?}");
    }
}

#[test]
fn a_recovered_server_ramps_and_one_random_failure_is_no_recovery() {
    let mut world = joined(Policy::Fastest, 3, 0, |_| 5 * MS);
    let failing = |i: usize| if i == 2 { Outcome::Fail(Failure::Status) } else { Outcome::Pass };
    while world.peers[2].failure_level() == 0.0 {
        world.one(GET, |_| 5 * MS, failing);
    }
    world.run(1000, 10 * MS, |_| 5 * MS);
    assert_eq!(ramp::fraction(&world.peers[2], TIME, world.now), 1.0, "a single failure");
    while world.peers[2].failure_level() < 0.6 {
        world.one(GET, |_| 5 * MS, failing);
        world.now += 10 * MS;
    }
    while world.peers[2].failure_level() > 0.02 {
        world.run(1, 10 * MS, |_| 5 * MS);
    }
    assert_eq!(ramp::fraction(&world.peers[2], TIME, world.now), 0.1, "several in a row");
    let had = seconds(&mut world, 24, 90, |_| 5 * MS);
    assert!(had[..4].iter().sum::<usize>() < 30 && had[20..].iter().all(|&n| n >= 24), "{had:?}");
}

/// A ramp orders and never shuts out; only a request that others can serve goes past servers that have had their part.
#[test]
fn who_is_alone_serves_and_backups_take_the_rest() {
    for count in [1, 300] {
        let mut world = World::new(params(Policy::Fastest), &vec![1; count], 3);
        world.run(40 * count, MS, |_| 5 * MS);
        for peer in &world.peers {
            ramp::begin(peer, &world.group, TIME, world.now);
        }
        let spare = Request { spare: true, ..GET };
        let (requests, mut passed) = (1000 * count.min(100), 0);
        let half = 5 * SECOND / requests as u64;
        for _ in 0..requests {
            match world.begin(spare) {
                None => passed += 1,
                Some((_, attempt)) => {
                    world.now += half;
                    world.finish(attempt, Outcome::Pass);
                }
            }
            world.now += half;
        }
        let share = passed as f64 / requests as f64;
        assert!((0.2..0.95).contains(&share), "{count}: {share}");
        let before: u64 = world.peers.iter().map(|p| p.requests.load(Relaxed)).sum();
        for _ in 0..100 {
            world.one(GET, |_| 5 * MS, |_| Outcome::Pass);
        }
        let after: u64 = world.peers.iter().map(|p| p.requests.load(Relaxed)).sum();
        assert_eq!(after - before, 100, "{count}");
    }
}

#[test]
fn a_ramp_goes_on_over_changes_of_the_list() {
    let mut world = joined(Policy::Fastest, 4, 1, |_| 5 * MS);
    seconds(&mut world, 10, 100, |_| 5 * MS);
    let far = ramp::fraction(&world.peers[3], TIME, world.now);
    assert!((0.45..0.55).contains(&far), "{far}");
    world.balancer.set_members(&members(1..4));
    world.candidates.truncate(3);
    world.balancer.set_members(&members(0..4));
    world.candidates.resize(4, labor_core::Candidate { fit: Fit::Usable, conns: 0 });
    world.run(10, MS, |_| 5 * MS);
    let later = ramp::fraction(&world.peers[3], TIME, world.now);
    assert!((far..far + 0.05).contains(&later), "{far} {later}");
}
