//! What the status says of one server: fields of NGINX Plus under its names, our own under `labor` (`own.rs`).
//!
//! Plus's clients decode its fields as integers, so they are. Figures come from the shared records; names may be any bytes. Not
//! here: which servers there are (`group.rs`, `servers.rs`).

use labor_core::breaker;
use labor_core::check::{self, Cause, Check, Health};
use labor_core::control::{self, Control, Settings};
use labor_core::ledger::{Ledger, State};
use labor_core::params::BreakerParams;
use labor_core::ramp;
use labor_core::report::{self, Explanation};
use labor_core::sync::{AtomicU64, Ordering};
use labor_core::{Failure, Params, Peer, Reason};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::own::Own;
use super::query::Query;
use super::text::{Clock, text};
use crate::ffi;
use crate::servers::{Server, Servers};

/// One server and all that is known of it.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its upstream's name.
    pub upstream: &'a [u8],
    /// Position in the answer's list.
    pub id: u32,
    /// The list it stands in.
    pub servers: &'a Servers,
    /// As nginx has it.
    pub server: &'a Server,
    /// Its record, where it has one.
    pub peer: Option<&'a Peer>,
    /// What is counted for people, where it has a record.
    pub ledger: Option<&'a Ledger>,
    /// How it stands; not where nobody asked for it.
    pub explanation: Option<&'a Explanation>,
    /// What is expected of one more request, µs; likewise.
    pub latency_us: Option<f64>,
    /// How its upstream chooses.
    pub params: Params,
    /// Picks of the last 10 to 20 seconds that fell on it, 0–1, by all workers.
    pub share: f64,
    /// Requests a second over the same time.
    pub rate: f64,
    /// This moment.
    pub clock: Clock,
}

impl<'a> Row<'a> {
    /// What is set for it at run time.
    pub fn control(&self) -> Control {
        self.peer.map_or_else(Control::default, Peer::control)
    }

    /// What holds: the configuration with what is set over it.
    pub fn settings(&self) -> Settings {
        self.control().over(self.server.configured)
    }

