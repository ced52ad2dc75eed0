//! Picks that are not for the request's sake: trials of lowered servers, and exploration of what is not known.
//!
//! Part of [`Balancer`]; the rules of time and money are in [`crate::explore`].

use crate::balancer::Balancer;
use crate::breaker::is_broken;
use crate::choice::{Candidate, Choice, Fit, Reason};
use crate::evidence::LOWERED;
use crate::explore::{Consent, REST, Savings, claim, claim_trial, trial_due};
use crate::inflight::Shared;
use crate::params::Policy;
use crate::pick::Scene;
use crate::score::at_cap;
use crate::sync::Ordering;
use crate::time::{Micros, SECOND, since};
use crate::tuning::{tuned, value};

tuned! {
/// A bucket with less evidence of the server's own is not known: what is predicted there is mostly the product rule.
pub(crate) const UNKNOWN: f64 = 2.0;
/// Penalties of more than this (ln) are more than an ordinary gap between two answers.
pub(crate) const PENALISED: f32 = 0.4;
/// The price of visiting a slow server halves in this time, so that a bad start is forgiven within a minute. Simulated: the
/// lasting cost stays the same, as visits made on credit have to be earned before the next one.
pub(crate) const FORGIVING: Micros = 10 * SECOND;
}

impl Balancer {
    /// A trial of a lowered server, when one is due.
    pub(crate) fn trial(
        &mut self,
        shared: Shared<'_>,
        candidates: &[Candidate],
        consent: Consent,
        now: Micros,
    ) -> Option<Choice> {
        if !self.scan.lowered || consent == Consent::No {
            return None;
        }
        let scene = Scene::new(shared, (&self.members, candidates), &self.params, now);
        let mut longest: Option<(usize, Micros)> = None;
        for i in 0..self.members.len() {
            let Some((member, candidate)) = scene.entry(i) else { continue };
            let Some(peer) = shared.peer(member.slot).filter(|_| candidate.fit != Fit::Unhealthy) else { continue };
            let broken = scene.breaks && is_broken(peer);
            let lowered = candidate.fit == Fit::CountedOut
                || broken
                || (self.params.policy == Policy::Fastest && peer.failure_level() > LOWERED);
            // A lowered server that is still as good as the best needs no trial.
            if !lowered || (candidate.fit == Fit::Usable && !broken && self.scan.tied(i)) {
                continue;
            }
            let seen = trial_due(peer, shared.group, (consent, self.params.breaker.as_ref()), now);
            if seen.is_some_and(|seen| longest.is_none_or(|(_, first)| seen < first)) {
                longest = seen.map(|seen| (i, seen));
            }
        }
        let (index, seen) = longest?;
        let peer = shared.peer(self.members.get(index)?.slot)?;
        claim_trial(peer, shared.group, seen, now).then(|| self.predicted(index, peer.queue(), Reason::Trial))
    }

    /// An exploring pick, when one is affordable.
    pub(crate) fn explore(&mut self, shared: Shared<'_>, consent: Consent, now: Micros) -> Option<Choice> {
        let (best, _) = self.scan.best?;
        if !self.params.policy.explores() || self.table.blank || self.params.explore <= 0.0 {
            return None;
        }
        // Money is in seconds as users feel them, so in means.
        let ideal = self.table.estimate(best, self.scan.queue(best)).latency;
        let tail = self.table.tail;
        let savings = &shared.group.savings;
        self.account.earn(savings, (self.params.explore, ideal * tail, self.table.dearest * tail), now);
        if self.scan.usable < 2 {
            return None;
        }
        if self.account.may_climb(self.members.len())
            && let Some(choice) = self.climb(savings, best, ideal)
        {
            return Some(choice);
        }
        if consent == Consent::No || !self.account.may_search(savings, self.members.len(), now) {
            return None;
        }
        self.visit(shared, consent, ideal, now)
    }

    /// Explores a server that has not been seen for a while: the cheapest for the time it has waited.
    fn visit(&mut self, shared: Shared<'_>, consent: Consent, ideal: f32, now: Micros) -> Option<Choice> {
        let tail = self.table.tail;
        let mut cheapest: Option<(usize, f32, Micros, f64)> = None;
        for (i, (member, row)) in self.members.iter().zip(&self.table.rows).enumerate() {
            let score = self.scan.score(i);
            if self.scan.queue(i) > 0 || self.scan.tied(i) || at_cap(score) {
                continue;
            }
            let Some(peer) = shared.peer(member.slot) else { continue };
            let seen = peer.last_pick.load(Ordering::Acquire);
            let rested = since(seen, now);
            let timed_out = consent == Consent::NoTimeout && peer.timed_out.load(Ordering::Relaxed) != 0;
            if rested < REST || timed_out || peer.failure_level() > LOWERED {
                continue;
            }
            // The odds that it is still so slow fall while nobody looks; what a visit really costs is settled after it.
            let still = (-(rested as f32) / value(FORGIVING) as f32).exp2();
            let price = ((row.idle - ideal) * tail).max(row.long - ideal * tail).max(0.0) * still;
            let rank = f64::from(price) / rested as f64;
            if cheapest.is_none_or(|(.., least)| rank < least) {
                cheapest = Some((i, price, seen, rank));
            }
        }
        let (index, price, seen, _) = cheapest?;
        let peer = shared.peer(self.members.get(index)?.slot)?;
        let savings = &shared.group.savings;
        if !savings.covers(price) || !claim(peer, seen, now) {
            return None;
        }
        savings.pay(price);
        Some(Choice { price, best: ideal * tail, ..self.predicted(index, 0, Reason::Explore) })
    }

    /// Explores one more request in flight at a server that would answer sooner than the best by score, and is only
    /// passed over for what the request might cost those already there, at a queue length nobody has seen there yet.
    ///
    /// Without this a wide server is believed to be full as soon as its evidence ends, and then the evidence never grows.
    /// Any request may climb: no server is tried that would not be picked for its speed.
    fn climb(&mut self, savings: &Savings, best: usize, ideal: f32) -> Option<Choice> {
        if self.scan.quickest >= ideal {
            return None;
        }
        let mut fastest: Option<(usize, f32)> = None;
        for i in 0..self.members.len() {
            let score = self.scan.score(i);
            if at_cap(score) || i == best {
                continue;
            }
            let estimate = self.table.estimate(i, self.scan.queue(i));
            // Penalised servers are passed over for a reason.
            if estimate.latency < fastest.map_or(ideal, |(_, least)| least) && score <= estimate.base + PENALISED {
                fastest = Some((i, estimate.latency));
            }
        }
        let (index, _) = fastest?;
        let queue = self.scan.queue(index);
        if self.table.evidence_above(index, queue) >= UNKNOWN {
            return None;
        }
        let price = (self.scan.score(index).exp() - self.scan.score(best).exp()).max(0.0) * self.table.tail;
        if !savings.pay_climb(price) {
            return None;
        }
        // What it costs others cannot be measured: `best` stays 0, and the price is final.
        Some(Choice { price, ..self.predicted(index, queue, Reason::Explore) })
    }
}
