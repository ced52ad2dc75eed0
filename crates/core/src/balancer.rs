//! One worker's view of one list of servers, and the pick. Everything here is private to the worker; what is learned
//! lives in [`crate::peer::Peer`] and [`crate::group::Group`].

use crate::attempt::Receipt;
pub use crate::choice::{Candidate, Choice, Fit, Member, Reason, Request};
use crate::explore::{Account, Consent};
use crate::inflight::Shared;
use crate::long::{Ask, LONG, Long};
use crate::params::{Params, Policy};
use crate::peer::Peer;
use crate::pick::{Scan, Scene};
use crate::policy::Learned;
use crate::ramp;
use crate::rng::Rng;
use crate::rotation::Rotation;
use crate::score::{AT_CAP, at_cap};
use crate::sync::Ordering;
use crate::table::Table;
use crate::time::Micros;

/// One worker's view of one list.
#[derive(Debug)]
pub struct Balancer {
    pub(crate) params: Params,
    pub(crate) members: Vec<Member>,
    /// Who of them gets nothing by order; empty when nobody ([`Balancer::set_closed`]).
    pub(crate) closed: Vec<bool>,
    /// The list has changed since breakers were counted in it.
    pub(crate) recount: bool,
    weights: Vec<u32>,
    rng: Rng,
    pub(crate) table: Table,
    pub(crate) learned: Learned,
    rotation: Rotation,
    pub(crate) scan: Scan,
    pub(crate) account: Account,
    /// What a long list is picked from instead of `table`, `scan` and `rotation`.
    pub(crate) long: Option<Box<Long>>,
    scanning: bool,
}

impl Balancer {
    /// A balancer without members, with its random phase from `seed`.
    pub fn new(params: Params, seed: u64) -> Self {
        Self {
            params,
            members: Vec::new(),
            closed: Vec::new(),
            recount: false,
            weights: Vec::new(),
            rng: Rng::new(seed),
            table: Table::default(),
            learned: Learned::default(),
            rotation: Rotation::default(),
            scan: Scan::default(),
            account: Account::default(),
            long: None,
            scanning: false,
        }
    }

    /// Replaces the list (at start, and whenever servers come, go or change). May allocate; not for every request.
    /// The same list again changes nothing, so that the rotation goes on where it was.
    pub fn set_members(&mut self, members: &[Member]) {
        if self.members == members {
            return;
        }
        self.recount = true;
        self.closed.clear();
        let same = self.members.len() == members.len()
            && self.members.iter().zip(members).all(|(known, member)| known.slot == member.slot);
        let before = core::mem::replace(&mut self.members, members.to_vec());
        if members.len() > LONG && self.params.policy != Policy::Weighted && !self.scanning {
            return self.set_long(&before, same);
        }
        self.long = None;
        self.weights.clear();
        self.weights.extend(members.iter().map(|m| m.weight));
        self.table.resize(members);
        self.learned.resize(members);
        self.scan.resize(members.len());
        self.rotation.restart(&self.weights, &mut self.rng);
    }

    /// A long list; what is known of servers that were in it `before` is kept. `same`: they all were, and in this order.
    fn set_long(&mut self, before: &[Member], same: bool) {
        match &mut self.long {
            Some(long) if same => return long.reweigh(&self.members),
            Some(long) => return long.follow(before, &self.members, &mut self.rng),
            None => {}
        }
        let mut long = Box::new(Long::default());
        long.resize(&self.members, &mut self.rng);
        self.long = Some(long);
        // What a scan needs is not needed.
        self.weights = Vec::new();
        (self.table, self.scan, self.rotation) = (Table::default(), Scan::default(), Rotation::default());
    }

    /// Asks everybody however long the list is: what the structure for long lists is measured against. Call it before the
    /// list is set.
    pub fn scan_always(&mut self) {
        self.scanning = true;
    }

    /// Whether picks do without asking everybody, so that [`Balancer::pick_from`] asks for few candidates.
    pub fn is_long(&self) -> bool {
        self.long.is_some()
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
        if self.is_long() {
            return self.pick_from(shared, &|i, _| stand(candidates, i), request, now);
        }
        self.let_back(shared, now);
        self.survey(shared, candidates, now, false);
        let consent = Consent::of(shared.group, request.first, request.safe, now);
        if let Some(choice) = self.trial(shared, candidates, consent, now) {
            return Some(choice);
        }
        if request.spare && self.scan.best.is_some_and(|(i, score)| at_cap(score) && self.is_ramping(shared, i)) {
            ramp::passed(shared.group);
            return None;
        }
        if let Some(choice) = self.explore(shared, consent, now) {
            return Some(self.led(shared, choice, now));
        }
        let (index, turned) = self.winner()?;
        let reason = match (request.backup, self.scan.usable) {
            (true, _) => Reason::Backup,
            (_, 1) => Reason::Only,
            _ if turned => Reason::Tie,
            _ => Reason::Fastest,
        };
        let choice = self.choice(index, reason);
        Some(self.led(shared, choice, now))
    }

    fn is_ramping(&self, shared: Shared<'_>, index: usize) -> bool {
        self.members.get(index).and_then(|member| shared.peer(member.slot)).is_some_and(ramp::is_under_way)
    }

    /// Begins the ramp of a server that is picked for the first time, once others are known: where all are new, nobody is.
    pub(crate) fn led(&self, shared: Shared<'_>, choice: Choice, now: Micros) -> Choice {
        let known = self.long.as_ref().map_or(self.table.caps, |long| long.curves.caps);
        if self.params.slow_start > 0
            && known
            && let Some(peer) = shared.peer(choice.slot)
            && peer.requests.load(Ordering::Relaxed) == 0
        {
            ramp::begin(peer, shared.group, self.params.slow_start, now);
        }
        choice
    }

