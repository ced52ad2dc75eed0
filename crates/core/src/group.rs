//! What one list of an upstream shares over all workers: pooled variance, evidence clock, request counters.

use crate::explore::Savings;
use crate::pair;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::{Micros, SECOND, since};
use crate::tuning::{tuned, value};

tuned! {
/// The variance starts as so many pseudo-samples …
const PRIOR_WEIGHT: f64 = 20.0;
/// … of this variance: a factor of e^±0.5 around the mean, what web servers show.
const PRIOR_VARIANCE: f64 = 0.25;
/// No server is steadier than five per cent: clocks and networks are not.
const LEAST_VARIANCE: f64 = 0.05 * 0.05;
}

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
    /// When the last safe (GET, HEAD, OPTIONS) request was seen, or the first of any kind, µs.
    pub last_safe: AtomicU64,
    /// `picks` at the last trial of any server: trials of many lowered servers take turns.
    pub trial_pick: AtomicU64,
    /// Share of the last attempts that failed, where breakers ask: packed (f32 weight, f32 mean).
    pub failing: AtomicU64,
    /// Mean of ln(answer) − ln(probe) over its servers: packed (f32 weight, f32 mean) ([`crate::check`]).
    pub probe_gap: AtomicU64,
    /// When a server was last used though nobody was usable, µs; 0 for never.
    pub failed_open: AtomicU64,
    /// What the workers have saved for exploring.
    pub savings: Savings,
}

/// Nobody usable counts as over after this time without.
const FAIL_OPEN: Micros = 10 * SECOND;

impl Group {
    /// Notes that a server is used at `now` though nobody is usable; says whether that is news.
    pub fn fail_open(&self, now: Micros) -> bool {
        let before = self.failed_open.swap(now.max(1), Ordering::AcqRel);
        before == 0 || since(before, now) >= FAIL_OPEN
    }

    /// Whether that has happened within the last ten seconds.
    pub fn is_failing_open(&self, now: Micros) -> bool {
        let last = self.failed_open.load(Ordering::Acquire);
        last != 0 && since(last, now) < FAIL_OPEN
    }

    /// Forgets what the list's servers have taught and has every worker make its curves anew. The clocks of trials and of
    /// safe requests go on.
    pub fn forget(&self) {
        self.variance.store(0, Ordering::Release);
        self.failing.store(0, Ordering::Release);
        self.probe_gap.store(0, Ordering::Release);
        self.evidence.fetch_add(1, Ordering::AcqRel);
    }

    /// s²: variance of ln(latency) around its bucket's mean, pooled over the group, with its prior.
    pub fn pooled_variance(&self) -> f64 {
        let (weight, sum) = pair::read(&self.variance);
        let pooled = (PRIOR_WEIGHT * PRIOR_VARIANCE + f64::from(sum)) / (PRIOR_WEIGHT + f64::from(weight));
        pooled.max(value(LEAST_VARIANCE))
    }
}
