//! One attempt at one server, from the pick to the end: a single owned value, so that it cannot be finished twice.

use crate::balancer::{Choice, Reason};
use crate::breaker;
use crate::evidence::{self, Sample};
use crate::group::Group;
use crate::inflight::{self, Shared};
use crate::params::{Metric, Params};
use crate::peer::Peer;
use crate::ramp;
use crate::sync::Ordering;
use crate::time::{Micros, seconds, since};
use crate::tuning::{tuned, value};

/// Kinds of failure, for counters and for the last reason of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Failure {
    /// Could not connect.
    Connect,
    /// Connecting, sending or reading took longer than allowed.
    Timeout,
    /// Connection reset or closed before the answer was complete.
    Reset,
    /// What came was no valid answer.
    Header,
    /// A status (HTTP or gRPC) that counts as a failure.
    Status,
}

impl Failure {
    /// How many kinds there are.
    pub const COUNT: usize = 5;
    /// All kinds, in the order of the counters.
    pub const ALL: [Self; Self::COUNT] = [Self::Connect, Self::Timeout, Self::Reset, Self::Header, Self::Status];

    /// The kind's name as status pages and logs show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Header => "header",
            Self::Status => "status",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A complete answer.
    Pass,
    /// A complete answer with another 4xx status: may raise the estimate, never lower it.
    Refused,
    /// A complete answer that its client held back: counts with its header time, as a lower bound.
    Held,
    /// A failure of the server.
    Fail(Failure),
    /// The client went away first.
    Abort,
    /// Nothing that says anything about the server: a reused connection that was already closed, an error of our own.
    Void,
}

tuned! {
/// An answer later than its prediction by so many standard deviations of ln(latency) does not end a silence: a server
/// that answers one by one in the middle of a pause is still hanging. Two and a half already hurt heavy tails.
const LATE: f64 = 3.0;
/// But an answer is not late below this factor (ln; 7): a queue may build up while it waits.
const LEAST_LATE: f64 = 2.0;
}

/// e^[`LEAST_LATE`].
const LEAST_LATE_FACTOR: f64 = 7.389_056_098_930_65;

/// An attempt under way.
#[derive(Debug)]
pub struct Attempt {
    index: usize,
    slot: Option<u32>,
    generation: u32,
    started: Micros,
    header_at: Option<Micros>,
    queue: u32,
    others: u32,
    /// Whether it still stands in the queue.
    queued: bool,
    /// Whether the header has been booked as the answer: header mode and tunnels.
    booked: bool,
    /// The connection became a tunnel: how that ends says nothing about the server.
    tunnel: bool,
    reason: Reason,
    predicted: f32,
    best: f32,
    price: f32,
}

/// What a finished attempt measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Receipt {
    /// Where the server stood in its list at the pick.
    pub index: usize,
    /// Its record, if it has one.
    pub slot: Option<u32>,
    /// Pick to the end, µs.
    pub total: Micros,
    /// Pick to the response header, µs, if one came.
    pub header: Option<Micros>,
    /// For exploring attempts: what was charged, seconds.
    pub price: Option<f32>,
    /// For exploring attempts: what it turned out to be, seconds (negative when it beat the best); `None` when nothing
    /// was measured.
    pub measured: Option<f32>,
    /// It was one failure too many: the server's breaker should open, if enough others are left.
    pub trip: bool,
    /// When it ended, µs.
    pub ended: Micros,
}

impl Receipt {
    /// Of a choice that came to nothing before it began: what was paid for exploring is given back.
    pub fn of(choice: &Choice) -> Self {
        Self::unused(choice.reason, choice.price)
    }

    fn unused(reason: Reason, price: f32) -> Self {
        Self { price: (reason == Reason::Explore).then_some(price), ..Self::default() }
    }
}

