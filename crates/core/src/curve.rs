//! Load-latency curves: the buckets of requests in flight, isotonic regression over them, and interpolation.
//!
//! Pure numbers: no atomics, no servers. A curve is ln seconds at the bucket centres of x, linear in ln(x + 1) between.

use crate::peer::BUCKETS;
use crate::tuning::tuned;

/// A curve's values (ln seconds) at the bucket centres.
pub type Values = [f64; BUCKETS];

/// Evidence below this is none (a sample after seven half-lives).
pub const NO_EVIDENCE: f64 = 0.01;

tuned! {
/// The product rule (slope 1 in ln(x + 1)) weighs as much as two samples: without evidence expect a queue, with
/// evidence believe it.
const RULE_WEIGHT: f64 = 2.0;
}

/// The bucket of `q` requests in flight: 0, 1, 2, 3, 4–5, 6–7, 8–11, 12–15, …; the last takes all from 3072 on.
pub fn bucket(q: u32) -> usize {
    if q < 4 {
        return q as usize;
    }
    let octave = 31 - q.leading_zeros();
    let half = (q >> (octave - 1)) & 1;
    ((2 * octave + half) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket, in requests in flight.
fn centre(bucket: usize) -> f64 {
    if bucket < 4 {
        return bucket as f64;
    }
    let octave = bucket / 2;
    let width = (1u32 << (octave - 1)) as f64;
    let first = (1u32 << octave) as f64 + if bucket % 2 == 1 { width } else { 0.0 };
    first + (width - 1.0) / 2.0
}

/// The axis of curves: the buckets' centres, their ln(x + 1), and how far each is from the one before on that scale.
#[derive(Clone, Debug)]
pub struct Axis {
    x: Values,
    u: Values,
    steps: Values,
}

impl Default for Axis {
    fn default() -> Self {
        let x = core::array::from_fn(centre);
        let u = x.map(f64::ln_1p);
        let mut before = 0.0;
        Self { x, u, steps: u.map(|here| here - core::mem::replace(&mut before, here)) }
    }
}

impl Axis {
    /// ln((c_j + 1)/(c_{j−1} + 1)), 0 for the first bucket.
    pub fn step(&self, j: usize) -> f64 {
        self.steps.get(j).copied().unwrap_or(0.0)
    }

    /// How far bucket `to` is from the one before bucket `from` ≥ 1, in ln(x + 1).
    fn way(&self, from: usize, to: usize) -> f64 {
        let at = |j: usize| self.u.get(j).copied().unwrap_or(0.0);
        at(to) - at(from.saturating_sub(1))
    }

    /// The centre of bucket `j`; beyond the last bucket, the last one's.
    pub fn centre(&self, j: usize) -> f64 {
        self.x.get(j).or(self.x.last()).copied().unwrap_or(0.0)
    }

    /// The bucket at or below `x` ≥ 0 and how far `x` is on the way to the next one (0 ≤ t < 1; beyond the last: more),
    /// on the scale ln(x + 1).
    pub fn locate(&self, x: f64) -> (usize, f64) {
        let mut low = bucket(x as u32);
        if low > 0 && self.x.get(low).is_some_and(|&c| x < c) {
            low -= 1;
        }
        if self.x.get(low + 1).is_some_and(|&c| x >= c) {
            low += 1;
        }
        let Some(from) = self.u.get(low) else { return (0, 0.0) };
        let along = x.ln_1p() - from;
        match self.u.get(low + 1) {
            Some(to) => (low, along / (to - from)),
            None => (low, along),
        }
    }

    /// The curve at `x` ≥ 0 and its right-hand slope in ln(x + 1): linear between the centres, slope 1 beyond the last.
    pub fn at(&self, values: &[f32; BUCKETS], x: f64) -> (f64, f64) {
        let (low, t) = self.locate(x);
        let here = f64::from(values.get(low).copied().unwrap_or(0.0));
        match values.get(low + 1) {
            Some(&next) => {
                let rise = f64::from(next) - here;
                (here + rise * t, rise / self.step(low + 1))
            }
            None => (here + t, 1.0),
        }
    }
}

/// Evidence of one curve: weight and mean of ln seconds per bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Points {
    /// Weight in samples.
    pub e: Values,
    /// Mean, ln seconds; meaningless without weight.
    pub m: Values,
}

impl Points {
    /// Adds `weight` at value `mean` to bucket `j`.
    pub fn add(&mut self, j: usize, weight: f64, mean: f64) {
        if let (Some(e), Some(m)) = (self.e.get_mut(j), self.m.get_mut(j)) {
            *e += weight;
            if *e > 0.0 {
                *m += (mean - *m) * weight / *e;
            }
        }
    }

    /// Total weight.
    pub fn weight(&self) -> f64 {
        self.e.iter().sum()
    }
}

/// Weighted isotonic regression in place (pool adjacent violators; Barlow et al., 1972). Weights of 0 follow the others.
pub fn isotonic(values: &mut Values, weights: &Values) {
    // Most curves are monotone as they come.
    if values.is_sorted() {
        return;
    }
    // Blocks of (mean, weight, length), merged while they fall.
    let mut blocks = [(0.0f64, 0.0f64, 0usize); BUCKETS];
    let mut n = 0usize;
    for (&value, &weight) in values.iter().zip(weights) {
        let mut block = (value, weight.max(1e-9), 1);
        while let Some(&(mean, weight, length)) = n.checked_sub(1).and_then(|i| blocks.get(i)) {
            if mean <= block.0 {
                break;
            }
            let sum = weight + block.1;
            block = ((mean * weight + block.0 * block.1) / sum, sum, length + block.2);
            n -= 1;
        }
        if let Some(place) = blocks.get_mut(n) {
            *place = block;
            n += 1;
        }
    }
    let pooled = blocks.iter().take(n).flat_map(|&(mean, _, length)| core::iter::repeat_n(mean, length));
    for (value, mean) in values.iter_mut().zip(pooled) {
        *value = mean;
    }
}

/// What a curve is fitted towards.
#[derive(Clone, Copy, Debug)]
pub struct Prior<'a> {
    /// Weight of the prior in samples.
    pub kappa: f64,
    /// Share of the curve's own course in the prior; the rest is `base`.
    pub rho: f64,
    /// The curve expected from elsewhere; `None` when there is none (then the own course is all).
    pub base: Option<&'a Values>,
}

