//! Pictures of runs as SVG, readable on light and on dark pages: what is seen is computed elsewhere.

mod canvas;
mod lines;

pub use lines::{Line, Mark, lines};

use crate::policy::Curve;
use crate::scenario::{Scenario, ServerSpec};
use crate::stats::Timeline;

/// Curves and shares of so many servers fit in a picture.
const FEW: usize = 10;
/// A bucket with less evidence of its own (samples) shows a guess.
const SEEN: f64 = 2.0;
/// Events beyond so many are left out.
const MOST_MARKS: usize = 40;

/// Mean and 99th percentile over time, one line per policy; times of events marked.
pub fn latency(scenario: &Scenario, runs: &[(&str, &Timeline)], p99: bool) -> Result<String, String> {
    let line = |(name, timeline): &(&str, &Timeline)| {
        let good = timeline.slices.iter().enumerate().filter(|(_, s)| s.good() > 0);
        let point =
            |(i, s): (usize, &crate::stats::Slice)| (i as f64 * timeline.step, if p99 { s.p99 } else { s.mean });
        Line { name: (*name).to_owned(), points: good.map(point).collect(), ..Line::default() }
    };
    let what = if p99 { "99th percentile" } else { "mean" };
    let all: Vec<_> = runs.iter().map(line).collect();
    lines(&format!("{}: latency, {what}", scenario.name), ("seconds", "ms"), &all, &marks(scenario), (false, true))
}

/// Every server's share of the attempts over time, under one policy.
pub fn shares(scenario: &Scenario, policy: &str, timeline: &Timeline) -> Result<String, String> {
    let line = |server: usize| {
        let share = |(i, slice): (usize, &crate::stats::Slice)| {
            let all = slice.picks.iter().sum::<u64>();
            (i as f64 * timeline.step, 100.0 * slice.picks[server] as f64 / all.max(1) as f64)
        };
        let busy = timeline.slices.iter().enumerate().filter(|(_, s)| s.picks.iter().any(|&n| n > 0));
        Line { name: name(scenario, server), points: busy.map(share).collect(), ..Line::default() }
    };
    let all: Vec<_> = (0..scenario.server.len().min(FEW)).map(line).collect();
    lines(
        &format!("{}: share of the requests, {policy}", scenario.name),
        ("seconds", "%"),
        &all,
        &marks(scenario),
        (false, false),
    )
}

/// What labor has learned of each server beside what is true of it as the scenario says (without its events).
pub fn curves(scenario: &Scenario, learned: &[Curve]) -> Result<String, String> {
    let mut all = Vec::new();
    for curve in learned.iter().take(FEW) {
        let Some(spec) = scenario.server.get(curve.server) else { continue };
        // As far as there is evidence, and a bit of the guess beyond.
        let seen = curve.points.iter().rposition(|p| p.2 >= SEEN).map_or(0, |i| i + 2);
        let points: Vec<_> = curve.points.iter().take(seen.max(2)).map(|p| (p.0 + 1.0, p.1)).collect();
        let last = points.last().map_or(2.0, |p| p.0);
        let colour = all.len() / 2;
        let steps = (0..=60).map(|k| last.powf(f64::from(k) / 60.0));
        let real = steps.map(|x| (x, truth(spec, x - 1.0))).collect();
        all.push(Line { name: name(scenario, curve.server), points, colour: Some(colour), ..Line::default() });
        all.push(Line { name: String::new(), points: real, colour: Some(colour), dashed: true });
    }
    let title = format!("{}: learned curves (solid) and true ones (dashed)", scenario.name);
    lines(&title, ("requests at the server, this one included", "ms"), &all, &[], (true, true))
}

/// Mean latency of a request that finds `q` others at a server with exponential service: k places, first in, first out.
pub fn truth(spec: &ServerSpec, q: f64) -> f64 {
    let k = f64::from(spec.concurrency);
    spec.net_ms + spec.service_ms * (1.0 + (q + 1.0 - k).max(0.0) / k)
}

fn name(scenario: &Scenario, server: usize) -> String {
    let idle = scenario.server.get(server).map_or(0.0, ServerSpec::idle_ms);
    format!("server {server} ({} ms)", crate::compare::short(idle))
}

/// When what happens to which server.
fn marks(scenario: &Scenario) -> Vec<Mark> {
    let end = scenario.duration;
    let mut all = Vec::new();
    for (i, server) in scenario.server.iter().enumerate() {
        let mut mark = |from: f64, until: f64, what: &str| {
            if from < end && (from, until) != (0.0, end) {
                all.push(Mark { from, until: until.min(end), label: format!("{i} {what}") });
            }
        };
        if server.join > 0.0 {
            mark(server.join, server.join, "joins");
        }
        if let Some(leave) = server.leave {
            mark(leave, leave, "leaves");
        }
        for event in &server.event {
            let mut at = event.at;
            while at < end {
                mark(at, event.lasts.map_or(end, |lasts| at + lasts), event.effect.name());
                match event.every {
                    Some(every) => at += every,
                    None => break,
                }
            }
        }
    }
    all.sort_by(|a, b| a.from.total_cmp(&b.from));
    all.truncate(MOST_MARKS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::run_with;
    use crate::policy::Kind;
    use crate::stats::Recorder;

    const TEXT: &str = "about='x'\nrate=500\nduration=20\n[[server]]\nservice_ms=2\nconcurrency=2\n\
                        [[server.event]]\nat=5\nlasts=3\neffect='pause'\n[[server]]\nservice_ms=5\nconcurrency=2\njoin=2\n";

    #[test]
    fn pictures_have_lines_marks_and_both_themes() {
        let scenario = Scenario::parse(TEXT).unwrap();
        let summary = run_with(&scenario, Kind::Labor, 1, Recorder::with_timeline(&scenario));
        let latency = latency(&scenario, &[("labor", &summary.timeline)], false).unwrap();
        for part in ["<svg", "prefers-color-scheme: dark", "labor", "0 pause", "1 joins", "polyline"] {
            assert!(latency.contains(part), "{part}");
        }
        let shares = shares(&scenario, "labor", &summary.timeline).unwrap();
        assert!(shares.contains("server 1 (5.00 ms)"));
        let curves = curves(&scenario, &summary.curves).unwrap();
        assert!(curves.contains("server 0") && curves.contains("</svg>"));
    }

    #[test]
    fn the_true_curve_is_flat_until_it_is_full() {
        let spec = ServerSpec { service_ms: 10.0, net_ms: 1.0, concurrency: 4, ..ServerSpec::default() };
        assert_eq!([0.0, 3.0, 4.0, 7.0].map(|q| truth(&spec, q)), [11.0, 11.0, 13.5, 21.0]);
    }
}
