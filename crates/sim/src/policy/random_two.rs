//! nginx's `random two least_conn`: two distinct servers drawn by weight; the one with fewer connections wins.

use super::{Done, Policy, Query};
use labor_core::rng::Rng;

/// Two random choices by connections.
#[derive(Debug)]
pub struct RandomTwo {
    weights: Vec<u64>,
    conns: Vec<u64>,
    rng: Rng,
}

impl RandomTwo {
    /// By `weights`.
    pub fn new(weights: Vec<u32>, seed: u64) -> Self {
        let conns = vec![0; weights.len()];
        Self { weights: weights.into_iter().map(u64::from).collect(), conns, rng: Rng::new(seed) }
    }

    /// One server by weight among those that `eligible` admits.
    fn draw(&mut self, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let all = || (0..self.weights.len()).filter(|&i| eligible(i) && self.weights[i] > 0);
        let total: u64 = all().map(|i| self.weights[i]).sum();
        let mut left = (self.rng.unit() * total as f64) as u64;
        let mut last = None;
        for i in all() {
            if left < self.weights[i] {
                return Some(i);
            }
            left -= self.weights[i];
            last = Some(i);
        }
        last
    }
}

impl Policy for RandomTwo {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let first = self.draw(|i| query.present[i])?;
        let second = self.draw(|i| query.present[i] && i != first).unwrap_or(first);
        let better = self.conns[second] * self.weights[first] < self.conns[first] * self.weights[second];
        let chosen = if better { second } else { first };
        self.conns[chosen] += 1;
        Some(chosen)
    }

    fn done(&mut self, done: &Done) {
        self.conns[done.server] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, pick_at};

    #[test]
    fn no_server_gets_more_than_two_shares() {
        // Everything but server 0 is busy: it wins each pair it is drawn into, and no more: 2 of n.
        let mut policy = RandomTwo::new(vec![1; 5], 3);
        policy.conns = vec![0, 9, 9, 9, 9];
        let n = 20_000;
        let mut wins = 0;
        for _ in 0..n {
            let server = pick_at(&mut policy, 5, 0);
            wins += u32::from(server == 0);
            answer(&mut policy, server, 0, 1);
        }
        let share = f64::from(wins) / f64::from(n);
        assert!((share - 0.4).abs() < 0.02, "{share}");
    }
}
