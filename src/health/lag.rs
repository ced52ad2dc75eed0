//! How long this worker's own event loop has been held up: what servers must not be blamed for.
//!
//! Measured by a timer that should have fired; counted from the worker's start, so that a probe can tell what fell into its time.

use labor_core::time::{Micros, SECOND, since};

/// Timers are late by some milliseconds on any busy machine: nothing that matters to a probe.
const USUAL: Micros = SECOND / 30;

/// See the module.
#[derive(Default)]
pub struct Lag {
    /// When the timer is to fire next; 0 when it is not known.
    planned: Micros,
    total: Micros,
}

impl Lag {
    /// The timer is to fire at `at`.
    pub fn plan(&mut self, at: Micros) {
        self.planned = at;
    }

    /// How long the loop was held up until `now`, in all, µs: the present time counts as soon as the timer is late.
    pub fn total(&self, now: Micros) -> Micros {
        let late = if self.planned == 0 { 0 } else { since(self.planned, now) };
        self.total.saturating_add(if late > USUAL { late } else { 0 })
    }

    /// The timer fires at `now`.
    pub fn fired(&mut self, now: Micros) {
        self.total = self.total(now);
        self.planned = 0;
    }
}
