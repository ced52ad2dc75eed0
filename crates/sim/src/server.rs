//! Model servers: a first-in-first-out queue before `k` places, a speed that changes over time, and faults.
//!
//! Because the network time is the same for all requests to a server and the queue is first in, first out, the whole
//! fate of a request is known when it is sent: one event per request is enough, also when the speed changes later.

mod phases;

use crate::dist::Dist;
use crate::scenario::{Effect, ServerSpec};
use crate::{MILLI, Nanos, SECOND};
use phases::{Phase, phases};

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

/// What became of a request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// When its end is known to the sender.
    pub back: Nanos,
    /// How it ended.
    pub end: End,
    /// Time from the start of the work on it to its end; 0 when nobody worked on it.
    pub service: Nanos,
}

/// Answers that a server remembers to report on.
const REMEMBERED: usize = 32;

/// One server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Configured weight.
    pub weight: u32,
    /// When it is in the list.
    pub listed: (Nanos, Nanos),
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
    /// From when on how many answers take how much longer.
    cold: Vec<(Nanos, u32, f64)>,
    /// The latest answers: requests in flight here when they were sent, and ms.
    reports: [(u32, f32); REMEMBERED],
    answered: usize,
}

impl Server {
    /// A server as specified, with its events laid out up to `horizon`; what is random about them follows from `seed`.
    pub fn new(spec: &ServerSpec, timeout: Nanos, horizon: Nanos, seed: u64) -> Self {
        let cold = |event: &crate::scenario::Event| match event.effect {
            Effect::Cold { requests, factor } => Some(((event.at * SECOND) as Nanos, requests, factor)),
            _ => None,
        };
        let leaves = spec.leave.map_or(Nanos::MAX, |s| (s * SECOND) as Nanos);
        Self {
            weight: spec.weight,
            listed: ((spec.join * SECOND) as Nanos, leaves),
            in_flight: 0,
            mean: spec.service_ms * MILLI,
            net: (spec.net_ms * MILLI) as Nanos,
            own: spec.own.clone(),
            free: vec![0; spec.concurrency as usize],
            phases: phases(spec, horizon, seed),
            cursor: 0,
            timeout,
            cold: spec.event.iter().filter_map(cold).collect(),
            reports: [(0, 0.0); REMEMBERED],
            answered: 0,
        }
    }

    /// Takes a request sent at `now`.
    pub fn send(&mut self, now: Nanos, work: &Work) -> Fate {
        let arrives = now + self.net / 2;
        let phase = self.phases[self.phase_at(arrives)];
        if phase.hang {
            return Fate { back: now + self.timeout, end: End::Timeout, service: 0 };
        }
        if work.luck[1] < phase.fail.0 {
            return Fate { back: now + self.net + phase.fail.1, end: End::Status, service: 0 };
        }
        let start = arrives.max(self.free[0]);
        let scale = self.own.as_ref().map_or(work.size, |own| own.value(work.luck[0], work.luck[1]));
        let cold = self.cold.iter_mut().find(|c| c.0 <= arrives && c.1 > 0).map_or(1.0, |c| {
            c.1 -= 1;
            c.2
        });
        let end = self.finish(start, scale * cold);
        self.occupy(end);
        let (back, service) = (end.saturating_add(self.net - self.net / 2), end - start);
        if back - now > self.timeout {
            return Fate { back: now + self.timeout, end: End::Timeout, service };
        }
        Fate { back, end: End::Pass, service }
    }

    /// Remembers an answer that took `millis` when `in_flight` requests were here before it.
    pub fn remember(&mut self, in_flight: u32, millis: f32) {
        self.reports[self.answered % REMEMBERED] = (in_flight, millis);
        self.answered += 1;
    }

    /// What the server says of itself: requests in flight, and the median of what its latest answers took at about as many
    /// (ms; `None` before the first answer).
    pub fn report(&self) -> (u32, Option<f32>) {
        let mut near = self.reports;
        let near = &mut near[..self.answered.min(REMEMBERED)];
        near.sort_unstable_by_key(|r| r.0.abs_diff(self.in_flight));
        // A quarter of them, the nearest.
        let near = &mut near[..self.answered.min(REMEMBERED).div_ceil(4)];
        near.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        (self.in_flight, near.get(near.len() / 2).map(|r| r.1))
    }

    /// Network time, both ways together.
    pub fn net(&self) -> Nanos {
        self.net
    }

