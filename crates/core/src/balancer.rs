//! One worker's view of one list of servers, and the pick. Everything here is private to the worker; what is learned
//! lives in [`crate::peer::Peer`] and [`crate::group::Group`].

use crate::attempt::Receipt;
use crate::evidence::LOWERED;
use crate::explore::{Account, Consent, REST, claim, claim_trial, trial_due};
use crate::inflight::Shared;
use crate::params::{Params, Policy};
use crate::peer::Peer;
use crate::pick::{Scan, Scene};
use crate::policy::Learned;
use crate::rng::Rng;
use crate::rotation::Rotation;
use crate::score::{AT_CAP, TIE};
use crate::sync::Ordering;
use crate::table::Table;
use crate::time::{Micros, since};

/// Why a server was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Its score was the smallest.
    Fastest,
    /// It was among equals and its turn.
    Tie,
    /// To learn what it can do, paid from the exploration budget.
    Explore,
    /// To learn whether a lowered server is well again.
    Trial,
    /// The session belongs to it.
    Sticky,
    /// The primary servers are all unusable.
    Backup,
    /// It was the only usable one.
    Only,
    /// Nobody was usable: the least bad one.
    Panic,
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = 8;
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Fastest, Self::Tie, Self::Explore, Self::Trial, Self::Sticky, Self::Backup, Self::Only, Self::Panic];

    /// The reason's name as logs and status pages show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Tie => "tie",
            Self::Explore => "explore",
            Self::Trial => "trial",
            Self::Sticky => "sticky",
            Self::Backup => "backup",
            Self::Only => "only",
            Self::Panic => "panic",
        }
    }
}

/// Whether a server may be given this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It may.
    Usable,
    /// nginx counts it out for its failures (max_fails, fail_timeout): trials, and when nobody else is left.
    CountedOut,
    /// Already tried by this request, down, draining, weight 0 or full.
    Unfit,
}

/// One server of the list, as it stands for this request. The position in the slice is its index.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Whether it may be given this request.
    pub fit: Fit,
    /// nginx's own count of connections: the queue of a server that has no record.
    pub conns: u32,
}

/// One server of the list, as it stands until the list changes. The position in the slice is its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its record in shared memory; `None` when the zone was full.
    pub slot: Option<u32>,
    /// Configured weight; 0 drains.
    pub weight: u32,
}

/// What matters of the request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its first attempt.
    pub first: bool,
    /// A safe method: GET, HEAD, OPTIONS.
    pub safe: bool,
    /// The list is the backup list.
    pub backup: bool,
}

/// The picked server.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Its index in the list.
    pub index: usize,
    /// Its record.
    pub slot: Option<u32>,
    /// Why it was picked.
    pub reason: Reason,
    /// Predicted response time of this request, seconds; 0 when nothing is known.
    pub latency: f32,
    /// Its score (ln seconds and penalties, smaller is better).
    pub score: f32,
    /// Requests in flight there at the pick, this one excluded.
    pub queue: u32,
    /// What exploration paid for it, seconds; 0 for other reasons.
    pub price: f32,
    /// For exploring picks: predicted response time of the best server, seconds; 0 for other reasons.
    pub best: f32,
}

/// One worker's view of one list.
#[derive(Debug)]
pub struct Balancer {
    params: Params,
    members: Vec<Member>,
    weights: Vec<u32>,
    rng: Rng,
    table: Table,
    learned: Learned,
    rotation: Rotation,
    scan: Scan,
    account: Account,
    /// When the first pick was.
    started: Micros,
}

impl Balancer {
    /// A balancer without members, with its random phase from `seed`.
    pub fn new(params: Params, seed: u64) -> Self {
        Self {
            params,
            members: Vec::new(),
            weights: Vec::new(),
            rng: Rng::new(seed),
            table: Table::default(),
            learned: Learned::default(),
            rotation: Rotation::default(),
            scan: Scan::default(),
            account: Account::default(),
            started: 0,
        }
    }