/// Fits a monotone curve to `points`: per bucket the mean of evidence and prior, weighted, walking up; then isotonic.
///
/// The own course of the prior is the line to the next evidence above (evidence in a bucket bounds all lower ones);
/// the product rule tempers it with the weight of two samples, and is all there is above the last evidence.
pub fn fit(axis: &Axis, points: &Points, prior: Prior<'_>) -> Values {
    let seen = |j: usize| points.e.get(j).is_some_and(|&e| e >= NO_EVIDENCE);
    let bound = bounds(points);
    let mut above = points.weight();
    let mut out = [0.0; BUCKETS];
    let mut weights = [0.0; BUCKETS];
    let mut previous: Option<f64> = None;
    let mut next = 0;
    for j in 0..BUCKETS {
        next = (next.max(j)..BUCKETS).find(|&k| seen(k)).unwrap_or(BUCKETS);
        let target = bound.get(next).copied();
        let own = match (previous, target) {
            (None, target) => target,
            (Some(before), None) => Some(before + axis.step(j)),
            (Some(before), Some(target)) => {
                let rule = before + axis.step(j);
                let line = before + (target - before).max(0.0) * axis.step(j) / axis.way(j, next);
                Some((above * line + RULE_WEIGHT * rule) / (above + RULE_WEIGHT))
            }
        };
        let base = prior.base.and_then(|values| values.get(j)).copied();
        let expected = match (own, base, previous) {
            // The first bucket has no course behind it.
            (_, Some(base), None) => base,
            (Some(own), Some(base), Some(_)) => prior.rho * own + (1.0 - prior.rho) * base,
            (Some(own), None, _) => own,
            (None, base, _) => base.unwrap_or(0.0),
        };
        let (e, m) = if seen(j) {
            (points.e.get(j).copied().unwrap_or(0.0), points.m.get(j).copied().unwrap_or(0.0))
        } else {
            (0.0, 0.0)
        };
        let value = (e * m + prior.kappa * expected) / (e + prior.kappa);
        if let (Some(out), Some(weight)) = (out.get_mut(j), weights.get_mut(j)) {
            *out = value;
            *weight = e + 1.0;
        }
        previous = Some(value);
        above -= e;
    }
    isotonic(&mut out, &weights);
    out
}

