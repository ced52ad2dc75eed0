//! Distributions of service times, all with mean 1: the server's own mean scales them.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the work of requests varies. Every variant has mean 1.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Dist {
    /// Always the mean.
    Const,
    /// Exponential.
    #[default]
    Exp,
    /// Log-normal with standard deviation `sigma` of the logarithm.
    LogNormal {
        /// Standard deviation of ln(work), ≥ 0.
        sigma: f64,
    },
    /// A `share` of the requests needs `factor` times the work of the others.
    Bimodal {
        /// Share of long requests, 0–1.
        share: f64,
        /// How many times longer they are, > 0.
        factor: f64,
    },
    /// Pareto with shape `alpha`.
    Pareto {
        /// Shape, > 1 (the mean exists).
        alpha: f64,
    },
    /// Drawn from measured values.
    Trace {
        /// One value a line, in any unit; relative paths start at the scenario's directory.
        #[serde(default)]
        file: PathBuf,
        /// The values over their mean.
        #[serde(skip)]
        values: Arc<[f32]>,
    },
}

impl Dist {
    /// Measured values; nothing but positive ones may be in them.
    pub fn measured(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Self::Trace { file: PathBuf::new(), values: values.iter().map(|v| (v / mean) as f32).collect() }
    }

    /// Reads what the distribution has in a file beside `directory`'s scenario.
    ///
    /// # Errors
    /// When the file cannot be read or a line of it is no positive number.
    pub fn load(&mut self, directory: &Path) -> Result<(), String> {
        let Self::Trace { file, values } = self else { return Ok(()) };
        if !values.is_empty() {
            return Ok(());
        }
        let path = directory.join(&*file);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut all = Vec::new();
        for (n, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#')) {
            match line.trim().parse::<f64>() {
                Ok(value) if value.is_finite() && value > 0.0 => all.push(value),
                _ => return Err(format!("{}:{}: '{line}' is no number above 0", path.display(), n + 1)),
            }
        }
        if all.is_empty() {
            return Err(format!("{}: holds no value", path.display()));
        }
        if let Self::Trace { values: read, .. } = Self::measured(&all) {
            *values = read;
        }
        Ok(())
    }

    /// The value that two uniform numbers in [0, 1) stand for.
    pub fn value(&self, u: f64, v: f64) -> f64 {
        match self {
            Self::Const => 1.0,
            Self::Exp => -(1.0 - u).ln(),
            &Self::LogNormal { sigma } => {
                // Box–Muller.
                let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (core::f64::consts::TAU * v).cos();
                (sigma * normal - sigma * sigma / 2.0).exp()
            }
            &Self::Bimodal { share, factor } => {
                let short = 1.0 / (1.0 - share + share * factor);
                if u < share { short * factor } else { short }
            }
            &Self::Pareto { alpha } => (1.0 - u).powf(-1.0 / alpha) * (alpha - 1.0) / alpha,
            Self::Trace { values, .. } => values.get((u * values.len() as f64) as usize).map_or(1.0, |&v| f64::from(v)),
        }
    }

    /// What is wrong with the parameters, if anything.
    pub fn fault(&self) -> Option<&'static str> {
        match *self {
            Self::LogNormal { sigma } if !(0.0..=4.0).contains(&sigma) => Some("sigma must be in 0–4"),
            Self::Bimodal { share, factor } if !(0.0..=1.0).contains(&share) || factor.is_nan() || factor <= 0.0 => {
                Some("share must be in 0–1 and factor above 0")
            }
            Self::Pareto { alpha } if alpha.is_nan() || alpha <= 1.0 => Some("alpha must be above 1"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use labor_core::rng::Rng;

    #[test]
    fn every_mean_is_one() {
        let kinds = [
            Dist::Const,
            Dist::Exp,
            Dist::LogNormal { sigma: 0.6 },
            Dist::Bimodal { share: 0.08, factor: 37.0 },
            Dist::Pareto { alpha: 3.0 },
            Dist::measured(&[1.0, 2.0, 40.0]),
        ];
        for dist in kinds {
            let mut rng = Rng::new(7);
            let n = 200_000;
            let mean = (0..n).map(|_| dist.value(rng.unit(), rng.unit())).sum::<f64>() / f64::from(n);
            assert!((mean - 1.0).abs() < 0.02, "{dist:?}: {mean}");
        }
    }

    #[test]
    fn bimodal_has_the_two_stated_values() {
        let dist = Dist::Bimodal { share: 0.1, factor: 50.0 };
        // Mean 23.6 ms: 4 ms and, in one of ten, 200 ms.
        assert!((dist.value(0.5, 0.0) * 23.6 - 4.0).abs() < 1e-9);
        assert!((dist.value(0.05, 0.0) * 23.6 - 200.0).abs() < 1e-9);
    }

    #[test]
    fn nonsense_is_named() {
        assert!(Dist::Pareto { alpha: 1.0 }.fault().is_some());
        assert!(Dist::Bimodal { share: 1.5, factor: 2.0 }.fault().is_some());
        assert!(Dist::LogNormal { sigma: 0.5 }.fault().is_none());
    }
}
