//! The breaker of one server: after failures in a row, or many more than its group has, nobody asks it for a while; then one
//! trial at a time does, and after some successes it is led back.
//!
//! All of it is two words in the server's record: every change is one compare-and-swap, and a worker that dies leaves nothing
//! half-done. Who may be taken out at once is the list's business (`quota.rs`); that somebody is used
//! when nobody is left, the caller's.

use crate::attempt::Outcome;
use crate::explore::REST;
use crate::group::Group;
use crate::pair;
use crate::params::{BreakerParams, Params};
use crate::peer::{BROKEN, Peer};
use crate::ramp;
use crate::report::Change;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Micros, SECOND, since};

/// Successes in a row that close a breaker: one may be luck.
pub const SUCCESSES: u64 = 3;
/// Attempts without which a failure rate says nothing: at half of twenty failing, luck is one in a million where one in ten fails.
const LEAST_ATTEMPTS: u64 = 20;
/// A rate is clearly above the group's from here on, and by three standard errors.
const LEAST_RATE: f64 = 0.5;
/// The group's rate is that of about so many last attempts.
const GROUP_CAP: f32 = 1000.0;
/// Open times double up to 2^6 times; `max_open` ends it before that.
const MOST_TRIPS: u64 = 6;
/// Open times differ by up to a fifth either way, so that many hosts do not try a server in the same instant.
const JITTER: u64 = 5;

/// A trial that ends later than this is no reason any more to wait with the next one: a worker that dies gives back its requests in
/// flight, by which this is seen at once, but not where older requests keep the server's queue from being empty. Longer than
/// the time-outs that trials usually end by.
pub const TRIAL_LEASE: Micros = 300 * SECOND;

/// What a breaker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Requests go to the server.
    Closed,
    /// None do.
    Open,
    /// Trials do, one at a time.
    HalfOpen,
}

/// A breaker at one moment: one word, `[phase: 2][trips: 4][count: 10][since: 48, µs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What it does.
    pub phase: Phase,
    /// How often it opened without being closed for long.
    pub trips: u64,
    /// Failures in a row while closed, successes while half open.
    count: u64,
    /// When the phase began, µs.
    pub since: Micros,
}

const COUNT_MOST: u64 = (1 << 10) - 1;
const SINCE_MOST: u64 = (1 << 48) - 1;

impl State {
    /// The breaker of `peer`.
    pub fn of(peer: &Peer) -> Self {
        Self::unpack(peer.breaker.load(Ordering::Acquire))
    }

    fn unpack(word: u64) -> Self {
        let phase = match word >> 62 {
            1 => Phase::Open,
            2 => Phase::HalfOpen,
            _ => Phase::Closed,
        };
        Self { phase, trips: (word >> 58) & 15, count: (word >> 48) & COUNT_MOST, since: word & SINCE_MOST }
    }

    fn pack(self) -> u64 {
        let phase = match self.phase {
            Phase::Closed => 0,
            Phase::Open => 1,
            Phase::HalfOpen => 2,
        };
        phase << 62 | self.trips.min(15) << 58 | self.count.min(COUNT_MOST) << 48 | (self.since & SINCE_MOST)
    }

    /// How long it is open, µs: `open` doubled with each trip, at most `max_open`, a fifth more or less.
    pub fn open_time(self, params: &BreakerParams) -> Micros {
        let doubled = params.open.saturating_mul(1 << self.trips.saturating_sub(1).min(MOST_TRIPS));
        let time = doubled.min(params.max_open.max(params.open));
        // The clock's lowest digits when it opened know nothing of other hosts.
        let digits = self.since.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        time - time / JITTER + (2 * time / JITTER) * digits / 0xffff
    }

    /// Whether trials may be let through at `now`.
    pub fn admits_trials(self, params: &BreakerParams, now: Micros) -> bool {
        match self.phase {
            Phase::Closed => false,
            Phase::Open => since(self.since, now) >= self.open_time(params),
            Phase::HalfOpen => true,
        }
    }

    /// Trips that are not forgotten: one goes for each `max_open` that it has been closed.
    fn remembered(self, params: &BreakerParams, now: Micros) -> u64 {
        let calm = if self.since == 0 { 0 } else { since(self.since, now) / params.max_open.max(1) };
        self.trips.saturating_sub(calm)
    }
}

/// What an attempt's end means for the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing more.
    None,
    /// It should open, if enough others are left.
    Trip,
    /// It has closed: the server is led back.
    Closed,
}

/// Whether requests keep away from the server because its breaker is not closed: one load.
pub fn is_broken(peer: &Peer) -> bool {
    peer.marks.load(Ordering::Acquire) & BROKEN != 0
}

