//! Once a second one worker looks at every server and writes down what people will ask for: since when it is in its state, what
//! happened to it, how its last quarter of an hour went.
//!
//! Here because nobody else sees all servers when no request comes, and because what requests do must cost them nothing. What it
//! remembers from one look to the next lies in shared memory, so that another worker goes on where it stopped. What an event
//! says and when a speed is news are the core's business. What somebody sets is seen here like everything else, whoever did it.

use core::sync::atomic::Ordering;

use labor_core::events::{self, Event, Events, NO_KIND, Note, Seen};
use labor_core::history::tick;
use labor_core::ledger::{Ledger, State};
use labor_core::news;
use labor_core::ramp;
use labor_core::report::{self, Expected};
use labor_core::slots::{self, Record};
use labor_core::time::{Micros, SECOND, since};
use nginx_sys::ngx_cycle;

use super::followed::{self, Latencies};
use super::group::{Depth, Group, List};
use super::row::Row;
use super::text::Clock;
use crate::ffi;
use crate::zone::{self, View};

/// A server whose state changes to and fro is told of no more often than this.
const CALM: Micros = 5 * SECOND;
/// A server that nobody has seen in its list for so long was removed: lists that change under our hands are passed over.
const REMOVED: Micros = 3 * SECOND;
/// That the zone is full is told once in this time, as in the log.
const FULL: Micros = 60 * SECOND;

/// Looks at everything, if this worker is the one to do so.
pub fn run(now: Micros) {
    let Some(view) = zone::view().filter(|view| view.keeps(now)) else { return followed::forget() };
    // SAFETY: the configuration is this process's own; no other reference to it is in use.
    let Some(main) = (unsafe { ffi::cycle_conf(ngx_cycle) }) else { return };
    let clock = Clock::read();
    for us in &main.upstreams {
        // SAFETY: an upstream of the running configuration; no lock is held.
        if let Some(group) = unsafe { Group::read(*us, |_| true, Depth::Counters, clock) } {
            for list in &group.lists {
                Look { view, group: &group, list, now }.list();
            }
        }
    }
    followed::forget_others();
    removed(view, now);
}

/// A look at one list.
struct Look<'a> {
    view: View,
    group: &'a Group,
    list: &'a List,
    now: Micros,
}

