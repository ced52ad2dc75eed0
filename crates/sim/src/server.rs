//! Model servers: a first-in-first-out queue before `k` places, a speed that changes over time, and faults.
//!
//! Because the network time is the same for all requests to a server and the queue is first in, first out, the whole
//! fate of a request is known when it is sent: one event per request is enough, also when the speed changes later.

use crate::dist::Dist;
use crate::scenario::{Effect, ServerSpec};
use crate::{MILLI, Nanos, SECOND};

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A complete good answer.
    Pass,
    /// A status that counts as a failure.
    Status,
    /// No answer within the time allowed.
    Timeout,
}

/// A request as a server sees it.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Its size relative to the mean, known to an oracle.
    pub size: f64,
    /// Two uniform numbers for what is hidden even from an oracle.
    pub luck: [f64; 2],
}

/// A stretch of time in which a server's behaviour does not change.
#[derive(Clone, Copy, Debug)]
struct Phase {
    from: Nanos,
    /// Work done per unit of time, relative to normal.
    speed: f64,
    /// Share of arriving requests that fail at once, and after how long.
    fail: (f64, Nanos),
    /// Arriving requests are never answered.
    hang: bool,
}

/// One server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Configured weight.
    pub weight: u32,
    /// When it joins the list; 0: at the start.
    pub joins: Nanos,
    /// Requests sent and not yet back, of all balancers; the engine counts.
    pub in_flight: u32,
    /// Mean service time, ns.
    mean: f64,
    /// Both ways together, ns.
    net: Nanos,
    own: Option<Dist>,
    /// When each place becomes free: a binary heap, smallest first.
    free: Vec<Nanos>,
    phases: Vec<Phase>,
    /// The phase of the latest start; starts never go back in time.
    cursor: usize,
    timeout: Nanos,
}

impl Server {
    /// A server as specified, with its events laid out up to `horizon`.
    pub fn new(spec: &ServerSpec, timeout: Nanos, horizon: Nanos) -> Self {
        Self {
            weight: spec.weight,
            joins: (spec.join * SECOND) as Nanos,
            in_flight: 0,
            mean: spec.service_ms * MILLI,
            net: (spec.net_ms * MILLI) as Nanos,
            own: spec.own,
            free: vec![0; spec.concurrency as usize],
            phases: phases(spec, horizon),
            cursor: 0,
            timeout,
        }
    }

    /// Takes a request sent at `now`; returns when its answer is back, and how it ended.
    pub fn send(&mut self, now: Nanos, work: &Work) -> (Nanos, End) {
        let arrives = now + self.net / 2;
        let phase = self.phases[self.phase_at(arrives)];
        if phase.hang {
            return (now + self.timeout, End::Timeout);
        }
        if work.luck[1] < phase.fail.0 {
            return (now + self.net + phase.fail.1, End::Status);
        }
        let start = arrives.max(self.free[0]);
        let scale = self.own.map_or(work.size, |own| own.value(work.luck[0], work.luck[1]));
        let end = self.finish(start, scale);
        self.occupy(end);
        let back = end + self.net - self.net / 2;
        if back - now > self.timeout { (now + self.timeout, End::Timeout) } else { (back, End::Pass) }
    }

    /// What an oracle knows: when the answer to a request sent at `now` would be back; `None` when it would fail.
    pub fn foresee(&self, now: Nanos, work: &Work) -> Option<Nanos> {
        let arrives = now + self.net / 2;
        let phase = &self.phases[self.phase_at(arrives)];
        if phase.hang || work.luck[1] < phase.fail.0 {
            return None;
        }
        let scale = if self.own.is_some() { 1.0 } else { work.size };
        Some(self.finish(arrives.max(self.free[0]), scale) + self.net - self.net / 2)
    }

    /// What one more request costs at the speed of `now`, ns: see the informed policy. Infinite while it fails or hangs.
    pub fn price(&self, now: Nanos) -> f64 {
        let phase = &self.phases[self.phase_at(now)];
        if phase.hang || phase.fail.0 >= 0.5 {
            return f64::INFINITY;
        }
        let crowd = (f64::from(self.in_flight + 1) / self.free.len() as f64).max(1.0);
        self.mean / phase.speed * crowd * crowd + self.net as f64
    }

    /// Where in `phases` the time `at` lies, for times not before the cursor's phase.
    fn phase_at(&self, at: Nanos) -> usize {
        let mut i = self.cursor;
        while self.phases.get(i + 1).is_some_and(|p| p.from <= at) {
            i += 1;
        }
        // Arrivals lie before starts when there is a queue.
        while i > 0 && self.phases[i].from > at {
            i -= 1;
        }
        i
    }

