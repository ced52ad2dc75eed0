//! What this worker has in its lists: the records it confirms every second, and those it could not get.
//!
//! Here because records belong to no configuration: a record lives as long as some worker says so. Private to the worker
//! process, whose event loop is one thread. Not here: the records' own rules (`labor_core::slots`).

use core::cell::{Cell, RefCell};

use labor_core::slots::{self, Record};
use labor_core::sync::Ordering;
use labor_core::time::Micros;

/// One record in use.
#[derive(Clone, Copy, Default)]
struct Use {
    key: u64,
    count: u32,
}

/// Records of one kind in use by this worker, by slot.
#[derive(Default)]
pub struct Listed {
    uses: RefCell<Vec<Use>>,
    refused: Cell<u32>,
}

impl Listed {
    /// The list of `key` was made, and its record is `slot`.
    pub fn add(&self, slot: u32, key: u64) {
        let Ok(mut uses) = self.uses.try_borrow_mut() else { return };
        let slot = slot as usize;
        if uses.len() <= slot {
            uses.resize(slot.saturating_add(1), Use::default());
        }
        if let Some(entry) = uses.get_mut(slot) {
            entry.count = if entry.key == key { entry.count.saturating_add(1) } else { 1 };
            entry.key = key;
        }
    }

    /// One list less has the record.
    pub fn remove(&self, slot: u32) {
        if let Ok(mut uses) = self.uses.try_borrow_mut()
            && let Some(entry) = uses.get_mut(slot as usize)
        {
            entry.count = entry.count.saturating_sub(1);
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
        if let Ok(mut uses) = self.uses.try_borrow_mut() {
            uses.clear();
        }
        self.refused.set(0);
    }

    /// Confirms every record in use. Returns whether one of them has been given to somebody else meanwhile, which takes a
    /// worker stopped for minutes: its lists must be made again.
    pub fn confirm<R: Record>(&self, records: &[R], now: Micros) -> bool {
        let Ok(uses) = self.uses.try_borrow() else { return false };
        let mut lost = false;
        for (entry, record) in uses.iter().zip(records).filter(|(entry, _)| entry.count > 0) {
            if record.key().load(Ordering::Acquire) == entry.key {
                slots::confirm(record, now);
            } else {
                lost = true;
            }
        }
        lost
    }
}
