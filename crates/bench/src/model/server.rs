//! One model server: its behaviour, its places, its counters, and the time a request takes.
//!
//! Knows nothing of protocols and sockets, except that it can end its connections as a dying process would.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::slots::Slots;
use super::spec::{Behaviour, Protocol, Reset, Spec};
use crate::clock::now;
use crate::timer::Timer;

/// What happened on a server since the start or the last `/reset`.
#[derive(Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: Cell<u64>,
    /// Requests that arrived whole.
    pub requests: Cell<u64>,
    /// Answers sent whole, failing ones included.
    pub answers: Cell<u64>,
    /// Answers that were made to fail by `fail`.
    pub failures: Cell<u64>,
    /// Requests whose client closed before the answer was sent.
    pub aborted: Cell<u64>,
    /// The most requests in flight at once.
    pub max_in_flight: Cell<usize>,
    /// The most requests that were worked on at once.
    pub max_in_service: Cell<usize>,
    /// Sum of all service times drawn; `slow` does not count.
    pub service: Cell<Duration>,
}

/// Adds one to a counter.
pub fn bump(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// A model server; shared by its listener, its connections and the control port.
pub struct Server {
    /// The name it goes by.
    pub name: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// What happened.
    pub counters: Counters,
    /// The thread's timer.
    pub timer: Timer,
    behaviour: RefCell<Rc<Behaviour>>,
    first_left: Cell<u64>,
    in_flight: Cell<usize>,
    in_service: Cell<usize>,
    slots: Rc<Slots>,
    /// When `slow` changed last, told to all that is under way.
    speed: (Cell<Option<Instant>>, Notify),
    rng: RefCell<fastrand::Rng>,
    connections: RefCell<HashMap<u64, AbortHandle>>,
    next_connection: Cell<u64>,
}

/// One request from arrival to the last byte of its answer; dropping it ends its being in flight.
pub struct Job {
    server: Rc<Server>,
    /// The behaviour at arrival; a change concerns later requests, but for the service time, which is drawn when the
    /// service begins, and for `slow`.
    pub behaviour: Rc<Behaviour>,
    /// Requests in flight at arrival, this one included.
    pub in_flight: usize,
    /// Whether `fail` struck.
    pub failing: bool,
    arrived: Instant,
}

impl Server {
    /// A server that does not listen yet. Its random numbers depend on `seed` and its name only.
    pub fn new(spec: &Spec, seed: u64, timer: Timer) -> Rc<Self> {
        let seed = spec.name.bytes().fold(seed, |seed, byte| seed.rotate_left(9) ^ u64::from(byte));
        Rc::new(Self {
            name: spec.name.clone(),
            protocol: spec.protocol,
            counters: Counters::default(),
            timer,
            first_left: Cell::new(spec.behaviour.first.0),
            in_flight: Cell::new(0),
            in_service: Cell::new(0),
            slots: Slots::new(spec.behaviour.k),
            speed: (Cell::new(None), Notify::new()),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            behaviour: RefCell::new(Rc::new(spec.behaviour.clone())),
            connections: RefCell::default(),
            next_connection: Cell::new(0),
        })
    }

    /// The behaviour of this moment.
    pub fn behaviour(&self) -> Rc<Behaviour> {
        self.behaviour.borrow().clone()
    }

    /// Changes the behaviour by the words of `spec`; all of them or, on an error, none.
    pub fn change(&self, spec: &str) -> Result<()> {
        let new = self.behaviour().changed(spec, self.protocol)?;
        if spec.split(',').any(|word| word.trim().starts_with("first=")) {
            self.first_left.set(new.first.0);
        }
        let (k, slow) = (new.k, new.slow);
        let before = self.behaviour.replace(Rc::new(new));
        if before.slow != slow {
            self.speed.0.set(Some(now()));
            self.speed.1.notify_waiters();
        }
        self.slots.set_limit(k);
        Ok(())
    }

    /// Books the arrival of a request and decides whether it will fail.
    pub fn arrive(self: &Rc<Self>, arrived: Instant) -> Job {
        let behaviour = self.behaviour();
        let in_flight = self.in_flight.get() + 1;
        self.in_flight.set(in_flight);
        bump(&self.counters.requests);
        self.counters.max_in_flight.set(self.counters.max_in_flight.get().max(in_flight));
        let share = behaviour.fail.0;
        let failing = share > 0.0 && self.rng.borrow_mut().f64() < share;
        Job { server: self.clone(), behaviour, in_flight, failing, arrived }
    }

    /// Remembers a connection's task, so that [`Server::drop_connections`] can end it.
    pub fn register(&self, task: AbortHandle) {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        let mut connections = self.connections.borrow_mut();
        connections.insert(id, task);
        // Now and then, so that the cost per connection stays constant.
        if id.is_multiple_of(256) {
            connections.retain(|_, task| !task.is_finished());
        }
    }

    /// Ends all connections at once, as when the process dies.
    pub fn drop_connections(&self) {
        for task in std::mem::take(&mut *self.connections.borrow_mut()).values() {
            task.abort();
        }
    }

    /// Zeroes the counters; what is in flight stays, and `first` counts anew.
    pub fn reset(&self) {
        let counters = &self.counters;
        for counter in
            [&counters.connections, &counters.requests, &counters.answers, &counters.failures, &counters.aborted]
        {
            counter.set(0);
        }
        counters.max_in_flight.set(self.in_flight.get());
        counters.max_in_service.set(self.in_service.get());
        counters.service.set(Duration::ZERO);
        self.first_left.set(self.behaviour().first.0);
    }

    /// The counters as JSON.
    pub fn stats(&self) -> Value {
        let counters = &self.counters;
        let open = self.connections.borrow().values().filter(|task| !task.is_finished()).count();
        json!({
            "connections": counters.connections.get(),
            "open_connections": open,
            "requests": counters.requests.get(),
            "answers": counters.answers.get(),
            "failures": counters.failures.get(),
            "aborted": counters.aborted.get(),
            "in_flight": self.in_flight.get(),
            "in_service": self.in_service.get(),
            "waiting": self.slots.waiting(),
            "max_in_flight": counters.max_in_flight.get(),
            "max_in_service": counters.max_in_service.get(),
            "service_us": u64::try_from(counters.service.get().as_micros()).unwrap_or(u64::MAX),
        })
    }

    /// The time of a service that begins now: a queue from before a change is worked off at the new speed.
    fn service_time(&self, in_flight: usize) -> Duration {
        let behaviour = self.behaviour();
        let left = self.first_left.get();
        let own = if left > 0 {
            self.first_left.set(left - 1);
            behaviour.first.1
        } else {
            behaviour.service.draw(&mut self.rng.borrow_mut())
        };
        let factor = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let time = own.saturating_add(behaviour.per_inflight.saturating_mul(factor));
        self.counters.service.set(self.counters.service.get().saturating_add(time));
        time
    }

    /// Works off `work`, begun at `at`, at the server's speed, also when that changes meanwhile; the moment it was due to end.
    async fn serve(&self, mut at: Instant, mut work: Duration) -> Instant {
        loop {
            let factor = self.behaviour().slow;
            let due = at + work.mul_f64(factor);
            let changed = self.speed.1.notified();
            tokio::select! {
                () = self.timer.until(due) => return due,
                () = changed => {}
            }
            let moment = self.speed.0.get().unwrap_or(due);
            if due <= moment {
                return due;
            }
            work = work.saturating_sub(moment.saturating_duration_since(at).div_f64(factor));
            at = at.max(moment);
        }
    }
}

/// Counts a request as being worked on; also when its client leaves in the middle.
struct InService<'a>(&'a Server);

