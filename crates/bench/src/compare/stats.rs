//! What several runs say together: spread, and ratios of two methods with a confidence interval.

use serde::{Deserialize, Serialize};

/// Samples of the bootstrap: the bounds move by less than they are printed with.
const RESAMPLES: usize = 4000;
/// Its random numbers; fixed, so that a document made twice of the same runs is the same.
const SEED: u64 = 20;

/// Median, smallest and largest of a figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; the mean of both middle ones when there are two.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of at least one finite value; nothing of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        Some(Self { median, least, most })
    }
}

/// One figure over another, paired by seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Geometric mean over the seeds.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// Of two lists in the same order of seeds; nothing of empty ones, and unless all are above 0. The interval is the percentile
    /// bootstrap over seeds (Efron 1979); with few seeds it is too narrow, with one it is a point.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a / b).ln()).collect();
        if logs.is_empty() || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        let n = logs.len() as f64;
        let mut rng = fastrand::Rng::with_seed(SEED);
        let mut means: Vec<f64> =
            (0..RESAMPLES).map(|_| logs.iter().map(|_| logs[rng.usize(..logs.len())]).sum::<f64>() / n).collect();
        means.sort_by(f64::total_cmp);
        let bound = |q: f64| means[((RESAMPLES - 1) as f64 * q).round() as usize].exp();
        Some(Self { value: (logs.iter().sum::<f64>() / n).exp(), low: bound(0.025), high: bound(0.975) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0]), Some(Spread { median: 2.5, least: 1.0, most: 4.0 }));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn a_ratio_is_paired_and_its_interval_covers_it() {
        let steady = Ratio::of(&[1.0, 10.0, 100.0], &[2.0, 20.0, 200.0]).unwrap();
        assert!((steady.value - 0.5).abs() < 1e-9 && (steady.high - steady.low).abs() < 1e-9);
        let ours: Vec<f64> = (1..=20).map(|n| 1.0 + f64::from(n % 5) / 10.0).collect();
        let loose = Ratio::of(&ours, &[1.0; 20]).unwrap();
        // Means of 20 out of {1.0 … 1.4}: the standard error is 0.032 in the logarithm's neighbourhood of 0.17.
        assert!(loose.low < loose.value && loose.value < loose.high);
        assert!((0.08..0.15).contains(&(loose.high - loose.low)), "{loose:?}");
        assert_eq!(Ratio::of(&[], &[]), None);
        assert_eq!(Ratio::of(&[1.0, f64::NAN], &[1.0, 1.0]), None);
    }
}
