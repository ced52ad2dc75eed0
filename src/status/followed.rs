//! The lists whose latencies the keeper follows, in the process that keeps: those of long lists are renewed a part at a time.
//!
//! In the process and not in shared memory, as it is made again within seconds. Not here: what the keeper does with them
//! (`keeper.rs`), and how latencies come about (the core).

use std::cell::Cell;

use labor_core::followed::Followed;
use labor_core::report::Expected;
use labor_core::time::Micros;
use labor_core::{Member, Params};

use crate::zone::{self, View};

/// A list's group record with what is followed there.
struct Entry {
    group: u32,
    params: Params,
    followed: Followed,
    /// It was looked at since the last [`forget_others`].
    seen: bool,
}

thread_local! {
    static ALL: Cell<Vec<Entry>> = const { Cell::new(Vec::new()) };
}

/// Renews the next part of every list.
pub fn renew(now: Micros) {
    let mut all = ALL.take();
    if let Some(view) = zone::view().filter(|_| !all.is_empty()) {
        for entry in &mut all {
            entry.followed.renew(view.shared(Some(entry.group)), &entry.params, now);
        }
    }
    ALL.set(all);
}

/// Forgets all lists: this process is not the one that keeps.
pub fn forget() {
    drop(ALL.take());
}

/// Forgets the lists that were not looked at since the last call.
pub fn forget_others() {
    let mut all = ALL.take();
    all.retain(|entry| entry.seen);
    all.iter_mut().for_each(|entry| entry.seen = false);
    ALL.set(all);
}

/// A look at one list: taken out for as long as the look lasts.
pub struct Latencies {
    entry: Entry,
    view: View,
    now: Micros,
}

impl Latencies {
    /// Those of the list with the record `group` and these members, as they stand at `now`.
    pub fn of(view: View, group: u32, members: &[Member], params: &Params, now: Micros) -> Self {
        let mut all = ALL.take();
        let known = all.iter().position(|entry| entry.group == group).map(|at| all.swap_remove(at));
        ALL.set(all);
        let followed = known.map(|entry| entry.followed).unwrap_or_default();
        let mut entry = Entry { group, params: *params, followed, seen: true };
        entry.followed.set_members(members);
        entry.followed.renew(view.shared(Some(group)), params, now);
        Self { entry, view, now }
    }

    /// What is expected of member `index`. `anew`: not as of some seconds ago.
    pub fn get(&mut self, index: usize, anew: bool) -> Option<Expected> {
        let Entry { group, params, followed, .. } = &mut self.entry;
        followed.expected(self.view.shared(Some(*group)), params, index, anew, self.now)
    }

    /// The look is over; what was found out is kept for the next one.
    pub fn keep(self) {
        let mut all = ALL.take();
        all.push(self.entry);
        ALL.set(all);
    }
}
