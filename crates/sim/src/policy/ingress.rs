//! ingress-nginx's `ewma`: two random servers, the one with the smaller average wins; requests in flight play no part.
//!
//! The average decays to 0 while a server is silent, and what nginx adds up as an answer's time holds the connect time
//! twice; connections are kept alive here, so it is 0. Failures and time-outs are samples like any other. New servers
//! start with the average of the others.

use super::{Done, Policy, Query, any_of};
use crate::{Nanos, SECOND};
use labor_core::rng::Rng;

/// Time constant, ns.
const DECAY: f64 = 10.0 * SECOND;

#[derive(Clone, Copy, Debug, Default)]
struct Average {
    value: f64,
    at: Nanos,
    known: bool,
}

impl Average {
    fn decayed(&self, sample: f64, now: Nanos) -> f64 {
        let keep = (-((now - self.at) as f64) / DECAY).exp();
        self.value * keep + sample * (1.0 - keep)
    }
}

/// The averages.
#[derive(Debug)]
pub struct Ewma {
    peers: Vec<Average>,
    rng: Rng,
}

impl Ewma {
    /// Over `n` servers.
    pub fn new(n: usize, seed: u64) -> Self {
        Self { peers: vec![Average::default(); n], rng: Rng::new(seed) }
    }
}

impl Policy for Ewma {
    fn members(&mut self, present: &[bool]) {
        let known: Vec<f64> = self.peers.iter().filter(|p| p.known).map(|p| p.value).collect();
        if known.is_empty() {
            return;
        }
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let at = self.peers.iter().map(|p| p.at).max().unwrap_or(0);
        for (peer, _) in self.peers.iter_mut().zip(present).filter(|(peer, here)| **here && !peer.known) {
            *peer = Average { value: mean, at, known: true };
        }
    }

    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let n = self.peers.len();
        let first = any_of(n, &mut self.rng, |i| query.present[i])?;
        let Some(second) = any_of(n, &mut self.rng, |i| query.present[i] && i != first) else { return Some(first) };
        let score = |i: usize| self.peers[i].decayed(0.0, query.now);
        Some(if score(second) < score(first) { second } else { first })
    }

    fn done(&mut self, done: &Done) {
        let peer = &mut self.peers[done.server];
        let value = peer.decayed((done.now - done.started) as f64, done.now);
        *peer = Average { value, at: done.now, known: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, pick_at};

    #[test]
    fn a_sample_weighs_by_the_time_since_the_last_one() {
        let mut policy = Ewma::new(2, 1);
        policy.peers[0] = Average { value: 100.0, at: 0, known: true };
        // After one time constant: 100/e + 10 ms · (1 − 1/e).
        answer(&mut policy, 0, 9_990, 10_000);
        let expected = 100.0 / 1f64.exp() + 1e7 * (1.0 - 1.0 / 1f64.exp());
        assert!((policy.peers[0].value - expected).abs() < 1.0, "{}", policy.peers[0].value);
    }

    #[test]
    fn the_better_of_two_wins_whatever_it_has_in_flight() {
        let mut policy = Ewma::new(2, 1);
        policy.peers[0] = Average { value: 5e6, at: 0, known: true };
        policy.peers[1] = Average { value: 6e6, at: 0, known: true };
        assert!((0..50).all(|_| pick_at(&mut policy, 2, 1) == 0));
    }

    #[test]
    fn who_joins_starts_with_the_mean() {
        let mut policy = Ewma::new(3, 1);
        policy.peers[0] = Average { value: 5.0, at: 0, known: true };
        policy.peers[1] = Average { value: 15.0, at: 9, known: true };
        policy.members(&[true; 3]);
        assert_eq!((policy.peers[2].value, policy.peers[2].at), (10.0, 9));
    }
}
