//! Time as this crate sees it: microseconds of a monotonic clock, handed in by the caller.

/// Microseconds of CLOCK_MONOTONIC. 0 means "never".
pub type Micros = u64;

/// One second.
pub const SECOND: Micros = 1_000_000;

/// The time from `then` to `now`, 0 when the clocks of two workers disagree about the order.
pub const fn since(then: Micros, now: Micros) -> Micros {
    now.saturating_sub(then)
}

/// Microseconds as seconds.
pub fn seconds(t: Micros) -> f64 {
    t as f64 * 1e-6
}