impl Attempt {
    /// Begins the attempt that `choice` asks for at `now`: counts it in flight and remembers what was promised.
    pub fn begin(shared: Shared<'_>, choice: &Choice, now: Micros) -> Self {
        let place = shared.place(choice.slot);
        let (mut queue, mut others) = (choice.queue, 0);
        if let Some((peer, cell)) = place {
            // What was there when the place was taken, not when the table was read: workers pick at the same time.
            let before = inflight::take(cell, peer);
            (queue, others) = (before.0.max(0).unsigned_abs(), before.1.max(0).unsigned_abs());
            if queue == 0 {
                peer.busy_since.store(now, Ordering::Relaxed);
            }
            peer.last_pick.store(now, Ordering::Release);
            peer.requests.fetch_add(1, Ordering::Relaxed);
            if choice.reason == Reason::Trial {
                breaker::trial_begins(peer, now);
            }
            if let Some(count) = peer.picks.get(choice.reason as usize) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        shared.group.picks.fetch_add(1, Ordering::Relaxed);
        Self {
            index: choice.index,
            slot: choice.slot.filter(|_| place.is_some()),
            generation: place.map_or(0, |(peer, _)| peer.generation.load(Ordering::Acquire)),
            started: now,
            header_at: None,
            queue,
            others,
            queued: place.is_some(),
            booked: false,
            tunnel: false,
            reason: choice.reason,
            predicted: choice.latency,
            best: choice.best,
            price: choice.price,
        }
    }

    /// The record's slot, if the attempt is counted at all.
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }

