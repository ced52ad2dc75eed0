//! Picking from a long list without asking everybody: every server has a last known rank, in a tournament.
//!
//! The best by rank is weighed anew before it is taken, and if it turns out worse than known, the next one is. So a rank that
//! is too good costs a look and never a bad pick. One that is too bad is what may be missed; it is found when this worker has
//! an answer from that server, when its row is renewed, and by a sweep that passes over all in turn, a few with each pick. The
//! scores are those of [`crate::pick`]; what is explored and tried is what the sweep finds ([`probe`]).

#[cfg(all(test, not(loom)))]
mod checks;
mod course;
pub(crate) mod curves;
mod keyed;
mod probe;
mod rank;
mod sums;
mod tree;

use crate::balancer::{Candidate, Choice, Fit, Member, Reason, Request};
use crate::breaker::is_broken;
use crate::explore::Consent;
use crate::inflight::Shared;
use crate::params::{Params, Policy};
use crate::peer::Peer;
use crate::pick::quiet;
use crate::policy::{decay_penalty, response_time};
use crate::ramp;
use crate::rng::Rng;
use crate::score::{AT_CAP, at_cap, load, with_failure};
use crate::time::{Micros, SECOND, since};
use curves::Curves;
use probe::Finds;
use rank::{Turns, Weighed, standing, standing_of};
use std::collections::VecDeque;
use tree::{OUT, Tree};

/// From more servers than this on a list is long: up to here asking everybody is as cheap and exact.
pub(crate) const LONG: usize = 256;
/// Servers that the sweep passes with each pick. With all workers' picks together every server's rank is then newer than a
/// few service times at any load that fills the servers (see `docs/performance.md`).
const SWEEP: u64 = 4;
/// And so many at most, when picks are rare and all are to be passed within a second.
const MOST_SWEEP: u64 = 512;
/// Usable servers looked at for one pick, when ranks turn out too good one after the other. Then the best of these is taken.
const MOST_LOOKS: usize = 16;
/// Answers between two picks whose servers are ranked anew at the next pick; the sweep finds the others.
const WAKES: usize = 256;
/// Servers that a retry may not have, put aside while it chooses.
const ASIDE: usize = 64;

/// A question to the list.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) shared: Shared<'a>,
    pub(crate) members: &'a [Member],
    pub(crate) params: &'a Params,
    /// How a server, by index and record, stands for this request.
    pub(crate) stand: &'a dyn Fn(usize, Option<u32>) -> Candidate,
    /// The first attempt: what is found out for it holds for other requests too.
    pub(crate) first: bool,
    pub(crate) consent: Consent,
    pub(crate) now: Micros,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Long {
    pub(crate) curves: Curves,
    tree: Tree,
    turns: Turns,
    /// How many are in the tournament.
    usable: usize,
    /// Everybody has been ranked since the list was set.
    ranked: bool,
    cursor: usize,
    swept: Micros,
    wakes: VecDeque<u32>,
    aside: Vec<(u32, u64)>,
    finds: Finds,
}

impl Long {
    /// Starts afresh for `members`.
    pub(crate) fn resize(&mut self, members: &[Member], rng: &mut Rng) {
        self.curves.resize(members);
        self.begin(members, rng);
    }

    /// Members have come or gone.
    pub(crate) fn follow(&mut self, before: &[Member], members: &[Member], rng: &mut Rng) {
        self.curves.follow(before, members);
        self.begin(members, rng);
    }

    fn begin(&mut self, members: &[Member], rng: &mut Rng) {
        self.tree.resize(members.len());
        self.turns.restart(members, rng);
        (self.usable, self.cursor, self.finds, self.ranked) = (0, 0, Finds::default(), false);
        self.wakes.clear();
        self.wakes.reserve(WAKES);
        self.aside.reserve(ASIDE);
    }

    /// The same servers with other weights.
    pub(crate) fn reweigh(&mut self, members: &[Member]) {
        self.curves.reweigh(members);
        self.turns.reweigh(members);
    }

    /// This worker knows that something has changed at member `i`.
    pub(crate) fn wake(&mut self, i: usize) {
        if self.wakes.len() < WAKES {
            self.wakes.push_back(i as u32);
        }
    }

    /// The best usable server, not yet taken; follows what has changed meanwhile.
    fn best(&mut self, ask: Ask<'_>) -> Option<(usize, Weighed)> {
        self.curves.advance(ask.shared, ask.members, ask.params, ask.now);
        for at in 0..self.curves.fresh.len() {
            let i = self.curves.fresh.get(at).copied().unwrap_or(0) as usize;
            let known = self.tree.key(i);
            self.rank(ask, i);
            self.spare(ask, i, known);
        }
        while let Some(i) = self.wakes.pop_front() {
            let known = self.tree.key(i as usize);
            self.look(ask, i as usize);
            self.spare(ask, i as usize, known);
        }
        if !core::mem::replace(&mut self.ranked, true) {
            (0..ask.members.len()).for_each(|i| self.look(ask, i));
        } else if ask.first {
            self.sweep(ask);
        }
        let best = self.least(ask);
        while let Some((i, key)) = self.aside.pop() {
            self.place(i as usize, key);
        }
        best
    }

