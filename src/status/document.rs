//! What the status says down to the upstreams: one serialisable structure a level, named as in the answer.
//!
//! Upstreams are looked at one by one while the answer is written, so that only one is in memory. Figures come from the core's
//! own explanation and from the shared records. Not here: one server (`row.rs`), nginx's lists and locks (`servers.rs`), HTTP
//! (`status.rs`).

use labor_core::key::group_key;
use labor_core::report::{self, Explanation};
use labor_core::time::{Micros, seconds};
use labor_core::{Member, Metric, Params, Policy};
use nginx_sys::{ngx_http_upstream_rr_peers_t, ngx_http_upstream_srv_conf_t};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::row::{Row, text};
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
