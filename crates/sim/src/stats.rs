//! What a run is judged by, and the statistics of paired comparisons.

mod recorder;

use crate::policy::Curve;
use crate::server::End;
pub use recorder::{FOUND, Recorder, Slice, Timeline};

/// The watched window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Requests in it.
    pub sent: u64,
    /// Of these, to the watched server.
    pub here: u64,
    /// Of all, failed.
    pub failed: u64,
    sum: f64,
}

impl Window {
    /// Books a request that arrived in the window.
    pub fn book(&mut self, here: bool, millis: f64, end: End) {
        self.sent += 1;
        self.here += u64::from(here);
        if end == End::Pass {
            self.sum += millis;
        } else {
            self.failed += 1;
        }
    }

    /// Share of the watched server.
    pub fn share(&self) -> f64 {
        self.here as f64 / self.sent.max(1) as f64
    }

    /// Share of failures.
    pub fn errors(&self) -> f64 {
        self.failed as f64 / self.sent.max(1) as f64
    }

    /// Mean latency of good answers, ms.
    pub fn mean(&self) -> f64 {
        self.sum / (self.sent - self.failed).max(1) as f64
    }
}

/// The result of one run. Latencies in ms, of good answers after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Requests that arrived.
    pub sent: u64,
    /// Requests that came back, one way or the other.
    pub answered: u64,
    /// Requests for which the policy found no server.
    pub refused: u64,
    /// Failed after the warm-up.
    pub failed: u64,
    /// Requests per server after the warm-up, by the server that ended them.
    pub counts: Vec<u64>,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Share of requests above ten times the median.
    pub slow: f64,
    /// Attempts until the server that is to be found first got half of [`FOUND`] in a row; `None` when it never did, or when
    /// there is nothing to find.
    pub found: Option<u64>,
    /// How often the policy's opinion of a server changed, a minute; `None` for policies that do not say.
    pub changes: Option<f64>,
    /// Share of the attempts that went where their key goes most often, the first key left aside; `None` without keys.
    pub kept: Option<f64>,
    /// The watched window.
    pub watch: Window,
    /// Picks of each server by reason, of the first balancer: (server, reason, count).
    pub reasons: Vec<(usize, &'static str, u64)>,
    /// The first balancer's learned curves.
    pub curves: Vec<Curve>,
    /// How things went over time, when that was asked for.
    pub timeline: Timeline,
}

impl Summary {
    /// Share of failures, in per cent, refused requests included.
    pub fn errors(&self) -> f64 {
        let all = self.counts.iter().sum::<u64>() + self.refused;
        100.0 * (self.failed + self.refused) as f64 / all.max(1) as f64
    }

    /// Share of requests that went to `server`.
    pub fn share(&self, server: usize) -> f64 {
        self.counts[server] as f64 / self.counts.iter().sum::<u64>().max(1) as f64
    }
}

/// The `q` quantile (nearest rank); reorders `values`. 0 when there are none.
pub fn quantile(values: &mut [f32], q: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let rank = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1;
    f64::from(*values.select_nth_unstable_by(rank, f32::total_cmp).1)
}

/// A geometric mean ratio with its 95 % confidence bounds.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Geometric mean.
    pub mean: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// The ratio of `ours` to `theirs`, paired by seed. With a single pair the bounds are the value itself.
pub fn paired(ours: &[f64], theirs: &[f64]) -> Ratio {
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a.max(1e-9) / b.max(1e-9)).ln()).collect();
    let n = logs.len().max(1) as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let half = if logs.len() > 1 { student(logs.len() - 1) * (variance / n).sqrt() } else { 0.0 };
    Ratio { mean: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
}

/// Two-sided 95 % quantile of Student's t.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 15] =
        [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];
    // Beyond the table within one per cent: the first term of the Cornish–Fisher expansion.
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(1.96 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_sample() {
        let text = "about='x'\nrate=1\nduration=5\n[[server]]\nservice_ms=5\nconcurrency=1\n";
        let scenario = crate::Scenario::parse(text).unwrap();
        let mut recorder = Recorder::new(&scenario);
        for i in 1..=1000 {
            recorder.book(0, 0, i * 1_000_000, End::Pass);
        }
        recorder.book(0, 0, 1, End::Status);
        let summary = recorder.close(&[], &scenario);
        assert_eq!((summary.mean, summary.p50, summary.p99, summary.p999), (500.5, 500.0, 990.0, 999.0));
        assert!((summary.errors() - 100.0 / 1001.0).abs() < 1e-9);
        assert_eq!(summary.slow, 0.0);
    }

    #[test]
    fn a_steady_ratio_has_tight_bounds() {
        let ratio = paired(&[1.1, 2.2, 3.3], &[1.0, 2.0, 3.0]);
        assert!((ratio.mean - 1.1).abs() < 1e-9 && (ratio.low - 1.1).abs() < 1e-6);
        let loose = paired(&[1.0, 2.0], &[2.0, 1.0]);
        assert!(loose.low < 0.1 && loose.high > 10.0);
    }
}