/// Replaces the state by `change` of it; `None` of that leaves it. Returns the state before, if it was replaced.
fn replace(peer: &Peer, change: impl Fn(State) -> Option<State>) -> Option<State> {
    let word = |seen: u64| change(State::unpack(seen)).map(State::pack);
    peer.breaker.fetch_update(Ordering::AcqRel, Ordering::Acquire, word).ok().map(State::unpack)
}

/// Books how an attempt that began at `started` ended at `now`.
fn note(
    (peer, group): (&Peer, &Group),
    params: &BreakerParams,
    failed: bool,
    (started, now): (Micros, Micros),
) -> Verdict {
    let seen = State::of(peer);
    if seen.phase != Phase::Closed {
        // Whoever began before it opened is no trial.
        return if started < seen.since { Verdict::None } else { tried(peer, params, failed, (started, now)) };
    }
    pair::add_mean(&group.failing, f32::from(u8::from(failed)), GROUP_CAP);
    let (attempts, failures) = count(&peer.window, params, failed, now);
    if !failed {
        if seen.count > 0 {
            replace(peer, |s| (s.phase == Phase::Closed && s.count > 0).then_some(State { count: 0, ..s }));
        }
        return Verdict::None;
    }
    let more = |s: State| (s.phase == Phase::Closed).then_some(State { count: s.count + 1, ..s });
    let in_a_row = replace(peer, more).map_or(0, |s| s.count + 1);
    let trip = in_a_row >= u64::from(params.fails) || is_apart(attempts, failures, pair::read(&group.failing));
    if trip { Verdict::Trip } else { Verdict::None }
}

/// Tells the breaker of an attempt's end; whether it should open.
pub(crate) fn judge(
    (peer, group): (&Peer, &Group),
    params: &Params,
    outcome: Outcome,
    (started, now): (Micros, Micros),
) -> bool {
    let Some(breaker) = &params.breaker else {
        if is_broken(peer) {
            forget(peer);
        }
        return false;
    };
    let failed = match outcome {
        Outcome::Pass | Outcome::Refused | Outcome::Held => false,
        Outcome::Fail(_) => true,
        Outcome::Abort | Outcome::Void => return false,
    };
    let verdict = note((peer, group), breaker, failed, (started, now));
    if verdict == Verdict::Closed {
        ramp::begin(peer, group, params.ramp(), now);
    }
    verdict == Verdict::Trip
}

/// Whether so many failures are clearly more than the group's rate.
fn is_apart(attempts: u64, failures: u64, (weight, rate): (f32, f32)) -> bool {
    if attempts < LEAST_ATTEMPTS || weight < LEAST_ATTEMPTS as f32 {
        return false;
    }
    let (own, common) = (failures as f64 / attempts as f64, f64::from(rate).clamp(0.0, 1.0));
    let error = (common * (1.0 - common) / attempts as f64).sqrt();
    own >= LEAST_RATE && own >= common + 3.0 * error
}

/// Counts an attempt in the window, `[start: 32, ms][attempts: 16][failures: 16]`; returns both counts. When a window is over half of
/// each goes on into the next, and after two all of it is old.
fn count(word: &AtomicU64, params: &BreakerParams, failed: bool, now: Micros) -> (u64, u64) {
    let ms = (now / 1000) & 0xffff_ffff;
    let window = (params.window / 1000).max(1);
    let next = |word: u64| {
        let (start, attempts, failures) = (word >> 32, (word >> 16) & 0xffff, word & 0xffff);
        let age = ms.wrapping_sub(start) & 0xffff_ffff;
        let (start, attempts, failures) = match age / window {
            0 if attempts < 0xffff => (start, attempts, failures),
            0 | 1 => (ms, attempts / 2, failures / 2),
            _ => (ms, 0, 0),
        };
        (start, attempts + 1, failures + u64::from(failed))
    };
    let pack = |(start, attempts, failures): (u64, u64, u64)| start << 32 | attempts << 16 | failures.min(0xffff);
    let before = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| Some(pack(next(seen))));
    let (_, attempts, failures) = next(before.unwrap_or_else(|seen| seen));
    (attempts, failures)
}

