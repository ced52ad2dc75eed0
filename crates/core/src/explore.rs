//! Exploration paid from a budget of latency, and trials of lowered servers. Not here: what a server is worth.

use crate::attempt::Receipt;
use crate::breaker::{self, is_broken};
use crate::group::Group;
use crate::params::BreakerParams;
use crate::peer::Peer;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Micros, SECOND, since};
use crate::tuning::{tuned, value};

tuned! {
/// A server picked within this time is known well enough, or just being explored by another worker.
pub(crate) const REST: Micros = SECOND / 2;
/// A trial of a lowered server at most this often …
pub(crate) const TRIAL_PAUSE: Micros = 5 * SECOND;
/// … and at most once in so many picks: an always failing server costs one per cent of the requests.
pub(crate) const TRIAL_PICKS: u64 = 100;
/// Without a safe request for this long, the group has none: then any request explores.
const NO_SAFE: Micros = 10 * SECOND;
/// Credit is capped at so many times the dearest price, and so is debt: one hung server does not stop exploration for
/// longer than two of the dearest explorations would.
const MOST_CREDIT: f64 = 2.0;
/// A climb that nobody asks for any more is forgotten within some thousand picks.
const CLIMB_FADE: f64 = 0.999;
/// Servers per pick that the search for a climb may cost on average: more often than for a candidate, as climbs are
/// possible for moments only.
const CLIMB_SHARE: usize = 32;
/// Servers per pick that the search for a candidate may cost on average.
const SEARCH_SHARE: usize = 8;
/// But a candidate is searched at least this often.
const SEARCH_PAUSE: Micros = SECOND / 10;
}

/// Picks between trials of any two servers: many lowered servers together get five per cent of the requests at most.
const TRIAL_TURN: u64 = 20;
/// A server that timed out is tried with unsafe requests at this multiple of the pause only.
const TIMED_OUT: u64 = 6;

/// Which requests may explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// None: a retry, or unsafe in a group that has safe requests.
    No,
    /// Any server.
    Any,
    /// Any server but one that timed out: the request is not safe, but there are no others.
    NoTimeout,
}

impl Consent {
    /// Notes safe requests and says what this one may do.
    pub(crate) fn of(group: &Group, first: bool, safe: bool, now: Micros) -> Self {
        let seen = group.last_safe.load(Ordering::Relaxed);
        // Watching begins with the first request, whatever its method: in the group, so that a reload does not begin anew.
        let last = if seen == 0 { now } else { seen };
        // Once a second is enough for a limit of ten, and keeps the line shared.
        if seen == 0 || (safe && since(seen, now) > SECOND) {
            group.last_safe.store(now, Ordering::Relaxed);
        }
        match (first, safe) {
            (false, _) => Self::No,
            (true, true) => Self::Any,
            // Before ten seconds have been watched, no one knows what the group gets.
            (true, false) if since(last, now) >= NO_SAFE => Self::NoTimeout,
            (true, false) => Self::No,
        }
    }
}

/// Earnings reach the group's accounts at most this often from each worker, so that the line they share stays with whoever
/// reads it; what a worker has not handed in when a reload ends it is a hundredth of a second's.
const HAND_IN: Micros = SECOND / 100;

/// What the workers of a group have saved for exploring, seconds: one account for servers not seen lately, one for queues
/// not seen yet. They share what is earned, so that neither starves the other; an account that is full leaves all to the
/// other one. Shared, because a worker alone saves slowly, and what it saved would end with it. Valid when zeroed.
#[derive(Debug, Default)]
pub struct Savings {
    /// For visits, f64 bits; below 0 a debt.
    pub(crate) visits: AtomicU64,
    /// For climbs, f64 bits.
    pub(crate) climbs: AtomicU64,
    /// The dearest climb asked for, f64 bits; fades while nobody asks.
    pub(crate) climb: AtomicU64,
}

/// Reads f64 bits.
fn amount(word: &AtomicU64) -> f64 {
    f64::from_bits(word.load(Ordering::Acquire))
}

/// Replaces an amount by `change` of it, unless that is no number; says whether it was replaced.
fn update(word: &AtomicU64, change: impl Fn(f64) -> Option<f64>) -> bool {
    let bits = |seen: u64| change(f64::from_bits(seen)).filter(|new| new.is_finite()).map(f64::to_bits);
    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, bits).is_ok()
}

/// One worker's way to the savings: what it has earned and not handed in yet, and when it may look again.
#[derive(Debug, Default)]
pub(crate) struct Account {
    earned: f64,
    picks: i32,
    handed_in: Micros,
    most: f64,
    rest: usize,
    searched: Micros,
    skip: usize,
}

