//! What is known of one server, in shared memory: identity, in-flight totals, learned curve, failures, counters.

use crate::attempt::Failure;
use crate::balancer::Reason;
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Buckets of requests in flight at dispatch: 0, 1, 2, 3, then two per octave.
pub const BUCKETS: usize = 24;

/// One server, shared by all workers. Valid when zeroed.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Peer {
    /// Identity ([`crate::key::peer_key`]), 0 when free.
    pub key: AtomicU64,
    /// When a worker last confirmed that the server exists, µs.
    pub confirmed: AtomicU64,
    /// Grows whenever the slot changes hands: an attempt of an older generation books nothing here.
    pub generation: AtomicU32,
    /// Requests waiting for their latency sample, over all workers (may be negative for an instant: read saturated).
    pub q: AtomicI32,
    /// Requests holding a connection, over all workers.
    pub conns: AtomicI32,
    /// Failure level, f32 bits, 0–1.
    pub failure: AtomicU32,
    /// Answers since the slot was claimed or the server recovered, saturating: new servers are admitted slowly.
    pub answers: AtomicU32,
    /// Whether the last attempt ended in a time-out (1) or not (0).
    pub timed_out: AtomicU32,
    /// Packed (f32 evidence, f32 mean of ln seconds) per bucket.
    pub buckets: [AtomicU64; BUCKETS],
    /// When the evidence was last decayed, µs.
    pub decayed: AtomicU64,
    /// Decayed rate of samples: packed as the estimator needs.
    pub sample_rate: AtomicU64,
    /// Residuals e^(y − mean): packed (f32 weight, f32 sum).
    pub residual: AtomicU64,
    /// Long-run mean latency: packed (f32 weight, f32 mean seconds).
    pub long_mean: AtomicU64,
    /// When the server last answered anything, µs.
    pub last_answer: AtomicU64,
    /// When it was last picked, µs.
    pub last_pick: AtomicU64,
    /// When a trial of it last began, µs.
    pub last_trial: AtomicU64,
    /// The group's count of picks at that trial.
    pub trial_pick: AtomicU64,
    /// Why its standing last changed: packed (when in µs << 8 | code of a [`crate::report::Change`]).
    pub last_change: AtomicU64,
    /// Attempts sent to it.
    pub requests: AtomicU64,
    /// Client aborts.
    pub aborts: AtomicU64,
    /// Attempts by reason of the pick.
    pub picks: [AtomicU64; Reason::COUNT],
    /// Failures by kind.
    pub failures: [AtomicU64; Failure::COUNT],
}

impl Peer {
    /// Requests waiting for their sample, saturated at 0.
    pub fn queue(&self) -> u32 {
        self.q.load(Ordering::Acquire).max(0).unsigned_abs()
    }

    /// Connections held, saturated at 0.
    pub fn connections(&self) -> u32 {
        self.conns.load(Ordering::Acquire).max(0).unsigned_abs()
    }

    /// Makes a claimed slot a new server's: everything learned goes, the key stays, attempts under way book nothing.
    ///
    /// Call only when nothing is in flight here and the caller holds the claim on `key`.
    pub fn reset(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        for word in [
            &self.decayed,
            &self.sample_rate,
            &self.residual,
            &self.long_mean,
            &self.last_answer,
            &self.last_pick,
            &self.last_trial,
            &self.trial_pick,
            &self.last_change,
            &self.requests,
            &self.aborts,
        ] {
            word.store(0, Ordering::Release);
        }
        for word in self.buckets.iter().chain(&self.picks).chain(&self.failures) {
            word.store(0, Ordering::Release);
        }
        for word in [&self.failure, &self.answers, &self.timed_out] {
            word.store(0, Ordering::Release);
        }
        self.q.store(0, Ordering::Release);
        self.conns.store(0, Ordering::Release);
    }
}
