//! Checks: whose turn it is, what results make of a server, who is picked then, and what a probe's time teaches.
#![cfg(not(loom))]

mod common;

use common::{GET, World};
use labor_core::check::{self, Cause, Check, Found, Health, Turn};
use labor_core::params::CheckParams;
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Candidate, Fit, Outcome, Params, Policy, Reason, Shared};
use proptest::prelude::*;

const MS: u64 = 1000;
const SECOND: u64 = 1_000_000;
const RULES: CheckParams =
    CheckParams { interval: 5 * SECOND, jitter: 0, timeout: SECOND, fails: 2, passes: 2, idle: false };

fn params() -> Params {
    Params { check: Some(RULES), explore: 0.0, ..Params::default() }
}

fn found(cause: Cause) -> Found {
    Found { cause, status: 0, took: Some(MS) }
}

/// A world and the checks of its servers.
struct Checked {
    world: World,
    checks: Vec<Check>,
}

impl Checked {
    fn new(params: Params, count: usize) -> Self {
        let checks = (0..count).map(|_| Check::default()).collect();
        Self { world: World::new(params, &vec![1; count], 3), checks }
    }

    fn turn(&mut self, i: usize) -> Turn {
        self.world.now = self.world.now.max(self.checks[i].due(0, &RULES));
        let now = self.world.now;
        self.checks[i].claim(0, &RULES, now, check::next(&RULES, 0.0, 0, now)).unwrap()
    }

    /// Probes server `i` at its next turn, and lets picks know what came of it.
    fn probe(&mut self, i: usize, found: Found) -> Option<Health> {
        let turn = self.turn(i);
        let (world, params) = (&mut self.world, params());
        let became = check::settle((&world.peers[i], &world.group, &self.checks[i]), &params, turn, found, world.now);
        let unhealthy = check::is_unhealthy(&world.peers[i]);
        world.candidates[i].fit = if unhealthy { Fit::Unhealthy } else { Fit::Usable };
        became
    }
}

#[test]
fn so_many_results_in_a_row_change_the_verdict() {
    let mut it = Checked::new(params(), 1);
    let (bad, good) = (found(Cause::Status), found(Cause::Passed));
    // Unknown is usable; one success is enough to know, one failure is not.
    assert_eq!((it.checks[0].health(), check::is_unhealthy(&it.world.peers[0])), (Health::Unknown, false));
    assert_eq!((it.probe(0, bad), it.probe(0, good)), (None, Some(Health::Healthy)));
    // Alternating results change nothing.
    for _ in 0..10 {
        assert_eq!((it.probe(0, bad), it.probe(0, good)), (None, None));
    }
    // Every time the same number, also after having changed before.
    for _ in 0..3 {
        assert_eq!((it.probe(0, bad), it.probe(0, bad)), (None, Some(Health::Unhealthy)));
        assert!(check::is_unhealthy(&it.world.peers[0]));
        assert_eq!((it.probe(0, bad), it.probe(0, good), it.probe(0, bad)), (None, None, None));
        assert_eq!((it.probe(0, good), it.probe(0, good)), (None, Some(Health::Healthy)));
        assert!(!check::is_unhealthy(&it.world.peers[0]));
    }
    assert_eq!(it.checks[0].counts(), (2 + 20 + 3 * 7, 1 + 10 + 3 * 4, 3));
    assert_eq!(it.checks[0].last().map(|(cause, _)| cause), Some(Cause::Passed));
}

#[test]
fn nobody_picks_an_unhealthy_server_not_even_to_try_it() {
    for (policy, count) in
        [(Policy::Fastest, 3), (Policy::RoundRobin, 3), (Policy::LeastConn, 3), (Policy::Fastest, 300)]
    {
        let mut it = Checked::new(Params { policy, explore: 0.05, ..params() }, count);
        it.world.run(20 * count, MS, |_| 5 * MS);
        it.probe(0, found(Cause::Connect));
        it.probe(0, found(Cause::Connect));
        // It fails as well, so that trials would be due.
        it.world.peers[0].failure.store(0.9f32.to_bits(), Relaxed);
        let shares = it.world.run(5000, 20 * MS, |_| 5 * MS);
        assert_eq!(shares[0], 0, "{policy:?} of {count}");
        let reasons = it.world.peers[0].picks[Reason::Trial as usize].load(Relaxed);
        assert_eq!(reasons, 0);
        // Back, and its failures are for requests to take back: a trial comes soon.
        it.world.peers[0].failure.store(0f32.to_bits(), Relaxed);
        it.probe(0, found(Cause::Passed));
        it.probe(0, found(Cause::Passed));
        assert!(it.world.run(40 * count, 20 * MS, |_| 5 * MS)[0] > 0, "{policy:?} of {count}");
    }
}

