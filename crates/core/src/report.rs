//! What status pages show: why a server's standing last changed, and how its score comes about. Read-only, may allocate.

use crate::balancer::Member;
use crate::evidence::LOWERED;
use crate::inflight::Shared;
use crate::params::{Params, Policy};
use crate::peer::Peer;
use crate::score::{load, silence, with_failure};
use crate::sync::Ordering;
use crate::table::Table;
use crate::time::{Micros, seconds, since};

/// Why a server's standing last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Change {
    /// Its first answer ever.
    New = 1,
    /// Its idle latency rose by half.
    Slower = 2,
    /// Its idle latency fell by a third.
    Faster = 3,
    /// It began to fail.
    Failing = 4,
    /// Its failure level is back below the threshold of lowering.
    Recovered = 5,
    /// It has been quiet with requests in flight for long enough to double its score.
    Silent = 6,
    /// It answers again after that.
    Answering = 7,
    /// It is new, or came back, and is led up to its share.
    Ramping = 8,
    /// Its breaker opened.
    Opened = 9,
    /// A first trial since then succeeded.
    HalfOpen = 10,
    /// Its breaker closed.
    Closed = 11,
    /// Its checks fail.
    Unhealthy = 12,
    /// Its checks pass again.
    Healthy = 13,
}

impl Change {
    /// The change's name as logs and status pages show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Failing => "failing",
            Self::Recovered => "recovered",
            Self::Silent => "silent",
            Self::Answering => "answering",
            Self::Ramping => "ramping",
            Self::Opened => "opened",
            Self::HalfOpen => "half_open",
            Self::Closed => "closed",
            Self::Unhealthy => "unhealthy",
            Self::Healthy => "healthy",
        }
    }

    /// Packs the change with its time into [`Peer::last_change`].
    pub(crate) fn note(self, peer: &Peer, now: Micros) {
        peer.last_change.store(now << 8 | self as u64, Ordering::Relaxed);
    }

    /// The last change of `peer` and when it was, µs; `None` before the first.
    pub fn last(peer: &Peer) -> Option<(Self, Micros)> {
        let word = peer.last_change.load(Ordering::Relaxed);
        let change = match word & 0xff {
            1 => Self::New,
            2 => Self::Slower,
            3 => Self::Faster,
            4 => Self::Failing,
            5 => Self::Recovered,
            6 => Self::Silent,
            7 => Self::Answering,
            8 => Self::Ramping,
            9 => Self::Opened,
            10 => Self::HalfOpen,
            11 => Self::Closed,
            12 => Self::Unhealthy,
            13 => Self::Healthy,
            _ => return None,
        };
        Some((change, word >> 8))
    }
}

/// One point of a learned curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Requests in flight at dispatch (middle of the bucket; between two buckets' middles curves are interpolated).
    pub in_flight: f64,
    /// Predicted latency there, µs.
    pub latency_us: f64,
    /// Evidence in this bucket, samples.
    pub evidence: f64,
}

/// What a score consists of; all but the latency in ln seconds, so that factors are sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Factors {
    /// Predicted latency, ln seconds.
    pub speed: f32,
    /// What the request would cost those already there.
    pub marginal: f32,
    /// For being quiet with requests in flight.
    pub silence: f32,
    /// For failing.
    pub failure: f32,
    /// For a weight of its own; 0 when neutral.
    pub weight: f32,
    /// For having just come back; 0 when neutral.
    pub ramp: f32,
    /// For the server's own load report.
    pub load: f32,
}

/// How one server stands.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Predicted latency at the current queue, µs; `None` while the group has no evidence.
    pub latency_us: Option<f64>,
    /// The score of `policy=fastest` (ln seconds, smaller is better); `None` while the group has no evidence.
    pub score: Option<f32>,
    /// Its parts.
    pub factors: Factors,
    /// The curve at every bucket; empty while the group has no evidence.
    pub curve: Vec<CurvePoint>,
    /// Evidence of all buckets, samples.
    pub evidence: f64,
    /// Requests in flight.
    pub queue: u32,
    /// Failure level, 0–1.
    pub failure_level: f32,
    /// Attempts sent to it: the share of picks is this over the members' sum.
    pub requests: u64,
    /// Why its standing last changed and when, µs.
    pub change: Option<(Change, Micros)>,
}

