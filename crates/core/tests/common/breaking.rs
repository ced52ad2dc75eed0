//! What the tests of breakers share: servers with breakers, one of which fails.
#![allow(dead_code, reason = "each test file uses its own part")]

use super::common::{GET, World};
use labor_core::breaker::is_broken;
use labor_core::params::BreakerParams;
use labor_core::sync::Ordering::Relaxed;
use labor_core::{Failure, Outcome, Params, Policy};

/// Time between two requests, µs.
pub const MS: u64 = 1000;

/// Breakers with the directive's defaults, and nothing explored.
pub fn params(policy: Policy) -> Params {
    Params { policy, explore: 0.0, breaker: Some(BreakerParams::default()), ..Params::default() }
}

/// Servers that have answered twenty times each.
pub fn world(count: usize) -> World {
    let mut world = World::new(params(Policy::RoundRobin), &vec![1; count], 3);
    world.run(20 * count, MS, |_| 5 * MS);
    world
}

/// `bad` fails, the others pass.
pub fn failing(bad: usize) -> impl Fn(usize) -> Outcome {
    move |i| if i == bad { Outcome::Fail(Failure::Status) } else { Outcome::Pass }
}

/// Requests until the breaker of `bad` is open, and how many of them it failed.
pub fn until_open(world: &mut World, bad: usize) -> u64 {
    let before = world.peers[bad].requests.load(Relaxed);
    for _ in 0..10_000 {
        world.one(GET, |_| 5 * MS, failing(bad));
        world.now += MS;
        if is_broken(&world.peers[bad]) {
            return world.peers[bad].requests.load(Relaxed) - before;
        }
    }
    panic!("it never opens");
}
