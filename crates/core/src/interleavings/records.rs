//! Records of servers and lists: claimed, freed, told of.
//!
//! As in the parent: each test names the mutant that it kills, tried by hand.

use super::explore_all;
use crate::events::{self, Event, Events, Note};
use crate::explore::Savings;
use crate::peer::Peer;
use crate::slots;
use crate::sync::Ordering;
use crate::time::SECOND;
use loom::sync::Arc;
use loom::thread;

/// A record whose emptier died is given back by one of those who notice.
/// Mutant: without moving the time first both empty it, and the second empties the next owner's.
#[test]
fn an_abandoned_record_is_freed_once() {
    explore_all(2, || {
        let records = Arc::new([Peer::default()]);
        records[0].key.store(slots::EMPTYING, Ordering::Release);
        records[0].confirmed.store(SECOND, Ordering::Release);
        let expire = |records: &[Peer]| slots::expire(records, 600 * SECOND, 100 * SECOND, |_| true);
        let worker = {
            let records = Arc::clone(&records);
            thread::spawn(move || expire(&records[..]))
        };
        let mine = expire(&records[..]);
        assert_eq!(mine + worker.join().unwrap(), 1);
        assert_eq!(records[0].generation.load(Ordering::Acquire), 1);
    });
}

/// Who reads the ring while its oldest event is overwritten sees the old one, the new one or neither, and never half of each.
/// Mutant: without taking the ticket away first the reader sees the old event with the new figures.
#[test]
fn events_are_read_whole() {
    let one = |n: u32| Note { event: Event::Weight, source: None, server: b"a", before: n, after: n };
    explore_all(2, move || {
        let ring = Arc::new(Events::default());
        for n in 1..=events::EVENTS as u32 {
            events::note(&ring, n.into(), &one(n));
        }
        let worker = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || events::note(&ring, 21, &one(21)))
        };
        for seen in ring.recent() {
            assert!(seen.before == seen.after && seen.at == u64::from(seen.after), "{seen:?}");
        }
        worker.join().unwrap();
        assert_eq!(ring.recent().first().map(|seen| seen.after), Some(21));
    });
}

/// Two workers that pay at once both pay.
/// Mutant: a load and a store in place of the exchange in `update` loses one.
#[test]
fn both_payments_count() {
    explore_all(3, || {
        let savings = Arc::new(Savings::default());
        let worker = {
            let savings = Arc::clone(&savings);
            thread::spawn(move || savings.pay(1.0))
        };
        savings.pay(2.0);
        worker.join().unwrap();
        assert_eq!(f64::from_bits(savings.visits.load(Ordering::Acquire)), -3.0);
    });
}
