//! What affinity asks of a long list: the best score, and what one server costs.

use super::{Ask, Long};

impl Long {
    /// The score of the best usable server; follows what has changed meanwhile.
    pub(crate) fn best_score(&mut self, ask: Ask<'_>) -> Option<f32> {
        self.best(ask).map(|(_, weighed)| weighed.score)
    }

    /// What member `i` costs now, and its queue; `None` when it may not be had or is counted out.
    pub(crate) fn cost(&mut self, ask: Ask<'_>, i: usize) -> Option<(f32, u32)> {
        self.weigh(ask, i).filter(|weighed| !weighed.out).map(|weighed| (weighed.score, weighed.q))
    }
}
