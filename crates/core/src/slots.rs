//! Records in shared memory, found by key: claiming, freeing and giving up those of servers that are gone.
//!
//! Here because it is pure atomics and must be tested without nginx. No lock anywhere: a process killed at any instruction
//! leaves at worst a record that counts as [`EMPTYING`], and whoever comes by later finishes the work.
//! Not here: where the memory comes from and who asks (the caller's business).

use crate::group::Group;
use crate::peer::Peer;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::{Micros, SECOND, since};

/// The key of a record that is being emptied; no server has it.
pub const EMPTYING: u64 = u64::MAX;

/// How long a record may be [`EMPTYING`] before its process counts as dead. Emptying takes less than a microsecond; a
/// minute leaves room for a process that was stopped in the middle.
const ABANDONED: Micros = 60 * SECOND;

/// A record that can be claimed by key. Key 0 is free.
pub trait Record {
    /// Its identity.
    fn key(&self) -> &AtomicU64;
    /// When a worker last confirmed that what it stands for exists, µs.
    fn confirmed(&self) -> &AtomicU64;
    /// Whether nothing is in flight by the record's own totals.
    fn idle(&self) -> bool;
    /// Forgets everything but the key.
    fn clear(&self);
}

impl Record for Peer {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
    fn confirmed(&self) -> &AtomicU64 {
        &self.confirmed
    }
    fn idle(&self) -> bool {
        self.queue() == 0 && self.connections() == 0
    }
    fn clear(&self) {
        self.reset();
    }
}

impl Record for Group {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
    fn confirmed(&self) -> &AtomicU64 {
        &self.confirmed
    }
    fn idle(&self) -> bool {
        true
    }
    fn clear(&self) {
        self.carry_from(&Group::default());
    }
}

/// A key as the records hold it: neither free nor [`EMPTYING`].
pub const fn usable_key(key: u64) -> u64 {
    match key {
        0 => 1,
        EMPTYING => EMPTYING - 1,
        other => other,
    }
}

/// The places to look for `key`, in order.
fn probes<R>(records: &[R], key: u64) -> impl Iterator<Item = (usize, &R)> {
    let start = if records.is_empty() { 0 } else { (key % records.len() as u64) as usize };
    records.iter().enumerate().skip(start).chain(records.iter().enumerate().take(start))
}

/// The record of `key`. `reach` is the longest way any record ever was from its first place.
pub fn find<R: Record>(records: &[R], reach: &AtomicU32, key: u64) -> Option<u32> {
    let most = reach.load(Ordering::Acquire) as usize;
    probes(records, key)
        .take(most.saturating_add(1))
        .find(|(_, r)| r.key().load(Ordering::Acquire) == key)
        .map(|(i, _)| i as u32)
}

/// Finds the record of `key` or claims a free one by a single compare-and-swap; `None` when all are taken.
///
/// A free record is clean: [`free`] empties before it lets go. The record counts as confirmed at `now`.
pub fn claim<R: Record>(records: &[R], reach: &AtomicU32, key: u64, now: Micros) -> Option<u32> {
    let key = usable_key(key);
    if let Some(found) = find(records, reach, key) {
        confirm(records.get(found as usize)?, now);
        return Some(found);
    }
    for (distance, (i, record)) in probes(records, key).enumerate() {
        match record.key().load(Ordering::Acquire) {
            0 => {}
            other if other == key => return Some(i as u32),
            _ => continue,
        }
        // Both before the key can be seen, so that nobody misses the record or takes it for an old one.
        reach.fetch_max(distance as u32, Ordering::AcqRel);
        record.confirmed().store(now, Ordering::Release);
        match record.key().compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
            // Beside a concurrent release two workers may claim two records: both settle on the first, the other expires.
            Ok(_) => return find(records, reach, key).or(Some(i as u32)),
            Err(other) if other == key => return Some(i as u32),
            Err(_) => {}
        }
    }
    None
}

/// Says that the record is in use. Writes only when that has not been said for 10 s: the line is shared by all workers.
pub fn confirm<R: Record>(record: &R, now: Micros) {
    if since(record.confirmed().load(Ordering::Acquire), now) > 10 * SECOND {
        record.confirmed().store(now, Ordering::Release);
    }
}

