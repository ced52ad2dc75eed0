//! nginx's least_conn: fewest connections by weight; smooth weighted round robin among exact equals.

use super::swrr::Smooth;
use super::{Done, Policy, Query};

/// Least connections.
#[derive(Debug)]
pub struct LeastConn {
    weights: Vec<u64>,
    conns: Vec<u64>,
    ties: Smooth,
}

impl LeastConn {
    /// By `weights`.
    pub fn new(weights: Vec<u32>) -> Self {
        let ties = Smooth::new(&weights);
        Self { conns: vec![0; weights.len()], weights: weights.into_iter().map(u64::from).collect(), ties }
    }
}

impl Policy for LeastConn {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let (conns, weights) = (&self.conns, &self.weights);
        // conns_a / w_a against conns_b / w_b, without a division, as nginx does.
        let against = |a: usize, b: usize| (conns[a] * weights[b]).cmp(&(conns[b] * weights[a]));
        let mut best = None::<usize>;
        let mut many = false;
        for i in (0..conns.len()).filter(|&i| query.present[i]) {
            match best.map_or(core::cmp::Ordering::Less, |b| against(i, b)) {
                core::cmp::Ordering::Less => (best, many) = (Some(i), false),
                core::cmp::Ordering::Equal => many = true,
                core::cmp::Ordering::Greater => {}
            }
        }
        let first = best?;
        let chosen = if many {
            self.ties.next(|i| query.present[i] && against(i, first).is_eq()).unwrap_or(first)
        } else {
            first
        };
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
    fn fewest_by_weight_then_in_turn() {
        let mut policy = LeastConn::new(vec![2, 1]);
        // Equal at (0, 0): the heavier first; then 1/2 against 0/1; then 1/2 against 1/1; then a tie at 2/2 and 1/1.
        let order: Vec<_> = (0..3).map(|_| pick_at(&mut policy, 2, 0)).collect();
        assert_eq!(order, [0, 1, 0]);
        answer(&mut policy, 1, 0, 5);
        assert_eq!(pick_at(&mut policy, 2, 5), 1);
    }

    #[test]
    fn latency_means_nothing() {
        let mut policy = LeastConn::new(vec![1, 1]);
        let mut counts = [0; 2];
        for t in 0..100 {
            let server = pick_at(&mut policy, 2, t * 1000);
            answer(&mut policy, server, t * 1000, t * 1000 + if server == 0 { 1 } else { 900 });
            counts[server] += 1;
        }
        assert_eq!(counts, [50, 50]);
    }
}
