//! From the logs of runs to figures: latencies, errors and shares of one run, and how they change with time.
//!
//! Exact, from every request: the runs are short and their figures are compared with each other.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Requests below which a 99.9th percentile is the luck of one or two.
const ENOUGH_FOR_P999: usize = 2000;
/// Points of a timeline.
pub const POINTS: usize = 60;

/// One request of a log.
pub struct Request {
    due_us: u64,
    latency_us: u64,
    /// Index in the scenario's servers.
    server: Option<usize>,
    /// Status from 500 on, or no whole answer.
    error: bool,
}

/// The figures of some requests.
#[derive(Clone, Serialize, Deserialize)]
pub struct Figures {
    /// How many.
    pub count: usize,
    /// Answers from status 500 on, time-outs and broken connections.
    pub errors: usize,
    /// Latencies in ms are of good answers, counted from the moment the request was due; NaN where there are none.
    #[serde(deserialize_with = "or_nan")]
    pub mean: f64,
    /// Likewise.
    #[serde(deserialize_with = "or_nan")]
    pub p50: f64,
    /// Likewise.
    #[serde(deserialize_with = "or_nan")]
    pub p99: f64,
    /// Likewise; none where there are too few requests.
    pub p999: Option<f64>,
    /// Share of the answers that came from each server, 0–1.
    pub shares: Vec<f64>,
}

/// JSON knows no NaN and has null in its place.
fn or_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// A stretch of time of a run. In JSON a list, because there are many.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(from = "(usize, usize, f64, usize)", into = "(usize, usize, f64, usize)")]
pub struct Point {
    /// Requests.
    pub count: usize,
    /// Of them, good.
    pub good: usize,
    /// Sum of the latencies of these, ms.
    pub sum: f64,
    /// Answers of the server that changes first.
    pub there: usize,
}

impl From<(usize, usize, f64, usize)> for Point {
    fn from((count, good, sum, there): (usize, usize, f64, usize)) -> Self {
        Self { count, good, sum, there }
    }
}

impl From<Point> for (usize, usize, f64, usize) {
    fn from(point: Point) -> Self {
        // A hundredth of a millisecond, of a sum.
        (point.count, point.good, (point.sum * 100.0).round() / 100.0, point.there)
    }
}

/// Reads what `labor-bench load --log` wrote, in order of due time; `servers` are the names of the scenario.
///
/// # Errors
/// When a line is not of that form.
pub fn read(log: &str, servers: &[&str]) -> Result<Vec<Request>> {
    log.lines().map(|line| request(line, servers).with_context(|| format!("log line \"{line}\""))).collect()
}

fn request(line: &str, servers: &[&str]) -> Result<Request> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[due, latency, server, outcome] = fields.as_slice() else { anyhow::bail!("not four fields") };
    let status = outcome.parse::<u16>().ok();
    Ok(Request {
        due_us: due.parse()?,
        latency_us: latency.parse()?,
        server: servers.iter().position(|name| *name == server),
        error: status.is_none_or(|status| status >= 500),
    })
}

impl Figures {
    /// Of the requests due from `from` seconds on and before `until`.
    ///
    /// # Errors
    /// When there are none.
    pub fn of(requests: &[Request], from: f64, until: f64, servers: usize) -> Result<Self> {
        let within = |r: &&Request| (from..until).contains(&(r.due_us as f64 / 1e6));
        let requests: Vec<&Request> = requests.iter().filter(within).collect();
        let mut latencies: Vec<u64> = requests.iter().filter(|r| !r.error).map(|r| r.latency_us).collect();
        ensure!(!requests.is_empty(), "no requests from {from} s on");
        latencies.sort_unstable();
        // The nearest rank, as ⌈q·n⌉ from 1 on.
        let quantile = |q: f64| {
            let rank = ((latencies.len() as f64 * q).ceil() as usize).max(1);
            latencies.get(rank - 1).map_or(f64::NAN, |latency| *latency as f64 / 1e3)
        };
        let mut shares = vec![0.0; servers];
        requests.iter().filter_map(|r| r.server).for_each(|server| shares[server] += 1.0);
        let answered = shares.iter().sum::<f64>().max(1.0);
        // More digits would only lengthen the files.
        shares.iter_mut().for_each(|share| *share = (*share / answered * 1e5).round() / 1e5);
        Ok(Self {
            count: requests.len(),
            errors: requests.iter().filter(|r| r.error).count(),
            mean: (latencies.iter().sum::<u64>() as f64 / latencies.len() as f64).round() / 1e3,
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: (latencies.len() >= ENOUGH_FOR_P999).then(|| quantile(0.999)),
            shares,
        })
    }

