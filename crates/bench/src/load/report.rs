//! What a run has shown: counts, latencies and shares, as a table, as JSON and as a log.
//!
//! Latency counts from the moment a request was due. It covers whole answers of any status, and time-outs with the time
//! waited; a refused or broken connection has no latency and shows among the errors.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::client::Outcome;

/// Significant digits of a percentile: an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// One request that is over.
pub struct Sample {
    /// When it was due, from the start of the run.
    pub due: Duration,
    /// From there to its end.
    pub latency: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// Who answered; empty when nobody said.
    pub server: String,
}

/// The sum of a run.
pub struct Report {
    all: Series,
    servers: BTreeMap<String, Series>,
    statuses: BTreeMap<u16, u64>,
    errors: BTreeMap<&'static str, u64>,
    step: Option<Duration>,
    timeline: BTreeMap<u64, Bucket>,
    log: Option<Vec<Sample>>,
}

struct Series {
    count: u64,
    errors: u64,
    sum_us: u64,
    latencies: Histogram<u64>,
}

#[derive(Default)]
struct Bucket {
    count: u64,
    errors: u64,
    timed: u64,
    sum_us: u64,
    servers: BTreeMap<String, u64>,
}

impl Outcome {
    /// The kind of error, `None` for an answer below 500.
    fn error(self) -> Option<&'static str> {
        match self {
            Self::Status(500..) => Some("status_5xx"),
            Self::Status(_) => None,
            Self::Connect => Some("connect"),
            Self::Timeout => Some("timeout"),
            Self::Reset => Some("reset"),
            Self::Protocol => Some("protocol"),
            Self::Overflow => Some("overflow"),
        }
    }

    fn is_timed(self) -> bool {
        matches!(self, Self::Status(_) | Self::Timeout)
    }
}

impl Report {
    /// An empty report; `step` asks for a timeline, `log` keeps every sample.
    pub fn new(step: Option<Duration>, log: bool) -> Self {
        Self {
            all: Series::new(),
            servers: BTreeMap::new(),
            statuses: BTreeMap::new(),
            errors: ["status_5xx", "connect", "timeout", "reset", "protocol", "overflow"].map(|kind| (kind, 0)).into(),
            step,
            timeline: BTreeMap::new(),
            log: log.then(Vec::new),
        }
    }

    /// Requests so far.
    pub fn count(&self) -> u64 {
        self.all.count
    }

    /// Adds a request that is over.
    pub fn add(&mut self, sample: Sample) {
        self.all.add(&sample);
        if let Outcome::Status(status) = sample.outcome {
            *self.statuses.entry(status).or_default() += 1;
        }
        if let Some(kind) = sample.outcome.error() {
            *self.errors.entry(kind).or_default() += 1;
        }
        if !sample.server.is_empty() {
            self.servers.entry(sample.server.clone()).or_insert_with(Series::new).add(&sample);
        }
        if let Some(step) = self.step {
            let index = sample.due.as_nanos() / step.as_nanos().max(1);
            self.timeline.entry(u64::try_from(index).unwrap_or(u64::MAX)).or_default().add(&sample);
        }
        if let Some(log) = &mut self.log {
            log.push(sample);
        }
    }

    /// Everything as JSON; latencies in milliseconds, `seconds` from the first request to the last answer.
    pub fn json(&self, elapsed: Duration) -> Value {
        let seconds = elapsed.as_secs_f64();
        let answered: u64 = self.servers.values().map(|series| series.count).sum();
        let servers: Map<String, Value> =
            self.servers.iter().map(|(name, s)| (name.clone(), s.json(answered))).collect();
        let statuses: Map<String, Value> = self.statuses.iter().map(|(code, n)| (code.to_string(), json!(n))).collect();
        let mut report = json!({
            "count": self.all.count,
            "seconds": thousandths(seconds),
            "per_second": thousandths(self.all.count as f64 / seconds.max(1e-9)),
            "error_count": self.all.errors,
            "errors": self.errors,
            "statuses": statuses,
            "latency_ms": self.all.latency_json(),
            "servers": servers,
        });
        if let Some(step) = self.step {
            let buckets = self.timeline.iter().map(|(index, bucket)| bucket.json(*index as f64 * step.as_secs_f64()));
            report["timeline"] = buckets.collect();
        }
        report
    }

