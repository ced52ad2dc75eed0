//! One worker's table of curves: every server's predicted latency by requests in flight, from the shared evidence.
//!
//! Private to the worker at any number of servers: nothing to publish, nothing to tear. (Sharing one table between
//! workers would save rebuilding above some 64 servers; the rebuild is paced instead, see `pause`.) Reads shared memory,
//! writes it only to note that a server became slower or faster.

use crate::balancer::Member;
use crate::curve::{Axis, NO_EVIDENCE, Points, Prior, Values, fit};
use crate::inflight::Shared;
use crate::pair;
use crate::params::Params;
use crate::peer::BUCKETS;
use crate::report::{Change, CurvePoint};
use crate::row::{LEAST_KAPPA, Row, Spread, correction, tail_noise};
use crate::score::{SEASONED, marginal};
use crate::sync::Ordering;
use crate::time::{Micros, since};
use crate::tuning::{tuned, value};

/// Queues below this are looked up, longer ones computed: 32 covers all but overload at 8 bytes each.
const DENSE: usize = 32;
tuned! {
/// A table is never rebuilt more often than this: 50 times a second is faster than any curve moves.
const LEAST_PAUSE: Micros = 20_000;
}

/// 100 times what a build costs per server, µs: the core has no clock, so the cost is this model, measured once by
/// `examples/pick_cost.rs` and rounded up; rebuilding takes a worker one per cent of its time at most.
const BUILD_PAUSE: Micros = 200;
/// A change of idle latency by this much (ln; a factor of 1.5) is worth telling: less is how latencies wander.
pub(crate) const NOTABLE: f32 = 0.405;
/// A server with less evidence has not changed by itself; the group around it has.
pub(crate) const TELLING: f64 = 1.0;

/// Base score and predicted latency at one queue length; `base` is NaN until asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    /// ln seconds with marginal cost, without penalties.
    pub(crate) base: f32,
    /// Predicted latency, seconds.
    pub(crate) latency: f32,
}

/// Not asked for yet.
pub(crate) const UNKNOWN: Estimate = Estimate { base: f32::NAN, latency: 0.0 };

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Table {
    axis: Axis,
    pub(crate) rows: Vec<Row>,
    /// By queue, then by member: most servers of a long list have the same short queue, so a scan reads few lines.
    memo: Vec<Estimate>,
    /// No server has any evidence.
    pub(crate) blank: bool,
    /// At least half the servers have had enough answers for caps to mean something.
    pub(crate) caps: bool,
    /// Mean latency over the latency that the curves predict: they are means of logarithms, which rare slow answers hardly
    /// move. The same for all servers; what differs between them is in the curves already. 1 or more.
    pub(crate) tail: f32,
    /// The dearest difference between any two idle servers, seconds.
    pub(crate) dearest: f32,
    built: Option<(u32, Micros)>,
}

impl Table {
    /// Sizes everything for `members`; what was known is found again at the next build.
    pub(crate) fn resize(&mut self, members: &[Member]) {
        let heavy = members.iter().filter(|m| m.weight > 0);
        let count = heavy.clone().count().max(1) as f64;
        let mean = heavy.map(|m| f64::from(m.weight)).sum::<f64>() / count;
        self.rows.clear();
        self.rows
            .extend(members.iter().map(|m| Row::new(if m.weight == 0 { 0.0 } else { mean / f64::from(m.weight) })));
        self.memo.clear();
        self.memo.resize(members.len() * DENSE, UNKNOWN);
        self.built = None;
        self.tail = 1.0;
        self.blank = true;
    }

    /// The time between two builds: 20 ms or 100 times what one costs.
    fn pause(&self) -> Micros {
        value(LEAST_PAUSE).max(BUILD_PAUSE * self.rows.len() as Micros)
    }

    /// Rebuilds when there is new evidence and the last build is long enough ago; says whether it did.
    pub(crate) fn refresh(&mut self, shared: Shared<'_>, members: &[Member], params: &Params, now: Micros) -> bool {
        if let Some((seen, at)) = self.built {
            // The very first evidence is worth a build at once: until then nothing is known.
            let early = !self.blank && since(at, now) < self.pause();
            if early || seen == shared.group.evidence.load(Ordering::Acquire) {
                return false;
            }
        }
        let evidence = shared.group.evidence.load(Ordering::Acquire);
        self.build(shared, members, params, now);
        self.built = Some((evidence, now));
        true
    }

    /// Base score and latency of member `i` with `q` in flight. `i` is below the number of members.
    #[inline]
    pub(crate) fn estimate(&mut self, i: usize, q: u32) -> Estimate {
        match self.memo.get(q as usize * self.rows.len() + i) {
            Some(known) if !known.base.is_nan() => *known,
            _ => self.compute(i, q),
        }
    }

