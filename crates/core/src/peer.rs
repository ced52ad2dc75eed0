//! What is known of one server, in shared memory: identity, in-flight totals, learned curve, failures, counters.

use crate::attempt::Failure;
use crate::balancer::Reason;
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Buckets of requests in flight at dispatch: 0, 1, 2, 3, then two per octave.
pub const BUCKETS: usize = 24;

/// How many of a server's last samples set the half-life of its evidence.
pub const RECENT: usize = 20;

/// A ramp is under way ([`crate::ramp`]).
pub const RAMPING: u32 = 1;
/// The breaker is not closed ([`crate::breaker`]).
pub const BROKEN: u32 = 2;
/// Checks say that it is not to be used ([`crate::check`]).
pub const UNHEALTHY: u32 = 4;

/// One server, shared by all workers. Valid when zeroed.
///
/// The first cache line holds what every pick reads.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Peer {
    /// Requests waiting for their latency sample, over all workers (may be negative for an instant: read saturated).
    pub q: AtomicI32,
    /// Requests holding a connection, over all workers.
    pub conns: AtomicI32,
    /// Failure level, f32 bits, 0–1.
    pub failure: AtomicU32,
    /// Answers since the slot was claimed or the server recovered, saturating: new servers are admitted slowly.
    pub answers: AtomicU32,
    /// Load-report factor g, f32 bits, 0.1–2; 0 bits stand for the neutral 1.
    pub load: AtomicU32,
    /// Grows whenever the slot changes hands: an attempt of an older generation books nothing here.
    pub generation: AtomicU32,
    /// When the server last answered anything, µs.
    pub last_answer: AtomicU64,
    /// When its queue last stopped being empty, µs: quiet time of an idle server is no silence.
    pub busy_since: AtomicU64,
    /// When it was last picked, µs.
    pub last_pick: AtomicU64,
    /// Whether the last attempt ended in a time-out (1) or not (0).
    pub timed_out: AtomicU32,
    /// Latency samples so far, wrapping: where the next one goes in `recent`.
    pub samples: AtomicU32,
    /// One in 2^thinning answers is looked at once a bucket has enough evidence.
    pub thinning: AtomicU32,
    /// [`RAMPING`], [`BROKEN`] and [`UNHEALTHY`], as far as they hold.
    pub marks: AtomicU32,
    /// Identity ([`crate::key::peer_key`]), 0 when free.
    pub key: AtomicU64,
    /// When a worker last confirmed that the server exists, µs.
    pub confirmed: AtomicU64,
    /// What was set for it at run time, packed ([`crate::control`]); 0 for nothing.
    pub control: AtomicU64,
    /// Packed (f32 evidence, f32 mean of ln seconds) per bucket.
    pub buckets: [AtomicU64; BUCKETS],
    /// When the last samples were taken, µs.
    pub recent: [AtomicU64; RECENT],
    /// When the evidence was last decayed, µs.
    pub decayed: AtomicU64,
    /// Residuals e^(y − mean): packed (f32 weight, f32 sum).
    pub residual: AtomicU64,
    /// Their squares: packed (f32 weight, f32 sum).
    pub residual_square: AtomicU64,
    /// Mean of the last residuals y − mean: packed (f32 weight, f32 mean); far from 0 the curve is still moving.
    pub drift: AtomicU64,
    /// Answers in a row that surprised to the same side: packed (f32 count with the side's sign, f32 mean residual).
    pub surprises: AtomicU64,
    /// When the first of those was asked for, µs.
    pub surprised_from: AtomicU64,
    /// When the last of those came, µs.
    pub surprised: AtomicU64,
    /// Long-run mean latency: packed (f32 weight, f32 mean seconds).
    pub long_mean: AtomicU64,
    /// Mean latency over the last half-life: packed (f32 weight, f32 mean seconds).
    pub short_mean: AtomicU64,
    /// When a trial of it last began, or when it was lowered, µs.
    pub last_trial: AtomicU64,
    /// When the trial under way began, µs; 0 when there is none ([`crate::breaker`]).
    pub trial: AtomicU64,
    /// The group's count of picks at that trial.
    pub trial_pick: AtomicU64,
    /// Its breaker, packed ([`crate::breaker::State`]); 0 is closed.
    pub breaker: AtomicU64,
    /// Attempts and failures that the breaker counts, packed.
    pub window: AtomicU64,
    /// When its last ramp began, µs; 0 before the first.
    pub ramp_start: AtomicU64,
    /// The group's count of picks then.
    pub ramp_picks: AtomicU64,
    /// Its own count of attempts then.
    pub ramp_requests: AtomicU64,
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

    /// Failure level, 0 (well) to 1 (every attempt fails).
    pub fn failure_level(&self) -> f32 {
        f32::from_bits(self.failure.load(Ordering::Acquire))
    }

    /// Nothing in flight, not failing, warm, and asking for neither more nor less than its share.
    pub(crate) fn is_idle_and_well(&self) -> bool {
        let marks = self.failure.load(Ordering::Acquire)
            | self.load.load(Ordering::Relaxed)
            | self.marks.load(Ordering::Relaxed);
        marks == 0 && self.q.load(Ordering::Acquire) <= 0
    }

    /// Load-report factor g, 0.1–2; 1 without a report. Below 1 the server asks for less.
    pub fn load_factor(&self) -> f32 {
        match self.load.load(Ordering::Relaxed) {
            0 => 1.0,
            bits => f32::from_bits(bits),
        }
    }

    /// Sets the load-report factor, clamped to 0.1–2; what is no number counts as no report.
    pub fn set_load_factor(&self, g: f32) {
        let bits = if g.is_finite() { g.clamp(0.1, 2.0).to_bits() } else { 0 };
        self.load.store(bits, Ordering::Relaxed);
    }

    /// Since when the server has been quiet with requests in flight, µs.
    pub(crate) fn quiet_since(&self) -> u64 {
        self.last_answer.load(Ordering::Relaxed).max(self.busy_since.load(Ordering::Relaxed))
    }

    /// Makes a claimed slot a new server's: everything learned and set goes, the key stays, attempts under way book nothing.
    ///
    /// Call only when the caller holds the claim on `key`, and when nothing is in flight as far as it can know. The
    /// totals in flight stay: they are the sums of the cells, and an attempt that slipped in gives its place back itself.
    pub fn reset(&self) {
        self.control.store(0, Ordering::Release);
        self.forget();
    }

    /// Forgets everything learned and counted, and keeps what was set: attempts under way book nothing.
    pub fn forget(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        for word in [
            &self.decayed,
            &self.residual,
            &self.residual_square,
            &self.drift,
            &self.surprises,
            &self.surprised_from,
            &self.surprised,
            &self.long_mean,
            &self.short_mean,
            &self.last_answer,
            &self.busy_since,
            &self.last_pick,
            &self.last_trial,
            &self.trial,
            &self.trial_pick,
            &self.breaker,
            &self.window,
            &self.ramp_start,
            &self.ramp_picks,
            &self.ramp_requests,
            &self.last_change,
            &self.requests,
            &self.aborts,
        ] {
            word.store(0, Ordering::Release);
        }
        for word in self.buckets.iter().chain(&self.recent).chain(&self.picks).chain(&self.failures) {
            word.store(0, Ordering::Release);
        }
        for word in [&self.failure, &self.answers, &self.load, &self.timed_out] {
            word.store(0, Ordering::Release);
        }
        for word in [&self.samples, &self.thinning, &self.marks] {
            word.store(0, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_fits_a_kibibyte() {
        assert!(size_of::<Peer>() <= 1024, "{}", size_of::<Peer>());
    }

    #[test]
    fn what_a_pick_reads_is_in_the_first_line() {
        assert!(core::mem::offset_of!(Peer, marks) < 64);
    }

    #[test]
    fn reset_forgets_what_was_learned_and_keeps_what_is_in_flight() {
        let peer = Peer::default();
        peer.failure.store(0.5f32.to_bits(), Ordering::Release);
        peer.q.store(1, Ordering::Release);
        peer.set_load_factor(0.5);
        peer.reset();
        assert_eq!((peer.failure_level(), peer.load_factor(), peer.queue()), (0.0, 1.0, 1));
        assert_eq!(peer.generation.load(Ordering::Acquire), 1);
    }

    #[test]
    fn load_factors_out_of_range_are_clamped() {
        let peer = Peer::default();
        for (given, kept) in [(9.0, 2.0), (0.0, 0.1), (f32::NAN, 1.0), (-1.0, 0.1)] {
            peer.set_load_factor(given);
            assert_eq!(peer.load_factor(), kept);
        }
    }
}