    /// When a place becomes free, and what a request of mean size takes from then on, ns: infinite while it fails.
    pub fn opening(&self, now: Nanos) -> (Nanos, f64) {
        let at = self.free[0].max(now + self.net / 2);
        let phase = &self.phases[self.phase_at(at)];
        let whole = if phase.hang || phase.fail.0 >= 0.5 { f64::INFINITY } else { self.mean / phase.speed };
        (at, whole + self.net as f64)
    }

    /// What an oracle knows: when the answer to a request sent at `now` would be back; `None` when it would fail.
    pub fn foresee(&self, now: Nanos, work: &Work) -> Option<Nanos> {
        let arrives = now + self.net / 2;
        let phase = &self.phases[self.phase_at(arrives)];
        if phase.hang || work.luck[1] < phase.fail.0 {
            return None;
        }
        let scale = if self.own.is_some() { 1.0 } else { work.size };
        let cold = self.cold.iter().find(|c| c.0 <= arrives && c.1 > 0).map_or(1.0, |c| c.2);
        let end = self.finish(arrives.max(self.free[0]), scale * cold);
        Some(end.saturating_add(self.net - self.net / 2))
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
                return at.saturating_add((left / speed) as Nanos);
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
        Server::new(&spec(concurrency, events), 60_000 * MS, 100_000 * MS, 1)
    }

    fn sent(server: &mut Server, now: Nanos) -> (Nanos, End) {
        let fate = server.send(now, &unit());
        (fate.back, fate.end)
    }

    #[test]
    fn one_place_serves_one_after_the_other() {
        let mut s = server(1, vec![]);
        assert_eq!(sent(&mut s, 0), (12 * MS, End::Pass));
        assert_eq!(s.foresee(0, &unit()), Some(22 * MS));
        assert_eq!(sent(&mut s, 0), (22 * MS, End::Pass));
        assert_eq!(sent(&mut s, 50 * MS), (62 * MS, End::Pass));
    }

    #[test]
    fn k_places_serve_k_at_once() {
        let mut s = server(3, vec![]);
        let ends: Vec<_> = (0..6).map(|_| sent(&mut s, 0).0 / MS).collect();
        assert_eq!(ends, [12, 12, 12, 22, 22, 22]);
    }

    #[test]
    fn a_slow_phase_stretches_what_falls_into_it() {
        let slow = Event { at: 0.006, lasts: Some(0.010), every: None, effect: Effect::Slow { factor: 10.0 } };
        let mut s = server(1, vec![slow]);
        // Arrives at 1, 5 ms of work until 6, 1 ms of work in the slow 10 ms, 4 ms after; 1 ms back.
        assert_eq!(sent(&mut s, 0).0, 21 * MS);
    }

    #[test]
    fn failing_and_hanging_take_no_place() {
        let fail = Event { at: 0.0, lasts: Some(1.0), every: None, effect: Effect::Fail { share: 1.0, after_ms: 0.5 } };
        let hang = Event { at: 2.0, lasts: None, every: None, effect: Effect::Hang };
        let mut s = server(1, vec![fail, hang]);
        assert_eq!(sent(&mut s, 0), (5 * MS / 2, End::Status));
        assert_eq!(s.foresee(0, &unit()), None);
        assert_eq!(sent(&mut s, 1500 * MS), (1512 * MS, End::Pass));
        assert_eq!(sent(&mut s, 3000 * MS), (63_000 * MS, End::Timeout));
    }

    #[test]
    fn a_pause_holds_everything() {
        let pause = Event { at: 0.003, lasts: Some(0.1), every: None, effect: Effect::Pause };
        let mut s = server(1, vec![pause]);
        // 2 ms of work before the pause, 8 ms after it.
        assert_eq!(sent(&mut s, 0).0, 112 * MS);
    }

    #[test]
    fn the_first_answers_of_a_cold_server_are_slow() {
        let cold = Event { at: 1.0, lasts: None, every: None, effect: Effect::Cold { requests: 2, factor: 40.0 } };
        let mut s = server(1, vec![cold]);
        let took: Vec<_> = [0, 2, 4, 6].map(|t| sent(&mut s, t * 1000 * MS).0 / MS - t * 1000).to_vec();
        assert_eq!(took, [12, 402, 402, 12]);
    }

    #[test]
    fn reports_come_from_about_the_same_load() {
        let mut s = server(8, vec![]);
        assert_eq!(s.report(), (0, None));
        (0..16u16).for_each(|i| s.remember(u32::from(i), f32::from(i)));
        s.in_flight = 14;
        // The four answers nearest to 14 in flight took 12 to 15 ms.
        assert_eq!(s.report(), (14, Some(14.0)));
    }
}
