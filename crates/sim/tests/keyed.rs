//! Affinity by key against consistent hashing as others have it, on short fixed-seed runs.

use labor_sim::{Kind, Scenario, Summary, run};
use std::path::Path;

fn runs(name: &str, seconds: f64) -> [Summary; 3] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{name}.toml"));
    let mut scenario = Scenario::load(&path).unwrap();
    scenario.duration = scenario.duration.min(seconds);
    [Kind::Ketama, Kind::BoundedHash, Kind::LaborHash].map(|kind| run(&scenario, kind, 3))
}

fn most(summary: &Summary) -> f64 {
    (0..summary.counts.len()).map(|server| summary.share(server)).fold(0.0, f64::max)
}

/// T14. Ketama sinks the home, a plain bound costs the other keys theirs.
#[test]
fn a_hot_key_sinks_nobody_and_the_others_stay() {
    let [ketama, bounded, labor] = runs("hot-key", 30.0);
    let kept = |summary: &Summary| summary.kept.unwrap();
    assert!(most(&ketama) > 0.6 && ketama.mean > 10.0 * labor.mean, "{} {}", most(&ketama), ketama.mean);
    assert!(most(&labor) < 1.25 / 3.0, "{}", most(&labor));
    assert!(kept(&labor) > 0.95 && kept(&bounded) < 0.92, "{} {}", kept(&labor), kept(&bounded));
    assert!(labor.mean < 1.03 * bounded.mean, "{} {}", labor.mean, bounded.mean);
}

/// A home that becomes eight times slower is left, not waited for.
#[test]
fn a_slow_home_costs_its_keys_little() {
    let [ketama, bounded, labor] = runs("keyed-slow", 60.0);
    assert!(labor.p99 < bounded.p99 && labor.p999 < 0.6 * bounded.p999, "{} {}", labor.p999, bounded.p999);
    assert!(ketama.mean > 10.0 * labor.mean);
    assert!(labor.kept > Some(0.75), "{:?}", labor.kept);
}
