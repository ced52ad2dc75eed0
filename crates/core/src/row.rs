//! One server's row of the table: gathering its evidence, and shrinking it towards the group's curve (empirical Bayes).
//!
//! The more the servers of a group differ beyond noise (τ²), the more each one's own evidence counts; when they do not
//! differ, all rows are the group's curve, so that ties are exact.

use crate::curve::{Axis, NO_EVIDENCE, Points, Prior, Values, fit};
use crate::evidence;
use crate::pair;
use crate::params::Params;
use crate::peer::{BUCKETS, Peer};
use crate::sync::Ordering;
use crate::time::Micros;
use crate::tuning::{tuned, value};

tuned! {
/// A prior weighs at least two samples, as the product rule does.
pub(crate) const LEAST_KAPPA: f64 = 2.0;
/// A server with less evidence says nothing about how different servers are.
const LEAST_WEIGHT: f64 = 0.1;
/// Evidence of more than this many samples is no better: servers differ by more than sampling error.
const MOST_WEIGHT: f64 = 200.0;
/// Samples after which a server's own course is trusted before the group's: the 10 in ρ.
const OWN_COURSE: f64 = 10.0;
/// Residual sums of fewer answers say nothing about rare ones.
const LEAST_RESIDUALS: f64 = 3.0;
/// Residuals vary by at least five per cent, as clocks and networks do.
const LEAST_TAIL: f64 = 0.05 * 0.05;
}

/// What is known of one member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// Predicted ln seconds at the bucket centres of x, mean correction included.
    pub(crate) curve: [f32; BUCKETS],
    /// w̄/w: from requests in flight to x; 0 for members that drain.
    pub(crate) scale: f64,
    /// Predicted latency when idle, seconds.
    pub(crate) idle: f32,
    /// Long-run mean latency, seconds; 0 before the first answer.
    pub(crate) long: f32,
    /// Evidence in samples.
    pub(crate) weight: f64,
    /// Idle latency (ln seconds) that was last told as a change.
    pub(crate) told: Option<f32>,
    /// Evidence on the axis x.
    pub(crate) points: Points,
    /// Mean distance from the group's curve.
    pub(crate) offset: f64,
    /// Residuals e^(y − mean): weight, mean, mean square.
    pub(crate) residual: (f64, f64, f64),
}

impl Row {
    /// A row that knows nothing yet.
    pub(crate) fn new(scale: f64) -> Self {
        Self { scale, ..Self::default() }
    }

    /// Reads the evidence as it stands at `now`. A bucket's place on the axis is its centre times w̄/w; between two
    /// centres of the axis the evidence is shared by nearness.
    pub(crate) fn gather(&mut self, axis: &Axis, peer: Option<&Peer>, params: &Params, now: Micros) {
        self.points = Points::default();
        self.weight = 0.0;
        self.residual = (0.0, 0.0, 0.0);
        let Some(peer) = peer.filter(|_| self.scale > 0.0) else { return };
        let factor = evidence::pending(peer, params, now);
        for (j, word) in peer.buckets.iter().enumerate() {
            let bits = word.load(Ordering::Acquire);
            if bits == 0 {
                continue;
            }
            let (e, m) = pair::unpack(bits);
            let (e, m) = (f64::from(e) * factor, f64::from(m));
            if e < NO_EVIDENCE || !m.is_finite() {
                continue;
            }
            self.weight += e;
            if self.scale == 1.0 {
                self.points.add(j, e, m);
            } else {
                let (low, t) = axis.locate(axis.centre(j) * self.scale);
                let t = if low + 1 < BUCKETS { t } else { 0.0 };
                self.points.add(low, e * (1.0 - t), m);
                self.points.add(low + 1, e * t, m);
            }
        }
        let ((weight, sum), (squares, square)) = (pair::read(&peer.residual), pair::read(&peer.residual_square));
        if f64::from(weight.min(squares)) >= LEAST_RESIDUALS {
            let (mean, square) = (f64::from(sum / weight), f64::from(square / squares));
            self.residual = (f64::from(weight), mean, square);
        }
    }

