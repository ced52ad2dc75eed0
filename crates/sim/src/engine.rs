//! One run: arrivals, picks, answers, in the order of simulated time.

use crate::policy::{Done, Kind, Policy, Query, Truth};
use crate::queue::Queue;
use crate::scenario::{Scenario, Watch};
use crate::server::{End, Server, Work};
use crate::stats::Summary;
use crate::{MILLI, Nanos, SECOND, stream};
use labor_core::rng::Rng;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    server: u32,
    balancer: u32,
    worker: u32,
    started: Nanos,
    end: End,
}

/// Randomness that does not depend on the policy: the same arrivals and sizes for all.
#[derive(Debug)]
struct Draws {
    arrivals: Rng,
    sizes: Rng,
    places: Rng,
}

#[derive(Debug)]
struct Run<'a> {
    scenario: &'a Scenario,
    servers: Vec<Server>,
    present: Vec<bool>,
    queue: Queue,
    flights: Vec<Flight>,
    vacant: Vec<u32>,
    warm: Nanos,
    watch: Option<(Nanos, Nanos, usize)>,
    summary: Summary,
}

/// Simulates `scenario` under policy `kind`; everything follows from `seed`.
pub fn run(scenario: &Scenario, kind: Kind, seed: u64) -> Summary {
    let mut policies: Vec<_> =
        (0..u64::from(scenario.balancers)).map(|b| kind.build(scenario, stream(seed, 100 + b))).collect();
    let mut run = Run::new(scenario);
    for policy in &mut policies {
        policy.members(&run.present);
    }
    let mut draws = Draws {
        arrivals: Rng::new(stream(seed, 1)),
        sizes: Rng::new(stream(seed, 2)),
        places: Rng::new(stream(seed, 3)),
    };
    let end = (scenario.duration * SECOND) as Nanos;
    let gap = SECOND / scenario.rate;
    let mut burst = scenario.burst;
    let mut clock = if burst > 0 { 0.0 } else { -(1.0 - draws.arrivals.unit()).ln() * gap };
    loop {
        let now = clock as Nanos;
        run.answers(&mut policies, now);
        if now >= end {
            break;
        }
        run.joins(&mut policies, now);
        run.arrival(&mut policies, &mut draws, now);
        burst = burst.saturating_sub(1);
        if burst == 0 {
            clock += -(1.0 - draws.arrivals.unit()).ln() * gap;
        }
    }
    run.answers(&mut policies, Nanos::MAX);
    run.summary.reasons = policies.first().map(|p| p.reasons()).unwrap_or_default();
    run.summary.close();
    run.summary
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let timeout = (scenario.timeout * SECOND) as Nanos;
        // Far beyond the last arrival: queues may take long to drain.
        let horizon = (scenario.duration * 4.0 * SECOND) as Nanos + timeout;
        let servers: Vec<_> = scenario.server.iter().map(|s| Server::new(s, timeout, horizon)).collect();
        let at = |seconds: f64| (seconds * SECOND) as Nanos;
        let window = |w: Watch| (at(w.from), w.until.map_or(Nanos::MAX, at), w.server);
        Self {
            scenario,
            present: servers.iter().map(|s| s.joins == 0).collect(),
            summary: Summary::new(servers.len()),
            servers,
            queue: Queue::default(),
            flights: Vec::new(),
            vacant: Vec::new(),
            warm: at(scenario.warmup),
            watch: scenario.watch.map(window),
        }
    }

    /// Delivers all answers due up to `until`.
    fn answers(&mut self, policies: &mut [Box<dyn Policy>], until: Nanos) {
        while self.queue.next_at().is_some_and(|at| at <= until) {
            let Some((now, id)) = self.queue.pop() else { return };
            let flight = self.flights[id as usize];
            let (server, worker) = (flight.server as usize, flight.worker as usize);
            policies[flight.balancer as usize].done(&Done {
                id,
                server,
                worker,
                started: flight.started,
                now,
                end: flight.end,
            });
            self.servers[server].in_flight -= 1;
            self.vacant.push(id);
            self.summary.answered += 1;
        }
    }

    /// Lets servers join whose time has come.
    fn joins(&mut self, policies: &mut [Box<dyn Policy>], now: Nanos) {
        let mut changed = false;
        for (present, server) in self.present.iter_mut().zip(&self.servers) {
            if !*present && server.joins <= now {
                *present = true;
                changed = true;
            }
        }
        if changed {
            for policy in policies {
                policy.members(&self.present);
            }
        }
    }

    fn arrival(&mut self, policies: &mut [Box<dyn Policy>], draws: &mut Draws, now: Nanos) {
        let size = self.scenario.service.value(draws.sizes.unit(), draws.sizes.unit());
        let work = Work { size, luck: [draws.sizes.unit(), draws.sizes.unit()] };
        let draw = |places: &mut Rng, n: u32| if n == 1 { 0 } else { (places.unit() * f64::from(n)) as u32 };
        let balancer = draw(&mut draws.places, self.scenario.balancers);
        let worker = draw(&mut draws.places, self.scenario.workers);
        let safe = self.scenario.safe >= 1.0 || draws.places.unit() < self.scenario.safe;
        let id = self.vacant.pop().unwrap_or(self.flights.len() as u32);
        let query = Query {
            id,
            now,
            worker: worker as usize,
            safe,
            present: &self.present,
            truth: Truth { servers: &self.servers, work: &work },
        };
        self.summary.sent += 1;
        let Some(server) = policies[balancer as usize].pick(&query) else {
            self.summary.refused += 1;
            self.vacant.push(id);
            if id as usize == self.flights.len() {
                self.flights.push(Flight { server: 0, balancer, worker, started: now, end: End::Status });
            }
            return;
        };
        let (back, end) = self.servers[server].send(now, &work);
        self.servers[server].in_flight += 1;
        let flight = Flight { server: server as u32, balancer, worker, started: now, end };
        match self.flights.get_mut(id as usize) {
            Some(place) => *place = flight,
            None => self.flights.push(flight),
        }
        self.queue.push(back, id);
        let millis = (back - now) as f64 / MILLI;
        if now >= self.warm {
            self.summary.book(server, millis as f32, end);
        }
        if let Some((from, until, watched)) = self.watch
            && (from..until).contains(&now)
        {
            self.summary.watch.book(server == watched, millis, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: &str =
        "about='x'\nrate=1000\nduration=5\nworkers=2\nbalancers=2\n[[server]]\ncount=3\nservice_ms=2\nconcurrency=2\n";

    #[test]
    fn what_goes_in_comes_out_for_every_policy() {
        let scenario = Scenario::parse(LAN).unwrap();
        for kind in Kind::ALL {
            let summary = run(&scenario, kind, 1);
            assert_eq!(summary.sent, summary.answered, "{kind:?}");
            assert_eq!(summary.refused, 0, "{kind:?}");
            assert_eq!(summary.counts.iter().sum::<u64>(), summary.sent, "{kind:?}");
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
        let summary = run(&Scenario::parse(text).unwrap(), Kind::LeastConn, 3);
        assert_eq!(summary.sent, 20);
    }
}
