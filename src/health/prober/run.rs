//! Probes under way: begun, driven by events, ended by an answer or by their deadline, booked.
//!
//! Part of [`Prober`]; whom to probe when is decided there.

use core::sync::atomic::Ordering;

use labor_core::check::{self, Cause, Check, Found, Health, Turn};
use labor_core::params::CheckParams;
use labor_core::time::{Micros, since};
use nginx_sys::{NGX_LOG_NOTICE, NGX_LOG_WARN};
use ngx::ngx_log_error;

use super::{BEAT, MOST_KEPT, Probe, Prober};
use crate::health::connection::{Connection, NoConnection};
use crate::health::probe::{Ended, Talk};
use crate::worker;

impl Prober {
    /// Sends a probe.
    pub(super) fn begin(&mut self, key: u64, check: &Check, turn: Turn, now: Micros) {
        self.wake(key, check.due(self.own, &self.rules(key)));
        let kept = self.targets.by_key.get_mut(&key).and_then(|target| target.kept.take());
        let lag = self.lag.total(now);
        let started = (turn, now, lag);
        match kept {
            Some((connection, number)) => {
                self.free(number);
                self.start(key, started, Ok((connection, number)));
            }
            None => self.start(key, started, Err(())),
        }
    }

    pub(super) fn rules(&self, key: u64) -> CheckParams {
        let watched = self.targets.by_key.get(&key).and_then(|target| self.watched.get(target.upstream));
        watched.map(|watched| watched.check.params).unwrap_or_default()
    }

    /// Begins to talk, on a kept connection or on a new one.
    fn start(&mut self, key: u64, (turn, started, lag): (Turn, Micros, Micros), kept: Result<(Connection, usize), ()>) {
        let (Some(number), quiet) =
            (kept.as_ref().map_or_else(|()| self.number(), |(_, n)| Some(*n)), &raw mut *self.quiet)
        else {
            return;
        };
        let Some(target) = self.targets.by_key.get_mut(&key) else { return };
        let Some(watched) = self.watched.get(target.upstream) else { return };
        let manner = target.manner(watched.check, self.tls, self.handler);
        if watched.check.tls && manner.tls.is_none() {
            // Said when the worker began.
            return;
        }
        // SAFETY: the quiet log lives as long as the prober, which closes every connection before it goes.
        let opened = kept.map(|(connection, _)| (Talk::again(connection, &manner), true)).or_else(|()| unsafe {
            Connection::open(&target.address, quiet, self.handler, number)
                .map(|(connection, established)| (Talk::new(connection, &manner), established))
        });
        let generation = self.view.record(target.slot).map_or(0, |p| p.generation.load(Ordering::Acquire));
        let deadline = started.saturating_add(watched.check.params.timeout);
        match opened {
            Ok((mut talk, established)) => {
                let ended = talk.go_on(&manner, established);
                target.probe = Some(number);
                if let Some(place) = self.probes.get_mut(number) {
                    *place = Some(Probe { key, talk, turn, generation, started, deadline, lag });
                }
                if let Some(ended) = ended {
                    self.end(number, ended, worker::now());
                }
            }
            Err(NoConnection::Refused) => {
                let found = Found { cause: Cause::Connect, status: 0, took: None };
                self.settle(key, (turn, generation), found, started);
            }
            Err(NoConnection::None) => self.void(key, turn, started),
        }
    }

    /// Something happened on the connection of `number`.
    pub fn on_event(&mut self, number: usize, now: Micros) {
        if let Some(key) = self.idle.get(number).copied().flatten() {
            // Also told when it may be written to, which is no news.
            let target = self.targets.by_key.get_mut(&key);
            if let Some(target) = target.filter(|t| t.kept.as_ref().is_some_and(|(kept, _)| !kept.is_quiet())) {
                target.kept = None;
                self.free(number);
            }
            return;
        }
        let Some(probe) = self.probes.get_mut(number).and_then(Option::as_mut) else { return };
        let Some(target) = self.targets.by_key.get(&probe.key) else { return };
        let Some(watched) = self.watched.get(target.upstream) else { return };
        let manner = target.manner(watched.check, self.tls, self.handler);
        if let Some(ended) = probe.talk.go_on(&manner, false) {
            self.end(number, ended, now);
        }
    }

