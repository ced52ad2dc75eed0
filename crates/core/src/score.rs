//! The penalties on top of a predicted latency: silence, failure and load. Pure numbers.

use crate::tuning::{tuned, value};
tuned! {
/// Odds that a server hangs before anything is known: one in a hundred thousand. At one in ten thousand the gaps between
/// answers of a busy, healthy server cost it a few per cent of its traffic (mean 4 % worse in blog and lan); at half of
/// this one, pauses are noticed too late.
const HANGING: f32 = 1e-5;
/// What a hanging server costs, as a multiple of its predicted latency.
const SILENCE_COST: f32 = 300.0;
/// Beyond this many quiet service times nothing more is learned, and e^−z is still a normal number.
const QUIET_MOST: f32 = 50.0;
/// What a failed attempt costs, in idle answers of the slowest usable server.
const FAILURE_COST: f32 = 10.0;
/// Scores closer than one per cent of latency are equal.
pub(crate) const TIE: f32 = 0.01;
/// A server with this many answers is admitted without a cap.
pub(crate) const SEASONED: u32 = 8;
/// The steepest slope that marginal cost believes: beyond three even a queue that thrashes is not measured well. At one, p99
/// is 1 to 7 % better in busy groups and the mean 0.6 to 2 % worse (`docs/decisions.md`).
const MOST_SLOPE: f64 = 3.0;
}

/// Added to the score of a server at its cap: more than any two scores can differ by, so that caps order and never
/// exclude.
pub(crate) const AT_CAP: f32 = 1000.0;

/// Whether a score is that of a server at its cap: scores themselves are below 0 for answers within a second.
pub(crate) fn at_cap(score: f32) -> bool {
    score >= AT_CAP / 2.0
}

/// The most a new or recovered server may have in flight: 1, 2, 4, … until it has [`SEASONED`] answers.
pub(crate) fn cap(answers: u32) -> u32 {
    if answers >= SEASONED { u32::MAX } else { (2 * answers).max(1) }
}

/// Penalty for being quiet for `quiet` seconds with `q` requests in flight that take `latency` seconds each, ln seconds.
///
/// p = π/(π + e^−z) is the posterior that the server hangs when answers come like a Poisson process: z = q·quiet/latency
/// of them are missing.
pub(crate) fn silence(q: u32, quiet: f32, latency: f32) -> f32 {
    let z = q as f32 * quiet / latency.max(1e-6);
    // Half a missing answer adds 2 %: less than the exponential is worth.
    if z.is_nan() || z < 0.1 {
        return 0.0;
    }
    let hanging = |z: f32| HANGING / (HANGING + (-z).exp());
    (SILENCE_COST * (hanging(z.min(value(QUIET_MOST))) - hanging(0.0))).ln_1p()
}

/// Adds the cost of a failure level `f` to `score`: seconds, not a factor, so that a fast failing server loses its
/// traffic at once. `slowest` is the largest idle prediction among usable servers, seconds.
pub(crate) fn with_failure(score: f32, f: f32, slowest: f32) -> f32 {
    if f <= 0.0 { score } else { (score.exp() + f * FAILURE_COST * slowest).ln() }
}

/// The price of a load-report factor `g` (0.1–2; 1 is neutral), ln seconds.
pub(crate) fn load(g: f32) -> f32 {
    if g == 1.0 { 0.0 } else { -g.ln() }
}

/// The marginal cost of one more request at x in flight where the curve has right-hand slope `slope` in ln(x + 1):
/// what it adds to those already there, ln seconds.
pub(crate) fn marginal(slope: f64, x: f64) -> f64 {
    (slope.clamp(0.0, value(MOST_SLOPE)) * x / (x + 1.0)).ln_1p()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_server_is_suspect_within_a_few_service_times() {
        assert_eq!(silence(0, 100.0, 0.01), 0.0);
        assert!(silence(1, 0.01, 0.01) < 0.06);
        assert!(silence(1, 0.1, 0.01) > 3.0);
        assert!(silence(4, 1e9, 1e-9) <= 301f32.ln());
    }

    #[test]
    fn a_failing_fast_server_is_dearer_than_a_slow_one() {
        let (fast, slow) = (0.001f32.ln(), 0.05f32.ln());
        assert!(with_failure(fast, 0.4, 0.05) > slow);
        assert!((with_failure(fast, 1e-3, 0.05) - 0.0015f32.ln()).abs() < 1e-3);
    }

    #[test]
    fn caps_double() {
        assert_eq!([0, 1, 2, 4, 7].map(cap), [1, 2, 4, 8, 14]);
        assert_eq!(cap(8), u32::MAX);
    }
}
