//! Takes the figures of a run while it runs.

use super::{Summary, quantile};
use crate::policy::Policy;
use crate::scenario::{Scenario, Watch};
use crate::server::End;
use crate::{MILLI, Nanos, SECOND};

/// A server is found when it gets half of so many attempts in a row.
pub const FOUND: usize = 50;
/// Slices of a timeline.
const SLICES: usize = 240;

/// One slice of a run.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Latencies of good answers to requests that arrived in it, ms.
    latencies: Vec<f32>,
    /// Mean of these.
    pub mean: f64,
    /// Their 99th percentile.
    pub p99: f64,
    /// Attempts per server.
    pub picks: Vec<u64>,
    /// Requests that arrived in it and failed.
    pub failed: u64,
}

impl Slice {
    /// Requests with a good answer.
    pub fn good(&self) -> usize {
        self.latencies.len()
    }
}

/// How a run went over time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Length of a slice, seconds.
    pub step: f64,
    /// The slices; empty when nobody asked.
    pub slices: Vec<Slice>,
}

/// See the module.
#[derive(Debug)]
pub struct Recorder {
    summary: Summary,
    latencies: Vec<f32>,
    warm: Nanos,
    watch: Option<(Nanos, Nanos, usize)>,
    /// Whether each of the last attempts went where it should, and how many did.
    find: Option<Find>,
    slice: Nanos,
    /// Attempts by key, then by server; empty without keys.
    keys: Vec<u32>,
}

#[derive(Debug)]
struct Find {
    goal: Vec<bool>,
    from: Nanos,
    last: [bool; FOUND],
    hits: usize,
    attempts: usize,
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * SECOND) as Nanos
}

