//! What the status says of one server that NGINX Plus has no field for: all that stands under `labor`.
//!
//! Named as in the answer; times in µs. Plain data: what is shown is decided here, what is known of a server is `row.rs`.

use labor_core::breaker::{self, Phase};
use labor_core::check::Check;
use labor_core::control::{Control, Settings};
use labor_core::histogram::BOUNDS;
use labor_core::ledger::{Ledger, State};
use labor_core::params::BreakerParams;
use labor_core::report::{self, Change, CurvePoint};
use labor_core::time::{Micros, seconds, since};
use labor_core::{Failure, Peer, Reason};
use serde::ser::{Serialize, Serializer};

use super::row::Row;
use super::text::rounded;

/// The fields under `labor` of a server.
#[derive(serde::Serialize)]
pub struct Own {
    pub state: &'static str,
    /// Seconds that it has been in this state; null when nobody has watched it for long enough to know.
    state_since: Option<f64>,
    /// Whose word it is that the server is up, drains or is down.
    pub state_source: &'static str,
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
    /// Null without `labor_breaker`.
    breaker: Option<Breaker>,
    /// Null without `labor_check`.
    pub check: Option<Checked>,
    /// The part of its even share that it may take, while it is led up to it; 1 otherwise.
    pub ramp: f32,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Histogram>,
}

impl Own {
    /// Of the server of `row`, which is in `state` and has `settings`; `detail` is for curve and histogram.
    pub fn new(row: &Row<'_>, state: State, settings: Settings, detail: bool) -> Self {
        let (e, now, control) = (row.explanation, row.clock.now, row.control());
        let configured = row.server.configured;
        // A state that the keeper has not seen yet has only just begun.
        let since_when = row.ledger.and_then(Ledger::standing);
        let ago = since_when.map(|s| if s.state == state { rounded(seconds(since(s.at, now))) } else { 0.0 });
        let quantiles = row.ledger.and_then(|l| l.histogram.quantiles([0.5, 0.99]));
        let [p50_us, p99_us] = [0, 1].map(|i| quantiles.and_then(|q| q.get(i).copied()).map(rounded));
        let kinds = row.failures();
        Self {
            state: state.name(),
            state_since: ago,
            state_source: control.state_source().name(),
            weight: Setting::weight(&control, settings, configured),
            max_conns: Setting::max_conns(&control, settings, configured),
            latency_us: row.latency_us.map(rounded),
            p50_us,
            p99_us,
            in_flight: row.peer.map_or(0, Peer::queue),
            connections: row.connections(),
            score: e.and_then(|e| e.score),
            factors: Factors::from(e.map(|e| e.factors).unwrap_or_default()),
            breaker: row.breaker().map(|(state, params)| Breaker::new(state, params, now)),
            check: row.check().map(|check| Checked::new(check, now)),
            ramp: row.ramp(),
            share: row.share,
            requests_per_second: rounded(row.rate),
            picks: reasons(row.picks()),
            failures: Failures {
                total: kinds.iter().fold(0, |sum, count| sum.wrapping_add(*count)),
                level: row.peer.map_or(0.0, Peer::failure_level),
                kinds: named(Failure::ALL.map(Failure::name), kinds),
            },
            aborts: row.counter(|p| &p.aborts),
            evidence: rounded(e.map_or(0.0, |e| e.evidence)),
            curve: detail.then(|| curve(e.map_or(&[], |e| e.curve.as_slice()))),
            last_change: row.peer.and_then(Change::last).map(|(change, at)| LastChange::new(change, since(at, now))),
            learning: row.peer.is_some(),
            histogram: row.ledger.filter(|_| detail).map(Histogram::of),
        }
    }
}

/// A parameter that may be changed at run time: what holds now, what the configuration says, and who set it.
#[derive(serde::Serialize)]
pub struct Setting {
    pub effective: u64,
    pub configured: u64,
    pub source: &'static str,
}

impl Setting {
    /// The weight.
    pub fn weight(control: &Control, settings: Settings, configured: Settings) -> Self {
        let (effective, configured) = (settings.weight.into(), configured.weight.into());
        Self { effective, configured, source: control.weight_source().name() }
    }

