//! What the tables say: the status of upstreams, and their events.

use std::cmp::Ordering;

use clap::ValueEnum;

use crate::model::{Event, Peer, Setting, Status, Upstream};
use crate::table::{Cell, Column, Line, Style, table};
use crate::text::{age, latency, printable, rate, share, word};

/// What servers are sorted by; the worst come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// As configured
    #[default]
    Server,
    /// Those that are out first
    State,
    /// Expected response time
    Latency,
    /// 99th percentile of the response time
    P99,
    /// Requests in flight
    InFlight,
    /// Share of the traffic
    Share,
    /// Failures so far
    Failures,
}

impl Sort {
    /// Its word on the command line and on the screen.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|sort| *sort == self).unwrap_or(0);
        all.get(at + 1).copied().unwrap_or_default()
    }

    fn compare(self, a: &Peer, b: &Peer) -> Ordering {
        // Larger first; what is not known comes last.
        let down = |of: &dyn Fn(&Peer) -> Option<f64>| of(b).unwrap_or(-1.0).total_cmp(&of(a).unwrap_or(-1.0));
        match self {
            Self::Server => Ordering::Equal,
            Self::State => down(&|p| Some(f64::from(severity(p)))),
            Self::Latency => down(&|p| p.labor.latency_us),
            Self::P99 => down(&|p| p.labor.p99_us),
            Self::InFlight => down(&|p| Some(p.labor.in_flight as f64)),
            Self::Share => down(&|p| p.labor.share),
            Self::Failures => down(&|p| Some(p.labor.failures.total as f64)),
        }
    }
}

/// How the tables are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct View<'a> {
    /// Order of the servers.
    pub sort: Sort,
    /// The other way round.
    pub reverse: bool,
    /// Columns of the screen, where there is one.
    pub room: Option<usize>,
    /// What to call the server at an address: `ADDRESS=NAME`.
    pub labels: &'a [String],
}

const COLUMNS: [Column; 12] = [
    Column { title: "server", right: false, rank: 0 },
    Column { title: "state", right: false, rank: 0 },
    Column { title: "latency", right: true, rank: 1 },
    Column { title: "p50", right: true, rank: 8 },
    Column { title: "p99", right: true, rank: 4 },
    Column { title: "in flight", right: true, rank: 5 },
    Column { title: "share", right: true, rank: 2 },
    Column { title: "req/s", right: true, rank: 6 },
    Column { title: "failures", right: true, rank: 3 },
    Column { title: "weight", right: true, rank: 9 },
    Column { title: "picked because", right: false, rank: 10 },
    Column { title: "last change", right: false, rank: 7 },
];

/// The table of every upstream.
pub fn status(status: &Status, view: &View) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, upstream) in &status.upstreams.0 {
        if !lines.is_empty() {
            lines.push(Line::new());
        }
        lines.push(heading(name, upstream));
        lines.extend(servers(upstream, view));
    }
    if lines.is_empty() {
        lines.push(vec!["no upstream has a labor directive".into()]);
    }
    lines
}

fn heading(name: &str, upstream: &Upstream) -> Line {
    let labor = &upstream.labor;
    let settings: Vec<String> =
        [&labor.policy, &labor.metric].into_iter().filter(|w| !w.is_empty()).map(|w| word(w)).collect();
    let usable = upstream.peers.iter().filter(|peer| severity(peer) < OUT).count();
    let count = format!("{usable} of {} servers usable", upstream.peers.len());
    let style = match usable {
        0 if !upstream.peers.is_empty() => Style::Bad,
        n if n < upstream.peers.len() => Style::Warn,
        _ => Style::Dim,
    };
    vec![
        Cell::new(Style::Bold, printable(name)),
        "  ".into(),
        Cell::new(Style::Dim, settings.join(", ")),
        (if settings.is_empty() { "" } else { "  " }).into(),
        Cell::new(style, count),
    ]
}

fn servers(upstream: &Upstream, view: &View) -> Vec<Line> {
    let mut peers: Vec<&Peer> = upstream.peers.iter().collect();
    peers.sort_by(|a, b| view.sort.compare(a, b));
    if view.reverse {
        peers.reverse();
    }
    let rows: Vec<Vec<Cell>> = peers.into_iter().map(|peer| row(peer, view.labels)).collect();
    table(&COLUMNS, &rows, view.room)
}

