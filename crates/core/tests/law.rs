//! The balancing law from the outside: who gets the requests, and what each kind of answer teaches.
#![cfg(not(loom))]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{GET, POST, World};
use labor_core::report::{Change, explain};
use labor_core::{Attempt, Balancer, Failure, Fit, Outcome, Params, Policy, Reason, Shared};

const MS: u64 = 1000;

#[test]
fn one_server_gets_everything() {
    let mut world = World::equal(1);
    for _ in 0..100 {
        let choice = world.one(GET, |_| MS, |_| Outcome::Pass);
        assert_eq!((choice.index, choice.reason), (0, Reason::Only));
    }
}

#[test]
fn the_fastest_server_gets_nearly_all() {
    let mut world = World::equal(3);
    let latency = |i: usize| [500, 1000, 3000][i] * MS;
    world.run(50, 0, latency);
    let shares = world.run(1000, 0, latency);
    assert!(shares[0] >= 970, "{shares:?}");
}

#[test]
fn equal_servers_take_exact_turns() {
    let mut world = World::equal(5);
    world.run(100, 0, |_| 10 * MS);
    let first: Vec<usize> = (0..5).map(|_| world.one(GET, |_| 10 * MS, |_| Outcome::Pass).index).collect();
    for _ in 0..20 {
        let next: Vec<usize> = (0..5).map(|_| world.one(GET, |_| 10 * MS, |_| Outcome::Pass).index).collect();
        assert_eq!(first, next);
    }
    let mut sorted = first;
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2, 3, 4]);
}

#[test]
fn weights_share_idle_equals_from_the_first_request() {
    let mut world = World::new(Params::default(), &[1, 2, 7], 3);
    for _ in 0..30 {
        let shares = world.run(10, 0, |_| 10 * MS);
        assert_eq!(shares, [1, 2, 7]);
    }
}

#[test]
fn weights_of_one_and_a_thousand() {
    let mut world = World::new(Params::default(), &[1, 1000], 3);
    let shares = world.run(2002, 0, |_| 10 * MS);
    assert!((1..=3).contains(&shares[0]), "{shares:?}");
}

#[test]
fn weight_does_not_move_traffic_to_a_slower_server() {
    let mut world = World::new(Params::default(), &[1, 100], 3);
    let latency = |i: usize| [10, 40][i] * MS;
    world.run(200, 0, latency);
    let shares = world.run(1000, 0, latency);
    assert!(shares[0] > 900, "{shares:?}");
}

#[test]
fn a_server_that_fails_fast_loses_its_traffic_and_comes_back() {
    let mut world = World::equal(3);
    let latency = |i: usize| [1, 50, 50][i] * MS;
    world.run(2000, 0, latency);
    let failing = |i: usize| if i == 0 { Outcome::Fail(Failure::Status) } else { Outcome::Pass };
    let errors = (0..3000).filter(|_| world.one(GET, latency, failing).index == 0).count();
    assert!(errors < 45, "{errors} errors of 3000");
    let mut spent = 0;
    while world.run(20, 80 * MS, latency)[0] < 19 {
        spent += 1;
        assert!(spent < 40, "not back within 60 s");
    }
}

#[test]
fn a_recovered_server_is_found_without_safe_requests() {
    let mut world = World::equal(2);
    let latency = |i: usize| [1, 50][i] * MS;
    let failing = |i: usize| if i == 0 { Outcome::Fail(Failure::Connect) } else { Outcome::Pass };
    for _ in 0..300 {
        world.one(POST, latency, failing);
        world.now += 50 * MS;
    }
    let start = world.now;
    while world.one(POST, latency, |_| Outcome::Pass).reason == Reason::Trial || world.peers[0].failure_level() > 0.02 {
        world.now += 99 * MS;
        assert!(world.now - start < 60_000_000, "not back within 60 s");
    }
}

#[test]
fn a_server_counted_out_is_tried_now_and_then() {
    let mut world = World::equal(2);
    world.run(200, 10 * MS, |_| MS);
    world.candidates[0].fit = Fit::CountedOut;
    let mut trials = 0;
    for _ in 0..1000 {
        let choice = world.one(GET, |_| MS, |_| Outcome::Pass);
        trials += u32::from(choice.reason == Reason::Trial);
        assert_eq!(choice.index == 0, choice.reason == Reason::Trial);
        world.now += 19 * MS;
    }
    assert!((3..=5).contains(&trials), "{trials} trials in 20 s");
}

