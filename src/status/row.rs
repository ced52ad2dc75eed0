//! What the status says of one server: fields of NGINX Plus under its names, our own under `labor`.
//!
//! Plus's clients decode its fields as integers, so they are; times of our own are in µs. Figures come from the core's own
//! explanation and from the shared record; names may be any bytes. Not here: which servers there are (`group.rs`, `servers.rs`).

use labor_core::report::{self, Change, CurvePoint, Explanation};
use labor_core::sync::{AtomicU64, Ordering};
use labor_core::time::{seconds, since};
use labor_core::{Failure, Peer, Reason};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::query::Query;
use super::servers::{Server, Servers};
use super::text::{Clock, rounded, text};
use crate::ffi;

/// One server and all that is known of it.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Position in the answer's list.
    pub id: u32,
    /// The list it stands in.
    pub servers: &'a Servers,
    /// As nginx has it.
    pub server: &'a Server,
    /// Its record, where it has one.
    pub peer: Option<&'a Peer>,
    /// How it stands.
    pub explanation: Option<&'a Explanation>,
    /// Picks of the last 10 to 20 seconds that fell on it, 0–1, by all workers.
    pub share: f64,
    /// Requests a second over the same time.
    pub rate: f64,
    /// This moment.
    pub clock: Clock,
    /// What is wanted.
    pub query: &'a Query,
    /// Whether curve and histogram are shown.
    pub detail: bool,
}

/// A map that leaves out what is not wanted.
struct Fields<'a, M> {
    map: M,
    query: &'a Query,
}

impl<M: SerializeMap> Fields<'_, M> {
    fn put<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), M::Error> {
        if self.query.has_field(name) { self.map.serialize_entry(name, value) } else { Ok(()) }
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, query: self.query };
        let state = self.state();
        fields.put("id", &self.id)?;
        fields.put("server", &text(self.servers.address(self.server)))?;
        fields.put("name", &text(self.servers.name(self.server)))?;
        fields.put("backup", &self.servers.backup)?;
        fields.put("weight", &self.server.weight)?;
        fields.put("state", plus_state(state))?;
        fields.put("active", &self.connections())?;
        if self.server.max_conns > 0 {
            fields.put("max_conns", &(self.server.max_conns as u64))?;
        }
        fields.put("requests", &self.counter(|p| &p.requests))?;
        fields.put("fails", &self.failures().total)?;
        if let Some(date) = self.peer.and_then(|p| self.clock.date(p.last_pick.load(Ordering::Relaxed))) {
            fields.put("selected", &date)?;
        }
        fields.put("labor", &self.own(state))?;
        fields.map.end()
    }
}

impl Row<'_> {
    /// Our own word for how the server stands: the first that holds of down, drain, unavail, full, lowered, up.
    pub fn state(&self) -> &'static str {
        match self.server.state {
            "up" if self.full() => "full",
            "up" if self.explanation.is_some_and(|e| e.lowered) => "lowered",
            other => other,
        }
    }

    /// Whether `max_conns` is reached.
    fn full(&self) -> bool {
        ffi::full(self.server.max_conns, self.server.conns, || self.peer.map(Peer::connections))
    }

    fn counter(&self, of: fn(&Peer) -> &AtomicU64) -> u64 {
        self.peer.map_or(0, |p| of(p).load(Ordering::Relaxed))
    }

    fn connections(&self) -> u64 {
        self.peer.map_or(self.server.conns as u64, |p| u64::from(p.connections()))
    }

    fn failures(&self) -> Failures {
        let level = self.explanation.map_or(0.0, |e| e.failure_level);
        let kinds = Failure::ALL.map(|kind| {
            let count = self.peer.and_then(|p| p.failures.get(kind as usize));
            (kind.name(), count.map_or(0, |c| c.load(Ordering::Relaxed)))
        });
        Failures { total: kinds.iter().map(|(_, count)| count).sum(), level, kinds: Counts(kinds) }
    }

    /// Attempts by reason of the pick.
    pub fn picks(&self) -> [u64; Reason::COUNT] {
        let count = |reason: Reason| self.peer.and_then(|p| p.picks.get(reason as usize));
        Reason::ALL.map(|reason| count(reason).map_or(0, |c| c.load(Ordering::Relaxed)))
    }

    /// Attempts sent to it.
    pub fn requests(&self) -> u64 {
        self.counter(|p| &p.requests)
    }

    /// What is ours, `state` being [`Self::state`].
    pub fn own(&self, state: &'static str) -> Own {
        let e = self.explanation;
        let curve = e.map_or(&[] as &[_], |e| e.curve.as_slice());
        // Beyond the last evidence the curve is the same rule for all servers: one point shows where it starts.
        let known = curve.iter().rposition(|point| point.evidence > 0.0).unwrap_or(0);
        let change = e.and_then(|e| e.change);
        Own {
            state,
            state_since: None,
            weight: Setting::configured(u64::try_from(self.server.weight).unwrap_or(0)),
            max_conns: Setting::configured(self.server.max_conns as u64),
            latency_us: e.and_then(|e| e.latency_us).map(rounded),
            p50_us: None,
            p99_us: None,
            in_flight: self.peer.map_or(0, Peer::queue),
            connections: self.connections(),
            score: e.and_then(|e| e.score),
            factors: Factors::from(e.map(|e| e.factors).unwrap_or_default()),
            share: self.share,
            requests_per_second: rounded(self.rate),
            picks: reasons(self.picks()),
            failures: self.failures(),
            aborts: self.counter(|p| &p.aborts),
            evidence: rounded(e.map_or(0.0, |e| e.evidence)),
            curve: self.detail.then(|| curve.iter().take(known.saturating_add(2)).map(Point::from).collect()),
            last_change: change.map(|(change, at)| LastChange::new(change, since(at, self.clock.now))),
            learning: self.peer.is_some() && e.is_some(),
        }
    }
}

