//! The bars that the law must clear, on short fixed-seed runs: what a change of the core may not break.
//!
//! Short runs are noisy, so the bounds leave room; the full comparison is `labor-sim compare`.

use labor_sim::compare::{MEAN, P99, average};
use labor_sim::dist::Dist;
use labor_sim::{Kind, Scenario, Summary, run};
use std::path::Path;

const SEEDS: [u64; 2] = [11, 12];

fn scenario(name: &str, seconds: f64) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{name}.toml"));
    let mut scenario = Scenario::load(&path).unwrap();
    scenario.duration = scenario.duration.min(seconds);
    scenario
}

fn figure(scenario: &Scenario, kind: Kind, figure: fn(&Summary) -> f64) -> f64 {
    average(&SEEDS.map(|seed| figure(&run(scenario, kind, seed))))
}

/// Every peer that knows more than turns.
const PEERS: [Kind; 4] = [Kind::LeastConn, Kind::LeastTime, Kind::LeastTimeInflight, Kind::PeakEwma];

/// Labor is at most `slack` times the best peer in mean and p99.
fn no_worse(name: &str, seconds: f64, slack: f64) {
    let scenario = scenario(name, seconds);
    for (what, of) in [("mean", MEAN), ("p99", P99)] {
        let ours = figure(&scenario, Kind::Labor, of);
        let best = PEERS.map(|peer| figure(&scenario, peer, of)).into_iter().fold(f64::INFINITY, f64::min);
        assert!(ours <= slack * best, "{name}: {what} {ours:.2} against the best peer's {best:.2}");
    }
}

#[test]
fn unequal_servers_beat_every_peer() {
    // Bar 1 asks for 1.02; in these all the gain is 9 to 35 %.
    for (name, seconds) in [("blog", 600.0), ("light", 300.0), ("lan", 15.0), ("zones", 20.0), ("mix", 20.0)] {
        no_worse(name, seconds, 0.95);
    }
}

#[test]
fn equal_servers_are_no_worse_than_the_best_peer() {
    for (name, seconds) in [("homog60", 30.0), ("homog90", 30.0), ("heavy-tail", 15.0), ("cache", 15.0)] {
        no_worse(name, seconds, 1.02);
    }
}

#[test]
fn the_tail_is_far_below_least_time() {
    // Bar 2.
    for (name, seconds, factor) in
        [("blog", 900.0, 2.0), ("lan", 20.0, 2.0), ("zones", 20.0, 2.0), ("tail", 30.0, 2.0), ("recovered", 120.0, 1.5)]
    {
        let scenario = scenario(name, seconds);
        let (ours, theirs) = (figure(&scenario, Kind::Labor, P99), figure(&scenario, Kind::LeastTime, P99));
        assert!(theirs >= factor * ours, "{name}: {ours:.2} against {theirs:.2}");
    }
    let lan = scenario("lan", 15.0);
    assert!(2.0 * figure(&lan, Kind::Labor, MEAN) <= figure(&lan, Kind::LeastTime, MEAN));
}

#[test]
fn the_mean_is_near_the_oracle() {
    // Bar 3 asks for 1.05.
    for (name, seconds, bound) in [
        ("blog", 900.0, 1.05),
        ("lan", 20.0, 1.05),
        ("zones", 20.0, 1.05),
        ("homog60", 30.0, 1.02),
        ("tail", 30.0, 1.03),
        ("heavy-tail", 15.0, 1.03),
    ] {
        let scenario = scenario(name, seconds);
        let (ours, oracle) = (figure(&scenario, Kind::Labor, MEAN), figure(&scenario, Kind::Oracle, MEAN));
        assert!(ours <= bound * oracle, "{name}: {ours:.2} against {oracle:.2}");
    }
}

#[test]
fn traffic_stays_with_the_fastest_while_it_has_room() {
    for (name, seconds, share) in [("blog", 900.0, 0.97), ("lan", 20.0, 0.96), ("wide-100ms", 150.0, 0.97)] {
        let least = figure(&scenario(name, seconds), Kind::Labor, |s| s.share(0));
        assert!(least >= share, "{name}: {least:.3}");
    }
    let wide = figure(&scenario("wide-100ms", 150.0), Kind::Labor, MEAN);
    assert!(wide <= 103.0, "{wide:.1}");
}

#[test]
fn four_workers_keep_to_the_nearest_host_from_the_start() {
    // 35 s of which the first 15 are for learning, as on real nginx (t/bench-blog.t).
    let mut blog = scenario("blog", 35.0);
    (blog.warmup, blog.workers, blog.service) = (15.0, 4, Dist::Exp);
    let shares: Vec<f64> = (5001..=5120).map(|seed| run(&blog, Kind::Labor, seed).share(0)).collect();
    // 0.990 over 2000 seeds; 0.984 with an account of savings for each worker. Single starts may have far less.
    assert!(average(&shares) >= 0.988, "{:.4}", average(&shares));
}

#[test]
fn a_slow_phase_is_seen_in_time() {
    no_worse("step", 120.0, 1.02);
}

#[test]
fn fast_failures_attract_nothing() {
    let scenario = scenario("fastfail-1ms", 90.0);
    for seed in SEEDS {
        let errors = run(&scenario, Kind::Labor, seed).watch.errors();
        assert!(errors < 0.01, "{errors}");
    }
}

#[test]
fn random_failures_cost_almost_nothing() {
    for name in ["random-5xx-0.1", "random-5xx-1"] {
        let scenario = scenario(name, 20.0);
        let (ours, theirs) = (figure(&scenario, Kind::Labor, MEAN), figure(&scenario, Kind::LeastConn, MEAN));
        assert!(ours <= 1.02 * theirs, "{name}: {ours:.2} against {theirs:.2}");
    }
}

#[test]
fn a_recovered_server_is_back_within_a_minute() {
    for name in ["recovery-10", "recovery-10-post"] {
        let scenario = scenario(name, 300.0);
        for seed in SEEDS {
            // The window begins a minute after the recovery; the server is five times faster than the others.
            let share = run(&scenario, Kind::Labor, seed).watch.share();
            assert!(share > 0.8, "{name}: {share}");
        }
    }
}

#[test]
fn a_burst_on_a_fresh_start_is_served() {
    let scenario = scenario("fresh-burst", 20.0);
    let summary = run(&scenario, Kind::Labor, SEEDS[0]);
    assert_eq!((summary.refused, summary.failed), (0, 0));
    assert!(figure(&scenario, Kind::Labor, MEAN) <= figure(&scenario, Kind::PeakEwma, MEAN));
}

/// Everybody is saturated: sharing is as fair as it gets, and where servers differ it is fairer than by numbers alone.
#[test]
fn overload_is_shared_no_worse_than_by_least_connections() {
    for (name, bound) in [("overload", 1.02), ("overload-unequal", 0.95)] {
        let scenario = scenario(name, 120.0);
        let (ours, theirs) = (figure(&scenario, Kind::Labor, P99), figure(&scenario, Kind::LeastConn, P99));
        assert!(ours <= bound * theirs, "{name}: {ours:.0} against {theirs:.0}");
    }
}
