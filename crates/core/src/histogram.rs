//! How long a server's answers took: counts by logarithmic buckets in shared memory, since start and over the last minutes.
//!
//! Plain atomics, valid when zeroed. Counts only grow; what the last minutes were is the difference to a copy of them that a
//! keeper takes once a minute. Not here: which answers count, and how they are shown.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::{Micros, SECOND, since};

/// Four buckets an octave, each a quarter of its lower power of two wide: quantiles are within some 10 per cent.
const PER_OCTAVE: u32 = 4;
/// 2^6 µs: below that nothing is told apart; no server behind a network answers sooner.
const FIRST: u32 = 6;
/// 2^27 µs are 134 s: beyond any time-out that people set.
const LAST: u32 = 27;
/// Buckets with a bound.
const BOUNDED: usize = ((LAST - FIRST) * PER_OCTAVE) as usize;
/// One more for what is slower than the last bound.
const COUNT: usize = BOUNDED + 1;
/// Whole octaves, for those to whom a factor of two is fine enough, and one more for the rest.
pub const OCTAVES: usize = (LAST - FIRST) as usize + 1;
/// Copies are taken this often: what is shown as the last minutes is one to two of these.
const TURN: Micros = 60 * SECOND;

/// Upper ends of the octaves, µs, inclusive; what is slower comes last.
pub const BOUNDS: [u64; OCTAVES - 1] = {
    let mut bounds = [0; OCTAVES - 1];
    let mut i = 0;
    while i < bounds.len() {
        bounds[i] = 1 << (FIRST + 1 + i as u32);
        i += 1;
    }
    bounds
};

/// Answers of one server by the time they took. Valid when zeroed.
#[repr(C)]
#[derive(Debug)]
pub struct Histogram {
    counts: [AtomicU64; COUNT],
    /// Of all times, µs.
    sum: AtomicU64,
    /// The counts as they stood at the last two turns, wrapping.
    newer: [AtomicU32; COUNT],
    older: [AtomicU32; COUNT],
    /// When the last turn was, µs.
    turned: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: core::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
            newer: core::array::from_fn(|_| AtomicU32::new(0)),
            older: core::array::from_fn(|_| AtomicU32::new(0)),
            turned: AtomicU64::new(0),
        }
    }
}

/// The bucket of a time; bounds are inclusive.
fn bucket(time: Micros) -> usize {
    let time = time.saturating_sub(1).max(1 << FIRST);
    let octave = time.ilog2();
    let quarter = (time >> (octave - 2)) & u64::from(PER_OCTAVE - 1);
    (((octave - FIRST) * PER_OCTAVE) as usize + quarter as usize).min(BOUNDED)
}

/// Lower and upper end of a bucket, µs; the last one ends where it begins, for want of a bound.
fn ends(bucket: usize) -> (f64, f64) {
    let edge = |i: usize| {
        let (octave, quarter) = (FIRST + i as u32 / PER_OCTAVE, i as u32 % PER_OCTAVE);
        f64::from(PER_OCTAVE + quarter) / f64::from(PER_OCTAVE) * f64::from(1 << octave)
    };
    let lower = if bucket == 0 { 1.0 } else { edge(bucket) };
    (lower, if bucket == BOUNDED { lower } else { edge(bucket + 1) })
}

impl Histogram {
    /// Counts an answer that took `time` µs.
    pub fn count(&self, time: Micros) {
        if let Some(count) = self.counts.get(bucket(time)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(time, Ordering::Relaxed);
    }

    /// Answers by octave since the statistics began, with [`BOUNDS`] as upper ends, and the sum of their times in µs.
    pub fn octaves(&self) -> ([u64; OCTAVES], u64) {
        // The sum first: a count without its time is less odd than a time without its count.
        let sum = self.sum.load(Ordering::Relaxed);
        let mut octaves = [0; OCTAVES];
        for (i, count) in self.counts.iter().enumerate() {
            if let Some(octave) = octaves.get_mut(i / PER_OCTAVE as usize) {
                *octave += count.load(Ordering::Relaxed);
            }
        }
        (octaves, sum)
    }

    /// Copies the counts if a minute has passed. One caller at a time; two would only shorten a minute.
    pub fn turn(&self, now: Micros) {
        let turned = self.turned.load(Ordering::Relaxed);
        if turned != 0 && since(turned, now) < TURN {
            return;
        }
        self.turned.store(now, Ordering::Relaxed);
        // Nothing was counted long before the first look.
        if turned == 0 {
            return;
        }
        let stale = since(turned, now) > 2 * TURN;
        for ((count, newer), older) in self.counts.iter().zip(&self.newer).zip(&self.older) {
            let count = count.load(Ordering::Relaxed) as u32;
            // After a stop of the keeper the older copy would be from long ago.
            older.store(if stale { count } else { newer.load(Ordering::Relaxed) }, Ordering::Relaxed);
            newer.store(count, Ordering::Relaxed);
        }
    }

    /// The times, µs, below which the shares `wanted` (0–1) of the answers of the last one to two minutes stayed; `None`
    /// without answers. Within a bucket the times are taken to be spread evenly.
    pub fn quantiles<const N: usize>(&self, wanted: [f64; N]) -> Option<[f64; N]> {
        let mut counts = [0_u32; COUNT];
        let mut total = 0_u64;
        for ((place, count), older) in counts.iter_mut().zip(&self.counts).zip(&self.older) {
            let count = count.load(Ordering::Relaxed);
            // Most buckets have never counted: their older copies, in other cache lines, need not be fetched.
            if count > 0 {
                *place = (count as u32).wrapping_sub(older.load(Ordering::Relaxed));
                total += u64::from(*place);
            }
        }
        (total > 0).then(|| wanted.map(|share| quantile(&counts, share * total as f64)))
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::Release));
        self.newer.iter().chain(&self.older).for_each(|count| count.store(0, Ordering::Release));
        self.sum.store(0, Ordering::Release);
        self.turned.store(0, Ordering::Release);
    }

    /// Takes over the counts of `old`, which is only read.
    pub fn carry_from(&self, old: &Self) {
        let Self { counts, sum, newer, older, turned } = old;
        for (to, from) in self.counts.iter().zip(counts) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        for (to, from) in self.newer.iter().chain(&self.older).zip(newer.iter().chain(older)) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        self.sum.store(sum.load(Ordering::Acquire), Ordering::Release);
        self.turned.store(turned.load(Ordering::Acquire), Ordering::Release);
    }
}

