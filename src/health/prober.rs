//! The prober of one worker: who is due, probes under way, their deadlines, and what came of them.
//!
//! Every worker has one and looks at every server; the turns in shared memory decide which of them probes. Sockets are bounded,
//! timers few: one, for whatever comes next.

mod run;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use labor_core::check::{self, Turn};
use labor_core::control::State;
use labor_core::time::{Micros, SECOND, since};
use nginx_sys::{NGX_LOG_ALERT, NGX_LOG_WARN, ngx_cycle, ngx_cycle_t, ngx_log_t, ngx_msec_t, ngx_uint_t};
use ngx::ngx_log_error;

use super::connection::Handler;
use super::lag::Lag;
use super::probe::Talk;
use super::target::{Targets, Watched};
use crate::ffi::{self, tls::Tls};
use crate::worker;
use crate::zone::View;

/// Probes under way at once, in one worker: more would be a burst.
const MOST_ACTIVE: usize = 64;
/// Connections kept between probes, in one worker.
const MOST_KEPT: usize = 256;
/// One in so many connections of the worker is for requests only.
const RESERVED: ngx_uint_t = 8;
/// While probes are under way the timer fires this often: deadlines are kept, and a loop that is held up is noticed.
const BEAT: Micros = SECOND / 20;
/// Lists are looked at this often.
const FOLLOW: Micros = SECOND;
/// That there are no connections for probes is said this often.
const SAY_EVERY: Micros = 60 * SECOND;

/// A probe under way.
struct Probe {
    key: u64,
    talk: Talk,
    turn: Turn,
    /// Of the server's record when it began: a record that is another's by now books nothing.
    generation: u32,
    started: Micros,
    deadline: Micros,
    /// How long the loop had been held up by then.
    lag: Micros,
}

/// See the module.
pub struct Prober {
    own: u16,
    view: View,
    log: *mut ngx_log_t,
    /// The same without what one failing server would fill it with: every refused connection. Its address must stay.
    quiet: Box<ngx_log_t>,
    handler: Handler,
    tls: Option<&'static Tls>,
    watched: Vec<Watched>,
    targets: Targets,
    wakes: BinaryHeap<Reverse<(Micros, u64)>>,
    /// By number: probes, and the servers whose idle connections have that number.
    probes: Vec<Option<Probe>>,
    idle: Vec<Option<u64>>,
    lag: Lag,
    followed: Micros,
    said: Micros,
}

impl Prober {
    /// For the upstreams of `cycle`; `None` when none has checks, or this worker may not write into the shared memory.
    pub fn new(cycle: *mut ngx_cycle_t, view: View, handler: Handler) -> Option<Self> {
        let own = u16::try_from(view.worker()?).ok()?;
        // SAFETY: nginx hands over the cycle it starts with; no other reference is in use. The log is copied.
        let (watched, log, mut quiet) =
            unsafe { (Watched::all(ffi::cycle_conf(cycle)?), (*cycle).log, Box::new(*(*cycle).log)) };
        if watched.is_empty() {
            return None;
        }
        quiet.log_level = NGX_LOG_ALERT as ngx_uint_t;
        let tls = watched.iter().any(|one| one.check.tls).then(|| Tls::new(log)).flatten();
        Some(Self {
            own,
            view,
            log,
            quiet,
            handler,
            // For as long as the process.
            tls: tls.map(|tls| &*Box::leak(Box::new(tls))),
            watched,
            targets: Targets::default(),
            wakes: BinaryHeap::new(),
            probes: (0..MOST_ACTIVE + MOST_KEPT).map(|_| None).collect(),
            idle: vec![None; MOST_ACTIVE + MOST_KEPT],
            lag: Lag::default(),
            followed: 0,
            said: 0,
        })
    }

    /// Does what is due at `now`; time to the next call, ms.
    pub fn tick(&mut self, now: Micros) -> ngx_msec_t {
        self.lag.fired(now);
        for number in 0..self.probes.len() {
            self.keep_deadline(number, now);
        }
        if since(self.followed, now) >= FOLLOW {
            self.followed = now;
            self.follow(now);
        }
        while let Some(&Reverse((at, key))) = self.wakes.peek()
            && at <= now
        {
            self.wakes.pop();
            // What has been put off since then has another entry.
            match self.targets.by_key.get(&key).filter(|target| target.wake == at) {
                // A probe that took longer than its interval, because nobody listened.
                Some(target) if target.probe.is_some() => self.wake(key, now.saturating_add(BEAT)),
                Some(_) => self.look(key, now),
                None => {}
            }
        }
        self.plan(now)
    }

