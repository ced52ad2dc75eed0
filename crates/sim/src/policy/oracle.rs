//! The oracle: knows every queue, every speed to come and this request's size, and sends it where it is back first.
//!
//! It is selfish: it does not count what a request costs those behind it, so a policy that does can beat it.

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
