//! nginx-upstream-fair (2007): an idle server in turn; when all are busy the one with the fewest requests by weight, and
//! among these the one that was not picked for longest. Default weight mode; latency plays no part.

use super::{Done, Policy, Query};

/// Bits of the score that hold how long ago a server was picked, in requests.
const COUNTER_BITS: u32 = 20;

#[derive(Clone, Debug)]
struct Peer {
    weight: u64,
    /// The weight, counted down with every pick to 0, then anew; 0 does not divide.
    left: u64,
    requests: u64,
    /// The number of the request it got last.
    last: u64,
}

/// Fair.
#[derive(Debug)]
pub struct Fair {
    peers: Vec<Peer>,
    current: usize,
    total: u64,
}

impl Fair {
    /// By `weights`.
    pub fn new(weights: Vec<u32>) -> Self {
        let peer = |w: u32| Peer { weight: w.into(), left: w.into(), requests: 0, last: 0 };
        let current = weights.len().saturating_sub(1);
        Self { peers: weights.into_iter().map(peer).collect(), current, total: 0 }
    }

    /// Smaller is better.
    fn score(&self, i: usize) -> u64 {
        let peer = &self.peers[i];
        let most = (1 << COUNTER_BITS) - 1;
        let waited = (self.total - peer.last).min(most);
        ((peer.requests << COUNTER_BITS) | (most - waited)) / peer.left.max(1)
    }

    fn choose(&mut self, query: &Query<'_>) -> Option<usize> {
        let n = self.peers.len();
        let order = (1..=n).map(|k| (self.current + k) % n);
        let mut usable = order.filter(|&i| query.present[i]);
        if let Some(idle) = usable.clone().find(|&i| self.peers[i].requests == 0) {
            return Some(idle);
        }
        let first = usable.next()?;
        Some(usable.fold(first, |best, i| if self.score(i) <= self.score(best) { i } else { best }))
    }
}

impl Policy for Fair {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        self.total += 1;
        let chosen = self.choose(query)?;
        self.current = chosen;
        let peer = &mut self.peers[chosen];
        peer.requests += 1;
        peer.last = self.total;
        peer.left = peer.left.checked_sub(1).unwrap_or(peer.weight);
        Some(chosen)
    }

    fn done(&mut self, done: &Done) {
        self.peers[done.server].requests -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, pick_at};

    #[test]
    fn idle_ones_in_turn_then_the_fewest_then_the_longest_unpicked() {
        let mut policy = Fair::new(vec![1; 3]);
        let order: Vec<_> = (0..3).map(|_| pick_at(&mut policy, 3, 0)).collect();
        assert_eq!(order, [0, 1, 2]);
        // All have one: 0 was picked first.
        assert_eq!(pick_at(&mut policy, 3, 0), 0);
        // 2 is idle again.
        answer(&mut policy, 2, 0, 5);
        assert_eq!(pick_at(&mut policy, 3, 5), 2);
        // 0 has two; of 1 and 2, 1 was not picked for longer.
        assert_eq!(pick_at(&mut policy, 3, 5), 1);
    }

    #[test]
    fn the_score_is_requests_before_time_by_weight() {
        let mut policy = Fair::new(vec![1, 2]);
        policy.peers[0].requests = 1;
        policy.peers[1].requests = 1;
        assert_eq!((policy.score(0), policy.score(1)), ((2 << COUNTER_BITS) - 1, (2 << COUNTER_BITS) / 2 - 1));
    }
}
