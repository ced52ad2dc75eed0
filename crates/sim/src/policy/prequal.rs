//! Prequal's asynchronous mode (Wydrowski et al., NSDI 2024): a pool of probe answers, and the hot-cold rule over it.
//!
//! The servers cooperate: a probe says how many requests are in flight there (from all balancers) and the median of what
//! recent answers took at about as many. Probes cost the servers nothing here, and are read when they are sent but used
//! one network time later. The paper's pool is far smaller than the fleet; with few servers it holds half of them.

use super::{Done, Policy, Query, any_of};
use crate::{Nanos, SECOND};
use labor_core::rng::Rng;
use std::collections::VecDeque;

/// Probe answers kept.
const POOL: usize = 16;
/// Probes per request.
const PROBES: usize = 3;
/// Answers removed per request, beside those used up or too old.
const REMOVED: f64 = 1.0;
/// δ of the reuse budget.
const DELTA: f64 = 1.0;
/// Answers older than this are gone.
const AGE: f64 = SECOND;
/// Servers above this quantile of requests in flight are hot: 2^−0.25.
const QUANTILE: f64 = 0.84;
/// Values the quantile is taken of.
const RECENT: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe {
    server: usize,
    /// When its answer is here.
    at: Nanos,
    in_flight: u32,
    latency: f32,
    uses: f64,
}

/// One balancer's pool.
#[derive(Debug)]
pub struct Prequal {
    n: usize,
    pool: Vec<Probe>,
    coming: VecDeque<Probe>,
    recent: VecDeque<u32>,
    /// The next one to go is the worst, not the oldest.
    worst_next: bool,
    rng: Rng,
}

impl Prequal {
    /// Over `n` servers.
    pub fn new(n: usize, seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { n, pool: Vec::new(), coming: VecDeque::new(), recent: VecDeque::new(), worst_next: false, rng }
    }

    fn most(&self) -> usize {
        POOL.min(self.n.div_ceil(2)).max(2)
    }

    /// How often an answer may be used.
    fn budget(&self) -> f64 {
        let (m, n) = (self.most() as f64, self.n as f64);
        let gained = (1.0 - m / n) * PROBES as f64 - REMOVED;
        if gained > 0.0 { ((1.0 + DELTA) / gained).max(1.0) } else { f64::INFINITY }
    }

    /// The number in flight above which a server is hot.
    fn hot_above(&self) -> u32 {
        let mut sorted: Vec<_> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() as f64 * QUANTILE).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(u32::MAX)
    }

    /// Takes in the answers that have come and drops the old ones.
    fn refresh(&mut self, now: Nanos) {
        let budget = self.budget();
        while let Some(probe) = self.coming.front().copied().filter(|p| p.at <= now) {
            self.coming.pop_front();
            if self.pool.len() >= self.most() {
                // The oldest stands first.
                self.pool.remove(0);
            }
            self.pool.push(Probe { uses: budget, ..probe });
            self.recent.push_back(probe.in_flight);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
        self.pool.retain(|p| (now - p.at) as f64 <= AGE);
    }

    /// Hot ones by requests in flight, cold ones by latency; every cold one before every hot one.
    fn best(&self, usable: impl Fn(usize) -> bool) -> Option<usize> {
        let bar = self.hot_above();
        let key = |p: &Probe| if p.in_flight > bar { (true, p.in_flight as f32) } else { (false, p.latency) };
        let order = |a: &Probe, b: &Probe| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1));
        (0..self.pool.len())
            .filter(|&i| usable(self.pool[i].server))
            .min_by(|&a, &b| order(&self.pool[a], &self.pool[b]))
    }

    /// Removes the oldest and the worst in turn, or else the pool fills with bad news.
    fn remove_one(&mut self) {
        let bar = self.hot_above();
        self.worst_next = !self.worst_next;
        if self.pool.len() <= 2 {
            return;
        }
        let key = |p: &Probe| if p.in_flight > bar { (true, p.in_flight as f32) } else { (false, p.latency) };
        let order = |a: &Probe, b: &Probe| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1));
        let worst = (0..self.pool.len()).max_by(|&a, &b| order(&self.pool[a], &self.pool[b]));
        self.pool.remove(if self.worst_next { worst.unwrap_or(0) } else { 0 });
    }

    fn probe(&mut self, query: &Query<'_>) {
        for _ in 0..PROBES.min(self.n) {
            let Some(server) = any_of(self.n, &mut self.rng, |i| query.present[i]) else { return };
            let Some(truth) = query.truth.servers.get(server) else { return };
            let (in_flight, latency) = truth.report();
            let at = query.now + truth.net();
            let probe = Probe { server, at, in_flight, latency: latency.unwrap_or(0.0), uses: 0.0 };
            // Networks differ: answers come in another order than probes go out.
            let place = self.coming.partition_point(|p| p.at <= at);
            self.coming.insert(place, probe);
        }
    }
}

