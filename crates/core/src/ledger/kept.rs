//! What whoever looks after a server remembers of it from one look to the next.
//!
//! In shared memory, so that another worker can go on. Words only; the rules of looking are the keeper's.

use super::state::{State, standing};
use crate::events::ADDRESS;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::Micros;

/// A keeper's memory of a server: words, of which it alone makes sense.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Kept {
    /// Slot of its list's record plus one; 0 before the first look.
    pub list: AtomicU32,
    /// The weight that held at the last look.
    pub weight: AtomicU32,
    /// The `max_conns` that held at the last look.
    pub max_conns: AtomicU32,
    /// Latency when idle that was last told, µs; 0 when none was.
    pub told_us: AtomicU32,
    /// How many answers stood behind that.
    pub told_samples: AtomicU32,
    /// A change of speed that has not lasted long enough to be told: since when in µs << 8 | event; 0 for none.
    pub turning: AtomicU64,
    /// The last change of speed that was told: likewise.
    pub told_speed: AtomicU64,
    /// When it was last seen in its list, µs.
    pub seen: AtomicU64,
    /// The state that was last told, and when: as [`super::Ledger`] keeps states.
    pub(super) told: AtomicU64,
    pub(super) address: [AtomicU64; ADDRESS / 8],
}

impl Kept {
    /// The state that was last told, and when (µs).
    pub fn told(&self) -> (Option<State>, Micros) {
        let word = self.told.load(Ordering::Acquire);
        (standing(word).map(|s| s.state), word >> 8)
    }

    /// Remembers what was told at `now`.
    pub fn set_told(&self, state: State, now: Micros) {
        self.told.store(now << 8 | state as u64, Ordering::Release);
    }

    /// Remembers the speed that is known, told or not: µs when idle, and how many answers stand behind it.
    pub fn set_speed(&self, idle: u32, samples: u32) {
        self.told_us.store(idle, Ordering::Release);
        self.told_samples.store(samples, Ordering::Release);
    }

    /// Remembers the address, cut to [`ADDRESS`] bytes.
    pub fn set_address(&self, address: &[u8]) {
        let mut bytes = [0; ADDRESS];
        for (place, byte) in bytes.iter_mut().zip(address) {
            *place = *byte;
        }
        for (word, bytes) in self.address.iter().zip(bytes.chunks_exact(8)) {
            word.store(bytes.try_into().map_or(0, u64::from_le_bytes), Ordering::Release);
        }
    }

    /// The address as it was remembered.
    pub fn address(&self) -> Vec<u8> {
        let bytes = self.address.iter().flat_map(|word| word.load(Ordering::Acquire).to_le_bytes());
        bytes.take_while(|byte| *byte != 0).collect()
    }
}
