//! Smooth weighted round robin over whoever is tied: the order among equals, exact within one worker.
//!
//! Each turn every tied server's current value grows by its weight, the largest is taken and pays the sum back (the rule
//! of nginx's round robin). Here a worker starts at a random turn, so that workers do not march in step.

use crate::rng::Rng;

/// A worker's place in the rotation.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    current: Vec<i64>,
}

impl Rotation {
    /// Starts afresh for servers of these `weights`, at a random turn.
    pub(crate) fn restart(&mut self, weights: &[u32], rng: &mut Rng) {
        self.current.clear();
        self.current.resize(weights.len(), 0);
        let cycle: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        // Turns cost a scan each; some hundred thousand steps are a millisecond, once per change of the list.
        let most = (200_000 / weights.len().max(1) as u64).max(1);
        let turns = (rng.unit() * cycle.min(most) as f64) as u64;
        for _ in 0..turns {
            self.turn(weights, |_| true);
        }
    }

    /// Whose turn it is among the `tied`; `None` when nobody is.
    pub(crate) fn turn(&mut self, weights: &[u32], tied: impl Fn(usize) -> bool) -> Option<usize> {
        let mut round = Round::default();
        for (i, (current, &weight)) in self.current.iter_mut().zip(weights).enumerate() {
            if weight > 0 && tied(i) {
                round.step(i, current, weight);
            }
        }
        self.pay(round)
    }

    /// The same for `tied` indices in rising order: their number is what it costs.
    pub(crate) fn turn_among(&mut self, weights: &[u32], tied: &[u32]) -> Option<usize> {
        let mut round = Round::default();
        for &i in tied {
            let i = i as usize;
            if let (Some(current), Some(&weight)) = (self.current.get_mut(i), weights.get(i).filter(|&&w| w > 0)) {
                round.step(i, current, weight);
            }
        }
        self.pay(round)
    }

    fn pay(&mut self, round: Round) -> Option<usize> {
        let current = self.current.get_mut(round.first)?;
        *current = current.wrapping_sub(round.total);
        Some(round.first)
    }
}

/// One turn while the tied are gone through.
struct Round {
    total: i64,
    /// Whose turn it is so far; no index while nobody's.
    first: usize,
    most: i64,
}

impl Default for Round {
    fn default() -> Self {
        Self { total: 0, first: usize::MAX, most: i64::MIN }
    }
}

impl Round {
    /// Server `i` grows by its weight. Values stay within the sum of all weights, some 2^32 servers from overflowing.
    fn step(&mut self, i: usize, current: &mut i64, weight: u32) {
        *current = current.wrapping_add(i64::from(weight));
        self.total = self.total.wrapping_add(i64::from(weight));
        if *current > self.most {
            (self.first, self.most) = (i, *current);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_over_a_cycle_from_any_phase() {
        for seed in 0..50 {
            let weights = [1, 2, 7];
            let mut rotation = Rotation::default();
            rotation.restart(&weights, &mut Rng::new(seed));
            let mut count = [0; 3];
            for _ in 0..10 {
                count[rotation.turn(&weights, |_| true).unwrap()] += 1;
            }
            assert_eq!(count, [1, 2, 7]);
        }
    }

    #[test]
    fn workers_start_at_different_turns() {
        let weights = [1; 6];
        let first = |seed| {
            let mut rotation = Rotation::default();
            rotation.restart(&weights, &mut Rng::new(seed));
            rotation.turn(&weights, |_| true).unwrap()
        };
        let seen: std::collections::BTreeSet<usize> = (0..60).map(first).collect();
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn weight_zero_has_no_turn() {
        let mut rotation = Rotation::default();
        rotation.restart(&[0, 0], &mut Rng::new(1));
        assert_eq!(rotation.turn(&[0, 0], |_| true), None);
    }
}
