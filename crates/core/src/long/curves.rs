//! The curves of a long list, renewed a few rows at a time: what [`crate::table`] does at once for a short one.
//!
//! A round goes through all members and sums up what the group's curve and the differences between servers are made of; at
//! its end these are replaced. Each row is fitted towards them when its turn comes, and sooner when this worker has news of
//! it. What that costs is a share of the time that passes, whatever the number of servers.

use crate::balancer::Member;
use crate::curve::{Axis, NO_EVIDENCE, Points, Prior, Values, fit};
use crate::inflight::Shared;
use crate::long::course::{BLANK, Course, carried};
use crate::long::sums::Sums;
use crate::pair;
use crate::params::Params;
use crate::peer::{BUCKETS, Peer};
use crate::report::Change;
use crate::row::{LEAST_KAPPA, Row, Spread, correction};
use crate::score::{SEASONED, marginal};
use crate::sync::Ordering;
use crate::table::{Estimate, NOTABLE, TELLING, UNKNOWN};
use crate::time::{Micros, since};
use crate::tuning::value;
use std::collections::VecDeque;

/// Queues below this are looked up for the group's curve, which members that do not differ share.
const GROUP_MEMO: usize = 32;
/// What renewing a row costs, µs: 0.46 to 0.74 (median 0.55) in batches of 64 rows of ten thousand servers, rounded up, as the core
/// has no clock.
const ROW_COST: f32 = 0.75;
/// Share of a worker's time that renewing may take: 3300 rows a second, a quarter of the one per cent that rebuilding may cost. Why
/// not more is open (`docs/decisions.md`).
const SHARE: f32 = 0.0025;
/// The same until every row has been fitted once: a bad start costs more than a short effort.
const FIRST_SHARE: f32 = 0.05;
/// Rounds until every row has been fitted: the first has no curve to fit towards, the second no differences.
const FIRST_ROUNDS: u32 = 3;
/// At most so many rows at once, so that no pick waits for more than a tenth of a millisecond.
pub(super) const MOST_ROWS: f32 = 64.0;
/// What passing over a row without samples costs, in rows.
const EMPTY: f32 = 1.0 / 16.0;
/// News that wait to be read; more than this and rows wait for their turn in the round.
const NEWS: usize = 1024;
/// `made` of a memo that holds the member's own curve.
const OWN: u32 = u32::MAX;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Curves {
    axis: Axis,
    courses: Vec<Course>,
    scratch: Row,
    /// The group's curve, and the same for looking up.
    group: Values,
    group_curve: [f32; BUCKETS],
    group_memo: Vec<Estimate>,
    variance: f64,
    noise: f64,
    spread: Spread,
    tails: Spread,
    /// Servers do not differ beyond noise: everybody has the group's curve, so that ties are exact.
    equal: bool,
    /// No server has any evidence.
    pub(crate) blank: bool,
    /// At least half the servers have had enough answers for caps to mean something.
    pub(crate) caps: bool,
    /// Mean latency over the latency that the curves predict, as in [`crate::table::Table`].
    pub(crate) tail: f32,
    /// The dearest difference between any two idle servers, seconds.
    pub(crate) dearest: f32,
    /// The largest idle prediction, seconds.
    pub(crate) slowest: f32,
    sums: Sums,
    /// Rounds done.
    pub(super) round: u32,
    cursor: usize,
    /// The group's evidence when the round began.
    pub(super) seen: Option<u32>,
    pub(crate) credit: f32,
    at: Micros,
    news: VecDeque<u32>,
    /// Whose turn it was last: the news'.
    turn: bool,
    /// Only looked at: those who pick tell of changes.
    silent: bool,
    /// Members whose rows were renewed by the last call of [`Curves::advance`].
    pub(crate) fresh: Vec<u32>,
}

impl Curves {
    /// Starts afresh for `members`.
    pub(crate) fn resize(&mut self, members: &[Member]) {
        let group_memo = vec![UNKNOWN; GROUP_MEMO];
        *self = Self { group_memo, blank: true, equal: true, tail: 1.0, ..Self::default() };
        self.courses = members.iter().map(|_| Course::new(0.0)).collect();
        self.news.reserve(NEWS);
        self.fresh.reserve(MOST_ROWS as usize + 1);
        self.reweigh(members);
    }

    /// Other members: what is known of those who stay, by their records, is kept.
    pub(crate) fn follow(&mut self, before: &[Member], members: &[Member]) {
        self.courses = carried(before, core::mem::take(&mut self.courses), members);
        self.cursor = 0;
        // What waits in line is known by a place that another has now.
        self.news.clear();
        self.fresh.clear();
        self.reweigh(members);
    }

    /// The same for somebody who only looks.
    pub(crate) fn followed(members: &[Member]) -> Self {
        let mut curves = Self::default();
        curves.resize(members);
        curves.silent = true;
        curves
    }

    /// Whether not every row has been fitted yet.
    pub(crate) fn is_learning(&self) -> bool {
        self.round < FIRST_ROUNDS
    }