    fn plan(&mut self, now: Micros) -> ngx_msec_t {
        let next = self.wakes.peek().map_or(Micros::MAX, |Reverse((at, _))| *at);
        let deadline = self.probes.iter().flatten().map(|probe| probe.deadline.min(now.saturating_add(BEAT))).min();
        let at = next.min(deadline.unwrap_or(Micros::MAX)).min(now.saturating_add(FOLLOW));
        // Rounded up: a timer that fires early finds nothing to do.
        let pause = since(now, at).div_ceil(1000).max(1);
        self.lag.plan(now.saturating_add(pause.saturating_mul(1000)));
        pause as ngx_msec_t
    }

    /// Follows changes of the lists.
    fn follow(&mut self, now: Micros) {
        let Some((new, gone)) = self.targets.follow(&mut self.watched, self.view, now) else { return };
        for key in new {
            let Some(target) = self.targets.by_key.get(&key) else { continue };
            self.wakes.push(Reverse((target.wake, key)));
            if let Some((peer, _)) = target.record(self.view, key)
                && let Some(ledger) = self.view.ledger(target.slot, peer)
            {
                check::forget_old(peer, &ledger.check, &self.rules(key), now);
            }
        }
        for target in gone {
            if let Some((_, number)) = target.kept {
                self.free(number);
            }
            if let Some(number) = target.probe {
                self.free(number);
            }
        }
        for number in 0..self.idle.len() {
            let key = self.idle.get(number).copied().flatten();
            // A connection that its server did not take along to its new address.
            let lost = key.is_some_and(|key| {
                self.targets.by_key.get(&key).is_none_or(|t| t.kept.as_ref().is_none_or(|(_, own)| *own != number))
            });
            if lost {
                self.free(number);
            }
        }
    }

    fn free(&mut self, number: usize) {
        if let Some(place) = self.probes.get_mut(number) {
            *place = None;
        }
        if let Some(place) = self.idle.get_mut(number) {
            *place = None;
        }
    }

    /// Looks at the server of `key` again at `at`.
    fn wake(&mut self, key: u64, at: Micros) {
        if let Some(target) = self.targets.by_key.get_mut(&key) {
            target.wake = at;
            self.wakes.push(Reverse((at, key)));
        }
    }

    /// A number for a connection.
    fn number(&self) -> Option<usize> {
        self.probes.iter().zip(&self.idle).position(|(probe, idle)| probe.is_none() && idle.is_none())
    }

    /// Whether one more connection may be opened.
    fn may_open(&mut self, now: Micros) -> bool {
        // SAFETY: numbers of this process's cycle.
        let (free, all) = unsafe { ((*ngx_cycle).free_connection_n, (*ngx_cycle).connection_n) };
        let enough = free > all / RESERVED;
        if !enough && since(self.said, now) >= SAY_EVERY {
            self.said = now;
            ngx_log_error!(
                NGX_LOG_WARN,
                self.log,
                "labor: checks wait, {free} of {all} worker_connections are free; raise \"worker_connections\""
            );
        }
        enough
    }

    /// Looks whether it is time to probe the server of `key`, and whose turn it is.
    fn look(&mut self, key: u64, now: Micros) {
        let Some(target) = self.targets.by_key.get(&key) else { return };
        let Some(watched) = self.watched.get(target.upstream) else { return };
        let rules = watched.check.params;
        let known = target.record(self.view, key).map(|(peer, _)| (peer, self.view.ledger(target.slot, peer)));
        let Some((peer, Some(ledger))) = known else {
            // Found again with the lists.
            return self.wake(key, now.saturating_add(FOLLOW));
        };
        let check = &ledger.check;
        let due = check.due(self.own, &rules);
        if due > now {
            return self.wake(key, due);
        }
        let down = peer.control().over(target.configured).state == State::Down;
        let left_out = down || check::is_spared(peer, check, &rules, now);
        let active = self.probes.iter().flatten().count();
        let (phase, fresh) = (target.phase, target.kept.is_none());
        if !left_out && (active >= MOST_ACTIVE || (fresh && !self.may_open(now))) {
            // Not at every beat: there may be thousands that wait.
            return self.wake(key, now.saturating_add((rules.interval / 8).clamp(BEAT, FOLLOW)));
        }
        let jitter = if rules.jitter == 0 { 0 } else { worker::seed() % rules.jitter };
        let next = check::next(&rules, phase, jitter, now);
        match check.claim(self.own, &rules, now, next) {
            None => self.wake(key, check.due(self.own, &rules).max(now.saturating_add(1))),
            Some(_) if left_out => self.wake(key, next),
            Some(turn) => self.begin(key, check, turn, now),
        }
    }

    /// The worker leaves: probes are broken off, connections closed, turns let go.
    pub fn leave(&mut self) {
        self.probes.iter_mut().for_each(|place| *place = None);
        self.idle.fill(None);
        for (key, target) in core::mem::take(&mut self.targets).by_key {
            if let Some((peer, _)) = target.record(self.view, key)
                && let Some(ledger) = self.view.ledger(target.slot, peer)
            {
                ledger.check.release(self.own);
            }
        }
        self.wakes.clear();
        // Nobody is followed any more.
        self.watched.clear();
    }
}
