//! Which part of all that is in flight is a server's own: by weight and by the places that its curve shows.
//!
//! A curve that is flat up to the mean queue says that the server works on so many requests at once; one that rises with every
//! request that it works on one. Places at x requests in flight are (x + 1)·L(0)/L(x). Speed does not count: with the same keys a
//! slow server has more in flight, and by the bound it gives some away. Sums are kept up to date a few servers at a time, so that
//! what a pick costs does not grow with the list.

/// Servers looked at for each pick: up to here the sums are exact.
const LOOKS: usize = 32;
/// As many as a server can work on at once, by its curve, and this many at most, bother nobody even when the others have none.
const FREE: u32 = 8;

/// Sums of fractions are a little above what they should be at times: a bound of twenty is not one of twenty-one.
const ROUNDING: f64 = 1e-6;

/// What is known of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Requests in flight.
    pub queue: u32,
    /// Its capacity: weight times places.
    pub capacity: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Parts {
    standings: Vec<Standing>,
    queued: i64,
    capacity: f64,
    usable: usize,
    cursor: usize,
}

impl Parts {
    /// Starts afresh for `count` servers.
    pub fn resize(&mut self, count: usize) {
        self.standings.clear();
        self.standings.resize(count, Standing::default());
        (self.queued, self.capacity, self.usable, self.cursor) = (0, 0.0, 0, 0);
    }

    /// Looks at the next servers; `of` says how each stands, nothing for those that cannot be used.
    pub fn follow(&mut self, of: &mut dyn FnMut(usize, f64) -> Standing) {
        // The first pick sees all: sums of a few would be no sums.
        let looks = if self.usable == 0 { self.standings.len() } else { self.standings.len().min(LOOKS) };
        for _ in 0..looks {
            let mean = self.mean();
            self.note(self.cursor, of(self.cursor, mean));
            self.cursor = if self.cursor + 1 < self.standings.len() { self.cursor + 1 } else { 0 };
        }
    }

    fn note(&mut self, i: usize, now: Standing) {
        let Some(place) = self.standings.get_mut(i) else { return };
        let before = core::mem::replace(place, now);
        self.queued += i64::from(now.queue) - i64::from(before.queue);
        self.capacity += now.capacity - before.capacity;
        match (before.capacity > 0.0, now.capacity > 0.0) {
            (false, true) => self.usable += 1,
            (true, false) => self.usable = self.usable.saturating_sub(1),
            _ => {}
        }
    }

    /// Requests in flight at a server on average.
    pub fn mean(&self) -> f64 {
        self.queued.max(0) as f64 / self.usable.max(1) as f64
    }

    /// The part of server `i`, 0–1.
    pub fn part(&self, i: usize) -> f64 {
        let own = self.standings.get(i).map_or(0.0, |standing| standing.capacity);
        if self.capacity > own { own / self.capacity } else { 1.0 }
    }

    /// Whether server `i` with `queue` in flight may have one more, when it may have `bound` times its part. `free`: how many
    /// it works on at once, at least.
    pub fn admits(&self, i: usize, queue: u32, bound: f64, free: u32) -> bool {
        let most = (bound * (self.queued.max(0) + 1) as f64 * self.part(i) - ROUNDING).ceil();
        f64::from(queue) < most.max(f64::from(free))
    }
}

/// Places that a curve shows: `idle` and `loaded` are its response times with nothing and with `x` in flight.
pub fn places(idle: f32, loaded: f32, x: f64) -> f64 {
    let ratio = f64::from(idle) / f64::from(loaded);
    // A curve falls by noise only, and what is no number says nothing.
    if ratio.is_finite() { ((x + 1.0) * ratio).clamp(1.0, x + 1.0) } else { 1.0 }
}

/// How many requests bother nobody, by `latency` with a number in flight.
pub fn free(mut latency: impl FnMut(u32) -> f32) -> u32 {
    places(latency(0), latency(FREE - 1), f64::from(FREE - 1)) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_are_by_capacity() {
        let mut parts = Parts::default();
        parts.resize(3);
        let all = [(30, 1.0), (20, 2.0), (10, 3.0)].map(|(queue, capacity)| Standing { queue, capacity });
        parts.follow(&mut |i, _| all[i]);
        parts.follow(&mut |i, _| all[i]);
        assert_eq!((parts.mean(), parts.part(0), parts.part(2)), (20.0, 1.0 / 6.0, 0.5));
        // ⌈1.25 · 61 / 6⌉ = 13.
        assert!(parts.admits(0, 12, 1.25, 1) && !parts.admits(0, 13, 1.25, 1));
        assert!(parts.admits(0, 13, 1.25, 14));
        // Who cannot be used has no part, and its requests are not counted.
        parts.follow(&mut |i, _| if i == 0 { Standing::default() } else { all[i] });
        assert_eq!((parts.mean(), parts.part(1)), (15.0, 0.4));
    }

    #[test]
    fn sums_of_a_long_list_follow() {
        let mut parts = Parts::default();
        parts.resize(1000);
        parts.follow(&mut |_, _| Standing { queue: 1, capacity: 1.0 });
        assert_eq!(parts.mean(), 1.0);
        (0..32).for_each(|_| parts.follow(&mut |_, _| Standing { queue: 3, capacity: 2.0 }));
        assert_eq!((parts.mean(), parts.part(7)), (3.0, 0.001));
    }

    #[test]
    fn places_are_what_a_curve_shows() {
        assert_eq!(places(0.01, 0.01, 15.0), 16.0);
        assert_eq!(places(0.01, 0.16, 15.0), 1.0);
        assert_eq!(places(0.0, 0.0, 15.0), 1.0);
        assert_eq!(free(|_| 0.01), 8);
        assert_eq!(free(|q| 0.01 * (q + 1) as f32), 1);
    }
}