/// Explains how every member stands at `now`, from the same table as the pick's.
pub fn explain(shared: Shared<'_>, members: &[Member], params: &Params, now: Micros) -> Vec<Explanation> {
    let mut table = Table::default();
    table.resize(members);
    table.refresh(shared, members, params, now);
    let slowest = table.rows.iter().map(|row| row.idle).fold(0.0, f32::max);
    members.iter().enumerate().map(|(i, m)| one(&mut table, (i, shared.peer(m.slot)), slowest, now)).collect()
}

/// Whether its failures, or being quiet with requests in flight, keep requests away from a server.
pub fn is_lowered(peer: &Peer, policy: Policy) -> bool {
    let silent = || Change::last(peer).is_some_and(|(change, _)| change == Change::Silent);
    // The other policies choose by other things.
    policy == Policy::Fastest && (is_failing(peer) || silent())
}

/// Whether its failures alone keep requests away from a server.
pub fn is_failing(peer: &Peer) -> bool {
    peer.failure_level() > LOWERED
}

/// How fast one server is expected to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Of one more request, µs.
    pub latency_us: f64,
    /// Of a request that finds it idle, µs.
    pub idle_us: f64,
    /// Its own answers behind that, samples; with none it is what its group's are.
    pub evidence: f64,
}

/// What is expected of every member at `now`; `None` while the group has no evidence.
pub fn latencies(shared: Shared<'_>, members: &[Member], params: &Params, now: Micros) -> Vec<Option<Expected>> {
    let mut table = Table::default();
    table.resize(members);
    table.refresh(shared, members, params, now);
    let mut one = |(i, member): (usize, &Member)| {
        let blank = table.blank;
        let evidence = table.rows.get(i).filter(|row| !blank && row.scale > 0.0)?.weight;
        let queue = shared.peer(member.slot).map_or(0, Peer::queue);
        let [latency_us, idle_us] = [queue, 0].map(|queue| f64::from(table.estimate(i, queue).latency) * 1e6);
        Some(Expected { latency_us, idle_us, evidence })
    };
    members.iter().enumerate().map(&mut one).collect()
}

/// Mean latency of the group over the latency that its curves predict (means of logarithms), 1 or more.
pub fn tail(shared: Shared<'_>, members: &[Member], params: &Params, now: Micros) -> f32 {
    let mut table = Table::default();
    table.resize(members);
    table.refresh(shared, members, params, now);
    table.tail
}

fn one(table: &mut Table, (i, peer): (usize, Option<&Peer>), slowest: f32, now: Micros) -> Explanation {
    let queue = peer.map_or(0, Peer::queue);
    let known = !table.blank && table.rows.get(i).is_some_and(|row| row.scale > 0.0);
    let mut explanation = Explanation {
        latency_us: None,
        score: None,
        factors: Factors::default(),
        curve: Vec::new(),
        evidence: table.rows.get(i).map_or(0.0, |row| row.weight),
        queue,
        failure_level: peer.map_or(0.0, Peer::failure_level),
        requests: peer.map_or(0, |p| p.requests.load(Ordering::Relaxed)),
        change: peer.and_then(Change::last),
    };
    if !known {
        return explanation;
    }
    let estimate = table.estimate(i, queue);
    let speed = estimate.latency.ln();
    let silence = peer
        .map_or(0.0, |p| silence(queue, seconds(since(p.quiet_since(), now)) as f32, estimate.latency * table.tail));
    let load = load(peer.map_or(1.0, Peer::load_factor));
    let before = estimate.base + silence + load;
    let score = with_failure(before, explanation.failure_level, slowest);
    explanation.latency_us = Some(f64::from(estimate.latency) * 1e6);
    explanation.score = Some(score);
    let (marginal, failure) = (estimate.base - speed, score - before);
    explanation.factors = Factors { speed, marginal, silence, failure, load, ..Factors::default() };
    explanation.curve = table.curve_of(i);
    explanation
}