    /// Everything as text for people.
    pub fn table(&self, elapsed: Duration) -> String {
        let report = self.json(elapsed);
        let mut text = format!(
            "{} requests in {} s ({}/s), {} errors\n",
            report["count"], report["seconds"], report["per_second"], report["error_count"]
        );
        for (kind, count) in self.errors.iter().filter(|(_, count)| **count > 0) {
            line(&mut text, format_args!("  {kind}: {count}"));
        }
        let latency = &report["latency_ms"];
        let columns = ["mean", "p50", "p90", "p99", "p999", "max"];
        let values = columns.map(|column| format!("{column} {}", latency[column]));
        line(&mut text, format_args!("latency (ms): {}", values.join("  ")));
        line(
            &mut text,
            format_args!(
                "{:<20} {:>9} {:>7} {:>10} {:>10} {:>8}",
                "server", "count", "share", "mean ms", "p99 ms", "errors"
            ),
        );
        for (name, server) in report["servers"].as_object().into_iter().flatten() {
            let share = server["share"].as_f64().unwrap_or(0.0) * 100.0;
            let (mean, p99) = (number(&server["latency_ms"]["mean"]), number(&server["latency_ms"]["p99"]));
            let (count, errors) = (number(&server["count"]), number(&server["errors"]));
            line(&mut text, format_args!("{name:<20} {count:>9} {share:>6.1}% {mean:>10} {p99:>10} {errors:>8}"));
        }
        for bucket in report["timeline"].as_array().into_iter().flatten() {
            line(&mut text, format_args!("{bucket}"));
        }
        text
    }

    /// The log, ordered by due time: due µs, latency µs, server or `-`, status or kind of error, with tabulators.
    pub fn write_log(&mut self, out: &mut impl std::io::Write) -> Result<()> {
        let mut samples = self.log.take().unwrap_or_default();
        samples.sort_by_key(|sample| sample.due);
        for sample in samples {
            let server = if sample.server.is_empty() { "-" } else { &sample.server };
            let (due, latency) = (sample.due.as_micros(), sample.latency.as_micros());
            match sample.outcome {
                Outcome::Status(status) => writeln!(out, "{due}\t{latency}\t{server}\t{status}")?,
                other => writeln!(out, "{due}\t{latency}\t{server}\t{}", other.error().unwrap_or("-"))?,
            }
        }
        Ok(out.flush()?)
    }
}

impl Series {
    fn new() -> Self {
        let latencies = Histogram::new(DIGITS).expect("3 digits are in the range of 0 to 5");
        Self { count: 0, errors: 0, sum_us: 0, latencies }
    }

    fn add(&mut self, sample: &Sample) {
        self.count += 1;
        self.errors += u64::from(sample.outcome.error().is_some());
        if sample.outcome.is_timed() {
            let micros = u64::try_from(sample.latency.as_micros()).unwrap_or(u64::MAX);
            self.sum_us = self.sum_us.saturating_add(micros);
            self.latencies.record(micros).expect("the histogram grows by itself");
        }
    }

    fn latency_json(&self) -> Value {
        if self.latencies.is_empty() {
            return Value::Null;
        }
        let percentile = |share| thousandths(self.latencies.value_at_quantile(share) as f64 / 1e3);
        json!({
            "mean": thousandths(self.sum_us as f64 / self.latencies.len() as f64 / 1e3),
            "p50": percentile(0.5),
            "p90": percentile(0.9),
            "p99": percentile(0.99),
            "p999": percentile(0.999),
            "max": thousandths(self.latencies.max() as f64 / 1e3),
        })
    }

