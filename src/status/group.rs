//! One upstream: its servers with their records, primary and backup, and what the status says of it as a whole.
//!
//! Everything is read once, at the start; writing it is serialisation only, in whatever format. Not here: one server
//! (`row.rs`), nginx's lists and locks (`servers.rs`).

use labor_core::control::Control;
use labor_core::key::group_key;
use labor_core::report::{self, Explanation};
use labor_core::sync::Ordering;
use labor_core::time::seconds;
use labor_core::{Member, Metric, Params, Peer, Policy, Reason};
use nginx_sys::{ngx_http_upstream_rr_peers_t, ngx_http_upstream_srv_conf_t};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::own::{Counts, reasons};
use super::past::{Events, History};
use super::query::Query;
use super::row::Row;
use super::text::{Clock, text};
use crate::ffi;
use crate::servers::{Server, Servers};
use crate::zone::{self, View};

/// What is to be known of how servers stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Counters and states only.
    Counters,
    /// The expected latency as well.
    Latency,
    /// Everything, curves included.
    All,
}

/// One upstream as it stood at one moment.
pub struct Group {
    /// Its name.
    pub name: &'static [u8],
    /// Its settings.
    pub params: Params,
    /// Primary and backup servers.
    pub lists: [List; 2],
    /// nginx's shared memory for it, if it has one.
    zone: Option<&'static [u8]>,
    view: Option<View>,
    clock: Clock,
    /// Requests to all its servers within the time that shares are about.
    recent: u64,
    /// That time, seconds.
    period: f64,
}

/// A list of servers, their records, and how each stands.
pub struct List {
    /// The servers as nginx has them.
    pub servers: Servers,
    /// Their records, in the same order.
    pub members: Vec<Member>,
    /// How they stand, in the same order; empty where nobody asked for it.
    explanations: Vec<Explanation>,
    /// What is expected of one more request, µs; likewise.
    latencies: Vec<Option<f64>>,
    /// The list's own record.
    pub group: Option<u32>,
}

impl Group {
    /// Reads the upstream, if it has `labor` and its name is `wanted`.
    ///
    /// # Safety
    /// `us` is an upstream of the running configuration; this worker holds no list's lock.
    pub unsafe fn read(
        us: *mut ngx_http_upstream_srv_conf_t,
        wanted: impl FnOnce(&[u8]) -> bool,
        depth: Depth,
        clock: Clock,
    ) -> Option<Self> {
        // SAFETY: names and settings live as long as the configuration; after start the lists are where they stay, and the link to
        // the backups is set once.
        let (name, params, zone, lists) = unsafe {
            let name = ffi::bytes((*us).host);
            let params = ffi::upstream_conf(us).as_ref().map(|conf| conf.params)?;
            let zone = (*us).shm_zone.as_ref().map(|zone| ffi::bytes(zone.shm.name));
            let primary = (*us).peer.data.cast::<ngx_http_upstream_rr_peers_t>();
            let backup = primary.as_ref().map_or(core::ptr::null_mut(), |p| p.next);
            if !wanted(name) {
                return None;
            }
            // Lists that keep changing are left out this time; so are backups that do not exist.
            (name, params, zone, [Servers::read(primary, false), Servers::read(backup, true)])
        };
        let view = zone::view();
        let lists = lists.map(|servers| {
            let mut list = List::new(servers.unwrap_or_default(), name, &params, view);
            list.explain(&params, view, depth, clock);
            list
        });
        let recent = |member: &Member| member.slot.zip(view).map_or(0, |(slot, view)| view.recent(slot));
        let total = lists.iter().flat_map(|list| &list.members).map(recent).sum();
        let period = view.map_or(0.0, |view| seconds(view.recent_period(clock.now)));
        Some(Self { name, params, lists, zone, view, clock, recent: total, period })
    }

