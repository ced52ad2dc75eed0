//! One run: arrivals, picks, answers, in the order of simulated time.

use crate::arrivals::Arrivals;
use crate::policy::{Done, Kind, Policy, Query, Truth};
use crate::queue::Queue;
use crate::scenario::{Keys, Scenario, Session};
use crate::server::{End, Server, Work};
use crate::stats::{Recorder, Summary};
use crate::{MILLI, Nanos, SECOND, stream};
use labor_core::rng::Rng;

/// Marks the event of a header that comes long before the end.
const HEADER: u32 = 1 << 31;
/// Servers that a request has been to at most, but the last one.
const MOST_TRIED: usize = 3;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    server: u32,
    balancer: u32,
    worker: u32,
    safe: bool,
    /// When this attempt began, and when the request did.
    started: Nanos,
    first: Nanos,
    end: End,
    service: Nanos,
    /// Requests at the server when this one was sent.
    rif: u32,
    work: Work,
    key: Option<u32>,
    /// Where it was before.
    tried: [u32; MOST_TRIED],
    tries: u8,
    /// How long it stays after its answer.
    session: Option<Nanos>,
}

/// Randomness that does not depend on the policy: the same arrivals and sizes for all.
#[derive(Debug)]
struct Draws {
    sizes: Rng,
    places: Rng,
    sessions: Rng,
    keys: Rng,
}

struct Run<'a> {
    scenario: &'a Scenario,
    policies: Vec<Box<dyn Policy>>,
    servers: Vec<Server>,
    present: Vec<bool>,
    /// When the list changes next.
    change: Nanos,
    /// `present` without those that a request has been to.
    untried: Vec<bool>,
    queue: Queue,
    flights: Vec<Flight>,
    vacant: Vec<u32>,
    recorder: Recorder,
    /// Luck of second attempts: what fails here need not fail there.
    luck: Rng,
}

/// Simulates `scenario` under policy `kind`; everything follows from `seed`.
pub fn run(scenario: &Scenario, kind: Kind, seed: u64) -> Summary {
    run_with(scenario, kind, seed, Recorder::new(scenario))
}

