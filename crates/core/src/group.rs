//! What one list of an upstream shares over all workers: pooled variance, evidence clock, request counters.

use crate::sync::{AtomicU32, AtomicU64};

/// One list (primary or backup servers) of one upstream, in shared memory. Valid when zeroed.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Group {
    /// Identity ([`crate::key::group_key`]), 0 when free.
    pub key: AtomicU64,
    /// When a worker last confirmed that the list exists, µs.
    pub confirmed: AtomicU64,
    /// Grows with every sample or change of failure level: tables older than this are rebuilt.
    pub evidence: AtomicU32,
    /// Samples dropped after four lost races.
    pub dropped: AtomicU32,
    /// Pooled variance of ln(latency) around bucket means, packed as (weight, sum of squares).
    pub variance: AtomicU64,
    /// Picks since start: the clock of trials.
    pub picks: AtomicU64,
    /// When the last safe (GET, HEAD, OPTIONS) request was seen, µs.
    pub last_safe: AtomicU64,
}