    /// The servers, primary ones first.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let entries = self.lists.iter().flat_map(|list| {
            let explanations = list.explanations.iter().map(Some).chain(core::iter::repeat(None));
            let latencies = list.latencies.iter().copied().chain(core::iter::repeat(None));
            let servers = list.servers.iter().zip(&list.members).zip(explanations.zip(latencies));
            servers.map(move |((server, member), known)| (&list.servers, server, member, known))
        });
        entries.zip(0_u32..).map(move |((servers, server, member, (explanation, latency)), id)| {
            let known = member.slot.zip(self.view);
            let recent = known.map_or(0, |(slot, view)| view.recent(slot)) as f64;
            let peer = known.and_then(|(slot, view)| view.record(slot));
            Row {
                upstream: self.name,
                id,
                servers,
                server,
                peer,
                ledger: known.zip(peer).and_then(|((slot, view), peer)| view.ledger(slot, peer)),
                explanation,
                latency_us: explanation.map_or(latency, |e| e.latency_us),
                params: self.params,
                share: if self.recent == 0 { 0.0 } else { recent / self.recent as f64 },
                rate: if self.period > 0.0 { recent / self.period } else { 0.0 },
                clock: self.clock,
            }
        })
    }

    /// The upstream as JSON shows it, with what `query` asks for; `detail` is for curves and histograms.
    pub fn shown<'a>(&'a self, query: &'a Query, detail: bool) -> Shown<'a> {
        Shown { group: self, query, detail }
    }

    /// Whether the least bad server had to be used within the last ten seconds.
    pub fn is_failing_open(&self) -> bool {
        let groups = self.lists.iter().filter_map(|list| list.group);
        groups.filter_map(|group| Some(self.view?.shared(Some(group)).group)).any(|g| g.is_failing_open(self.clock.now))
    }

    fn own(&self, query: &Query) -> Own {
        let (mut requests, mut picks) = (0_u64, [0_u64; Reason::COUNT]);
        let slots = self.lists.iter().flat_map(|list| &list.members).filter_map(|member| member.slot);
        for peer in slots.filter_map(|slot| self.view?.record(slot)) {
            requests = requests.wrapping_add(peer.requests.load(Ordering::Relaxed));
            for (sum, count) in picks.iter_mut().zip(&peer.picks) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        let ring = |list: &List| self.view.zip(list.group).and_then(|(view, group)| view.events(group));
        let rings = self.lists.iter().filter_map(ring).map(labor_core::events::Events::recent);
        Own {
            policy: policy(self.params.policy),
            metric: metric(self.params.metric),
            half_life: seconds(self.params.half_life),
            explore: self.params.explore,
            slow_start: seconds(self.params.slow_start),
            fail_open: self.is_failing_open(),
            requests,
            picks: reasons(picks),
            events: Events::of(rings, self.clock),
            history: query.history.then(|| History::of(self, self.clock)),
        }
    }
}

impl List {
    /// Each server's record.
    fn new(servers: Servers, upstream: &[u8], params: &Params, view: Option<View>) -> Self {
        let slot = |server: &Server| view?.known(servers.key(server, upstream, params.metric));
        let member = |server: &Server| {
            let slot = slot(server);
            let control = view.and_then(|view| view.record(slot?)).map_or_else(Control::default, Peer::control);
            Member { slot, weight: control.over(server.configured).weight }
        };
        let members = servers.iter().map(member).collect();
        let group = view.and_then(|view| view.known_group(group_key(upstream, servers.backup, params.metric)));
        Self { servers, members, explanations: Vec::new(), latencies: Vec::new(), group }
    }

    /// How each stands.
    fn explain(&mut self, params: &Params, view: Option<View>, depth: Depth, clock: Clock) {
        let Some(shared) = view.map(|view| view.shared(self.group)) else { return };
        match depth {
            Depth::Counters => {}
            Depth::Latency => {
                let latencies = report::latencies(shared, &self.members, params, clock.now);
                self.latencies = latencies.into_iter().map(|known| known.map(|expected| expected.latency_us)).collect();
            }
            Depth::All => self.explanations = report::explain(shared, &self.members, params, clock.now),
        }
    }
}

/// An upstream in JSON.
pub struct Shown<'a> {
    group: &'a Group,
    query: &'a Query,
    detail: bool,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (group, query) = (self.group, self.query);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("peers", &Rows(self))?;
        if query.has_field("keepalive") {
            // Idle connections are each worker's own and not counted anywhere.
            map.serialize_entry("keepalive", &0)?;
        }
        if query.has_field("zombies") {
            // Servers that are gone and still have requests are not in nginx's list any more.
            map.serialize_entry("zombies", &0)?;
        }
        if query.has_field("zone") {
            map.serialize_entry("zone", &group.zone.map(text))?;
        }
        if query.has_field("labor") {
            map.serialize_entry("labor", &group.own(query))?;
        }
        map.end()
    }
}

/// The servers in JSON.
struct Rows<'a>(&'a Shown<'a>);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shown { group, query, detail } = self.0;
        serializer.collect_seq(group.rows().map(|row| row.shown(query, *detail)))
    }
}

/// What NGINX Plus has no field for.
#[derive(serde::Serialize)]
struct Own {
    policy: &'static str,
    metric: &'static str,
    /// Seconds.
    half_life: f64,
    /// Share of latency, 0–0.1.
    explore: f32,
    /// Seconds; 0 for none.
    slow_start: f64,
    /// Nobody was usable a moment ago, and the least bad server was used.
    fail_open: bool,
    requests: u64,
    picks: Counts<{ Reason::COUNT }>,
    events: Events,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<History>,
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
