//! The real pick against a naive one that computes every score by the book, and properties that hold whatever the input.
#![cfg(not(loom))]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{GET, World};
use labor_core::report::{Explanation, explain};
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Attempt, Choice, Failure, Fit, Outcome, Params, Policy, Reason, Shared};
use proptest::collection::vec;
use proptest::prelude::*;

/// One answer: server, requests in flight before it, latency (µs), and whether it failed.
type Answer = (usize, u32, u64, bool);
/// One server at the pick: weight, requests in flight, time since its last answer (µs), fit.
type Server = (u32, u32, u64, u8);

/// Books `answers` and sets the scene for a pick.
fn scene(servers: &[Server], answers: &[Answer], params: Params, seed: u64) -> World {
    let weights: Vec<u32> = servers.iter().map(|s| s.0).collect();
    let mut world = World::new(params, &weights, seed);
    for &(server, queue, latency, failed) in answers {
        let server = server % servers.len();
        world.peers[server].q.store(queue as i32, Relaxed);
        let choice = Choice {
            index: server,
            slot: Some(server as u32),
            reason: Reason::Fastest,
            latency: 0.0,
            score: 0.0,
            queue,
            price: 0.0,
            best: 0.0,
        };
        let attempt = Attempt::begin(world.shared(), &choice, world.now);
        world.now += latency;
        let outcome = if failed { Outcome::Fail(Failure::Status) } else { Outcome::Pass };
        world.finish(attempt, outcome);
    }
    for (i, &(_, queue, quiet, fit)) in servers.iter().enumerate() {
        world.peers[i].q.store(queue as i32, Relaxed);
        world.peers[i].last_answer.store(world.now.saturating_sub(quiet), Relaxed);
        world.peers[i].busy_since.store(0, Relaxed);
        world.candidates[i].fit =
            [Fit::Usable, Fit::Usable, Fit::Usable, Fit::CountedOut, Fit::Unfit][fit as usize % 5];
    }
    world
}

/// Which side of a corner of the curve an in-flight count lies on is rounding's business.
const CORNER: f64 = 1e-5;

/// The curve at x, by the book: linear in ln(x + 1), slope 1 beyond the last point; and the right-hand slope, of the place
/// `nudge` further on.
fn interpolate(e: &Explanation, q: f64, scale: f64, nudge: f64) -> (f64, f64) {
    let u = |in_flight: f64| (in_flight * scale).ln_1p();
    let points: Vec<(f64, f64)> = e.curve.iter().map(|p| (u(p.in_flight), (p.latency_us * 1e-6).ln())).collect();
    let at = u(q) + nudge;
    for pair in points.windows(2) {
        if at < pair[1].0 - 1e-12 {
            let slope = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
            return (pair[0].1 + slope * (at - pair[0].0), slope);
        }
    }
    let last = points[points.len() - 1];
    (last.1 + at - last.0, 1.0)
}

/// Section 5 of the law, one server at a time, nothing skipped: the least and the most that each score may be.
fn naive_scores(world: &World, servers: &[Server], explanations: &[Explanation], tail: f64) -> [Vec<f64>; 2] {
    let [left, right] = [-CORNER, CORNER].map(|nudge| scores_beside(world, servers, explanations, tail, nudge));
    let both = |choose: fn(f64, f64) -> f64| left.iter().zip(&right).map(|(a, b)| choose(*a, *b)).collect();
    [both(f64::min), both(f64::max)]
}

fn scores_beside(world: &World, servers: &[Server], explanations: &[Explanation], tail: f64, nudge: f64) -> Vec<f64> {
    let mean = servers.iter().map(|s| f64::from(s.0)).sum::<f64>() / servers.len() as f64;
    let idle = |i: usize| interpolate(&explanations[i], 0.0, mean / f64::from(servers[i].0), 0.0).0.exp();
    let usable = |i: usize| world.candidates[i].fit == Fit::Usable;
    let slowest = (0..servers.len()).filter(|&i| usable(i)).map(idle).fold(0.0, f64::max);
    let seasoned = world.peers.iter().filter(|p| p.answers.load(Relaxed) >= 8).count();
    let one = |i: usize| {
        if !usable(i) {
            return f64::INFINITY;
        }
        let (weight, queue, quiet, _) = servers[i];
        let (q, x) = (f64::from(queue), f64::from(queue) * mean / f64::from(weight));
        let (value, slope) = interpolate(&explanations[i], q, mean / f64::from(weight), nudge);
        // Nobody has been quiet for longer than there is time.
        let quiet = quiet.min(world.now);
        let z = (q * (quiet as f64 * 1e-6) / (value.exp() * tail)).min(50.0);
        let hanging = |z: f64| 1e-5 / (1e-5 + (-z).exp());
        let silence = (300.0 * (hanging(z) - hanging(0.0))).ln_1p();
        let before = value + (slope.clamp(0.0, 3.0) * x / (x + 1.0)).ln_1p() + silence;
        let f = f64::from(world.peers[i].failure_level());
        let answers = world.peers[i].answers.load(Relaxed);
        let capped = 2 * seasoned >= servers.len() && answers < 8 && queue >= (2 * answers).max(1);
        (before.exp() + f * 10.0 * slowest).ln() + if capped { 1000.0 } else { 0.0 }
    };
    (0..servers.len()).map(one).collect()
}

