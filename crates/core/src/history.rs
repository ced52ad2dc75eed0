//! A server's last quarter of an hour, a point every five seconds: its expected latency, and how many requests it got.
//!
//! A ring in shared memory whose places are numbered by the clock, so that readers know which points are missing and any
//! worker may go on where another stopped. One writer at a time, by the caller's arrangement. Not here: who writes.

use crate::sync::{AtomicU64, Ordering};
use crate::time::{Micros, SECOND};

/// Time between two points.
pub const INTERVAL: Micros = 5 * SECOND;
/// Points kept: fifteen minutes.
pub const POINTS: usize = 180;

/// The number of the interval that `now` is in.
pub const fn tick(now: Micros) -> u64 {
    now / INTERVAL
}

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Expected latency at its end, µs; 0 when nothing was known.
    pub latency_us: u32,
    /// Requests sent to the server within it.
    pub requests: u32,
}

/// The ring of one server, in shared memory. Valid when zeroed.
#[repr(C)]
#[derive(Debug)]
pub struct History {
    /// Number of the newest point; 0 before the first.
    last: AtomicU64,
    /// The server's count of requests at that point.
    counted: AtomicU64,
    /// latency << 32 | requests + 1; 0 for an interval that nobody noted.
    points: [AtomicU64; POINTS],
}

impl Default for History {
    fn default() -> Self {
        Self {
            last: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            points: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl History {
    /// Whether there is an interval to note, `tick` being that of the present one.
    pub fn is_due(&self, tick: u64) -> bool {
        tick.saturating_sub(1) > self.last.load(Ordering::Acquire)
    }

    /// Notes the interval that has just ended: `tick` is that of the present one, `requests` the server's count so far.
    pub fn note(&self, tick: u64, latency_us: u32, requests: u64) {
        let ended = tick.saturating_sub(1);
        let last = self.last.load(Ordering::Acquire);
        if ended <= last {
            return;
        }
        // Intervals that nobody noted; a ring full of them at most.
        let missed = ended - last - 1;
        for gone in 1..=missed.min(POINTS as u64) {
            self.place(ended - gone, 0);
        }
        let before = self.counted.swap(requests, Ordering::AcqRel);
        // What came in while nobody looked belongs to no interval; nor does what came before the first look.
        let count = if last != 0 && missed == 0 { requests.saturating_sub(before) } else { 0 };
        let count = u32::try_from(count).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        self.place(ended, u64::from(latency_us) << 32 | u64::from(count + 1));
        self.last.store(ended, Ordering::Release);
    }

    fn place(&self, number: u64, word: u64) {
        if let Some(point) = self.points.get((number % POINTS as u64) as usize) {
            point.store(word, Ordering::Release);
        }
    }

    /// The last points up to the one that ended with the beginning of interval `tick`, oldest first, from the first that is
    /// known; `None` for intervals that nobody noted.
    pub fn read(&self, tick: u64) -> impl Iterator<Item = Option<Point>> + '_ {
        let newest = tick.saturating_sub(1);
        let last = self.last.load(Ordering::Acquire);
        let oldest = newest.saturating_sub(POINTS as u64 - 1);
        (oldest..=newest)
            .map(move |number| {
                // A place beyond the last point still holds what was there a quarter of an hour ago, and so does one that is
                // older than the ring is long.
                let kept = number <= last && number + POINTS as u64 > last;
                let word = self.points.get((number % POINTS as u64) as usize)?.load(Ordering::Acquire);
                let count = (word as u32).checked_sub(1).filter(|_| kept)?;
                Some(Point { latency_us: (word >> 32) as u32, requests: count })
            })
            .skip_while(Option::is_none)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.last.store(0, Ordering::Release);
        self.counted.store(0, Ordering::Release);
        self.points.iter().for_each(|point| point.store(0, Ordering::Release));
    }

    /// Takes over the points of `old`, which is only read.
    pub fn carry_from(&self, old: &Self) {
        let Self { last, counted, points } = old;
        for (to, from) in self.points.iter().zip(points) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        self.counted.store(counted.load(Ordering::Acquire), Ordering::Release);
        self.last.store(last.load(Ordering::Acquire), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn requests(history: &History, tick: u64) -> Vec<Option<u32>> {
        history.read(tick).map(|point| point.map(|p| p.requests)).collect()
    }

    #[test]
    fn each_point_has_the_requests_of_its_interval() {
        let history = History::default();
        assert_eq!(requests(&history, 1000), []);
        for (tick, count) in [(1000, 50), (1001, 60), (1002, 60), (1003, 90)] {
            history.note(tick, 7, count);
        }
        assert_eq!(requests(&history, 1003), [Some(0), Some(10), Some(0), Some(30)]);
        assert!(history.read(1003).all(|p| p.unwrap().latency_us == 7));
        assert_eq!(requests(&history, 1004), [Some(0), Some(10), Some(0), Some(30), None], "not yet noted");
    }

    #[test]
    fn an_interval_is_noted_once() {
        let history = History::default();
        history.note(1000, 1, 10);
        history.note(1001, 1, 20);
        history.note(1001, 1, 30);
        history.note(1000, 1, 40);
        assert_eq!(requests(&history, 1001), [Some(0), Some(10)]);
    }

    #[test]
    fn missed_intervals_are_gaps_and_their_requests_no_peak() {
        let history = History::default();
        history.note(1000, 1, 10);
        history.note(1001, 1, 20);
        history.note(1004, 1, 1000);
        history.note(1005, 1, 1001);
        assert_eq!(requests(&history, 1005), [Some(0), Some(10), None, None, Some(0), Some(1)]);
        history.note(5000, 1, 2000);
        assert_eq!(requests(&history, 5000), [Some(0)], "after a long stop nothing old is shown");
    }

    #[test]
    fn a_quarter_of_an_hour_is_kept() {
        let history = History::default();
        for tick in 1000..2000 {
            history.note(tick, 1, tick * 3);
        }
        assert_eq!(requests(&history, 1999), [Some(3); POINTS]);
        assert_eq!(requests(&history, 2100).len(), POINTS, "what was noted before the gap");
        assert_eq!(requests(&history, 2100).iter().flatten().count(), POINTS - 101);
        assert_eq!(requests(&history, 3000), []);
    }

    #[test]
    fn a_count_that_was_reset_is_no_peak() {
        let history = History::default();
        history.note(1000, 1, 500);
        history.note(1001, 1, 3);
        assert_eq!(requests(&history, 1001), [Some(0), Some(0)]);
    }

    #[test]
    fn carrying_and_clearing() {
        let (old, new) = (History::default(), History::default());
        for tick in 1000..1010 {
            old.note(tick, 1, tick);
        }
        new.carry_from(&old);
        assert_eq!(requests(&new, 1009), requests(&old, 1009));
        new.clear();
        assert_eq!(requests(&new, 1009), []);
    }
}
