//! A discrete-event simulation of model servers behind balancers: the court in which the law of `labor-core` is judged.
//!
//! It drives the production core through its public interface (the same pick and the same attempt that the module
//! runs) beside competitors written from their public definitions, on the same arrivals and the same request sizes.
//! No I/O but scenario files, no clock, no entropy: everything follows from a scenario and a seed.

pub mod arrivals;
pub mod compare;
pub mod dist;
pub mod engine;
pub mod log;
pub mod plot;
pub mod policy;
pub mod queue;
pub mod random;
pub mod scenario;
pub mod server;
pub mod shipped;
pub mod stats;

pub use engine::run;
pub use policy::Kind;
pub use scenario::Scenario;
pub use stats::Summary;

/// Nanoseconds of simulated time since the start of a run.
pub type Nanos = u64;

/// Nanoseconds in a second.
pub const SECOND: f64 = 1e9;

/// Nanoseconds in a millisecond.
pub const MILLI: f64 = 1e6;

/// A seed of an independent stream: `seed` and the stream's `number` mixed so that neighbours share no bits.
pub fn stream(seed: u64, number: u64) -> u64 {
    // splitmix64's finaliser (Steele, Lea, Flood 2014).
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
