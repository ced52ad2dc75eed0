//! Every order in which workers can meet at a shared word, explored by loom (`RUSTFLAGS="--cfg loom"`).
//!
//! Each test names the mutant that it kills, tried by hand: a change of the code under test that lets it fail.

mod records;
mod standing;

use crate::breaker;
use crate::check::Check;
use crate::control::{Patch, State};
use crate::evidence;
use crate::explore;
use crate::group::Group;
use crate::inflight::{Cell, reclaim, release_conns, release_q, take};
use crate::pair;
use crate::params::{BreakerParams, CheckParams, Params};
use crate::peer::Peer;
use crate::sync::{AtomicU64, Ordering};
use crate::time::SECOND;
use loom::sync::Arc;
use loom::thread;

fn explore_all(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Two or three forced switches find practically all races; without a bound the larger models take hours.
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// However two workers' last straws meet, a breaker opens once and counts one trip.
/// Mutant: a load and a store in place of the exchange in `replace` counts both.
#[test]
fn a_breaker_opens_once() {
    explore_all(3, || {
        let peer = Arc::new(Peer::default());
        let open = |peer: &Peer| breaker::open(peer, &BreakerParams::default(), 9 * SECOND);
        let worker = {
            let peer = Arc::clone(&peer);
            thread::spawn(move || open(&peer))
        };
        let mine = open(&peer);
        assert_ne!(mine, worker.join().unwrap());
        let state = breaker::State::of(&peer);
        assert!((state.phase, state.trips) == (breaker::Phase::Open, 1) && breaker::is_broken(&peer));
    });
}

/// Two workers never probe a server in the same turn, and a result that comes after somebody has taken over is dropped.
/// Mutant: a load and a store in place of the exchange in `claim` lets both have it.
#[test]
fn a_probe_is_one_workers() {
    explore_all(3, || {
        let check = Arc::new(Check::default());
        let (params, now) = (CheckParams::default(), 100 * SECOND);
        let claim = move |check: &Check, own| check.claim(own, &params, now, now + 5 * SECOND);
        let worker = {
            let check = Arc::clone(&check);
            thread::spawn(move || claim(&check, 1))
        };
        let mine = claim(&check, 0);
        let theirs = worker.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} {theirs:?}");
        assert!(mine.or(theirs).is_some_and(|turn| check.holds(turn)));
        let late = now + 7 * SECOND + SECOND / 2;
        let next = check.claim(2, &params, late, late + 5 * SECOND);
        assert!(next.is_some() && !mine.or(theirs).is_some_and(|turn| check.holds(turn)));
    });
}

/// Totals are the sums of the cells whenever a reclaim says that they are exact.
/// Mutant: without the second look at the sequence numbers a take between sum and swap is counted twice.
#[test]
fn reclaim_is_exact_beside_a_taking_worker() {
    explore_all(3, || {
        let peer = Arc::new(Peer::default());
        let cells = Arc::new([Cell::default(), Cell::default()]);
        take(&cells[1], &peer);
        let worker = {
            let (peer, cells) = (Arc::clone(&peer), Arc::clone(&cells));
            thread::spawn(move || take(&cells[0], &peer))
        };
        let exact = reclaim(&peer, &cells[1], cells.iter());
        worker.join().unwrap();
        if exact {
            assert_eq!((peer.queue(), peer.connections()), (1, 1));
        }
        // Whatever was given up is put right by the next call.
        assert!(reclaim(&peer, &cells[1], cells.iter()));
        assert_eq!((peer.queue(), peer.connections()), (1, 1));
    });
}

/// Mutant: releasing without marks lets a reclaim count the freed request for ever.
#[test]
fn reclaim_is_exact_beside_a_releasing_worker() {
    explore_all(3, || {
        let peer = Arc::new(Peer::default());
        let cells = Arc::new([Cell::default(), Cell::default()]);
        take(&cells[0], &peer);
        take(&cells[1], &peer);
        let worker = {
            let (peer, cells) = (Arc::clone(&peer), Arc::clone(&cells));
            thread::spawn(move || {
                release_q(&cells[0], &peer);
                release_conns(&cells[0], &peer);
            })
        };
        let exact = reclaim(&peer, &cells[1], cells.iter());
        worker.join().unwrap();
        if exact {
            assert_eq!((peer.q.load(Ordering::Acquire), peer.conns.load(Ordering::Acquire)), (0, 0));
        }
    });
}

