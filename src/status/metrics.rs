//! The status as Prometheus reads it: text format 0.0.4, names after its rules, base units.
//!
//! All samples of a metric stand together, so every server is read before the first line is written. What a metric means is said
//! in its own line of help and nowhere else. Not here: the request (`status.rs`).

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use labor_core::control::Settings;
use labor_core::histogram::BOUNDS;
use labor_core::ledger::{Ledger, State};
use labor_core::sync::Ordering;
use labor_core::time::Micros;
use labor_core::{Failure, Peer, Reason};
use nginx_sys::ngx_http_upstream_srv_conf_t;

use super::group::{Depth, Group};
use super::query::Query;
use super::row::Row;
use super::text::{Clock, text};
use crate::zone;

mod lines;

use lines::{Lines, Value, label};

/// Buckets below this octave's bound (512 µs) and above the other's (67 s) are taken together with their neighbours: so many
/// series more would tell nobody anything.
const OCTAVES: core::ops::Range<usize> = 2..20;

/// A server, with what does not change from one line to the next.
struct Server<'a> {
    row: Row<'a>,
    state: State,
    settings: Settings,
    /// `upstream="…",server="…"`.
    labels: Vec<u8>,
}

/// How a metric's samples are made.
type Samples = fn(&Server<'_>, &mut Lines<'_>);

/// Name, type, help, samples of every metric of a server.
const METRICS: &[(&str, &str, &str, Samples)] = &[
    ("labor_server_state", "gauge", "1 for the state that the server is in, 0 for every other.", |s, out| {
        for state in State::ALL {
            out.with("state", state.name(), Value::Count(u64::from(state == s.state)));
        }
    }),
    ("labor_server_weight", "gauge", "The weight that holds.", |s, out| {
        out.plain(Value::Count(s.settings.weight.into()));
    }),
    ("labor_server_requests_total", "counter", "Attempts sent to the server.", |s, out| {
        out.plain(Value::Count(s.row.requests()));
    }),
    ("labor_server_responses_total", "counter", "Answers by class of their HTTP status.", |s, out| {
        let counts = s.row.ledger.map_or([0; 5], Ledger::responses);
        for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(counts) {
            out.with("code", class, Value::Count(count));
        }
    }),
    ("labor_server_selections_total", "counter", "Attempts by the reason why the server was picked.", |s, out| {
        for (reason, count) in Reason::ALL.into_iter().zip(s.row.picks()) {
            out.with("reason", reason.name(), Value::Count(count));
        }
    }),
    ("labor_server_failures_total", "counter", "Failed attempts by kind.", |s, out| {
        for (kind, count) in Failure::ALL.into_iter().zip(s.row.failures()) {
            out.with("kind", kind.name(), Value::Count(count));
        }
    }),
    ("labor_server_aborts_total", "counter", "Attempts that ended because the client left (499).", |s, out| {
        out.plain(Value::Count(s.row.counter(|p| &p.aborts)));
    }),
    ("labor_server_failure_ratio", "gauge", "How the server fails at present: 0 not, 1 always.", |s, out| {
        out.plain(Value::Ratio(s.row.peer.map_or(0.0, Peer::failure_level).into()));
    }),
    ("labor_server_inflight", "gauge", "Requests that wait for their measurement.", |s, out| {
        out.plain(Value::Count(s.row.peer.map_or(0, Peer::queue).into()));
    }),
    ("labor_server_connections", "gauge", "Requests that hold a connection.", |s, out| {
        out.plain(Value::Count(s.row.connections()));
    }),
    ("labor_server_connections_limit", "gauge", "max_conns; absent without a limit.", |s, out| {
        if s.settings.max_conns > 0 {
            out.plain(Value::Count(s.settings.max_conns));
        }
    }),
    (
        "labor_server_latency_seconds",
        "gauge",
        "Response time expected of one more request; absent while unknown.",
        |s, out| {
            if let Some(us) = s.row.latency_us {
                out.plain(Value::Time(us as Micros));
            }
        },
    ),
    (
        "labor_server_response_duration_seconds",
        "histogram",
        "Answers by response time as the upstream measures it.",
        histogram,
    ),
    (
        "labor_server_ramp_ratio",
        "gauge",
        "Part of its even share that the server may take while slow_start leads it up to it; 1 otherwise.",
        |s, out| out.plain(Value::Ratio(f64::from(s.row.ramp()))),
    ),
    ("labor_server_health_checks_total", "counter", "Probes by result; absent without labor_check.", |s, out| {
        if let Some(check) = s.row.check() {
            let (probes, failures, _) = check.counts();
            out.with("result", "pass", Value::Count(probes.saturating_sub(failures)));
            out.with("result", "fail", Value::Count(failures));
        }
    }),
    (
        "labor_server_unhealthy_total",
        "counter",
        "How often checks found the server unhealthy; absent without labor_check.",
        |s, out| {
            if let Some(check) = s.row.check() {
                out.plain(Value::Count(check.counts().2));
            }
        },
    ),
    ("labor_server_ejections_total", "counter", "How often the server was lowered or taken out.", |s, out| {
        out.plain(Value::Count(s.row.ledger.map_or(0, Ledger::ejections)));
    }),
    (
        "labor_server_downtime_seconds_total",
        "counter",
        "Time for which max_fails had taken the server out.",
        |s, out| {
            // As far as the keeper has looked: it books a past time by its own clock, and a counter never goes back.
            let seen = |l: &Ledger| l.kept.seen.load(Ordering::Acquire);
            out.plain(Value::Time(s.row.ledger.map_or(0, |l| l.downtime(seen(l)))));
        },
    ),
    ("labor_server_sent_bytes_total", "counter", "Bytes sent to the server.", |s, out| {
        out.plain(Value::Count(s.row.ledger.map_or((0, 0), Ledger::bytes).0));
    }),
    ("labor_server_received_bytes_total", "counter", "Bytes received from the server.", |s, out| {
        out.plain(Value::Count(s.row.ledger.map_or((0, 0), Ledger::bytes).1));
    }),
];

