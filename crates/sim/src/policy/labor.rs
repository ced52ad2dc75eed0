//! The production core, called as the module calls it: pick, begin, header, finish, settle.

use super::{Curve, Done, Policy, Query};
use crate::server::End;
use crate::stream;
use crate::{Nanos, Scenario};
use labor_core::affinity::{Affinity, Asked, Keyed, Secret};
use labor_core::params::BreakerParams;
use labor_core::report::{Explanation, explain, tail};
use labor_core::sync::Ordering;
use labor_core::{
    Attempt, Balancer, Candidate, Cell, Failure, Fit, Group, Member, Outcome, Params, Peer, Reason, Request, Shared,
};

/// Where the simulated clock begins, µs: 0 means "never" to the core, and a machine has been up for a while.
const EPOCH: u64 = 1_000_000_000;

/// One balancer: shared memory, and each worker's own view.
#[derive(Debug)]
pub struct Labor {
    params: Params,
    weights: Vec<u32>,
    group: Group,
    peers: Vec<Peer>,
    /// One row of cells per worker.
    cells: Vec<Vec<Cell>>,
    workers: Vec<Balancer>,
    /// Each worker's view of where keys belong; none when they are not asked for.
    keyed: Vec<Keyed>,
    /// Member index to server.
    servers: Vec<usize>,
    candidates: Vec<Candidate>,
    /// Attempts under way, by request.
    attempts: Vec<Option<Attempt>>,
    /// The last change that was told of each server, and how many there were.
    told: Vec<u64>,
    changes: u64,
    /// Latest time seen, µs.
    now: u64,
}

fn micros(at: Nanos) -> u64 {
    EPOCH + at / 1000
}

impl Labor {
    /// With the directive's defaults and what `scenario` asks for, servers by `weights`, and the workers that share what is learned.
    pub fn new(scenario: &Scenario, weights: Vec<u32>, seed: u64) -> Self {
        let workers = scenario.workers as usize;
        let params = Params {
            breaker: scenario.breaker.then(BreakerParams::default),
            slow_start: (scenario.slow_start * 1e6) as u64,
            ..Params::default()
        };
        let n = weights.len();
        Self {
            params,
            weights,
            group: Group::default(),
            peers: (0..n).map(|_| Peer::default()).collect(),
            cells: (0..workers).map(|_| (0..n).map(|_| Cell::default()).collect()).collect(),
            workers: (0..workers as u64).map(|w| Balancer::new(params, stream(seed, w))).collect(),
            keyed: Vec::new(),
            servers: Vec::new(),
            candidates: Vec::new(),
            attempts: Vec::new(),
            told: vec![0; n],
            changes: 0,
            now: EPOCH,
        }
    }

    /// The same, asking every server of a list however long it is.
    pub fn scanning(mut self) -> Self {
        self.workers.iter_mut().for_each(Balancer::scan_always);
        self
    }
}

impl Labor {
    /// The same with requests kept at home by key, by the directive's defaults.
    pub fn keyed(mut self) -> Self {
        self.keyed = self.workers.iter().map(|_| Keyed::new(Affinity::default())).collect();
        self
    }
}

