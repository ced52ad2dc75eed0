//! Affinity by key: who keeps its home, who yields, and what a key must not do.
#![cfg(not(loom))]

mod common;

use common::{GET, POST, World};
use labor_core::affinity::{Affinity, Asked, Keyed, Secret};
use labor_core::sync::Ordering;
use labor_core::{Attempt, Choice, Failure, Fit, Outcome, Params, Policy, Reason, Request};

const SECRET: Secret = Secret::new([11, 12]);

/// A world whose requests have keys.
struct Sessions {
    world: World,
    keyed: Keyed,
}

impl Sessions {
    fn new(world: World, affinity: Affinity) -> Self {
        let mut keyed = Keyed::new(affinity);
        let weights = world.balancer.members().iter().map(|member| member.weight);
        keyed.set(SECRET, &(0..).zip(weights).collect::<Vec<_>>());
        Self { world, keyed }
    }

    fn home(&self, number: u32) -> usize {
        self.keyed.home(self.keyed.key(&number.to_le_bytes())).unwrap()
    }

    fn begin(&mut self, number: u32, request: Request) -> Option<(Choice, Attempt)> {
        let key = self.keyed.key(&number.to_le_bytes());
        let World { group, peers, cells, balancer, candidates, now } = &mut self.world;
        let shared = labor_core::Shared { group, peers, cells };
        let candidates = &*candidates;
        let asked = Asked { key, request, candidates, stand: &|i, _| candidates[i] };
        let choice = balancer.pick_keyed(&mut self.keyed, shared, asked, *now)?;
        Some((choice, Attempt::begin(shared, &choice, *now)))
    }

    /// A request alone.
    fn one(&mut self, number: u32, request: Request, latency: impl Fn(usize) -> u64) -> Choice {
        let (choice, attempt) = self.begin(number, request).unwrap();
        self.world.now += latency(choice.index);
        self.world.finish(attempt, Outcome::Pass);
        choice
    }
}

#[test]
fn keys_stay_at_home_and_explore_nothing() {
    for n in [1, 2, 5, 20, 400] {
        let mut sessions = Sessions::new(World::equal(n), Affinity { slack: f32::INFINITY, ..Affinity::default() });
        for i in 0..3000 {
            let choice = sessions.one(i % 97, GET, |server| 1000 + 100 * server as u64);
            assert_eq!((choice.index, choice.reason), (sessions.home(i % 97), Reason::Hash), "{n} servers");
        }
    }
}

#[test]
fn a_retry_goes_on_in_the_keys_order_and_the_unfit_get_nothing() {
    for policy in [Policy::Fastest, Policy::LeastConn, Policy::RoundRobin] {
        let params = Params { policy, ..Params::default() };
        let mut sessions = Sessions::new(World::new(params, &[1; 4], 7), Affinity::default());
        for number in 0..100 {
            let home = sessions.home(number);
            sessions.world.candidates[home].fit = Fit::Unfit;
            let retry = Request { first: false, ..GET };
            let second = sessions.one(number, retry, |_| 1000);
            assert_eq!((second.reason, second.index != home), (Reason::Overflow, true));
            // The same next time, also for a first attempt; and another one after that.
            assert_eq!(sessions.one(number, GET, |_| 1000).index, second.index);
            sessions.world.candidates[second.index].fit = Fit::CountedOut;
            let third = sessions.one(number, retry, |_| 1000);
            assert!(third.index != home && third.index != second.index);
            sessions.world.candidates.iter_mut().for_each(|c| c.fit = Fit::Unfit);
            assert!(sessions.begin(number, retry).is_none(), "nobody is usable");
            sessions.world.candidates.iter_mut().for_each(|c| c.fit = Fit::Usable);
        }
    }
}

#[test]
fn weight_nought_has_no_keys() {
    let mut sessions = Sessions::new(World::new(Params::default(), &[1, 0, 1], 7), Affinity::default());
    assert!((0..200).all(|number| sessions.one(number, GET, |_| 1000).index != 1));
}

/// Sixty in flight at three servers; half of the requests have one key.
#[test]
fn a_hot_key_yields_and_the_others_stay() {
    for bound in [1.0, 1.25, 2.0] {
        let mut sessions = Sessions::new(World::equal(3), Affinity { bound, slack: 10.0, ..Affinity::default() });
        let (mut open, mut kept, mut others) = (std::collections::VecDeque::new(), 0, 0);
        for i in 0..20_000u32 {
            let number = if i % 2 == 0 { 0 } else { 1 + i / 2 * 7919 % 1000 };
            let (choice, attempt) = sessions.begin(number, GET).unwrap();
            open.push_back(attempt);
            if i > 2000 {
                let most = sessions.world.peers.iter().map(|peer| peer.queue()).max().unwrap();
                let bound = (f64::from(bound) * open.len() as f64 / 3.0).ceil();
                assert!(f64::from(most) <= bound.max(8.0), "{most} in flight, {bound} allowed");
                others += u32::from(number != 0);
                kept += u32::from(number != 0 && choice.reason == Reason::Hash);
            }
            sessions.world.now += 1000;
            if open.len() >= 60 {
                let attempt = open.pop_front().unwrap();
                sessions.world.finish(attempt, Outcome::Pass);
            }
        }
        // At a bound of 1 there is no room between what heavy keys and what all may have.
        assert!(bound == 1.0 || f64::from(kept) > 0.95 * f64::from(others), "{bound}: {kept} of {others}");
    }
}