/// Bounds as text, made once: a thousand servers have them a thousand times.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| BOUNDS.iter().copied().map(lines::bound).collect());

fn histogram(server: &Server<'_>, out: &mut Lines<'_>) {
    let Some(ledger) = server.row.ledger else { return };
    let (octaves, sum) = ledger.histogram.octaves();
    let bounds = &*TEXTS;
    let mut below = 0_u64;
    for (octave, count) in octaves.iter().enumerate() {
        below = below.wrapping_add(*count);
        if let Some(bound) = bounds.get(octave).filter(|_| OCTAVES.contains(&octave)) {
            out.bucket(Some(bound), below);
        }
    }
    out.bucket(None, below);
    out.end_of_histogram(sum, below);
}

/// Writes every metric of `upstreams`.
///
/// # Safety
/// Upstreams of the running configuration, which are not changed any more; this worker holds no list's lock.
pub unsafe fn write(
    out: &mut impl Write,
    upstreams: &[*mut ngx_http_upstream_srv_conf_t],
    query: &Query,
) -> io::Result<()> {
    let clock = Clock::read();
    // SAFETY: as required.
    let read = |us: &*mut _| unsafe { Group::read(*us, |name| query.has_upstream(name), Depth::Latency, clock) };
    let groups: Vec<Group> = upstreams.iter().filter_map(read).collect();
    let servers: Vec<Server<'_>> = groups.iter().flat_map(servers_of).collect();
    let mut buffer = Vec::new();
    general(&mut buffer, &groups, &servers);
    for (name, kind, help, samples) in METRICS {
        lines::head(&mut buffer, name, kind, help);
        for server in &servers {
            samples(server, &mut Lines::new(&mut buffer, name, &server.labels));
            if buffer.len() >= lines::ENOUGH {
                out.write_all(&buffer)?;
                buffer.clear();
            }
        }
    }
    out.write_all(&buffer)
}

/// What is not about one server.
fn general(out: &mut Vec<u8>, groups: &[Group], servers: &[Server<'_>]) {
    lines::head(out, "labor_build_info", "gauge", "1, with the versions of module and nginx.");
    let mut labels = Vec::new();
    label(&mut labels, "version", env!("CARGO_PKG_VERSION"));
    label(&mut labels, "nginx", env!("LABOR_NGINX_VERSION"));
    Lines::new(out, "labor_build_info", &labels).plain(Value::Count(1));
    if let Some(usage) = zone::view().map(|view| view.usage()) {
        for (name, help, value) in [
            ("labor_zone_size_bytes", "Shared memory of the module.", usage.size as u64),
            ("labor_zone_servers", "Servers with a record in it.", usage.peers as u64),
            ("labor_zone_servers_limit", "Servers for which there is room.", usage.peers_max as u64),
        ] {
            lines::head(out, name, "gauge", help);
            Lines::new(out, name, b"").plain(Value::Count(value));
        }
        let name = "labor_configurations_total";
        lines::head(out, name, "counter", "Configurations, the first and each reload, that used the shared memory.");
        Lines::new(out, name, b"").plain(Value::Count(usage.configurations));
    }
    fail_open(out, groups);
    let name = "labor_upstream_servers";
    lines::head(out, name, "gauge", "Servers of the upstream by state.");
    let mut rest = servers;
    for group in groups {
        let mut labels = Vec::new();
        label(&mut labels, "upstream", &text(group.name));
        // Servers stand in the order of their upstreams: with thousands of these nobody is looked at for each.
        let end = rest.iter().position(|s| s.row.upstream != group.name).unwrap_or(rest.len());
        let (own, others) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        rest = others;
        for state in State::ALL {
            let count = own.iter().filter(|s| s.state == state).count() as u64;
            Lines::new(out, name, &labels).with("state", state.name(), Value::Count(count));
        }
    }
}

fn fail_open(out: &mut Vec<u8>, groups: &[Group]) {
    let name = "labor_upstream_fail_open";
    lines::head(out, name, "gauge", "1 while nobody is usable and the least bad server is used.");
    for group in groups {
        let mut labels = Vec::new();
        label(&mut labels, "upstream", &text(group.name));
        Lines::new(out, name, &labels).plain(Value::Count(u64::from(group.is_failing_open())));
    }
}

/// The servers of an upstream. Addresses that it has more than once get a number as well: a series is one server's.
fn servers_of(group: &Group) -> Vec<Server<'_>> {
    let mut seen: HashMap<&[u8], u64> = HashMap::new();
    let one = |row: Row<'_>| {
        let mut labels = Vec::new();
        label(&mut labels, "upstream", &text(group.name));
        label(&mut labels, "server", &text(row.address()));
        labels
    };
    let mut servers = Vec::new();
    for row in group.rows() {
        let mut labels = one(row);
        let count = seen.entry(row.address()).or_insert(0);
        if *count > 0 {
            label(&mut labels, "ordinal", &count.to_string());
        }
        *count = count.saturating_add(1);
        servers.push(Server { row, state: row.state(), settings: row.settings(), labels });
    }
    servers
}
