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
    /// The last change of its standing that was looked at, as in [`crate::peer::Peer::last_change`].
    pub change: AtomicU64,
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

    /// Forgets what it knows of the server's speed.
    pub fn forget_speed(&self) {
        self.set_speed(0, 0);
        [&self.change, &self.turning, &self.told_speed].into_iter().for_each(|word| word.store(0, Ordering::Release));
    }

    /// Makes it the memory of the server at `address`, of which [`ADDRESS`] bytes are kept: empty if it was another's.
    pub fn belongs_to(&self, address: &[u8]) {
        let mut bytes = [0; ADDRESS];
        for (place, byte) in bytes.iter_mut().zip(address) {
            *place = *byte;
        }
        let words = || bytes.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
        if self.address.iter().zip(words()).any(|(kept, word)| kept.load(Ordering::Acquire) != word) {
            self.carry_from(&Self::default());
            self.address.iter().zip(words()).for_each(|(kept, word)| kept.store(word, Ordering::Release));
        }
    }

    /// Takes over what `old` remembers, but not where lists are kept: that is another place in other memory.
    pub(super) fn carry_from(&self, old: &Self) {
        for (to, from) in self.words().zip(old.words()) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        for (to, from) in self.halves().into_iter().zip(old.halves()) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        self.list.store(0, Ordering::Release);
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let Self { change, turning, told_speed, seen, told, address, .. } = self;
        [change, turning, told_speed, seen, told].into_iter().chain(address)
    }

    fn halves(&self) -> [&AtomicU32; 4] {
        let Self { weight, max_conns, told_us, told_samples, .. } = self;
        [weight, max_conns, told_us, told_samples]
    }

    /// The address as it was remembered.
    pub fn address(&self) -> Vec<u8> {
        let bytes = self.address.iter().flat_map(|word| word.load(Ordering::Acquire).to_le_bytes());
        bytes.take_while(|byte| *byte != 0).collect()
    }
}
