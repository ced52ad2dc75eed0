//! The order of a long list as one number per server: score in classes of a tie, then queue by weight, then turn.
//!
//! Turns are virtual time (stride scheduling; Waldspurger and Weihl, 1995): who is picked moves on by the inverse of its weight,
//! and nobody who was away catches up. So equal servers share by weight, as in [`crate::rotation`], at no cost that grows
//! with how many are equal.

use super::{Ask, Long};
use crate::balancer::Member;
use crate::evidence::LOWERED;
use crate::params::Policy;
use crate::peer::Peer;
use crate::ramp;
use crate::rng::Rng;
use crate::score::{AT_CAP, TIE, at_cap, cap};
use crate::sync::Ordering;

/// Class of a score of −16 (ln seconds; 0.1 µs): nothing is faster.
const FASTEST: f32 = -16.0;
/// Classes above this one are those of servers at their caps.
const CAPPED: u64 = 0x8000;
/// Virtual time of one turn of a server of average weight.
const TURN: f64 = 4096.0;
/// Weights differ by at most this factor from the mean as far as turns are concerned; others round up to it.
const LONGEST_TURN: f64 = 16_777_216.0;
/// When the clock comes here it starts afresh: room for two of the longest turns is left.
const CLOCK_MOST: u32 = 1 << 31;

/// The class of a score: equals are in the same one, better ones in a smaller one, from 1 on.
fn class(score: f32) -> u64 {
    let of = |score: f32| (((score - FASTEST) / TIE) as u64).clamp(1, CAPPED - 1);
    match score {
        s if s.is_nan() => 2 * CAPPED - 1,
        s if at_cap(s) => CAPPED + of(s - AT_CAP),
        s => of(s),
    }
}

/// Score and queue by weight as the high half of a key. `None` for `score`: equal to all that are idle.
pub(crate) fn standing(score: Option<f32>, load: f32) -> u64 {
    // The highest bits of a positive f32 sort like the number: eight of them are exponent, eight mantissa.
    score.map_or(0, class) << 48 | u64::from(load.max(0.0).to_bits() >> 15 & 0xffff) << 32
}

/// The standing that a key begins with.
pub(crate) fn standing_of(key: u64) -> u64 {
    key >> 32
}

/// Whose turn it is among equals.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// When each server's next turn is, and how far apart its turns are.
    next: Vec<u32>,
    stride: Vec<u32>,
    clock: u32,
}

impl Turns {
    /// Starts afresh at a random turn of every server, so that workers do not march in step.
    pub(crate) fn restart(&mut self, members: &[Member], rng: &mut Rng) {
        self.clock = 0;
        self.reweigh(members);
        self.next.clear();
        self.next.extend(self.stride.iter().map(|&stride| (rng.unit() * f64::from(stride)) as u32));
    }

    /// Other weights for the same members.
    pub(crate) fn reweigh(&mut self, members: &[Member]) {
        let heavy = members.iter().filter(|m| m.weight > 0);
        let mean = heavy.clone().map(|m| f64::from(m.weight)).sum::<f64>() / heavy.count().max(1) as f64;
        let stride = |m: &Member| (TURN * mean / f64::from(m.weight.max(1))).clamp(1.0, LONGEST_TURN) as u32;
        self.stride.clear();
        self.stride.extend(members.iter().map(stride));
    }

    /// The turn of server `i`: the low half of its key.
    pub(crate) fn of(&self, i: usize) -> u64 {
        self.next.get(i).copied().map_or(0, u64::from)
    }

    /// Server `i` takes its turn; says whether the clock started afresh, which moves everybody's.
    pub(crate) fn take(&mut self, i: usize) -> bool {
        let (Some(next), Some(stride)) = (self.next.get_mut(i), self.stride.get(i)) else { return false };
        let at = (*next).max(self.clock);
        self.clock = at;
        *next = at.saturating_add(*stride);
        if self.clock < CLOCK_MOST {
            return false;
        }
        self.next.iter_mut().for_each(|next| *next = next.saturating_sub(CLOCK_MOST));
        self.clock = 0;
        true
    }
}

