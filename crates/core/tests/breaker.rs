//! Breakers: when they open, that trials come one at a time, how they close, and that they never take everybody out.
#![cfg(not(loom))]
#![allow(clippy::indexing_slicing, reason = "tests")]

#[path = "common/breaking.rs"]
mod breaking;
mod common;

use breaking::{MS, failing, params, until_open, world};
use common::{GET, World};
use labor_core::breaker::{Phase, State, is_broken};
use labor_core::params::BreakerParams;
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Attempt, Choice, Failure, Fit, Outcome, Params, Policy, Reason, Shared, ramp};

const SECOND: u64 = 1_000_000;

/// A request, though nobody may be usable.
fn anybody(world: &mut World, outcome: Outcome) -> Choice {
    let shared = Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
    let choice = world
        .balancer
        .pick(shared, &world.candidates, GET, world.now)
        .or_else(|| world.balancer.least_bad(shared, &world.candidates, world.now))
        .expect("somebody always is");
    let attempt = Attempt::begin(shared, &choice, world.now);
    world.now += 100;
    world.finish(attempt, outcome);
    choice
}

fn phase(world: &World, i: usize) -> Phase {
    State::of(&world.peers[i]).phase
}

#[test]
fn it_opens_after_five_failures_in_a_row_each_time_anew() {
    let mut world = world(4);
    assert_eq!(until_open(&mut world, 1), 5);
    // Well again: trials, then a ramp, then all of its share.
    for _ in 0..40_000 {
        world.one(GET, |_| 5 * MS, |_| Outcome::Pass);
        world.now += MS;
    }
    assert_eq!(phase(&world, 1), Phase::Closed);
    assert_eq!(until_open(&mut world, 1), 5, "counters begin anew");
}

#[test]
fn an_open_breaker_lets_nobody_through_and_then_one_at_a_time() {
    for count in [4, 300] {
        let mut world = world(count);
        until_open(&mut world, 1);
        let opened = world.now;
        let before = world.peers[1].requests.load(Relaxed);
        while world.now < opened + 3 * SECOND {
            world.one(GET, |_| MS, failing(1));
        }
        assert_eq!(world.peers[1].requests.load(Relaxed), before, "{count}: none in three of five seconds");
        // Trials that hang: never two at a time, however long it takes.
        let mut hanging = Vec::new();
        while world.now < opened + 30 * SECOND {
            let (choice, attempt) = world.begin(GET).unwrap();
            world.now += 2 * MS;
            if choice.index == 1 {
                assert_eq!(choice.reason, Reason::Trial, "{count}");
                hanging.push(attempt);
            } else {
                world.finish(attempt, Outcome::Pass);
            }
            assert!(hanging.len() <= 1, "{count}: two trials at once");
        }
        assert_eq!(hanging.len(), 1, "{count}");
        let trial = hanging.pop().unwrap();
        world.finish(trial, Outcome::Fail(Failure::Timeout));
        assert_eq!((phase(&world, 1), State::of(&world.peers[1]).trips), (Phase::Open, 2), "{count}: for longer");
    }
}

#[test]
fn three_successes_close_it_and_its_share_ramps_back() {
    let mut world = world(4);
    until_open(&mut world, 1);
    let mut trials = 0;
    for _ in 0..100_000 {
        let choice = world.one(GET, |_| MS, |_| Outcome::Pass);
        trials += usize::from(choice.index == 1);
        if !is_broken(&world.peers[1]) {
            break;
        }
        assert!(choice.index != 1 || choice.reason == Reason::Trial);
    }
    assert_eq!((trials, phase(&world, 1)), (3, Phase::Closed));
    assert!(ramp::fraction(&world.peers[1], world.balancer.params().ramp(), world.now) < 0.2);
    let had = world.run(100, MS, |_| MS)[1];
    assert!((1..10).contains(&had), "an even share were 25: {had}");
    world.run(5000, MS, |_| MS);
    let had = world.run(100, MS, |_| MS)[1];
    assert!((20..=30).contains(&had), "{had}");
}

/// A failing server is asked less and less often; after a long calm that is forgotten.
#[test]
fn the_open_time_doubles_up_to_its_limit_and_is_forgotten_slowly() {
    let mut world = world(4);
    until_open(&mut world, 1);
    let mut openings = vec![State::of(&world.peers[1]).since];
    while openings.len() < 8 {
        world.one(GET, |_| 5 * MS, failing(1));
        world.now += 5 * MS;
        let state = State::of(&world.peers[1]);
        if state.since != openings[openings.len() - 1] {
            openings.push(state.since);
        }
    }
    let seconds: Vec<f64> = openings.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
    for (i, expected) in [5.0, 10.0, 20.0, 40.0, 60.0, 60.0].iter().enumerate() {
        // A fifth of jitter, and a second for the trial's turn.
        assert!((0.79 * expected..1.21 * expected + 1.5).contains(&seconds[i]), "{seconds:?}");
    }
    while is_broken(&world.peers[1]) {
        world.one(GET, |_| 5 * MS, |_| Outcome::Pass);
        world.now += 5 * MS;
    }
    let trips = State::of(&world.peers[1]).trips;
    assert!(trips >= 7, "{trips}");
    world.now += 3 * 60 * SECOND + SECOND;
    until_open(&mut world, 1);
    assert_eq!(State::of(&world.peers[1]).trips, trips - 3 + 1, "one for each minute of calm");
}

