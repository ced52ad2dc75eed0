//! Copying what a record has learned into another mapping, when the memory's size changes.
//!
//! Here so that both records stand side by side and a new field cannot be forgotten: the patterns below name every field,
//! and the compiler asks about each new one. In-flight counts, generation, key and confirmation are not learned and stay.

use crate::explore::Savings;
use crate::group::Group;
use crate::peer::Peer;
use crate::sync::Ordering::{Acquire, Release};

/// Stores into each of the first what the second holds.
macro_rules! copy {
    ($to:expr, $($from:ident),+) => { $( $to.$from.store($from.load(Acquire), Release); )+ };
}

impl Peer {
    /// Takes over everything that `old` has learned, counted and been set. `old` may be in use; it is only read.
    pub fn carry_from(&self, old: &Self) {
        let Self {
            key: _,
            confirmed: _,
            generation: _,
            q: _,
            conns: _,
            trial: _,
            failure,
            answers,
            load,
            control,
            last_answer,
            busy_since,
            last_pick,
            timed_out,
            samples,
            thinning,
            buckets,
            recent,
            decayed,
            residual,
            residual_square,
            drift,
            surprises,
            surprised_from,
            surprised,
            long_mean,
            short_mean,
            last_trial,
            trial_pick,
            marks,
            breaker,
            window,
            ramp_start,
            ramp_picks,
            ramp_requests,
            last_change,
            requests,
            aborts,
            picks,
            failures,
        } = old;
        copy!(self, failure, answers, load, last_answer, busy_since, last_pick, timed_out, samples, decayed);
        copy!(self, surprises, surprised_from, surprised, thinning, control);
        copy!(self, residual, residual_square, drift, long_mean, short_mean, last_trial, trial_pick, last_change);
        copy!(self, requests, aborts, marks, breaker, window, ramp_start, ramp_picks, ramp_requests);
        let to = self.buckets.iter().chain(&self.recent).chain(&self.picks).chain(&self.failures);
        for (to, from) in to.zip(buckets.iter().chain(recent).chain(picks).chain(failures)) {
            to.store(from.load(Acquire), Release);
        }
    }
}

impl Group {
    /// Takes over everything that `old` has learned and counted. `old` may be in use; it is only read.
    pub fn carry_from(&self, old: &Self) {
        let Self {
            key: _,
            confirmed: _,
            evidence,
            dropped,
            variance,
            picks,
            last_safe,
            trial_pick,
            savings,
            failing,
            probe_gap,
            failed_open,
        } = old;
        copy!(self, evidence, dropped, variance, picks, last_safe, trial_pick, failing, probe_gap, failed_open);
        let Savings { visits, climbs, climb } = savings;
        copy!(self.savings, visits, climbs, climb);
    }
}
