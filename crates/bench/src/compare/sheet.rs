//! The results of a scenario as data: what `labor-bench compare` writes and `labor-bench document` reads.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::figures::{Figures, Point};
use super::stats::Ratio;

/// A method whose share of errors is larger than labor's by more than this is no competitor: an error that comes at once
/// is no speed. One per cent is the bar for a server that turns to instant errors.
const MORE_ERRORS: f64 = 0.01;
/// How far reality and simulation may be apart without an explanation.
pub const APART: f64 = 0.15;

/// One scenario's results.
#[derive(Serialize, Deserialize)]
pub struct Sheet {
    /// Its name.
    pub scenario: String,
    /// What it is and how it was run.
    pub about: String,
    /// Why so, and what was found.
    pub notes: String,
    /// By what it was made.
    pub made: Made,
    /// Requests per second.
    pub rate: f64,
    /// Length of a run.
    pub seconds: f64,
    /// Its first seconds do not count.
    pub warmup: f64,
    /// Methods that ran at the same time.
    pub at_once: usize,
    /// The window of `watched`: name of a server, from, until.
    pub watch: Option<(String, f64, f64)>,
    /// Names of the servers.
    pub servers: Vec<String>,
    /// Which of them no other is faster than.
    pub best: Vec<bool>,
    /// What happens: seconds, server, what.
    pub events: Vec<(f64, String, String)>,
    /// Methods in the order of the report.
    pub rows: Vec<Row>,
    /// Methods that did not run, and why.
    pub left_out: Vec<(String, String)>,
}

/// The circumstances.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Made {
    /// Day.
    pub date: String,
    /// The command.
    pub command: String,
    /// Of the sources.
    pub revision: String,
    /// Programs.
    pub versions: Vec<String>,
    /// The machine.
    pub machine: String,
    /// Share of the processors' time that was used meanwhile, by everything, 0–1.
    pub busy: f64,
    /// Load average before.
    pub load: String,
}

/// A method.
#[derive(Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub method: String,
    /// Only the first server was configured.
    pub alone: bool,
    /// Its runs in the order of the seeds.
    pub runs: Vec<Outcome>,
    /// All runs together over time.
    pub timeline: Vec<Point>,
    /// What the simulator says: its name of the method, and figures of as many runs.
    pub simulated: Option<Prediction>,
}

/// One run.
#[derive(Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Of every request.
    pub all: Figures,
    /// Without the first seconds.
    pub learned: Figures,
    /// Of the window that is watched.
    pub watched: Option<Figures>,
}

/// The simulator's figures, means over its runs, ms.
#[derive(Clone, Serialize, Deserialize)]
pub struct Prediction {
    /// Its name of the method.
    pub policy: String,
    /// Mean.
    pub mean: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// A figure of one run.
pub type Column = fn(&Figures) -> f64;

impl Sheet {
    /// Reads a file that [`Sheet::write`] wrote.
    ///
    /// # Errors
    /// When it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not what compare writes", path.display()))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let part = path.with_extension("part");
        std::fs::write(&part, serde_json::to_string(self)? + "\n")
            .with_context(|| format!("write {}", part.display()))?;
        Ok(std::fs::rename(&part, path)?)
    }

    /// labor's figure over another method's.
    pub fn ratio(&self, other: &Row, column: Column) -> Option<Ratio> {
        Ratio::of(&self.labor()?.values(column), &other.values(column))
    }

    /// labor's row.
    pub fn labor(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.method == "labor")
    }

    /// The competitor with the smallest median of a figure; see [`MORE_ERRORS`].
    pub fn best_other(&self, column: Column) -> Option<&Row> {
        let allowed = self.labor()?.median(Figures::error_share) + MORE_ERRORS;
        let others = self.rows.iter().filter(|row| !row.alone && !row.method.starts_with("labor"));
        let others = others.filter(|row| row.median(Figures::error_share) <= allowed);
        others.min_by(|a, b| a.median(column).total_cmp(&b.median(column)))
    }

    /// The share of the best servers in a run, 0–1; nothing where all are equally good.
    pub fn best_share(&self, figures: &Figures) -> Option<f64> {
        let all = self.best.iter().all(|best| *best);
        (!all).then(|| figures.shares.iter().zip(&self.best).filter(|(_, best)| **best).map(|(share, _)| share).sum())
    }
}