impl Policy for Prequal {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        self.refresh(query.now);
        let found = if self.pool.len() < 2 { None } else { self.best(|i| query.present[i]) };
        let chosen = match found {
            Some(i) => {
                let probe = &mut self.pool[i];
                // What is sent there is known before the next probe says it.
                probe.in_flight += 1;
                probe.uses -= 1.0;
                let server = probe.server;
                if probe.uses < 1.0 {
                    self.pool.remove(i);
                }
                server
            }
            None => any_of(self.n, &mut self.rng, |i| query.present[i])?,
        };
        self.remove_one();
        self.probe(query);
        Some(chosen)
    }

    fn done(&mut self, _: &Done) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::pick_at;

    fn with(pool: &[(usize, u32, f32)]) -> Prequal {
        let mut policy = Prequal::new(100, 1);
        let probe = |&(server, in_flight, latency)| Probe { server, at: 0, in_flight, latency, uses: 9.0 };
        policy.pool = pool.iter().map(probe).collect();
        policy.recent = (0..20).collect();
        policy
    }

    #[test]
    fn cold_by_latency_then_hot_by_requests() {
        // 84 % of 0 to 19 are at or below 16.
        let mut policy = with(&[(1, 17, 1.0), (2, 3, 9.0), (3, 16, 8.0), (4, 18, 0.5)]);
        assert_eq!(policy.hot_above(), 16);
        // The cold one with the smaller latency; that makes it hot, so next the other cold one.
        assert_eq!(pick_at(&mut policy, 100, 0), 3);
        assert_eq!(pick_at(&mut policy, 100, 0), 2);
        let hot = with(&[(1, 18, 1.0), (4, 17, 50.0)]);
        assert_eq!(hot.best(|_| true).map(|i| hot.pool[i].server), Some(4));
    }

    #[test]
    fn the_reuse_budget_is_the_papers() {
        // max(1, 2/((1 − 16/100)·3 − 1)) = 1.3158
        assert!((Prequal::new(100, 1).budget() - 1.3158).abs() < 1e-4);
        assert_eq!(Prequal::new(1000, 1).budget(), (2.0f64 / (0.984 * 3.0 - 1.0)).max(1.0));
    }

    #[test]
    fn old_answers_are_dropped_and_then_chance_decides() {
        let mut policy = with(&[(1, 0, 1.0), (2, 0, 2.0)]);
        policy.refresh(999_000_000);
        assert_eq!(policy.pool.len(), 2);
        policy.refresh(1_001_000_000);
        assert!(policy.pool.is_empty());
    }

    #[test]
    fn the_oldest_and_the_worst_go_in_turn() {
        let mut policy = with(&[(1, 0, 1.0), (2, 19, 1.0), (3, 0, 5.0), (4, 18, 1.0)]);
        policy.remove_one();
        assert!(policy.pool.iter().all(|p| p.server != 2), "the hottest is the worst");
        policy.remove_one();
        assert!(policy.pool.iter().all(|p| p.server != 1), "the first is the oldest");
    }
}
