//! What is set at run time for the servers of a list, as this worker's picks obey it.
//!
//! Read again whenever the zone's counter says that something changed, so that a pick costs one look at that counter. A
//! server is looked at once more, in the zone, when it is taken. Not here: the words themselves (`labor_core::control`).

use labor_core::control::{Control, Settings, State};
use labor_core::time::{Micros, SECOND, since};
use labor_core::{Attempt, Member, Shared};

use super::list::List;
use crate::ffi::{self, RrPeer};
use crate::state;
use crate::zone::View;

/// Read again after this time in any case: a worker may die between a change and counting it.
const PAUSE: Micros = 10 * SECOND;

/// As configured.
const NOTHING: Control = Control { weight: None, state: None, max_conns: None };

/// What is set for the servers of a list.
#[derive(Default)]
pub struct Rules {
    /// One a server, in the list's order; empty when nothing is set for any.
    controls: Vec<Control>,
    /// The zone's counter when they were read, and when that was.
    seen: Option<(u64, Micros)>,
    /// How many servers more than the configuration says may be tried (fewer when negative).
    tries: i64,
}

impl Rules {
    /// What is set for the server at `index`.
    pub fn of(&self, index: usize) -> &Control {
        self.controls.get(index).unwrap_or(&NOTHING)
    }
}

impl List {
    /// Reads what is set if it may have changed.
    pub fn follow(&mut self, view: View, now: Micros) {
        let fresh = |(seen, at): (u64, Micros)| seen == view.controls() && since(at, now) < PAUSE;
        if self.rules.seen.is_some_and(fresh) || self.entries.is_empty() {
            return;
        }
        let slots: Vec<Option<u32>> = self.balancer.members().iter().map(|member| member.slot).collect();
        self.apply(&slots, view, now);
    }

    /// How many servers more than nginx counts may be tried for a request; fewer when negative.
    pub fn tries(&self) -> i64 {
        self.rules.tries
    }

    /// Gives new records what was set for their servers before.
    pub(super) fn settle(&self, slots: &[Option<u32>], view: View) {
        for (entry, slot) in self.entries.iter().zip(slots) {
            if let Some(slot) = slot {
                state::settle(view, *slot, entry.key, entry.other);
            }
        }
    }

    /// Makes what is set for the servers, whose records are `slots`, what picks go by.
    pub(super) fn apply(&mut self, slots: &[Option<u32>], view: View, now: Micros) {
        // The counter first: a change in between is read again.
        self.rules.seen = Some((view.controls(), now));
        self.rules.controls.clear();
        self.rules.controls.extend(slots.iter().map(|slot| view.control(*slot)));
        self.rules.tries = 0;
        let mut members = Vec::with_capacity(slots.len());
        let mut closed = Vec::with_capacity(slots.len());
        for ((entry, control), slot) in self.entries.iter().zip(&self.rules.controls).zip(slots) {
            let settings = control.over(entry.configured);
            let counts = |settings: Settings| i64::from(settings.state == State::Up);
            self.rules.tries = self.rules.tries.saturating_add(counts(settings) - counts(entry.configured));
            members.push(Member { slot: *slot, weight: settings.weight });
            closed.push(settings.state != State::Up);
        }
        if self.rules.controls.iter().all(Control::is_empty) {
            self.rules.controls.clear();
        }
        self.balancer.set_members(&members);
        self.balancer.set_closed(&closed);
        self.rekey(&members, view);
    }
}

/// Whether a server gets no new requests; for its own `session`, not even those.
pub fn closed(peer: RrPeer, control: &Control, session: bool) -> bool {
    match control.over(peer.configured()).state {
        State::Up => false,
        State::Drain => !session,
        State::Down => true,
    }
}

/// Whether a server has all the connections it may have; `slot` is its record.
pub fn full(peer: RrPeer, control: &Control, shared: Shared<'_>, slot: Option<u32>) -> bool {
    ffi::full(control, peer.max_conns() as u64, peer.conns(), || connections(shared, slot))
}

/// Whether an attempt that has just begun is one more than what is set allows: others took the last connection at the same
/// moment, where no lock of nginx keeps workers apart.
pub fn overfull(control: &Control, attempt: &Attempt) -> bool {
    control.max_conns.is_some_and(|most| most.value != 0 && attempt.others() >= most.value)
}

fn connections(shared: Shared<'_>, slot: Option<u32>) -> Option<u32> {
    slot.and_then(|slot| shared.peers.get(slot as usize)).map(|peer| peer.connections())
}