impl<'a> InService<'a> {
    fn enter(server: &'a Server) -> Self {
        let busy = server.in_service.get() + 1;
        server.in_service.set(busy);
        server.counters.max_in_service.set(server.counters.max_in_service.get().max(busy));
        Self(server)
    }
}

impl Drop for InService<'_> {
    fn drop(&mut self) {
        self.0.in_service.set(self.0.in_service.get() - 1);
    }
}

impl Job {
    /// Takes the time that this request takes up to the first byte of its answer: network, queue, service, network.
    pub async fn work(&self) {
        let (server, behaviour) = (&self.server, &self.behaviour);
        let timer = &server.timer;
        let one_way = behaviour.network / 2;
        let there = self.arrived + one_way;
        timer.until(there).await;
        if behaviour.fast_fail && (self.failing || behaviour.status >= 500 || behaviour.grpc_status != 0) {
            return timer.until(there + behaviour.fail_after + one_way).await;
        }
        let slot = server.slots.acquire(there).await;
        let service = InService::enter(server);
        let due = server.serve(slot.since, server.service_time(self.in_flight)).await;
        drop(service);
        slot.finish(due);
        timer.until(due + one_way).await;
    }

    /// Waits for ever when the behaviour is to hang.
    pub async fn work_or_hang(&self) {
        if self.behaviour.hang {
            return std::future::pending().await;
        }
        self.work().await;
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        if self.failing { self.behaviour.failure_status(self.server.protocol) } else { self.behaviour.status }
    }

    /// The name of the server.
    pub fn server_name(&self) -> &str {
        &self.server.name
    }

    /// Whether the answer is cut off before its first byte.
    pub fn cut_before_header(&self) -> bool {
        self.behaviour.reset == Reset::Header
    }

    /// Books a whole answer.
    pub fn answered(&self) {
        bump(&self.server.counters.answers);
        if self.failing {
            bump(&self.server.counters.failures);
        }
    }

    /// Books that the client closed before the answer was out.
    pub fn aborted(&self) {
        bump(&self.server.counters.aborted);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.server.in_flight.set(self.server.in_flight.get() - 1);
    }
}