    /// Mean distance of the evidence from `curve`.
    pub(crate) fn measure_offset(&mut self, curve: &Values) {
        let parts = self.points.e.iter().zip(&self.points.m).zip(curve);
        let sum: f64 = parts.map(|((e, m), p)| e * (m - p)).sum();
        self.offset = if self.weight > 0.0 { sum / self.weight } else { 0.0 };
    }

    /// The server's curve: its evidence shrunk towards the group's curve plus its own offset.
    pub(crate) fn posterior(&self, axis: &Axis, group: &Values, variance: f64, tau2: f64) -> Values {
        let shrink = if self.weight > 0.0 { tau2 / (tau2 + variance / self.weight) } else { 0.0 };
        let base = group.map(|p| p + shrink * self.offset);
        let prior = Prior {
            kappa: (variance / tau2).max(value(LEAST_KAPPA)),
            rho: tau2 / (tau2 + variance / OWN_COURSE),
            base: Some(&base),
        };
        fit(axis, &self.points, prior)
    }

    /// What this row says about how much servers differ: offset, weight, error variance.
    pub(crate) fn offset_estimate(&self, variance: f64) -> Option<(f64, f64, f64)> {
        let weight = self.weight.clamp(1.0, value(MOST_WEIGHT));
        (self.weight > LEAST_WEIGHT).then_some((self.offset, weight, variance / weight))
    }

    /// The same about the mean correction ln mean(e^(y − m)); `noise` is the residuals' squared coefficient of variation.
    pub(crate) fn tail_estimate(&self, noise: f64) -> Option<(f64, f64, f64)> {
        let (weight, mean, _) = self.residual;
        (weight > 0.0 && mean > 0.0).then(|| (mean.ln(), weight, noise / weight))
    }
}

/// How different servers really are: variance between them beyond sampling error, and their weighted mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    /// τ², 0 when the differences are within two standard errors of noise.
    pub(crate) tau2: f64,
    /// Mean over servers by weight.
    pub(crate) mean: f64,
}

impl Spread {
    /// From (value, weight, error variance) per server: τ² = max(0, Σ[(v − v̄)² − err]/(m − 1) − 2·sqrt(2/(m − 1))·mean err).
    pub(crate) fn of(estimates: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Self {
        let (count, weight, sum) =
            estimates.clone().fold((0.0, 0.0, 0.0), |(n, w, s), (v, weight, _)| (n + 1.0, w + weight, s + v * weight));
        let mean = if weight > 0.0 { sum / weight } else { 0.0 };
        let (squares, error) = estimates.fold((0.0, 0.0), |(x, e), (v, _, err)| (x + (v - mean).powi(2), e + err));
        Self::from_sums(count, mean, squares, error)
    }

    /// The same from the number of estimates, their weighted mean, the sum of their squared distances from it, and the sum of
    /// their error variances.
    pub(crate) fn from_sums(count: f64, mean: f64, squares: f64, error: f64) -> Self {
        if count < 2.0 {
            return Self { tau2: 0.0, mean };
        }
        let freedom = count - 1.0;
        let tau2 = (squares - error) / freedom - 2.0 * (2.0 / freedom).sqrt() * error / count;
        Self { tau2: if tau2.is_finite() { tau2.max(0.0) } else { 0.0 }, mean }
    }
}

/// Squared coefficient of variation of the residuals, pooled over `rows`.
pub(crate) fn tail_noise(rows: &[Row]) -> f64 {
    noise_of(rows.iter().fold((0.0, 0.0, 0.0), |(w, s, q), row| {
        let (n, mean, square) = row.residual;
        (w + n, s + n * mean, q + n * square)
    }))
}

/// The same from their number, sum and sum of squares.
pub(crate) fn noise_of((weight, sum, square): (f64, f64, f64)) -> f64 {
    if weight <= 0.0 || sum <= 0.0 {
        return value(LEAST_TAIL);
    }
    (square * weight / (sum * sum) - 1.0).max(value(LEAST_TAIL))
}

/// The mean correction of `row`: its own ln mean residual less the group's, shrunk; 0 when tails do not differ.
pub(crate) fn correction(row: &Row, noise: f64, tails: &Spread) -> f64 {
    match row.tail_estimate(noise) {
        Some((value, _, error)) if tails.tau2 > 0.0 => tails.tau2 / (tails.tau2 + error) * (value - tails.mean),
        _ => 0.0,
    }
}
