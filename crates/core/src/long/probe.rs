//! What the sweep through a long list finds: lowered servers whose trial is due, servers worth a visit, queues worth a climb.
//!
//! The rules are those of [`crate::probe`]; only the search is spread over many picks. So the cheapest visit is the cheapest of
//! a part of the list, and a find is weighed once more before it is used.

use super::{Ask, Long, Weighed};
use crate::balancer::{Choice, Reason};
use crate::explore::{Account, Consent, REST, claim, claim_trial, trial_due};
use crate::peer::Peer;
use crate::probe::{FORGIVING, PENALISED, UNKNOWN};
use crate::score::{TIE, at_cap};
use crate::sync::Ordering;
use crate::time::{Micros, since};
use crate::tuning::value;

/// Parts of the list from each of which one visit may come: as often as [`crate::probe`] searches a short one.
const PARTS: usize = 8;

/// A server that may be worth a visit.
#[derive(Clone, Copy, Debug)]
struct Visit {
    index: u32,
    /// Price for the time that it has not been seen.
    rank: f64,
    /// Servers passed since it was found.
    age: usize,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finds {
    /// A lowered server to be tried, last tried when.
    trial: Option<(u32, Micros)>,
    /// The cheapest visit of the part being passed, and the one that waits for its turn or for credit.
    cheapest: Option<Visit>,
    visit: Option<Visit>,
    passed: usize,
    /// The server of the least latency that was passed over for what the request costs others.
    climb: Option<(u32, f32)>,
    /// The last pick's best: index, score, predicted latency.
    best: Option<(u32, f32, f32)>,
}

impl Long {
    /// Notes what member `i`, just weighed, may be good for besides being the best.
    pub(super) fn note(&mut self, ask: Ask<'_>, i: usize, weighed: Option<Weighed>) {
        self.pass(ask.members.len());
        let Some(weighed) = weighed.filter(|weighed| !weighed.unhealthy) else { return };
        let Some(peer) = ask.members.get(i).and_then(|member| ask.shared.peer(member.slot)) else { return };
        let tied = |least: f32| !weighed.out && weighed.score <= least + TIE;
        if weighed.lowered() {
            let tied = self.finds.best.is_some_and(|(_, least, _)| tied(least));
            // A lowered server that is still as good as the best needs no trial.
            if !tied && self.finds.trial.is_none() {
                self.finds.trial =
                    trial_due(peer, ask.shared.group, (ask.consent, ask.params.breaker.as_ref()), ask.now)
                        .map(|seen| (i as u32, seen));
            }
            return;
        }
        let Some((best, least, ideal)) = self.finds.best else { return };
        if i as u32 == best || at_cap(weighed.score) || self.curves.blank {
            return;
        }
        if weighed.latency < self.finds.climb.map_or(ideal, |(_, latency)| latency.min(ideal))
            && weighed.score <= weighed.base + PENALISED
        {
            self.finds.climb = Some((i as u32, weighed.latency));
        }
        if weighed.q == 0
            && !tied(least)
            && let Some((rank, _)) = self.price(ask, i, peer, ideal)
            && self.finds.cheapest.is_none_or(|known| rank < known.rank)
        {
            self.finds.cheapest = Some(Visit { index: i as u32, rank, age: 0 });
        }
    }

    /// The sweep has passed one more server; at the end of a part its cheapest visit comes up.
    fn pass(&mut self, servers: usize) {
        let finds = &mut self.finds;
        finds.passed += 1;
        if finds.passed < servers / PARTS {
            return;
        }
        if let Some(waiting) = &mut finds.visit {
            waiting.age += finds.passed;
        }
        finds.passed = 0;
        let Some(found) = finds.cheapest.take() else { return };
        if finds.visit.is_none_or(|waiting| found.rank < waiting.rank || waiting.age >= servers) {
            finds.visit = Some(found);
        }
    }

    /// What a visit to member `i` is worth and costs, as [`crate::probe`] has it: (price by time, price); `None` when it is
    /// not to be visited now.
    fn price(&self, ask: Ask<'_>, i: usize, peer: &Peer, ideal: f32) -> Option<(f64, f32)> {
        let rested = since(peer.last_pick.load(Ordering::Acquire), ask.now);
        let timed_out = ask.consent == Consent::NoTimeout && peer.timed_out.load(Ordering::Relaxed) != 0;
        if rested < REST || timed_out {
            return None;
        }
        let tail = self.curves.tail;
        let still = (-(rested as f32) / value(FORGIVING) as f32).exp2();
        let idle = self.curves.idle(i);
        let price = ((idle - ideal) * tail).max(self.curves.long(i) - ideal * tail).max(0.0) * still;
        Some((f64::from(price) / rested as f64, price))
    }

