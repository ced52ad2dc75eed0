//! The last events of a list of servers: a small ring in shared memory that any worker may write to.
//!
//! An event is a code, two numbers, who asked for it, and the server's address cut to a fixed length: no free text, so that
//! nothing unbounded gets into shared memory and the words are made where they are shown. Without locks: a writer killed in the
//! middle leaves one entry that readers skip. Not here: who notices events, and escaping.

mod kind;

pub use kind::{Event, NO_KIND};

use crate::control::Source;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Micros;

/// Events kept per list: what one look at a page can take in.
pub const EVENTS: usize = 20;

/// Bytes kept of an address: the longest of IPv6 with its port ("[", 39, "]:65535") fits; longer paths of sockets are cut.
pub const ADDRESS: usize = 48;

/// One event to be noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// What happened.
    pub event: Event,
    /// Who asked for it; `None` for what was only seen.
    pub source: Option<Source>,
    /// The server's address, cut to [`ADDRESS`] bytes; empty when it is about the whole list.
    pub server: &'a [u8],
    /// What [`Event`] says of its two numbers.
    pub before: u32,
    /// The second.
    pub after: u32,
}

/// One event in memory: 72 bytes.
#[repr(C)]
#[derive(Debug, Default)]
struct Entry {
    /// Number of the event plus one; 0 while it is being written.
    ticket: AtomicU64,
    /// When in µs << 16 | source << 8 | event: 48 bits of µs are nine years of uptime.
    what: AtomicU64,
    /// before << 32 | after.
    values: AtomicU64,
    /// The address, filled up with zeros.
    server: [AtomicU64; ADDRESS / 8],
}

/// A keeper's memory of a list.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Kept {
    /// When it last looked, µs.
    pub seen: AtomicU64,
    /// Configurations so far, at that time.
    pub configurations: AtomicU64,
}

/// The ring of one list of servers, in shared memory. Valid when zeroed.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Events {
    /// Key of the list it belongs to: a ring of another key is to be emptied first.
    key: AtomicU64,
    /// Events so far.
    count: AtomicU64,
    /// What whoever looks after the list remembers from one look to the next.
    pub kept: Kept,
    entries: [Entry; EVENTS],
}

/// One event as it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, µs.
    pub at: Micros,
    /// What happened.
    pub event: Event,
    /// Who asked for it; `None` for what was only seen.
    pub source: Option<Source>,
    /// What [`Event`] says of its two numbers.
    pub before: u32,
    /// The second.
    pub after: u32,
    /// The server's address, perhaps cut, any bytes; empty when it is about the whole list.
    pub server: Vec<u8>,
}

/// Notes an event at `now` µs: the oldest one goes.
pub fn note(events: &Events, now: Micros, note: &Note<'_>) {
    let ticket = events.count.fetch_add(1, Ordering::AcqRel);
    let Some(entry) = events.entries.get((ticket % EVENTS as u64) as usize) else { return };
    entry.ticket.store(0, Ordering::Release);
    let what = now << 16 | u64::from(kind::code(note.source)) << 8 | u64::from(note.event as u8);
    entry.what.store(what, Ordering::Release);
    entry.values.store(u64::from(note.before) << 32 | u64::from(note.after), Ordering::Release);
    let mut bytes = [0; ADDRESS];
    for (place, byte) in bytes.iter_mut().zip(note.server) {
        *place = *byte;
    }
    for (word, bytes) in entry.server.iter().zip(bytes.chunks_exact(8)) {
        word.store(bytes.try_into().map_or(0, u64::from_le_bytes), Ordering::Release);
    }
    entry.ticket.store(ticket.wrapping_add(1), Ordering::Release);
}

impl Events {
    /// Makes the ring that of `key`: emptied if it was another's.
    pub fn belongs_to(&self, key: u64) -> &Self {
        let before = self.key.load(Ordering::Acquire);
        if before != key && self.key.compare_exchange(before, key, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.entries.iter().for_each(|entry| entry.ticket.store(0, Ordering::Release));
            self.kept.seen.store(0, Ordering::Release);
            self.kept.configurations.store(0, Ordering::Release);
        }
        self
    }