impl Recorder {
    /// For a run of `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        let n = scenario.server.len();
        let window = |w: Watch| (nanos(w.from), w.until.map_or(Nanos::MAX, nanos), w.server);
        let mut goal = scenario.fastest();
        if let Some(find) = scenario.find {
            goal = (0..n).map(|i| i == find.server).collect();
        }
        let from = nanos(scenario.find.map_or(0.0, |f| f.from));
        let find = Find { goal, from, last: [false; FOUND], hits: 0, attempts: 0 };
        Self {
            summary: Summary { counts: vec![0; n], ..Summary::default() },
            latencies: Vec::new(),
            warm: nanos(scenario.warmup),
            watch: scenario.watch.map(window),
            // When all are the fastest there is nothing to find.
            find: Some(find).filter(|f| f.goal.contains(&false)),
            slice: 0,
            keys: vec![0; scenario.keys.map_or(0, |keys| keys.count as usize * n)],
        }
    }

    /// The same, which also follows the course of the run.
    pub fn with_timeline(scenario: &Scenario) -> Self {
        let mut recorder = Self::new(scenario);
        recorder.slice = nanos(scenario.duration / SLICES as f64).max(1);
        let empty = Slice { picks: vec![0; scenario.server.len()], ..Slice::default() };
        recorder.summary.timeline = Timeline { step: scenario.duration / SLICES as f64, slices: vec![empty; SLICES] };
        recorder
    }

    fn slice(&mut self, at: Nanos) -> Option<&mut Slice> {
        let i = at.checked_div(self.slice)? as usize;
        self.summary.timeline.slices.get_mut(i)
    }

    /// A request arrived.
    pub fn sent(&mut self) {
        self.summary.sent += 1;
    }

    /// An attempt for `key` went to `server`.
    pub fn keyed(&mut self, key: u32, server: usize, now: Nanos) {
        let place = key as usize * self.summary.counts.len() + server;
        if now >= self.warm
            && let Some(count) = self.keys.get_mut(place)
        {
            *count += 1;
        }
    }

    /// See [`Summary::kept`].
    fn kept(&self) -> Option<f64> {
        let cold = self.keys.chunks(self.summary.counts.len().max(1)).skip(1);
        let [kept, all] = cold.fold([0, 0], |[kept, all], key| {
            [kept + key.iter().max().copied().unwrap_or(0), all + key.iter().sum::<u32>()]
        });
        (all > 0).then(|| f64::from(kept) / f64::from(all))
    }

    /// A request came back.
    pub fn answered(&mut self) {
        self.summary.answered += 1;
    }

    /// No server was found for a request.
    pub fn refused(&mut self) {
        self.summary.refused += 1;
    }

    /// An attempt went to `server`.
    pub fn picked(&mut self, server: usize, now: Nanos) {
        if self.slice > 0
            && let Some(count) = self.slice(now).and_then(|s| s.picks.get_mut(server))
        {
            *count += 1;
        }
        let Some(find) = self.find.as_mut().filter(|f| now >= f.from) else { return };
        let hit = find.goal[server];
        let place = &mut find.last[find.attempts % FOUND];
        find.hits = find.hits + usize::from(hit) - usize::from(*place);
        *place = hit;
        find.attempts += 1;
        if 2 * find.hits >= FOUND {
            self.summary.found = Some((find.attempts - find.attempts.min(FOUND)) as u64);
            self.find = None;
        }
    }

    /// Books the end of a request that arrived at `first` and was ended by `server` at `now`.
    pub fn book(&mut self, server: usize, first: Nanos, now: Nanos, end: End) {
        let millis = (now - first) as f64 / MILLI;
        if first >= self.warm {
            self.summary.counts[server] += 1;
            if end == End::Pass {
                self.latencies.push(millis as f32);
            } else {
                self.summary.failed += 1;
            }
        }
        if let Some((from, until, watched)) = self.watch
            && (from..until).contains(&first)
        {
            self.summary.watch.book(server == watched, millis, end);
        }
        if self.slice > 0
            && let Some(slice) = self.slice(first)
        {
            if end == End::Pass {
                slice.latencies.push(millis as f32);
            } else {
                slice.failed += 1;
            }
        }
    }

    /// Computes the figures.
    pub fn close(mut self, policies: &[Box<dyn Policy>], scenario: &Scenario) -> Summary {
        let kept = self.kept();
        let all = &mut self.latencies;
        let mean = |values: &[f32]| values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len().max(1) as f64;
        let mut summary = self.summary;
        summary.kept = kept;
        summary.mean = mean(all);
        summary.p50 = quantile(all, 0.5);
        summary.p99 = quantile(all, 0.99);
        summary.p999 = quantile(all, 0.999);
        let limit = (10.0 * summary.p50) as f32;
        summary.slow = all.iter().filter(|&&x| x > limit).count() as f64 / all.len().max(1) as f64;
        for slice in &mut summary.timeline.slices {
            slice.mean = mean(&slice.latencies);
            slice.p99 = quantile(&mut slice.latencies, 0.99);
        }
        let changes: Option<u64> = policies.iter().map(|p| p.changes()).sum();
        summary.changes = changes.map(|n| n as f64 / policies.len().max(1) as f64 / (scenario.duration / 60.0));
        if let Some(first) = policies.first() {
            summary.reasons = first.reasons();
            summary.curves = first.curves();
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "about='x'\nrate=1\nduration=240\n[[server]]\nservice_ms=5\nconcurrency=1\n\
                        [[server]]\nservice_ms=9\nconcurrency=1\n";

    #[test]
    fn found_is_the_start_of_a_good_half() {
        let scenario = Scenario::parse(TEXT).unwrap();
        let mut recorder = Recorder::new(&scenario);
        // A hundred elsewhere; then the 25th hit is the half of fifty.
        (0..100).for_each(|_| recorder.picked(1, 0));
        (0..25).for_each(|_| recorder.picked(0, 0));
        assert_eq!(recorder.close(&[], &scenario).found, Some(75));
        let mut never = Recorder::new(&scenario);
        (0..1000).for_each(|i| never.picked(usize::from(i % 5 > 1), 0));
        assert_eq!(never.close(&[], &scenario).found, None);
    }

    #[test]
    fn a_timeline_counts_by_arrival() {
        let scenario = Scenario::parse(TEXT).unwrap();
        let mut recorder = Recorder::with_timeline(&scenario);
        let second = 1_000_000_000;
        recorder.picked(1, 3 * second);
        recorder.book(1, 3 * second, 5 * second, End::Pass);
        recorder.book(1, 3 * second, 5 * second, End::Timeout);
        let timeline = recorder.close(&[], &scenario).timeline;
        let slice = &timeline.slices[3];
        assert_eq!((slice.mean, slice.good(), slice.failed, slice.picks[1]), (2000.0, 1, 1, 1));
    }
}
