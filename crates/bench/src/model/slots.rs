//! The places in which a server works: `k` at once, the rest waits in order of arrival.
//!
//! Own code instead of a semaphore because `k` changes while requests wait, and because a place is handed on with the moment
//! it was due to become free: the wake-up delay of one request must not add up along a queue.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::clock::now;

/// The places of one server.
pub struct Slots {
    limit: Cell<usize>,
    busy: Cell<usize>,
    queue: RefCell<VecDeque<oneshot::Sender<Slot>>>,
}

/// A place that is occupied until dropped or finished.
pub struct Slot {
    slots: Option<Rc<Slots>>,
    /// When the work may begin.
    pub since: Instant,
}

impl Slots {
    /// `limit` places.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self { limit: Cell::new(limit), busy: Cell::new(0), queue: RefCell::default() })
    }

    /// Changes the number of places. Those that work go on; those that wait move up when there is room now.
    pub fn set_limit(self: &Rc<Self>, limit: usize) {
        self.limit.set(limit);
        self.hand_on(now());
    }

    /// Requests that wait; those whose client has left no longer do.
    pub fn waiting(&self) -> usize {
        self.queue.borrow().iter().filter(|waiter| !waiter.is_closed()).count()
    }

    /// Takes a place, after everyone who asked before.
    pub async fn acquire(self: &Rc<Self>, arrived: Instant) -> Slot {
        if self.busy.get() < self.limit.get() {
            return self.occupy(arrived);
        }
        let (sender, receiver) = oneshot::channel();
        self.queue.borrow_mut().push_back(sender);
        receiver.await.expect("a queue outlives its waiters")
    }

    fn occupy(self: &Rc<Self>, since: Instant) -> Slot {
        self.busy.set(self.busy.get() + 1);
        Slot { slots: Some(self.clone()), since }
    }

    fn hand_on(self: &Rc<Self>, at: Instant) {
        while self.busy.get() < self.limit.get() {
            let Some(next) = self.queue.borrow_mut().pop_front() else { return };
            if next.is_closed() {
                continue;
            }
            // A waiter that left in between gives the slot back by dropping it.
            let _ = next.send(self.occupy(at));
        }
    }
}

impl Slot {
    /// Gives the place back as of `due`, the planned end of the work.
    pub fn finish(mut self, due: Instant) {
        self.release(due);
    }

    fn release(&mut self, at: Instant) {
        if let Some(slots) = self.slots.take() {
            slots.busy.set(slots.busy.get() - 1);
            slots.hand_on(at);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.slots.is_some() {
            self.release(now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn places_go_out_in_order_and_skip_who_left() {
        let slots = Slots::new(1);
        let at = now();
        let Poll::Ready(first) = poll(pin!(slots.acquire(at))) else { panic!("the first waits") };
        let mut second = pin!(slots.acquire(at));
        let mut fourth = pin!(slots.acquire(at));
        assert!(poll(second.as_mut()).is_pending());
        {
            let mut third = pin!(slots.acquire(at));
            assert!(poll(third.as_mut()).is_pending());
        }
        assert!(poll(fourth.as_mut()).is_pending());
        assert_eq!(slots.waiting(), 2);
        let due = at + std::time::Duration::from_secs(1);
        first.finish(due);
        assert!(poll(fourth.as_mut()).is_pending());
        let Poll::Ready(second) = poll(second) else { panic!("the second is not next") };
        assert_eq!(second.since, due);
        drop(second);
        assert!(poll(fourth).is_ready());
    }

    #[test]
    fn a_larger_limit_lets_waiters_in_and_a_smaller_one_holds_them() {
        let slots = Slots::new(1);
        let at = now();
        let Poll::Ready(first) = poll(pin!(slots.acquire(at))) else { panic!() };
        let mut second = pin!(slots.acquire(at));
        assert!(poll(second.as_mut()).is_pending());
        slots.set_limit(2);
        let Poll::Ready(second) = poll(second) else { panic!("no room at limit 2") };
        slots.set_limit(1);
        drop(first);
        assert!(poll(pin!(slots.acquire(at))).is_pending(), "one is still working");
        drop(second);
        assert!(poll(pin!(slots.acquire(at))).is_ready());
    }
}
