//! What each way for an attempt to end teaches about its server, and that places are given back whatever happens.
#![cfg(not(loom))]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{GET, World};
use labor_core::report::explain;
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Attempt, Choice, Failure, Metric, Outcome, Params};

const MS: u64 = 1000;

/// Server 0 of two equal ones, both known to take 10 ms.
fn world(metric: Metric) -> World {
    let mut world = World::new(Params { metric, ..Params::default() }, &[1, 1], 1);
    for _ in 0..40 {
        let (_, mut attempt) = world.begin(GET).unwrap();
        world.now += 10 * MS;
        header(&world, &mut attempt, 200, false);
        world.finish(attempt, Outcome::Pass);
    }
    world
}

fn header(world: &World, attempt: &mut Attempt, status: u16, upgraded: bool) {
    attempt.header(world.shared(), world.balancer.params(), status, upgraded, world.now);
}

/// Begins at server 0, predicted to take 10 ms.
fn begin(world: &mut World) -> Attempt {
    let shared = labor_core::Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
    let choice: Choice = world.balancer.take(shared, 0, labor_core::Reason::Sticky, world.now).unwrap();
    assert!((0.009..0.011).contains(&choice.latency), "{choice:?}");
    Attempt::begin(world.shared(), &choice, world.now)
}

/// Samples of server 0 and its predicted idle latency in ms.
fn known(world: &World) -> (u32, f64) {
    let all = explain(world.shared(), world.balancer.members(), world.balancer.params(), world.now);
    (world.peers[0].samples.load(Relaxed), all[0].curve[0].latency_us / 1000.0)
}

