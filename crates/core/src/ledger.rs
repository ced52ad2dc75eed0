//! What is counted of a server for people only: answers, bytes, times, how long it was out. No pick reads it.
//!
//! Beside [`crate::peer::Peer`] and not in it, so that picks touch no more memory than they need. Plain atomics, valid when
//! zeroed. A ledger belongs to its record's generation: when the record is reset or given to another server, the ledger
//! starts afresh with the first to use it. Not here: who looks after states once a second, and how figures are shown.

mod kept;
mod state;

pub use kept::Kept;
pub use state::{Standing, State};

use state::standing;

use crate::attempt::Failure;
use crate::check::Check;
use crate::histogram::Histogram;
use crate::history::History;
use crate::pair;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::{Micros, seconds, since};

/// Classes of HTTP statuses, 1xx to 5xx.
pub const CLASSES: usize = 5;

/// The mean times look back over this many answers.
const MEAN_CAP: f32 = 100.0;

/// While a state is being changed.
const CHANGING: u64 = 0xff;

/// One server's figures, in shared memory. Valid when zeroed.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Ledger {
    /// Of the record that it belongs to.
    generation: AtomicU32,
    /// Kind of the last failure plus one; 0 before the first.
    last_failure: AtomicU32,
    responses: [AtomicU64; CLASSES],
    sent: AtomicU64,
    received: AtomicU64,
    /// Means: packed (f32 weight, f32 seconds).
    header_time: AtomicU64,
    response_time: AtomicU64,
    /// When the present state began in µs << 8 | code; 0 before anybody looked.
    state: AtomicU64,
    unavail: AtomicU64,
    ejections: AtomicU64,
    downtime: AtomicU64,
    /// Its checks. Here because they are the same server's, over the same life.
    pub check: Check,
    /// What whoever looks after states and events remembers from one look to the next.
    pub kept: Kept,
    /// How long answers took.
    pub histogram: Histogram,
    /// The last quarter of an hour.
    pub history: History,
}

/// What an attempt brought, for the books.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// HTTP status of the answer; 0 when there was none.
    pub status: u16,
    /// Bytes sent to the server.
    pub sent: u64,
    /// Bytes received from it.
    pub received: u64,
    /// Time to the header, µs, if it came.
    pub header: Option<Micros>,
    /// Time to the end of a complete answer, µs.
    pub total: Option<Micros>,
    /// How it failed, if it did.
    pub failure: Option<Failure>,
}

impl Ledger {
    /// Makes the ledger that of a record of `generation`: emptied if it was another's. Attempts of older generations must not
    /// come here.
    pub fn belongs_to(&self, generation: u32) -> &Self {
        let before = self.generation.load(Ordering::Acquire);
        if before != generation
            && self.generation.compare_exchange(before, generation, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            self.clear();
        }
        self
    }

    /// Books an attempt that is over. Times of answers are counted by [`Histogram::count`] when they are measured.
    pub fn book(&self, entry: &Entry) {
        let add = |word: &AtomicU64, bytes: u64| {
            if bytes > 0 {
                word.fetch_add(bytes, Ordering::Relaxed);
            }
        };
        let class = usize::from(entry.status / 100).wrapping_sub(1);
        if let Some(count) = self.responses.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        add(&self.sent, entry.sent);
        add(&self.received, entry.received);
        if let Some(time) = entry.header {
            pair::add_mean(&self.header_time, seconds(time) as f32, MEAN_CAP);
        }
        if let Some(time) = entry.total {
            pair::add_mean(&self.response_time, seconds(time) as f32, MEAN_CAP);
        }
        if let Some(kind) = entry.failure {
            self.last_failure.store(kind as u32 + 1, Ordering::Relaxed);
        }
    }