    /// A retry may not have member `i`, ranked `known` before, perhaps only since the request has been there: others may.
    fn spare(&mut self, ask: Ask<'_>, i: usize, known: u64) {
        if !ask.first && known != OUT && self.tree.key(i) == OUT && self.aside.len() < ASIDE {
            self.aside.push((i as u32, known));
        }
    }

    /// Passes over a part of the list.
    fn sweep(&mut self, ask: Ask<'_>) {
        let count = ask.members.len() as u64;
        let due = count * since(self.swept, ask.now).min(SECOND) / SECOND;
        self.swept = ask.now;
        for _ in 0..due.clamp(SWEEP, MOST_SWEEP).min(count) {
            self.look(ask, self.cursor);
            self.cursor += 1;
            if self.cursor >= ask.members.len() {
                self.cursor = 0;
            }
        }
    }

    /// The first in the tournament whose rank holds when weighed anew.
    fn least(&mut self, ask: Ask<'_>) -> Option<(usize, Weighed)> {
        let mut best: Option<(u64, usize, Weighed)> = None;
        let (mut looks, mut all) = (0, false);
        loop {
            let Some((i, known)) = self.tree.least() else {
                if best.is_some() || all {
                    break;
                }
                // Nobody known: everybody is asked, as in a short list.
                all = true;
                (0..ask.members.len()).for_each(|i| self.look(ask, i));
                continue;
            };
            // Weighed just now.
            if best.as_ref().is_some_and(|(_, at, _)| *at == i) {
                break;
            }
            let Some(weighed) = self.rank(ask, i) else {
                self.spare(ask, i, known);
                continue;
            };
            let key = self.tree.key(i);
            if best.as_ref().is_none_or(|(least, ..)| key < *least) {
                best = Some((key, i, weighed));
            }
            looks += 1;
            if key <= known || looks >= MOST_LOOKS {
                break;
            }
        }
        best.map(|(_, i, weighed)| (i, weighed))
    }

    /// Picks for `ask`, exploring and trying lowered servers when that is due.
    pub(crate) fn pick(
        &mut self,
        ask: Ask<'_>,
        account: &mut crate::explore::Account,
        request: Request,
    ) -> Option<Choice> {
        let best = self.best(ask);
        if let Some(choice) = self.trial(ask) {
            return Some(choice);
        }
        let (i, weighed) = best?;
        let peer = || ask.members.get(i).and_then(|m| ask.shared.peer(m.slot));
        if request.spare && at_cap(weighed.score) && peer().is_some_and(ramp::is_under_way) {
            ramp::passed(ask.shared.group);
            return None;
        }
        if let Some(choice) = self.explore(ask, account, (i, weighed)) {
            return Some(choice);
        }
        let turned = self.take(ask.members, i);
        let reason = match (request.backup, self.usable) {
            (true, _) => Reason::Backup,
            (_, 1) => Reason::Only,
            _ if turned => Reason::Tie,
            _ => Reason::Fastest,
        };
        Some(self.choice(ask.members, i, &weighed, reason))
    }

    /// The least bad of all, those that are counted out included. Asks everybody.
    pub(crate) fn least_bad(&mut self, ask: Ask<'_>) -> Option<Choice> {
        let mut best: Option<(u64, usize, Weighed)> = None;
        for i in 0..ask.members.len() {
            let Some(weighed) = self.weigh(ask, i) else { continue };
            let key = self.key(ask.members, i, &weighed);
            if best.as_ref().is_none_or(|(least, ..)| key < *least) {
                best = Some((key, i, weighed));
            }
        }
        let (_, i, weighed) = best?;
        self.turns.take(i);
        Some(self.choice(ask.members, i, &weighed, Reason::Panic))
    }

    /// What is predicted of member `i` with `queue` in flight, and nothing else.
    pub(crate) fn predicted(&mut self, members: &[Member], index: usize, queue: u32, reason: Reason) -> Choice {
        let slot = members.get(index).and_then(|m| m.slot);
        let estimate = self.curves.estimate(index, queue);
        let (latency, score) = if self.curves.blank { (0.0, 0.0) } else { (estimate.latency, estimate.base) };
        Choice { index, slot, reason, latency, score, queue, price: 0.0, best: 0.0 }
    }

