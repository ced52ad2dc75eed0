//! One worker's view of one list of servers, and the pick. Everything here is private to the worker; what is learned
//! lives in [`crate::peer::Peer`] and [`crate::group::Group`].

use crate::attempt::Receipt;
use crate::inflight::Shared;
use crate::params::Params;
use crate::rng::Rng;
use crate::time::Micros;

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
#[derive(Clone, Copy, Debug)]
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
}

/// One worker's view of one list.
#[derive(Debug)]
pub struct Balancer {
    params: Params,
    members: Vec<Member>,
    rng: Rng,
}

impl Balancer {
    /// A balancer without members, with its random phase from `seed`.
    pub fn new(params: Params, seed: u64) -> Self {
        Self { params, members: Vec::new(), rng: Rng::new(seed) }
    }

    /// Replaces the list (at start, and whenever servers come, go or change). May allocate; not for every request.
    pub fn set_members(&mut self, members: &[Member]) {
        self.members.clear();
        self.members.extend_from_slice(members);
        let _ = self.rng.next_u64();
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
        let _ = (request, now);
        self.fewest(shared, candidates, |fit| fit == Fit::Usable, Reason::Fastest)
    }

    /// The least bad server when neither list has a usable one: among those that nginx counts out.
    pub fn least_bad(&mut self, shared: Shared<'_>, candidates: &[Candidate], now: Micros) -> Option<Choice> {
        let _ = now;
        self.fewest(shared, candidates, |fit| fit != Fit::Unfit, Reason::Panic)
    }

    /// The choice of member `index` by somebody else (a sticky session): predicted like any other, not counted in ties.
    pub fn take(&mut self, shared: Shared<'_>, index: usize, reason: Reason, now: Micros) -> Option<Choice> {
        let _ = now;
        let member = *self.members.get(index)?;
        let queue = member.slot.and_then(|s| shared.peers.get(s as usize)).map_or(0, |p| p.queue());
        Some(Choice { index, slot: member.slot, reason, latency: 0.0, score: 0.0, queue, price: 0.0 })
    }

    /// Corrects the exploration account once an exploring attempt is measured.
    pub fn settle(&mut self, receipt: &Receipt) {
        let _ = receipt;
    }

    fn fewest(
        &self,
        shared: Shared<'_>,
        candidates: &[Candidate],
        fit: impl Fn(Fit) -> bool,
        reason: Reason,
    ) -> Option<Choice> {
        let queue_of = |i: usize| {
            let peer = self.members.get(i)?.slot.and_then(|s| shared.peers.get(s as usize));
            Some(peer.map_or(candidates.get(i)?.conns, |p| p.queue()))
        };
        let index = (0..self.members.len().min(candidates.len()))
            .filter(|&i| candidates.get(i).is_some_and(|c| fit(c.fit)))
            .min_by_key(|&i| queue_of(i))?;
        let member = *self.members.get(index)?;
        Some(Choice { index, slot: member.slot, reason, latency: 0.0, score: 0.0, queue: queue_of(index)?, price: 0.0 })
    }
}