    /// When work of `scale` times the mean, begun at `start`, is done.
    fn finish(&self, start: Nanos, scale: f64) -> Nanos {
        let mut left = self.mean * scale;
        let mut at = start;
        let mut i = self.phase_at(start);
        loop {
            let speed = self.phases[i].speed;
            let Some(next) = self.phases.get(i + 1) else {
                return at + (left / speed) as Nanos;
            };
            let room = (next.from - at) as f64 * speed;
            if left <= room {
                return at + (left / speed) as Nanos;
            }
            left -= room;
            at = next.from;
            i += 1;
        }
    }

    /// Replaces the place that is free first by one that is free at `end`.
    fn occupy(&mut self, end: Nanos) {
        let start = self.free[0];
        self.cursor = self.phase_at(start);
        let n = self.free.len();
        let mut i = 0;
        loop {
            let left = 2 * i + 1;
            if left >= n {
                break;
            }
            let child = if left + 1 < n && self.free[left + 1] < self.free[left] { left + 1 } else { left };
            if self.free[child] >= end {
                break;
            }
            self.free[i] = self.free[child];
            i = child;
        }
        self.free[i] = end;
    }
}

/// Lays the server's events out as phases.
fn phases(spec: &ServerSpec, horizon: Nanos) -> Vec<Phase> {
    // (from, until, effect) of each occurrence.
    let mut spans: Vec<(Nanos, Nanos, Effect)> = Vec::new();
    for event in &spec.event {
        let (mut at, length) = (event.at, event.lasts.unwrap_or(f64::INFINITY));
        while at * SECOND <= horizon as f64 {
            let until = ((at + length) * SECOND).min(u64::MAX as f64 / 2.0) as Nanos;
            spans.push(((at * SECOND) as Nanos, until, event.effect));
            match event.every {
                Some(every) => at += every,
                None => break,
            }
        }
    }
    let mut cuts: Vec<Nanos> = spans.iter().flat_map(|s| [s.0, s.1]).chain([0]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.into_iter()
        .map(|from| {
            let mut phase = Phase { from, speed: 1.0, fail: (0.0, 0), hang: false };
            for &(_, _, effect) in spans.iter().filter(|s| s.0 <= from && from < s.1) {
                match effect {
                    Effect::Slow { factor } => phase.speed /= factor,
                    Effect::Fail { share, after_ms } => phase.fail = (share, (after_ms * MILLI) as Nanos),
                    Effect::Hang => phase.hang = true,
                }
            }
            phase
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Event;

    const MS: Nanos = 1_000_000;

    fn spec(concurrency: u32, events: Vec<Event>) -> ServerSpec {
        ServerSpec { service_ms: 10.0, net_ms: 2.0, concurrency, event: events, ..ServerSpec::default() }
    }

    fn unit() -> Work {
        Work { size: 1.0, luck: [0.5, 0.5] }
    }

    fn server(concurrency: u32, events: Vec<Event>) -> Server {
        Server::new(&spec(concurrency, events), 60_000 * MS, 100_000 * MS)
    }

    #[test]
    fn one_place_serves_one_after_the_other() {
        let mut s = server(1, vec![]);
        assert_eq!(s.send(0, &unit()), (12 * MS, End::Pass));
        assert_eq!(s.foresee(0, &unit()), Some(22 * MS));
        assert_eq!(s.send(0, &unit()), (22 * MS, End::Pass));
        assert_eq!(s.send(50 * MS, &unit()), (62 * MS, End::Pass));
    }

    #[test]
    fn k_places_serve_k_at_once() {
        let mut s = server(3, vec![]);
        let ends: Vec<_> = (0..6).map(|_| s.send(0, &unit()).0 / MS).collect();
        assert_eq!(ends, [12, 12, 12, 22, 22, 22]);
    }

    #[test]
    fn a_slow_phase_stretches_what_falls_into_it() {
        let slow = Event { at: 0.006, lasts: Some(0.010), every: None, effect: Effect::Slow { factor: 10.0 } };
        let mut s = server(1, vec![slow]);
        // Arrives at 1, 5 ms of work until 6, 1 ms of work in the slow 10 ms, 4 ms after; 1 ms back.
        assert_eq!(s.send(0, &unit()).0, 21 * MS);
    }

    #[test]
    fn failing_and_hanging_take_no_place() {
        let fail = Event { at: 0.0, lasts: Some(1.0), every: None, effect: Effect::Fail { share: 1.0, after_ms: 0.5 } };
        let hang = Event { at: 2.0, lasts: None, every: None, effect: Effect::Hang };
        let mut s = server(1, vec![fail, hang]);
        assert_eq!(s.send(0, &unit()), (5 * MS / 2, End::Status));
        assert_eq!(s.foresee(0, &unit()), None);
        assert_eq!(s.send(1500 * MS, &unit()), (1512 * MS, End::Pass));
        assert_eq!(s.send(3000 * MS, &unit()), (63_000 * MS, End::Timeout));
    }
}
