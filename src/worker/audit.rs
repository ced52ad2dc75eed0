//! Once a second one worker compares each server's totals with the sums of the cells, and mends what differs for long.
//!
//! Here because a worker that dies between counting a request in its cell and in the total, or a reset that races with a
//! count, leaves a total that is off by one for ever; nothing else would find it. Not here: counting.

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::Ordering;

use labor_core::slots;

use crate::worker::process;
use crate::zone::Map;

/// Seconds a difference must stand unchanged. The counts of a request under way differ for nanoseconds, so that the same
/// difference by chance three times in a row would take a server that is almost always in that instant.
const STEADY: u8 = 3;

/// A server's difference (total − sum) as last seen, and how often in a row.
#[derive(Clone, Copy, Default)]
struct Drift {
    q: i32,
    conns: i32,
    seen: u8,
}

thread_local! {
    static DRIFTS: Cell<Vec<Drift>> = const { Cell::new(Vec::new()) };
}

/// Looks at the servers of `part`, if this process is the first among the workers (one is enough).
pub fn run(map: &Map, part: Range<usize>) {
    let first = map.workers.iter().map(|o| o.load(Ordering::Acquire)).find(|o| *o != 0);
    if first != Some(process::own()) {
        return;
    }
    let mut drifts = DRIFTS.take();
    drifts.resize(map.peers.len(), Drift::default());
    if let (Some(drifts), Some(peers)) = (drifts.get_mut(part.clone()), map.peers.get(part.clone())) {
        // Rows that nobody owns hold nothing. Each row's cells lie side by side; a server's own are summed up at once with
        // reading its total, so that few requests fall between the two.
        let owned = map.workers.iter().enumerate().filter(|(_, owner)| owner.load(Ordering::Acquire) != 0);
        let rows: Vec<_> = owned.map(|(worker, _)| map.row(worker)).collect();
        for (i, (peer, drift)) in part.zip(peers.iter().zip(drifts)) {
            let key = peer.key.load(Ordering::Relaxed);
            if key == 0 || key == slots::EMPTYING {
                *drift = Drift::default();
                continue;
            }
            let cells = || rows.iter().filter_map(|row| row.get(i));
            let sum = |of: fn(&labor_core::Cell) -> i32| cells().map(of).fold(0, i32::wrapping_add);
            let q = peer.q.load(Ordering::Acquire).wrapping_sub(sum(|c| c.q.load(Ordering::Acquire)));
            let conns = peer.conns.load(Ordering::Acquire).wrapping_sub(sum(|c| c.conns.load(Ordering::Acquire)));
            let same = (q, conns) == (drift.q, drift.conns) && (q, conns) != (0, 0);
            *drift = Drift { q, conns, seen: if same { drift.seen.saturating_add(1) } else { 1 } };
            if same && drift.seen >= STEADY {
                // Taking the difference off is exact whatever is counted at the same time.
                peer.q.fetch_sub(q, Ordering::AcqRel);
                peer.conns.fetch_sub(conns, Ordering::AcqRel);
                *drift = Drift::default();
            }
        }
    }
    DRIFTS.set(drifts);
}