impl Policy for Labor {
    fn members(&mut self, present: &[bool]) {
        self.servers = (0..present.len()).filter(|&i| present[i]).collect();
        let members: Vec<_> =
            self.servers.iter().map(|&i| Member { slot: Some(i as u32), weight: self.weights[i] }).collect();
        self.candidates = vec![Candidate { fit: Fit::Usable, conns: 0 }; members.len()];
        for worker in &mut self.workers {
            worker.set_members(&members);
        }
        let servers: Vec<_> = self.servers.iter().map(|&i| (i as u64, self.weights[i])).collect();
        for keyed in &mut self.keyed {
            keyed.set(Secret::of(b"simulated, not secret"), &servers);
        }
    }

    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let now = micros(query.now);
        let shared = Shared { group: &self.group, peers: &self.peers, cells: &self.cells[query.worker] };
        let request = Request { first: query.first, safe: query.safe, backup: false, spare: false };
        let tried = |index: usize| query.tried.iter().any(|&t| self.servers.get(index) == Some(&(t as usize)));
        if !query.tried.is_empty() {
            let fits = self.candidates.iter_mut().enumerate();
            fits.filter(|(i, _)| tried(*i)).for_each(|(_, c)| c.fit = Fit::Unfit);
        }
        let worker = &mut self.workers[query.worker];
        let (candidates, keyed) = (&self.candidates, self.keyed.get_mut(query.worker));
        let choice = match keyed.zip(query.key) {
            Some((keyed, number)) => {
                let key = keyed.key(&number.to_le_bytes());
                let stand = &|i: usize, _| candidates[i];
                worker.pick_keyed(keyed, shared, Asked { key, request, candidates, stand }, now)
            }
            None => worker.pick(shared, candidates, request, now),
        };
        let choice = choice.or_else(|| worker.least_bad(shared, &self.candidates, now));
        if !query.tried.is_empty() {
            self.candidates.iter_mut().for_each(|c| c.fit = Fit::Usable);
        }
        let choice = choice?;
        self.now = now;
        let attempt = Attempt::begin(shared, &choice, now);
        let id = query.id as usize;
        if self.attempts.len() <= id {
            self.attempts.resize_with(id + 1, || None);
        }
        self.attempts[id] = Some(attempt);
        self.servers.get(choice.index).copied()
    }

    fn header(&mut self, done: &Done) {
        let Some(attempt) = self.attempts.get_mut(done.id as usize).and_then(Option::as_mut) else { return };
        let shared = Shared { group: &self.group, peers: &self.peers, cells: &self.cells[done.worker] };
        // A session becomes a tunnel, as an upgraded connection does.
        attempt.header(shared, &self.params, 101, true, micros(done.now));
    }

    fn done(&mut self, done: &Done) {
        let Some(mut attempt) = self.attempts.get_mut(done.id as usize).and_then(Option::take) else { return };
        let now = micros(done.now);
        let shared = Shared { group: &self.group, peers: &self.peers, cells: &self.cells[done.worker] };
        let outcome = match done.end {
            End::Pass => Outcome::Pass,
            End::Status => Outcome::Fail(Failure::Status),
            End::Timeout => Outcome::Fail(Failure::Timeout),
        };
        if done.end != End::Timeout {
            let status = if done.end == End::Pass { 200 } else { 500 };
            attempt.header(shared, &self.params, status, false, now);
        }
        let receipt = attempt.finish(shared, &self.params, outcome, now);
        self.workers[done.worker].settle(shared, &receipt);
        let (told, last) = (&mut self.told[done.server], self.peers[done.server].last_change.load(Ordering::Relaxed));
        self.changes += u64::from(*told != last);
        *told = last;
    }

    fn changes(&self) -> Option<u64> {
        Some(self.changes)
    }

    fn curves(&self) -> Vec<Curve> {
        let Some((worker, cells)) = self.workers.first().zip(self.cells.first()) else { return Vec::new() };
        let shared = Shared { group: &self.group, peers: &self.peers, cells };
        let all = explain(shared, worker.members(), &self.params, self.now);
        // Curves are means of logarithms; this makes them means.
        let tail = f64::from(tail(shared, worker.members(), &self.params, self.now));
        let curve = |(e, &server): (&Explanation, &usize)| Curve {
            server,
            points: e.curve.iter().map(|p| (p.in_flight, p.latency_us * tail / 1000.0, p.evidence)).collect(),
        };
        all.iter().zip(&self.servers).map(curve).collect()
    }

    fn reasons(&self) -> Vec<(usize, &'static str, u64)> {
        let of = |(i, peer): (usize, &Peer)| {
            Reason::ALL.map(|r| (i, r.name(), peer.picks[r as usize].load(Ordering::Relaxed)))
        };
        self.peers.iter().enumerate().flat_map(of).filter(|r| r.2 > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, pick_at};

    #[test]
    fn in_flight_is_taken_and_given_back() {
        let mut policy = Labor::new(&Scenario { workers: 1, ..Scenario::default() }, vec![1, 1], 1);
        policy.members(&[true, true]);
        let server = pick_at(&mut policy, 2, 0);
        assert_eq!(policy.peers[server].queue(), 1);
        answer(&mut policy, server, 0, 5);
        assert_eq!(policy.peers.iter().map(Peer::queue).sum::<u32>(), 0);
    }

    #[test]
    fn only_present_servers_are_picked() {
        let mut policy = Labor::new(&Scenario { workers: 1, ..Scenario::default() }, vec![1, 1, 1], 1);
        policy.members(&[false, true, false]);
        assert_eq!(pick_at(&mut policy, 3, 0), 1);
    }
}
