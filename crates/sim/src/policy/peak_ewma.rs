//! Peak-EWMA (Finagle, tower, Linkerd): an average that jumps up at once and decays, times the requests in flight + 1.
//!
//! Two random choices, as the originals do, or over all servers, which no original does and which is the strongest peer.

use super::{Done, Policy, Query, any_of};
use crate::{MILLI, Nanos, SECOND};
use labor_core::rng::Rng;

/// Linkerd's time constant, ns.
const DECAY: f64 = 10.0 * SECOND;
/// Linkerd's first estimate, ns.
const INITIAL: f64 = 30.0 * MILLI;

#[derive(Clone, Copy, Debug)]
struct Estimate {
    cost: f64,
    at: Nanos,
    pending: u32,
}

impl Estimate {
    /// Folds in a response time (0 on reading: the estimate sinks with silence).
    fn update(&mut self, time: f64, now: Nanos) {
        if time > self.cost {
            self.cost = time;
        } else {
            let keep = (-((now - self.at) as f64) / DECAY).exp();
            self.cost = self.cost * keep + time * (1.0 - keep);
        }
        self.at = now;
    }

    fn load(&mut self, now: Nanos) -> f64 {
        self.update(0.0, now);
        self.cost * f64::from(self.pending + 1)
    }
}

/// Peak-EWMA.
#[derive(Debug)]
pub struct PeakEwma {
    peers: Vec<Estimate>,
    two: bool,
    rng: Rng,
    /// Where the scan over all begins: equals take turns.
    start: usize,
}

impl PeakEwma {
    /// Over `n` servers, `two` random ones or all.
    pub fn new(n: usize, two: bool, seed: u64) -> Self {
        Self { peers: vec![Estimate { cost: INITIAL, at: 0, pending: 0 }; n], two, rng: Rng::new(seed), start: 0 }
    }

    fn choose(&mut self, query: &Query<'_>) -> Option<usize> {
        let (present, n) = (query.present, self.peers.len());
        if self.two {
            let first = any_of(n, &mut self.rng, |i| present[i])?;
            let Some(second) = any_of(n, &mut self.rng, |i| present[i] && i != first) else { return Some(first) };
            let (a, b) = (self.peers[first].load(query.now), self.peers[second].load(query.now));
            return Some(if b < a { second } else { first });
        }
        self.start = (self.start + 1) % n;
        let mut best = None::<(usize, f64)>;
        for i in (self.start..n).chain(0..self.start).filter(|&i| present[i]) {
            let load = self.peers[i].load(query.now);
            if best.is_none_or(|(_, least)| load < least) {
                best = Some((i, load));
            }
        }
        best.map(|(i, _)| i)
    }
}

impl Policy for PeakEwma {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let chosen = self.choose(query)?;
        self.peers[chosen].pending += 1;
        Some(chosen)
    }

    fn done(&mut self, done: &Done) {
        let peer = &mut self.peers[done.server];
        peer.pending -= 1;
        peer.update((done.now - done.started) as f64, done.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, pick_at};

    #[test]
    fn jumps_up_at_once_and_sinks_slowly() {
        let mut estimate = Estimate { cost: 10.0 * MILLI, at: 0, pending: 0 };
        estimate.update(100.0 * MILLI, 0);
        assert!((estimate.cost - 100.0 * MILLI).abs() < 1.0);
        // After one time constant of silence 1/e is left.
        let load = estimate.load(DECAY as Nanos);
        assert!((load / MILLI - 36.79).abs() < 0.01, "{load}");
    }

    #[test]
    fn cost_is_time_times_pending_plus_one() {
        let mut policy = PeakEwma::new(2, false, 1);
        policy.peers[0].cost = 10.0 * MILLI;
        policy.peers[1].cost = 25.0 * MILLI;
        // 10, 20 against 25; then 30.
        let order: Vec<_> = (0..3).map(|_| pick_at(&mut policy, 2, 0)).collect();
        assert_eq!(order, [0, 0, 1]);
    }

    #[test]
    fn two_choices_cap_the_share() {
        let mut policy = PeakEwma::new(5, true, 1);
        policy.peers[0].cost = MILLI;
        let mut wins = 0;
        for _ in 0..10_000 {
            let server = pick_at(&mut policy, 5, 0);
            wins += usize::from(server == 0);
            policy.peers[server].pending -= 1;
        }
        assert!((3800..4200).contains(&wins), "{wins}");
        policy.peers[0].pending = 1;
        answer(&mut policy, 0, 0, 50);
        assert!((policy.peers[0].cost - 50.0 * MILLI).abs() < 1.0);
    }
}