#[test]
fn what_requests_found_is_not_taken_back_by_checks() {
    let mut it = Checked::new(params(), 2);
    it.world.run(50, MS, |_| 5 * MS);
    for _ in 0..6 {
        let (choice, attempt) = it.world.begin(GET).unwrap();
        it.world.now += MS;
        let outcome = if choice.index == 0 { Outcome::Fail(labor_core::Failure::Status) } else { Outcome::Pass };
        it.world.finish(attempt, outcome);
    }
    it.world.peers[0].failure.store(0.8f32.to_bits(), Relaxed);
    for _ in 0..5 {
        it.probe(0, found(Cause::Passed));
    }
    assert_eq!(it.world.peers[0].failure_level(), 0.8);
}

/// Nobody is healthy: the least bad is used, by what requests have found.
#[test]
fn when_all_are_unhealthy_requests_decide() {
    let mut it = Checked::new(params(), 3);
    it.world.run(100, MS, |i| [5, 5, 50][i] * MS);
    for i in 0..3 {
        it.probe(i, found(Cause::Status));
        it.probe(i, found(Cause::Status));
    }
    it.world.peers[0].failure.store(0.9f32.to_bits(), Relaxed);
    let shared = Shared { group: &it.world.group, peers: &it.world.peers, cells: &it.world.cells };
    assert!(it.world.balancer.pick(shared, &it.world.candidates, GET, it.world.now).is_none());
    let choice = it.world.balancer.least_bad(shared, &it.world.candidates, it.world.now).unwrap();
    assert_eq!(choice.index, 1);
    // Never one that is down or tried.
    it.world.candidates.fill(Candidate { fit: Fit::Unfit, conns: 0 });
    assert!(it.world.balancer.least_bad(shared, &it.world.candidates, it.world.now).is_none());
}

/// Checks that were switched off by one reload and on again by a later one: what they had found is long past.
#[test]
fn what_was_found_long_ago_is_forgotten() {
    let mut it = Checked::new(params(), 1);
    it.probe(0, found(Cause::Status));
    it.probe(0, found(Cause::Status));
    let forget = |it: &Checked, after: u64| {
        check::forget_old(&it.world.peers[0], &it.checks[0], &RULES, it.world.now + after);
        (it.checks[0].health(), check::is_unhealthy(&it.world.peers[0]))
    };
    assert_eq!(forget(&it, 29 * SECOND), (Health::Unhealthy, true), "a reload takes less");
    assert_eq!(forget(&it, 30 * SECOND), (Health::Unknown, false));
    assert_eq!((it.probe(0, found(Cause::Status)), it.probe(0, found(Cause::Status))), (None, Some(Health::Unhealthy)));
}

#[test]
fn turns_go_round_and_others_take_over() {
    let (check, now) = (Check::default(), 100 * SECOND);
    let first = check.claim(3, &RULES, now, now + 5 * SECOND).unwrap();
    assert_eq!(check.claim(4, &RULES, now, now + 5 * SECOND), None, "one probe a turn");
    assert_eq!((check.due(3, &RULES), check.due(4, &RULES)), (now + 5 * SECOND, now + 7 * SECOND + SECOND / 2));
    // The worker of slot 3 hangs: within two intervals another probes, and what the first one finds later is dropped.
    let late = now + 8 * SECOND;
    let second = check.claim(4, &RULES, late, late + 5 * SECOND).unwrap();
    assert!(!check.holds(first) && check.holds(second));
    let world = World::new(params(), &[1], 1);
    assert_eq!(
        check::settle((&world.peers[0], &world.group, &check), &params(), first, found(Cause::Timeout), late),
        None
    );
    assert_eq!(check.counts().0, 0);
    // A worker that leaves lets go: anybody may probe when the turn is due, and its own result still counts.
    check.release(3);
    assert_eq!(check.due(9, &RULES), late + 7 * SECOND + SECOND / 2, "not its own any more");
    check.release(4);
    assert_eq!(check.due(9, &RULES), late + 5 * SECOND);
    assert!(check.holds(second));
    // A probe that came to nothing is repeated sooner.
    check.retry(second, late + SECOND);
    let third = check.claim(4, &RULES, late + 5 * SECOND, late + 10 * SECOND);
    assert!(third.is_some());
}

