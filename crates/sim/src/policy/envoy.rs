//! Envoy's LEAST_REQUEST. Equal weights: two random choices (with replacement), fewer active requests win. Unequal
//! weights: a schedule by earliest deadline with weight/(active + 1), where the weight is read when a server is put back.

use super::{Done, Policy, Query, any_of};
use labor_core::rng::Rng;

/// Least request.
#[derive(Debug)]
pub struct LeastRequest {
    weights: Vec<f64>,
    active: Vec<u32>,
    /// When each server's turn comes, and the turn that was last.
    deadlines: Option<(Vec<f64>, f64)>,
    rng: Rng,
}

impl LeastRequest {
    /// By `weights`.
    pub fn new(weights: Vec<u32>, seed: u64) -> Self {
        let equal = weights.windows(2).all(|w| w[0] == w[1]);
        let active = vec![0; weights.len()];
        let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
        let deadlines = (!equal).then(|| (weights.iter().map(|w| 1.0 / w.max(1e-9)).collect(), 0.0));
        Self { weights, active, deadlines, rng: Rng::new(seed) }
    }

    fn choose(&mut self, present: &[bool]) -> Option<usize> {
        let n = self.active.len();
        let Some((deadlines, clock)) = &mut self.deadlines else {
            let first = any_of(n, &mut self.rng, |i| present[i])?;
            let second = any_of(n, &mut self.rng, |i| present[i])?;
            return Some(if self.active[second] < self.active[first] { second } else { first });
        };
        let next = (0..n).filter(|&i| present[i]).min_by(|&a, &b| deadlines[a].total_cmp(&deadlines[b]))?;
        *clock = deadlines[next].max(*clock);
        deadlines[next] = *clock + f64::from(self.active[next] + 1) / self.weights[next].max(1e-9);
        Some(next)
    }
}

impl Policy for LeastRequest {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let chosen = self.choose(query.present)?;
        self.active[chosen] += 1;
        Some(chosen)
    }

    fn done(&mut self, done: &Done) {
        self.active[done.server] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, pick_at};

    #[test]
    fn with_replacement_the_busier_of_two_gets_a_quarter() {
        let mut policy = LeastRequest::new(vec![1, 1], 5);
        policy.active = vec![0, 9];
        let n = 20_000;
        let mut busier = 0;
        for _ in 0..n {
            let server = pick_at(&mut policy, 2, 0);
            busier += u32::from(server == 1);
            answer(&mut policy, server, 0, 1);
        }
        let share = f64::from(busier) / f64::from(n);
        assert!((share - 0.25).abs() < 0.02, "{share}");
    }

    #[test]
    fn weights_are_a_schedule_that_what_is_active_slows() {
        let mut policy = LeastRequest::new(vec![2, 1], 5);
        // Deadlines 1/2 and 1. First 0, then due at 1/2 + 1/2 (idle when put back): a tie at 1, the first again, with one
        // active due at 1 + 2/2; then 1 at 1, due at 2; then 0 at 2 with two active.
        let order: Vec<_> = (0..4).map(|_| pick_at(&mut policy, 2, 0)).collect();
        assert_eq!(order, [0, 0, 1, 0]);
    }
}
