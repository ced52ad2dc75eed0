//! A world for tests: shared memory of one worker, servers as functions, and a clock that only moves when told.
#![allow(dead_code, reason = "each test file uses its own part")]

use labor_core::{
    Attempt, Balancer, Candidate, Cell, Choice, Fit, Group, Member, Outcome, Params, Peer, Receipt, Request, Shared,
};

/// A safe first request.
pub const GET: Request = Request { first: true, safe: true, backup: false, spare: false };
/// An unsafe first request.
pub const POST: Request = Request { first: true, safe: false, backup: false, spare: false };
/// Where clocks start: 0 means "never".
pub const START: u64 = 1_000_000;

/// See the module.
pub struct World {
    pub group: Group,
    pub peers: Vec<Peer>,
    pub cells: Vec<Cell>,
    pub balancer: Balancer,
    pub candidates: Vec<Candidate>,
    pub now: u64,
}

impl World {
    /// Servers of these weights, all usable.
    pub fn new(params: Params, weights: &[u32], seed: u64) -> Self {
        let n = weights.len();
        let mut balancer = Balancer::new(params, seed);
        let slots = 0u32..;
        balancer
            .set_members(&slots.zip(weights).map(|(i, &weight)| Member { slot: Some(i), weight }).collect::<Vec<_>>());
        Self {
            group: Group::default(),
            peers: (0..n).map(|_| Peer::default()).collect(),
            cells: (0..n).map(|_| Cell::default()).collect(),
            balancer,
            candidates: vec![Candidate { fit: Fit::Usable, conns: 0 }; n],
            now: START,
        }
    }

    /// Equal weights, default parameters.
    pub fn equal(n: usize) -> Self {
        Self::new(Params::default(), &vec![1; n], 7)
    }

    pub fn shared(&self) -> Shared<'_> {
        Shared { group: &self.group, peers: &self.peers, cells: &self.cells }
    }

    /// Picks and begins.
    pub fn begin(&mut self, request: Request) -> Option<(Choice, Attempt)> {
        let shared = Shared { group: &self.group, peers: &self.peers, cells: &self.cells };
        let choice = self.balancer.pick(shared, &self.candidates, request, self.now)?;
        Some((choice, Attempt::begin(shared, &choice, self.now)))
    }

    /// Ends an attempt now and settles it.
    pub fn finish(&mut self, attempt: Attempt, outcome: Outcome) -> Receipt {
        let params = *self.balancer.params();
        let receipt = attempt.finish(self.shared(), &params, outcome, self.now);
        let shared = Shared { group: &self.group, peers: &self.peers, cells: &self.cells };
        self.balancer.settle(shared, &receipt);
        receipt
    }

    /// One request alone: picked, answered after `latency(server)` µs with `outcome(server)`. Returns the choice.
    pub fn one(
        &mut self,
        request: Request,
        latency: impl Fn(usize) -> u64,
        outcome: impl Fn(usize) -> Outcome,
    ) -> Choice {
        let (choice, attempt) = self.begin(request).expect("somebody is usable");
        self.now += latency(choice.index);
        self.finish(attempt, outcome(choice.index));
        choice
    }

    /// `count` requests one after the other, `gap` µs apart; returns how many each server got.
    pub fn run(&mut self, count: usize, gap: u64, latency: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut shares = vec![0; self.peers.len()];
        for _ in 0..count {
            shares[self.one(GET, &latency, |_| Outcome::Pass).index] += 1;
            self.now += gap;
        }
        shares
    }
}