/// The time below which `rank` answers stayed.
fn quantile(counts: &[u32; COUNT], rank: f64) -> f64 {
    let mut below = 0.0;
    let mut last = 0.0;
    for (i, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (lower, upper) = ends(i);
        let count = f64::from(*count);
        if below + count >= rank {
            return lower + (upper - lower) * ((rank - below) / count).clamp(0.0, 1.0);
        }
        below += count;
        last = upper;
    }
    last
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for bucket in 0..BOUNDED {
            let ((lower, upper), (next, _)) = (ends(bucket), ends(bucket + 1));
            assert!(lower < upper && upper == next, "{bucket}");
            assert_eq!(super::bucket(upper as u64), bucket, "bounds are inclusive");
            assert_eq!(super::bucket(upper as u64 + 1), bucket + 1);
        }
        assert_eq!((bucket(0), bucket(1), bucket(u64::MAX)), (0, 0, BOUNDED));
    }

    #[test]
    fn octaves_add_up_and_end_at_powers_of_two() {
        let histogram = Histogram::default();
        for time in [0, 128, 129, 1000, 1_000_000, 1 << 27, (1 << 27) + 1, u64::MAX >> 1] {
            histogram.count(time);
        }
        let (octaves, sum) = histogram.octaves();
        assert_eq!(octaves.iter().sum::<u64>(), 8);
        assert_eq!((octaves[0], octaves[1], octaves[OCTAVES - 2], octaves[OCTAVES - 1]), (2, 1, 1, 2));
        assert_eq!(BOUNDS[0], 128);
        assert_eq!(BOUNDS[BOUNDS.len() - 1], 1 << 27);
        assert!(sum > u64::MAX >> 1);
    }

    #[test]
    fn quantiles_are_within_a_tenth() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantiles([0.5]), None);
        for i in 0..10_000_u64 {
            histogram.count(1000 + i * 9);
        }
        let [median, tail] = histogram.quantiles([0.5, 0.99]).unwrap();
        assert!((median / 46_000.0 - 1.0).abs() < 0.1, "{median}");
        assert!((tail / 90_100.0 - 1.0).abs() < 0.1, "{tail}");
    }

    #[test]
    fn what_is_older_than_two_minutes_is_not_in_the_quantiles() {
        let histogram = Histogram::default();
        histogram.turn(SECOND);
        for _ in 0..100 {
            histogram.count(1000);
        }
        for minute in 1..=2 {
            histogram.turn(SECOND + minute * TURN);
            let expected = if minute == 1 { Some(true) } else { None };
            assert_eq!(histogram.quantiles([0.5]).map(|[q]| q < 1100.0), expected);
        }
        histogram.count(1_000_000);
        assert!(histogram.quantiles([0.0]).unwrap()[0] > 500_000.0);
        assert_eq!(histogram.octaves().0.iter().sum::<u64>(), 101, "the counts go on");
    }

    #[test]
    fn what_was_counted_before_the_first_turn_is_recent() {
        let histogram = Histogram::default();
        histogram.count(1000);
        histogram.turn(SECOND);
        assert!(histogram.quantiles([0.5]).is_some());
        histogram.turn(SECOND + TURN);
        assert!(histogram.quantiles([0.5]).is_some());
        histogram.turn(SECOND + 2 * TURN);
        assert_eq!(histogram.quantiles([0.5]), None);
    }

    #[test]
    fn a_keeper_that_was_away_starts_the_minutes_afresh() {
        let histogram = Histogram::default();
        histogram.turn(SECOND);
        histogram.count(1000);
        histogram.turn(SECOND + 10 * TURN);
        assert_eq!(histogram.quantiles([0.5]), None);
    }

    #[test]
    fn carrying_and_clearing() {
        let (old, new) = (Histogram::default(), Histogram::default());
        old.turn(SECOND);
        old.count(1000);
        new.carry_from(&old);
        assert_eq!((new.octaves(), new.quantiles([0.5])), (old.octaves(), old.quantiles([0.5])));
        new.clear();
        assert_eq!(new.octaves(), Histogram::default().octaves());
    }
}
