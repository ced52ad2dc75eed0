//! What `labor` promises when a server fails for a while or joins cold: breakers and slow start. Overload is a bar (`bars.rs`).

use labor_sim::compare::average;
use labor_sim::scenario::Watch;
use labor_sim::{Kind, Scenario, Summary, run, shipped};

const SEEDS: [u64; 3] = [11, 12, 13];

fn figure(scenario: &Scenario, kind: Kind, figure: fn(&Summary) -> f64) -> f64 {
    average(&SEEDS.map(|seed| figure(&run(scenario, kind, seed))))
}

/// `scenario`, watched at server `server` in other seconds.
fn watched(name: &str, server: usize, (from, until): (f64, f64)) -> Scenario {
    Scenario { watch: Some(Watch { server, from, until: Some(until) }), ..shipped::load(name).unwrap() }
}

/// A server that fails everything for twenty seconds costs a handful of requests, and has its share again when it is well.
#[test]
fn a_broken_server_costs_a_handful_and_comes_back() {
    let failing = shipped::load("breaker").unwrap();
    for seed in SEEDS {
        let watch = run(&failing, Kind::Labor, seed).watch;
        // Five to open it, and a trial after 5 s and 10 s more: 24,000 requests come in.
        assert!((1..=20).contains(&watch.failed), "{} of {}", watch.failed, watch.sent);
        let before = run(&watched("breaker", 0, (5.0, 20.0)), Kind::Labor, seed).watch.share();
        // Open for 10 s at most after the end, three trials, a ramp of 5 s.
        let after = run(&watched("breaker", 0, (65.0, 90.0)), Kind::Labor, seed).watch.share();
        assert!(before > 0.12 && after > 0.12, "{before:.3} before, {after:.3} after");
    }
}

/// A cold server that joins is led up: it takes little while its answers are slow, and its share when it is warm.
#[test]
fn a_cold_server_is_led_up() {
    let share = |from, until| figure(&watched("cold-ramp", 5, (from, until)), Kind::Labor, |s| s.watch.share());
    // Forty answers of 400 ms take some two minutes of what may be spent on exploring.
    let (first, last) = (share(20.0, 60.0), share(220.0, 240.0));
    assert!(first > 0.0 && first < 0.05, "cold: {first:.4}");
    assert!(last > 0.12, "warm: {last:.3}");
    // What the cold answers cost all of them, against those who send it a full share at once.
    let scenario = watched("cold-ramp", 5, (20.0, 30.0));
    let (ours, theirs) =
        (figure(&scenario, Kind::Labor, |s| s.watch.mean()), figure(&scenario, Kind::RoundRobin, |s| s.watch.mean()));
    assert!(ours < 1.1 * theirs, "{ours:.2} against {theirs:.2}");
}