/// The evidence alone, made monotone; buckets without evidence hold nothing of use.
fn bounds(points: &Points) -> Values {
    let mut compact = [0.0; BUCKETS];
    let mut weights = [0.0; BUCKETS];
    let used = |e: f64| e >= NO_EVIDENCE;
    let means = points.e.iter().zip(&points.m).filter(|&(&e, _)| used(e)).map(|(_, m)| m);
    if means.is_sorted() {
        return points.m;
    }
    let evidence = points.e.iter().zip(&points.m).filter(|&(&e, _)| used(e));
    let mut last = 0.0;
    let mut n = 0;
    for (((&e, &m), value), weight) in evidence.zip(&mut compact).zip(&mut weights) {
        (*value, *weight, last) = (m, e, f64::max(last, m));
        n += 1;
    }
    // Unused places sit on top, out of the way of the regression.
    compact.iter_mut().skip(n).for_each(|value| *value = f64::INFINITY);
    isotonic(&mut compact, &weights);
    let mut out = [0.0; BUCKETS];
    let mut values = compact.iter();
    for (place, _) in out.iter_mut().zip(&points.e).filter(|&(_, &e)| used(e)) {
        *place = values.next().copied().unwrap_or(last);
    }
    out
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_two_per_octave() {
        let firsts = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48];
        for (j, &q) in firsts.iter().enumerate() {
            assert_eq!(bucket(q), j);
            assert_eq!(bucket(q.saturating_sub(1)), j.saturating_sub(1));
        }
        assert_eq!([bucket(3071), bucket(3072), bucket(u32::MAX)], [22, 23, 23]);
        assert_eq!([centre(3), centre(4), centre(6), centre(7)], [3.0, 4.5, 9.5, 13.5]);
    }

    #[test]
    fn locating_a_centre_finds_its_bucket() {
        let axis = Axis::default();
        for j in 0..BUCKETS {
            let (low, t) = axis.locate(axis.centre(j));
            assert!(low == j && t.abs() < 1e-9, "{j}: {low} {t}");
        }
        let (low, t) = axis.locate(0.5);
        assert!(low == 0 && (t - 1.5f64.ln() / 2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn violators_are_pooled_by_weight() {
        let mut values = [9.0; BUCKETS];
        let mut weights = [1.0; BUCKETS];
        values[..5].copy_from_slice(&[1.0, 4.0, 2.0, 3.0, 9.0]);
        weights[1] = 2.0;
        isotonic(&mut values, &weights);
        // (4·2 + 2 + 3)/4
        assert_eq!(values[..5], [1.0, 3.25, 3.25, 3.25, 9.0]);
    }

    fn own(points: &[(usize, f64, f64)]) -> Values {
        let mut all = Points::default();
        points.iter().for_each(|&(j, e, m)| all.add(j, e, m));
        fit(&Axis::default(), &all, Prior { kappa: 2.0, rho: 1.0, base: None })
    }

    #[test]
    fn above_the_evidence_comes_the_product_rule() {
        let curve = own(&[(0, 40.0, -3.0)]);
        for (j, &v) in curve.iter().enumerate() {
            assert!((v - (-3.0 + centre(j).ln_1p())).abs() < 1e-9, "{j}: {v}");
        }
    }

    #[test]
    fn evidence_of_a_wide_server_is_believed_and_bounds_what_is_below() {
        let curve = own(&[(0, 40.0, -3.0), (10, 40.0, -3.0)]);
        assert!(curve[..=10].iter().all(|v| (v + 3.0).abs() < 0.1), "{curve:?}");
    }

    #[test]
    fn one_stale_slow_sample_does_not_lift_what_is_above() {
        let curve = own(&[(0, 40.0, -3.0), (3, 0.5, 0.0), (6, 40.0, -3.0)]);
        assert!(curve[6] < -2.85 && curve[3] < -2.85, "{curve:?}");
    }
}
