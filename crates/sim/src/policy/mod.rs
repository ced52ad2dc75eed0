//! Policies: the production core, its competitors from their public definitions, and an oracle.
//!
//! A policy object is one balancer: what its workers share, and what each has of its own.

mod c3;
mod envoy;
mod fair;
mod informed;
mod ingress;
mod ketama;
mod labor;
mod least_conn;
mod least_time;
mod oracle;
mod peak_ewma;
mod prequal;
mod random_two;
mod replay;
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
    /// Whether it is the request's first attempt.
    pub first: bool,
    /// Which session or object it is about, in scenarios with keys.
    pub key: Option<u32>,
    /// Which servers are in the list and have not had this request yet.
    pub present: &'a [bool],
    /// Servers that have had this request.
    pub tried: &'a [u32],
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
    /// Where the request was sent in the log that is replayed.
    pub sent_to: u32,
}

/// An attempt that is done, or whose header came.
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
    /// What the server says the work took, ns; for policies whose servers cooperate.
    pub service: Nanos,
    /// Requests that are left at the server, as it says itself; the same.
    pub waiting: u32,
    /// A session, whose header was announced before.
    pub session: bool,
}

/// A point of a learned curve: requests in flight, latency in ms, evidence in samples.
pub type Point = (f64, f64, f64);

/// A learned curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Of which server.
    pub server: usize,
    /// Its points.
    pub points: Vec<Point>,
}

/// One balancer.
pub trait Policy {
    /// The list of servers has changed (also called once at the start).
    fn members(&mut self, present: &[bool]) {
        let _ = present;
    }

    /// Picks a server for `query` and counts it there; `None` when it finds none.
    fn pick(&mut self, query: &Query<'_>) -> Option<usize>;

    /// The header of a session came; the session goes on. Other attempts have header and end at once.
    fn header(&mut self, done: &Done) {
        let _ = done;
    }

    /// Books a finished attempt.
    fn done(&mut self, done: &Done);

    /// Picks of each server by reason, for policies that give reasons: (server, reason, count).
    fn reasons(&self) -> Vec<(usize, &'static str, u64)> {
        Vec::new()
    }

    /// How often the opinion of a server has changed, for policies that have one in steps.
    fn changes(&self) -> Option<u64> {
        None
    }

    /// What has been learned, for policies that learn curves.
    fn curves(&self) -> Vec<Curve> {
        Vec::new()
    }
}

/// The policies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Kind {
    /// nginx's smooth weighted round robin.
    RoundRobin,
    /// nginx's least_conn.
    LeastConn,
    /// nginx's random two least_conn.
    RandomTwo,
    /// nginx's least_time last_byte.
    LeastTime,
    /// nginx's least_time header.
    LeastTimeHeader,
    /// nginx's least_time last_byte inflight.
    LeastTimeInflight,
    /// nginx-upstream-fair.
    Fair,
    /// Two random choices by peak-EWMA (Finagle, tower, Linkerd).
    P2cPeakEwma,
    /// Peak-EWMA over all servers.
    PeakEwma,
    /// ingress-nginx's ewma.
    IngressEwma,
    /// Envoy's least request.
    EnvoyLeastRequest,
    /// Prequal's hot and cold servers; the servers cooperate.
    Prequal,
    /// C3's replica ranking; the servers cooperate.
    C3,
    /// The production core.
    Labor,
    /// The same asking every server of a list however long it is: what its structure for long lists is measured against.
    LaborScan,
    /// The same by key: requests stay at home within a bound and a slack.
    LaborHash,
    /// Consistent hashing by ketama's continuum: nginx's `hash … consistent`.
    Ketama,
    /// Consistent hashing with bounded loads, a quarter above the mean.
    BoundedHash,
    /// Knows concurrency, mean service and network time and everybody's requests in flight, but not the future.
    Informed,
    /// Shortest delay, clairvoyant.
    Oracle,
    /// One queue before all servers, which take from it when they have a place.
    CentralQueue,
    /// Where the requests of a log went.
    Replay,
}

impl Kind {
    /// All policies that need no log, in the order of the tables.
    pub const ALL: [Self; 17] = [
        Self::RoundRobin,
        Self::LeastConn,
        Self::RandomTwo,
        Self::LeastTime,
        Self::LeastTimeHeader,
        Self::LeastTimeInflight,
        Self::Fair,
        Self::P2cPeakEwma,
        Self::PeakEwma,
        Self::IngressEwma,
        Self::EnvoyLeastRequest,
        Self::Prequal,
        Self::C3,
        Self::Labor,
        Self::Informed,
        Self::Oracle,
        Self::CentralQueue,
    ];

