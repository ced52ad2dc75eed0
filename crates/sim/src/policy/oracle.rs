//! The oracles. One knows every queue, every speed to come and this request's size, and sends it where it is back first.
//!
//! It is selfish: it does not count what a request costs those behind it, so a policy that does can beat it.
//! The other is one queue before all servers: what could be reached if requests need not be sent before there is a place.

use super::{Done, Policy, Query};

/// Clairvoyant shortest delay.
#[derive(Debug)]
pub struct Oracle;

impl Policy for Oracle {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let mut best = None::<(usize, u64)>;
        let present = || (0..query.present.len()).filter(|&i| query.present[i]);
        for i in present() {
            if let Some(back) = query.truth.servers[i].foresee(query.now, query.truth.work)
                && best.is_none_or(|(_, first)| back < first)
            {
                best = Some((i, back));
            }
        }
        best.map(|(i, _)| i).or_else(|| present().next())
    }

    fn done(&mut self, _: &Done) {}
}

/// One queue for all: the next place that becomes free gets the first request in line; of several free places the fastest.
///
/// As places, and when they become free, are known, the request can be sent at once: nobody behind it can get there first.
#[derive(Debug)]
pub struct Central;

impl Policy for Central {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let place = |i: usize| {
            let (opens, takes) = query.truth.servers[i].opening(query.now);
            // What is free now is equally free.
            let waits = opens.saturating_sub(query.now) as f64;
            let net = query.truth.servers[i].net() / 2;
            if takes.is_finite() { ((waits - net as f64).max(0.0), takes) } else { (f64::INFINITY, takes) }
        };
        let present = (0..query.present.len()).filter(|&i| query.present[i]);
        present.map(|i| (place(i), i)).min_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1))).map(|p| p.1)
    }

    fn done(&mut self, _: &Done) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ServerSpec;
    use crate::server::{Server, Work};

    fn servers() -> Vec<Server> {
        let spec = |service_ms, concurrency| ServerSpec { service_ms, concurrency, ..ServerSpec::default() };
        [spec(10.0, 1), spec(25.0, 1)].iter().map(|s| Server::new(s, u64::MAX / 4, u64::MAX / 4, 1)).collect()
    }

    fn order(policy: &mut dyn Policy, requests: usize) -> Vec<usize> {
        let mut servers = servers();
        let work = Work { size: 1.0, luck: [0.5, 0.5] };
        let mut one = |_| {
            let truth = super::super::Truth { servers: &servers, work: &work, sent_to: 0 };
            let present = &[true, true];
            let query =
                Query { id: 0, now: 0, worker: 0, safe: true, first: true, key: None, present, tried: &[], truth };
            let server = policy.pick(&query).unwrap();
            servers[server].send(0, &work);
            server
        };
        (0..requests).map(&mut one).collect()
    }

    #[test]
    fn the_oracle_waits_for_the_fast_one() {
        // 10, 20, then 30 against 25, then 30 against 50.
        assert_eq!(order(&mut Oracle, 4), [0, 0, 1, 0]);
    }

    #[test]
    fn a_central_queue_leaves_no_place_empty() {
        // Both are free, the fast one first; then places open at 10, 20 (fast) and 25.
        assert_eq!(order(&mut Central, 5), [0, 1, 0, 0, 1]);
    }
}