    /// Errors of all requests, 0–1.
    pub fn error_share(&self) -> f64 {
        self.errors as f64 / self.count as f64
    }
}

/// A run of `seconds` in [`POINTS`] equal parts, by due time; with the share of the server with the index `changing`.
pub fn timeline(requests: &[Request], seconds: f64, changing: usize) -> Vec<Point> {
    let mut points = vec![Point::default(); POINTS];
    for request in requests {
        let index = (request.due_us as f64 / 1e6 / seconds * POINTS as f64) as usize;
        let point = &mut points[index.min(POINTS - 1)];
        point.count += 1;
        if !request.error {
            point.good += 1;
            point.sum += request.latency_us as f64 / 1e3;
        }
        point.there += usize::from(request.server == Some(changing));
    }
    points
}

/// Adds one run's timeline to another's.
pub fn merge(all: &mut Vec<Point>, run: &[Point]) {
    all.resize(all.len().max(run.len()), Point::default());
    for (sum, point) in all.iter_mut().zip(run) {
        sum.count += point.count;
        sum.good += point.good;
        sum.sum += point.sum;
        sum.there += point.there;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_exact_and_errors_are_no_speed() {
        let mut log: String = (1..=100).map(|n| format!("{n}\t{}000\ta\t200\n", 101 - n)).collect();
        log.push_str("101\t5\t-\tconnect\n102\t200\tb\t500\n103\t100000\t-\ttimeout\n");
        let requests = read(&log, &["a", "b"]).unwrap();
        let figures = Figures::of(&requests, 0.0, 1.0, 2).unwrap();
        assert_eq!((figures.count, figures.errors), (103, 3));
        assert_eq!((figures.mean, figures.p50, figures.p99, figures.p999), (50.5, 50.0, 99.0, None));
        assert!((figures.shares[0] - 100.0 / 101.0).abs() < 1e-5);
        let first = Figures::of(&requests, 0.0, 5.5e-6, 2).unwrap();
        assert_eq!((first.count, first.p50), (5, 98.0));
    }

    #[test]
    fn a_log_of_another_form_and_a_run_without_answers_are_errors() {
        assert!(read("1\t2\t3", &[]).is_err());
        assert!(read("1\tx\ta\t200", &[]).is_err());
        assert!(Figures::of(&[], 0.0, 1.0, 0).is_err());
        let failed = Figures::of(&read("1\t0\t-\tconnect\n", &[]).unwrap(), 0.0, 1.0, 0).unwrap();
        assert!(failed.mean.is_nan() && failed.p99.is_nan() && failed.errors == 1);
        let again: Figures = serde_json::from_str(&serde_json::to_string(&failed).unwrap()).unwrap();
        assert!(again.mean.is_nan());
    }

    #[test]
    fn a_timeline_goes_by_due_time_and_runs_add_up() {
        let log = "0\t1000\ta\t200\n500000\t3000\tb\t200\n999999\t5\ta\t503\n1000001\t5000\ta\t200\n";
        let points = timeline(&read(log, &["a", "b"]).unwrap(), 1.0, 0);
        let mut all = Vec::new();
        merge(&mut all, &points);
        merge(&mut all, &points);
        let of = |p: Point| (p.count, p.good, p.sum, p.there);
        assert_eq!(of(all[0]), (2, 2, 2.0, 2));
        assert_eq!(of(all[POINTS / 2]), (2, 2, 6.0, 0));
        assert_eq!(of(all[POINTS - 1]), (4, 2, 10.0, 4));
    }
}