/// The same, with figures taken by `recorder`.
pub fn run_with(scenario: &Scenario, kind: Kind, seed: u64, recorder: Recorder) -> Summary {
    let mut run = Run::new(scenario, kind, seed, recorder);
    let draws = |n| Rng::new(stream(seed, n));
    let mut arrivals = Arrivals::new(scenario, draws(1));
    let mut draws = Draws { sizes: draws(2), places: draws(3), sessions: draws(4), keys: draws(6) };
    let end = (scenario.duration * SECOND) as Nanos;
    while let Some((now, sent_to)) = arrivals.next(scenario).filter(|a| a.0 < end) {
        run.answers(now);
        run.list(now);
        run.arrival(&mut draws, now, sent_to);
    }
    run.answers(Nanos::MAX);
    let Run { recorder, policies, .. } = run;
    recorder.close(&policies, scenario)
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, kind: Kind, seed: u64, recorder: Recorder) -> Self {
        let timeout = (scenario.timeout * SECOND) as Nanos;
        // Far beyond the last arrival: queues may take long to drain.
        let horizon = (scenario.duration * 4.0 * SECOND) as Nanos + timeout;
        let server = |(i, spec): (usize, _)| Server::new(spec, timeout, horizon, stream(seed, 1_000_000 + i as u64));
        let servers: Vec<_> = scenario.server.iter().enumerate().map(server).collect();
        let policy = |b| kind.build(scenario, stream(seed, 100 + b));
        let mut run = Self {
            scenario,
            policies: (0..u64::from(scenario.balancers)).map(policy).collect(),
            present: vec![false; servers.len()],
            change: 0,
            untried: Vec::new(),
            servers,
            queue: Queue::default(),
            flights: Vec::new(),
            vacant: Vec::new(),
            recorder,
            luck: Rng::new(stream(seed, 5)),
        };
        run.list(0);
        run
    }

    /// Delivers everything due up to `until`.
    fn answers(&mut self, until: Nanos) {
        while self.queue.next_at().is_some_and(|at| at <= until) {
            let Some((now, what)) = self.queue.pop() else { return };
            if what & HEADER != 0 { self.header(what & !HEADER, now) } else { self.end(what, now) }
        }
    }

    fn done(&self, id: u32, now: Nanos) -> Done {
        let flight = &self.flights[id as usize];
        Done {
            id,
            server: flight.server as usize,
            worker: flight.worker as usize,
            started: flight.started,
            now,
            end: flight.end,
            service: flight.service,
            waiting: self.servers[flight.server as usize].in_flight,
            session: flight.session.is_some(),
        }
    }

    /// The answer of a session is there; it stays open.
    fn header(&mut self, id: u32, now: Nanos) {
        let flight = self.flights[id as usize];
        self.leave(&flight, now);
        let done = self.done(id, now);
        self.policies[flight.balancer as usize].header(&done);
        self.recorder.book(flight.server as usize, flight.first, now, End::Pass);
        self.queue.push(now + flight.session.unwrap_or(0), id);
    }

    fn leave(&mut self, flight: &Flight, now: Nanos) {
        let server = &mut self.servers[flight.server as usize];
        server.in_flight -= 1;
        if flight.end == End::Pass {
            server.remember(flight.rif, ((now - flight.started) as f64 / MILLI) as f32);
        }
    }

    fn end(&mut self, id: u32, now: Nanos) {
        let flight = self.flights[id as usize];
        let session = flight.session.is_some();
        if !session {
            self.leave(&flight, now);
        }
        let done = self.done(id, now);
        self.policies[flight.balancer as usize].done(&done);
        if flight.end != End::Pass && u32::from(flight.tries) < self.scenario.tries {
            let mut again = flight;
            if let Some(place) = again.tried.get_mut(usize::from(flight.tries) - 1) {
                *place = flight.server;
            }
            self.untried.clone_from(&self.present);
            again.tried.iter().filter(|&&s| s != u32::MAX).for_each(|&s| self.untried[s as usize] = false);
            again.tries += 1;
            again.work.luck = [self.luck.unit(), self.luck.unit()];
            if self.send(id, again, now, u32::MAX) {
                return;
            }
        }
        if !session {
            self.recorder.book(flight.server as usize, flight.first, now, flight.end);
        }
        self.vacant.push(id);
        self.recorder.answered();
    }

    /// Lets servers join and leave whose time has come.
    fn list(&mut self, now: Nanos) {
        if now < self.change {
            return;
        }
        self.change = Nanos::MAX;
        for (present, server) in self.present.iter_mut().zip(&self.servers) {
            let (joins, leaves) = server.listed;
            *present = (joins..leaves).contains(&now);
            let later = [joins, leaves].into_iter().filter(|&at| at > now).min();
            self.change = self.change.min(later.unwrap_or(Nanos::MAX));
        }
        for policy in &mut self.policies {
            policy.members(&self.present);
        }
    }

    fn arrival(&mut self, draws: &mut Draws, now: Nanos, sent_to: u32) {
        let size = self.scenario.service.value(draws.sizes.unit(), draws.sizes.unit());
        let work = Work { size, luck: [draws.sizes.unit(), draws.sizes.unit()] };
        let draw = |places: &mut Rng, n: u32| if n == 1 { 0 } else { (places.unit() * f64::from(n)) as u32 };
        let balancer = draw(&mut draws.places, self.scenario.balancers);
        let worker = draw(&mut draws.places, self.scenario.workers);
        let safe = self.scenario.safe >= 1.0 || draws.places.unit() < self.scenario.safe;
        let stays = |s: Session| {
            let (yes, length) = (draws.sessions.unit() < s.share, -(1.0 - draws.sessions.unit()).ln());
            yes.then_some((length * s.lasts * SECOND) as Nanos)
        };
        let (end, tried) = (End::Pass, [u32::MAX; MOST_TRIED]);
        let session = self.scenario.session.and_then(stays);
        let hot =
            |k: Keys, rng: &mut Rng| if rng.unit() < k.hot { 0 } else { (rng.unit() * f64::from(k.count)) as u32 };
        let key = self.scenario.keys.map(|keys| hot(keys, &mut draws.keys));
        let flight = Flight {
            server: 0,
            balancer,
            worker,
            safe,
            started: now,
            first: now,
            end,
            service: 0,
            rif: 0,
            work,
            key,
            tried,
            tries: 1,
            session,
        };
        self.recorder.sent();
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.flights.push(flight);
            self.flights.len() as u32 - 1
        });
        if !self.send(id, flight, now, sent_to) {
            self.recorder.refused();
            self.vacant.push(id);
        }
    }

    /// Sends attempt `flight.tries` of a request; false when the policy finds no server.
    fn send(&mut self, id: u32, mut flight: Flight, now: Nanos, sent_to: u32) -> bool {
        let first = flight.tries == 1;
        let query = Query {
            id,
            now,
            worker: flight.worker as usize,
            safe: flight.safe,
            first,
            key: flight.key,
            present: if first { &self.present } else { &self.untried },
            tried: &flight.tried[..usize::from(flight.tries) - 1],
            truth: Truth { servers: &self.servers, work: &flight.work, sent_to },
        };
        let Some(server) = self.policies[flight.balancer as usize].pick(&query) else { return false };
        let place = &mut self.servers[server];
        let fate = place.send(now, &flight.work);
        flight.rif = place.in_flight;
        place.in_flight += 1;
        (flight.server, flight.started, flight.end, flight.service) = (server as u32, now, fate.end, fate.service);
        if fate.end != End::Pass {
            flight.session = None;
        }
        self.flights[id as usize] = flight;
        self.queue.push(fate.back, if flight.session.is_some() { id | HEADER } else { id });
        self.recorder.picked(server, now);
        if let Some(key) = flight.key {
            self.recorder.keyed(key, server, now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: &str =
        "about='x'\nrate=1000\nduration=5\nworkers=2\nbalancers=2\n[[server]]\ncount=3\nservice_ms=2\nconcurrency=2\n";

    #[test]
    fn what_goes_in_comes_out_for_every_policy() {
        let sessions = "session={share=0.05,lasts=0.5}\ntries=2\n";
        let failing =
            "[[server]]\nservice_ms=2\nconcurrency=2\nleave=3\n[[server.event]]\nat=1\neffect='fail'\nshare=0.5\n";
        for text in [LAN.to_owned(), format!("{sessions}{LAN}{failing}")] {
            let scenario = Scenario::parse(&text).unwrap();
            for kind in Kind::ALL {
                let summary = run(&scenario, kind, 1);
                assert_eq!(summary.sent, summary.answered, "{kind:?}");
                assert_eq!(summary.refused, 0, "{kind:?}");
                assert_eq!(summary.counts.iter().sum::<u64>(), summary.sent, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_seed_decides_everything() {
        let scenario = Scenario::parse(LAN).unwrap();
        for kind in Kind::ALL {
            let (a, b, c) = (run(&scenario, kind, 1), run(&scenario, kind, 1), run(&scenario, kind, 2));
            assert_eq!(a.mean, b.mean, "{kind:?}");
            assert_eq!(a.counts, b.counts, "{kind:?}");
            assert_ne!(a.mean, c.mean, "{kind:?}");
        }
    }

    #[test]
    fn one_queue_matches_theory() {
        // M/M/1 at 50 %: mean time in system twice the service time.
        let text = "about='x'\nrate=100\nduration=2000\nwarmup=1\n[[server]]\nservice_ms=5\nconcurrency=1\n";
        let summary = run(&Scenario::parse(text).unwrap(), Kind::RoundRobin, 3);
        assert!((summary.mean - 10.0).abs() < 0.3, "{}", summary.mean);
        // Exponential time in system: p99 = ln(100) · mean.
        assert!((summary.p99 - 46.05).abs() < 2.0, "{}", summary.p99);
    }

    #[test]
    fn a_burst_comes_at_once() {
        let text = "about='x'\nrate=1\nduration=0.001\nburst=20\n[[server]]\nservice_ms=5\nconcurrency=1\n";
        assert_eq!(run(&Scenario::parse(text).unwrap(), Kind::LeastConn, 3).sent, 20);
    }

    #[test]
    fn a_second_try_hides_a_failing_server() {
        let text = "about='x'\nrate=100\nduration=50\ntries=2\n[[server]]\ncount=2\nservice_ms=5\nconcurrency=4\n\
                    [[server]]\nservice_ms=5\nconcurrency=4\n[[server.event]]\nat=0\neffect='fail'\nshare=1.0\n";
        let mut scenario = Scenario::parse(text).unwrap();
        assert_eq!(run(&scenario, Kind::RoundRobin, 3).failed, 0);
        scenario.tries = 1;
        let failed = run(&scenario, Kind::RoundRobin, 3).errors();
        assert!((failed - 33.3).abs() < 0.5, "{failed}");
    }

    #[test]
    fn who_leaves_gets_nothing_more_and_sessions_take_no_place() {
        let text = "about='x'\nrate=100\nduration=20\nsession={share=1.0,lasts=100.0}\n\
                    [[server]]\nservice_ms=5\nconcurrency=2\n[[server]]\nservice_ms=5\nconcurrency=2\nleave=10\n";
        let summary = run(&Scenario::parse(text).unwrap(), Kind::RoundRobin, 3);
        assert!((summary.share(1) - 0.25).abs() < 0.02, "{}", summary.share(1));
        assert!(summary.mean < 8.0, "{}", summary.mean);
    }
}