    /// The same for idle members, as far as asked for since the last build; nothing while nothing is known.
    pub(crate) fn idle(&self) -> &[Estimate] {
        self.memo.get(..self.rows.len()).filter(|_| !self.blank).unwrap_or(&[])
    }

    #[cold]
    #[inline(never)]
    fn compute(&mut self, i: usize, q: u32) -> Estimate {
        let Some(row) = self.rows.get(i) else { return UNKNOWN };
        let x = f64::from(q) * row.scale;
        let (value, slope) = self.axis.at(&row.curve, x);
        let made = Estimate { base: (value + marginal(slope, x)) as f32, latency: value.exp() as f32 };
        if let Some(place) = self.memo.get_mut(q as usize * self.rows.len() + i) {
            *place = made;
        }
        made
    }

    /// Evidence of member `i` itself at the first bucket of its curve above `q` requests in flight, samples.
    pub(crate) fn evidence_above(&self, i: usize, q: u32) -> f64 {
        let Some(row) = self.rows.get(i) else { return 0.0 };
        let (low, _) = self.axis.locate(f64::from(q) * row.scale);
        row.points.e.get(low + 1).copied().unwrap_or(0.0)
    }

    /// ln((q + 1)·w̄/w): what a server costs by its queue alone.
    pub(crate) fn crowding(&self, i: usize, q: u32) -> f32 {
        let scale = self.rows.get(i).map_or(1.0, |row| row.scale as f32);
        ((q as f32 + 1.0) * scale).ln()
    }

    /// The part of the picks that member `i` of `count` would get if all were alike, by weight.
    pub(crate) fn even_share(&self, i: usize, count: usize) -> f64 {
        let scale = self.rows.get(i).map_or(1.0, |row| row.scale);
        if scale > 0.0 { 1.0 / (scale * count.max(1) as f64) } else { 0.0 }
    }

    /// The curve of member `i`, point by point.
    pub(crate) fn curve_of(&self, i: usize) -> Vec<CurvePoint> {
        let Some(row) = self.rows.get(i).filter(|row| row.scale > 0.0) else { return Vec::new() };
        let values = row.curve.iter().zip(&row.points.e).enumerate();
        values
            .map(|(j, (&ln, &evidence))| CurvePoint {
                in_flight: self.axis.centre(j) / row.scale,
                latency_us: f64::from(ln).exp() * 1e6,
                evidence,
            })
            .collect()
    }

    #[inline(never)]
    fn build(&mut self, shared: Shared<'_>, members: &[Member], params: &Params, now: Micros) {
        let variance = shared.group.pooled_variance();
        let mut seasoned = 0;
        for (row, member) in self.rows.iter_mut().zip(members) {
            let peer = shared.peer(member.slot);
            row.gather(&self.axis, peer, params, now);
            seasoned += usize::from(peer.is_some_and(|p| p.answers.load(Ordering::Relaxed) >= SEASONED));
        }
        self.caps = 2 * seasoned >= self.rows.len();
        self.memo.fill(UNKNOWN);
        self.blank = !self.rows.iter().any(|row| row.weight >= NO_EVIDENCE);
        if self.blank {
            return;
        }
        let group = self.group_curve();
        let spread = Spread::of(self.rows.iter().filter_map(|row| row.offset_estimate(variance)));
        let noise = tail_noise(&self.rows);
        let tails = Spread::of(self.rows.iter().filter_map(|row| row.tail_estimate(noise)));
        self.tail = tails.mean.exp().max(1.0) as f32;
        for row in &mut self.rows {
            let mean = match spread.tau2 {
                0.0 => group,
                tau2 => row.posterior(&self.axis, &group, variance, tau2),
            };
            let correction = correction(row, noise, &tails);
            row.curve = mean.map(|v| (v + correction) as f32);
            let finite = row.curve.iter().all(|v| v.is_finite());
            debug_assert!(finite, "a row is not finite");
            if !finite {
                row.curve = group.map(|v| v as f32);
            }
        }
        self.summarise(shared, members, now);
    }

    /// The group's curve and every server's offset from it, fitted together in two passes: so a slow server alone in a
    /// bucket does not bend the curve of all.
    fn group_curve(&mut self) -> Values {
        let mut curve = [0.0; BUCKETS];
        self.rows.iter_mut().for_each(|row| row.offset = 0.0);
        for _ in 0..2 {
            let mut all = Points::default();
            for row in &self.rows {
                for (j, (&e, &m)) in row.points.e.iter().zip(&row.points.m).enumerate() {
                    if e > 0.0 {
                        all.add(j, e, m - row.offset);
                    }
                }
            }
            curve = fit(&self.axis, &all, Prior { kappa: value(LEAST_KAPPA), rho: 1.0, base: None });
            self.rows.iter_mut().for_each(|row| row.measure_offset(&curve));
        }
        curve
    }