/// A trial, or a request when nobody else was left, has ended.
fn tried(peer: &Peer, params: &BreakerParams, failed: bool, (started, now): (Micros, Micros)) -> Verdict {
    if failed {
        let open = |s: State| {
            // What fails while nobody else is left, before trials are due, says nothing new.
            s.admits_trials(params, started).then_some(State {
                phase: Phase::Open,
                trips: (s.trips + 1).min(15),
                count: 0,
                since: now,
            })
        };
        if replace(peer, open).is_some() {
            Change::Opened.note(peer, now);
        }
        return Verdict::None;
    }
    let better = |s: State| match s.phase {
        Phase::Closed => None,
        _ if s.count + 1 >= SUCCESSES => Some(State { phase: Phase::Closed, count: 0, since: now, ..s }),
        Phase::HalfOpen => Some(State { count: s.count + 1, ..s }),
        Phase::Open => Some(State { phase: Phase::HalfOpen, count: 1, since: now, ..s }),
    };
    match replace(peer, better) {
        Some(before) if before.count + 1 >= SUCCESSES => {
            cleared(peer);
            Change::Closed.note(peer, now);
            Verdict::Closed
        }
        Some(State { phase: Phase::Open, .. }) => {
            Change::HalfOpen.note(peer, now);
            Verdict::None
        }
        _ => Verdict::None,
    }
}

/// What it failed before is forgotten: it begins small, and is led back.
fn cleared(peer: &Peer) {
    peer.window.store(0, Ordering::Release);
    peer.failure.store(0, Ordering::Release);
    peer.answers.store(0, Ordering::Release);
    peer.marks.fetch_and(!BROKEN, Ordering::AcqRel);
}

/// Opens a closed breaker; says whether it did.
pub(crate) fn open(peer: &Peer, params: &BreakerParams, now: Micros) -> bool {
    let opened = |s: State| {
        (s.phase == Phase::Closed).then(|| State {
            phase: Phase::Open,
            trips: (s.remembered(params, now) + 1).min(15),
            count: 0,
            since: now,
        })
    };
    if replace(peer, opened).is_none() {
        return false;
    }
    peer.window.store(0, Ordering::Release);
    peer.marks.fetch_or(BROKEN, Ordering::AcqRel);
    Change::Opened.note(peer, now);
    true
}

/// A trial of `peer` has begun; it stands in the queue already.
pub(crate) fn trial_begins(peer: &Peer, now: Micros) {
    peer.trial.swap(now, Ordering::AcqRel);
}

/// The trial that began at `started` leaves the queue.
pub(crate) fn trial_ends(peer: &Peer, started: Micros) {
    // Whoever has outlived its lease ends nobody else's.
    let _ = peer.trial.compare_exchange(started, 0, Ordering::AcqRel, Ordering::Acquire);
}

/// Whether a trial is under way. Requests from before the opening are none, however long they take.
fn is_being_tried(peer: &Peer, now: Micros) -> bool {
    let began = peer.trial.load(Ordering::Acquire);
    began != 0 && peer.queue() > 0 && since(began, now) < TRIAL_LEASE
}

/// When the last trial was, if another one may be let through: one at a time over all workers.
pub(crate) fn trial_due(peer: &Peer, params: &BreakerParams, now: Micros) -> Option<Micros> {
    let state = State::of(peer);
    if state.phase == Phase::Closed {
        // A worker died between closing it and saying so.
        peer.marks.fetch_and(!BROKEN, Ordering::AcqRel);
        return None;
    }
    let seen = peer.last_trial.load(Ordering::Acquire);
    let rested = since(seen.max(peer.last_pick.load(Ordering::Acquire)), now) >= REST;
    (state.admits_trials(params, now) && rested && !is_being_tried(peer, now)).then_some(seen)
}

/// Takes the opening at `at` back: others opened in the same moment, and too few are left.
pub(crate) fn take_back(peer: &Peer, at: Micros) {
    let closed = |s: State| {
        (s.phase == Phase::Open && s.since == at & SINCE_MOST).then_some(State {
            phase: Phase::Closed,
            trips: s.trips.saturating_sub(1),
            count: 0,
            since: at,
        })
    };
    if replace(peer, closed).is_some() {
        peer.marks.fetch_and(!BROKEN, Ordering::AcqRel);
    }
}

/// Lets a server back whose breaker is as `seen`, because too many are out. What it failed is not forgotten, and it may trip
/// anew once others are well.
pub(crate) fn let_back(peer: &Peer, seen: State, now: Micros) {
    let closed = |s: State| (s == seen).then_some(State { phase: Phase::Closed, count: 0, since: now, ..s });
    if replace(peer, closed).is_some() {
        peer.marks.fetch_and(!BROKEN, Ordering::AcqRel);
        Change::Closed.note(peer, now);
    }
}

/// Closes a breaker that the configuration has no more, or that its server's reset forgets.
fn forget(peer: &Peer) {
    peer.breaker.store(0, Ordering::Release);
    peer.window.store(0, Ordering::Release);
    peer.marks.fetch_and(!BROKEN, Ordering::AcqRel);
}
