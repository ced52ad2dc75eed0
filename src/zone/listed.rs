//! What this worker has in its lists: the records it confirms every second, and those it could not get.
//!
//! Here because records belong to no configuration: a record lives as long as some worker says so. Private to the worker
//! process, whose event loop is one thread. Not here: the records' own rules (`labor_core::slots`).

use core::cell::{Cell, RefCell};

use labor_core::slots::{self, Record};
use labor_core::sync::Ordering;
use labor_core::time::Micros;

/// Records of one kind in use by this worker, by slot.
#[derive(Default)]
pub struct Listed {
    /// The key each record had when this worker listed it; 0 where it lists none.
    keys: RefCell<Vec<u64>>,
    refused: Cell<u32>,
}

impl Listed {
    /// A list has the server of `key`, whose record is `slot`. Keys differ between lists, so one list has it or none.
    pub fn add(&self, slot: u32, key: u64) {
        let Ok(mut keys) = self.keys.try_borrow_mut() else { return };
        let slot = slot as usize;
        if keys.len() <= slot {
            keys.resize(slot.saturating_add(1), 0);
        }
        if let Some(entry) = keys.get_mut(slot) {
            *entry = key;
        }
    }

    /// The list no longer has it.
    pub fn remove(&self, slot: u32) {
        if let Ok(mut keys) = self.keys.try_borrow_mut()
            && let Some(entry) = keys.get_mut(slot as usize)
        {
            *entry = 0;
        }
    }

    /// A claim found no room.
    pub fn refuse(&self) {
        self.refused.set(self.refused.get().saturating_add(1));
    }

    /// How many claims have found no room since the last [`Listed::forgive`].
    pub fn refused(&self) -> u32 {
        self.refused.get()
    }

    /// Starts counting afresh and returns the count.
    pub fn forgive(&self) -> u32 {
        self.refused.take()
    }

    /// Forgets everything: the memory has changed.
    pub fn clear(&self) {
        if let Ok(mut keys) = self.keys.try_borrow_mut() {
            keys.clear();
        }
        self.refused.set(0);
    }

    /// Confirms every record in use among `records`, the first of which is `from` in the zone. Returns whether one of them has been given to somebody else meanwhile, which takes a
    /// worker stopped for minutes: its lists must be made again.
    pub fn confirm<R: Record>(&self, records: &[R], from: usize, now: Micros) -> bool {
        let Ok(mut keys) = self.keys.try_borrow_mut() else { return false };
        let mut lost = false;
        for (key, record) in keys.iter_mut().skip(from).zip(records).filter(|(key, _)| **key != 0) {
            if record.key().load(Ordering::Acquire) == *key {
                slots::confirm(record, now);
            } else {
                // Told once: the lists ask again and may get another record.
                *key = 0;
                lost = true;
            }
        }
        lost
    }
}
