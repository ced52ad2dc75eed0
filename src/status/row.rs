//! What the status says of one server, named as in the answer.
//!
//! Figures come from the core's own explanation and from the shared record; names may be any bytes. Not here: which servers
//! there are (`document.rs`, `servers.rs`).

use std::borrow::Cow;

use labor_core::report::{self, Change, CurvePoint, Explanation};
use labor_core::sync::Ordering;
use labor_core::time::{Micros, seconds, since};
use labor_core::{Failure, Peer, Reason};
use serde::ser::{Serialize, Serializer};

use super::servers::{Server, Servers};
use crate::ffi;

/// One server.
#[derive(serde::Serialize)]
pub struct Row<'a> {
    /// Position in this answer's list.
    id: u32,
    name: Cow<'a, str>,
    address: Cow<'a, str>,
    backup: bool,
    state: &'static str,
    weight: i64,
    /// Requests whose latency is still to be measured, over all workers.
    in_flight: u32,
    /// Requests that hold a connection, over all workers.
    connections: u64,
    max_conns: u64,
    requests: u64,
    failures: Failures,
    aborts: u64,
    latency_us: Option<f64>,
    score: Option<f32>,
    factors: Factors,
    /// Picks of the last 10 to 20 seconds that fell on it, 0–1, by all workers.
    share: f64,
    picks: Counts<{ Reason::COUNT }>,
    evidence: f64,
    curve: Vec<Point>,
    last_change: Option<LastChange>,
    learning: bool,
}

impl<'a> Row<'a> {
    /// The row of `server` at position `id`; `peer` is its record and `explanation` how it stands, where there is one.
    pub fn new(
        id: u32,
        servers: &'a Servers,
        server: &Server,
        peer: Option<&Peer>,
        explanation: Option<&Explanation>,
        share: f64,
        now: Micros,
    ) -> Self {
        let counter = |of: fn(&Peer) -> &labor_core::sync::AtomicU64| peer.map_or(0, |p| of(p).load(Ordering::Relaxed));
        let curve = explanation.map_or(&[] as &[_], |e| e.curve.as_slice());
        // Beyond the last evidence the curve is the same rule for all servers: one point shows where it starts.
        let known = curve.iter().rposition(|point| point.evidence > 0.0).unwrap_or(0);
        Self {
            id,
            name: text(servers.name(server)),
            address: text(servers.address(server)),
            backup: servers.backup,
            state: if server.state == "up" && full(server, peer) { "full" } else { server.state },
            weight: server.weight,
            in_flight: peer.map_or(0, Peer::queue),
            connections: peer.map_or(server.conns as u64, |p| u64::from(p.connections())),
            max_conns: server.max_conns as u64,
            requests: counter(|p| &p.requests),
            failures: Failures::new(peer, explanation.map_or(0.0, |e| e.failure_level)),
            aborts: counter(|p| &p.aborts),
            latency_us: explanation.and_then(|e| e.latency_us).map(rounded),
            score: explanation.and_then(|e| e.score),
            factors: Factors::from(explanation.map(|e| e.factors).unwrap_or_default()),
            share,
            picks: Counts(Reason::ALL.map(|reason| {
                let count = peer.and_then(|p| p.picks.get(reason as usize));
                (reason.name(), count.map_or(0, |c| c.load(Ordering::Relaxed)))
            })),
            evidence: rounded(explanation.map_or(0.0, |e| e.evidence)),
            curve: curve.iter().take(known.saturating_add(2)).map(Point::from).collect(),
            last_change: explanation.and_then(|e| e.change).map(|(change, at)| LastChange::new(change, since(at, now))),
            learning: peer.is_some() && explanation.is_some(),
        }
    }
}

/// Whether `max_conns` is reached.
fn full(server: &Server, peer: Option<&Peer>) -> bool {
    ffi::full(server.max_conns, server.conns, || peer.map(Peer::connections))
}

/// Failures: how many, of what kind, and how it fails at present.
#[derive(serde::Serialize)]
struct Failures {
    total: u64,
    /// 0 (well) to 1 (every attempt fails).
    level: f32,
    #[serde(flatten)]
    kinds: Counts<{ Failure::COUNT }>,
}

impl Failures {
    fn new(peer: Option<&Peer>, level: f32) -> Self {
        let kinds = Failure::ALL.map(|kind| {
            let count = peer.and_then(|p| p.failures.get(kind as usize));
            (kind.name(), count.map_or(0, |c| c.load(Ordering::Relaxed)))
        });
        Self { total: kinds.iter().map(|(_, count)| count).sum(), level, kinds: Counts(kinds) }
    }
}

/// Named counters.
struct Counts<const N: usize>([(&'static str, u64); N]);

impl<const N: usize> Serialize for Counts<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0)
    }
}

/// What the score is the sum of, in ln seconds.
#[derive(serde::Serialize)]
struct Factors {
    speed: f32,
    marginal: f32,
    silence: f32,
    failure: f32,
    load: f32,
}

impl From<report::Factors> for Factors {
    fn from(f: report::Factors) -> Self {
        Self { speed: f.speed, marginal: f.marginal, silence: f.silence, failure: f.failure, load: f.load }
    }
}

/// One point of a curve.
#[derive(serde::Serialize)]
struct Point {
    in_flight: f64,
    latency_us: f64,
    evidence: f64,
}

impl From<&CurvePoint> for Point {
    fn from(p: &CurvePoint) -> Self {
        Self { in_flight: p.in_flight, latency_us: rounded(p.latency_us), evidence: rounded(p.evidence) }
    }
}

/// Why a server's standing last changed.
#[derive(serde::Serialize)]
struct LastChange {
    reason: &'static str,
    seconds_ago: f64,
}

impl LastChange {
    fn new(change: Change, ago: Micros) -> Self {
        Self { reason: change.name(), seconds_ago: rounded(seconds(ago)) }
    }
}

/// Three decimals: more say nothing and double the answer's length.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Any bytes as text: what is no UTF-8 becomes U+FFFD.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