impl Look<'_> {
    fn list(&self) {
        let Some(slot) = self.list.group else { return };
        let Some(ring) = self.view.events(slot) else { return };
        let known = ring.kept.seen.swap(self.now, Ordering::AcqRel) != 0;
        let configurations = self.view.configurations();
        let before = ring.kept.configurations.swap(configurations, Ordering::AcqRel);
        if known && before != configurations && !self.list.servers.backup {
            let after = u32::try_from(configurations).unwrap_or(u32::MAX);
            self.note(ring, &Note { event: Event::Reload, source: None, server: b"", before: 0, after });
        }
        let due = self.rows().any(|row| row.ledger.is_some_and(|l| l.history.is_due(tick(self.now))));
        // Every five seconds, and when requests have met another speed: what became slow is left alone and soon forgotten.
        let changed: Vec<bool> = self.rows().map(|row| self.has_changed(&row)).collect();
        let asked = due || changed.contains(&true);
        let mut latencies = Latencies::of(self.view, slot, &self.list.members, &self.group.params, self.now);
        let mut refused = 0_u32;
        for (index, (row, changed)) in self.rows().zip(changed).enumerate() {
            match row.ledger {
                Some(ledger) => {
                    let latency = if asked { latencies.get(index, changed) } else { None };
                    self.server(ring, known, &row, ledger);
                    ledger.kept.list.store(slot.saturating_add(1), Ordering::Release);
                    ledger.histogram.turn(self.now);
                    if due {
                        let us = latency.map_or(0, |expected| expected.latency_us.round() as u32);
                        ledger.history.note(tick(self.now), us, row.requests());
                    }
                    if let Some(expected) = latency {
                        self.speed(ring, &row, ledger, &expected);
                    }
                }
                None => refused = refused.saturating_add(1),
            }
        }
        latencies.keep();
        if refused > 0 && !self.told(ring, Event::ZoneFull, b"", FULL) {
            let note = Note { event: Event::ZoneFull, source: None, server: b"", before: 0, after: refused };
            self.note(ring, &note);
        }
    }

    /// The servers of this list.
    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.group.rows().filter(|row| row.servers.backup == self.list.servers.backup)
    }

    /// Whether requests have noted another standing since the last look.
    fn has_changed(&self, row: &Row<'_>) -> bool {
        let Some((peer, ledger)) = row.peer.zip(row.ledger) else { return false };
        let word = peer.last_change.load(Ordering::Relaxed);
        ledger.kept.change.swap(word, Ordering::AcqRel) != word
    }

    fn note(&self, ring: &Events, note: &Note<'_>) {
        events::note(ring, self.now, note);
    }

    /// Whether the same was told of the same server within `time`.
    fn told(&self, ring: &Events, event: Event, server: &[u8], time: Micros) -> bool {
        let cut = server.get(..events::ADDRESS).unwrap_or(server);
        ring.recent().iter().any(|e| e.event == event && e.server == cut && since(e.at, self.now) < time)
    }

    /// State and parameters of one server; `known`: its list has been looked at before.
    fn server(&self, ring: &Events, known: bool, row: &Row<'_>, ledger: &Ledger) {
        let (now, kept, state) = (self.now, &ledger.kept, row.state());
        ledger.observe(state, now);
        kept.belongs_to(row.address());
        kept.seen.store(now, Ordering::Release);
        let (told, at) = kept.told();
        let plain = |event| Note { event, source: None, server: row.address(), before: 0, after: 0 };
        match told {
            None | Some(State::Removed) => {
                if known {
                    self.note(ring, &plain(Event::Added));
                }
                // Within the second between its beginning and this look.
                if let Some(
                    event @ (Event::Unavail | Event::Lowered | Event::Silent | Event::Opened | Event::CheckFailed),
                ) = transition(State::Up, state, row)
                {
                    self.note(ring, &reasoned(plain(event), row, ledger));
                }
                // As if long ago: what happens next is news.
                kept.set_told(state, 0);
                kept.weight.store(row.settings().weight, Ordering::Release);
                kept.max_conns.store(limit(row), Ordering::Release);
            }
            Some(told) if told != state => {
                let event = transition(told, state, row);
                let asked = matches!(event, Some(Event::Drained | Event::Down | Event::Up));
                if event == Some(Event::Up)
                    && let Some(peer) = row.peer
                {
                    // By a configuration or a state file; after a change by the interface it has begun.
                    let group = self.view.shared(self.list.group).group;
                    ramp::begin(peer, group, row.params.slow_start, now);
                }
                // Breakers take their time themselves.
                let breaker = matches!(event, Some(Event::Opened | Event::HalfOpen | Event::Closed));
                // So do checks.
                let check = matches!(event, Some(Event::CheckFailed | Event::CheckPassed));
                if asked || breaker || check || since(at, now) >= CALM {
                    let Some(event) = event else { return kept.set_told(state, at) };
                    if !asked {
                        self.note(ring, &reasoned(plain(event), row, ledger));
                    } else if !self.told(ring, event, row.address(), CALM) {
                        // Up because its weight is no longer 0, by the word of whoever changed the weight.
                        let (control, drained) = (row.control(), kept.weight.load(Ordering::Acquire) == 0);
                        let by_weight = event == Event::Up && drained;
                        let source = if by_weight { control.weight_source() } else { control.state_source() };
                        self.note(ring, &Note { source: Some(source), ..plain(event) });
                    }
                    kept.set_told(state, now);
                }
            }
            Some(State::Lowered) if row.peer.is_some_and(report::is_failing) && self.is_silent(ring, row) => {
                self.note(ring, &reasoned(plain(Event::Lowered), row, ledger));
            }
            Some(_) => {}
        }
        self.parameters(ring, row, ledger);
    }

    /// Whether a server is lowered for being silent, as far as was told.
    fn is_silent(&self, ring: &Events, row: &Row<'_>) -> bool {
        let address = row.address().get(..events::ADDRESS).unwrap_or(row.address());
        let why = |e: &&Seen| e.server == address && matches!(e.event, Event::Lowered | Event::Silent);
        ring.recent().iter().find(why).is_some_and(|e| e.event == Event::Silent)
    }

    /// Whether another weight or limit holds now, and by whose word: the configuration's, the API's, the state file's.
    fn parameters(&self, ring: &Events, row: &Row<'_>, ledger: &Ledger) {
        let (kept, control) = (&ledger.kept, row.control());
        let note = |event, source, before, after| {
            if before != after {
                self.note(ring, &Note { event, source: Some(source), server: row.address(), before, after });
            }
        };
        let (weight, limit) = (row.settings().weight, limit(row));
        note(Event::Weight, control.weight_source(), kept.weight.swap(weight, Ordering::AcqRel), weight);
        note(Event::MaxConns, control.max_conns_source(), kept.max_conns.swap(limit, Ordering::AcqRel), limit);
    }

    /// Whether it became slower or faster, by more than chance and for longer than a pause.
    fn speed(&self, ring: &Events, row: &Row<'_>, ledger: &Ledger, expected: &Expected) {
        let variance = self.view.shared(self.list.group).group.pooled_variance();
        if let Some(news) = news::speed(&ledger.kept, expected, variance, self.now) {
            let news::News { event, before, after } = news;
            self.note(ring, &Note { event, source: None, server: row.address(), before, after });
        }
    }
}

