//! Active checks of one server: whose turn it is to probe it and when, and what the results make of it.
//!
//! All of it is words in shared memory. A turn is taken by one compare-and-swap, so that over all workers, and over old and new
//! ones during a reload, one probe is sent each interval; a worker that dies or hangs loses its turns to whoever comes by half
//! an interval later. Not here: sending probes and reading answers.

mod gap;

use crate::explore;
use crate::group::Group;
use crate::params::{CheckParams, Params};
use crate::peer::{Peer, UNHEALTHY};
use crate::ramp;
use crate::report::{self, Change};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::{Micros, SECOND, since};

/// Bits of a turn that say whose it is: as many worker slots as the shared memory may have, and one value for nobody.
const OWNER_BITS: u32 = 16;
const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;
/// What was found so many intervals ago, and ten seconds, is not known any more: probes come once an interval, or twice that.
const OLD: u64 = 4;
const OLD_LEAST: Micros = 10 * SECOND;

/// What checks have made of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// No result yet, or too few failures: it is used.
    #[default]
    Unknown,
    /// It is used.
    Healthy,
    /// Nobody uses it while others are left.
    Unhealthy,
}

impl Health {
    /// The word for it in status pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// How a probe ended. Codes are stored in shared memory, so new ones come at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The answer was as expected.
    Passed = 1,
    /// Could not connect.
    Connect = 2,
    /// No complete answer in time.
    Timeout = 3,
    /// The connection was closed before the answer was complete.
    Reset = 4,
    /// What came was no valid answer.
    Header = 5,
    /// A status that was not expected.
    Status = 6,
    /// The text was not in the body.
    Body = 7,
    /// The TLS handshake failed.
    Tls = 8,
    /// The gRPC service says that it does not serve.
    NotServing = 9,
}

impl Cause {
    /// All, in the order of their codes.
    pub const ALL: [Self; 9] = [
        Self::Passed,
        Self::Connect,
        Self::Timeout,
        Self::Reset,
        Self::Header,
        Self::Status,
        Self::Body,
        Self::Tls,
        Self::NotServing,
    ];

    /// The word for it in status pages and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Header => "header",
            Self::Status => "status",
            Self::Body => "body",
            Self::Tls => "tls",
            Self::NotServing => "not_serving",
        }
    }

    /// The cause with this code.
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| *cause as u64 == code)
    }
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How it ended.
    pub cause: Cause,
    /// HTTP status of the answer, 0 without one.
    pub status: u16,
    /// How long it took, µs, where that can be believed.
    pub took: Option<Micros>,
}

/// A server's checks, shared by all workers. Valid when zeroed.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Check {
    /// When it is to be probed next (µs) << 16 | worker slot of the last prober plus one, 0 for nobody; 0 before the first.
    turn: AtomicU64,
    /// [`Health`] in the lowest byte, whether the last probe passed in the next, results of that kind in a row above.
    standing: AtomicU64,
    /// The last result: when (µs) << 8 | its [`Cause`].
    last: AtomicU64,
    /// Mean of ln(answer) − ln(probe): packed (f32 weight, f32 mean).
    gap: AtomicU64,
    probes: AtomicU64,
    failures: AtomicU64,
    unhealthy: AtomicU64,
    /// Estimates that probes kept fresh.
    refreshed: AtomicU64,
    status: AtomicU32,
    took: AtomicU32,
}

/// A turn that is taken: results of another one are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

impl Check {
    /// When worker `own` should look again: at once when not later than `now`. The last prober goes on at the time that it set
    /// itself, others half an interval after that.
    pub fn due(&self, own: u16, params: &CheckParams) -> Micros {
        let word = self.turn.load(Ordering::Acquire);
        let at = word >> OWNER_BITS;
        let owner = word & OWNER_MASK;
        if owner == 0 || owner == owner_word(own) { at } else { at.saturating_add(params.interval / 2) }
    }

