//! Consistent hashing as others have it: ketama's continuum, as nginx's `hash … consistent` walks it, and the same with bounded loads
//! (Mirrokni, Thorup and Zadimoghaddam, 2018): who has more than its bound is passed over.
//!
//! 160 points for each unit of weight. Their hash is MD5 in the original; any good hash gives the same shares.

use super::{Done, Policy, Query};
use labor_core::rng::Rng;

/// Points of a server for each unit of weight.
const POINTS: u32 = 160;

/// See the module.
#[derive(Debug)]
pub struct Ketama {
    continuum: Vec<(u64, usize)>,
    active: Vec<u32>,
    /// How many times the mean a server may have in flight.
    bound: Option<f64>,
}

impl Ketama {
    /// By `weights`; bounded or not.
    pub fn new(weights: Vec<u32>, bound: Option<f64>) -> Self {
        let active = vec![0; weights.len()];
        let mut continuum = Vec::new();
        for (server, weight) in weights.into_iter().enumerate() {
            let mut rng = Rng::new(hash(server as u64));
            continuum.extend((0..weight * POINTS).map(|_| (rng.next_u64(), server)));
        }
        continuum.sort_unstable();
        Self { continuum, active, bound }
    }
}

/// MurmurHash3's finaliser.
fn hash(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ (z >> 33)
}

impl Policy for Ketama {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        // Without keys every request is one of its own.
        let place = hash(query.key.map_or(query.now, u64::from));
        let from = self.continuum.partition_point(|point| point.0 < place);
        let present = query.present.iter().filter(|present| **present).count().max(1) as f64;
        let all = f64::from(self.active.iter().sum::<u32>() + 1);
        let most = self.bound.map_or(f64::INFINITY, |bound| (bound * all / present).ceil());
        let order = self.continuum[from..].iter().chain(&self.continuum[..from]).map(|point| point.1);
        let mut present = order.filter(|&server| query.present[server]);
        let next = present.find(|&server| f64::from(self.active[server]) < most)?;
        self.active[next] += 1;
        Some(next)
    }

    fn done(&mut self, done: &Done) {
        self.active[done.server] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, pick_among, pick_at};

    #[test]
    fn who_leaves_takes_only_its_own_along() {
        let mut policy = Ketama::new(vec![1, 1, 1], None);
        for now in 1..100 {
            let home = pick_at(&mut policy, 3, now);
            answer(&mut policy, home, now, now);
            let after = pick_among(&mut policy, &[true, true, false], now);
            answer(&mut policy, after, now, now);
            assert!(after == home || home == 2);
        }
    }

    #[test]
    fn a_bound_is_kept() {
        let mut policy = Ketama::new(vec![1, 1, 1], Some(1.25));
        assert!((0..60).all(|_| pick_at(&mut policy, 3, 7) < 3));
        assert!(policy.active.iter().all(|&active| active <= 25), "{:?}", policy.active);
        let mut policy = Ketama::new(vec![1, 1, 1], None);
        assert!((0..60).all(|_| pick_at(&mut policy, 3, 7) < 3));
        assert!(policy.active.contains(&60));
    }
}
