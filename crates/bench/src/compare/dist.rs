//! How the work of requests varies: the simulator's words for it, and the model servers'.

use serde::{Deserialize, Serialize};

/// How work varies; every kind has mean 1.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Dist {
    /// Always the mean.
    Const,
    #[default]
    Exp,
    LogNormal {
        sigma: f64,
    },
    Bimodal {
        share: f64,
        factor: f64,
    },
    Pareto {
        alpha: f64,
    },
}

impl Dist {
    /// In the SPEC language, for a mean in ms.
    pub fn words(&self, mean: f64) -> String {
        match self {
            Self::Const => format!("const:{mean:.3}ms"),
            Self::Exp => format!("exp:{mean:.3}ms"),
            Self::LogNormal { sigma } => format!("lognormal:{mean:.3}ms:{sigma}"),
            Self::Bimodal { share, factor } => {
                let short = mean / (1.0 - share + share * factor);
                format!("bimodal:{short:.3}ms:{:.3}ms:{share}", short * factor)
            }
            Self::Pareto { alpha } => format!("pareto:{mean:.3}ms:{alpha}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_the_same_in_both_languages() {
        let words = |text: &str| toml::from_str::<Dist>(text).unwrap().words(10.0);
        assert_eq!(words("kind = 'exp'"), "exp:10.000ms");
        assert_eq!(words("kind = 'lognormal'\nsigma = 0.5"), "lognormal:10.000ms:0.5");
        // 0.9 · 5.263 + 0.1 · 52.632 = 10.
        assert_eq!(words("kind = 'bimodal'\nshare = 0.1\nfactor = 10"), "bimodal:5.263ms:52.632ms:0.1");
        assert_eq!(words("kind = 'pareto'\nalpha = 1.5"), "pareto:10.000ms:1.5");
        assert!(toml::from_str::<Dist>("kind = 'trace'").is_err());
    }
}