impl Account {
    /// A pick with best predicted latency `best` seconds earns its share.
    pub(crate) fn earn(&mut self, savings: &Savings, (share, best, dearest): (f32, f32, f32), now: Micros) {
        self.most = MOST_CREDIT * f64::from(dearest);
        let earned = f64::from(share) * f64::from(best);
        if !earned.is_finite() {
            return;
        }
        self.earned += earned;
        self.picks = self.picks.saturating_add(1);
        if since(self.handed_in, now) < HAND_IN {
            return;
        }
        self.handed_in = now;
        let (earned, picks) = (core::mem::take(&mut self.earned), core::mem::take(&mut self.picks));
        let faded = amount(&savings.climb) * value(CLIMB_FADE).powi(picks);
        // A dearer climb that somebody asks for at this moment is asked for again.
        savings.climb.store(faded.to_bits(), Ordering::Release);
        let room = (MOST_CREDIT * faded - amount(&savings.climbs)).max(0.0);
        let part = (earned / 2.0).min(room);
        update(&savings.climbs, |saved| Some(saved + part));
        update(&savings.visits, |saved| Some((saved + earned - part).min(self.most)));
    }

    /// Whether to look for a climb among `servers` now: the cost per pick stays that of a few servers.
    pub(crate) fn may_climb(&mut self, servers: usize) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        self.rest = servers / CLIMB_SHARE;
        true
    }

    /// Whether it is time to search among `servers` for a candidate.
    pub(crate) fn may_search(&mut self, savings: &Savings, servers: usize, now: Micros) -> bool {
        if amount(&savings.visits) < 0.0 {
            return false;
        }
        if self.skip > 0 && since(self.searched, now) < SEARCH_PAUSE {
            self.skip -= 1;
            return false;
        }
        (self.skip, self.searched) = (servers / SEARCH_SHARE, now);
        true
    }

    /// Replaces what was paid by what it cost; nothing measured, nothing paid.
    pub(crate) fn settle(&self, savings: &Savings, receipt: &Receipt) {
        let Some(price) = receipt.price else { return };
        let change = f64::from(price) - f64::from(receipt.measured.unwrap_or(0.0));
        let least = -self.most.max(f64::from(price));
        update(&savings.visits, |saved| Some((saved + change).clamp(least, self.most)));
    }
}

impl Savings {
    /// Pays `price` from the account of climbs if it covers it.
    pub(crate) fn pay_climb(&self, price: f32) -> bool {
        let price = f64::from(price);
        if !price.is_finite() {
            return false;
        }
        if amount(&self.climb) < price {
            update(&self.climb, |dearest| Some(dearest.max(price)));
        }
        amount(&self.climbs) >= price && update(&self.climbs, |saved| (saved >= price).then_some(saved - price))
    }

    /// Whether the account of visits covers `price`.
    pub(crate) fn covers(&self, price: f32) -> bool {
        amount(&self.visits) >= f64::from(price)
    }

    /// Pays `price` for a visit. What two workers pay at once may be a debt for a while.
    pub(crate) fn pay(&self, price: f32) {
        update(&self.visits, |saved| Some(saved - f64::from(price)));
    }
}

/// Claims `peer` for an exploring request: no two workers explore it at once.
pub(crate) fn claim(peer: &Peer, seen: Micros, now: Micros) -> bool {
    peer.last_pick.compare_exchange(seen, now, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// When the last trial of a lowered, idle server was, if another one is due.
pub(crate) fn trial_due(
    peer: &Peer,
    group: &Group,
    (consent, breaker): (Consent, Option<&BreakerParams>),
    now: Micros,
) -> Option<Micros> {
    if let Some(params) = breaker.filter(|_| is_broken(peer)) {
        return breaker::trial_due(peer, params, now);
    }
    let careful = consent == Consent::NoTimeout && peer.timed_out.load(Ordering::Relaxed) != 0;
    let pause = if careful { TRIAL_PAUSE * TIMED_OUT } else { value(TRIAL_PAUSE) };
    let seen = peer.last_trial.load(Ordering::Acquire);
    let passed = group.picks.load(Ordering::Relaxed).saturating_sub(peer.trial_pick.load(Ordering::Acquire));
    let due = seen == 0 || (since(seen, now) >= pause && passed >= TRIAL_PICKS);
    let rested = since(peer.last_pick.load(Ordering::Acquire), now) >= REST;
    (due && rested && peer.queue() == 0).then_some(seen)
}

/// Claims the trial of `peer`, last tried when `seen`: one at a time over all workers, and servers take turns.
pub(crate) fn claim_trial(peer: &Peer, group: &Group, seen: Micros, now: Micros) -> bool {
    let picks = group.picks.load(Ordering::Relaxed);
    let turn = group.trial_pick.load(Ordering::Acquire);
    if turn != 0 && picks.saturating_sub(turn) < TRIAL_TURN {
        return false;
    }
    if peer.last_trial.compare_exchange(seen, now, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return false;
    }
    peer.trial_pick.store(picks, Ordering::Release);
    group.trial_pick.store(picks.max(1), Ordering::Release);
    true
}

/// A trial succeeded and the server is still lowered: the next one comes after a fifth of the pause.
pub(crate) fn hurry(peer: &Peer, group: &Group, now: Micros) {
    peer.last_trial.store(now.saturating_sub(TRIAL_PAUSE / 5 * 4).max(1), Ordering::Release);
    let picks = group.picks.load(Ordering::Relaxed);
    peer.trial_pick.store(picks.saturating_sub(TRIAL_PICKS / 5 * 4), Ordering::Release);
}
