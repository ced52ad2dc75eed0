//! Requests in flight: cells per (worker slot, server) are the truth, a total per server is what picks read.
//!
//! A worker that dies leaves its cells behind; whoever notices zeroes them and resets the totals to the sums. A cell
//! has one writer, its worker, which marks each change by an odd sequence number: whoever sums the cells sees whether
//! a change was under way, and never books a half-made one for ever.

use crate::group::Group;
use crate::peer::Peer;
use crate::sync::{AtomicI32, AtomicU32, Ordering};

/// The sequence number of a dead worker's zeroed cell while the server's totals are not exact yet: even, so that it keeps
/// nobody else's summing from a quiet moment. A living worker's cell may pass through it, and is then reclaimed once more.
const UNSETTLED: u32 = 1 << 31;

/// One worker's requests at one server. Valid when zeroed.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Cell {
    /// Requests whose latency sample is not yet taken.
    pub q: AtomicI32,
    /// Requests whose connection is held (until nginx frees the peer).
    pub conns: AtomicI32,
    /// Odd while the worker is between a change of this cell and the same change of the total.
    pub seq: AtomicU32,
}

impl Cell {
    /// Whether a dead worker left something here: requests, or a change that it did not finish.
    pub fn is_left_over(&self) -> bool {
        self.q.load(Ordering::Acquire) != 0
            || self.conns.load(Ordering::Acquire) != 0
            || is_unfinished(self.seq.load(Ordering::Acquire))
    }
}

/// The shared memory as one pick or attempt sees it.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The list's own record.
    pub group: &'a Group,
    /// All servers' records; slots index it.
    pub peers: &'a [Peer],
    /// This worker's row of cells; slots index it too.
    pub cells: &'a [Cell],
}

impl<'a> Shared<'a> {
    /// The record at `slot`.
    pub fn peer(&self, slot: Option<u32>) -> Option<&'a Peer> {
        self.peers.get(slot? as usize)
    }

    /// The record and this worker's cell at `slot`.
    pub(crate) fn place(&self, slot: Option<u32>) -> Option<(&'a Peer, &'a Cell)> {
        Some((self.peer(slot)?, self.cells.get(slot? as usize)?))
    }
}

/// Runs `change` between two steps of the cell's sequence number.
///
/// A cell has one writer, so that what is in it changes by plain stores: locked instructions are most of what counting costs.
fn marked<T>(cell: &Cell, change: impl FnOnce() -> T) -> T {
    let seq = cell.seq.load(Ordering::Relaxed);
    cell.seq.store(seq.wrapping_add(1), Ordering::Release);
    let result = change();
    cell.seq.store(seq.wrapping_add(2), Ordering::Release);
    result
}

/// Adds `change` to the cell's own part and then to the server's total; returns the total that was there before.
fn count(part: &AtomicI32, total: &AtomicI32, change: i32) -> i32 {
    part.store(part.load(Ordering::Relaxed).wrapping_add(change), Ordering::Release);
    total.fetch_add(change, Ordering::AcqRel)
}

/// Takes place `q` and `conns` at a server for this worker; returns the queue and the connections that were there before.
///
/// Cell first: a death in between leaves a cell that is zeroed, not a total that nobody owns.
pub(crate) fn take(cell: &Cell, peer: &Peer) -> (i32, i32) {
    marked(cell, || (count(&cell.q, &peer.q, 1), count(&cell.conns, &peer.conns, 1)))
}

/// Gives the place in the queue back.
pub(crate) fn release_q(cell: &Cell, peer: &Peer) {
    marked(cell, || count(&cell.q, &peer.q, -1));
}

/// Gives the connection back.
pub(crate) fn release_conns(cell: &Cell, peer: &Peer) {
    marked(cell, || count(&cell.conns, &peer.conns, -1));
}

/// Zeroes the cells of a dead worker and resets `peer`'s totals to the sums over all workers' cells at its slot.
///
/// `column` yields the cells of every worker slot at this server, the dead one's included (already unclaimed by nobody
/// else). Returns whether the totals are exact; `false` when other workers never paused for as long as a summing takes:
/// then call again later, the cell stays left over until then.
pub fn reclaim<'a>(peer: &Peer, dead: &Cell, column: impl Iterator<Item = &'a Cell> + Clone) -> bool {
    dead.q.store(0, Ordering::Release);
    dead.conns.store(0, Ordering::Release);
    dead.seq.store(0, Ordering::Release);
    let q = reset(&peer.q, column.clone(), |cell| &cell.q);
    let conns = reset(&peer.conns, column, |cell| &cell.conns);
    if !(q && conns) {
        dead.seq.store(UNSETTLED, Ordering::Release);
    }
    q && conns
}