fn servers() -> impl Strategy<Value = Vec<Server>> {
    vec((1u32..20, 0u32..50, 0u64..2_000_000, 0u8..5), 1..8)
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    vec((0usize..8, 0u32..60, 500u64..500_000, prop::bool::weighted(0.05)), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The scan with its lookups, shortcuts and skipped penalties chooses as the book does.
    #[test]
    fn the_pick_agrees_with_the_book(servers in servers(), answers in answers(), seed in 0u64..100) {
        let params = Params { explore: 0.0, ..Params::default() };
        let mut world = scene(&servers, &answers, params, seed);
        let members = world.balancer.members().to_vec();
        let explanations = explain(world.shared(), &members, &params, world.now);
        prop_assume!(!explanations[0].curve.is_empty());
        let tail = f64::from(labor_core::report::tail(world.shared(), &members, &params, world.now));
        let [low, high] = naive_scores(&world, &servers, &explanations, tail);
        let [least, most] = [&low, &high].map(|scores| scores.iter().copied().fold(f64::INFINITY, f64::min));
        let shared = Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
        // A retry: no trials, no exploration.
        let retry = labor_core::Request { first: false, ..GET };
        let Some(choice) = world.balancer.pick(shared, &world.candidates, retry, world.now) else {
            prop_assert!(least.is_infinite());
            return Ok(());
        };
        prop_assert!(low[choice.index] <= most + 0.0105, "{} of {low:?}", choice.index);
        // Nobody clearly tied is emptier by weight.
        let load = |i: usize| f64::from(servers[i].1) / f64::from(servers[i].0);
        for i in (0..servers.len()).filter(|&i| high[i] <= least + 0.0095) {
            prop_assert!(load(choice.index) <= load(i) + 1e-9, "{} has {}, {i} {}", choice.index, load(choice.index), load(i));
        }
    }

    /// Rows are finite and rise with the queue, and scores are numbers, for any latencies and weights.
    #[test]
    fn rows_are_finite_and_isotonic(
        weights in vec(prop_oneof![Just(1u32), 1u32..100, Just(1_000_000)], 1..6),
        answers in vec((0usize..6, prop_oneof![0u32..8, 0u32..100_000], prop_oneof![0u64..10, 0u64..u64::from(u32::MAX)],
            any::<bool>()), 0..200),
    ) {
        let servers: Vec<Server> = weights.iter().map(|&w| (w, 3, 1_000_000_000_000, 0)).collect();
        let world = scene(&servers, &answers, Params::default(), 1);
        for e in explain(world.shared(), world.balancer.members(), &Params::default(), world.now) {
            prop_assert!(e.curve.iter().all(|p| p.latency_us.is_finite() && p.latency_us > 0.0), "{e:?}");
            prop_assert!(e.curve.windows(2).all(|w| w[0].latency_us <= w[1].latency_us * (1.0 + 1e-5)), "{e:?}");
            prop_assert!(e.score.is_none_or(f32::is_finite), "{e:?}");
        }
    }

    /// No policy ever picks an unfit server, or fails to pick a usable one.
    #[test]
    fn every_pick_is_fit(servers in servers(), answers in answers(), seed in 0u64..100, policy in 0usize..5) {
        let policy = [Policy::Fastest, Policy::Weighted, Policy::LeastConn, Policy::RoundRobin, Policy::Decay][policy];
        let mut world = scene(&servers, &answers, Params { policy, explore: 0.1, ..Params::default() }, seed);
        let usable = world.candidates.iter().any(|c| c.fit == Fit::Usable);
        for _ in 0..20 {
            let picked = world.begin(GET);
            prop_assert!(picked.is_some() || !usable);
            if let Some((choice, _)) = picked {
                let fit = world.candidates[choice.index].fit;
                prop_assert!(fit == Fit::Usable || (fit == Fit::CountedOut && choice.reason == Reason::Trial));
                prop_assert!(choice.score.is_finite() && choice.latency.is_finite() && choice.price >= 0.0);
            }
            world.now += 100_000;
        }
    }

    /// Equal servers: always one with the fewest in flight, and in turn among those.
    #[test]
    fn equal_servers_are_least_connections(latency in 100u64..5_000_000, hold in 1usize..12, n in 1usize..7, seed in 0u64..50) {
        let mut world = World::new(Params::default(), &vec![1; n], seed);
        let mut open = std::collections::VecDeque::new();
        for _ in 0..200 {
            let least = world.peers.iter().map(labor_core::Peer::queue).min().unwrap();
            let (choice, attempt) = world.begin(GET).unwrap();
            prop_assert_eq!(choice.queue, least);
            open.push_back(attempt);
            world.now += latency / hold as u64;
            if open.len() > hold {
                let attempt = open.pop_front().unwrap();
                world.finish(attempt, Outcome::Pass);
            }
        }
    }
}
