//! Many runs side by side: all policies on the same scenarios and seeds, and what follows from them.

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
                while let Some(&(s, kind, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let summary = run(&scenarios[s], kind, seed);
                    let at = jobs.iter().position(|&j| j == (s, kind, seed));
                    if let (Ok(mut results), Some(at)) = (results.lock(), at) {
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

    /// Share of the requests that the servers with the smallest idle latency got.
    fn fastest(&self, summary: &Summary) -> f64 {
        let idle = |i: usize| self.scenario.server[i].service_ms + self.scenario.server[i].net_ms;
        let n = self.scenario.server.len();
        let least = (0..n).map(idle).fold(f64::INFINITY, f64::min);
        (0..n).filter(|&i| idle(i) <= least).map(|i| summary.share(i)).sum()
    }

    /// The table as text.
    pub fn table(&self) -> String {
        let mut out = format!("\n{}  ({} seeds)\n", self.scenario.name, self.rows.first().map_or(0, |r| r.1.len()));
        let watch = self.scenario.watch.map_or("", |_| "   w.share   w.err%   w.mean");
        let _ = writeln!(out, "  policy           mean       p99     p99.9  err%   fastest%  >10·med%{watch}");
        for (kind, runs) in &self.rows {
            let of = |figure: &dyn Fn(&Summary) -> f64| average(&runs.iter().map(figure).collect::<Vec<_>>());
            let _ = write!(
                out,
                "  {:<12} {:>9} {:>9} {:>9} {:>5.2} {:>9.1} {:>9.3}",
                kind.name(),
                short(of(&MEAN)),
                short(of(&P99)),
                short(of(&|s| s.p999)),
                of(&Summary::errors),
                100.0 * of(&|s| self.fastest(s)),
                100.0 * of(&SLOW),
            );
            if self.scenario.watch.is_some() {
                let (share, errors) = (100.0 * of(&|s| s.watch.share()), 100.0 * of(&|s| s.watch.errors()));
                let _ = write!(out, " {share:>9.2} {errors:>8.2} {:>8}", short(of(&|s| s.watch.mean())));
            }
            out.push('\n');
        }
        out + &self.verdict()
    }

    /// How we stand against the best peer and the oracle.
    fn verdict(&self) -> String {
        let mut out = String::new();
        for (what, figure) in [("mean", MEAN), ("p99", P99)] {
            let Some(best) = self.best_peer(figure) else { continue };
            let Some(ratio) = self.ratio(best, figure) else { continue };
            let worse = if ratio.low > 1.02 { "  WORSE" } else { "" };
            let _ = write!(
                out,
                "  labor / best peer, {what}: {:.3} [{:.3}, {:.3}] of {}{worse}",
                ratio.mean,
                ratio.low,
                ratio.high,
                best.name()
            );
            if let Some(oracle) = self.ratio(Kind::Oracle, figure) {
                let _ = write!(out, ";  / oracle: {:.3}", oracle.mean);
            }
            out.push('\n');
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
        x if x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sheet_holds_what_single_runs_give() {
        let text = "about='x'\nrate=500\nduration=2\n[[server]]\ncount=2\nservice_ms=2\nconcurrency=2\n";
        let scenarios = [Scenario::parse(text).unwrap()];
        let kinds = [Kind::LeastConn, Kind::Labor, Kind::Oracle];
        let sheets = compare(&scenarios, &kinds, &[1, 2], &|_, _| {});
        for (kind, runs) in &sheets[0].rows {
            let means: Vec<_> = [1, 2].map(|seed| run(&scenarios[0], *kind, seed).mean).to_vec();
            assert_eq!(runs.iter().map(MEAN).collect::<Vec<_>>(), means);
        }
        assert_eq!(sheets[0].best_peer(MEAN), Some(Kind::LeastConn));
        assert!(sheets[0].table().contains("labor / best peer, p99"));
    }
}