    fn choice(&mut self, members: &[Member], i: usize, weighed: &Weighed, reason: Reason) -> Choice {
        let score = if at_cap(weighed.score) { weighed.score - AT_CAP } else { weighed.score };
        self.wake(i);
        Choice { score, ..self.predicted(members, i, weighed.q, reason) }
    }

    /// It is the turn of member `i`; says whether others stood as well as it.
    fn take(&mut self, members: &[Member], i: usize) -> bool {
        let afresh = self.turns.take(i);
        let stood = standing_of(self.tree.key(i));
        if afresh {
            for at in 0..members.len() {
                let key = self.tree.key(at);
                if key != OUT {
                    self.place(at, standing_of(key) << 32 | self.turns.of(at));
                }
            }
        } else if self.tree.key(i) != OUT {
            self.place(i, stood << 32 | self.turns.of(i));
        }
        self.tree.least().is_some_and(|(at, key)| at != i && standing_of(key) == stood)
    }

    /// Looks at member `i`: ranks it, and notes what may be worth a visit.
    fn look(&mut self, ask: Ask<'_>, i: usize) {
        let weighed = self.weigh(ask, i);
        self.seat(ask, i, weighed.as_ref());
        if ask.first {
            self.note(ask, i, weighed);
        }
    }

    /// Ranks member `i` as it stands now; `None` when it cannot be had.
    fn rank(&mut self, ask: Ask<'_>, i: usize) -> Option<Weighed> {
        let weighed = self.weigh(ask, i);
        self.seat(ask, i, weighed.as_ref());
        weighed.filter(|weighed| !weighed.out)
    }

    fn seat(&mut self, ask: Ask<'_>, i: usize, weighed: Option<&Weighed>) {
        let key = weighed.filter(|weighed| !weighed.out).map_or(OUT, |weighed| self.key(ask.members, i, weighed));
        self.place(i, key);
    }

    fn place(&mut self, i: usize, key: u64) {
        match (self.tree.key(i) == OUT, key == OUT) {
            (true, false) => self.usable += 1,
            (false, true) => self.usable = self.usable.saturating_sub(1),
            _ => {}
        }
        self.tree.set(i, key);
    }

    fn key(&self, members: &[Member], i: usize, weighed: &Weighed) -> u64 {
        let score = Some(weighed.score).filter(|_| !weighed.even);
        let load = if weighed.even || members.is_empty() { 0.0 } else { weighed.q as f32 * self.curves.scale(i) };
        standing(score, load) | self.turns.of(i)
    }

    /// What member `i` costs now; `None` when it is unfit.
    fn weigh(&mut self, ask: Ask<'_>, i: usize) -> Option<Weighed> {
        let member = ask.members.get(i).filter(|member| member.weight > 0)?;
        let candidate = (ask.stand)(i, member.slot);
        if candidate.fit == Fit::Unfit {
            return None;
        }
        let (policy, peer) = (ask.params.policy, ask.shared.peer(member.slot));
        let (fastest, q) = (policy == Policy::Fastest, peer.map_or(candidate.conns, Peer::queue));
        let broken = ask.params.breaker.is_some() && peer.is_some_and(is_broken);
        let failure = if fastest && !broken { peer.map_or(0.0, Peer::failure_level) } else { 0.0 };
        let (out, unhealthy) = (broken || candidate.fit != Fit::Usable, candidate.fit == Fit::Unhealthy);
        let mut weighed = Weighed { q, failure, out, unhealthy, ..Weighed::default() };
        if fastest && !self.curves.blank {
            let estimate = self.curves.estimate(i, q);
            (weighed.base, weighed.latency, weighed.score) = (estimate.base, estimate.latency, estimate.base);
            if let Some(peer) = peer {
                weighed.score += load(peer.load_factor());
                weighed.score += quiet(peer, q, estimate.latency * self.curves.tail, ask.now);
                weighed.score = with_failure(weighed.score, failure, self.curves.slowest);
            }
        } else {
            let own = match policy {
                Policy::RoundRobin | Policy::Weighted => 0.0,
                Policy::Fastest | Policy::LeastConn => self.curves.crowding(i, q),
                Policy::Decay => {
                    self.curves.crowding(i, q) + decay_penalty(response_time(ask.shared, member).unwrap_or(0.0))
                }
            };
            weighed.score = with_failure(own, failure, 1.0);
            // As in a scan: (q + 1)/w would always say the heaviest among the idle, and fixed shares know no queue.
            let by_queue = policy == Policy::LeastConn || (fastest && failure == 0.0);
            weighed.even = !broken && (policy == Policy::RoundRobin || (by_queue && q == 0));
        }
        if broken || peer.is_some_and(|peer| self.is_capped(ask, (i, q), peer)) {
            weighed.score += AT_CAP;
        }
        // What is no number is dearer than anything.
        weighed.score = if weighed.score <= f32::MAX { weighed.score } else { f32::MAX };
        Some(weighed)
    }
}
