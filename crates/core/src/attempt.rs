//! One attempt at one server, from the pick to the end: a single owned value, so that it cannot be finished twice.

use crate::balancer::{Choice, Reason};
use crate::inflight::{self, Shared};
use crate::params::Params;
use crate::sync::Ordering;
use crate::time::{Micros, since};

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

/// An attempt under way.
#[derive(Debug)]
pub struct Attempt {
    slot: Option<u32>,
    generation: u32,
    started: Micros,
    header_at: Option<Micros>,
    queue: u32,
    queued: bool,
    reason: Reason,
    predicted: f32,
    price: f32,
}

/// What a finished attempt measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Receipt {
    /// Pick to the end, µs.
    pub total: Micros,
    /// Pick to the response header, µs, if one came.
    pub header: Option<Micros>,
    /// For exploring attempts: what was charged, seconds.
    pub price: Option<f32>,
    /// For exploring attempts: what it turned out to be, seconds; `None` when nothing was measured.
    pub measured: Option<f32>,
}

impl Attempt {
    /// Begins the attempt that `choice` asks for at `now`: counts it in flight and remembers what was promised.
    pub fn begin(shared: Shared<'_>, choice: &Choice, now: Micros) -> Self {
        let mut generation = 0;
        let mut queued = false;
        if let Some((peer, cell)) =
            choice.slot.and_then(|s| Some((shared.peers.get(s as usize)?, shared.cells.get(s as usize)?)))
        {
            inflight::take(cell, peer);
            generation = peer.generation.load(Ordering::Acquire);
            queued = true;
            peer.last_pick.store(now, Ordering::Release);
            peer.requests.fetch_add(1, Ordering::Relaxed);
            if let Some(count) = peer.picks.get(choice.reason as usize) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            shared.group.picks.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            slot: choice.slot.filter(|_| queued),
            generation,
            started: now,
            header_at: None,
            queue: choice.queue,
            queued,
            reason: choice.reason,
            predicted: choice.latency,
            price: choice.price,
        }
    }

    /// The record's slot, if the attempt is counted at all.
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }

    /// Why the server was picked.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The response header came at `now` with `status`; `upgraded` when the connection becomes a tunnel.
    ///
    /// In header mode, and for tunnels in either mode, this is where the sample is taken and the queue is left.
    pub fn header(&mut self, shared: Shared<'_>, params: &Params, status: u16, upgraded: bool, now: Micros) {
        let _ = (shared, params, status, upgraded);
        if self.header_at.is_none() {
            self.header_at = Some(now);
        }
    }

    /// Ends the attempt at `now` and books it.
    pub fn finish(self, shared: Shared<'_>, params: &Params, outcome: Outcome, now: Micros) -> Receipt {
        let _ = (params, outcome, self.generation, self.queue, self.predicted, self.price);
        if let Some((peer, cell)) =
            self.slot.and_then(|s| Some((shared.peers.get(s as usize)?, shared.cells.get(s as usize)?)))
        {
            if self.queued {
                inflight::release_q(cell, peer);
            }
            inflight::release_conns(cell, peer);
        }
        Receipt {
            total: since(self.started, now),
            header: self.header_at.map(|at| since(self.started, at)),
            price: None,
            measured: None,
        }
    }
}
