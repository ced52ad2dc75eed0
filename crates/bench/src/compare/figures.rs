//! From the logs of runs to figures: mean, quantiles and shares of one run, median and spread over seeds.
//!
//! Exact, from every request: the runs are short and their figures are compared with each other.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// One request of a log.
pub struct Request {
    latency_us: u64,
    server: String,
    /// Latency is known: a whole answer or a time-out.
    timed: bool,
    /// Status from 500 on, or no whole answer.
    error: bool,
}

/// The figures of some requests.
#[derive(Clone)]
pub struct Figures {
    /// How many.
    pub count: usize,
    /// Answers from status 500 on, time-outs and broken connections.
    pub errors: usize,
    /// Milliseconds, of whole answers (any status) and time-outs.
    pub mean: f64,
    /// Likewise.
    pub p50: f64,
    /// Likewise.
    pub p99: f64,
    /// Share of the answers that came from each server.
    pub shares: BTreeMap<String, f64>,
}

/// Reads what `labor-bench load --log` wrote, in order of due time.
///
/// # Errors
/// When a line is not of that form.
pub fn read(log: &str) -> Result<Vec<Request>> {
    log.lines().map(|line| request(line).with_context(|| format!("log line \"{line}\""))).collect()
}

fn request(line: &str) -> Result<Request> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[_, latency, server, outcome] = fields.as_slice() else { anyhow::bail!("not four fields") };
    let status = outcome.parse::<u16>().ok();
    Ok(Request {
        latency_us: latency.parse()?,
        server: server.to_owned(),
        timed: status.is_some() || outcome == "timeout",
        error: status.is_none_or(|status| status >= 500),
    })
}

impl Figures {
    /// Of these requests.
    ///
    /// # Errors
    /// When not one of them has a latency.
    pub fn of(requests: &[Request]) -> Result<Self> {
        let mut latencies: Vec<u64> = requests.iter().filter(|r| r.timed).map(|r| r.latency_us).collect();
        ensure!(!latencies.is_empty(), "no request was answered");
        latencies.sort_unstable();
        // The nearest rank, as ⌈q·n⌉ from 1 on.
        let quantile = |q: f64| {
            let rank = ((latencies.len() as f64 * q).ceil() as usize).clamp(1, latencies.len());
            latencies[rank - 1] as f64 / 1e3
        };
        let mut shares = BTreeMap::new();
        for request in requests.iter().filter(|r| r.server != "-") {
            *shares.entry(request.server.clone()).or_insert(0.0) += 1.0;
        }
        let answered: f64 = shares.values().sum();
        shares.values_mut().for_each(|share| *share /= answered);
        Ok(Self {
            count: requests.len(),
            errors: requests.iter().filter(|r| r.error).count(),
            mean: latencies.iter().sum::<u64>() as f64 / latencies.len() as f64 / 1e3,
            p50: quantile(0.5),
            p99: quantile(0.99),
            shares,
        })
    }

    /// Errors of all requests, 0–1.
    pub fn error_share(&self) -> f64 {
        self.errors as f64 / self.count as f64
    }

    /// As JSON; latencies in milliseconds.
    pub fn json(&self) -> Value {
        json!({
            "count": self.count, "errors": self.errors, "mean_ms": self.mean, "p50_ms": self.p50, "p99_ms": self.p99,
            "shares": self.shares,
        })
    }
}

/// Median, smallest and largest of a figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; the mean of both middle ones when there are two.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of at least one value; nothing of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        Some(Self { median, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_exact() {
        let mut log: String = (1..=100).map(|n| format!("{n}\t{}000\ta\t200\n", 101 - n)).collect();
        log.push_str("101\t5\t-\tconnect\n102\t200000\tb\t500\n103\t100000\t-\ttimeout\n");
        let figures = Figures::of(&read(&log).unwrap()).unwrap();
        assert_eq!((figures.count, figures.errors), (103, 3));
        assert!((figures.mean - (5050.0 + 200.0 + 100.0) / 102.0).abs() < 1e-9);
        assert_eq!((figures.p50, figures.p99), (51.0, 100.0));
        assert!((figures.shares["a"] - 100.0 / 101.0).abs() < 1e-9);
    }

    #[test]
    fn a_log_of_another_form_and_a_run_without_answers_are_errors() {
        assert!(read("1\t2\t3").is_err());
        assert!(read("1\tx\ta\t200").is_err());
        assert!(Figures::of(&read("1\t0\t-\tconnect\n").unwrap()).is_err());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0]), Some(Spread { median: 2.5, least: 1.0, most: 4.0 }));
        assert_eq!(spread(&[]), None);
    }
}
