//! C3's replica ranking (Suresh et al., NSDI 2015): Ψ = R̄ − 1/μ̄ + q̂³/μ̄ with q̂ = 1 + outstanding · clients + q̄.
//!
//! The servers cooperate: every answer says how many requests are left there and how long the work took. The rate
//! control of the paper is left out, as Elasticsearch leaves it out: it limits what is sent, not where.

use super::{Done, Policy, Query};
use crate::server::End;
use labor_core::rng::Rng;

/// Weight of a new value in the averages, as in the paper's simulator.
const ALPHA: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default)]
struct Replica {
    outstanding: u32,
    /// Averages of response time (ns), queue and service time (ns); nothing before the first answer.
    averages: Option<[f64; 3]>,
}

/// The ranking.
#[derive(Debug)]
pub struct C3 {
    replicas: Vec<Replica>,
    clients: f64,
    rng: Rng,
}

impl Replica {
    fn rank(&self, clients: f64) -> f64 {
        // Who has not answered yet is asked first, as far as it has nothing to do yet.
        let Some([response, queue, service]) = self.averages else { return f64::from(self.outstanding) - 1e18 };
        let expected = 1.0 + f64::from(self.outstanding) * clients + queue;
        response - service + expected.powi(3) * service
    }
}

impl C3 {
    /// Over `n` servers that `clients` balancers use.
    pub fn new(n: usize, clients: u32, seed: u64) -> Self {
        Self { replicas: vec![Replica::default(); n], clients: f64::from(clients), rng: Rng::new(seed) }
    }
}

impl Policy for C3 {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let n = self.replicas.len();
        let start = (self.rng.unit() * n as f64) as usize;
        let order = (start..n).chain(0..start).filter(|&i| query.present[i]);
        let ranked = order.map(|i| (self.replicas[i].rank(self.clients), i));
        let (_, chosen) = ranked.min_by(|a, b| a.0.total_cmp(&b.0))?;
        self.replicas[chosen].outstanding += 1;
        Some(chosen)
    }

    fn done(&mut self, done: &Done) {
        let replica = &mut self.replicas[done.server];
        replica.outstanding -= 1;
        if done.end != End::Pass {
            return;
        }
        let values = [(done.now - done.started) as f64, f64::from(done.waiting), done.service as f64];
        replica.averages = Some(match replica.averages {
            None => values,
            Some(old) => core::array::from_fn(|i| ALPHA * values[i] + (1.0 - ALPHA) * old[i]),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{done, pick_at};

    #[test]
    fn the_rank_is_the_papers() {
        let replica = Replica { outstanding: 2, averages: Some([20.0, 1.0, 4.0]) };
        // 20 − 4 + (1 + 2·3 + 1)³·4
        assert_eq!(replica.rank(3.0), 16.0 + 512.0 * 4.0);
    }

    #[test]
    fn a_queue_weighs_with_its_cube() {
        let mut policy = C3::new(2, 1, 1);
        policy.replicas[0].averages = Some([10.0, 0.0, 10.0]);
        policy.replicas[1].averages = Some([40.0, 0.0, 40.0]);
        // 10 against 40, then 80 against 40, then 80 against 320.
        assert_eq!([0; 3].map(|_| pick_at(&mut policy, 2, 0)), [0, 1, 0]);
    }

    #[test]
    fn an_answer_is_averaged_with_what_the_server_says() {
        let mut policy = C3::new(1, 1, 1);
        policy.replicas[0] = Replica { outstanding: 2, averages: Some([100.0, 10.0, 50.0]) };
        policy.done(&Done { service: 150, waiting: 0, ..done(0, 0, 200) });
        let near = policy.replicas[0].averages.unwrap().map(f64::round);
        assert_eq!(near, [190.0, 1.0, 140.0]);
    }
}
