//! Two f32 in one 64-bit word, changed together by compare-and-swap: an evidence and its mean can never be torn apart.
//!
//! Here because every estimator of this crate is such a pair; what the halves mean is the owner's business.

use crate::sync::{AtomicU64, Ordering};

/// After so many lost races a change is dropped: one sample more or less is nothing, a spinning worker is something.
const TRIES: usize = 4;

/// Both halves in one word; the word 0 is (0, 0).
pub(crate) fn pack(first: f32, second: f32) -> u64 {
    u64::from(first.to_bits()) << 32 | u64::from(second.to_bits())
}

/// The halves of a word.
pub(crate) fn unpack(word: u64) -> (f32, f32) {
    let half = |bits: u64| f32::from_bits((bits & 0xffff_ffff) as u32);
    (half(word >> 32), half(word))
}

/// Reads both halves at one instant.
pub(crate) fn read(word: &AtomicU64) -> (f32, f32) {
    unpack(word.load(Ordering::Acquire))
}

/// Replaces the pair by `change` of it; returns what was there before, or `None` when the race was lost four times.
pub(crate) fn update(word: &AtomicU64, change: impl Fn(f32, f32) -> (f32, f32)) -> Option<(f32, f32)> {
    let mut seen = word.load(Ordering::Acquire);
    for _ in 0..TRIES {
        let (first, second) = unpack(seen);
        let (a, b) = change(first, second);
        match word.compare_exchange(seen, pack(a, b), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some((first, second)),
            Err(other) => seen = other,
        }
    }
    None
}

/// Adds one observation to a (weight, mean) pair whose weight stays at or below `cap`, so that it keeps learning.
pub(crate) fn add_mean(word: &AtomicU64, value: f32, cap: f32) -> Option<(f32, f32)> {
    update(word, |weight, mean| {
        let grown = (weight + 1.0).min(cap);
        (grown, mean + (value - mean) / grown)
    })
}

/// Adds `value` to a (weight, sum) pair whose weight stays at or below `cap`: beyond it the past fades by one observation.
pub(crate) fn add_sum(word: &AtomicU64, value: f32, cap: f32) -> Option<(f32, f32)> {
    update(word, |weight, sum| {
        let kept = if weight + 1.0 > cap { (cap - 1.0) / weight } else { 1.0 };
        (weight * kept + 1.0, sum * kept + value)
    })
}

/// Multiplies the weight (and the sum, when `both`) by `factor`.
pub(crate) fn fade(word: &AtomicU64, factor: f32, both: bool) {
    // A lost race leaves this pair a little older than the others until the next decay: harmless.
    let _ = update(word, |weight, second| (weight * factor, if both { second * factor } else { second }));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_zeroed_word_is_no_evidence() {
        assert_eq!(unpack(0), (0.0, 0.0));
    }

    #[test]
    fn the_mean_of_three() {
        let word = AtomicU64::new(0);
        for v in [1.0, 2.0, 6.0] {
            add_mean(&word, v, 40.0);
        }
        assert_eq!(read(&word), (3.0, 3.0));
    }

    #[test]
    fn a_capped_sum_keeps_its_mean() {
        let word = AtomicU64::new(0);
        for _ in 0..500 {
            add_sum(&word, 2.0, 100.0);
        }
        let (weight, sum) = read(&word);
        assert!((weight - 100.0).abs() < 1e-3 && (sum - 200.0).abs() < 1e-2, "{weight} {sum}");
    }
}