/// Empties and frees `record` if nothing is in flight there (`idle` adds what the caller knows to the record's own totals).
pub fn free<R: Record>(record: &R, now: Micros, idle: impl Fn() -> bool) -> bool {
    let key = record.key().load(Ordering::Acquire);
    if key == 0 || key == EMPTYING || !record.idle() || !idle() {
        return false;
    }
    record.confirmed().store(now, Ordering::Release);
    if record.key().compare_exchange(key, EMPTYING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return false;
    }
    // A pick between the look and the swap: the record stays.
    let to = if record.idle() && idle() {
        record.clear();
        0
    } else {
        key
    };
    record.key().compare_exchange(EMPTYING, to, Ordering::AcqRel, Ordering::Acquire).is_ok() && to == 0
}

/// Frees every idle record not confirmed for longer than `age`, and finishes what dead processes began. Returns how many.
pub fn expire<R: Record>(records: &[R], age: Micros, now: Micros, idle: impl Fn(usize) -> bool) -> usize {
    let mut freed = 0;
    for (i, record) in records.iter().enumerate() {
        let key = record.key().load(Ordering::Acquire);
        let seen = record.confirmed().load(Ordering::Acquire);
        if key == EMPTYING && since(seen, now) > ABANDONED {
            // Whoever moves the time does the work.
            if record.confirmed().compare_exchange(seen, now, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                record.clear();
                let done = record.key().compare_exchange(EMPTYING, 0, Ordering::AcqRel, Ordering::Acquire);
                freed += usize::from(done.is_ok());
            }
        } else if key != 0 && since(seen, now) > age && free(record, now, || idle(i)) {
            freed += 1;
        }
    }
    freed
}

/// Frees the idle record that has been unconfirmed for longest, if that is longer than `age`.
pub fn evict<R: Record>(records: &[R], age: Micros, now: Micros, idle: impl Fn(usize) -> bool) -> Option<u32> {
    let old = |r: &R| since(r.confirmed().load(Ordering::Acquire), now) > age;
    let taken = |r: &R| !matches!(r.key().load(Ordering::Acquire), 0 | EMPTYING);
    let (i, record) = records
        .iter()
        .enumerate()
        .filter(|(i, r)| taken(r) && old(r) && r.idle() && idle(*i))
        .min_by_key(|(_, r)| r.confirmed().load(Ordering::Acquire))?;
    free(record, now, || idle(i)).then_some(i as u32)
}