/// What came of weighing a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weighed {
    pub(super) score: f32,
    pub(super) base: f32,
    pub(super) latency: f32,
    pub(super) q: u32,
    /// Idle, in an order by queue alone: equal to all others that are.
    pub(super) even: bool,
    /// Counted out by nginx, by a breaker or by checks.
    pub(super) out: bool,
    /// By checks: no trials either.
    pub(super) unhealthy: bool,
    pub(super) failure: f32,
}

impl Weighed {
    /// Failing, or counted out.
    pub(super) fn lowered(&self) -> bool {
        self.out || self.failure > LOWERED
    }
}

impl Long {
    /// Whether a server that has hardly answered has enough in flight, or one that ramps has had its part.
    pub(super) fn is_capped(&self, ask: Ask<'_>, (i, q): (usize, u32), peer: &Peer) -> bool {
        let capped = self.curves.caps && q >= cap(peer.answers.load(Ordering::Relaxed));
        let share = || 1.0 / (f64::from(self.curves.scale(i)) * ask.members.len() as f64);
        (ask.params.policy == Policy::Fastest && capped)
            || (ramp::is_under_way(peer) && ramp::is_sated(peer, ask.shared.group, share(), ask.params.ramp(), ask.now))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn members(weights: &[u32]) -> Vec<Member> {
        weights.iter().map(|&weight| Member { slot: None, weight }).collect()
    }

    fn first(turns: &Turns, among: &[usize]) -> usize {
        *among.iter().min_by_key(|&&i| turns.of(i)).unwrap()
    }

    #[test]
    fn turns_are_by_weight_and_evenly_apart() {
        let mut turns = Turns::default();
        turns.restart(&members(&[1, 2, 7]), &mut Rng::new(3));
        let mut count = [0i32; 3];
        for done in 1..=1000 {
            let i = first(&turns, &[0, 1, 2]);
            turns.take(i);
            count[i] += 1;
            for (count, weight) in count.iter().zip([0.1, 0.2, 0.7]) {
                assert!((f64::from(*count) - weight * f64::from(done)).abs() < 2.0, "{count} of {done}");
            }
        }
    }

    #[test]
    fn who_was_away_does_not_catch_up() {
        let mut turns = Turns::default();
        turns.restart(&members(&[1, 1]), &mut Rng::new(1));
        (0..100).for_each(|_| assert!(!turns.take(0)));
        let mut picked = Vec::new();
        for _ in 0..4 {
            let i = first(&turns, &[0, 1]);
            turns.take(i);
            picked.push(i);
        }
        assert!(picked.windows(3).all(|w| w.contains(&0) && w.contains(&1)), "{picked:?}");
    }

    #[test]
    fn a_clock_that_starts_afresh_keeps_the_order() {
        let mut turns = Turns::default();
        turns.restart(&members(&[1_000_000, 1, 1]), &mut Rng::new(1));
        let (mut fresh, mut count) = (0, [0i32; 3]);
        for _ in 0..3000 {
            let i = first(&turns, &[1, 2]);
            fresh += usize::from(turns.take(i));
            count[i] += 1;
        }
        assert!(fresh > 0 && (count[1] - count[2]).abs() <= 2, "{fresh} {count:?}");
    }

    #[test]
    fn standings_order_by_score_then_load() {
        let key = |score, load| standing(Some(score), load);
        assert!(key(-5.0, 9.0) < key(-4.9, 0.0));
        assert!(key(-5.0, 0.0) < key(-5.0, 0.5) && key(-5.0, 0.5) < key(-5.0, 1.0));
        assert!(key(3.0, 0.0) < key(AT_CAP - 5.0, 0.0) && key(AT_CAP - 5.0, 0.0) < key(AT_CAP - 4.0, 0.0));
        assert!(key(f32::NAN, 0.0) >= key(AT_CAP + 1e9, 0.0) && standing(None, 0.0) < key(f32::NEG_INFINITY, 0.0));
        assert!(key(f32::NAN, f32::INFINITY) | 0xffff_ffff < u64::MAX);
    }
}