    /// Replaces the list (at start, and whenever servers come, go or change). May allocate; not for every request.
    /// The same list again changes nothing, so that the rotation goes on where it was.
    pub fn set_members(&mut self, members: &[Member]) {
        if self.members == members {
            return;
        }
        self.members.clear();
        self.members.extend_from_slice(members);
        self.weights.clear();
        self.weights.extend(members.iter().map(|m| m.weight));
        self.table.resize(members);
        self.learned.resize(members);
        self.scan.resize(members.len());
        self.rotation.restart(&self.weights, &mut self.rng);
    }

    /// The list as last set.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Picks a server for `request`: the best usable one, an exploring one or a trial. `None` when nobody is usable
    /// (and no trial is due): then come the backups, and then [`Balancer::least_bad`].
    ///
    /// `candidates` has one entry per member; a shorter slice makes the rest unfit.
    pub fn pick(
        &mut self,
        shared: Shared<'_>,
        candidates: &[Candidate],
        request: Request,
        now: Micros,
    ) -> Option<Choice> {
        self.survey(shared, candidates, now, false);
        if self.started == 0 {
            self.started = now;
        }
        let consent = Consent::of(shared.group, request.first, request.safe, self.started, now);
        if let Some(choice) = self.trial(shared, candidates, consent, now) {
            return Some(choice);
        }
        if let Some(choice) = self.explore(shared, consent, now) {
            return Some(choice);
        }
        let (index, turned) = self.winner()?;
        let reason = match (request.backup, self.scan.usable) {
            (true, _) => Reason::Backup,
            (_, 1) => Reason::Only,
            _ if turned => Reason::Tie,
            _ => Reason::Fastest,
        };
        Some(self.choice(index, reason))
    }

    /// The least bad server when neither list has a usable one: among those that nginx counts out.
    pub fn least_bad(&mut self, shared: Shared<'_>, candidates: &[Candidate], now: Micros) -> Option<Choice> {
        self.survey(shared, candidates, now, true);
        let (index, _) = self.winner()?;
        Some(self.choice(index, Reason::Panic))
    }

    /// The choice of member `index` by somebody else (a sticky session): predicted like any other, not counted in ties.
    pub fn take(&mut self, shared: Shared<'_>, index: usize, reason: Reason, now: Micros) -> Option<Choice> {
        let member = *self.members.get(index)?;
        self.refresh(shared, now);
        let queue = shared.peer(member.slot).map_or(0, Peer::queue);
        let score = crate::policy::base(self.params.policy, &mut self.table, &self.learned, index, queue);
        Some(Choice { score, ..self.predicted(index, queue, reason) })
    }

    /// Corrects the exploration account once an exploring attempt is measured.
    pub fn settle(&mut self, receipt: &Receipt) {
        self.account.settle(receipt);
    }

    /// Follows new evidence.
    fn refresh(&mut self, shared: Shared<'_>, now: Micros) {
        if self.table.refresh(shared, &self.members, &self.params, now)
            && self.learned.refresh(shared, &self.members, &self.params, now)
        {
            self.rotation.restart(&self.learned.weights, &mut self.rng);
        }
    }

    /// Scans all candidates.
    fn survey(&mut self, shared: Shared<'_>, candidates: &[Candidate], now: Micros, counted_out: bool) {
        self.refresh(shared, now);
        let scene = Scene { shared, members: &self.members, candidates, policy: self.params.policy, now };
        self.scan.run(scene, &mut self.table, &self.learned, counted_out);
    }

    /// The best, or whose turn it is among the equally good; and whether it was a turn.
    fn winner(&mut self) -> Option<(usize, bool)> {
        let (best, _) = self.scan.best?;
        let rotates = matches!(self.params.policy, Policy::RoundRobin | Policy::Weighted);
        let weights = if self.params.policy == Policy::Weighted { &self.learned.weights } else { &self.weights };
        let scan = &self.scan;
        if rotates {
            return self.rotation.turn(weights, |i| scan.tied(i)).map(|i| (i, scan.usable > 1));
        }
        let members = &self.members;
        let (least, count) = scan.emptiest(members)?;
        let equal =
            |i: usize| members.get(i).is_some_and(|m| crate::pick::compare((scan.queue(i), m.weight), least).is_eq());
        match count {
            1 => members.iter().enumerate().map(|(i, _)| i).find(|&i| scan.tied(i) && equal(i)).map(|i| (i, false)),
            _ => self.rotation.turn(weights, |i| scan.tied(i) && equal(i)).map(|i| (i, true)),
        }
        .or(Some((best, false)))
    }

