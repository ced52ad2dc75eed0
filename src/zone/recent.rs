//! How many requests each server was sent lately: the counters as they stood 10 to 20 seconds ago, or when this worker began.
//!
//! Here because a share of picks since start says nothing after an hour. Private to the worker; the counters themselves are
//! shared, so every worker shows the same. Not here: how shares are shown.

use core::cell::{Cell, RefCell};

use labor_core::Peer;
use labor_core::sync::Ordering;
use labor_core::time::{Micros, SECOND, since};

/// How often the counters are noted.
const EVERY: Micros = 10 * SECOND;

/// Two notes of all counters.
#[derive(Default)]
pub struct Recent {
    older: RefCell<Vec<u64>>,
    newer: RefCell<Vec<u64>>,
    /// When the newer note was taken, µs.
    at: Cell<Micros>,
    /// When the older one was.
    since: Cell<Micros>,
}

impl Recent {
    /// Notes the counters if that is due.
    pub fn note(&self, peers: &[Peer], now: Micros) {
        if self.at.get() != 0 && since(self.at.get(), now) < EVERY {
            return;
        }
        let note: Vec<u64> = peers.iter().map(|p| p.requests.load(Ordering::Relaxed)).collect();
        let first = self.at.get() == 0;
        let older = if first { note.clone() } else { self.newer.take() };
        self.since.set(if first { now } else { self.at.get() });
        self.at.set(now);
        self.older.replace(older);
        self.newer.replace(note);
    }

    /// Requests to the server of `slot` since the older note; since its start where there is none or it is another server.
    pub fn of(&self, slot: u32, peer: &Peer) -> u64 {
        let now = peer.requests.load(Ordering::Relaxed);
        let then = self.older.try_borrow().ok().and_then(|older| older.get(slot as usize).copied()).unwrap_or(0);
        now.checked_sub(then).unwrap_or(now)
    }

    /// The time since the older note, µs.
    pub fn period(&self, now: Micros) -> Micros {
        since(self.since.get(), now)
    }

    /// Forgets everything: the memory has changed.
    pub fn clear(&self) {
        self.older.take();
        self.newer.take();
        self.at.set(0);
    }
}