fn row(peer: &Peer, labels: &[String]) -> Vec<Cell> {
    let labor = &peer.labor;
    let time = |us: Option<f64>| Cell::from(us.map_or("-".into(), latency));
    let failing = if labor.failures.level > 0.0 { Style::Warn } else { Style::Plain };
    vec![
        Cell::from(server_name(peer, labels)),
        state(peer),
        time(labor.latency_us),
        time(labor.p50_us),
        time(labor.p99_us),
        labor.in_flight.to_string().into(),
        labor.share.map_or("-".into(), share).into(),
        labor.requests_per_second.map_or("-".into(), rate).into(),
        Cell::new(failing, labor.failures.total.to_string()),
        setting(&labor.weight, |w| w.to_string()).into(),
        picks(peer).into(),
        labor
            .last_change
            .as_ref()
            .map_or("-".into(), |change| {
                let detail = change
                    .detail
                    .as_deref()
                    .filter(|d| !d.is_empty())
                    .map_or_else(String::new, |d| format!(" ({})", printable(d)));
                format!("{}{detail}, {} ago", word(&change.reason), age(change.seconds_ago))
            })
            .into(),
    ]
}

fn server_name(peer: &Peer, labels: &[String]) -> String {
    let label = labels.iter().find_map(|label| label.strip_prefix(peer.server.as_str())?.strip_prefix('='));
    let mut shown = printable(&peer.server);
    if let Some(label) = label {
        shown = format!("{} {shown}", printable(label));
    }
    if !peer.name.is_empty() && peer.name != peer.server {
        shown += &format!(" ({})", printable(&peer.name));
    }
    if peer.backup {
        shown += " backup";
    }
    shown
}

/// From this on a server gets no ordinary requests.
const OUT: u8 = 3;

/// 0 well to 4 out by trouble.
fn severity(peer: &Peer) -> u8 {
    match state_name(peer) {
        "up" => 0,
        "ramping" | "full" | "checking" => 1,
        "lowered" => 2,
        "half_open" | "drain" | "draining" | "down" => OUT,
        _ => OUT + 1,
    }
}

/// Our word; where it is missing, Plus's.
fn state_name(peer: &Peer) -> &str {
    if peer.labor.state.is_empty() { &peer.state } else { &peer.labor.state }
}

fn state(peer: &Peer) -> Cell {
    let name = state_name(peer);
    let mut text = if name.is_empty() { "-".into() } else { word(name) };
    if name != "up"
        && let Some(since) = peer.labor.state_since
    {
        text += &format!(" {}", age(since));
    }
    let style = match severity(peer) {
        0 => Style::Plain,
        s if s > OUT => Style::Bad,
        _ => Style::Warn,
    };
    Cell::new(style, text)
}

/// "5", or "5 (api, configured 1)" where the configuration does not have the last word.
pub fn setting<T>(setting: &Setting<T>, text: impl Fn(&T) -> String) -> String {
    let shown = |value: &Option<T>| value.as_ref().map_or("-".into(), &text);
    let effective = shown(&setting.effective);
    match setting.source.as_str() {
        "" | "configuration" => effective,
        source => format!("{effective} ({}, configured {})", word(source), shown(&setting.configured)),
    }
}

/// The two commonest reasons, "fastest 93 %, explore 2 %".
fn picks(peer: &Peer) -> String {
    let mut counts: Vec<(&str, u64)> =
        peer.labor.picks.iter().map(|(why, n)| (why.as_str(), *n)).filter(|(_, n)| *n > 0).collect();
    let total: f64 = counts.iter().map(|(_, n)| *n as f64).sum();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    // A rare reason that would show as 0 % says nothing.
    let shown: Vec<String> = counts
        .iter()
        .take(2)
        .filter(|(_, n)| *n as f64 >= 0.005 * total)
        .map(|(why, n)| format!("{} {:.0} %", word(why), *n as f64 * 100.0 / total))
        .collect();
    if shown.is_empty() { "-".into() } else { shown.join(", ") }
}

/// Events of all upstreams, the newest last, as in a log.
pub fn events(status: &Status) -> Vec<(String, Event)> {
    let of = |(name, upstream): &(String, Upstream)| -> Vec<(String, Event)> {
        upstream.labor.events.iter().map(|event| (name.clone(), event.clone())).collect()
    };
    let mut events: Vec<_> = status.upstreams.0.iter().flat_map(of).collect();
    // They come newest first; a stable sort keeps the order of what happened at one moment.
    events.reverse();
    events.sort_by(|(_, a), (_, b)| b.seconds_ago.total_cmp(&a.seconds_ago));
    events
}

/// One event: when, where, what.
pub fn event(upstream: &str, event: &Event) -> Line {
    let place = event
        .server
        .as_deref()
        .map_or_else(|| printable(upstream), |s| format!("{} {}", printable(upstream), printable(s)));
    let style = match event.reason.as_str() {
        "lowered" | "silent" | "opened" | "check_failed" | "zone_full" | "down" => Style::Warn,
        _ => Style::Plain,
    };
    let detail =
        event.detail.as_deref().filter(|d| !d.is_empty()).map_or_else(String::new, |d| format!(": {}", printable(d)));
    vec![
        Cell::new(Style::Dim, printable(&event.time)),
        format!("  {place}  ").into(),
        Cell::new(style, word(&event.reason)),
        detail.into(),
    ]
}
