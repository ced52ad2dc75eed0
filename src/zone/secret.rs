//! The zone's secret, by which keys are hashed: drawn once by whoever needs it first, kept over reloads.
//!
//! Here because it must outlive every worker and every configuration. Not here: what is hashed (`labor_core::affinity`).

use core::sync::atomic::{AtomicU64, Ordering};

use labor_core::affinity::Secret;

use super::View;
use super::layout::Map;

impl View {
    /// The secret; `draw` makes 64 random bits, should nobody have made it yet.
    pub fn secret(&self, draw: impl Fn() -> u64) -> Secret {
        Secret::new(self.0.map.header.secret.each_ref().map(|word| settle(word, draw().max(1))))
    }
}

/// Zero is nothing yet: whoever comes first decides for all.
fn settle(word: &AtomicU64, drawn: u64) -> u64 {
    match word.compare_exchange(0, drawn, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => drawn,
        Err(known) => known,
    }
}

/// Copies the secret of `old`, in use or not, to memory of another size that takes its place.
pub fn carry(old: &Map, new: &Map, draw: impl Fn() -> u64) {
    for (old, new) in old.header.secret.iter().zip(&new.header.secret) {
        // Drawn there if nobody has: a worker that does so later would have another one.
        new.store(settle(old, draw().max(1)), Ordering::Release);
    }
}