/// Mutant: a plain subtraction of the dead worker's cell is done twice when two workers notice the death.
#[test]
fn two_workers_may_notice_one_death() {
    explore_all(3, || {
        let peer = Arc::new(Peer::default());
        let cells = Arc::new([Cell::default(), Cell::default()]);
        take(&cells[0], &peer);
        take(&cells[1], &peer);
        let other = {
            let (peer, cells) = (Arc::clone(&peer), Arc::clone(&cells));
            thread::spawn(move || reclaim(&peer, &cells[1], cells.iter()))
        };
        reclaim(&peer, &cells[1], cells.iter());
        other.join().unwrap();
        reclaim(&peer, &cells[1], cells.iter());
        assert_eq!((peer.queue(), peer.connections()), (1, 1));
    });
}

/// Mutant: load and store instead of compare-and-swap loses one of two samples.
#[test]
fn two_samples_of_a_bucket_both_count() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(0));
        let other = {
            let word = Arc::clone(&word);
            thread::spawn(move || pair::add_mean(&word, 1.0, 40.0))
        };
        pair::add_mean(&word, 3.0, 40.0);
        other.join().unwrap();
        assert_eq!(pair::read(&word), (2.0, 2.0));
    });
}

/// Mutant: storing the stamp instead of swapping it decays twice.
#[test]
fn evidence_decays_once_for_all_workers() {
    explore_all(2, || {
        let (peer, group) = (Arc::new(Peer::default()), Arc::new(Group::default()));
        let params = Params { half_life: 100 * SECOND, ..Params::default() };
        peer.buckets[0].store(pair::pack(16.0, -3.0), Ordering::Release);
        peer.decayed.store(SECOND, Ordering::Release);
        let book = move |peer: &Peer, group: &Group| {
            let kind = evidence::Sample::Exact;
            evidence::book((peer, group), &params, (1, 0.0), (1000, kind), 101 * SECOND);
        };
        let other = {
            let (peer, group) = (Arc::clone(&peer), Arc::clone(&group));
            thread::spawn(move || book(&peer, &group))
        };
        book(&peer, &group);
        other.join().unwrap();
        assert_eq!(pair::read(&peer.buckets[0]).0, 8.0);
        let fresh = pair::read(&peer.buckets[1]).0;
        assert!((1.0..=2.0).contains(&fresh), "{fresh}");
    });
}

/// Mutant: computing the level from an earlier load loses one of two failures.
#[test]
fn two_failures_both_raise_the_level() {
    explore_all(3, || {
        let (peer, group) = (Arc::new(Peer::default()), Arc::new(Group::default()));
        let other = {
            let (peer, group) = (Arc::clone(&peer), Arc::clone(&group));
            thread::spawn(move || evidence::failed(&peer, &group, false, SECOND))
        };
        evidence::failed(&peer, &group, false, SECOND);
        other.join().unwrap();
        assert!((peer.failure_level() - 0.46).abs() < 1e-6);
    });
}

/// Mutant: storing the time instead of swapping it lets both workers explore.
#[test]
fn one_worker_explores_a_server() {
    loom::model(|| {
        let peer = Arc::new(Peer::default());
        let other = {
            let peer = Arc::clone(&peer);
            thread::spawn(move || explore::claim(&peer, 0, SECOND))
        };
        let mine = explore::claim(&peer, 0, SECOND);
        assert!(mine ^ other.join().unwrap());
    });
}

/// Mutant: as above, for trials.
#[test]
fn one_worker_tries_a_lowered_server() {
    loom::model(|| {
        let (peer, group) = (Arc::new(Peer::default()), Arc::new(Group::default()));
        let attempt = |peer: &Peer, group: &Group| {
            let due = explore::trial_due(peer, group, (explore::Consent::Any, None), 9 * SECOND);
            due.is_some_and(|seen| explore::claim_trial(peer, group, seen, 9 * SECOND))
        };
        let other = {
            let (peer, group) = (Arc::clone(&peer), Arc::clone(&group));
            thread::spawn(move || attempt(&peer, &group))
        };
        let mine = attempt(&peer, &group);
        let theirs = other.join().unwrap();
        assert!(mine ^ theirs, "{mine} {theirs}");
    });
}

/// Two changes of what is set for a server both count, and no worker ever sees half of one.
/// Mutant: a plain store instead of the compare-and-swap loses one.
#[test]
fn two_changes_of_a_server_both_count_and_are_whole() {
    explore_all(3, || {
        let peer = Arc::new(Peer::default());
        let other = {
            let peer = Arc::clone(&peer);
            thread::spawn(move || {
                let down = Some(Some(State::Down));
                peer.set_control(&Patch { state: down, max_conns: Some(Some(3)), ..Patch::default() });
            })
        };
        peer.set_control(&Patch { weight: Some(Some(7)), ..Patch::default() });
        let seen = peer.control();
        assert_eq!((seen.weight.map(|w| w.value), seen.state.is_some()), (Some(7), seen.max_conns.is_some()));
        other.join().unwrap();
        let end = peer.control();
        assert!(end.weight.is_some() && end.state.is_some() && end.max_conns.is_some(), "{end:?}");
    });
}