    /// The same members with other weights: what was learned stays, on the new axis.
    pub(crate) fn reweigh(&mut self, members: &[Member]) {
        let heavy = members.iter().filter(|m| m.weight > 0);
        let mean = heavy.clone().map(|m| f64::from(m.weight)).sum::<f64>() / heavy.count().max(1) as f64;
        for (course, member) in self.courses.iter_mut().zip(members) {
            course.scale = if member.weight == 0 { 0.0 } else { (mean / f64::from(member.weight)) as f32 };
            course.memo = BLANK;
        }
        self.seen = None;
    }

    /// Whether it is known how far servers are apart: the first round has no curve to fit any to.
    pub(crate) fn is_ranged(&self) -> bool {
        !self.blank && self.round > 1
    }

    /// w̄/w of member `i`.
    pub(crate) fn scale(&self, i: usize) -> f32 {
        self.courses.get(i).map_or(1.0, |course| course.scale)
    }

    /// Evidence of member `i` itself when its row was last renewed, samples.
    pub(crate) fn evidence(&self, i: usize) -> f64 {
        self.courses.get(i).map_or(0.0, |course| f64::from(course.evidence))
    }

    /// Long-run mean latency of member `i`, seconds.
    pub(crate) fn long(&self, i: usize) -> f32 {
        self.courses.get(i).map_or(0.0, |course| course.long)
    }

    /// Predicted latency of member `i` when idle, seconds.
    pub(crate) fn idle(&self, i: usize) -> f32 {
        let own = self.courses.get(i).filter(|course| course.own && !self.equal);
        own.map_or_else(|| self.group_curve.first().map_or(0.0, |ln| ln.exp()), |course| course.idle)
    }

    /// ln((q + 1)·w̄/w): what a server costs by its queue alone.
    pub(crate) fn crowding(&self, i: usize, q: u32) -> f32 {
        ((q as f32 + 1.0) * self.scale(i)).ln()
    }

    /// Base score and latency of member `i` with `q` in flight.
    pub(crate) fn estimate(&mut self, i: usize, q: u32) -> Estimate {
        let Some(course) = self.courses.get_mut(i) else { return UNKNOWN };
        let follows = self.equal || !course.own;
        let at = |curve: &[f32; BUCKETS], scale: f32| {
            let x = f64::from(q) * f64::from(scale);
            let (value, slope) = self.axis.at(curve, x);
            Estimate { base: (value + marginal(slope, x)) as f32, latency: value.exp() as f32 }
        };
        let curve = if follows { &self.group_curve } else { &course.curve };
        let memo = if follows && course.scale == 1.0 {
            self.group_memo.get_mut(q as usize)
        } else {
            let valid = if follows { self.round } else { OWN };
            if course.made != valid {
                (course.made, course.memo) = (valid, BLANK);
            }
            course.memo.get_mut(q as usize)
        };
        match memo {
            Some(known) if !known.base.is_nan() => *known,
            Some(place) => {
                *place = at(curve, course.scale);
                *place
            }
            None => at(curve, course.scale),
        }
    }

    /// Evidence of member `i` itself at the first bucket of its curve above `q` requests in flight, samples.
    pub(crate) fn evidence_above(&mut self, i: usize, q: u32, peer: &Peer, params: &Params, now: Micros) -> f64 {
        self.scratch.scale = f64::from(self.scale(i));
        self.scratch.gather(&self.axis, Some(peer), params, now);
        let (low, _) = self.axis.locate(f64::from(q) * self.scratch.scale);
        self.scratch.points.e.get(low + 1).copied().unwrap_or(0.0)
    }

    /// This worker knows of new evidence of member `i`.
    pub(crate) fn tell(&mut self, i: usize) {
        if self.news.len() < NEWS
            && let Some(course) = self.courses.get_mut(i).filter(|course| !course.news)
        {
            course.news = true;
            self.news.push_back(i as u32);
        }
    }

    /// Renews as many rows as the time since the last call pays for.
    pub(crate) fn advance(&mut self, shared: Shared<'_>, members: &[Member], params: &Params, now: Micros) {
        let share = if self.is_learning() { FIRST_SHARE } else { SHARE };
        let credit = (self.credit + since(self.at, now) as f32 * share / ROW_COST).min(MOST_ROWS);
        self.at = now;
        self.step(shared, members, params, now, credit);
    }

    /// Renews the row of member `i` out of turn.
    pub(crate) fn renew_one(&mut self, i: usize, shared: Shared<'_>, members: &[Member], params: &Params, now: Micros) {
        self.fresh.clear();
        self.renew(i, (shared, members), params, now, false);
    }

