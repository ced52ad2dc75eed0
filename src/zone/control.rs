//! What is set for servers at run time, as workers change and follow it.
//!
//! The words themselves are in the servers' records (`labor_core::control`); here is the counter by which every worker
//! learns at its next pick that one has changed. Not here: who may change them (`api.rs`), and the file that keeps them.

use core::sync::atomic::Ordering;

use labor_core::control::{Control, Patch};
use labor_core::slots;
use labor_core::time::{Micros, SECOND, since};

use super::View;

/// A reload that copied the memory has either replaced its workers after this time, or failed and left them in charge.
const SUPERSEDED: Micros = 10 * SECOND;

impl View {
    /// Grows after every change of what is set for any server.
    pub fn controls(&self) -> u64 {
        self.0.map.header.controls.load(Ordering::Acquire)
    }

    /// What is set for the server of `slot`; nothing without a record.
    pub fn control(&self, slot: Option<u32>) -> Control {
        slot.and_then(|slot| self.record(slot)).map_or_else(Control::default, |peer| peer.control())
    }

    /// Fulfils `patch` for the server of `key` at `slot`: what was set before, and now. `None` when the record is another
    /// server's by now.
    pub fn set_control(&self, slot: u32, key: u64, patch: &Patch) -> Option<(Control, Control)> {
        let peer = self.record(slot)?;
        let own = || peer.key.load(Ordering::Acquire) == slots::usable_key(key);
        let changed = own().then(|| peer.set_control(patch));
        self.0.map.header.controls.fetch_add(1, Ordering::AcqRel);
        changed.filter(|_| own())
    }

    /// What [`View::controls`] was when everything set was last written to the state file.
    pub fn saved(&self) -> u64 {
        self.0.map.header.saved.load(Ordering::Acquire)
    }

    /// Everything set when the counter was `version` is in the state file.
    pub fn note_saved(&self, version: u64) {
        self.0.map.header.saved.fetch_max(version, Ordering::AcqRel);
    }

    /// Has the server of `slot` learned anew; what is in flight there books nothing any more.
    pub fn forget(&self, slot: Option<u32>) {
        if let Some(peer) = slot.and_then(|slot| self.record(slot)) {
            peer.forget();
        }
    }

    /// The same for the list of `slot`, after its servers.
    pub fn forget_group(&self, slot: Option<u32>) {
        if let Some(group) = slot.and_then(|slot| self.0.map.groups.get(slot as usize)) {
            group.forget();
        }
    }

    /// Whether no configuration has been read since this worker started.
    pub fn is_newest(&self) -> bool {
        self.0.map.header.configurations.load(Ordering::Acquire) == self.0.configurations
    }

    /// Whether a reload has copied this memory to another one, so that a change made here now might be lost. `leaving`: this
    /// worker has been told to end, so that the reload has succeeded.
    pub fn is_superseded(&self, leaving: bool, now: Micros) -> bool {
        let at = self.0.map.header.superseded.load(Ordering::Acquire);
        at != 0 && (leaving || since(at, now) < SUPERSEDED)
    }
}