/// Copies what every record of `old` has learned into `new`, by key; `copy(to, from)` does one. Returns (copied, left out).
///
/// `old` may be in use by running workers: it is only read.
pub fn carry<R: Record>(old: &[R], new: &[R], reach: &AtomicU32, now: Micros, copy: impl Fn(&R, &R)) -> (usize, usize) {
    let (mut copied, mut left) = (0, 0);
    for record in old {
        let key = record.key().load(Ordering::Acquire);
        if key == 0 || key == EMPTYING {
            continue;
        }
        match claim(new, reach, key, now).and_then(|i| new.get(i as usize)) {
            Some(to) => {
                copy(to, record);
                // Servers that are gone stay as old as they were, so that they expire when they should.
                to.confirmed().store(record.confirmed().load(Ordering::Acquire), Ordering::Release);
                copied += 1;
            }
            None => left += 1,
        }
    }
    (copied, left)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NOW: Micros = 1_000 * SECOND;

    fn peers(n: usize) -> (Vec<Peer>, AtomicU32) {
        ((0..n).map(|_| Peer::default()).collect(), AtomicU32::new(0))
    }

    #[test]
    fn every_key_gets_its_own_record_until_all_are_taken() {
        let (records, reach) = peers(16);
        let mut slots: Vec<u32> = (1..=16u64).map(|k| claim(&records, &reach, k * 1_000_003, NOW).unwrap()).collect();
        for (k, slot) in (1..=16u64).zip(&slots) {
            assert_eq!(claim(&records, &reach, k * 1_000_003, NOW), Some(*slot), "the same key finds the same record");
        }
        slots.sort_unstable();
        assert_eq!(slots, (0..16).collect::<Vec<u32>>());
        assert_eq!(claim(&records, &reach, 77, NOW), None);
    }

    #[test]
    fn a_record_far_from_its_place_is_found_after_a_nearer_one_became_free() {
        let (records, reach) = peers(8);
        let (a, b) = (8, 16); // both belong at place 0
        let first = claim(&records, &reach, a, NOW).unwrap();
        let second = claim(&records, &reach, b, NOW).unwrap();
        assert!(free(&records[first as usize], NOW, || true));
        assert_eq!(claim(&records, &reach, b, NOW), Some(second));
    }

    #[test]
    fn reserved_keys_are_usable_all_the_same() {
        let (records, reach) = peers(4);
        let zero = claim(&records, &reach, 0, NOW).unwrap();
        let top = claim(&records, &reach, EMPTYING, NOW).unwrap();
        assert_ne!(zero, top);
    }

    #[test]
    fn no_records_at_all_is_full() {
        assert_eq!(claim::<Peer>(&[], &AtomicU32::new(0), 5, NOW), None);
    }

    #[test]
    fn only_the_unconfirmed_and_idle_expire() {
        let (records, reach) = peers(8);
        let [kept, busy, held, gone] = [1, 2, 3, 4].map(|k| claim(&records, &reach, k, NOW).unwrap());
        let later = NOW + 700 * SECOND;
        confirm(&records[kept as usize], later);
        records[busy as usize].conns.store(1, Ordering::Relaxed);
        let generation = records[gone as usize].generation.load(Ordering::Relaxed);
        assert_eq!(expire(&records, 600 * SECOND, later, |i| i != held as usize), 1);
        assert_eq!(find(&records, &reach, 4), None);
        assert_ne!(records[gone as usize].generation.load(Ordering::Relaxed), generation, "old attempts book nothing");
        assert!([1, 2, 3].iter().all(|&k| find(&records, &reach, k).is_some()));
    }

    #[test]
    fn a_record_whose_emptier_died_is_freed_after_a_minute() {
        let (records, reach) = peers(2);
        let slot = claim(&records, &reach, 9, NOW).unwrap() as usize;
        records[slot].key.store(EMPTYING, Ordering::Relaxed);
        assert_eq!(expire(&records, 600 * SECOND, NOW + 59 * SECOND, |_| true), 0);
        assert_eq!(expire(&records, 600 * SECOND, NOW + 61 * SECOND, |_| true), 1);
        assert_eq!(records[slot].key.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn eviction_takes_the_longest_unconfirmed_and_nothing_recent() {
        let (records, reach) = peers(2);
        let old = claim(&records, &reach, 1, NOW).unwrap();
        claim(&records, &reach, 2, NOW + 30 * SECOND).unwrap();
        assert_eq!(evict(&records, 60 * SECOND, NOW + 50 * SECOND, |_| true), None);
        assert_eq!(evict(&records, 60 * SECOND, NOW + 200 * SECOND, |_| true), Some(old));
    }

    #[test]
    fn carrying_copies_what_was_learned_and_nothing_in_flight() {
        let (old, old_reach) = peers(8);
        let (new, reach) = peers(4);
        for key in 1..=5 {
            let peer = &old[claim(&old, &old_reach, key, NOW).unwrap() as usize];
            peer.requests.store(key, Ordering::Relaxed);
            peer.q.store(3, Ordering::Relaxed);
        }
        assert_eq!(carry(&old, &new, &reach, NOW + SECOND, Peer::carry_from), (4, 1));
        for peer in &new {
            assert_eq!(peer.requests.load(Ordering::Relaxed), peer.key.load(Ordering::Relaxed));
            assert_eq!((peer.queue(), peer.connections()), (0, 0));
            assert_eq!(peer.confirmed.load(Ordering::Relaxed), NOW);
        }
        assert!(old.iter().filter(|p| p.queue() == 3).count() == 5, "the old records are untouched");
    }

    #[test]
    fn many_threads_agree_on_the_record_of_a_key() {
        let (records, reach) = peers(64);
        let rounds: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (1..=50u64).map(|k| claim(&records, &reach, k * 64, NOW).unwrap()).collect()))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(rounds.iter().all(|r| *r == rounds[0]), "{rounds:?}");
    }
}
