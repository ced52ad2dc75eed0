//! Many runs side by side: all policies on the same scenarios and seeds, and what follows from them.

mod table;

use crate::policy::Kind;
use crate::stats::{Ratio, Summary, paired};
use crate::{Scenario, run};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All runs of one scenario: for every policy one summary per seed, in the order of the seeds.
#[derive(Debug)]
pub struct Sheet<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Policies with their runs.
    pub rows: Vec<(Kind, Vec<Summary>)>,
}

/// Runs every scenario with every policy and seed on all cores; `progress` is told (done, total) after every run.
pub fn compare<'a>(
    scenarios: &'a [Scenario],
    kinds: &[Kind],
    seeds: &[u64],
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Sheet<'a>> {
    let jobs: Vec<(usize, Kind, u64)> = (0..scenarios.len())
        .flat_map(|s| kinds.iter().flat_map(move |&k| seeds.iter().map(move |&seed| (s, k, seed))))
        .collect();
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Summary>>> = Mutex::new(vec![None; jobs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(s, kind, seed)) = jobs.get(at) else { break };
                    let summary = run(&scenarios[s], kind, seed);
                    if let Ok(mut results) = results.lock() {
                        results[at] = Some(summary);
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner()).into_iter().flatten();
    scenarios
        .iter()
        .map(|scenario| Sheet {
            scenario,
            seeds: seeds.to_vec(),
            rows: kinds.iter().map(|&k| (k, results.by_ref().take(seeds.len()).collect())).collect(),
        })
        .collect()
}

/// A figure of a run.
pub type Figure = fn(&Summary) -> f64;

/// Mean latency.
pub const MEAN: Figure = |s| s.mean;
/// 99th percentile.
pub const P99: Figure = |s| s.p99;
/// Share above ten times the median.
pub const SLOW: Figure = |s| s.slow;

impl Sheet<'_> {
    /// One figure of one policy over all seeds; empty when it was not run.
    pub fn figures(&self, kind: Kind, figure: Figure) -> Vec<f64> {
        self.rows.iter().find(|r| r.0 == kind).map(|r| r.1.iter().map(figure).collect()).unwrap_or_default()
    }

    /// The peer with the smallest average of a figure, among those that do not buy it with errors: failing fast is no
    /// achievement, and a failed request leaves its server free for others.
    pub fn best_peer(&self, figure: Figure) -> Option<Kind> {
        let value = |kind: Kind, figure: Figure| average(&self.figures(kind, figure));
        let allowed = 2.0 * value(Kind::Labor, Summary::errors) + 0.1;
        self.rows
            .iter()
            .map(|r| r.0)
            .filter(|&k| k.is_peer() && value(k, Summary::errors) <= allowed)
            .min_by(|&a, &b| value(a, figure).total_cmp(&value(b, figure)))
    }

    /// Our figure over another policy's, paired by seed.
    pub fn ratio(&self, other: Kind, figure: Figure) -> Option<Ratio> {
        let (ours, theirs) = (self.figures(Kind::Labor, figure), self.figures(other, figure));
        (!ours.is_empty() && !theirs.is_empty()).then(|| paired(&ours, &theirs))
    }

    /// How far the mean of a policy is above the oracle's, as a share of it; `None` without an oracle.
    pub fn regret(&self, kind: Kind) -> Option<f64> {
        let oracle = average(&self.figures(Kind::Oracle, MEAN));
        (oracle > 0.0).then(|| average(&self.figures(kind, MEAN)) / oracle - 1.0)
    }

    /// Share of the requests that the servers with the smallest idle latency got.
    pub fn fastest(&self, summary: &Summary) -> f64 {
        let fastest = self.scenario.fastest();
        (0..fastest.len()).filter(|&i| fastest[i]).map(|i| summary.share(i)).sum()
    }

    /// The first line of what [`Sheet::csv`] writes.
    pub const CSV_HEAD: &'static str = "scenario,policy,seed,requests,mean_ms,p50_ms,p99_ms,p999_ms,errors_pct,slow_pct,\
                                        fastest_pct,found_attempts,changes_per_minute,regret_pct,watch_share_pct,\
                                        watch_errors_pct,watch_mean_ms,shares_pct\n";

    /// One line per policy and seed. Missing figures are empty; shares are separated by blanks.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let oracle = self.figures(Kind::Oracle, MEAN);
        for (kind, runs) in &self.rows {
            for (at, s) in runs.iter().enumerate() {
                let regret = oracle.get(at).map(|o| format!("{:.3}", 100.0 * (s.mean / o - 1.0)));
                let shares: Vec<_> = (0..s.counts.len()).map(|i| format!("{:.3}", 100.0 * s.share(i))).collect();
                let watch = self.scenario.watch.map(|_| {
                    let (share, errors) = (100.0 * s.watch.share(), 100.0 * s.watch.errors());
                    format!("{share:.4},{errors:.4},{:.5}", s.watch.mean())
                });
                let _ = writeln!(
                    out,
                    "{},{},{},{},{:.5},{:.5},{:.5},{:.5},{:.4},{:.4},{:.3},{},{},{},{},{}",
                    self.scenario.name,
                    kind.name().trim_end_matches('*'),
                    self.seeds.get(at).copied().unwrap_or_default(),
                    s.sent,
                    s.mean,
                    s.p50,
                    s.p99,
                    s.p999,
                    s.errors(),
                    100.0 * s.slow,
                    100.0 * self.fastest(s),
                    s.found.map(|n| n.to_string()).unwrap_or_default(),
                    s.changes.map(|n| format!("{n:.3}")).unwrap_or_default(),
                    regret.unwrap_or_default(),
                    watch.unwrap_or_else(|| ",,".into()),
                    shares.join(" "),
                );
            }
        }
        out
    }
}

/// Arithmetic mean; 0 of nothing.
pub fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Three significant digits.
pub fn short(x: f64) -> String {
    match x {
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "about='x'\nrate=500\nduration=2\n[[server]]\nservice_ms=2\nconcurrency=2\n\
                        [[server]]\nservice_ms=5\nconcurrency=2\n";
    const KINDS: [Kind; 3] = [Kind::LeastConn, Kind::Labor, Kind::Oracle];

    #[test]
    fn the_sheet_holds_what_single_runs_give() {
        let scenarios = [Scenario::parse(TEXT).unwrap()];
        let sheets = compare(&scenarios, &KINDS, &[1, 2], &|_, _| {});
        for (kind, runs) in &sheets[0].rows {
            let means: Vec<_> = [1, 2].map(|seed| run(&scenarios[0], *kind, seed).mean).to_vec();
            assert_eq!(runs.iter().map(MEAN).collect::<Vec<_>>(), means);
        }
        assert_eq!(sheets[0].best_peer(MEAN), Some(Kind::LeastConn));
        assert!(sheets[0].table().contains("labor / best peer, p99"));
        assert_eq!(sheets[0].regret(Kind::Oracle), Some(0.0));
    }

    #[test]
    fn the_same_seeds_give_the_same_bytes() {
        let scenarios = [Scenario::parse(TEXT).unwrap()];
        let csv = || compare(&scenarios, &Kind::ALL, &[1, 2], &|_, _| {})[0].csv();
        let first = csv();
        assert_eq!(first, csv());
        assert_eq!(first.lines().count(), 2 * Kind::ALL.len());
        let columns = Sheet::CSV_HEAD.split(',').count();
        assert!(first.lines().all(|line| line.split(',').count() == columns), "{first}");
    }
}