    /// What picks need of all rows at once, and what has changed enough to be told.
    fn summarise(&mut self, shared: Shared<'_>, members: &[Member], now: Micros) {
        let (mut least, mut most) = (f32::INFINITY, 0.0f32);
        for (row, member) in self.rows.iter_mut().zip(members).filter(|(row, _)| row.scale > 0.0) {
            let peer = shared.peer(member.slot);
            let ln = row.curve.first().copied().unwrap_or(0.0);
            row.idle = ln.exp();
            row.long = peer.map_or(0.0, |p| pair::read(&p.long_mean).1);
            (least, most) = (least.min(row.idle), most.max(row.idle).max(row.long / self.tail));
            if let Some(peer) = peer.filter(|_| row.weight >= TELLING) {
                let told = *row.told.get_or_insert(ln);
                if (ln - told).abs() > NOTABLE {
                    (if ln > told { Change::Slower } else { Change::Faster }).note(peer, now);
                    row.told = Some(ln);
                }
            }
        }
        self.dearest = (most - least).max(0.0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::evidence::{Sample, book};
    use crate::group::Group;
    use crate::peer::Peer;

    const NOW: Micros = 5_000_000;

    /// A table of servers of `weights` after `samples` of (server, queue, µs).
    fn table(weights: &[u32], samples: &[(usize, u32, Micros)]) -> Table {
        let (group, params) = (Group::default(), Params::default());
        let peers: Vec<Peer> = weights.iter().map(|_| Peer::default()).collect();
        for &(i, queue, latency) in samples {
            book((&peers[i], &group), &params, (queue, 0.0), (latency, Sample::Exact), NOW);
        }
        let members: Vec<Member> = (0u32..).zip(weights).map(|(i, &weight)| Member { slot: Some(i), weight }).collect();
        let mut table = Table::default();
        table.resize(&members);
        table.refresh(Shared { group: &group, peers: &peers, cells: &[] }, &members, &params, NOW);
        table
    }

    fn idle_ms(table: &Table) -> Vec<f32> {
        table.rows.iter().map(|row| row.idle * 1000.0).collect()
    }

    #[test]
    fn no_evidence_is_a_blank_table() {
        assert!(table(&[1, 1], &[]).blank);
        assert!(table(&[], &[]).blank);
    }

    #[test]
    fn one_server_has_its_own_curve() {
        let table = table(&[1], &[(0, 0, 10_000); 20]);
        assert!((idle_ms(&table)[0] - 10.0).abs() < 0.1);
    }

    #[test]
    fn equal_servers_have_one_curve_to_the_last_bit() {
        let samples: Vec<_> = (0..60).map(|k| (k % 3, 0, [9_000, 10_000, 11_000][(k / 3) % 3])).collect();
        let table = table(&[1, 1, 1], &samples);
        assert!(table.rows.windows(2).all(|w| w[0].curve == w[1].curve));
    }

    #[test]
    fn one_sample_each_within_noise_is_no_difference_and_far_beyond_it_is_one() {
        let near = table(&[1, 1, 1], &[(0, 0, 10_000), (1, 0, 12_000), (2, 0, 8_000)]);
        assert!(near.rows.windows(2).all(|w| w[0].curve == w[1].curve));
        let far = table(&[1, 1, 1], &[(0, 0, 1_000), (1, 0, 100_000), (2, 0, 100_000)]);
        let idle = idle_ms(&far);
        assert!(idle[0] * 5.0 < idle[1], "{idle:?}");
    }

    #[test]
    fn a_server_without_samples_starts_on_the_groups_curve() {
        let idle = idle_ms(&table(&[1, 1, 1], &[[(0, 0, 10_000); 20], [(1, 0, 10_000); 20]].concat()));
        assert!((idle[2] - 10.0).abs() < 0.2, "{idle:?}");
    }

    #[test]
    fn weights_scale_the_axis_not_the_latency() {
        // Both take what they are given by weight: 1 and 1000 in flight are the same load.
        let samples =
            [[(0, 0, 10_000); 20], [(1, 0, 10_000); 20], [(0, 1, 20_000); 20], [(1, 1000, 20_000); 20]].concat();
        let mut table = table(&[1, 1000], &samples);
        let (light, heavy) = (table.estimate(0, 1), table.estimate(1, 1000));
        assert!((light.latency / heavy.latency - 1.0).abs() < 0.1, "{light:?} {heavy:?}");
        assert!((table.estimate(0, 0).latency / table.estimate(1, 0).latency - 1.0).abs() < 0.1);
    }
}
