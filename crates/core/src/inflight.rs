//! Requests in flight: cells per (worker slot, server) are the truth, a total per server is what picks read.
//!
//! A worker that dies leaves its cells behind; whoever notices zeroes them and resets the totals to the sums.

use crate::group::Group;
use crate::peer::Peer;
use crate::sync::{AtomicI32, Ordering};

/// One worker's requests at one server. Valid when zeroed.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Cell {
    /// Requests whose latency sample is not yet taken.
    pub q: AtomicI32,
    /// Requests whose connection is held (until nginx frees the peer).
    pub conns: AtomicI32,
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

/// Takes place `q` and `conns` at `slot` for this worker: cell first, so that a death in between is never counted for ever.
pub(crate) fn take(cell: &Cell, peer: &Peer) {
    cell.q.fetch_add(1, Ordering::AcqRel);
    peer.q.fetch_add(1, Ordering::AcqRel);
    cell.conns.fetch_add(1, Ordering::AcqRel);
    peer.conns.fetch_add(1, Ordering::AcqRel);
}

/// Gives the place in the queue back.
pub(crate) fn release_q(cell: &Cell, peer: &Peer) {
    cell.q.fetch_sub(1, Ordering::AcqRel);
    peer.q.fetch_sub(1, Ordering::AcqRel);
}

/// Gives the connection back.
pub(crate) fn release_conns(cell: &Cell, peer: &Peer) {
    cell.conns.fetch_sub(1, Ordering::AcqRel);
    peer.conns.fetch_sub(1, Ordering::AcqRel);
}

/// Zeroes the cells of a dead worker and resets `peer`'s totals to the sums over all workers' cells at its slot.
///
/// `column` yields the cells of every worker slot at this server, the dead one's included (already unclaimed by nobody else).
pub fn reclaim<'a>(peer: &Peer, dead: &Cell, column: impl Iterator<Item = &'a Cell> + Clone) {
    dead.q.store(0, Ordering::Release);
    dead.conns.store(0, Ordering::Release);
    reset(&peer.q, || column.clone().map(|c| c.q.load(Ordering::Acquire)).sum());
    reset(&peer.conns, || column.clone().map(|c| c.conns.load(Ordering::Acquire)).sum());
}

fn reset(total: &AtomicI32, sum: impl Fn() -> i32) {
    // A few tries: under constant traffic a race is possible each time; the once-a-second check comes back.
    for _ in 0..8 {
        let seen = total.load(Ordering::Acquire);
        if total.compare_exchange(seen, sum(), Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return;
        }
    }
}
