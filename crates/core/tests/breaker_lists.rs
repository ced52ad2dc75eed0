//! Breakers beside what else happens: old downloads, workers that die, lists that change.
#![cfg(not(loom))]
#![allow(clippy::indexing_slicing, reason = "tests")]

#[path = "common/breaking.rs"]
mod breaking;
mod common;

use breaking::{MS, params, until_open, world};
use common::{GET, World};
use labor_core::breaker::{Phase, State, TRIAL_LEASE, is_broken};
use labor_core::params::BreakerParams;
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Outcome, Params, Policy};

const SECOND: u64 = 1_000_000;

/// A download that began before the opening does not keep trials away; and a trial does, which is no download.
#[test]
fn a_trial_does_not_wait_for_an_old_download() {
    for count in [4, 300] {
        let mut world = world(count);
        let download = loop {
            let (choice, attempt) = world.begin(GET).unwrap();
            if choice.index == 1 {
                break attempt;
            }
            world.finish(attempt, Outcome::Pass);
        };
        until_open(&mut world, 1);
        let before = world.peers[1].requests.load(Relaxed);
        let opened = world.now;
        while world.peers[1].requests.load(Relaxed) == before {
            world.one(GET, |_| MS, |_| Outcome::Pass);
            world.now += MS;
            assert!(world.now < opened + 20 * SECOND, "{count}: no trial beside a download");
        }
        // The next trial hangs: nobody else until its lease is over, as its worker may have died.
        let mut hanging = Vec::new();
        let mut began = 0;
        while hanging.len() < 2 {
            let (choice, attempt) = world.begin(GET).unwrap();
            if choice.index == 1 {
                assert!(hanging.is_empty() || world.now - began >= TRIAL_LEASE, "{count}: two at once");
                began = world.now;
                hanging.push(attempt);
            } else {
                world.finish(attempt, Outcome::Pass);
            }
            world.now += 20 * MS;
            assert!(began == 0 || world.now - began < TRIAL_LEASE + 20 * SECOND, "{count}: never tried again");
        }
        for attempt in hanging {
            world.finish(attempt, Outcome::Pass);
        }
        world.finish(download, Outcome::Pass);
        assert_eq!((world.peers[1].queue(), world.peers[1].trial.load(Relaxed)), (0, 0));
    }
}

/// A worker that died with the trial gives its place back, and with it the trial.
#[test]
fn a_trial_whose_worker_died_is_no_trial() {
    let mut world = world(4);
    until_open(&mut world, 1);
    let _lost = loop {
        let (choice, attempt) = world.begin(GET).unwrap();
        world.now += 2 * MS;
        if choice.index == 1 {
            break attempt;
        }
        world.finish(attempt, Outcome::Pass);
    };
    assert!(labor_core::inflight::reclaim(&world.peers[1], &world.cells[1], [].iter()));
    let before = world.peers[1].requests.load(Relaxed);
    world.run(2000, MS, |_| MS);
    assert!(world.peers[1].requests.load(Relaxed) >= before + 3, "tried, and back");
    assert_eq!(State::of(&world.peers[1]).phase, Phase::Closed);
}

fn open(world: &World) -> Vec<usize> {
    (0..world.peers.len()).filter(|&i| is_broken(&world.peers[i])).collect()
}

/// Fewer servers may have fewer out: those that are out the longest come back. Who is down counts for nothing.
#[test]
fn a_shorter_list_has_fewer_out() {
    for count in [6, 300] {
        let all: Vec<usize> = (0..3).collect();
        let out = || {
            // Longer than it takes to open three of three hundred.
            let breaker = BreakerParams { open: 600 * SECOND, max_open: 600 * SECOND, ..BreakerParams::default() };
            let params = Params { breaker: Some(breaker), ..params(Policy::RoundRobin) };
            let mut world = World::new(params, &vec![1; count], 3);
            world.run(20 * count, MS, |_| 5 * MS);
            for bad in all.clone() {
                until_open(&mut world, bad);
            }
            assert_eq!(open(&world), all);
            world
        };
        // Of four, two.
        let mut world = out();
        let members: Vec<_> = world.balancer.members()[..4].to_vec();
        world.balancer.set_members(&members);
        world.one(GET, |_| MS, |_| Outcome::Pass);
        assert_eq!(open(&world), [1, 2], "{count}: the longest open one is back");
        // Two that are open and down do not count, and nor do they as servers.
        let mut world = out();
        let mut closed = vec![false; count];
        closed[..2].fill(true);
        world.balancer.set_closed(&closed);
        world.one(GET, |_| MS, |_| Outcome::Pass);
        assert_eq!(open(&world), all, "{count}: one of {}", count - 2);
        closed.fill(true);
        closed[2] = false;
        world.balancer.set_closed(&closed);
        world.one(GET, |_| MS, |_| Outcome::Pass);
        assert_eq!(open(&world), [0, 1], "{count}: of one, none");
        // As before: the others may open again.
        world.balancer.set_closed(&[]);
        until_open(&mut world, 2);
    }
}
