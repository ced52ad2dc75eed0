//! What the status says: one serialisable structure a level, named as in the answer.
//!
//! Upstreams are looked at one by one while the answer is written, so that only one is in memory. Figures come from the core's
//! own explanation and from the shared records; names may be any bytes, what is no UTF-8 becomes U+FFFD. Not here: nginx's
//! lists and locks (`servers.rs`), HTTP (`status.rs`).

use std::borrow::Cow;

use labor_core::key::group_key;
use labor_core::report::{self, Change, CurvePoint, Explanation};
use labor_core::sync::Ordering;
use labor_core::time::{Micros, seconds, since};
use labor_core::{Failure, Member, Metric, Params, Peer, Policy, Reason};
use nginx_sys::{ngx_http_upstream_rr_peers_t, ngx_http_upstream_srv_conf_t};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::servers::{Server, Servers};
use crate::zone::{self, View};
use crate::{ffi, worker};

/// The version of this format: grows when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// The whole answer.
#[derive(serde::Serialize)]
pub struct Document<'a> {
    version: u32,
    nginx: &'static str,
    labor: &'static str,
    /// The process that answers.
    worker: u32,
    zone: Option<Zone>,
    upstreams: Upstreams<'a>,
}

/// The shared memory; null in a process without.
#[derive(serde::Serialize)]
struct Zone {
    size: usize,
    /// Configurations, the first and each reload, that have used this memory.
    generation: u64,
    peers_used: usize,
    peers_max: usize,
    lists_used: usize,
    workers_used: usize,
    workers_max: usize,
}

impl<'a> Document<'a> {
    /// The status of `upstreams` at this moment.
    pub fn new(upstreams: &'a [*mut ngx_http_upstream_srv_conf_t]) -> Self {
        let view = zone::view();
        let zone = view.map(|v| v.usage()).map(|usage| Zone {
            size: usage.size,
            generation: usage.configurations,
            peers_used: usage.peers,
            peers_max: usage.peers_max,
            lists_used: usage.groups,
            workers_used: usage.workers,
            workers_max: usage.workers_max,
        });
        Self {
            version: VERSION,
            nginx: env!("LABOR_NGINX_VERSION"),
            labor: env!("CARGO_PKG_VERSION"),
            worker: std::process::id(),
            zone,
            upstreams: Upstreams { list: upstreams, view, now: worker::now() },
        }
    }
}

/// Name → upstream.
struct Upstreams<'a> {
    list: &'a [*mut ngx_http_upstream_srv_conf_t],
    view: Option<View>,
    now: Micros,
}

impl Serialize for Upstreams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for us in self.list {
            // SAFETY: the upstreams of the running configuration, their names and their settings live as long as it does.
            let (name, params) =
                unsafe { (ffi::bytes((**us).host), ffi::upstream_conf(*us).as_ref().map(|c| c.params)) };
            if let Some(params) = params {
                map.serialize_entry(&text(name), &Upstream::read(*us, name, &params, self.view, self.now))?;
            }
        }
        map.end()
    }
}

/// One upstream.
#[derive(serde::Serialize)]
struct Upstream<'a> {
    policy: &'static str,
    metric: &'static str,
    /// Seconds.
    half_life: f64,
    /// Share of latency, 0–0.1.
    explore: f32,
    servers: Rows<'a>,
}

impl<'a> Upstream<'a> {
    fn read(
        us: *mut ngx_http_upstream_srv_conf_t,
        name: &'a [u8],
        params: &Params,
        view: Option<View>,
        now: Micros,
    ) -> Self {
        // SAFETY: as above; after start the lists are where they stay, and the link to the backups is set once.
        let lists = unsafe {
            let primary = (*us).peer.data.cast::<ngx_http_upstream_rr_peers_t>();
            let backup = primary.as_ref().map_or(core::ptr::null_mut(), |p| p.next);
            // Lists that keep changing are left out this time; so are backups that do not exist.
            [Servers::read(primary, false), Servers::read(backup, true)]
        };
        Self {
            policy: policy(params.policy),
            metric: metric(params.metric),
            half_life: seconds(params.half_life),
            explore: params.explore,
            servers: Rows { upstream: name, params: *params, lists: lists.map(Option::unwrap_or_default), view, now },
        }
    }
}

/// The servers of an upstream, primary and backup.
struct Rows<'a> {
    upstream: &'a [u8],
    params: Params,
    lists: [Servers; 2],
    view: Option<View>,
    now: Micros,
}

impl Rows<'_> {
    /// Each server's record, and how it stands.
    fn explain(&self, servers: &Servers) -> (Vec<Member>, Vec<Explanation>) {
        let slot = |server: &Server| self.view?.known(servers.key(server, self.upstream, self.params.metric));
        let member = |server: &Server| Member {
            slot: slot(server),
            weight: u32::try_from(server.weight.max(0)).unwrap_or(u32::MAX),
        };
        let members: Vec<Member> = servers.iter().map(member).collect();
        let explanations = self.view.map_or_else(Vec::new, |view| {
            let group = view.known_group(group_key(self.upstream, servers.backup, self.params.metric));
            report::explain(view.shared(group), &members, &self.params, self.now)
        });
        (members, explanations)
    }
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        let stand: Vec<_> = self.lists.iter().map(|servers| (servers, self.explain(servers))).collect();
        let recent = |member: &Member| member.slot.zip(self.view).map_or(0, |(slot, view)| view.recent(slot));
        let total: u64 = stand.iter().flat_map(|(_, (members, _))| members).map(recent).sum();
        let mut id = 0_u32;
        for (servers, (members, explanations)) in &stand {
            let mut explanations = explanations.iter();
            for (server, member) in servers.iter().zip(members) {
                let peer = member.slot.zip(self.view).and_then(|(slot, view)| view.record(slot));
                let share = if total == 0 { 0.0 } else { recent(member) as f64 / total as f64 };
                let row = Row::new(id, servers, server, peer, explanations.next(), share, self.now);
                seq.serialize_element(&row)?;
                id = id.saturating_add(1);
            }
        }
        seq.end()
    }
}

/// One server.
#[derive(serde::Serialize)]
struct Row<'a> {
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
    fn new(
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
        Self {
            id,
            name: text(servers.name(server)),
            address: text(servers.address(server)),
            backup: servers.backup,
            state: if server.state == "up" && full(server, peer) { "full" } else { server.state },
            weight: server.weight,
            in_flight: peer.map_or(0, Peer::queue),
            connections: peer.map_or(server.conns, |p| u64::from(p.connections())),
            max_conns: server.max_conns,
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
            curve: curve.iter().map(Point::from).collect(),
            last_change: explanation.and_then(|e| e.change).map(|(change, at)| LastChange::new(change, since(at, now))),
            learning: peer.is_some() && explanation.is_some(),
        }
    }
}

/// Whether `max_conns` is reached: by nginx's count and, where there is a record, by ours, as the request path sees it.
fn full(server: &Server, peer: Option<&Peer>) -> bool {
    let held = peer.map_or(u64::MAX, |p| u64::from(p.connections())).min(server.conns);
    server.max_conns > 0 && held >= server.max_conns
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

/// Any bytes as text.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

const fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Fastest => "fastest",
        Policy::Weighted => "weighted",
        Policy::LeastConn => "least_conn",
        Policy::RoundRobin => "round_robin",
        Policy::Decay => "decay",
    }
}

const fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::LastByte => "last_byte",
        Metric::Header => "header",
    }
}