/// The limit of connections that holds.
fn limit(row: &Row<'_>) -> u32 {
    u32::try_from(row.settings().max_conns).unwrap_or(u32::MAX)
}

/// What is to be told when a server was in state `from` and is in `to`.
fn transition(from: State, to: State, row: &Row<'_>) -> Option<Event> {
    match (from, to) {
        (_, State::Drain) => Some(Event::Drained),
        (_, State::Down) => Some(Event::Down),
        (State::Drain | State::Down, _) => Some(Event::Up),
        (_, State::Unhealthy) => Some(Event::CheckFailed),
        (State::Unhealthy, _) => Some(Event::CheckPassed),
        (_, State::Unavail) => Some(Event::Unavail),
        (State::Open, State::HalfOpen) => Some(Event::HalfOpen),
        (_, State::Open | State::HalfOpen) => Some(Event::Opened),
        (State::Open | State::HalfOpen, _) => Some(Event::Closed),
        (_, State::Lowered) if row.peer.is_some_and(report::is_failing) => Some(Event::Lowered),
        (_, State::Lowered) => Some(Event::Silent),
        (State::Lowered | State::Unavail, State::Up | State::Full | State::Checking) => Some(Event::Recovered),
        (_, State::Ramping) => Some(Event::Ramping),
        _ => None,
    }
}

/// With the kind of failure and its level.
fn reasoned<'a>(note: Note<'a>, row: &Row<'_>, ledger: &Ledger) -> Note<'a> {
    if note.event == Event::CheckFailed {
        let before = ledger.check.last().map_or(0, |(cause, _)| cause as u32);
        return Note { before, after: ledger.check.answer().0, ..note };
    }
    if note.event != Event::Lowered {
        return note;
    }
    let before = ledger.last_failure().map_or(NO_KIND, |kind| kind as u32);
    let level = row.peer.map_or(0.0, labor_core::Peer::failure_level);
    Note { before, after: (level * 1000.0).round() as u32, ..note }
}

/// Tells of servers that are in their list no more.
fn removed(view: View, now: Micros) {
    let map = view.map();
    for (peer, ledger) in map.peers.iter().zip(map.ledgers) {
        let key = peer.key().load(Ordering::Acquire);
        let list = ledger.kept.list.load(Ordering::Acquire);
        if key == 0 || key == slots::EMPTYING || list == 0 || !ledger.is_of(peer.generation.load(Ordering::Acquire)) {
            continue;
        }
        if since(ledger.kept.seen.load(Ordering::Acquire), now) < REMOVED {
            continue;
        }
        let (told, _) = ledger.kept.told();
        if told.is_none_or(|told| told == State::Removed) {
            continue;
        }
        ledger.observe(State::Removed, now);
        ledger.kept.set_told(State::Removed, now);
        let address = ledger.kept.address();
        if let Some(ring) = list.checked_sub(1).and_then(|slot| view.events(slot)) {
            let note = Note { event: Event::Removed, source: None, server: &address, before: 0, after: 0 };
            events::note(ring, now, &note);
        }
    }
}