    /// Ends the probe of `number` if it is too late, by the server's fault or by ours.
    pub(super) fn keep_deadline(&mut self, number: usize, now: Micros) {
        let Some(probe) = self.probes.get_mut(number).and_then(Option::as_mut) else { return };
        if now < probe.deadline {
            return;
        }
        let (key, turn, held_up) = (probe.key, probe.turn, since(probe.lag, self.lag.total(now)));
        if held_up == 0 {
            return self.end(number, Ended::by(Cause::Timeout), now);
        }
        // Time in which nobody listened is given to the server once more; what falls into that again makes it no result.
        if since(probe.started, probe.deadline) <= self.rules(key).timeout {
            if let Some(probe) = self.probes.get_mut(number).and_then(Option::as_mut) {
                probe.deadline = now.saturating_add(held_up.min(since(probe.started, probe.deadline)));
            }
            return;
        }
        if held_up > self.rules(key).timeout {
            self.close(number);
            return self.void(key, turn, now);
        }
        self.end(number, Ended::by(Cause::Timeout), now);
    }

    /// Forgets the probe of `number` and closes its connection.
    fn close(&mut self, number: usize) -> Option<Probe> {
        let probe = self.probes.get_mut(number).and_then(Option::take)?;
        if let Some(target) = self.targets.by_key.get_mut(&probe.key) {
            target.probe = None;
        }
        Some(probe)
    }

    /// The probe of `number` has ended.
    fn end(&mut self, number: usize, ended: Ended, now: Micros) {
        let Some(probe) = self.close(number) else { return };
        let Probe { key, talk, turn, generation, started, lag, .. } = probe;
        if talk.reused && !talk.has_begun() && ended.cause == Cause::Reset {
            // The server had closed it in the meantime: that is no failure, and the time goes on.
            drop(talk);
            return self.start(key, (turn, started, lag), Err(()));
        }
        let kept = self.idle.iter().flatten().count();
        if ended.reusable && kept < MOST_KEPT {
            let connection = talk.into_connection();
            connection.set_idle(true);
            if let (Some(target), Some(place)) = (self.targets.by_key.get_mut(&key), self.idle.get_mut(number)) {
                *place = Some(key);
                target.kept = Some((connection, number));
            }
        } else {
            drop(talk);
        }
        // What took long because nobody listened says nothing about the server.
        let took = (self.lag.total(now) == lag).then(|| since(started, now));
        self.settle(key, (turn, generation), Found { cause: ended.cause, status: ended.status, took }, now);
    }

    /// Books what was found, and says it where that changes something.
    fn settle(&mut self, key: u64, (turn, generation): (Turn, u32), found: Found, now: Micros) {
        let Some(target) = self.targets.by_key.get(&key) else { return };
        let Some(watched) = self.watched.get(target.upstream) else { return };
        let Some((peer, group)) = target.record(self.view, key) else { return };
        if peer.generation.load(Ordering::Acquire) != generation {
            return;
        }
        let Some(ledger) = self.view.ledger(target.slot, peer) else { return };
        let became = check::settle((peer, group, &ledger.check), &watched.params, turn, found, now);
        let name = String::from_utf8_lossy(watched.name);
        match became {
            Some(Health::Unhealthy) => {
                let status = if found.cause == Cause::Status { format!(" {}", found.status) } else { String::new() };
                ngx_log_error!(
                    NGX_LOG_WARN,
                    self.log,
                    "labor: server {} of upstream \"{name}\" is unhealthy: {}{status}, {} times in a row",
                    target.label,
                    found.cause.name(),
                    watched.check.params.fails
                );
            }
            Some(Health::Healthy) => {
                ngx_log_error!(
                    NGX_LOG_NOTICE,
                    self.log,
                    "labor: server {} of upstream \"{name}\" is healthy",
                    target.label
                );
            }
            Some(Health::Unknown) | None => {}
        }
    }

    /// The probe came to nothing through no fault of the server: another one, soon.
    fn void(&mut self, key: u64, turn: Turn, now: Micros) {
        let at = now.saturating_add(self.rules(key).interval / 4).saturating_add(BEAT);
        let Some(target) = self.targets.by_key.get(&key) else { return };
        if let Some((peer, _)) = target.record(self.view, key)
            && let Some(ledger) = self.view.ledger(target.slot, peer)
        {
            ledger.check.retry(turn, at);
        }
        self.wake(key, at);
    }
}
