//! The interleavings of what says how a server or a list stands: breakers, trials, ramps.

use super::explore_all;
use crate::breaker;
use crate::group::Group;
use crate::params::BreakerParams;
use crate::peer::Peer;
use crate::ramp;
use crate::sync::Ordering;
use crate::time::SECOND;
use loom::sync::Arc;
use loom::thread;

/// Two workers that find too many breakers open let back the one that is open the longest, and no other one.
/// Mutant: `let_back` without the look at what was seen closes a breaker that has opened again meanwhile.
#[test]
fn a_breaker_is_let_back_as_it_was_seen() {
    explore_all(3, || {
        let peer = Arc::new(Peer::default());
        let params = BreakerParams::default();
        assert!(breaker::open(&peer, &params, SECOND));
        let seen = breaker::State::of(&peer);
        let worker = {
            let peer = Arc::clone(&peer);
            thread::spawn(move || {
                breaker::let_back(&peer, seen, 2 * SECOND);
                breaker::open(&peer, &BreakerParams::default(), 3 * SECOND)
            })
        };
        breaker::let_back(&peer, seen, 2 * SECOND);
        assert!(worker.join().unwrap());
        let state = breaker::State::of(&peer);
        assert_eq!((state.phase, state.trips, state.since), (breaker::Phase::Open, 2, 3 * SECOND));
    });
}

/// A worker whose trial outlived its lease does not end the next one.
/// Mutant: a plain store of 0 in `trial_ends`.
#[test]
fn a_trial_is_ended_by_whoever_began_it() {
    explore_all(3, || {
        let peer = Arc::new(Peer::default());
        breaker::trial_begins(&peer, SECOND);
        let worker = {
            let peer = Arc::clone(&peer);
            thread::spawn(move || breaker::trial_ends(&peer, SECOND))
        };
        breaker::trial_begins(&peer, 400 * SECOND);
        worker.join().unwrap();
        // Only a read-modify-write is sure to see the last of two stores that nothing orders.
        assert_eq!(peer.trial.swap(0, Ordering::AcqRel), 400 * SECOND);
    });
}

/// A ramp begins once, by the counters of whoever began it.
/// Mutant: a store in place of the exchange in `ramp::begin` begins it at either's time.
#[test]
fn a_ramp_begins_once() {
    explore_all(3, || {
        let (peer, group) = (Arc::new(Peer::default()), Arc::new(Group::default()));
        let worker = {
            let (peer, group) = (Arc::clone(&peer), Arc::clone(&group));
            thread::spawn(move || ramp::begin(&peer, &group, 10 * SECOND, SECOND))
        };
        ramp::begin(&peer, &group, 10 * SECOND, SECOND + 1);
        let first = peer.ramp_start.load(Ordering::Acquire);
        worker.join().unwrap();
        assert_eq!(peer.ramp_start.load(Ordering::Acquire), first);
        assert!(ramp::is_under_way(&peer));
    });
}