/// The word of NGINX Plus for a state of ours.
fn plus_state(state: &'static str) -> &'static str {
    match state {
        "full" | "lowered" => "up",
        "drain" => "draining",
        other => other,
    }
}

/// What NGINX Plus has no field for.
#[derive(serde::Serialize)]
pub struct Own {
    pub state: &'static str,
    /// Seconds that it has been in this state; null when nobody has watched it for long enough to know.
    state_since: Option<f64>,
    pub weight: Setting,
    max_conns: Setting,
    pub latency_us: Option<f64>,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Requests whose latency is still to be measured, over all workers.
    pub in_flight: u32,
    /// Requests that hold a connection, over all workers.
    connections: u64,
    score: Option<f32>,
    factors: Factors,
    pub share: f64,
    pub requests_per_second: f64,
    picks: Counts<{ Reason::COUNT }>,
    pub failures: Failures,
    aborts: u64,
    evidence: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<Vec<Point>>,
    pub last_change: Option<LastChange>,
    learning: bool,
}

/// A parameter that may be changed at run time: what holds now, what the configuration says, and who set it.
#[derive(serde::Serialize)]
pub struct Setting {
    pub effective: u64,
    pub configured: u64,
    pub source: &'static str,
}

impl Setting {
    fn configured(value: u64) -> Self {
        Self { effective: value, configured: value, source: "configuration" }
    }
}

/// Failures: how many, of what kind, and how it fails at present.
#[derive(serde::Serialize)]
pub struct Failures {
    pub total: u64,
    /// 0 (well) to 1 (every attempt fails).
    level: f32,
    #[serde(flatten)]
    kinds: Counts<{ Failure::COUNT }>,
}

/// Counters by reason of the pick.
pub fn reasons(picks: [u64; Reason::COUNT]) -> Counts<{ Reason::COUNT }> {
    let mut counts = Reason::ALL.map(|reason| (reason.name(), 0));
    for ((_, count), n) in counts.iter_mut().zip(picks) {
        *count = n;
    }
    Counts(counts)
}

/// Named counters.
pub struct Counts<const N: usize>([(&'static str, u64); N]);

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
    weight: f32,
    ramp: f32,
    load: f32,
}

impl From<report::Factors> for Factors {
    fn from(f: report::Factors) -> Self {
        let report::Factors { speed, marginal, silence, failure, weight, ramp, load } = f;
        Self { speed, marginal, silence, failure, weight, ramp, load }
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
pub struct LastChange {
    pub reason: &'static str,
    pub seconds_ago: f64,
}

impl LastChange {
    fn new(change: Change, ago: u64) -> Self {
        Self { reason: change.name(), seconds_ago: rounded(seconds(ago)) }
    }
}