    /// `max_conns`.
    pub fn max_conns(control: &Control, settings: Settings, configured: Settings) -> Self {
        let (effective, configured) = (settings.max_conns, configured.max_conns);
        Self { effective, configured, source: control.max_conns_source().name() }
    }
}

/// A breaker.
#[derive(serde::Serialize)]
struct Breaker {
    state: &'static str,
    /// How often it opened, long calms forgotten.
    trips: u64,
    /// Seconds until trials are let through; null when it is not open.
    trials_in: Option<f64>,
}

impl Breaker {
    fn new(state: breaker::State, params: &BreakerParams, now: Micros) -> Self {
        let (name, left) = match state.phase {
            Phase::Closed => ("closed", None),
            Phase::Open => {
                ("open", Some(state.open_time(params).saturating_sub(since(state.since, now))).filter(|left| *left > 0))
            }
            Phase::HalfOpen => ("half_open", None),
        };
        let name = if state.phase == Phase::Open && left.is_none() { "half_open" } else { name };
        Self { state: name, trips: state.trips, trials_in: left.map(|left| rounded(seconds(left))) }
    }
}

/// What checks say.
#[derive(serde::Serialize)]
pub struct Checked {
    pub state: &'static str,
    /// How the last probe ended; null before the first.
    pub last: Option<&'static str>,
    /// HTTP status of its answer; null without one.
    status: Option<u32>,
    seconds_ago: Option<f64>,
    /// How long the last good probe took; null before the first.
    time_us: Option<u32>,
    /// How often a probe's time stood in for an answer's, because no requests came.
    refreshed: u64,
}

impl Checked {
    fn new(check: &Check, now: Micros) -> Self {
        let (last, (status, took)) = (check.last(), check.answer());
        Self {
            state: check.health().name(),
            last: last.map(|(cause, _)| cause.name()),
            status: Some(status).filter(|status| *status > 0),
            seconds_ago: last.map(|(_, at)| rounded(seconds(since(at, now)))),
            time_us: Some(took).filter(|took| *took > 0),
            refreshed: check.refreshed(),
        }
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
    named(Reason::ALL.map(Reason::name), picks)
}

fn named<const N: usize>(names: [&'static str; N], counts: [u64; N]) -> Counts<N> {
    Counts { names, counts }
}

/// Named counters.
pub struct Counts<const N: usize> {
    names: [&'static str; N],
    counts: [u64; N],
}

impl<const N: usize> Serialize for Counts<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.names.iter().zip(self.counts))
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
        Self { in_flight: rounded(p.in_flight), latency_us: rounded(p.latency_us), evidence: rounded(p.evidence) }
    }
}

/// Beyond the last evidence the curve is the same rule for all servers: one point shows where it starts.
fn curve(points: &[CurvePoint]) -> Vec<Point> {
    let known = points.iter().rposition(|point| point.evidence > 0.0).unwrap_or(0);
    points.iter().take(known.saturating_add(2)).map(Point::from).collect()
}

/// Why a server's standing last changed.
#[derive(serde::Serialize)]
pub struct LastChange {
    pub reason: &'static str,
    pub seconds_ago: f64,
}

impl LastChange {
    fn new(change: Change, ago: Micros) -> Self {
        Self { reason: change.name(), seconds_ago: rounded(seconds(ago)) }
    }
}

/// Answers by response time, an octave a count, without the empty ones at either end.
#[derive(serde::Serialize)]
struct Histogram {
    unit: &'static str,
    bounds: Vec<Option<u64>>,
    counts: Vec<u64>,
}

impl Histogram {
    fn of(ledger: &Ledger) -> Self {
        let (octaves, _) = ledger.histogram.octaves();
        let first = octaves.iter().position(|count| *count > 0).unwrap_or(octaves.len());
        let last = octaves.iter().rposition(|count| *count > 0).map_or(0, |last| last.saturating_add(1));
        let shown = last.saturating_sub(first);
        let bounds = BOUNDS.iter().copied().map(Some).chain([None]);
        Self {
            unit: "us",
            bounds: bounds.skip(first).take(shown).collect(),
            counts: octaves.iter().copied().skip(first).take(shown).collect(),
        }
    }
}
