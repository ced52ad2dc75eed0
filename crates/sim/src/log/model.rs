//! From a log to servers: how many requests each seems to work on at once, how long it takes, how it changed over time.

use super::{Attempt, Log};
use crate::dist::Dist;
use crate::scenario::{Effect, Event, Scenario, ServerSpec};
use crate::{Nanos, SECOND};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Means of fewer samples are not compared.
const ENOUGH: usize = 20;
/// Stretches of time in which a server is looked at for changes.
const STRETCH: f64 = 60.0;
/// A stretch this much slower or faster than the whole is a change.
const CHANGED: f64 = 1.5;

/// What one server looks like.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its address.
    pub addr: String,
    /// Answers it gave, seconds.
    pub times: Vec<f64>,
    /// Attempts that failed.
    pub failed: usize,
    /// Requests it works on at once, and whether the log shows that limit.
    pub places: (u32, bool),
    /// Stretches in which it was slower or faster than usual.
    pub changes: usize,
}

/// A log as a scenario.
#[derive(Clone, Debug)]
pub struct Model {
    /// What can be simulated.
    pub scenario: Scenario,
    /// Where it comes from.
    pub seen: Vec<Seen>,
    /// What each request really took, all its attempts together, seconds; good ones.
    pub logged: Vec<f64>,
    /// Requests that failed in the end.
    pub failed: usize,
}

/// An answer: when the attempt began, how long it took, requests at the server before it.
type Sample = (f64, f64, u32);

/// Makes a model of `log`, whose entries are sorted.
///
/// # Errors
/// When there is too little to learn from.
pub fn model(name: &str, log: &Log) -> Result<Model, String> {
    let mut index: HashMap<&str, usize> = HashMap::new();
    let mut seen: Vec<Seen> = Vec::new();
    let mut attempts: Vec<Vec<(f64, &Attempt)>> = Vec::new();
    let (mut arrivals, mut logged, mut failed, mut tries) = (Vec::new(), Vec::new(), 0, 1);
    let zero = log.entries.first().map_or(0.0, |e| e.began());
    for entry in &log.entries {
        let mut at = entry.began() - zero;
        for (n, attempt) in entry.attempts.iter().enumerate() {
            let server = *index.entry(&attempt.addr).or_insert_with(|| {
                let addr = attempt.addr.clone();
                seen.push(Seen { addr, times: Vec::new(), failed: 0, places: (1, false), changes: 0 });
                attempts.push(Vec::new());
                seen.len() - 1
            });
            if n == 0 {
                arrivals.push(((at * SECOND) as Nanos, server as u32));
            }
            attempts[server].push((at, attempt));
            at += attempt.time.unwrap_or(0.0);
        }
        tries = tries.max(entry.attempts.len() as u32);
        match entry.attempts.last() {
            Some(last) if !last.failed() => logged.push(entry.ended - zero - (entry.began() - zero)),
            _ => failed += 1,
        }
    }
    if logged.len() < 100 || seen.len() < 2 {
        return Err(format!(
            "{} requests with an answer, {} servers: too little to learn from (at least 100 requests to 2 servers)",
            logged.len(),
            seen.len()
        ));
    }
    let server: Vec<_> = seen.iter_mut().zip(&attempts).map(|(seen, all)| server(seen, all)).collect();
    let duration = arrivals.last().map_or(1.0, |a| a.0 as f64 / SECOND) + 0.001;
    let scenario = Scenario {
        name: name.to_owned(),
        about: format!("made from {name}"),
        rate: arrivals.len() as f64 / duration,
        duration,
        balancers: 1,
        workers: 1,
        safe: 1.0,
        tries: tries.min(4),
        timeout: 60.0,
        arrivals: arrivals.into(),
        server,
        ..Scenario::default()
    };
    Ok(Model { scenario, seen, logged, failed })
}

