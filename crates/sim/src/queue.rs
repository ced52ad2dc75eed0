//! The event queue: a binary heap of (time, order of insertion, what), so that equal times keep their order.

use crate::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that will happen. Ordered by time, then by insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Nanos,
    order: u32,
    what: u32,
}

/// Future events. `what` is the caller's: an index into its own table.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<Event>>,
    order: u32,
}

impl Queue {
    /// Adds an event.
    pub fn push(&mut self, at: Nanos, what: u32) {
        // Wrapping matters only among events of the same nanosecond, four thousand million insertions apart.
        self.order = self.order.wrapping_add(1);
        self.heap.push(Reverse(Event { at, order: self.order, what }));
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|e| e.0.at)
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        self.heap.pop().map(|Reverse(e)| (e.at, e.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_first_then_insertion() {
        let mut queue = Queue::default();
        for (at, what) in [(5, 1), (3, 2), (5, 3), (3, 4)] {
            queue.push(at, what);
        }
        let out: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(out, [(3, 2), (3, 4), (5, 1), (5, 3)]);
    }
}