    /// A trial of a lowered server, when one is due.
    fn trial(&mut self, shared: Shared<'_>, candidates: &[Candidate], consent: Consent, now: Micros) -> Option<Choice> {
        if !self.scan.lowered || consent == Consent::No {
            return None;
        }
        let scene = Scene { shared, members: &self.members, candidates, policy: self.params.policy, now };
        let mut longest: Option<(usize, Micros)> = None;
        for i in 0..self.members.len() {
            let Some((member, candidate)) = scene.entry(i) else { continue };
            let Some(peer) = shared.peer(member.slot) else { continue };
            let lowered = candidate.fit == Fit::CountedOut
                || (self.params.policy == Policy::Fastest && peer.failure_level() > LOWERED);
            // A lowered server that is still as good as the best needs no trial.
            if !lowered || (candidate.fit == Fit::Usable && self.scan.tied(i)) {
                continue;
            }
            let seen = trial_due(peer, shared.group, consent, now);
            if seen.is_some_and(|seen| longest.is_none_or(|(_, first)| seen < first)) {
                longest = seen.map(|seen| (i, seen));
            }
        }
        let (index, seen) = longest?;
        let peer = shared.peer(self.members.get(index)?.slot)?;
        claim_trial(peer, shared.group, seen, now).then(|| self.predicted(index, peer.queue(), Reason::Trial))
    }

    /// An exploring pick, when one is affordable.
    fn explore(&mut self, shared: Shared<'_>, consent: Consent, now: Micros) -> Option<Choice> {
        let (best, least) = self.scan.best?;
        if !self.params.policy.explores() || self.table.blank || self.params.explore <= 0.0 {
            return None;
        }
        let ideal = self.table.estimate(best, self.scan.queue(best)).latency;
        self.account.earn(self.params.explore, ideal, self.table.dearest);
        if consent == Consent::No || self.scan.usable < 2 || !self.account.may_search(self.members.len(), now) {
            return None;
        }
        let mut cheapest: Option<(usize, f32, Micros, f64)> = None;
        for (i, (member, row)) in self.members.iter().zip(&self.table.rows).enumerate() {
            let score = self.scan.score(i);
            if self.scan.queue(i) > 0 || !(least + TIE < score && score < AT_CAP) {
                continue;
            }
            let Some(peer) = shared.peer(member.slot) else { continue };
            let seen = peer.last_pick.load(Ordering::Acquire);
            let rested = since(seen, now);
            let timed_out = consent == Consent::NoTimeout && peer.timed_out.load(Ordering::Relaxed) != 0;
            if rested < REST || timed_out || peer.failure_level() > LOWERED {
                continue;
            }
            let price = (row.dear - ideal).max(0.0);
            let rank = f64::from(price) / rested as f64;
            if cheapest.is_none_or(|(.., least)| rank < least) {
                cheapest = Some((i, price, seen, rank));
            }
        }
        let (index, price, seen, _) = cheapest?;
        let peer = shared.peer(self.members.get(index)?.slot)?;
        if !self.account.covers(price) || !claim(peer, seen, now) {
            return None;
        }
        self.account.pay(price);
        Some(Choice { price, best: ideal, ..self.predicted(index, 0, Reason::Explore) })
    }

    fn choice(&mut self, index: usize, reason: Reason) -> Choice {
        let score = self.scan.score(index);
        let score = if score >= AT_CAP { score - AT_CAP } else { score };
        Choice { score, ..self.predicted(index, self.scan.queue(index), reason) }
    }

    /// A choice with what is predicted of it and nothing else: trials and explorations have no score of the scan.
    fn predicted(&mut self, index: usize, queue: u32, reason: Reason) -> Choice {
        let slot = self.members.get(index).and_then(|m| m.slot);
        let estimate = self.table.estimate(index, queue);
        let (latency, score) = if self.table.blank { (0.0, 0.0) } else { (estimate.latency, estimate.base) };
        Choice { index, slot, reason, latency, score, queue, price: 0.0, best: 0.0 }
    }
}
