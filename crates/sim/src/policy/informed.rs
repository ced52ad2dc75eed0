//! What could be reached without seeing the future: the true parameters and everybody's requests in flight, at the price
//! that one more request has for all, `mean · max(1, (n + 1)/k)² + network` (selfish up to k, marginal beyond).
//!
//! Between this and the oracle lies what only knowing each request's size can give.

use super::{Done, Policy, Query};

/// Shortest expected delay with true parameters.
#[derive(Debug)]
pub struct Informed;

impl Policy for Informed {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let price = |i: usize| query.truth.servers[i].price(query.now);
        (0..query.present.len()).filter(|&i| query.present[i]).min_by(|&a, &b| price(a).total_cmp(&price(b)))
    }

    fn done(&mut self, _: &Done) {}
}