impl Row {
    /// A figure of each run, after learning.
    pub fn values(&self, column: Column) -> Vec<f64> {
        self.runs.iter().map(|run| column(&run.learned)).collect()
    }

    /// The middle of them; infinite without runs.
    pub fn median(&self, column: Column) -> f64 {
        super::stats::Spread::of(self.values(column)).map_or(f64::INFINITY, |spread| spread.median)
    }

    /// Reality over simulation, of a figure and what was predicted for it.
    pub fn off(&self, column: Column, predicted: fn(&Prediction) -> f64) -> Option<f64> {
        let values = self.values(column);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        self.simulated.as_ref().map(|prediction| mean / predicted(prediction)).filter(|ratio| ratio.is_finite())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A sheet with a row for each name, with these means; other figures follow from them.
    pub fn sheet(rows: &[(&str, &[f64])]) -> Sheet {
        let figures = |mean| Figures {
            count: 1000,
            errors: 1,
            mean,
            p50: mean / 2.0,
            p99: mean * 3.0,
            p999: Some(mean * 5.0),
            shares: vec![0.75, 0.25],
        };
        let run = |mean: &f64| Outcome { all: figures(*mean), learned: figures(*mean), watched: None };
        let row = |(name, means): &(&str, &[f64])| Row {
            method: (*name).to_owned(),
            alone: *name == "first_alone",
            runs: means.iter().map(run).collect(),
            timeline: vec![
                Point { count: 10, good: 10, sum: means[0] * 10.0, there: 5 };
                super::super::figures::POINTS
            ],
            simulated: Some(Prediction { policy: "p".to_owned(), mean: means[0], p99: means[0] * 2.0 }),
        };
        Sheet {
            scenario: "lan".to_owned(),
            about: "Two servers".to_owned(),
            notes: "Because.".to_owned(),
            made: Made::default(),
            rate: 100.0,
            seconds: 10.0,
            warmup: 1.0,
            at_once: 2,
            watch: None,
            servers: vec!["5ms".to_owned(), "10ms".to_owned()],
            best: vec![true, false],
            events: vec![(5.0, "5ms".to_owned(), "× 20".to_owned())],
            rows: rows.iter().map(row).collect(),
            left_out: vec![("caddy_least_conn".to_owned(), "no --caddy is given".to_owned())],
        }
    }

    #[test]
    fn labor_is_compared_seed_by_seed_with_the_best_other_method() {
        let sheet = sheet(&[
            ("labor", &[1.0, 2.0, 4.0]),
            ("labor_header", &[0.1, 0.1, 0.1]),
            ("round_robin", &[9.0, 9.0, 9.0]),
            ("least_conn", &[2.0, 4.0, 8.0]),
            ("first_alone", &[0.1, 0.1, 0.1]),
        ]);
        let best = sheet.best_other(|figures| figures.mean).unwrap();
        assert_eq!(best.method, "least_conn");
        let ratio = sheet.ratio(best, |figures| figures.mean).unwrap();
        assert!((ratio.value - 0.5).abs() < 1e-9 && (ratio.low - 0.5).abs() < 1e-9);
        assert_eq!(sheet.best_share(&best.runs[0].learned), Some(0.75));
        assert!((best.off(|f| f.p99, |p| p.p99).unwrap() - 14.0 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn fast_errors_are_no_speed() {
        let mut sheet = sheet(&[("labor", &[1.0]), ("least_conn", &[0.1]), ("round_robin", &[4.0])]);
        sheet.rows[1].runs[0].learned.errors = 500;
        assert_eq!(sheet.best_other(|figures| figures.mean).unwrap().method, "round_robin");
    }

    #[test]
    fn what_is_written_can_be_read() {
        let path = std::env::temp_dir().join(format!("labor-bench-sheet-{}.json", std::process::id()));
        sheet(&[("labor", &[1.0, 2.0])]).write(&path).unwrap();
        let again = Sheet::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(again.unwrap().rows[0].runs[1].learned.mean, 2.0);
    }
}
