//! What a round through a long list adds up: the evidence per bucket, how much servers differ, and how far.

use crate::curve::Points;
use crate::peer::BUCKETS;
use crate::row::{Row, Spread, noise_of};

/// A sum of estimates (value, weight, 1/weight) from which their [`Spread`] follows.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    weight: f64,
    weighted: f64,
    sum: f64,
    square: f64,
    error: f64,
}

impl Moments {
    fn add(&mut self, (value, weight, error): (f64, f64, f64)) {
        self.count += 1.0;
        self.weight += weight;
        self.weighted += weight * value;
        self.sum += value;
        self.square += value * value;
        self.error += error;
    }

    /// As [`Spread::of`]; `unit` is the error variance of one sample.
    fn spread(&self, unit: f64) -> Spread {
        let mean = if self.weight > 0.0 { self.weighted / self.weight } else { 0.0 };
        let squares = self.square - 2.0 * mean * self.sum + self.count * mean * mean;
        Spread::from_sums(self.count, mean, squares, self.error * unit)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Evidence per bucket, the same times its mean, and times its server's offset.
    evidence: [f64; BUCKETS],
    values: [f64; BUCKETS],
    offsets: [f64; BUCKETS],
    distances: Moments,
    tails: Moments,
    /// Residuals: weight, sum, sum of squares.
    residual: (f64, f64, f64),
    seasoned: usize,
    /// Least and largest idle latency, largest long-run mean, seconds.
    least: f32,
    most: f32,
    long: f32,
}

impl Sums {
    /// Adds what a row has gathered.
    pub(crate) fn add(&mut self, row: &Row) {
        let sums = self.evidence.iter_mut().zip(&mut self.values).zip(&mut self.offsets);
        for (((evidence, value), offset), (&e, &m)) in sums.zip(row.points.e.iter().zip(&row.points.m)) {
            if e > 0.0 {
                *evidence += e;
                *value += e * m;
                *offset += e * row.offset;
            }
        }
        if let Some(estimate) = row.offset_estimate(1.0) {
            self.distances.add(estimate);
        }
        if let Some(estimate) = row.tail_estimate(1.0) {
            self.tails.add(estimate);
        }
        let (weight, mean, square) = row.residual;
        self.residual.0 += weight;
        self.residual.1 += weight * mean;
        self.residual.2 += weight * square;
    }

    /// Counts a member, if it has had enough answers.
    pub(crate) fn season(&mut self, enough: bool) {
        self.seasoned += usize::from(enough);
    }

    /// Notes a member's idle latency and long-run mean, seconds.
    pub(crate) fn range(&mut self, idle: f32, long: f32) {
        self.least = if self.least > 0.0 { self.least.min(idle) } else { idle };
        (self.most, self.long) = (self.most.max(idle), self.long.max(long));
    }

    /// Least and largest idle latency, the group's `idle` included, and the largest long-run mean, seconds.
    pub(crate) fn ranges(&self, idle: f32) -> (f32, f32, f32) {
        (if self.least > 0.0 { self.least.min(idle) } else { idle }, self.most.max(idle), self.long)
    }

    /// Whether half of `members` have had enough answers.
    pub(crate) fn seasoned(&self, members: usize) -> bool {
        2 * self.seasoned >= members
    }

    /// All evidence, samples.
    pub(crate) fn weight(&self) -> f64 {
        self.evidence.iter().sum()
    }

    /// The evidence less each server's offset, as far as that differs from the mean offset: so the group's level is that of
    /// all answers, round after round.
    pub(crate) fn points(&self) -> Points {
        let weight = self.weight();
        let mean = if weight > 0.0 { self.offsets.iter().sum::<f64>() / weight } else { 0.0 };
        let mut points = Points::default();
        let sums = self.evidence.iter().zip(&self.values).zip(&self.offsets).enumerate();
        for (j, ((&e, value), offset)) in sums.filter(|(_, ((e, _), _))| **e > 0.0) {
            points.add(j, e, (value - offset) / e + mean);
        }
        points
    }

    /// How different servers' latencies are; `variance` is that of one sample.
    pub(crate) fn spread(&self, variance: f64) -> Spread {
        self.distances.spread(variance)
    }

    /// How different their tails are; `noise` is that of one residual.
    pub(crate) fn tails(&self, noise: f64) -> Spread {
        self.tails.spread(noise)
    }

    /// Squared coefficient of variation of the residuals.
    pub(crate) fn noise(&self) -> f64 {
        noise_of(self.residual)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_spread_from_moments_is_that_of_the_estimates() {
        let estimates: Vec<(f64, f64, f64)> =
            [(0.3, 10.0), (-0.2, 40.0), (0.9, 3.0), (0.0, 1.0)].map(|(v, w)| (v, w, 0.25 / w)).to_vec();
        let mut moments = Moments::default();
        estimates.iter().for_each(|&(v, w, _)| moments.add((v, w, 1.0 / w)));
        let (direct, summed) = (Spread::of(estimates.iter().copied()), moments.spread(0.25));
        assert!((direct.tau2 - summed.tau2).abs() < 1e-12 && (direct.mean - summed.mean).abs() < 1e-12);
        assert!(direct.tau2 >= 0.0);
    }

    #[test]
    fn offsets_move_no_level() {
        let mut sums = Sums::default();
        let mut row = Row::new(1.0);
        for (offset, value) in [(1.0, -2.0), (3.0, 0.0)] {
            (row.points, row.offset) = (Points::default(), offset);
            row.points.add(0, 10.0, value);
            sums.add(&row);
        }
        assert!((sums.points().m[0] + 1.0).abs() < 1e-12);
    }
}