#[test]
fn nobody_usable_is_no_choice_and_then_the_least_bad() {
    let mut world = World::equal(3);
    world.run(50, 0, |_| MS);
    world.candidates[0].fit = Fit::Unfit;
    world.candidates[1].fit = Fit::CountedOut;
    world.candidates[2].fit = Fit::Unfit;
    world.peers[1].last_trial.store(world.now, labor_core::sync::Ordering::Relaxed);
    assert!(world.begin(GET).is_none());
    let shared = labor_core::Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
    let choice = world.balancer.least_bad(shared, &world.candidates, world.now).unwrap();
    assert_eq!((choice.index, choice.reason), (1, Reason::Panic));
    world.candidates[1].fit = Fit::Unfit;
    assert!(world.balancer.least_bad(shared, &world.candidates, world.now).is_none());
}

#[test]
fn a_hanging_server_swallows_few_requests() {
    let mut world = World::equal(3);
    world.run(300, 0, |_| 10 * MS);
    let mut hung = Vec::new();
    for _ in 0..500 {
        let (choice, attempt) = world.begin(GET).unwrap();
        if choice.index == 0 {
            hung.push(attempt);
            world.now += 2 * MS;
        } else {
            world.now += 10 * MS;
            world.finish(attempt, Outcome::Pass);
        }
    }
    assert!((1..=2).contains(&hung.len()), "{} hung", hung.len());
}

#[test]
fn exploration_stays_within_its_budget() {
    let mut world = World::equal(4);
    let latency = |i: usize| [10, 40, 80, 300][i] * MS;
    world.run(500, 0, latency);
    let (count, start) = (20_000, world.now);
    let shares = world.run(count, 0, latency);
    let extra = (world.now - start) as f64 / (count as f64 * 10_000.0) - 1.0;
    assert!(extra < 0.0115, "{extra}");
    assert!(shares[1] > shares[2] && shares[2] > shares[3] && shares[3] > 0, "{shares:?}");
}

#[test]
fn a_server_that_became_the_fastest_is_found() {
    let mut world = World::equal(4);
    world.run(2000, 0, |i| [10, 10, 10, 200][i] * MS);
    let start = world.now;
    while world.run(20, 0, |i| [10, 10, 10, 2][i] * MS)[3] < 19 {
        assert!(world.now - start < 120_000_000, "not found in two minutes");
    }
}

#[test]
fn the_other_policies_share_as_they_say() {
    for (policy, shares) in [(Policy::RoundRobin, [20, 40, 60]), (Policy::LeastConn, [20, 40, 60])] {
        let mut world = World::new(Params { policy, ..Params::default() }, &[1, 2, 3], 5);
        assert_eq!(world.run(120, 0, |i| [1, 5, 25][i] * MS), shares, "{policy:?}");
    }
    let mut world = World::new(Params { policy: Policy::Weighted, ..Params::default() }, &[1, 1, 1], 5);
    let latency = |i: usize| [10, 20, 40][i] * MS;
    world.run(300, 0, latency);
    let shares = world.run(700, 0, latency);
    assert!(shares[0].abs_diff(400) < 12 && shares[1].abs_diff(200) < 12, "{shares:?}");
    let mut world = World::new(Params { policy: Policy::Decay, ..Params::default() }, &[1, 1], 5);
    world.run(10, 0, |i| [100, 1500][i] * MS);
    let shares = world.run(100, 0, |i| [100, 1500][i] * MS);
    assert!(shares[1] <= 1, "{shares:?}");
}

#[test]
fn fixed_shares_stay_fixed_beside_a_hanging_server() {
    // New servers, one of which never answers: its cap must not bend what the policy promises.
    let mut world = World::new(Params { policy: Policy::RoundRobin, ..Params::default() }, &[1, 1], 1);
    let (mut hanging, mut shares) = (Vec::new(), [0, 0]);
    for _ in 0..200 {
        let (choice, attempt) = world.begin(GET).unwrap();
        shares[choice.index] += 1;
        world.now += 5 * MS;
        if choice.index == 0 {
            hanging.push(attempt);
        } else {
            world.finish(attempt, Outcome::Pass);
        }
    }
    assert_eq!(shares, [100, 100]);
}

#[test]
fn a_reload_does_not_make_a_group_without_safe_requests_wait_again() {
    let mut world = World::equal(2);
    let failing = |i: usize| if i == 0 { Outcome::Fail(Failure::Status) } else { Outcome::Pass };
    for _ in 0..300 {
        world.one(POST, |_| 10 * MS, failing);
        world.now += 30 * MS;
    }
    // 12 s later each reload brings new balancers; what is shared stays.
    let mut trials = 0;
    for _ in 0..40 {
        let members = world.balancer.members().to_vec();
        world.balancer = Balancer::new(Params::default(), 3);
        world.balancer.set_members(&members);
        for _ in 0..10 {
            trials += usize::from(world.one(POST, |_| 10 * MS, failing).index == 0);
            world.now += 30 * MS;
        }
    }
    assert!(trials >= 2, "{trials} trials in 16 s");
}