    /// The trial that the sweep has found, if it can still be had.
    pub(super) fn trial(&mut self, ask: Ask<'_>) -> Option<Choice> {
        if ask.consent == Consent::No {
            return None;
        }
        let (index, seen) = self.finds.trial.take()?;
        let index = index as usize;
        let still = self.weigh(ask, index).is_some_and(|weighed| weighed.lowered() && !weighed.unhealthy);
        let peer = ask.shared.peer(ask.members.get(index)?.slot)?;
        let due = trial_due(peer, ask.shared.group, (ask.consent, ask.params.breaker.as_ref()), ask.now) == Some(seen);
        if !still || !due || !claim_trial(peer, ask.shared.group, seen, ask.now) {
            return None;
        }
        self.wake(index);
        Some(self.predicted(ask.members, index, peer.queue(), Reason::Trial))
    }

    /// An exploring pick, when one is affordable.
    pub(super) fn explore(
        &mut self,
        ask: Ask<'_>,
        account: &mut Account,
        (best, weighed): (usize, Weighed),
    ) -> Option<Choice> {
        let ideal = weighed.latency;
        self.finds.best = Some((best as u32, weighed.score, ideal));
        // Savings are shared, and capped by the dearest visit: who does not know it yet would take them from all.
        if !ask.params.policy.explores() || !self.curves.is_ranged() || ask.params.explore <= 0.0 {
            return None;
        }
        let tail = self.curves.tail;
        let savings = &ask.shared.group.savings;
        account.earn(savings, (ask.params.explore, ideal * tail, self.curves.dearest * tail), ask.now);
        if self.usable < 2 {
            return None;
        }
        if let Some(choice) = self.climb(ask, (best, weighed)) {
            return Some(choice);
        }
        if ask.consent == Consent::No { None } else { self.visit(ask, weighed) }
    }

    /// Explores a server that has not been seen for a while.
    fn visit(&mut self, ask: Ask<'_>, best: Weighed) -> Option<Choice> {
        let index = self.finds.visit?.index as usize;
        let peer = ask.members.get(index).and_then(|member| ask.shared.peer(member.slot))?;
        let seen = peer.last_pick.load(Ordering::Acquire);
        let priced = self.price(ask, index, peer, best.latency);
        // Anything else than too little credit is final.
        if let Some((_, price)) = priced
            && !ask.shared.group.savings.covers(price)
        {
            return None;
        }
        self.finds.visit = None;
        let (_, price) = priced?;
        let now = self.weigh(ask, index).filter(|weighed| !weighed.lowered() && weighed.q == 0)?;
        if now.score <= best.score + TIE || at_cap(now.score) || !claim(peer, seen, ask.now) {
            return None;
        }
        ask.shared.group.savings.pay(price);
        self.wake(index);
        let ideal = best.latency * self.curves.tail;
        Some(Choice { price, best: ideal, ..self.predicted(ask.members, index, 0, Reason::Explore) })
    }

    /// Explores one more request in flight at a server that is only passed over for what that may cost others.
    fn climb(&mut self, ask: Ask<'_>, (best, weighed): (usize, Weighed)) -> Option<Choice> {
        let (index, _) = self.finds.climb.take()?;
        let index = index as usize;
        let peer = ask.members.get(index).and_then(|member| ask.shared.peer(member.slot))?;
        let found = self.weigh(ask, index).filter(|found| !found.lowered() && !at_cap(found.score))?;
        if index == best || found.latency >= weighed.latency || found.score > found.base + PENALISED {
            return None;
        }
        if self.curves.evidence_above(index, found.q, peer, ask.params, ask.now) >= UNKNOWN {
            return None;
        }
        let price = (found.score.exp() - weighed.score.exp()).max(0.0) * self.curves.tail;
        if !ask.shared.group.savings.pay_climb(price) {
            return None;
        }
        self.wake(index);
        Some(Choice { price, ..self.predicted(ask.members, index, found.q, Reason::Explore) })
    }
}
