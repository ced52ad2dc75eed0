//! `labor-sim run`: one scenario, one seed, in full.

use super::{now, pictures, runs, write};
use labor_sim::compare::short;
use labor_sim::policy::Kind;
use labor_sim::stats::Summary;
use labor_sim::{Scenario, shipped};
use std::fmt::Write as _;
use std::path::Path;

/// Runs and prints; writes pictures and the course of the runs where asked to.
pub fn run(
    name: &str,
    kinds: &[Kind],
    (seed, requests): (u64, Option<u64>),
    (svg, csv): (Option<&Path>, Option<&Path>),
) -> Result<(), String> {
    let scenario = shipped::load(name)?;
    let scenario = requests.map_or(scenario.clone(), |n| scenario.with_requests(n));
    println!("{}: {}", scenario.name, scenario.about);
    let mut done = Vec::new();
    for &kind in kinds {
        let begun = now();
        // Without pictures nothing is kept that slows the run.
        let summary = if svg.is_some() || csv.is_some() {
            runs(&scenario, &[kind], seed).remove(0).1
        } else {
            labor_sim::run(&scenario, kind, seed)
        };
        let took = begun.elapsed().as_secs_f64();
        print!("{}", text(&scenario, kind, seed, &summary));
        println!("{took:.2} s, {:.2} M requests/s", summary.sent as f64 / took / 1e6);
        done.push((kind, summary));
    }
    if let Some(file) = csv {
        write(file, &course(&scenario, &done))?;
    }
    if let Some(directory) = svg {
        for file in pictures(directory, &scenario, &done)? {
            println!("{}", directory.join(file).display());
        }
    }
    Ok(())
}

fn text(scenario: &Scenario, kind: Kind, seed: u64, s: &Summary) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!("policy {}, seed {seed}, {} requests", kind.name(), s.sent));
    line(format!("mean {}  p50 {}  p99 {}  p99.9 {} ms", short(s.mean), short(s.p50), short(s.p99), short(s.p999)));
    let (errors, slow) = (s.errors(), 100.0 * s.slow);
    line(format!("errors {errors:.3} %, refused {}, above 10 times the median {slow:.3} %", s.refused));
    let shares: Vec<_> = (0..s.counts.len()).map(|i| format!("{:.1}", 100.0 * s.share(i))).collect();
    line(format!("shares % {}", shares.join(" ")));
    if let Some(found) = s.found {
        line(format!("the fastest was found after {found} attempts"));
    }
    if let Some(changes) = s.changes {
        line(format!("changes of opinion {changes:.1} a minute"));
    }
    for (server, reason, count) in &s.reasons {
        line(format!("  server {server} {reason}: {count}"));
    }
    if scenario.watch.is_some() {
        let w = s.watch;
        let (share, errors) = (100.0 * w.share(), 100.0 * w.errors());
        let mean = short(w.mean());
        line(format!("watched: share {share:.3} %, errors {errors:.3} %, mean {mean} ms, {} requests", w.sent));
    }
    out
}

/// The course of runs as CSV.
fn course(scenario: &Scenario, runs: &[(Kind, Summary)]) -> String {
    let mut out = String::from("scenario,policy,second,answers,failed,mean_ms,p99_ms,attempts_by_server\n");
    for (kind, summary) in runs {
        for (i, slice) in summary.timeline.slices.iter().enumerate() {
            let picks: Vec<_> = slice.picks.iter().map(u64::to_string).collect();
            let _ = writeln!(
                out,
                "{},{},{:.4},{},{},{:.5},{:.5},{}",
                scenario.name,
                kind.name(),
                i as f64 * summary.timeline.step,
                slice.good(),
                slice.failed,
                slice.mean,
                slice.p99,
                picks.join(" ")
            );
        }
    }
    out
}