    /// Takes the turn that is due at `now` for worker `own`; the next is due at `next`, µs. `None` when another was faster.
    pub fn claim(&self, own: u16, params: &CheckParams, now: Micros, next: Micros) -> Option<Turn> {
        let seen = self.turn.load(Ordering::Acquire);
        if self.due(own, params) > now {
            return None;
        }
        let word = next << OWNER_BITS | owner_word(own);
        let taken = self.turn.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Acquire).is_ok();
        taken.then_some(Turn(word))
    }

    /// Lets others probe when the next turn is due, if it is `own`'s: this worker leaves.
    pub fn release(&self, own: u16) {
        let word = self.turn.load(Ordering::Acquire);
        if word & OWNER_MASK == owner_word(own) {
            // Fails when somebody has taken over, and then there is nothing to let go.
            let _ = self.turn.compare_exchange(word, word & !OWNER_MASK, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Has the server probed again at `at` instead: the probe of `turn` came to nothing through no fault of the server.
    pub fn retry(&self, turn: Turn, at: Micros) {
        let word = at << OWNER_BITS | turn.0 & OWNER_MASK;
        let _ = self.turn.compare_exchange(turn.0, word, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether the probe of `turn` is still the last that anybody began.
    pub fn holds(&self, turn: Turn) -> bool {
        // A worker that leaves has let go of it, and its result still counts.
        self.turn.load(Ordering::Acquire) >> OWNER_BITS == turn.0 >> OWNER_BITS
    }

    /// What checks have made of the server.
    pub fn health(&self) -> Health {
        health(self.standing.load(Ordering::Acquire))
    }

    /// The last result and when it came, µs.
    pub fn last(&self) -> Option<(Cause, Micros)> {
        let word = self.last.load(Ordering::Acquire);
        Cause::from_code(word & 0xff).map(|cause| (cause, word >> 8))
    }

    /// HTTP status of the last answer, 0 without one; how long the last good probe took, µs, 0 before the first.
    pub fn answer(&self) -> (u32, u32) {
        (self.status.load(Ordering::Relaxed), self.took.load(Ordering::Relaxed))
    }

    /// Probes, how many of them failed, how often the server became unhealthy.
    pub fn counts(&self) -> (u64, u64, u64) {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (load(&self.probes), load(&self.failures), load(&self.unhealthy))
    }

    /// How often a probe's time stood in for an answer's.
    pub fn refreshed(&self) -> u64 {
        self.refreshed.load(Ordering::Relaxed)
    }

    fn words(&self) -> [&AtomicU64; 8] {
        let Self { turn, standing, last, gap, probes, failures, unhealthy, refreshed, status: _, took: _ } = self;
        [turn, standing, last, gap, probes, failures, unhealthy, refreshed]
    }

    pub(crate) fn clear(&self) {
        self.carry_from(&Self::default());
    }

    pub(crate) fn carry_from(&self, old: &Self) {
        for (to, from) in self.words().into_iter().zip(old.words()) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        for (to, from) in [(&self.status, &old.status), (&self.took, &old.took)] {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
    }
}

fn owner_word(own: u16) -> u64 {
    (u64::from(own) + 1).min(OWNER_MASK)
}

fn health(word: u64) -> Health {
    match word & 0xff {
        1 => Health::Healthy,
        2 => Health::Unhealthy,
        _ => Health::Unknown,
    }
}

/// The standing after one more result.
fn judged(word: u64, passed: bool, params: &CheckParams) -> u64 {
    let (before, same) = (health(word), (word >> 8 & 0xff != 0) == passed);
    let count = if same { (word >> 16).saturating_add(1) } else { 1 }.min(u64::from(u32::MAX));
    let after = match before {
        // One good answer says that it works; that it does not takes as many bad ones as ever.
        Health::Unknown if passed => Health::Healthy,
        Health::Unknown | Health::Healthy if !passed && count >= u64::from(params.fails) => Health::Unhealthy,
        Health::Unhealthy if passed && count >= u64::from(params.passes) => Health::Healthy,
        other => other,
    };
    // Counters start anew with every change, so that the next one takes as many results.
    let count = if after == before { count } else { 0 };
    count << 16 | u64::from(passed) << 8 | after as u64
}

/// Forgets what old checks have found: an upstream that was not checked for a while, or not at all in between, begins anew.
/// To be called by who begins to probe a server.
pub fn forget_old(peer: &Peer, check: &Check, params: &CheckParams, now: Micros) {
    let limit = params.interval.saturating_mul(OLD).saturating_add(OLD_LEAST);
    if check.last().is_some_and(|(_, at)| since(at, now) >= limit) {
        check.standing.store(0, Ordering::Release);
        peer.marks.fetch_and(!UNHEALTHY, Ordering::AcqRel);
    }
}

/// Whether checks say that the server is not to be used: one load.
pub fn is_unhealthy(peer: &Peer) -> bool {
    peer.marks.load(Ordering::Acquire) & UNHEALTHY != 0
}

/// When the probe after the one of `now` is due, µs: an interval later, or sooner so that it falls on `phase` (0 to 1 of an
/// interval), which spreads the servers of a list; `jitter` more.
pub fn next(params: &CheckParams, phase: f64, jitter: Micros, now: Micros) -> Micros {
    let interval = params.interval.max(1);
    let phase = (phase.clamp(0.0, 1.0) * interval as f64) as Micros;
    // The next time at this phase that is at least half an interval away.
    let earliest = now.saturating_add(interval / 2);
    let past = earliest.saturating_sub(phase) % interval;
    earliest.saturating_add((interval - past) % interval).saturating_add(jitter)
}

/// Whether a probe may be left out: checks are for quiet servers only, and this one has just answered.
pub fn is_spared(peer: &Peer, check: &Check, params: &CheckParams, now: Micros) -> bool {
    params.idle
        && check.health() != Health::Unhealthy
        && !report::is_failing(peer)
        && since(peer.last_answer.load(Ordering::Acquire), now) < params.interval
}

/// Books what the probe of `turn` found at `now`. Says what the server has become, if that changed.
pub fn settle(
    (peer, group, check): (&Peer, &Group, &Check),
    params: &Params,
    turn: Turn,
    found: Found,
    now: Micros,
) -> Option<Health> {
    let rules = params.check.as_ref().filter(|_| check.holds(turn))?;
    let passed = found.cause == Cause::Passed;
    check.probes.fetch_add(1, Ordering::Relaxed);
    check.failures.fetch_add(u64::from(!passed), Ordering::Relaxed);
    check.status.store(found.status.into(), Ordering::Relaxed);
    check.last.store(now << 8 | found.cause as u64, Ordering::Release);
    if let Some(took) = found.took.filter(|_| passed) {
        check.took.store(u32::try_from(took).unwrap_or(u32::MAX), Ordering::Relaxed);
        gap::compare((peer, group, check), params, took, now);
    }
    let step = |word: u64| Some(judged(word, passed, rules));
    let before = check.standing.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).unwrap_or_else(|word| word);
    let (before, after) = (health(before), health(judged(before, passed, rules)));
    // Said each time: a record that was reset in between has no marks.
    match after {
        Health::Unhealthy => peer.marks.fetch_or(UNHEALTHY, Ordering::AcqRel),
        _ => peer.marks.fetch_and(!UNHEALTHY, Ordering::AcqRel),
    };
    match (before, after) {
        (Health::Unhealthy, Health::Healthy) => {
            Change::Healthy.note(peer, now);
            if report::is_failing(peer) {
                // What requests have found is theirs to take back, and a trial may do so soon.
                explore::hurry(peer, group, now);
            }
            ramp::begin(peer, group, params.slow_start, now);
        }
        (_, Health::Unhealthy) if before != after => {
            Change::Unhealthy.note(peer, now);
            check.unhealthy.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
    (before != after).then_some(after)
}
