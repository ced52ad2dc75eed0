//! The choice by key: home, or the next in the key's order that can bear the request.
//!
//! Asked before [`Balancer::pick`], which chooses when the order names nobody. Exploration and trials move no request that has a
//! key: what they would find out is learned from the keys of the servers themselves, as a home that was left for being slow
//! gets one of its own requests now and then.

use super::parts::{Parts, Standing, free, places};
use super::{Affinity, Key, Ring, Secret, heavy::Heavy};
use crate::balancer::{Balancer, Candidate, Choice, Fit, Reason, Request};
use crate::breaker::is_broken;
use crate::explore::{Consent, TRIAL_PAUSE, claim_trial, trial_due};
use crate::inflight::Shared;
use crate::long::Ask;
use crate::params::Policy;
use crate::peer::Peer;
use crate::pick::{Scan, Scene};
use crate::score::at_cap;
use crate::sync::Ordering;
use crate::time::{Micros, SECOND, since};
use crate::tuning::value;

/// A home that is too slow gets a request of its own this often: what is known of it fades with the half-life of evidence (five
/// seconds), so it is seen to be well again within some of them.
const REVISIT: Micros = 2 * SECOND;
/// A key that brings more than this share of its home's part yields at the part itself, not at the bound: the room between the two
/// is for the other keys. Below a half no two such keys fill a home.
const HEAVY: f64 = 0.5;
/// Servers that a key was refused at, remembered so as not to ask them again: an order rarely gets past the third.
const REFUSED: usize = 16;

/// One worker's view of the affinity of one list.
#[derive(Debug)]
pub struct Keyed {
    affinity: Affinity,
    secret: Secret,
    servers: Vec<(u64, u32)>,
    ring: Ring,
    parts: Parts,
    heavy: Heavy,
}

/// A request with a key that wants a server.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its key.
    pub key: Key,
    /// What else matters of it.
    pub request: Request,
    /// How every server of a list that is not long stands for it.
    pub candidates: &'a [Candidate],
    /// The same one by one, by index and record, for a long list.
    pub stand: &'a dyn Fn(usize, Option<u32>) -> Candidate,
}

impl Keyed {
    /// Without servers.
    pub fn new(affinity: Affinity) -> Self {
        Self {
            affinity,
            secret: Secret::new([0, 0]),
            servers: Vec::new(),
            ring: Ring::default(),
            parts: Parts::default(),
            heavy: Heavy::default(),
        }
    }

    /// Sets secret and servers, by identity and weight. The same again changes nothing. Some 10 ms for 10,000 servers.
    pub fn set(&mut self, secret: Secret, servers: &[(u64, u32)]) {
        if self.secret == secret && self.servers == servers {
            return;
        }
        self.secret = secret;
        self.servers.clear();
        self.servers.extend_from_slice(servers);
        self.ring = Ring::new(secret, servers, self.affinity.vnodes);
        self.parts.resize(servers.len());
    }

    /// The key that `text` is here.
    pub fn key(&self, text: &[u8]) -> Key {
        self.secret.key(text)
    }

    /// The home of `key`, by index.
    pub fn home(&self, key: Key) -> Option<usize> {
        self.ring.order(key).next()
    }
}

impl Balancer {
    /// Picks a server for a request that has a key. `None` when nobody is usable, as for [`Balancer::pick`].
    pub fn pick_keyed(
        &mut self,
        keyed: &mut Keyed,
        shared: Shared<'_>,
        asked: Asked<'_>,
        now: Micros,
    ) -> Option<Choice> {
        self.let_back(shared, now);
        let best = self.best_score(shared, asked, now)?;
        if asked.request.first {
            keyed.heavy.count(asked.key);
            self.follow(&mut keyed.parts, shared, asked);
        }
        if let Some(choice) = self.home_trial(keyed, shared, asked, now) {
            return Some(choice);
        }
        if asked.request.spare && at_cap(best) {
            // All that are left are led up to their share: whether the backups take this one is not a matter of its key.
            return self.pick_without(keyed, shared, asked, now);
        }
        let mut refused = [usize::MAX; REFUSED];
        for (turn, index) in keyed.ring.order(asked.key).enumerate() {
            if refused.contains(&index) {
                continue;
            }
            if self.bears(keyed, shared, asked, (index, turn == 0), best, now) {
                let reason = if turn == 0 { Reason::Hash } else { Reason::Overflow };
                return self.take(shared, index, reason, now).map(|choice| self.led(shared, choice, now));
            }
            if let Some(place) = refused.iter_mut().find(|place| **place == usize::MAX) {
                *place = index;
            }
        }
        self.pick_without(keyed, shared, asked, now)
    }

