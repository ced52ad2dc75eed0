//! nginx's smooth weighted round robin, and the same among equals, which its other methods use for ties.

use super::{Done, Policy, Query};

/// The state of smooth weighted round robin: each server's current weight.
#[derive(Debug)]
pub struct Smooth {
    weights: Vec<i64>,
    current: Vec<i64>,
}

impl Smooth {
    /// All current weights zero, as nginx starts.
    pub fn new(weights: &[u32]) -> Self {
        Self { weights: weights.iter().map(|&w| i64::from(w)).collect(), current: vec![0; weights.len()] }
    }

    /// The next among the servers that `eligible` admits: every one gains its weight, the largest wins and pays the sum.
    pub fn next(&mut self, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut total, mut best) = (0, None::<usize>);
        for i in (0..self.weights.len()).filter(|&i| eligible(i)) {
            self.current[i] += self.weights[i];
            total += self.weights[i];
            if best.is_none_or(|b| self.current[i] > self.current[b]) {
                best = Some(i);
            }
        }
        if let Some(b) = best {
            self.current[b] -= total;
        }
        best
    }
}

/// Round robin.
#[derive(Debug)]
pub struct RoundRobin(Smooth);

impl RoundRobin {
    /// By `weights`.
    pub fn new(weights: Vec<u32>) -> Self {
        Self(Smooth::new(&weights))
    }
}

impl Policy for RoundRobin {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        self.0.next(|i| query.present[i])
    }

    fn done(&mut self, _: &Done) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::pick_at;

    #[test]
    fn five_one_one_is_smooth() {
        // The sequence from nginx's commit that introduced it: a a b a c a a.
        let mut policy = RoundRobin::new(vec![5, 1, 1]);
        let order: Vec<_> = (0..7).map(|_| pick_at(&mut policy, 3, 0)).collect();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
    }
}