/// Half of them at most, and a group of one never; `max_ejected=100%` may take all.
#[test]
fn never_more_than_its_part_of_a_list() {
    for (count, share, most) in [(1, 0.5, 0), (2, 0.5, 1), (3, 0.5, 1), (4, 0.5, 2), (300, 0.1, 30), (3, 1.0, 3)] {
        let breaker = BreakerParams { max_ejected: share, max_open: 5 * SECOND, ..BreakerParams::default() };
        let mut world = World::new(Params { breaker: Some(breaker), ..params(Policy::RoundRobin) }, &vec![1; count], 3);
        world.run(20 * count, MS, |_| 5 * MS);
        let mut open = 0;
        for _ in 0..40 * count.max(10) {
            anybody(&mut world, Outcome::Fail(Failure::Status));
            open = open.max(world.peers.iter().filter(|p| is_broken(p)).count());
        }
        assert_eq!(open, most, "of {count} with {share}");
    }
}

/// A rate clearly above the group's opens it, and one that all share does not.
#[test]
fn a_rate_counts_against_the_group() {
    // Seven of ten, never five in a row.
    let pattern = |n: u64| n % 10 < 4 || (5..8).contains(&(n % 10));
    let mut world = world(5);
    let counts: Vec<std::cell::Cell<u64>> = vec![std::cell::Cell::default(); 5];
    let outcome = |i: usize, all: bool| {
        let n = counts[i].get();
        counts[i].set(n + 1);
        if (all || i == 2) && pattern(n) { Outcome::Fail(Failure::Status) } else { Outcome::Pass }
    };
    for _ in 0..1000 {
        world.one(GET, |_| 5 * MS, |i| outcome(i, true));
    }
    assert!(!world.peers.iter().any(is_broken), "common to all");
    for _ in 0..2000 {
        world.one(GET, |_| 5 * MS, |i| outcome(i, false));
    }
    assert!(is_broken(&world.peers[2]) && world.peers.iter().filter(|p| is_broken(p)).count() == 1);
}

/// Nobody is usable: who failed once, and is only counted out by nginx, is less bad than a broken server.
#[test]
fn a_broken_server_is_the_last_to_be_asked() {
    for (policy, count) in
        [(Policy::Fastest, 2), (Policy::LeastConn, 2), (Policy::RoundRobin, 2), (Policy::Fastest, 300)]
    {
        let mut world = World::new(params(policy), &vec![1; count], 3);
        world.run(20 * count, MS, |_| 5 * MS);
        until_open(&mut world, 1);
        while world.one(GET, |_| 5 * MS, failing(0)).index != 0 {}
        world.candidates.iter_mut().for_each(|candidate| candidate.fit = Fit::CountedOut);
        world.candidates[2..].iter_mut().for_each(|candidate| candidate.fit = Fit::Unfit);
        for _ in 0..20 {
            let shared = Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
            let choice = world.balancer.least_bad(shared, &world.candidates, world.now).unwrap();
            assert_eq!(choice.index, 0, "{policy:?} of {count}");
            world.now += MS;
        }
    }
}

/// Requests that fail because nobody is left are no trials: an outage of all is not paid for with the longest open time.
#[test]
fn failures_while_nobody_is_usable_are_no_trips() {
    let breaker = BreakerParams { max_ejected: 1.0, ..BreakerParams::default() };
    let mut world = World::new(Params { breaker: Some(breaker), ..params(Policy::Fastest) }, &[1; 2], 3);
    world.run(200, MS, |_| 5 * MS);
    for _ in 0..1000 {
        anybody(&mut world, Outcome::Fail(Failure::Status));
    }
    assert_eq!(world.peers.iter().map(|peer| State::of(peer).trips).collect::<Vec<_>>(), [1, 1]);
}

/// Random failures of well servers open nothing: two in a hundred, for a hundred thousand requests.
#[test]
fn chance_opens_nothing() {
    let mut world = World::new(params(Policy::Fastest), &[1; 4], 3);
    let rng = std::cell::RefCell::new(labor_core::rng::Rng::new(11));
    for _ in 0..100_000 {
        let fails = rng.borrow_mut().unit() < 0.02;
        world.one(GET, |_| 5 * MS, |_| if fails { Outcome::Fail(Failure::Status) } else { Outcome::Pass });
    }
    assert!(world.peers.iter().all(|peer| State::of(peer).trips == 0));
}

/// A configuration without breakers closes what another one had opened.
#[test]
fn without_the_directive_nobody_is_broken() {
    let mut world = world(3);
    until_open(&mut world, 1);
    let mut other = labor_core::Balancer::new(Params::default(), 4);
    other.set_members(world.balancer.members());
    world.balancer = other;
    let had = world.run(3000, 10 * MS, |_| 5 * MS)[1];
    assert!(had > 100 && !is_broken(&world.peers[1]), "{had}");
}
