//! A sheet as text for a person: one line per policy, and how labor stands against the best peer and the oracle.

use super::{MEAN, P99, SLOW, Sheet, average, short};
use crate::policy::Kind;
use crate::stats::Summary;
use std::fmt::Write as _;

/// Servers whose shares fit in a line.
const FEW: usize = 8;

impl Sheet<'_> {
    /// The table.
    pub fn table(&self) -> String {
        let mut out = format!("\n{}  ({} seeds): {}\n", self.scenario.name, self.seeds.len(), self.scenario.about);
        let watch = self.scenario.watch.map_or("", |_| "   w.share   w.err%   w.mean");
        let watch = format!("{watch}{}", self.scenario.keys.map_or("", |_| "  kept %"));
        let few = self.scenario.server.len() <= FEW;
        let shares = if few { "  shares %" } else { "" };
        let _ = writeln!(
            out,
            "  policy            mean       p50       p99     p99.9   err% fastest%    found  chg/min  regret% >10·med%{watch}{shares}"
        );
        for (kind, runs) in &self.rows {
            out += &self.line(*kind, runs);
            if few {
                let share = |i| format!("{:.0}", 100.0 * mean_of(runs, &|s| s.share(i)));
                let _ = write!(out, "  {}", (0..self.scenario.server.len()).map(share).collect::<Vec<_>>().join(" "));
            }
            out.push('\n');
        }
        out + &self.verdict()
    }

    fn line(&self, kind: Kind, runs: &[Summary]) -> String {
        let of = |figure: &dyn Fn(&Summary) -> f64| mean_of(runs, figure);
        let dash = || "–".to_owned();
        // Found in every run, or it was not.
        let found: Option<Vec<f64>> = runs.iter().map(|s| s.found.map(|n| n as f64)).collect();
        let changes: Option<Vec<f64>> = runs.iter().map(|s| s.changes).collect();
        let mut out = format!(
            "  {:<12} {:>9} {:>9} {:>9} {:>9} {:>6.2} {:>8.1} {:>8} {:>8} {:>8} {:>8.3}",
            kind.name(),
            short(of(&MEAN)),
            short(of(&|s| s.p50)),
            short(of(&P99)),
            short(of(&|s| s.p999)),
            of(&Summary::errors),
            100.0 * of(&|s| self.fastest(s)),
            found.filter(|f| !f.is_empty()).map_or_else(dash, |f| format!("{:.0}", average(&f))),
            changes.filter(|c| !c.is_empty()).map_or_else(dash, |c| format!("{:.1}", average(&c))),
            self.regret(kind).map_or_else(dash, |r| format!("{:.1}", 100.0 * r)),
            100.0 * of(&SLOW),
        );
        if self.scenario.watch.is_some() {
            let (share, errors) = (100.0 * of(&|s| s.watch.share()), 100.0 * of(&|s| s.watch.errors()));
            let _ = write!(out, " {share:>9.2} {errors:>8.2} {:>8}", short(of(&|s| s.watch.mean())));
        }
        if self.scenario.keys.is_some() {
            let _ = write!(out, " {:>7.1}", 100.0 * of(&|s| s.kept.unwrap_or(f64::NAN)));
        }
        out
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

fn mean_of(runs: &[Summary], figure: &dyn Fn(&Summary) -> f64) -> f64 {
    average(&runs.iter().map(figure).collect::<Vec<_>>())
}