    /// The server's slot and record, unless the slot belongs to another server by now.
    pub fn record<'a>(&self, shared: Shared<'a>) -> Option<(u32, &'a Peer)> {
        self.slot.zip(self.own(shared))
    }

    /// Connections at the server, of all workers, when this one was counted: no two attempts begin with the same number.
    pub fn others(&self) -> u32 {
        self.others
    }

    /// Time since the pick, µs.
    pub fn age(&self, now: Micros) -> Micros {
        since(self.started, now)
    }

    /// Why the server was picked.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The response header came at `now` with `status`; `upgraded` when the connection becomes a tunnel.
    ///
    /// In header mode, and for tunnels in either mode, this is where the sample is taken and the queue is left. A second
    /// call changes nothing.
    pub fn header(&mut self, shared: Shared<'_>, params: &Params, status: u16, upgraded: bool, now: Micros) {
        if self.header_at.is_some() {
            return;
        }
        self.header_at = Some(now);
        if let Some(peer) = self.own(shared).filter(|_| self.timely(shared.group, now)) {
            evidence::answered(peer, now);
        }
        if params.metric != Metric::Header && !upgraded {
            return;
        }
        self.leave(shared);
        if params.failure.contains(status) {
            // `finish` books the failure; failing fast must not look fast.
            return;
        }
        self.tunnel = upgraded;
        if let Some(peer) = self.own(shared) {
            let kind = if (400..500).contains(&status) { Sample::Bound } else { Sample::Exact };
            self.sample((peer, shared.group), params, kind, now);
            if upgraded && evidence::succeeded(peer, shared.group, now) {
                ramp::begin(peer, shared.group, params.slow_start, now);
            }
        }
        self.booked = true;
    }

    /// Takes the attempt back as if it had never begun: others took the last free connection at the same moment.
    pub fn withdraw(mut self, shared: Shared<'_>) -> Receipt {
        if let Some(peer) = self.own(shared) {
            peer.requests.fetch_sub(1, Ordering::Relaxed);
            if let Some(count) = peer.picks.get(self.reason as usize) {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.leave(shared);
        if let Some((peer, cell)) = shared.place(self.slot) {
            inflight::release_conns(cell, peer);
        }
        Receipt::unused(self.reason, self.price)
    }

    /// Ends the attempt at `now` and books it.
    pub fn finish(mut self, shared: Shared<'_>, params: &Params, outcome: Outcome, now: Micros) -> Receipt {
        let mut trip = false;
        if let Some(peer) = self.own(shared).filter(|_| !self.tunnel) {
            self.book((peer, shared.group), params, outcome, now);
            trip = breaker::judge((peer, shared.group), params, outcome, (self.started, now));
        }
        self.leave(shared);
        if let Some((peer, cell)) = shared.place(self.slot) {
            inflight::release_conns(cell, peer);
        }
        let until = if self.booked { self.header_at.unwrap_or(now) } else { now };
        let added = seconds(since(self.started, until)) as f32 - self.best;
        let exploring = self.reason == Reason::Explore;
        // Without a best to compare with the price is final.
        let added = if self.best > 0.0 { added } else { self.price };
        Receipt {
            index: self.index,
            slot: self.slot,
            total: since(self.started, now),
            header: self.header_at.map(|at| since(self.started, at)),
            price: exploring.then_some(self.price),
            measured: (exploring && outcome != Outcome::Void).then_some(added),
            trip,
            ended: now,
        }
    }

    /// The server's record, unless the slot belongs to another server by now.
    fn own<'a>(&self, shared: Shared<'a>) -> Option<&'a Peer> {
        shared.peer(self.slot).filter(|peer| peer.generation.load(Ordering::Acquire) == self.generation)
    }

    /// Whether an answer at `now` says that the server is not hanging.
    fn timely(&self, group: &Group, now: Micros) -> bool {
        let elapsed = seconds(since(self.started, now));
        let predicted = f64::from(self.predicted);
        // Most answers are: the exact limit costs a root and an exponential.
        if predicted <= 0.0 || elapsed <= LEAST_LATE_FACTOR * predicted {
            return true;
        }
        let late = (LATE * group.pooled_variance().sqrt()).max(value(LEAST_LATE));
        elapsed <= late.exp() * predicted
    }

    /// Leaves the queue. The place is given back whatever generation the slot is in: totals are sums of cells, and a
    /// cell knows no generations.
    fn leave(&mut self, shared: Shared<'_>) {
        if core::mem::take(&mut self.queued)
            && let Some((peer, cell)) = shared.place(self.slot)
        {
            if self.reason == Reason::Trial {
                breaker::trial_ends(peer, self.started);
            }
            inflight::release_q(cell, peer);
        }
    }

    fn sample(&self, record: (&Peer, &Group), params: &Params, kind: Sample, at: Micros) {
        let latency = since(self.started, at);
        evidence::book(record, params, (self.queue, self.predicted), (latency, kind), at);
    }

    fn book(&self, (peer, group): (&Peer, &Group), params: &Params, outcome: Outcome, now: Micros) {
        let record = (peer, group);
        match outcome {
            Outcome::Pass | Outcome::Refused | Outcome::Held => {
                // A held answer's end is its client's time, not the server's.
                let (at, kind) = match outcome {
                    Outcome::Pass => (Some(now), Sample::Exact),
                    Outcome::Refused => (Some(now), Sample::Bound),
                    _ => (self.header_at, Sample::Bound),
                };
                if let Some(at) = at.filter(|_| !self.booked) {
                    self.sample(record, params, kind, at);
                }
                if outcome != Outcome::Held && self.timely(group, now) {
                    evidence::answered(peer, now);
                }
                if evidence::succeeded(peer, group, now) {
                    ramp::begin(peer, group, params.slow_start, now);
                }
            }
            Outcome::Fail(kind) => {
                if let Some(count) = peer.failures.get(kind as usize) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                if matches!(kind, Failure::Status | Failure::Header) {
                    evidence::answered(peer, now);
                }
                evidence::failed(peer, group, kind == Failure::Timeout, now);
            }
            Outcome::Abort => {
                peer.aborts.fetch_add(1, Ordering::Relaxed);
                if !self.booked {
                    self.sample(record, params, Sample::Bound, now);
                }
            }
            Outcome::Void => {}
        }
    }
}