    /// Takes over the events of `old`, which is only read.
    pub fn carry_from(&self, old: &Self) {
        self.key.store(old.key.load(Ordering::Acquire), Ordering::Release);
        self.kept.seen.store(old.kept.seen.load(Ordering::Acquire), Ordering::Release);
        self.kept.configurations.store(old.kept.configurations.load(Ordering::Acquire), Ordering::Release);
        for seen in old.recent().iter().rev() {
            let Seen { at, event, source, before, after, server } = seen;
            let (event, source, before, after) = (*event, *source, *before, *after);
            note(self, *at, &Note { event, source, server, before, after });
        }
    }

    /// The events that are whole, newest first.
    pub fn recent(&self) -> Vec<Seen> {
        let mut seen: Vec<(u64, Seen)> = self.entries.iter().filter_map(Entry::read).collect();
        seen.sort_by_key(|(ticket, _)| core::cmp::Reverse(*ticket));
        seen.into_iter().map(|(_, seen)| seen).collect()
    }
}

impl Entry {
    /// The event, if nobody wrote it meanwhile and its code is known.
    fn read(&self) -> Option<(u64, Seen)> {
        let ticket = self.ticket.load(Ordering::Acquire);
        let (what, values) = (self.what.load(Ordering::Acquire), self.values.load(Ordering::Acquire));
        let server: Vec<u8> = self
            .server
            .iter()
            .flat_map(|word| word.load(Ordering::Acquire).to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        if ticket == 0 || self.ticket.load(Ordering::Acquire) != ticket {
            return None;
        }
        let event = Event::ALL.into_iter().find(|event| *event as u8 == what as u8)?;
        let source = kind::source((what >> 8) as u8);
        let (before, after) = ((values >> 32) as u32, values as u32);
        Some((ticket, Seen { at: what >> 16, event, source, before, after, server }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn weight(server: &[u8], after: u32) -> Note<'_> {
        Note { event: Event::Weight, source: Some(Source::Api), server, before: 1, after }
    }

    #[test]
    fn the_last_twenty_are_kept_newest_first() {
        let events = Events::default();
        assert_eq!(events.recent(), []);
        for n in 1..=25 {
            note(&events, u64::from(n), &weight(b"127.0.0.1:80", n));
        }
        let recent = events.recent();
        assert_eq!(recent.iter().map(|e| e.after).collect::<Vec<_>>(), (6..=25).rev().collect::<Vec<_>>());
        let newest = &recent[0];
        assert_eq!((newest.at, newest.event, newest.source), (25, Event::Weight, Some(Source::Api)));
        assert_eq!(newest.server, b"127.0.0.1:80");
        assert_eq!(newest.detail(), "weight 25, was 1 (api)");
    }

    #[test]
    fn long_addresses_are_cut_and_any_bytes_are_kept() {
        let events = Events::default();
        let long = [0xff; 300];
        note(&events, 1, &weight(&long, 2));
        assert_eq!(events.recent()[0].server, [0xff; ADDRESS]);
    }

    #[test]
    fn an_entry_whose_writer_died_is_skipped() {
        let events = Events::default();
        note(&events, 1, &weight(b"a", 2));
        note(&events, 2, &weight(b"b", 3));
        events.entries[0].ticket.store(0, Ordering::Release);
        assert_eq!(events.recent().len(), 1);
        events.entries[1].what.store(0xff, Ordering::Release);
        assert_eq!(events.recent(), [], "and so is a code of another version");
    }

    #[test]
    fn a_ring_that_changes_hands_is_emptied() {
        let events = Events::default();
        note(events.belongs_to(7), 1, &weight(b"a", 2));
        assert_eq!(events.belongs_to(7).recent().len(), 1);
        assert_eq!(events.belongs_to(8).recent(), []);
    }

    #[test]
    fn events_are_carried_in_their_order() {
        let (old, new) = (Events::default(), Events::default());
        for n in 1..=30 {
            note(old.belongs_to(5), u64::from(n), &weight(b"a", n));
        }
        new.carry_from(&old);
        assert_eq!(new.recent(), old.recent());
        assert_eq!(new.belongs_to(5).recent().len(), EVENTS);
    }
}