    /// The key's home, taken out by its breaker or by nginx, tries one of its own requests when a trial is due: in a list that
    /// only gets requests with keys nobody else would.
    fn home_trial(&mut self, keyed: &Keyed, shared: Shared<'_>, asked: Asked<'_>, now: Micros) -> Option<Choice> {
        let index = keyed.home(asked.key)?;
        let slot = self.members.get(index)?.slot;
        let (peer, breaker) = (shared.peer(slot)?, self.params.breaker);
        let broken = breaker.is_some() && is_broken(peer);
        match self.fit(asked, index, slot) {
            Fit::CountedOut => {}
            Fit::Usable if broken => {}
            _ => return None,
        }
        let consent = Consent::of(shared.group, asked.request.first, asked.request.safe, now);
        if consent == Consent::No {
            return None;
        }
        let seen = trial_due(peer, shared.group, (consent, breaker.as_ref()), now)?;
        if !claim_trial(peer, shared.group, seen, now) {
            return None;
        }
        self.take(shared, index, Reason::Trial, now)
    }

    fn fit(&self, asked: Asked<'_>, i: usize, slot: Option<u32>) -> Fit {
        match &self.long {
            Some(_) => (asked.stand)(i, slot).fit,
            None => asked.candidates.get(i).map_or(Fit::Unfit, |candidate| candidate.fit),
        }
    }

    /// Picks for a request whose key's order is of no use.
    fn pick_without(&mut self, keyed: &Keyed, shared: Shared<'_>, asked: Asked<'_>, now: Micros) -> Option<Choice> {
        // Not the first: so nothing is explored or tried with it.
        let request = Request { first: false, ..asked.request };
        let choice = if self.is_long() {
            self.pick_from(shared, asked.stand, request, now)
        } else {
            self.pick(shared, asked.candidates, request, now)
        };
        let home = keyed.home(asked.key);
        choice.map(|choice| Choice {
            reason: if home == Some(choice.index) { Reason::Hash } else { Reason::Overflow },
            ..choice
        })
    }

    /// Whether server `index`, the key's home or another, can bear the request where the best has the score `best`.
    fn bears(
        &mut self,
        keyed: &Keyed,
        shared: Shared<'_>,
        asked: Asked<'_>,
        (index, home): (usize, bool),
        best: f32,
        now: Micros,
    ) -> bool {
        let Some((score, queue)) = self.cost(shared, asked, index, now) else { return false };
        let part = keyed.parts.part(index);
        let bound = f64::from(keyed.affinity.bound);
        let bound = if keyed.heavy.exceeds(asked.key, part * HEAVY) { 1.0 } else { bound };
        let free = if self.is_blank() { 1 } else { free(|q| self.latency(index, q)) };
        if !keyed.parts.admits(index, queue, bound, free) {
            return false;
        }
        // Who is new or is led up to its share gets no more than that.
        if at_cap(score) && !at_cap(best) {
            return false;
        }
        let slack = keyed.affinity.slack;
        // Other policies promise shares, whose scores are no response times.
        let limited = self.params.policy == Policy::Fastest && !self.is_blank() && slack.is_finite();
        !limited || score - best <= slack.ln() || (home && self.revisits(shared, asked, index, now))
    }