/// Ends one attempt at server 0 like this; returns how many samples it gave and how the estimate moved.
fn ending(latency: u64, outcome: Outcome) -> (u32, f64) {
    let mut world = world(Metric::LastByte);
    let before = known(&world);
    let attempt = begin(&mut world);
    world.now += latency;
    world.finish(attempt, outcome);
    assert_eq!((world.peers[0].queue(), world.peers[0].connections()), (0, 0));
    let after = known(&world);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn an_answer_is_a_sample_either_way() {
    assert!(matches!(ending(100 * MS, Outcome::Pass), (1, moved) if moved > 0.1));
    assert!(matches!(ending(MS, Outcome::Pass), (1, moved) if moved < -0.1));
}

#[test]
fn a_refusal_may_raise_the_estimate_and_never_lower_it() {
    assert!(matches!(ending(100 * MS, Outcome::Refused), (1, moved) if moved > 0.1));
    assert_eq!(ending(MS, Outcome::Refused).0, 0);
}

#[test]
fn a_client_that_leaves_proves_slowness_only() {
    assert!(matches!(ending(300 * MS, Outcome::Abort), (1, moved) if moved > 0.1));
    assert_eq!(ending(5 * MS, Outcome::Abort).0, 0);
    let mut world = world(Metric::LastByte);
    let variance = world.group.variance.load(Relaxed);
    let attempt = begin(&mut world);
    world.now += 300 * MS;
    world.finish(attempt, Outcome::Abort);
    assert_eq!((world.group.variance.load(Relaxed), world.peers[0].aborts.load(Relaxed)), (variance, 1));
    assert_eq!(world.peers[0].failure_level(), 0.0);
}

#[test]
fn a_failure_gives_no_sample_however_fast() {
    for kind in Failure::ALL {
        assert_eq!(ending(MS / 10, Outcome::Fail(kind)).0, 0);
    }
    let mut world = world(Metric::LastByte);
    for level in [0.1, 0.46] {
        let attempt = begin(&mut world);
        world.finish(attempt, Outcome::Fail(Failure::Timeout));
        assert!((world.peers[0].failure_level() - level).abs() < 1e-6);
        assert_eq!(world.peers[0].timed_out.load(Relaxed), 1);
    }
    assert_eq!(world.peers[0].answers.load(Relaxed), 0, "it has to start small again");
    let attempt = begin(&mut world);
    world.now += 10 * MS;
    world.finish(attempt, Outcome::Pass);
    assert!((world.peers[0].failure_level() - 0.276).abs() < 1e-6);
    assert_eq!(world.peers[0].timed_out.load(Relaxed), 0);
}

#[test]
fn a_closed_connection_is_nothing_at_all() {
    let mut world = world(Metric::LastByte);
    let before = (known(&world), world.peers[0].last_answer.load(Relaxed), world.peers[0].answers.load(Relaxed));
    let attempt = begin(&mut world);
    world.finish(attempt, Outcome::Void);
    assert_eq!(before, (known(&world), world.peers[0].last_answer.load(Relaxed), world.peers[0].answers.load(Relaxed)));
}

#[test]
fn a_held_answer_counts_with_its_header_as_a_bound() {
    for (header_ms, samples) in [(50, 1), (5, 0)] {
        let mut world = world(Metric::LastByte);
        let before = known(&world);
        let mut attempt = begin(&mut world);
        world.now += header_ms * MS;
        header(&world, &mut attempt, 200, false);
        world.now += 60_000 * MS;
        world.finish(attempt, Outcome::Held);
        let after = world.peers[0].samples.load(Relaxed);
        assert_eq!(after - before.0, samples);
    }
}

#[test]
fn header_mode_and_tunnels_leave_the_queue_at_the_header() {
    for (metric, upgraded) in [(Metric::Header, false), (Metric::LastByte, true)] {
        let mut world = world(metric);
        let before = known(&world);
        let mut attempt = begin(&mut world);
        world.now += 20 * MS;
        header(&world, &mut attempt, if upgraded { 101 } else { 200 }, upgraded);
        assert_eq!((world.peers[0].queue(), world.peers[0].connections()), (0, 1));
        assert_eq!(world.peers[0].samples.load(Relaxed) - before.0, 1);
        world.now += 3_600_000 * MS;
        let failed = Outcome::Fail(Failure::Reset);
        world.finish(attempt, if upgraded { failed } else { Outcome::Pass });
        assert_eq!((world.peers[0].queue(), world.peers[0].connections()), (0, 0));
        assert_eq!(world.peers[0].samples.load(Relaxed) - before.0, 1);
        assert_eq!(world.peers[0].failure_level(), 0.0, "how a tunnel ends says nothing");
    }
}

#[test]
fn a_failing_status_in_header_mode_is_no_sample() {
    let mut world = world(Metric::Header);
    let before = known(&world).0;
    let mut attempt = begin(&mut world);
    world.now += MS / 10;
    header(&world, &mut attempt, 503, false);
    world.finish(attempt, Outcome::Fail(Failure::Status));
    assert_eq!(world.peers[0].samples.load(Relaxed), before);
    assert!(world.peers[0].failure_level() > 0.0);
}

#[test]
fn an_attempt_of_an_older_generation_gives_its_place_back_and_books_nothing() {
    // The slot changes hands while the attempt is under way, before or after the new server's first request.
    for new_first in [true, false] {
        let mut world = world(Metric::LastByte);
        let old = begin(&mut world);
        world.peers[0].reset();
        let new = |world: &mut World| {
            let (choice, attempt) = world.begin(GET).unwrap();
            world.finish(attempt, Outcome::Void);
            Attempt::begin(world.shared(), &Choice { index: 0, slot: Some(0), ..choice }, world.now)
        };
        let attempt = if new_first { Some(new(&mut world)) } else { None };
        let answers = world.peers[0].answers.load(Relaxed);
        world.now += 500 * MS;
        world.finish(old, Outcome::Fail(Failure::Timeout));
        assert_eq!((world.peers[0].samples.load(Relaxed), world.peers[0].failure_level()), (0, 0.0));
        assert_eq!(world.peers[0].answers.load(Relaxed), answers);
        let attempt = attempt.unwrap_or_else(|| new(&mut world));
        assert_eq!((world.peers[0].queue(), world.peers[0].connections()), (1, 1));
        world.now += 10 * MS;
        world.finish(attempt, Outcome::Pass);
        assert_eq!((world.peers[0].q.load(Relaxed), world.peers[0].conns.load(Relaxed)), (0, 0));
        assert_eq!((world.cells[0].q.load(Relaxed), world.cells[0].conns.load(Relaxed)), (0, 0));
        assert_eq!(world.peers[0].samples.load(Relaxed), 1);
    }
}

#[test]
fn who_fails_before_anybody_has_succeeded_gets_little() {
    // Failing at once it is always idle, while the others are busy with their very first requests.
    let mut world = World::new(Params::default(), &[1, 1, 1], 1);
    let mut attempts = Vec::new();
    let mut failed = 0;
    for _ in 0..12 {
        let (choice, attempt) = world.begin(GET).unwrap();
        world.now += MS / 10;
        match choice.index {
            0 => {
                failed += 1;
                world.finish(attempt, Outcome::Fail(Failure::Status));
            }
            _ => attempts.push(attempt),
        }
    }
    assert!(failed <= 2, "{failed} of 12");
    for attempt in attempts {
        world.finish(attempt, Outcome::Pass);
    }
}

/// Ends `count` attempts at server 0, `pace` µs apart, of which every fourth took 1 ms and the others 20 µs; returns the samples
/// they gave and the idle latency predicted after them, in µs.
fn stream(world: &mut World, count: u32, pace: u64) -> (u32, f64) {
    let before = known(world).0;
    for i in 0..count {
        let shared = labor_core::Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
        let choice = world.balancer.take(shared, 0, labor_core::Reason::Sticky, world.now).unwrap();
        let attempt = Attempt::begin(world.shared(), &choice, world.now);
        let took = if i % 4 == 0 { 1000 } else { 20 };
        world.now += took;
        world.finish(attempt, Outcome::Pass);
        world.now += pace.saturating_sub(took);
    }
    let (after, idle_ms) = known(world);
    (after - before, idle_ms * 1000.0)
}

#[test]
fn of_very_many_answers_a_fair_part_is_looked_at() {
    let mut world = world(Metric::LastByte);
    let (samples, idle) = stream(&mut world, 100_000, 20);
    assert!((5_000..50_000).contains(&samples), "{samples} of 100000");
    // Equal servers show the log-mean, 53 µs, within what forty samples allow; were one half of those looked at slow, 141 µs.
    assert!((35.0..85.0).contains(&idle), "{idle}");
    stream(&mut world, 200, 10_000);
    let (samples, _) = stream(&mut world, 100, 10_000);
    assert_eq!(samples, 100, "at a hundred a second each one counts again");
}

#[test]
fn a_withdrawn_attempt_leaves_nothing() {
    let mut world = world(Metric::LastByte);
    let counts = |world: &World| {
        let peer = &world.peers[0];
        let picks: u64 = peer.picks.iter().map(|count| count.load(Relaxed)).sum();
        (peer.requests.load(Relaxed), picks, peer.queue(), peer.connections())
    };
    let before = (counts(&world), known(&world));
    let attempt = begin(&mut world);
    assert_eq!(world.peers[0].connections(), 1);
    let receipt = attempt.withdraw(world.shared());
    assert_eq!(((counts(&world), known(&world)), receipt.price), (before, None));
}