/// Models one server from its attempts.
fn server(seen: &mut Seen, attempts: &[(f64, &Attempt)]) -> ServerSpec {
    let samples = samples(attempts);
    seen.times = samples.iter().map(|s| s.1).collect();
    seen.failed = attempts.iter().filter(|a| a.1.failed()).count();
    let mean = |values: &[Sample]| values.iter().map(|s| s.1).sum::<f64>() / values.len().max(1) as f64;
    let same = |a: &Sample, b: &Sample| (a.0 / STRETCH).floor() == (b.0 / STRETCH).floor();
    let usual = |all: &[Sample]| {
        // The middle stretch: a slow one must not make all others fast.
        let mut means: Vec<f64> = all.chunk_by(same).filter(|s| s.len() >= ENOUGH).map(mean).collect();
        means.sort_by(f64::total_cmp);
        means.get(means.len() / 2).copied().unwrap_or_else(|| mean(all)).max(1e-6)
    };
    let changed = |ratio: f64| !(1.0 / CHANGED..=CHANGED).contains(&ratio);
    // A slow minute is full, too: that must not pass for a queue.
    let steady: Vec<Sample> =
        samples.chunk_by(same).filter(|s| !changed(mean(s) / usual(&samples))).flatten().copied().collect();
    seen.places = places(if steady.len() >= ENOUGH { &steady } else { &samples });
    let (k, _) = seen.places;
    // What waited says more about the queue than about the work.
    let mut work: Vec<Sample> = samples.iter().copied().filter(|s| s.2 < k).collect();
    if work.len() < ENOUGH {
        work.clone_from(&samples);
    }
    let usual = usual(&work);
    let mut event = Vec::new();
    let mut even = Vec::with_capacity(work.len());
    for stretch in work.chunk_by(same) {
        let ratio = mean(stretch) / usual;
        let changed = stretch.len() >= ENOUGH && changed(ratio);
        let factor = if changed { ratio } else { 1.0 };
        even.extend(stretch.iter().map(|s| (s.1 / factor).max(1e-6)));
        if let Some(first) = stretch.first().filter(|_| changed) {
            let at = (first.0 / STRETCH).floor() * STRETCH;
            event.push(Event { at, lasts: Some(STRETCH), every: None, effect: Effect::Slow { factor } });
        }
    }
    seen.changes = event.len();
    if seen.failed > 0 {
        let times: Vec<f64> = attempts.iter().filter(|a| a.1.failed()).filter_map(|a| a.1.time).collect();
        let after_ms = 1000.0 * times.iter().sum::<f64>() / times.len().max(1) as f64;
        let share = seen.failed as f64 / attempts.len() as f64;
        event.push(Event { at: 0.0, lasts: None, every: None, effect: Effect::Fail { share, after_ms } });
    }
    let service_ms = (1000.0 * even.iter().sum::<f64>() / even.len().max(1) as f64).max(0.001);
    let own = (!even.is_empty()).then(|| Dist::measured(&even));
    ServerSpec { service_ms, own, concurrency: k, event, ..ServerSpec::default() }
}

