//! When requests come: a burst, a Poisson stream, or the times of a log.

use crate::scenario::Scenario;
use crate::{Nanos, SECOND};
use labor_core::rng::Rng;

/// When requests come.
#[derive(Debug)]
pub struct Arrivals {
    rng: Rng,
    burst: u32,
    clock: f64,
    next: usize,
}

impl Arrivals {
    /// Of a run of `scenario`, random by `rng`.
    pub fn new(scenario: &Scenario, rng: Rng) -> Self {
        Self { rng, burst: scenario.burst, clock: 0.0, next: 0 }
    }

    /// The next arrival, and where the log says it went.
    pub fn next(&mut self, scenario: &Scenario) -> Option<(Nanos, u32)> {
        if !scenario.arrivals.is_empty() {
            self.next += 1;
            return scenario.arrivals.get(self.next - 1).copied();
        }
        if self.burst > 0 {
            self.burst -= 1;
        } else {
            self.clock += -(1.0 - self.rng.unit()).ln() * SECOND / scenario.rate;
        }
        Some((self.clock as Nanos, u32::MAX))
    }
}