/// Whether a sequence number says that a death left something to do: in the middle of a change, or of a reclaim.
fn is_unfinished(seq: u32) -> bool {
    seq & 1 == 1 || seq == UNSETTLED
}

/// Sums until one summing saw no cell in change: a sum taken across a change may be off by it, so it is taken again.
fn reset<'a>(
    total: &AtomicI32,
    column: impl Iterator<Item = &'a Cell> + Clone,
    part: impl Fn(&'a Cell) -> &'a AtomicI32,
) -> bool {
    // Changes take some 50 ns each, so a quiet window comes soon; loom explores the races with fewer.
    const TRIES: usize = if cfg!(loom) { 3 } else { 256 };
    let marks = || {
        column.clone().fold((0u32, true), |(sum, quiet), cell| {
            let seq = cell.seq.load(Ordering::Acquire);
            (sum.wrapping_add(seq), quiet && seq & 1 == 0)
        })
    };
    for _ in 0..TRIES {
        let (before, quiet) = marks();
        let seen = total.load(Ordering::Acquire);
        let sum = column.clone().map(|cell| part(cell).load(Ordering::Acquire)).sum();
        let swapped = total.compare_exchange(seen, sum, Ordering::AcqRel, Ordering::Acquire).is_ok();
        // Sequence numbers only grow, so an equal sum means that none has moved.
        if quiet && swapped && marks().0 == before {
            return true;
        }
        core::hint::spin_loop();
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn totals(peer: &Peer) -> (i32, i32) {
        (peer.q.load(Ordering::Acquire), peer.conns.load(Ordering::Acquire))
    }

    #[test]
    fn a_dead_workers_requests_are_taken_back() {
        let (peer, cells) = (Peer::default(), [Cell::default(), Cell::default()]);
        take(&cells[0], &peer);
        take(&cells[1], &peer);
        take(&cells[1], &peer);
        assert!(reclaim(&peer, &cells[1], cells.iter()));
        assert_eq!(totals(&peer), (1, 1));
        release_q(&cells[0], &peer);
        release_conns(&cells[0], &peer);
        assert_eq!(totals(&peer), (0, 0));
    }

    #[test]
    fn a_death_between_cell_and_total_counts_nothing() {
        let (peer, cells) = (Peer::default(), [Cell::default(), Cell::default()]);
        cells[1].seq.store(1, Ordering::Release);
        cells[1].q.store(1, Ordering::Release);
        assert!(reclaim(&peer, &cells[1], cells.iter()));
        assert_eq!(totals(&peer), (0, 0));
        assert_eq!(cells[1].seq.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_worker_in_mid_change_makes_the_caller_come_again() {
        let (peer, cells) = (Peer::default(), [Cell::default(), Cell::default()]);
        cells[0].seq.store(1, Ordering::Release);
        peer.q.store(1, Ordering::Release);
        assert!(!reclaim(&peer, &cells[1], cells.iter()));
        assert!(cells[1].is_left_over());
        // Two dead workers, each with a change half made: neither keeps the other from its end.
        assert!(reclaim(&peer, &cells[0], cells.iter()));
        assert!(reclaim(&peer, &cells[1], cells.iter()));
        assert!(!cells.iter().any(Cell::is_left_over));
        assert_eq!(totals(&peer), (0, 0));
    }

    #[test]
    fn a_death_in_the_middle_of_the_last_release_leaves_something() {
        let (peer, cells) = (Peer::default(), [Cell::default()]);
        assert!(!cells[0].is_left_over());
        take(&cells[0], &peer);
        assert!(cells[0].is_left_over());
        release_conns(&cells[0], &peer);
        cells[0].seq.fetch_add(1, Ordering::AcqRel);
        cells[0].q.fetch_sub(1, Ordering::AcqRel);
        assert!(cells[0].is_left_over());
        assert!(reclaim(&peer, &cells[0], cells.iter()));
        assert_eq!(totals(&peer), (0, 0));
        assert!(!cells[0].is_left_over());
    }
}
