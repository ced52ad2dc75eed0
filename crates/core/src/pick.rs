//! The scan over all candidates: who is usable, what each costs, who is best and who is tied with the best.
//!
//! Cheap scores first: a candidate whose base score is already worse than the best by more than the tie is not looked at
//! further, as penalties only add.

use crate::balancer::{Candidate, Fit, Member};
use crate::breaker::is_broken;
use crate::evidence::LOWERED;
use crate::inflight::Shared;
use crate::params::{Params, Policy};
use crate::peer::Peer;
use crate::policy::{self, Learned};
use crate::ramp;
use crate::report::Change;
use crate::score::{AT_CAP, TIE, at_cap, cap, load, silence, with_failure};
use crate::sync::Ordering;
use crate::table::{Estimate, Table};
use crate::time::{Micros, SECOND, seconds, since};

/// A silence of this much (ln 2: the score is doubled) is told as a change.
const TELLING: f32 = core::f32::consts::LN_2;
/// And not before it has lasted so long: fast servers pause for some milliseconds all day, which moves a few requests and is
/// no news to anybody.
const TOLD_AFTER: Micros = SECOND / 2;

/// From this many servers on most are idle at most times, and it pays to look for runs of them.
const LONG: usize = 16;

/// What a scan reads.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) shared: Shared<'a>,
    pub(crate) members: &'a [Member],
    pub(crate) candidates: &'a [Candidate],
    pub(crate) policy: Policy,
    /// How long servers are led up to their share, µs.
    pub(crate) ramp: Micros,
    /// Whether they have breakers.
    pub(crate) breaks: bool,
    pub(crate) now: Micros,
}

impl<'a> Scene<'a> {
    /// What a scan of servers, and how they stand for the request, reads at `now`.
    pub(crate) fn new(shared: Shared<'a>, of: (&'a [Member], &'a [Candidate]), params: &Params, now: Micros) -> Self {
        let ((members, candidates), ramp, breaks) = (of, params.ramp(), params.breaker.is_some());
        Self { shared, members, candidates, policy: params.policy, ramp, breaks, now }
    }

    /// Member and candidate `i`, if it may be given anything at all.
    pub(crate) fn entry(&self, i: usize) -> Option<(&'a Member, &'a Candidate)> {
        let entry = (self.members.get(i)?, self.candidates.get(i)?);
        (entry.1.fit != Fit::Unfit && entry.0.weight > 0).then_some(entry)
    }
}

/// A scan's findings. The buffers are sized once per list.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Score per member; infinite for those not asked, a lower bound for those that cannot win.
    scores: Vec<f32>,
    queues: Vec<u32>,
    /// How many candidates could be given the request.
    pub(crate) usable: usize,
    /// The smallest score and whose it is.
    pub(crate) best: Option<(usize, f32)>,
    /// Somebody is lowered: failing, or counted out.
    pub(crate) lowered: bool,
    /// Ranked by queue alone: then the idle are equals.
    by_queue: bool,
    /// No candidate is predicted to answer sooner than this, seconds; 0 when that was not asked.
    pub(crate) quickest: f32,
    /// Who is tied with the best and as empty as any of those; filled by `equals`.
    equals: Vec<u32>,
}

impl Scan {
    /// Sizes the buffers for `count` members.
    pub(crate) fn resize(&mut self, count: usize) {
        self.scores.clear();
        self.scores.resize(count, f32::INFINITY);
        self.queues.clear();
        self.queues.resize(count, 0);
        self.equals.clear();
        self.equals.resize(count, 0);
    }

    /// Looks at everybody; those whom nginx counts out are usable only when `counted_out`.
    pub(crate) fn run(&mut self, scene: Scene<'_>, table: &mut Table, learned: &Learned, counted_out: bool) {
        let fastest = scene.policy == Policy::Fastest;
        let known = fastest && !table.blank;
        let mut weigh = Weigh { scene, table, learned, counted_out, fastest, known, slowest: None };
        // Kept apart from `self`: what is in registers need not be written for every candidate.
        let (mut usable, mut lowered, mut best) = (0, false, (0, f32::INFINITY));
        let mut quickest = if known { f32::INFINITY } else { 0.0 };
        let answered = scene.members.len().min(scene.candidates.len()).min(self.scores.len());
        self.scores.fill(f32::INFINITY);
        let mut next = 0;
        while next < answered {
            // A run of the plain ones, then one that is not.
            if known && answered >= LONG {
                let run = self.plain(scene, weigh.table.idle(), next, (&mut best, &mut quickest));
                (next, usable) = (run.end, usable + run.usable);
            }
            let Some((member, candidate)) = scene.entry(next) else {
                next += 1;
                continue;
            };
            let peer = scene.shared.peer(member.slot);
            let q = peer.map_or(candidate.conns, Peer::queue);
            let weighed = weigh.weigh((next, q), peer, candidate.fit, best.1);
            lowered |= weighed.lowered;
            if let Some(score) = weighed.score {
                // What is no number is dearer than anything; so the comparison below is total.
                let score = if score <= f32::MAX { score } else { f32::MAX };
                usable += 1;
                quickest = quickest.min(weighed.latency);
                if score < best.1 {
                    best = (next, score);
                }
                self.note(next, score, q);
            }
            next += 1;
        }
        (self.usable, self.lowered, self.quickest) = (usable, lowered, quickest);
        self.best = (usable > 0).then_some(best);
        // Failing servers that are idle are not equal to the others.
        self.by_queue = scene.policy == Policy::LeastConn || (fastest && !known && !lowered);
    }