    /// Whether it is time that server `index`, which was left, shows with one of its own requests how it is.
    fn revisits(&self, shared: Shared<'_>, asked: Asked<'_>, index: usize, now: Micros) -> bool {
        let slot = self.members.get(index).and_then(|member| member.slot);
        let Some(peer) = shared.peer(slot) else { return false };
        let failing = peer.failure_level() > crate::evidence::LOWERED;
        let may = match Consent::of(shared.group, asked.request.first, asked.request.safe, now) {
            // What is slow may be asked with any first attempt; what fails, as trials ask it.
            Consent::No => asked.request.first && !failing,
            Consent::Any => true,
            Consent::NoTimeout => peer.timed_out.load(Ordering::Relaxed) == 0,
        };
        let pause = if failing { value(TRIAL_PAUSE) } else { REVISIT };
        may && since(peer.last_pick.load(Ordering::Acquire), now) >= pause
    }

    /// The score of the best usable server.
    fn best_score(&mut self, shared: Shared<'_>, asked: Asked<'_>, now: Micros) -> Option<f32> {
        if self.is_long() {
            let (members, params) = (&*self.members, &self.params);
            let ask = ask(shared, asked, members, params, now);
            return self.long.as_mut()?.best_score(ask);
        }
        self.survey(shared, asked.candidates, now, false);
        self.scan.best.map(|(_, score)| score)
    }

    /// What server `i` costs, and its queue; `None` when it may not be had.
    fn cost(&mut self, shared: Shared<'_>, asked: Asked<'_>, i: usize, now: Micros) -> Option<(f32, u32)> {
        let (members, params) = (&*self.members, &self.params);
        if let Some(long) = &mut self.long {
            return long.cost(ask(shared, asked, members, params, now), i);
        }
        let scene = Scene::new(shared, (members, asked.candidates), params, now);
        Scan::cost(scene, &mut self.table, &self.learned, i)
    }

    /// Looks at the next servers' queues and capacities.
    fn follow(&mut self, parts: &mut Parts, shared: Shared<'_>, asked: Asked<'_>) {
        let breaks = self.params.breaker.is_some();
        parts.follow(&mut |i, mean| {
            let Some(member) = self.members.get(i).copied() else { return Standing::default() };
            let candidate = match &self.long {
                Some(_) => (asked.stand)(i, member.slot),
                None => asked.candidates.get(i).copied().unwrap_or(Candidate { fit: Fit::Unfit, conns: 0 }),
            };
            let broken = breaks && shared.peer(member.slot).is_some_and(is_broken);
            if candidate.fit != Fit::Usable || member.weight == 0 || broken {
                return Standing::default();
            }
            let queue = shared.peer(member.slot).map_or(candidate.conns, Peer::queue);
            let weight = f64::from(member.weight);
            if self.is_blank() {
                return Standing { queue, capacity: weight };
            }
            let scale = match &self.long {
                Some(long) => f64::from(long.curves.scale(i)),
                None => self.table.rows.get(i).map_or(1.0, |row| row.scale),
            };
            let loaded = (mean / scale).ceil().max(1.0);
            let places = places(self.latency(i, 0), self.latency(i, loaded as u32), loaded * scale);
            Standing { queue, capacity: weight * places }
        });
    }

    fn is_blank(&self) -> bool {
        self.long.as_ref().map_or(self.table.blank, |long| long.curves.blank)
    }

    fn latency(&mut self, i: usize, q: u32) -> f32 {
        match &mut self.long {
            Some(long) => long.curves.estimate(i, q).latency,
            None => self.table.estimate(i, q).latency,
        }
    }
}

fn ask<'a>(
    shared: Shared<'a>,
    asked: Asked<'a>,
    members: &'a [crate::balancer::Member],
    params: &'a crate::params::Params,
    now: Micros,
) -> Ask<'a> {
    Ask { shared, members, params, stand: asked.stand, first: asked.request.first, consent: Consent::No, now }
}