#[test]
fn a_silence_that_ends_is_told() {
    let mut world = World::equal(2);
    world.run(100, 10 * MS, |_| 10 * MS);
    let (choice, attempt) = world.begin(GET).unwrap();
    world.now += 400 * MS;
    let (elsewhere, other) = world.begin(GET).unwrap();
    assert_ne!(elsewhere.index, choice.index);
    assert_ne!(Change::last(&world.peers[choice.index]).map(|(change, _)| change), Some(Change::Silent), "no news yet");
    world.finish(other, Outcome::Pass);
    world.now += 600 * MS;
    let (_, other) = world.begin(GET).unwrap();
    let told = |world: &World| Change::last(&world.peers[choice.index]).map(|(change, _)| change);
    assert_eq!(told(&world), Some(Change::Silent));
    world.finish(other, Outcome::Pass);
    // An answer as late as this one ends nothing; the next in time does.
    world.finish(attempt, Outcome::Pass);
    assert_eq!(told(&world), Some(Change::Silent));
    let shared = Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
    let next = world.balancer.take(shared, choice.index, Reason::Sticky, world.now).unwrap();
    let next = Attempt::begin(world.shared(), &next, world.now);
    world.now += 10 * MS;
    world.finish(next, Outcome::Pass);
    assert_eq!(told(&world), Some(Change::Answering));
}

#[test]
fn learned_weights_do_not_chase_the_load_they_make() {
    // Twenty clients in a closed loop over two equal servers of 5 ms + 5 ms for each request under way.
    let mut world = World::new(Params { policy: Policy::Weighted, ..Params::default() }, &[1, 1], 1);
    let mut clients: Vec<_> = Vec::new();
    let (mut second, mut shares) = ([0u32; 2], Vec::new());
    let start = world.now;
    while world.now - start < 60_000 * MS {
        if clients.len() < 20 {
            let (choice, attempt) = world.begin(GET).unwrap();
            second[choice.index] += 1;
            clients.push((world.now + 5 * MS * u64::from(1 + choice.queue), choice.index, attempt));
            continue;
        }
        let next = (0..clients.len()).min_by_key(|&i| clients[i].0).unwrap();
        let (at, _, attempt) = clients.swap_remove(next);
        if at / 1_000_000 != world.now / 1_000_000 {
            shares.push(f64::from(second[0]) / f64::from(second[0] + second[1]));
            second = [0; 2];
        }
        world.now = at;
        world.finish(attempt, Outcome::Pass);
    }
    let late = &shares[20..];
    assert!(late.iter().all(|share| (0.4..0.6).contains(share)), "{late:.2?}");
}

/// Predicted latency of server `i` at its current queue, ms.
fn predicted_ms(world: &World, i: usize) -> f64 {
    let (members, params) = (world.balancer.members(), world.balancer.params());
    explain(world.shared(), members, params, world.now)[i].latency_us.unwrap_or(0.0) / 1000.0
}

#[test]
fn a_server_that_turns_slow_or_fast_is_known_as_such_after_a_few_answers() {
    let mut world = World::equal(2);
    world.run(500, 10 * MS, |i| [5, 20][i] * MS);
    let turned = world.now;
    while predicted_ms(&world, 0) < 250.0 {
        world.run(1, 20 * MS, |i| [500, 20][i] * MS);
        assert!(world.now - turned < 30_000 * MS, "{} ms", predicted_ms(&world, 0));
    }
    let seen = world.peers[0].requests.load(std::sync::atomic::Ordering::Relaxed);
    world.run(200, 20 * MS, |i| [500, 20][i] * MS);
    let later = world.peers[0].requests.load(std::sync::atomic::Ordering::Relaxed);
    assert!(later - seen <= 2, "{} requests to a server known as slow", later - seen);
}

#[test]
fn a_pause_moves_no_curve() {
    let mut world = World::equal(2);
    world.run(500, 10 * MS, |_| 10 * MS);
    // Both stop for 900 ms: answers late by much come one after the other, but not for longer than a pause.
    let until = world.now + 900 * MS;
    while world.now < until {
        world.run(1, 0, |_| 50 * MS);
    }
    assert!((0..2).all(|i| predicted_ms(&world, i) < 25.0), "{} {}", predicted_ms(&world, 0), predicted_ms(&world, 1));
}
