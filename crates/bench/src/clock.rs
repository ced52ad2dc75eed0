//! The one place of this crate that reads the clock.
//!
//! Everything else takes an `Instant` or calls [`now`], so that a search for clock reads finds one line.

use std::time::Instant;

/// The monotonic clock, nanosecond resolution.
#[allow(clippy::disallowed_methods, reason = "a bench measures time itself; the rule protects the module and the core")]
pub fn now() -> Instant {
    Instant::now()
}
