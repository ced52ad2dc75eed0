//! Policies: the production core, its competitors from their public definitions, and an oracle.
//!
//! A policy object is one balancer: what its workers share, and what each has of its own.

mod informed;
mod labor;
mod least_conn;
mod least_time;
mod oracle;
mod peak_ewma;
mod random_two;
mod swrr;

use crate::server::{End, Server, Work};
use crate::{Nanos, Scenario};

/// A request that wants a server.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Identifies the request until it is done; small and reused.
    pub id: u32,
    /// Now.
    pub now: Nanos,
    /// Which worker of the balancer handles it.
    pub worker: usize,
    /// Whether its method is safe.
    pub safe: bool,
    /// Which servers are in the list.
    pub present: &'a [bool],
    /// The truth, which only oracles may look at.
    pub truth: Truth<'a>,
}

/// What no proxy can see.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// The servers themselves.
    pub servers: &'a [Server],
    /// The request's size.
    pub work: &'a Work,
}

/// A request that is done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The identity it had in [`Query`].
    pub id: u32,
    /// The server it went to.
    pub server: usize,
    /// The worker that handled it.
    pub worker: usize,
    /// When it was sent.
    pub started: Nanos,
    /// Now.
    pub now: Nanos,
    /// How it ended.
    pub end: End,
}

/// One balancer.
pub trait Policy {
    /// The list of servers has changed (also called once at the start).
    fn members(&mut self, present: &[bool]) {
        let _ = present;
    }

    /// Picks a server for `query` and counts it there; `None` when it finds none.
    fn pick(&mut self, query: &Query<'_>) -> Option<usize>;

    /// Books a finished request.
    fn done(&mut self, done: &Done);

    /// Picks of each server by reason, for policies that give reasons: (server, reason, count).
    fn reasons(&self) -> Vec<(usize, &'static str, u64)> {
        Vec::new()
    }
}

/// The policies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// nginx's smooth weighted round robin.
    RoundRobin,
    /// nginx's least_conn.
    LeastConn,
    /// nginx's random two least_conn.
    RandomTwo,
    /// nginx's least_time last_byte.
    LeastTime,
    /// nginx's least_time last_byte inflight.
    LeastTimeInflight,
    /// Two random choices by peak-EWMA (Finagle, tower, Linkerd).
    P2cPeakEwma,
    /// Peak-EWMA over all servers.
    PeakEwma,
    /// The production core.
    Labor,
    /// Knows concurrency, mean service and network time and everybody's requests in flight, but not the future.
    Informed,
    /// Shortest delay, clairvoyant.
    Oracle,
}

impl Kind {
    /// All policies, in the order of the tables.
    pub const ALL: [Self; 10] = [
        Self::RoundRobin,
        Self::LeastConn,
        Self::RandomTwo,
        Self::LeastTime,
        Self::LeastTimeInflight,
        Self::P2cPeakEwma,
        Self::PeakEwma,
        Self::Labor,
        Self::Informed,
        Self::Oracle,
    ];

    /// Short name for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastConn => "least_conn",
            Self::RandomTwo => "random_two",
            Self::LeastTime => "least_time",
            Self::LeastTimeInflight => "…inflight",
            Self::P2cPeakEwma => "p2c_peak",
            Self::PeakEwma => "peak_all",
            Self::Labor => "labor",
            Self::Informed => "informed",
            Self::Oracle => "oracle",
        }
    }

    /// Whether it is a competitor: it sees what a proxy sees, and is not ours.
    pub const fn is_peer(self) -> bool {
        !matches!(self, Self::Labor | Self::Informed | Self::Oracle)
    }

    /// A balancer of this kind for `scenario`; `seed` drives its own randomness.
    pub fn build(self, scenario: &Scenario, seed: u64) -> Box<dyn Policy> {
        let weights: Vec<u32> = scenario.server.iter().map(|s| s.weight).collect();
        match self {
            Self::RoundRobin => Box::new(swrr::RoundRobin::new(weights)),
            Self::LeastConn => Box::new(least_conn::LeastConn::new(weights)),
            Self::RandomTwo => Box::new(random_two::RandomTwo::new(weights, seed)),
            Self::LeastTime => Box::new(least_time::LeastTime::new(weights, false)),
            Self::LeastTimeInflight => Box::new(least_time::LeastTime::new(weights, true)),
            Self::P2cPeakEwma => Box::new(peak_ewma::PeakEwma::new(weights.len(), true, seed)),
            Self::PeakEwma => Box::new(peak_ewma::PeakEwma::new(weights.len(), false, seed)),
            Self::Labor => Box::new(labor::Labor::new(weights, scenario.workers as usize, seed)),
            Self::Informed => Box::new(informed::Informed),
            Self::Oracle => Box::new(oracle::Oracle),
        }
    }
}

#[cfg(test)]
pub(crate) mod harness {
    //! A few lines that let a policy's public definition be stated as a sequence of picks.

    use super::*;

    /// Picks at `now_ms` among `n` servers, all present.
    pub fn pick_at(policy: &mut dyn Policy, n: usize, now_ms: u64) -> usize {
        let work = Work { size: 1.0, luck: [0.5, 0.5] };
        let present = vec![true; n];
        let truth = Truth { servers: &[], work: &work };
        let query = Query { id: 0, now: now_ms * 1_000_000, worker: 0, safe: true, present: &present, truth };
        policy.pick(&query).expect("a server is present")
    }

    /// Books a good answer of `server`, sent at `from_ms`, back at `to_ms`.
    pub fn answer(policy: &mut dyn Policy, server: usize, from_ms: u64, to_ms: u64) {
        let (started, now) = (from_ms * 1_000_000, to_ms * 1_000_000);
        policy.done(&Done { id: 0, server, worker: 0, started, now, end: End::Pass });
    }
}