    /// Renews `credit` rows, if there is news, and at most to the end of the round.
    pub(crate) fn step(&mut self, shared: Shared<'_>, members: &[Member], params: &Params, now: Micros, credit: f32) {
        self.fresh.clear();
        self.credit = credit;
        if self.cursor == 0 {
            let evidence = shared.group.evidence.load(Ordering::Acquire);
            // For those who only look evidence also ages.
            let learning = !self.blank && (self.is_learning() || self.silent);
            if self.seen == Some(evidence) && !learning && self.news.is_empty() {
                return;
            }
            if self.blank {
                // The very first evidence is worth an effort: until then nothing is known.
                self.credit = credit.max(MOST_ROWS);
            }
        }
        while self.credit >= 1.0 {
            self.turn = !self.turn;
            // News and the round take turns.
            if self.turn
                && let Some(i) = self.news.pop_front()
            {
                self.credit -= self.renew(i as usize, (shared, members), params, now, false);
                continue;
            }
            if self.cursor >= members.len() {
                self.close(shared);
                break;
            }
            if self.cursor == 0 {
                self.seen = Some(shared.group.evidence.load(Ordering::Acquire));
                self.sums = Sums::default();
            }
            self.credit -= self.renew(self.cursor, (shared, members), params, now, true);
            self.cursor += 1;
        }
    }

    /// Renews the row of member `i`; `counting` when it is its turn in the round. Returns what that cost, in rows.
    fn renew(
        &mut self,
        i: usize,
        (shared, members): (Shared<'_>, &[Member]),
        params: &Params,
        now: Micros,
        counting: bool,
    ) -> f32 {
        let (Some(course), Some(member)) = (self.courses.get_mut(i), members.get(i)) else { return EMPTY };
        course.news = false;
        let peer = shared.peer(member.slot).filter(|_| member.weight > 0);
        let answers = peer.map_or(0, |p| p.answers.load(Ordering::Relaxed));
        self.sums.season(counting && answers >= SEASONED);
        let Some(peer) = peer.filter(|p| p.samples.load(Ordering::Relaxed) != 0) else {
            (course.own, course.evidence) = (false, 0.0);
            return EMPTY;
        };
        self.scratch.scale = f64::from(course.scale);
        self.scratch.offset = 0.0;
        self.scratch.gather(&self.axis, Some(peer), params, now);
        if self.round > 0 {
            self.scratch.measure_offset(&self.group);
            self.fit(i, peer, now);
        }
        if counting {
            self.sums.add(&self.scratch);
            if let Some(course) = self.courses.get(i).filter(|course| course.idle > 0.0) {
                self.sums.range(course.idle, course.long);
            }
        }
        1.0
    }

    /// Fits the curve of member `i` to what is in `scratch`.
    fn fit(&mut self, i: usize, peer: &Peer, now: Micros) {
        let Some(course) = self.courses.get_mut(i) else { return };
        let (row, tau2) = (&self.scratch, self.spread.tau2);
        let mean = if tau2 > 0.0 { row.posterior(&self.axis, &self.group, self.variance, tau2) } else { self.group };
        let correction = correction(row, self.noise, &self.tails);
        let curve = mean.map(|v| (v + correction) as f32);
        let finite = curve.iter().all(|v| v.is_finite());
        debug_assert!(finite, "a row is not finite");
        course.own = finite && (tau2 > 0.0 || correction != 0.0);
        course.curve = if finite { curve } else { self.group_curve };
        // Whatever the memo held, it is void.
        (course.made, course.memo) = (OWN, BLANK);
        let ln = course.curve.first().copied().unwrap_or(0.0);
        course.evidence = row.weight as f32;
        (course.idle, course.long) = (ln.exp(), pair::read(&peer.long_mean).1);
        if row.weight >= TELLING && !self.silent {
            if course.told.is_nan() {
                course.told = ln;
            } else if (ln - course.told).abs() > NOTABLE {
                (if ln > course.told { Change::Slower } else { Change::Faster }).note(peer, now);
                course.told = ln;
            }
        }
        self.fresh.push(i as u32);
    }

    /// Ends a round: what it has summed up replaces what was known of the group.
    #[inline(never)]
    fn close(&mut self, shared: Shared<'_>) {
        self.cursor = 0;
        self.caps = self.sums.seasoned(self.courses.len());
        self.blank = self.sums.weight() < NO_EVIDENCE;
        if self.blank {
            return;
        }
        let points: Points = self.sums.points();
        self.group = fit(&self.axis, &points, Prior { kappa: value(LEAST_KAPPA), rho: 1.0, base: None });
        self.group_curve = self.group.map(|v| v as f32);
        self.group_memo.fill(UNKNOWN);
        self.variance = shared.group.pooled_variance();
        self.spread = self.sums.spread(self.variance);
        self.noise = self.sums.noise();
        self.tails = self.sums.tails(self.noise);
        self.tail = self.tails.mean.exp().max(1.0) as f32;
        self.equal = self.spread.tau2 == 0.0 && self.tails.tau2 == 0.0;
        let idle = self.group_curve.first().map_or(0.0, |ln| ln.exp());
        let (least, most, long) = self.sums.ranges(idle);
        self.slowest = most;
        self.dearest = (most.max(long / self.tail) - least).max(0.0);
        // Own memos are marked by the largest number.
        self.round = (self.round + 1).min(OWN - 1);
    }
}