    /// Weighs candidates from `from` on while they are idle and well, as most of a long list are: to them nothing is added
    /// beyond what they are expected to take when `idle`. The unfit are passed over. On its own, so that the loop has all
    /// registers.
    #[inline(never)]
    fn plain(
        &mut self,
        scene: Scene<'_>,
        idle: &[Estimate],
        from: usize,
        (best, quickest): (&mut (usize, f32), &mut f32),
    ) -> Run {
        let mut run = Run { end: from, usable: 0 };
        let ((mut first, mut least), mut soonest) = (*best, *quickest);
        let entries = rest(scene.members, from).iter().zip(rest(scene.candidates, from)).zip(rest(idle, from));
        let scores = self.scores.get_mut(from..).unwrap_or_default();
        let places = scores.iter_mut().zip(self.queues.get_mut(from..).unwrap_or_default());
        for (((member, candidate), estimate), (place, queue)) in entries.zip(places) {
            if candidate.fit == Fit::Unfit || member.weight == 0 {
                run.end += 1;
                continue;
            }
            let Some(peer) = scene.shared.peer(member.slot) else { break };
            // What has not been asked for since the last build is no number.
            if candidate.fit != Fit::Usable || !peer.is_idle_and_well() || estimate.base.is_nan() {
                break;
            }
            (*place, *queue) = (estimate.base, 0);
            if estimate.latency < soonest {
                soonest = estimate.latency;
            }
            if estimate.base < least {
                (first, least) = (run.end, estimate.base);
            }
            run.usable += 1;
            run.end += 1;
        }
        (*best, *quickest) = ((first, least), soonest);
        run
    }

    /// What member `i` costs with all that a scan leaves out of those that cannot win, and its queue; `None` when it may not
    /// be had or is counted out.
    pub(crate) fn cost(scene: Scene<'_>, table: &mut Table, learned: &Learned, i: usize) -> Option<(f32, u32)> {
        let (member, candidate) = scene.entry(i)?;
        let peer = scene.shared.peer(member.slot);
        let q = peer.map_or(candidate.conns, Peer::queue);
        let fastest = scene.policy == Policy::Fastest;
        let known = fastest && !table.blank;
        let mut weigh = Weigh { scene, table, learned, counted_out: false, fastest, known, slowest: None };
        weigh.weigh((i, q), peer, candidate.fit, f32::INFINITY).score.map(|score| (score, q))
    }

    fn note(&mut self, i: usize, score: f32, q: u32) {
        if let (Some(place), Some(queue)) = (self.scores.get_mut(i), self.queues.get_mut(i)) {
            (*place, *queue) = (score, q);
        }
    }

    /// Requests in flight at member `i` when it was scanned.
    pub(crate) fn queue(&self, i: usize) -> u32 {
        self.queues.get(i).copied().unwrap_or(0)
    }

    /// Score of member `i`.
    pub(crate) fn score(&self, i: usize) -> f32 {
        self.scores.get(i).copied().unwrap_or(f32::INFINITY)
    }

    /// Whether member `i` is as good as the best.
    pub(crate) fn tied(&self, i: usize) -> bool {
        let Some((best, least)) = self.best else { return false };
        let score = self.score(i);
        if self.by_queue && self.queue(best) == 0 {
            // (q + 1)/w says who is emptier once all are busy. Among idle servers it would always say the heaviest.
            return self.queue(i) == 0 && !at_cap(score);
        }
        score <= least + TIE
    }

    /// Those among the tied who have the least q/weight, in order.
    pub(crate) fn equals(&mut self, members: &[Member]) -> &[u32] {
        let Some((best, least)) = self.best else { return &[] };
        let idle = self.by_queue && self.queue(best) == 0;
        let (bar, mut emptiest, mut count) = (least + TIE, None, 0);
        for (i, ((&score, &q), member)) in (0u32..).zip(self.scores.iter().zip(&self.queues).zip(members)) {
            if if idle { q > 0 || at_cap(score) } else { score > bar } {
                continue;
            }
            let load = (q, member.weight);
            if emptiest != Some(load) {
                match emptiest.map_or(core::cmp::Ordering::Less, |known| compare(load, known)) {
                    core::cmp::Ordering::Less => (emptiest, count) = (Some(load), 0),
                    core::cmp::Ordering::Equal => {}
                    core::cmp::Ordering::Greater => continue,
                }
            }
            if let Some(place) = self.equals.get_mut(count) {
                *place = i;
                count += 1;
            }
        }
        self.equals.get(..count).unwrap_or_default()
    }
}