    /// Notes how the server stands at `now`; what was before when that is another state. One caller at a time.
    pub fn observe(&self, state: State, now: Micros) -> Option<Option<Standing>> {
        let word = self.state.load(Ordering::Acquire);
        let before = standing(word);
        if before.is_some_and(|before| before.state == state) {
            return None;
        }
        self.state.store(word & !0xff | CHANGING, Ordering::Release);
        if let Some(before) = before.filter(|before| before.state == State::Unavail) {
            self.downtime.fetch_add(since(before.at, now), Ordering::Release);
        }
        if state == State::Unavail {
            self.unavail.fetch_add(1, Ordering::Relaxed);
        }
        if state.is_out() && !before.is_some_and(|before| before.state.is_out()) {
            self.ejections.fetch_add(1, Ordering::Relaxed);
        }
        self.state.store(now << 8 | state as u64, Ordering::Release);
        Some(before)
    }

    /// The state last noted, and since when.
    pub fn standing(&self) -> Option<Standing> {
        standing(self.state.load(Ordering::Acquire))
    }

    /// Time for which `max_fails` had taken it out until `now`, µs, the present time included.
    pub fn downtime(&self, now: Micros) -> Micros {
        // A state in change is done within nanoseconds, unless its keeper died: then this is as near as one gets.
        for _ in 0..100 {
            let word = self.state.load(Ordering::Acquire);
            let past = self.downtime.load(Ordering::Acquire);
            if word & 0xff != CHANGING && self.state.load(Ordering::Acquire) == word {
                let present = standing(word).filter(|standing| standing.state == State::Unavail);
                return past + present.map_or(0, |standing| since(standing.at, now));
            }
            core::hint::spin_loop();
        }
        self.downtime.load(Ordering::Acquire)
    }

    /// How often `max_fails` took it out.
    pub fn unavail(&self) -> u64 {
        self.unavail.load(Ordering::Relaxed)
    }