#[test]
fn only_quiet_servers_with_idle() {
    let rules = CheckParams { idle: true, ..RULES };
    let mut it = Checked::new(params(), 1);
    it.world.run(3, MS, |_| MS);
    let spared =
        |it: &Checked, rules: &CheckParams| check::is_spared(&it.world.peers[0], &it.checks[0], rules, it.world.now);
    assert!(spared(&it, &rules) && !spared(&it, &RULES));
    it.world.peers[0].failure.store(0.5f32.to_bits(), Relaxed);
    assert!(!spared(&it, &rules), "failing");
    it.world.peers[0].failure.store(0, Relaxed);
    it.world.now += 6 * SECOND;
    assert!(!spared(&it, &rules), "quiet");
    it.probe(0, found(Cause::Connect));
    it.probe(0, found(Cause::Connect));
    it.world.peers[0].last_answer.store(it.world.now, Relaxed);
    assert!(!spared(&it, &rules), "unhealthy");
}

/// Health answers take a tenth of the time that requests take: what they say is scaled by that, and only while nobody asks.
#[test]
fn a_good_probe_keeps_a_quiet_server_known() {
    let mut it = Checked::new(params(), 2);
    let probe = |it: &mut Checked, i: usize, took: u64| {
        it.probe(i, Found { took: Some(took), ..found(Cause::Passed) });
    };
    for _ in 0..8 {
        it.world.run(200, 5 * MS, |i| [20, 100][i] * MS);
        // The slow one is explored by nobody here; give it an answer now and then.
        it.world.candidates[0].fit = Fit::Unfit;
        it.world.run(3, MS, |i| [20, 100][i] * MS);
        it.world.candidates[0].fit = Fit::Usable;
        probe(&mut it, 0, 2 * MS);
        probe(&mut it, 1, 10 * MS);
    }
    assert_eq!((it.checks[0].refreshed(), it.checks[1].refreshed()), (0, 0), "requests keep both fresh");
    // It is taken out of service by its owner, and comes back ten times as fast: nobody but the prober knows.
    it.world.candidates[1].fit = Fit::Unfit;
    it.world.run(3000, 5 * MS, |i| [20, 100][i] * MS);
    for _ in 0..6 {
        probe(&mut it, 1, MS);
        it.world.candidates[1].fit = Fit::Unfit;
        it.world.run(200, 5 * MS, |i| [20, 100][i] * MS);
    }
    assert!(it.checks[1].refreshed() >= 5, "{}", it.checks[1].refreshed());
    assert_eq!(it.checks[0].refreshed(), 0);
    it.world.candidates[1].fit = Fit::Usable;
    let shares = it.world.run(200, MS, |i| [20, 10][i] * MS);
    assert!(shares[1] > 150, "{shares:?}");
}

proptest! {
    /// The next probe is half an interval to one and a half away, at the server's own phase.
    #[test]
    fn probes_keep_their_phase(interval in 1u64..=3_600_000_000, phase in 0.0f64..1.0, now in 1u64..1 << 45) {
        let rules = CheckParams { interval, ..RULES };
        let next = check::next(&rules, phase, 0, now);
        prop_assert!(next >= now + interval / 2 && next <= now + interval / 2 + interval);
        prop_assert_eq!(next % interval, (phase * interval as f64) as u64 % interval);
        let after = check::next(&rules, phase, 0, next);
        prop_assert!(after == next + interval || interval < 2);
    }
}