/// The answers of one server with what was in flight there before each.
fn samples(attempts: &[(f64, &Attempt)]) -> Vec<Sample> {
    let mut order: Vec<_> = attempts.iter().filter_map(|(at, a)| Some((*at, a.time?, a.failed()))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut out = Vec::with_capacity(order.len());
    for (at, time, failed) in order {
        let now = (at.max(0.0) * 1e6) as u64;
        while ends.peek().is_some_and(|e| e.0 <= now) {
            ends.pop();
        }
        if !failed {
            out.push((at, time, ends.len() as u32));
        }
        ends.push(Reverse(now + (time * 1e6) as u64));
    }
    out
}

/// How many requests a server works on at once: where its answers begin to take longer, in proportion to what is in
/// flight. Without such a place it has more than was ever asked of it; then twice that is assumed.
fn places(samples: &[Sample]) -> (u32, bool) {
    let most = samples.iter().map(|s| s.2).max().unwrap_or(0) + 1;
    let bucket = |q: u32| (q + 1).ilog2() as usize;
    let mut sums = [(0.0, 0.0, 0usize); 33];
    for &(_, time, q) in samples {
        let sum = &mut sums[bucket(q)];
        *sum = (sum.0 + time, sum.1 + f64::from(q), sum.2 + 1);
    }
    let points: Vec<_> =
        sums.iter().filter(|s| s.2 >= ENOUGH).map(|s| (s.0 / s.2 as f64, s.1 / s.2 as f64, s.2 as f64)).collect();
    if points.len() < 2 {
        return (2 * most, false);
    }
    // For each k the idle time that fits best, and how well it fits, in squares of relative errors.
    let misfit = |k: f64| {
        let shape = |q: f64| 1.0 + (q + 1.0 - k).max(0.0) / k;
        let weight: f64 = points.iter().map(|p| p.2).sum();
        let idle = (points.iter().map(|p| p.2 * (p.0 / shape(p.1)).ln()).sum::<f64>() / weight).exp();
        points.iter().map(|p| p.2 * (p.0 / (idle * shape(p.1))).ln().powi(2)).sum::<f64>() / weight
    };
    let candidates = (1..=most.min(64)).chain((65..=most).step_by(8));
    let best = candidates.map(|k| (misfit(f64::from(k)), k)).min_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        // A limit explains much more than no limit, or it is chance.
        Some((error, k)) if k < most && error < 0.5 * misfit(f64::from(2 * most)) => (k, true),
        _ => (2 * most, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Entry;
    use crate::{Kind, run};

    /// A log of `seconds` at `rate`, in turn to a fast and a slow server.
    pub(crate) fn log(seconds: f64, rate: f64) -> Log {
        let mut log = Log::default();
        for i in 0..(seconds * rate) as u64 {
            let (addr, time) = if i % 2 == 0 { ("10.0.0.1:80", 0.010) } else { ("10.0.0.2:80", 0.050) };
            let time = time * (0.8 + 0.4 * (i % 7) as f64 / 6.0);
            let attempts = vec![Attempt { addr: addr.into(), time: Some(time), status: Some(200) }];
            log.entries.push(Entry { ended: 1.7e9 + i as f64 / rate + time, attempts });
        }
        log.sort();
        log
    }

    #[test]
    fn the_model_gives_back_what_was_logged() {
        let model = model("x", &log(120.0, 50.0)).unwrap();
        let services: Vec<_> = model.scenario.server.iter().map(|s| s.service_ms.round()).collect();
        assert_eq!(services, [10.0, 50.0]);
        let replay = run(&model.scenario, Kind::Replay, 1).mean;
        let logged = 1000.0 * model.logged.iter().sum::<f64>() / model.logged.len() as f64;
        assert!((replay / logged - 1.0).abs() < 0.02, "{replay} {logged}");
        assert!(run(&model.scenario, Kind::Labor, 1).mean < 12.0);
    }

    #[test]
    fn a_queue_shows_the_number_of_places() {
        // Two places, work of 10 ms: with q before it a request takes 10 ms · max(1, (q + 1)/2).
        let queued: Vec<Sample> =
            (0..4000u32).map(|i| (f64::from(i), 0.005 * f64::from((i % 16 + 1).max(2)), i % 16)).collect();
        assert_eq!(places(&queued), (2, true));
        let flat: Vec<Sample> = (0..4000u32).map(|i| (f64::from(i), 0.010, i % 16)).collect();
        assert_eq!(places(&flat), (32, false));
    }

    #[test]
    fn a_slow_minute_becomes_an_event_and_failures_a_share() {
        let mut log = log(300.0, 20.0);
        for entry in &mut log.entries {
            let began = entry.began();
            let attempt = &mut entry.attempts[0];
            if attempt.addr.ends_with("1:80") && (1.7e9 + 120.0..1.7e9 + 180.0).contains(&began) {
                attempt.time = attempt.time.map(|t| 4.0 * t);
                entry.ended = began + attempt.time.unwrap_or(0.0);
            }
        }
        log.entries[5].attempts[0].status = Some(502);
        let model = model("x", &log).unwrap();
        assert_eq!((model.seen[0].changes, model.seen[1].failed), (1, 1));
        assert!(matches!(model.scenario.server[0].event[0].effect, Effect::Slow { factor } if factor > 2.0));
    }
}