#[test]
fn a_slow_home_is_left_visited_and_found_again() {
    let mut sessions = Sessions::new(World::equal(4), Affinity::default());
    let slow = sessions.home(1);
    for i in 0..2000 {
        sessions.one(i % 50, GET, |_| 10_000);
    }
    let latency = |server: usize| if server == slow { 200_000 } else { 10_000 };
    for i in 0..500 {
        sessions.one(i % 50, GET, latency);
    }
    // Left by all but one visit in two seconds, and by POST as well when there is nothing else.
    let begun = sessions.world.now;
    let visits = (0..1000).filter(|_| sessions.one(1, POST, latency).index == slow).count() as u64;
    let seconds = (sessions.world.now - begun) / 1_000_000;
    assert!(visits >= 2 && visits <= seconds / 2 + 1, "{visits} visits in {seconds} s");
    // Well again: all of its keys come back.
    for _ in 0..3000 {
        sessions.one(1, GET, |_| 10_000);
    }
    assert!((0..50).all(|_| sessions.one(1, GET, |_| 10_000).index == slow));
}

#[test]
fn a_failing_home_is_left() {
    let mut sessions = Sessions::new(World::equal(3), Affinity::default());
    let failing = sessions.home(1);
    for number in 0..300 {
        sessions.one(number, GET, |_| 10_000);
    }
    let mut failed = 0;
    for _ in 0..1000 {
        let (choice, attempt) = sessions.begin(1, GET).unwrap();
        sessions.world.now += 10_000;
        let fails = choice.index == failing;
        failed += u32::from(fails);
        sessions.world.finish(attempt, if fails { Outcome::Fail(Failure::Status) } else { Outcome::Pass });
    }
    // Ten seconds: a trial each five, and what it took to notice.
    assert!((1..20).contains(&failed), "{failed}");
    let overflows = sessions.world.peers.iter().map(|p| p.picks[Reason::Overflow as usize].load(Ordering::Relaxed));
    assert!(overflows.sum::<u64>() > 900);
}

/// A server that takes one request at a time has a smaller part than one that takes sixteen.
#[test]
fn parts_are_by_the_capacity_that_was_learned() {
    let mut sessions =
        Sessions::new(World::equal(2), Affinity { bound: 1.0, slack: f32::INFINITY, ..Affinity::default() });
    // Server 0 takes as long as it has requests, server 1 always the same.
    let mut open: Vec<(u64, Attempt)> = Vec::new();
    let mut free_at = 0;
    let mut queues = [0u64; 2];
    for i in 0..30_000u32 {
        let now = sessions.world.now;
        open.sort_by_key(|(due, _)| std::cmp::Reverse(*due));
        while open.last().is_some_and(|(due, _)| *due <= now) {
            let (due, attempt) = open.pop().unwrap();
            sessions.world.now = due;
            sessions.world.finish(attempt, Outcome::Pass);
        }
        sessions.world.now = now;
        let (choice, attempt) = sessions.begin(i * 7919 % 500, GET).unwrap();
        let due = if choice.index == 0 {
            free_at = free_at.max(now) + 10_000;
            free_at
        } else {
            now + 10_000
        };
        open.push((due, attempt));
        if i > 5000 {
            (0..2).for_each(|s| queues[s] += u64::from(sessions.world.peers[s].queue()));
        }
        // They begin idle, as servers do.
        sessions.world.now += if i < 300 { 20_000 } else { 1000 };
    }
    // By count alone each would have as many.
    assert!(queues[0] * 2 < queues[1], "{queues:?}");
}

/// A breaker that is open passes the keys on, and a half-open one closes by requests of its own keys: nobody else comes.
#[test]
fn a_home_that_was_broken_comes_back_by_its_own_keys() {
    let breaker = Some(labor_core::params::BreakerParams::default());
    let mut sessions =
        Sessions::new(World::new(Params { breaker, ..Params::default() }, &[1; 4], 7), Affinity::default());
    let broken = |sessions: &Sessions| labor_core::breaker::is_broken(&sessions.world.peers[2]);
    let mut number = 0..;
    while !broken(&sessions) {
        let (choice, attempt) = sessions.begin(number.next().unwrap() % 97, GET).unwrap();
        sessions.world.now += 1000;
        let failed = choice.index == 2;
        sessions.world.finish(attempt, if failed { Outcome::Fail(Failure::Status) } else { Outcome::Pass });
    }
    let mut trials = 0;
    while broken(&sessions) {
        let key = number.next().unwrap() % 97;
        let choice = sessions.one(key, GET, |_| 1000);
        sessions.world.now += 10_000;
        if choice.index == 2 {
            assert_eq!((sessions.home(key), choice.reason), (2, Reason::Trial));
            trials += 1;
        }
        assert!(sessions.world.now < 60_000_000, "it never comes back");
    }
    assert_eq!(trials, 3);
    // And then its keys do, once it has been led up to its share.
    sessions.world.now += 10_000_000;
    for key in 0..97 {
        let choice = sessions.one(key, GET, |_| 1000);
        assert!(sessions.home(key) != 2 || choice.index == 2, "{key}: {choice:?}");
    }
}
