//! The request path never allocates: counted by the allocator itself.
#![cfg(not(loom))]

mod common;

use common::{GET, World};
use labor_core::{Attempt, Failure, Outcome, Params, Policy, Shared};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches a thread's own cell only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn pick_begin_and_finish_do_not_allocate() {
    for policy in [Policy::Fastest, Policy::Weighted, Policy::LeastConn, Policy::RoundRobin, Policy::Decay] {
        let params = Params { policy, ..Params::default() };
        for weights in [vec![1, 2, 3, 4, 5], vec![1; 300]] {
            never_allocates(params, &weights);
        }
    }
}

fn never_allocates(params: Params, weights: &[u32]) {
    let policy = params.policy;
    let mut world = World::new(params, weights, 1);
    let before = COUNT.with(Cell::get);
    for i in 0..5000u64 {
        let shared = Shared { group: &world.group, peers: &world.peers, cells: &world.cells };
        let Some(choice) = world.balancer.pick(shared, &world.candidates, GET, world.now) else { continue };
        let mut attempt = Attempt::begin(shared, &choice, world.now);
        world.now += 1000 + i % 7 * 900 * (choice.index as u64 % 7);
        attempt.header(shared, &params, 200, false, world.now);
        let outcome = if i % 50 == 0 { Outcome::Fail(Failure::Reset) } else { Outcome::Pass };
        let receipt = attempt.finish(shared, &params, outcome, world.now);
        world.balancer.settle(shared, &receipt);
        let _ = world.balancer.least_bad(shared, &world.candidates, world.now);
    }
    assert_eq!(COUNT.with(Cell::get) - before, 0, "{policy:?}");
    // The counter counts.
    drop(std::hint::black_box(Box::new(1u8)));
    assert!(COUNT.with(Cell::get) > before);
}
