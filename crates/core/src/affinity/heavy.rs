//! Which keys bring so many requests that they must yield first: counts by key, in little memory, that forget.
//!
//! A count-min sketch (Cormode and Muthukrishnan, 2005) of two rows, halved every few thousand requests. Each worker counts what
//! it sees itself: a heavy key is heavy for every worker.

use super::Key;

/// Counters a row: keys with less than a hundredth of the requests need not be told apart.
const WIDTH: usize = 1024;
/// Requests between two halvings: what a key had ten thousand requests ago does not count any more.
const WINDOW: u32 = 4096;
/// A key with fewer requests in the window is not heavy: five standard deviations of chance are in sixteen.
const LEAST: u32 = 16;
/// Below this share of the requests a key is not heavy however many servers there are: what it may displace is a like share of the others.
const LEAST_SHARE: f64 = 0.01;

/// See the module.
#[derive(Debug)]
pub struct Heavy {
    rows: [Vec<u32>; 2],
    all: u32,
}

impl Default for Heavy {
    fn default() -> Self {
        Self { rows: [vec![0; WIDTH], vec![0; WIDTH]], all: 0 }
    }
}

impl Heavy {
    /// Counts a request of `key`.
    pub fn count(&mut self, key: Key) {
        for (row, place) in self.rows.iter_mut().zip(places(key)) {
            if let Some(count) = row.get_mut(place) {
                *count += 1;
            }
        }
        self.all += 1;
        if self.all >= WINDOW {
            self.rows.iter_mut().flatten().for_each(|count| *count /= 2);
            self.all /= 2;
        }
    }

    /// Whether `key` alone brings more than `share` of the requests.
    pub fn exceeds(&self, key: Key, share: f64) -> bool {
        let counts = self.rows.iter().zip(places(key)).filter_map(|(row, place)| row.get(place));
        let count = counts.min().copied().unwrap_or(0);
        count >= LEAST && f64::from(count) > share.max(LEAST_SHARE) * f64::from(self.all)
    }
}

fn places(key: Key) -> [usize; 2] {
    [key.0 as usize % WIDTH, (key.0 >> 32) as usize % WIDTH]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::affinity::Secret;

    #[test]
    fn the_heavy_are_found_and_nobody_else() {
        let (mut heavy, secret) = (Heavy::default(), Secret::new([3, 4]));
        let key = |number: u32| secret.key(&number.to_le_bytes());
        for i in 0..100_000u32 {
            heavy.count(key(if i % 2 == 0 { 0 } else { 1 + i % 1001 }));
        }
        assert!(heavy.exceeds(key(0), 0.4) && !heavy.exceeds(key(0), 0.6));
        assert!((1..1001).all(|number| !heavy.exceeds(key(number), 0.0)));
        // And forgotten once they are gone.
        (0..20_000).for_each(|i| heavy.count(key(5000 + i)));
        assert!(!heavy.exceeds(key(0), 0.0));
    }
}