    /// [`Balancer::pick`] for a long list: `stand` says how a member, by index and record, stands for this request; it is asked
    /// for few of them.
    /// `None` for a list that is not long.
    pub fn pick_from(
        &mut self,
        shared: Shared<'_>,
        stand: &dyn Fn(usize, Option<u32>) -> Candidate,
        request: Request,
        now: Micros,
    ) -> Option<Choice> {
        self.let_back(shared, now);
        let long = self.long.as_mut()?;
        let consent = Consent::of(shared.group, request.first, request.safe, now);
        let (members, params) = (&*self.members, &self.params);
        let ask = Ask { shared, members, params, stand, first: request.first, consent, now };
        let choice = long.pick(ask, &mut self.account, request)?;
        Some(self.led(shared, choice, now))
    }

    /// [`Balancer::least_bad`] for a long list. Asks everybody.
    pub fn least_bad_from(
        &mut self,
        shared: Shared<'_>,
        stand: &dyn Fn(usize, Option<u32>) -> Candidate,
        now: Micros,
    ) -> Option<Choice> {
        let long = self.long.as_mut()?;
        let (members, params) = (&*self.members, &self.params);
        long.least_bad(Ask { shared, members, params, stand, first: false, consent: Consent::No, now })
    }

    /// The least bad server when neither list has a usable one: among those that nginx counts out.
    pub fn least_bad(&mut self, shared: Shared<'_>, candidates: &[Candidate], now: Micros) -> Option<Choice> {
        if self.is_long() {
            return self.least_bad_from(shared, &|i, _| stand(candidates, i), now);
        }
        self.survey(shared, candidates, now, true);
        let (index, _) = self.winner()?;
        Some(self.choice(index, Reason::Panic))
    }

    /// The choice of member `index` by somebody else (a sticky session): predicted like any other, not counted in ties.
    pub fn take(&mut self, shared: Shared<'_>, index: usize, reason: Reason, now: Micros) -> Option<Choice> {
        let member = *self.members.get(index)?;
        if let Some(long) = &mut self.long {
            long.wake(index);
            let queue = shared.peer(member.slot).map_or(0, Peer::queue);
            return Some(long.predicted(&self.members, index, queue, reason));
        }
        self.refresh(shared, now);
        let queue = shared.peer(member.slot).map_or(0, Peer::queue);
        let score = crate::policy::base(self.params.policy, &mut self.table, &self.learned, index, queue);
        Some(Choice { score, ..self.predicted(index, queue, reason) })
    }

    /// Corrects the savings for exploration once an exploring attempt is measured.
    pub fn settle(&mut self, shared: Shared<'_>, receipt: &Receipt) {
        self.account.settle(&shared.group.savings, receipt);
        if receipt.trip {
            self.trip(shared, receipt);
        }
        // The list may be another one by now; then somebody else's place is looked at, which does no harm.
        if let Some(long) = &mut self.long {
            long.wake(receipt.index);
            long.curves.tell(receipt.index);
        }
    }

    /// Follows new evidence.
    fn refresh(&mut self, shared: Shared<'_>, now: Micros) {
        if self.table.refresh(shared, &self.members, &self.params, now)
            && self.learned.refresh(shared, &self.members, &self.params, &self.table, now)
        {
            self.rotation.restart(&self.learned.weights, &mut self.rng);
        }
    }

    /// Scans all candidates.
    pub(crate) fn survey(&mut self, shared: Shared<'_>, candidates: &[Candidate], now: Micros, counted_out: bool) {
        self.refresh(shared, now);
        let scene = Scene::new(shared, (&self.members, candidates), &self.params, now);
        self.scan.run(scene, &mut self.table, &self.learned, counted_out);
    }

    /// The best, or whose turn it is among the equally good; and whether it was a turn.
    fn winner(&mut self) -> Option<(usize, bool)> {
        let (best, _) = self.scan.best?;
        let rotates = matches!(self.params.policy, Policy::RoundRobin | Policy::Weighted);
        if rotates {
            let weights = if self.params.policy == Policy::Weighted { &self.learned.weights } else { &self.weights };
            let scan = &self.scan;
            return self.rotation.turn(weights, |i| scan.tied(i)).map(|i| (i, scan.usable > 1));
        }
        match self.scan.equals(&self.members) {
            [] => None,
            &[one] => Some((one as usize, false)),
            equals => self.rotation.turn_among(&self.weights, equals).map(|i| (i, true)).or(Some((best, false))),
        }
    }

    fn choice(&mut self, index: usize, reason: Reason) -> Choice {
        let score = self.scan.score(index);
        let score = if at_cap(score) { score - AT_CAP } else { score };
        Choice { score, ..self.predicted(index, self.scan.queue(index), reason) }
    }

    /// A choice with what is predicted of it and nothing else: trials and explorations have no score of the scan.
    pub(crate) fn predicted(&mut self, index: usize, queue: u32, reason: Reason) -> Choice {
        let slot = self.members.get(index).and_then(|m| m.slot);
        let estimate = self.table.estimate(index, queue);
        let (latency, score) = if self.table.blank { (0.0, 0.0) } else { (estimate.latency, estimate.base) };
        Choice { index, slot, reason, latency, score, queue, price: 0.0, best: 0.0 }
    }
}

/// How member `i` stands; beyond the end of the slice nobody may have anything.
fn stand(candidates: &[Candidate], i: usize) -> Candidate {
    candidates.get(i).copied().unwrap_or(Candidate { fit: Fit::Unfit, conns: 0 })
}
