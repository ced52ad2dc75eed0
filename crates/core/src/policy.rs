//! The policies as base scores over the same state; the pick and everything around it are shared.
//!
//! A base score is what a server with `q` requests in flight costs before penalties, in ln units; smaller is better.

use crate::balancer::Member;
use crate::inflight::Shared;
use crate::pair;
use crate::params::{Params, Policy};
use crate::time::{Micros, SECOND, since};
use crate::{evidence::LOWERED, row::Row, table::Table};

/// `decay`: full weight up to this response time, half above it (seconds).
const DECAY_HALF: f32 = 0.5;
/// `decay`: the floor above this one (seconds).
const DECAY_FLOOR: f32 = 1.0;
/// `weighted`: the largest learned weight; a thousand tells a server of 1 ms from one of 1 s.
const MOST_WEIGHT: f32 = 1000.0;
/// `weighted`: a failing server keeps this share of the largest weight: it may be back any moment.
const FLOOR: f32 = 0.01;
/// `weighted`: how far outside the range of response times (as a factor) one must be: noise at the edge is no change.
const MARGIN: f32 = 1.1;
/// `weighted`: outside by this factor the weights are set at once.
const MUCH: f32 = 2.0;
/// `weighted`: otherwise at most this often.
const PAUSE: Micros = SECOND;

/// What a policy keeps of its own, per worker.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// `weighted`: current weights.
    pub(crate) weights: Vec<u32>,
    /// `decay`: −ln d per member.
    penalty: Vec<f32>,
    /// Response times when weights were set: the range, and when.
    range: Option<(f32, f32, Micros)>,
    /// Which servers were failing then.
    failing: Vec<bool>,
}

impl Learned {
    /// Sizes everything for `members`.
    pub(crate) fn resize(&mut self, members: &[Member]) {
        self.weights.clear();
        self.weights.extend(members.iter().map(|m| m.weight));
        self.penalty.clear();
        self.penalty.resize(members.len(), 0.0);
        self.failing.clear();
        self.failing.resize(members.len(), false);
        self.range = None;
    }

    /// Follows new evidence; says whether the weights changed.
    pub(crate) fn refresh(
        &mut self,
        shared: Shared<'_>,
        members: &[Member],
        params: &Params,
        table: &Table,
        now: Micros,
    ) -> bool {
        match params.policy {
            Policy::Decay => {
                for (penalty, member) in self.penalty.iter_mut().zip(members) {
                    *penalty = decay_penalty(response_time(shared, member).unwrap_or(0.0));
                }
                false
            }
            Policy::Weighted => self.reweigh(shared, members, table, now),
            Policy::Fastest | Policy::LeastConn | Policy::RoundRobin => false,
        }
    }

    /// −ln d of member `i`.
    pub(crate) fn decay(&self, i: usize) -> f32 {
        self.penalty.get(i).copied().unwrap_or(0.0)
    }

    /// Sets the weights anew if a response time left the range seen when they were set, or a server began or ceased to
    /// fail. Response times are those of idle servers, from the curves: times under load follow the weights, and weights that
    /// follow them in turn swing.
    fn reweigh(&mut self, shared: Shared<'_>, members: &[Member], table: &Table, now: Micros) -> bool {
        if table.blank {
            return false;
        }
        let idle = |row: &Row| Some(row.idle).filter(|t| *t > 0.0);
        let times = || members.iter().zip(&table.rows).filter(|(m, _)| m.weight > 0).filter_map(|(_, row)| idle(row));
        let (low, high) = times().fold((f32::INFINITY, 0.0f32), |(low, high), t| (low.min(t), high.max(t)));
        if !low.is_finite() {
            return false;
        }
        let fails = |m: &Member| shared.peer(m.slot).is_some_and(|p| p.failure_level() > LOWERED);
        let turned = self.failing.iter().zip(members).any(|(&was, m)| was != fails(m));
        if let Some((least, most, at)) = self.range {
            let outside = (least / low).max(high / most);
            let due = outside > MUCH || (outside > MARGIN && since(at, now) >= PAUSE);
            if !due && !turned {
                return false;
            }
        }
        self.range = Some((low, high, now));
        let count = times().count().max(1) as f32;
        // A server without answers takes the place of an average one.
        let mean = times().map(f32::ln).sum::<f32>() / count;
        let entries = self.weights.iter_mut().zip(&mut self.failing).zip(members).zip(&table.rows);
        for (((weight, failing), member), row) in entries {
            *failing = fails(member);
            let time = idle(row).unwrap_or(mean.exp());
            let share = if *failing { FLOOR } else { low / time };
            let learned = (MOST_WEIGHT * share).max(1.0) * member.weight as f32;
            *weight = if member.weight == 0 { 0 } else { learned as u32 };
        }
        true
    }
}

/// Mean response time over the last half-life, seconds; `None` before the first answer.
pub(crate) fn response_time(shared: Shared<'_>, member: &Member) -> Option<f32> {
    let (weight, mean) = pair::read(&shared.peer(member.slot)?.short_mean);
    (weight > 0.0 && mean > 0.0).then_some(mean)
}

/// −ln d for a response time in seconds: d is 1 up to 500 ms, 0.5 up to 1 s and 0.1 above.
pub(crate) fn decay_penalty(time: f32) -> f32 {
    let d: f32 = match time {
        t if t <= DECAY_HALF => 1.0,
        t if t <= DECAY_FLOOR => 0.5,
        _ => 0.1,
    };
    -d.ln()
}

/// The base score of member `i` with `q` requests in flight.
pub(crate) fn base(policy: Policy, table: &mut Table, learned: &Learned, i: usize, q: u32) -> f32 {
    match policy {
        Policy::Fastest if !table.blank => table.estimate(i, q).base,
        Policy::Fastest | Policy::LeastConn => table.crowding(i, q),
        Policy::Decay => table.crowding(i, q) + learned.decay(i),
        Policy::RoundRobin | Policy::Weighted => 0.0,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn decay_halves_and_bottoms_out() {
        for (time, d) in [(0.2, 1.0), (0.5, 1.0), (0.8, 0.5), (3.0, 0.1)] {
            assert!(((-decay_penalty(time)).exp() - d).abs() < 1e-6);
        }
    }
}
