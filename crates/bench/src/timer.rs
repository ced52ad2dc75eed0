//! A timer for delays around one millisecond.
//!
//! tokio rounds every sleep up to its 1 ms wheel, which turns a 2 ms server into a 3 ms one. A `timerfd` fires within tens
//! of microseconds and costs nothing while idle, so one of them, armed for the earliest of a heap of sleepers, serves all.
//! Time-outs that seldom fire belong in tokio's wheel instead: a cancelled sleeper stays in the heap until it is due.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::unix::AsyncFd;

use crate::clock::now;

/// A handle to the thread's timer; clones share it.
#[derive(Clone)]
pub struct Timer(Rc<Inner>);

struct Inner {
    fd: AsyncFd<OwnedFd>,
    sleepers: RefCell<BinaryHeap<Reverse<Entry>>>,
    armed: Cell<Option<Instant>>,
    sequence: Cell<u64>,
}

#[derive(Default)]
struct Sleeper {
    fired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Ordered by deadline, then by age, so that equal deadlines wake in the order they were asked for.
struct Entry(Instant, u64, Rc<Sleeper>);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl Timer {
    /// Creates the timer and its driver task; must be called inside a `LocalSet`.
    pub fn start() -> Result<Self> {
        let fd =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
                .context("timerfd_create")?;
        #[allow(
            deprecated,
            reason = "the successor is unsafe to call; an OwnedFd keeps what that asks for by its type"
        )]
        let fd = AsyncFd::new(fd)?;
        let timer =
            Self(Rc::new(Inner { fd, sleepers: RefCell::default(), armed: Cell::new(None), sequence: Cell::new(0) }));
        tokio::task::spawn_local(timer.clone().drive());
        Ok(timer)
    }

    /// Returns at `deadline`, at once when that is past.
    pub async fn until(&self, deadline: Instant) {
        if deadline <= now() {
            return;
        }
        let sleeper = Rc::new(Sleeper::default());
        let sequence = self.0.sequence.get();
        self.0.sequence.set(sequence + 1);
        self.0.sleepers.borrow_mut().push(Reverse(Entry(deadline, sequence, sleeper.clone())));
        if self.0.armed.get().is_none_or(|armed| deadline < armed) {
            self.arm(deadline);
        }
        poll_fn(|context| {
            if sleeper.fired.get() {
                return Poll::Ready(());
            }
            *sleeper.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn arm(&self, deadline: Instant) {
        // Zero would disarm the timer: a deadline that is past by now fires after a nanosecond.
        let left = deadline.saturating_duration_since(now()).max(std::time::Duration::from_nanos(1));
        let value =
            Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        rustix::time::timerfd_settime(self.0.fd.get_ref(), TimerfdTimerFlags::empty(), &once)
            .expect("the kernel takes every positive time");
        self.0.armed.set(Some(deadline));
    }

    async fn drive(self) {
        loop {
            let Ok(mut ready) = self.0.fd.readable().await else { return };
            let mut expirations = [0; 8];
            // Only clears the readiness; an error means that a re-arming was faster, and the heap tells what is due.
            let _ = rustix::io::read(self.0.fd.get_ref(), &mut expirations);
            ready.clear_ready();
            self.fire(now());
        }
    }

    fn fire(&self, now: Instant) {
        self.0.armed.set(None);
        let mut sleepers = self.0.sleepers.borrow_mut();
        while let Some(Reverse(Entry(deadline, ..))) = sleepers.peek() {
            if *deadline > now {
                let deadline = *deadline;
                return self.arm(deadline);
            }
            let Some(Reverse(Entry(.., sleeper))) = sleepers.pop() else { return };
            sleeper.fired.set(true);
            if let Some(waker) = sleeper.waker.take() {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::time::Duration;
    use tokio::task::LocalSet;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines_and_never_early() {
        run(async {
            let timer = Timer::start().unwrap();
            let order = Rc::new(RefCell::new(Vec::new()));
            let start = now();
            let tasks: Vec<_> = [9_u64, 3, 6, 3]
                .into_iter()
                .enumerate()
                .map(|(index, ms)| {
                    let (timer, order) = (timer.clone(), order.clone());
                    tokio::task::spawn_local(async move {
                        let deadline = start + Duration::from_millis(ms);
                        timer.until(deadline).await;
                        assert!(now() >= deadline);
                        order.borrow_mut().push(index);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*order.borrow(), [1, 3, 2, 0]);
        });
    }

    #[test]
    fn a_short_sleep_is_not_rounded_to_a_millisecond() {
        run(async {
            let timer = Timer::start().unwrap();
            // The best of many: a busy machine delays some, a 1 ms wheel delays all.
            let mut best = Duration::MAX;
            for _ in 0..50 {
                let start = now();
                timer.until(start + Duration::from_micros(200)).await;
                best = best.min(now() - start);
            }
            assert!(best < Duration::from_micros(900), "{best:?}");
        });
    }

    #[test]
    fn a_cancelled_sleeper_does_no_harm() {
        run(async {
            let timer = Timer::start().unwrap();
            let start = now();
            {
                let mut cancelled = std::pin::pin!(timer.until(start + Duration::from_millis(5)));
                // One poll puts it into the heap; whether it is due by then does not matter.
                let _ = poll_fn(|context| Poll::Ready(cancelled.as_mut().poll(context))).await;
            }
            timer.until(start + Duration::from_millis(8)).await;
            assert!(now() >= start + Duration::from_millis(8));
        });
    }
}
