//! Distributions of service times.
//!
//! The shapes that the literature on load balancing uses: constant, exponential, heavy tails, and cache-like bimodal.

use std::f64::consts::TAU;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::units::{duration, probability};

/// The largest σ of a lognormal: above 4 the sample mean of a test says nothing about the mean.
const MAX_SIGMA: f64 = 4.0;

/// The longest draw, seconds.
const LONGEST: f64 = 86_400.0;

/// A service-time distribution; every parameter in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dist {
    /// Always the same time.
    Const(f64),
    /// Exponential with this mean.
    Exp(f64),
    /// Lognormal with this *mean* (not median) and σ of the logarithm.
    Lognormal(f64, f64),
    /// The first time, or with the given probability the second.
    Bimodal(f64, f64, f64),
    /// Pareto with this mean and shape α > 1.
    Pareto(f64, f64),
}

impl Dist {
    /// Reads `const:T`, `exp:MEAN`, `lognormal:MEAN:SIGMA`, `bimodal:T1:T2:PROBABILITY_OF_T2` or `pareto:MEAN:ALPHA`.
    pub fn parse(text: &str) -> Result<Self> {
        let seconds = |part: &str| duration(part).map(|time| time.as_secs_f64());
        match text.split(':').collect::<Vec<_>>()[..] {
            ["const", time] => Ok(Self::Const(seconds(time)?)),
            ["exp", mean] => Ok(Self::Exp(seconds(mean)?)),
            ["lognormal", mean, sigma] => match sigma.parse() {
                Ok(sigma) if (0.0..=MAX_SIGMA).contains(&sigma) => Ok(Self::Lognormal(seconds(mean)?, sigma)),
                _ => bail!("sigma \"{sigma}\" is not in 0 to {MAX_SIGMA}"),
            },
            ["bimodal", usual, rare, share] => Ok(Self::Bimodal(seconds(usual)?, seconds(rare)?, probability(share)?)),
            ["pareto", mean, alpha] => match alpha.parse() {
                // At 1 and below there is no mean.
                Ok(alpha) if alpha > 1.0 => Ok(Self::Pareto(seconds(mean)?, alpha)),
                _ => bail!("alpha \"{alpha}\" is not above 1"),
            },
            _ => bail!(
                "service \"{text}\" is not const:T, exp:MEAN, lognormal:MEAN:SIGMA, bimodal:T1:T2:P or pareto:MEAN:ALPHA"
            ),
        }
    }

    /// One service time.
    pub fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        // In (0, 1]: the logarithm of zero would be an endless service.
        let mut unit = || 1.0 - rng.f64();
        let seconds = match *self {
            Self::Const(time) => time,
            Self::Exp(mean) => -mean * unit().ln(),
            Self::Lognormal(mean, sigma) => {
                // Box-Muller; the mean of exp(σZ) is exp(σ²/2), divided out.
                let normal = (-2.0 * unit().ln()).sqrt() * (TAU * unit()).cos();
                mean * (sigma * normal - sigma * sigma / 2.0).exp()
            }
            Self::Bimodal(usual, rare, share) => {
                if unit() <= share {
                    rare
                } else {
                    usual
                }
            }
            Self::Pareto(mean, alpha) => mean * (alpha - 1.0) / alpha * unit().powf(-1.0 / alpha),
        };
        // A shape near 1 has draws beyond every time there is; a day is for ever.
        Duration::from_secs_f64(seconds.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(text: &str) -> f64 {
        let dist = Dist::parse(text).unwrap();
        let mut rng = fastrand::Rng::with_seed(7);
        let draws = 200_000;
        (0..draws).map(|_| dist.draw(&mut rng).as_secs_f64()).sum::<f64>() / f64::from(draws) * 1e3
    }

    #[test]
    fn means_are_what_the_text_says() {
        assert!((mean_of("const:5ms") - 5.0).abs() < 1e-6);
        assert!((mean_of("exp:10ms") - 10.0).abs() < 0.15);
        assert!((mean_of("lognormal:10ms:1") - 10.0).abs() < 0.3);
        assert!((mean_of("bimodal:4ms:200ms:0.1") - 23.6).abs() < 0.5);
        assert!((mean_of("pareto:10ms:3") - 10.0).abs() < 0.3);
        assert_eq!(mean_of("bimodal:4ms:200ms:0"), mean_of("const:4ms"));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["", "10ms", "exp", "exp:10", "exp:1ms:2", "lognormal:1ms:9", "bimodal:1ms:2ms:3", "pareto:1ms:1"]
        {
            assert!(Dist::parse(wrong).is_err(), "{wrong}");
        }
    }
}