    fn json(&self, of: u64) -> Value {
        json!({
            "count": self.count,
            "share": (self.count as f64 / of as f64 * 1e6).round() / 1e6,
            "errors": self.errors,
            "latency_ms": self.latency_json(),
        })
    }
}

impl Bucket {
    fn add(&mut self, sample: &Sample) {
        self.count += 1;
        self.errors += u64::from(sample.outcome.error().is_some());
        if sample.outcome.is_timed() {
            self.timed += 1;
            self.sum_us = self.sum_us.saturating_add(u64::try_from(sample.latency.as_micros()).unwrap_or(u64::MAX));
        }
        if !sample.server.is_empty() {
            *self.servers.entry(sample.server.clone()).or_default() += 1;
        }
    }

    fn json(&self, at: f64) -> Value {
        let mean = (self.timed > 0).then(|| thousandths(self.sum_us as f64 / self.timed as f64 / 1e3));
        let answered: u64 = self.servers.values().sum();
        let shares: Map<String, Value> = self
            .servers
            .iter()
            .map(|(name, count)| (name.clone(), json!(thousandths(*count as f64 / answered as f64))))
            .collect();
        json!({ "at": thousandths(at), "count": self.count, "errors": self.errors, "mean_ms": mean, "shares": shares })
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn number(value: &Value) -> String {
    if value.is_null() { "-".to_owned() } else { value.to_string() }
}

fn line(text: &mut String, arguments: std::fmt::Arguments) {
    writeln!(text, "{arguments}").expect("a String takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(due_ms: u64, latency_ms: u64, outcome: Outcome, server: &str) -> Sample {
        let (due, latency) = (Duration::from_millis(due_ms), Duration::from_millis(latency_ms));
        Sample { due, latency, outcome, server: server.to_owned() }
    }

    fn report() -> Report {
        let mut report = Report::new(Some(Duration::from_secs(1)), true);
        report.add(sample(1500, 30, Outcome::Status(200), "B"));
        report.add(sample(0, 10, Outcome::Status(200), "A"));
        report.add(sample(10, 20, Outcome::Status(503), "A"));
        report.add(sample(20, 100, Outcome::Timeout, ""));
        report.add(sample(30, 1, Outcome::Connect, ""));
        report
    }

    #[test]
    fn latencies_cover_answers_and_timeouts_but_not_refusals() {
        let json = report().json(Duration::from_secs(2));
        assert_eq!(json["count"], 5);
        assert_eq!(json["error_count"], 3);
        assert_eq!(json["errors"]["status_5xx"], 1);
        assert_eq!(json["latency_ms"]["mean"], 40.0);
        assert_eq!(json["statuses"]["200"], 2);
        let b = &json["servers"]["B"];
        assert_eq!((b["count"].clone(), b["share"].clone()), (json!(1), json!(0.333333)));
        assert_eq!(json["servers"]["A"]["errors"], 1);
        assert!((json["latency_ms"]["max"].as_f64().unwrap() - 100.0).abs() <= 0.1);
    }

    #[test]
    fn the_timeline_goes_by_due_time_and_the_log_is_in_order() {
        let mut report = report();
        let json = report.json(Duration::from_secs(2));
        assert_eq!(json["timeline"][0]["count"], 4);
        assert_eq!(json["timeline"][1]["shares"]["B"], 1.0);
        let mut log = Vec::new();
        report.write_log(&mut log).unwrap();
        let log = String::from_utf8(log).unwrap();
        assert!(log.starts_with("0\t10000\tA\t200\n10000\t20000\tA\t503\n20000\t100000\t-\ttimeout\n"), "{log}");
        assert!(report.table(Duration::from_secs(2)).contains("p999"));
    }

    #[test]
    fn nothing_answered_has_no_latency() {
        let report = Report::new(None, false);
        assert!(report.json(Duration::ZERO)["latency_ms"].is_null());
        assert!(report.table(Duration::ZERO).starts_with("0 requests"));
    }
}