    /// Its address.
    pub fn address(&self) -> &'a [u8] {
        self.servers.address(self.server)
    }

    /// How it stands: the first that holds of down, drain, unhealthy, unavail, open, half_open, full, lowered, ramping, checking,
    /// up.
    pub fn state(&self) -> State {
        let settings = self.settings();
        match settings.state {
            control::State::Down => State::Down,
            control::State::Drain => State::Drain,
            control::State::Up if self.is_unhealthy() => State::Unhealthy,
            control::State::Up if self.server.counted_out => State::Unavail,
            control::State::Up => self.broken().unwrap_or_else(|| self.unbroken()),
        }
    }

    /// How it stands as far as a breaker has nothing to say.
    fn unbroken(&self) -> State {
        if self.is_full() {
            State::Full
        } else if self.peer.is_some_and(|p| report::is_lowered(p, self.params.policy)) {
            State::Lowered
        } else if self.ramp() < 1.0 {
            State::Ramping
        } else if self.is_waiting() {
            State::Checking
        } else {
            State::Up
        }
    }

    /// Its checks, if it has any.
    pub fn check(&self) -> Option<&'a Check> {
        self.params.check.and(self.ledger).map(|ledger| &ledger.check)
    }

    /// Whether it waits for its first result; one that is left out because it answers requests does not.
    fn is_waiting(&self) -> bool {
        let (Some(check), Some(peer), Some(rules)) = (self.check(), self.peer, self.params.check.as_ref()) else {
            return false;
        };
        check.health() == Health::Unknown && !check::is_spared(peer, check, rules, self.clock.now)
    }

    fn is_unhealthy(&self) -> bool {
        self.params.check.is_some() && self.peer.is_some_and(check::is_unhealthy)
    }

    /// Its breaker, if it has one.
    pub fn breaker(&self) -> Option<(breaker::State, &BreakerParams)> {
        self.peer.map(breaker::State::of).zip(self.params.breaker.as_ref())
    }

    /// What its breaker makes of it, while that is not closed.
    fn broken(&self) -> Option<State> {
        let (state, params) = self.breaker()?;
        match state.phase {
            breaker::Phase::Closed => None,
            breaker::Phase::Open if !state.admits_trials(params, self.clock.now) => Some(State::Open),
            _ => Some(State::HalfOpen),
        }
    }

    /// The part of its even share that it may take, 0.1 to 1.
    pub fn ramp(&self) -> f32 {
        self.peer.map_or(1.0, |p| ramp::fraction(p, self.params.ramp(), self.clock.now))
    }

    fn is_full(&self) -> bool {
        let configured = self.server.configured.max_conns;
        ffi::full(&self.control(), configured, self.server.conns, || self.peer.map(Peer::connections))
    }

    /// One of its counters.
    pub fn counter(&self, of: fn(&Peer) -> &AtomicU64) -> u64 {
        self.peer.map_or(0, |p| of(p).load(Ordering::Relaxed))
    }

    /// Connections at present.
    pub fn connections(&self) -> u64 {
        self.peer.map_or(self.server.conns as u64, |p| u64::from(p.connections()))
    }

    /// Failures by kind.
    pub fn failures(&self) -> [u64; Failure::COUNT] {
        let count = |kind: Failure| self.peer.and_then(|p| p.failures.get(kind as usize));
        Failure::ALL.map(|kind| count(kind).map_or(0, |c| c.load(Ordering::Relaxed)))
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

    /// What NGINX Plus has no field for, without curve and histogram.
    pub fn own(&self, state: State) -> Own {
        Own::new(self, state, self.settings(), false)
    }

    /// The server in JSON, with the fields that `query` asks for; `detail` is for curve and histogram.
    pub fn shown(self, query: &'a Query, detail: bool) -> Shown<'a> {
        Shown { row: self, query, detail }
    }
}

/// A server in JSON.
pub struct Shown<'a> {
    row: Row<'a>,
    query: &'a Query,
    detail: bool,
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

    /// A field that is there only when it has a value.
    fn maybe<T: Serialize>(&mut self, name: &'static str, value: Option<T>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(name, &value))
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = &self.row;
        let mut fields = Fields { map: serializer.serialize_map(None)?, query: self.query };
        let (state, settings, ledger, clock) = (row.state(), row.settings(), row.ledger, row.clock);
        fields.put("id", &row.id)?;
        fields.put("server", &text(row.address()))?;
        fields.put("name", &text(row.servers.name(row.server)))?;
        fields.put("backup", &row.servers.backup)?;
        fields.put("weight", &settings.weight)?;
        fields.put("state", plus_word(state))?;
        fields.put("active", &row.connections())?;
        fields.maybe("max_conns", Some(settings.max_conns).filter(|limit| *limit > 0))?;
        fields.put("requests", &row.requests())?;
        fields.maybe("header_time", ledger.and_then(Ledger::header_time).map(millis))?;
        fields.maybe("response_time", ledger.and_then(Ledger::response_time).map(millis))?;
        fields.put("responses", &Responses(ledger.map_or([0; 5], Ledger::responses)))?;
        let (sent, received) = ledger.map_or((0, 0), Ledger::bytes);
        fields.put("sent", &sent)?;
        fields.put("received", &received)?;
        fields.put("fails", &row.failures().iter().fold(0_u64, |sum, count| sum.wrapping_add(*count)))?;
        fields.put("unavail", &ledger.map_or(0, Ledger::unavail))?;
        fields.put("downtime", &ledger.map_or(0, |l| l.downtime(clock.now) / 1000))?;
        let out = ledger.and_then(Ledger::standing).filter(|s| s.state == State::Unavail);
        fields.maybe("downstart", out.and_then(|standing| clock.date(standing.at)))?;
        fields.maybe("selected", clock.date(row.counter(|p| &p.last_pick)))?;
        fields.maybe("health_checks", row.check().map(HealthChecks::of))?;
        fields.put("labor", &Own::new(row, state, settings, self.detail))?;
        fields.map.end()
    }
}

/// The word of NGINX Plus for a state of ours.
fn plus_word(state: State) -> &'static str {
    match state {
        State::Full | State::Lowered | State::Ramping => "up",
        State::Open | State::HalfOpen => "unavail",
        State::Drain => "draining",
        other => other.name(),
    }
}

/// Whole milliseconds, as Plus has them.
fn millis(seconds: f32) -> u64 {
    (f64::from(seconds) * 1e3).round() as u64
}

/// Checks as Plus has them.
#[derive(serde::Serialize)]
struct HealthChecks {
    checks: u64,
    fails: u64,
    unhealthy: u64,
    /// Absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_passed: Option<bool>,
}

impl HealthChecks {
    fn of(check: &Check) -> Self {
        let (checks, fails, unhealthy) = check.counts();
        Self { checks, fails, unhealthy, last_passed: check.last().map(|(cause, _)| cause == Cause::Passed) }
    }
}

/// Answers by class of their status.
struct Responses([u64; 5]);

impl Serialize for Responses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        for (name, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(self.0) {
            map.serialize_entry(name, &count)?;
        }
        map.serialize_entry("total", &self.0.iter().fold(0_u64, |sum, count| sum.wrapping_add(*count)))?;
        map.end()
    }
}