    /// How often it was lowered or taken out.
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// Answers by class of their status, 1xx to 5xx.
    pub fn responses(&self) -> [u64; CLASSES] {
        self.responses.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Bytes sent and received.
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// Mean time to the header, seconds.
    pub fn header_time(&self) -> Option<f32> {
        mean(&self.header_time)
    }

    /// Mean time to the end of a complete answer, seconds.
    pub fn response_time(&self) -> Option<f32> {
        mean(&self.response_time)
    }

    /// Kind of the last failure.
    pub fn last_failure(&self) -> Option<Failure> {
        let code = self.last_failure.load(Ordering::Relaxed).checked_sub(1)?;
        Failure::ALL.into_iter().find(|kind| *kind as u32 == code)
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let Self { responses, sent, received, header_time, response_time, state, unavail, ejections, downtime, .. } =
            self;
        let times = [header_time, response_time, state, unavail, ejections, downtime];
        responses.iter().chain([sent, received]).chain(times)
    }

    fn clear(&self) {
        self.words().for_each(|word| word.store(0, Ordering::Release));
        self.last_failure.store(0, Ordering::Release);
        // Whether it is another server, its keeper finds out: one whose statistics are reset has not come anew.
        self.kept.forget_speed();
        self.check.clear();
        self.histogram.clear();
        self.history.clear();
    }

    /// Takes over the figures of `old`, which is only read, as those of a record of `generation`.
    pub fn carry_from(&self, old: &Self, generation: u32) {
        for (to, from) in self.words().zip(old.words()) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        self.last_failure.store(old.last_failure.load(Ordering::Acquire), Ordering::Release);
        self.kept.carry_from(&old.kept);
        self.check.carry_from(&old.check);
        self.histogram.carry_from(&old.histogram);
        self.history.carry_from(&old.history);
        self.generation.store(generation, Ordering::Release);
    }

    /// Whether it is that of a record of `generation`.
    pub fn is_of(&self, generation: u32) -> bool {
        self.generation.load(Ordering::Acquire) == generation
    }
}

fn mean(word: &AtomicU64) -> Option<f32> {
    let (weight, mean) = pair::read(word);
    (weight > 0.0).then_some(mean)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn a_ledger_is_small() {
        assert!(size_of::<Ledger>() <= 3200, "{}", size_of::<Ledger>());
    }

    #[test]
    fn attempts_are_booked_by_class_with_bytes_and_times() {
        let ledger = Ledger::default();
        let entry = Entry { sent: 10, received: 100, ..Entry::default() };
        for status in [0, 101, 200, 204, 304, 404, 500, 599, 600, 99] {
            ledger.book(&Entry { status, ..entry });
        }
        assert_eq!(ledger.responses(), [1, 2, 1, 1, 2]);
        assert_eq!(ledger.bytes(), (100, 1000));
        assert_eq!((ledger.header_time(), ledger.response_time(), ledger.last_failure()), (None, None, None));
        ledger.book(&Entry { header: Some(1000), total: Some(5000), failure: Some(Failure::Status), ..entry });
        assert_eq!((ledger.header_time(), ledger.response_time()), (Some(0.001), Some(0.005)));
        assert_eq!(ledger.last_failure(), Some(Failure::Status));
    }

    #[test]
    fn downtime_is_the_time_of_being_out_the_present_included() {
        let ledger = Ledger::default();
        assert_eq!(ledger.observe(State::Up, SECOND), Some(None));
        assert_eq!(ledger.observe(State::Up, 2 * SECOND), None);
        let up = Standing { state: State::Up, at: SECOND };
        assert_eq!(ledger.observe(State::Unavail, 3 * SECOND), Some(Some(up)));
        assert_eq!(ledger.downtime(5 * SECOND), 2 * SECOND);
        ledger.observe(State::Lowered, 6 * SECOND);
        assert_eq!(ledger.downtime(60 * SECOND), 3 * SECOND);
        ledger.observe(State::Unavail, 60 * SECOND);
        assert_eq!(ledger.downtime(61 * SECOND), 4 * SECOND);
        assert_eq!((ledger.unavail(), ledger.ejections()), (2, 1), "from lowered to out is one ejection");
        assert_eq!(ledger.standing(), Some(Standing { state: State::Unavail, at: 60 * SECOND }));
    }

    #[test]
    fn a_change_that_its_keeper_did_not_finish_is_made_anew() {
        let ledger = Ledger::default();
        ledger.observe(State::Up, SECOND);
        ledger.state.store(CHANGING, Ordering::Release);
        assert_eq!((ledger.standing(), ledger.downtime(SECOND)), (None, 0));
        assert_eq!(ledger.observe(State::Up, 2 * SECOND), Some(None));
    }

    #[test]
    fn a_record_of_another_generation_starts_afresh() {
        let ledger = Ledger::default();
        ledger.belongs_to(7).book(&Entry { status: 200, ..Entry::default() });
        ledger.belongs_to(7).histogram.count(1000);
        assert_eq!(ledger.belongs_to(7).responses(), [0, 1, 0, 0, 0]);
        assert_eq!(ledger.belongs_to(8).responses(), [0; CLASSES]);
        assert_eq!(ledger.histogram.quantiles([0.5]), None);
    }

    #[test]
    fn a_keeper_knows_a_server_again_whose_statistics_were_reset_and_forgets_another_s() {
        let ledger = Ledger::default();
        let kept = &ledger.belongs_to(7).kept;
        kept.belongs_to(b"127.0.0.1:80");
        kept.set_told(State::Up, 5);
        kept.set_speed(1000, 9);
        ledger.belongs_to(8);
        kept.belongs_to(b"127.0.0.1:80");
        assert_eq!((kept.told(), kept.told_us.load(Ordering::Acquire)), ((Some(State::Up), 5), 0));
        kept.belongs_to(b"127.0.0.1:8080");
        assert_eq!((kept.told(), kept.address()), ((None, 0), b"127.0.0.1:8080".to_vec()));
    }

    #[test]
    fn figures_are_carried_to_a_record_of_another_generation() {
        let (old, new) = (Ledger::default(), Ledger::default());
        old.belongs_to(1).book(&Entry { status: 200, sent: 3, ..Entry::default() });
        old.kept.belongs_to(b"127.0.0.1:80");
        old.kept.list.store(5, Ordering::Release);
        new.carry_from(&old, 9);
        assert!(new.is_of(9));
        assert_eq!((new.responses(), new.bytes()), (old.responses(), old.bytes()));
        assert_eq!(new.kept.address(), b"127.0.0.1:80");
        assert_eq!(new.kept.list.load(Ordering::Acquire), 0);
    }
}