    /// Short name for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastConn => "least_conn",
            Self::RandomTwo => "random_two",
            Self::LeastTime => "least_time",
            Self::LeastTimeHeader => "lt_header",
            Self::LeastTimeInflight => "lt_inflight",
            Self::Fair => "fair",
            Self::P2cPeakEwma => "p2c_peak",
            Self::PeakEwma => "peak_all",
            Self::IngressEwma => "ingress_ewma",
            Self::EnvoyLeastRequest => "envoy_lr",
            Self::Prequal => "prequal*",
            Self::C3 => "c3*",
            Self::Labor => "labor",
            Self::LaborScan => "labor_scan",
            Self::LaborHash => "labor_hash",
            Self::Ketama => "ketama",
            Self::BoundedHash => "bounded_hash",
            Self::Informed => "informed",
            Self::Oracle => "oracle",
            Self::CentralQueue => "central",
            Self::Replay => "as logged",
        }
    }

    /// Whether it is a competitor: it sees what a proxy sees without the servers' help, and is not ours.
    pub const fn is_peer(self) -> bool {
        !matches!(self, Self::Labor | Self::LaborScan | Self::LaborHash | Self::Prequal | Self::C3)
            && !self.is_reference()
    }

    /// Whether it knows what nobody can know.
    pub const fn is_reference(self) -> bool {
        matches!(self, Self::Informed | Self::Oracle | Self::CentralQueue | Self::Replay)
    }

    /// A balancer of this kind for `scenario`; `seed` drives its own randomness.
    pub fn build(self, scenario: &Scenario, seed: u64) -> Box<dyn Policy> {
        use least_time::{LeastTime, Measure};
        let weights: Vec<u32> = scenario.server.iter().map(|s| s.weight).collect();
        let n = weights.len();
        match self {
            Self::RoundRobin => Box::new(swrr::RoundRobin::new(weights)),
            Self::LeastConn => Box::new(least_conn::LeastConn::new(weights)),
            Self::RandomTwo => Box::new(random_two::RandomTwo::new(weights, seed)),
            Self::LeastTime => Box::new(LeastTime::new(weights, Measure::LastByte)),
            Self::LeastTimeHeader => Box::new(LeastTime::new(weights, Measure::Header)),
            Self::LeastTimeInflight => Box::new(LeastTime::new(weights, Measure::Inflight)),
            Self::Fair => Box::new(fair::Fair::new(weights)),
            Self::P2cPeakEwma => Box::new(peak_ewma::PeakEwma::new(n, true, seed)),
            Self::PeakEwma => Box::new(peak_ewma::PeakEwma::new(n, false, seed)),
            Self::IngressEwma => Box::new(ingress::Ewma::new(n, seed)),
            Self::EnvoyLeastRequest => Box::new(envoy::LeastRequest::new(weights, seed)),
            Self::Prequal => Box::new(prequal::Prequal::new(n, seed)),
            Self::C3 => Box::new(c3::C3::new(n, scenario.balancers, seed)),
            Self::Labor => Box::new(labor::Labor::new(scenario, weights, seed)),
            Self::LaborScan => Box::new(labor::Labor::new(scenario, weights, seed).scanning()),
            Self::LaborHash => Box::new(labor::Labor::new(scenario, weights, seed).keyed()),
            Self::Ketama => Box::new(ketama::Ketama::new(weights, None)),
            Self::BoundedHash => Box::new(ketama::Ketama::new(weights, Some(1.25))),
            Self::Informed => Box::new(informed::Informed),
            Self::Oracle => Box::new(oracle::Oracle),
            Self::CentralQueue => Box::new(oracle::Central),
            Self::Replay => Box::new(replay::Replay),
        }
    }
}

/// One of the servers that `eligible` admits, all with the same chance.
pub(crate) fn any_of(n: usize, rng: &mut labor_core::rng::Rng, eligible: impl Fn(usize) -> bool) -> Option<usize> {
    // Nearly always most are: drawing again is cheaper than counting.
    for _ in 0..4 {
        let i = (rng.unit() * n as f64) as usize;
        if i < n && eligible(i) {
            return Some(i);
        }
    }
    let count = (0..n).filter(|&i| eligible(i)).count();
    let nth = (rng.unit() * count as f64) as usize;
    (0..n).filter(|&i| eligible(i)).nth(nth)
}

#[cfg(test)]
pub(crate) mod harness {
    //! A few lines that let a policy's public definition be stated as a sequence of picks.

    use super::*;

    /// Picks at `now_ms` among `n` servers, all present.
    pub fn pick_at(policy: &mut dyn Policy, n: usize, now_ms: u64) -> usize {
        let present = vec![true; n];
        pick_among(policy, &present, now_ms)
    }

    /// Picks at `now_ms` among those `present`.
    pub fn pick_among(policy: &mut dyn Policy, present: &[bool], now_ms: u64) -> usize {
        let work = Work { size: 1.0, luck: [0.5, 0.5] };
        let truth = Truth { servers: &[], work: &work, sent_to: 0 };
        let now = now_ms * 1_000_000;
        let query = Query { id: 0, now, worker: 0, safe: true, first: true, key: None, present, tried: &[], truth };
        policy.pick(&query).expect("a server is present")
    }

    /// A good answer, of whose work nothing is known.
    pub fn done(server: usize, started: Nanos, now: Nanos) -> Done {
        Done { id: 0, server, worker: 0, started, now, end: End::Pass, service: 0, waiting: 0, session: false }
    }

    /// Books a good answer of `server`, sent at `from_ms`, back at `to_ms`.
    pub fn answer(policy: &mut dyn Policy, server: usize, from_ms: u64, to_ms: u64) {
        let (started, now) = (from_ms * 1_000_000, to_ms * 1_000_000);
        policy.done(&done(server, started, now));
    }
}