fn rest<T>(all: &[T], from: usize) -> &[T] {
    all.get(from..).unwrap_or_default()
}

/// Candidates in a row that were weighed at once.
struct Run {
    end: usize,
    usable: usize,
}

/// What it takes to weigh one candidate.
struct Weigh<'a, 'b> {
    scene: Scene<'a>,
    table: &'b mut Table,
    learned: &'b Learned,
    counted_out: bool,
    /// The policy of predictions and penalties …
    fastest: bool,
    /// … and there is something to predict from.
    known: bool,
    /// R, once asked for.
    slowest: Option<f32>,
}

/// What came of weighing one candidate.
struct Weighed {
    /// `None`: counted out, and that counts.
    score: Option<f32>,
    /// Predicted latency, seconds; 0 when that was not asked.
    latency: f32,
    /// Failing, or counted out.
    lowered: bool,
}

impl Weigh<'_, '_> {
    /// Weighs candidate `i` with `q` in flight, when the best so far has the score `best`.
    #[inline(never)]
    fn weigh(&mut self, (i, q): (usize, u32), peer: Option<&Peer>, fit: Fit, best: f32) -> Weighed {
        let broken = self.scene.breaks && peer.is_some_and(is_broken);
        let out = fit != Fit::Usable || broken;
        // A breaker says all there is to say of failures.
        let failure = if self.fastest && !broken { peer.map_or(0.0, Peer::failure_level) } else { 0.0 };
        let lowered = out || failure > LOWERED;
        if out && !self.counted_out {
            return Weighed { score: None, latency: 0.0, lowered };
        }
        let (mut score, mut latency) = (0.0, 0.0);
        if self.known {
            let estimate = self.table.estimate(i, q);
            (score, latency) = (estimate.base, estimate.latency);
            if let Some(peer) = peer {
                score += load(peer.load_factor());
                // Penalties only add: who is behind already cannot come first.
                if score <= best + TIE {
                    score += quiet(peer, q, latency * self.table.tail, self.scene.now);
                    if failure > 0.0 {
                        let (scene, table, counted_out) = (self.scene, &*self.table, self.counted_out);
                        let slowest = *self.slowest.get_or_insert_with(|| slowest_idle(scene, table, counted_out));
                        score = with_failure(score, failure, slowest);
                    }
                }
            }
        } else {
            score += policy::base(self.scene.policy, self.table, self.learned, i, q);
            // Before the first success an answer is the unit: who fails at once, and so is always idle, still waits.
            score = with_failure(score, failure, 1.0);
        }
        // Only when nobody is usable is a broken server weighed at all: after those that nginx alone counts out.
        let late = |peer| self.is_capped(q, peer) || (ramp::is_under_way(peer) && self.is_sated(i, peer));
        if broken || peer.is_some_and(late) {
            score += AT_CAP;
        }
        Weighed { score: Some(score), latency, lowered }
    }

    /// Whether a server that has hardly answered has enough in flight. Other policies promise shares or fewest in flight from the
    /// first second on.
    fn is_capped(&self, q: u32, peer: &Peer) -> bool {
        self.fastest && self.table.caps && q >= cap(peer.answers.load(Ordering::Relaxed))
    }

    /// Whether member `i`, which ramps, has had its part.
    #[cold]
    fn is_sated(&self, i: usize, peer: &Peer) -> bool {
        let Scene { shared, members, ramp: time, now, .. } = self.scene;
        ramp::is_sated(peer, shared.group, self.table.even_share(i, members.len()), time, now)
    }
}

/// Compares q/weight without dividing.
fn compare(a: (u32, u32), b: (u32, u32)) -> core::cmp::Ordering {
    (u64::from(a.0) * u64::from(b.1)).cmp(&(u64::from(b.0) * u64::from(a.1)))
}

/// The silence of `peer`, told as a change once it doubles the score for a while.
pub(crate) fn quiet(peer: &Peer, q: u32, latency: f32, now: Micros) -> f32 {
    if q == 0 {
        return 0.0;
    }
    let quiet = since(peer.quiet_since(), now);
    let penalty = silence(q, seconds(quiet) as f32, latency);
    if penalty > TELLING && quiet >= TOLD_AFTER && Change::last(peer).is_none_or(|(change, _)| change != Change::Silent)
    {
        Change::Silent.note(peer, now);
    }
    penalty
}

/// R: the largest idle prediction among usable servers, seconds.
fn slowest_idle(scene: Scene<'_>, table: &Table, counted_out: bool) -> f32 {
    let usable = |i: usize| scene.entry(i).is_some_and(|(_, c)| counted_out || c.fit == Fit::Usable);
    table.rows.iter().enumerate().filter(|&(i, _)| usable(i)).map(|(_, row)| row.idle).fold(0.0, f32::max)
}
