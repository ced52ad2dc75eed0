//! `labor-sim compare` and `labor-sim random`: all policies, scenarios and seeds.

use super::{now, pictures, progress, runs, write};
use labor_sim::compare::{Figure, MEAN, P99, Sheet, average, compare};
use labor_sim::policy::Kind;
use labor_sim::{Scenario, random, shipped};
use std::path::Path;

/// Policies in pictures: more lines than these cannot be told apart.
const PICTURED: [Kind; 6] =
    [Kind::Labor, Kind::LeastConn, Kind::LeastTime, Kind::PeakEwma, Kind::P2cPeakEwma, Kind::Oracle];

/// Runs everything, prints a table per scenario and the total time.
pub fn compare_all(
    names: &[String],
    (kinds, seeds, requests): (&[Kind], &[u64], Option<u64>),
    (csv, svg): (Option<&Path>, Option<&Path>),
) -> Result<(), String> {
    let load = |name: &String| shipped::load(name).map(|s| requests.map_or(s.clone(), |n| s.with_requests(n)));
    let scenarios = names.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let begun = now();
    let mut lines = String::from(Sheet::CSV_HEAD);
    let mut worse = Vec::new();
    for (i, scenario) in scenarios.iter().enumerate() {
        let label = format!("{} ({} of {})", scenario.name, i + 1, scenarios.len());
        for sheet in compare(std::slice::from_ref(scenario), kinds, seeds, &progress(&label)) {
            println!("{}", sheet.table());
            lines += &sheet.csv();
            let lost = |f: Figure| sheet.best_peer(f).and_then(|p| sheet.ratio(p, f)).is_some_and(|r| r.low > 1.02);
            if seeds.len() > 1 && (lost(MEAN) || lost(P99)) {
                worse.push(scenario.name.clone());
            }
        }
        if let (Some(directory), Some(&seed)) = (svg, seeds.first()) {
            let pictured: Vec<_> = PICTURED.into_iter().filter(|k| kinds.contains(k)).collect();
            pictures(directory, scenario, &runs(scenario, &pictured, seed))?;
        }
    }
    if let Some(file) = csv {
        write(file, &lines)?;
    }
    println!("* the servers cooperate: no peer of a proxy that they do not know");
    if seeds.len() > 1 {
        let none = "none".to_owned();
        let list = if worse.is_empty() { none } else { worse.join(", ") };
        println!("labor is worse than the best peer (95 % sure, by more than 2 %) in: {list}");
    }
    println!(
        "{} scenarios, {} policies, {} seeds: {:.1} s",
        scenarios.len(),
        kinds.len(),
        seeds.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Draws settings and prints how policies stand against the oracle.
pub fn random_settings((first, settings): (u64, u64), policy: Vec<Kind>, each: bool) {
    let mut kinds = if policy.is_empty() {
        vec![Kind::LeastConn, Kind::LeastTime, Kind::LeastTimeInflight, Kind::PeakEwma, Kind::Labor]
    } else {
        policy
    };
    kinds.retain(|&k| k != Kind::Oracle);
    kinds.push(Kind::Oracle);
    let scenarios: Vec<Scenario> = (first..first + settings).map(random::setting).collect();
    let sheets = compare(&scenarios, &kinds, &[1], &progress("random"));
    println!("{settings} settings from {first}: geometric mean of (policy / oracle), and the worst");
    for &kind in &kinds {
        let [mean, p99] = [MEAN, P99].map(|f| over_oracle(&sheets, kind, f));
        println!(
            "  {:<12} mean {:.3} (worst {:.2})   p99 {:.3} (worst {:.2})",
            kind.name(),
            mean.0,
            mean.1,
            p99.0,
            p99.1
        );
    }
    behind(&sheets);
    for sheet in sheets.iter().filter(|_| each) {
        let s = sheet.scenario;
        let ratio = |f: Figure| sheet.ratio(Kind::Oracle, f).map_or(f64::NAN, |r| r.mean);
        println!(
            "  {}: mean {:.3}  p99 {:.3}  {} balancers, {}",
            s.name,
            ratio(MEAN),
            ratio(P99),
            s.balancers,
            s.about
        );
    }
}

/// Geometric mean and maximum of a figure over the oracle's.
fn over_oracle(sheets: &[Sheet<'_>], kind: Kind, figure: Figure) -> (f64, f64) {
    let logs: Vec<f64> = sheets
        .iter()
        .map(|s| (average(&s.figures(kind, figure)) / average(&s.figures(Kind::Oracle, figure))).ln())
        .collect();
    (average(&logs).exp(), logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp())
}

/// Lists the settings in which labor is more than 2 % behind the best peer.
fn behind(sheets: &[Sheet<'_>]) {
    for sheet in sheets {
        let against = |f: Figure| sheet.best_peer(f).and_then(|peer| Some((peer, sheet.ratio(peer, f)?.mean)));
        let (Some((peer, mean)), Some((_, p99))) = (against(MEAN), against(P99)) else { continue };
        if mean > 1.02 {
            let both = if p99 > 1.02 { "  BOTH" } else { "" };
            let s = sheet.scenario;
            println!(
                "  {}: mean {mean:.3}, p99 {p99:.3} of {}{both}  ({}, {} balancers)",
                s.name,
                peer.name(),
                s.about,
                s.balancers
            );
        }
    }
}
