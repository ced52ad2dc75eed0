//! A server's events laid out in time: stretches in which its behaviour does not change.

use crate::scenario::{Effect, ServerSpec};
use crate::{MILLI, Nanos, SECOND};
use labor_core::rng::Rng;

/// A stretch of time in which a server's behaviour does not change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub from: Nanos,
    /// Work done per unit of time, relative to normal; 0 while nothing moves.
    pub speed: f64,
    /// Share of arriving requests that fail at once, and after how long.
    pub fail: (f64, Nanos),
    /// Arriving requests are never answered.
    pub hang: bool,
}

/// From, until, and what is the case.
type Span = (Nanos, Nanos, Effect);

/// Bursts laid out at most: beyond, an antagonist is quiet. An hour of 10 ms bursts, half of the time, has 180,000.
const MOST_BURSTS: usize = 1_000_000;

fn nanos(seconds: f64) -> Nanos {
    // Half of what fits, so that sums of two do not overflow.
    (seconds * SECOND).min(u64::MAX as f64 / 2.0) as Nanos
}

/// Lays the server's events out up to `horizon`; an antagonist's bursts follow from `seed`.
pub(super) fn phases(spec: &ServerSpec, horizon: Nanos, seed: u64) -> Vec<Phase> {
    let mut spans: Vec<Span> = Vec::new();
    let mut rng = Rng::new(seed);
    for event in &spec.event {
        let (mut at, length) = (event.at, event.lasts.unwrap_or(f64::INFINITY));
        while at * SECOND <= horizon as f64 {
            let span = (nanos(at), nanos(at + length), event.effect);
            match event.effect {
                Effect::Antagonist { factor, share, burst_ms } => {
                    bursts(&mut spans, (span.0, span.1.min(horizon)), (factor, share, burst_ms), &mut rng);
                }
                // Counted in answers, not in time.
                Effect::Cold { .. } => {}
                _ => spans.push(span),
            }
            match event.every {
                Some(every) => at += every,
                None => break,
            }
        }
    }
    let mut cuts: Vec<Nanos> = spans.iter().flat_map(|s| [s.0, s.1]).chain([0]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    spans.sort_by_key(|s| s.0);
    // Spans that have begun and may still last.
    let (mut open, mut next): (Vec<Span>, usize) = (Vec::new(), 0);
    cuts.into_iter()
        .map(|from| {
            while let Some(span) = spans.get(next).filter(|s| s.0 <= from) {
                open.push(*span);
                next += 1;
            }
            open.retain(|s| from < s.1);
            behaviour(from, &open)
        })
        .collect()
}

/// Exponential bursts with exponential gaps between.
fn bursts(
    spans: &mut Vec<Span>,
    (from, until): (Nanos, Nanos),
    (factor, share, burst_ms): (f64, f64, f64),
    rng: &mut Rng,
) {
    let gap = burst_ms * (1.0 - share) / share;
    let mut draw = |mean: f64| (-(1.0 - rng.unit()).ln() * mean * MILLI) as Nanos;
    let mut at = from + draw(gap);
    while at < until && spans.len() < MOST_BURSTS {
        let end = (at + draw(burst_ms)).min(until);
        spans.push((at, end, Effect::Slow { factor }));
        at = end + draw(gap);
    }
}

fn behaviour(from: Nanos, open: &[Span]) -> Phase {
    let mut phase = Phase { from, speed: 1.0, fail: (0.0, 0), hang: false };
    for (_, _, effect) in open {
        match *effect {
            Effect::Slow { factor } => phase.speed /= factor,
            Effect::Pause => phase.speed = 0.0,
            Effect::Fail { share, after_ms } => phase.fail = (share, (after_ms * MILLI) as Nanos),
            Effect::Hang => phase.hang = true,
            Effect::Cold { .. } | Effect::Antagonist { .. } => {}
        }
    }
    phase
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Event;

    #[test]
    fn an_antagonist_takes_its_share_of_the_time() {
        let effect = Effect::Antagonist { factor: 4.0, share: 0.3, burst_ms: 50.0 };
        let event = Event { at: 10.0, lasts: Some(1000.0), every: None, effect };
        let spec = ServerSpec { event: vec![event], ..ServerSpec::default() };
        let phases = phases(&spec, nanos(2000.0), 5);
        let slow: Nanos = phases.windows(2).filter(|w| w[0].speed < 0.3).map(|w| w[1].from - w[0].from).sum();
        // About 6000 bursts: the share is known within a few per cent.
        assert!((slow as f64 / nanos(1000.0) as f64 - 0.3).abs() < 0.03, "{slow}");
        assert!(phases.iter().filter(|p| p.speed < 1.0).all(|p| (nanos(10.0)..nanos(1010.0)).contains(&p.from)));
    }

    #[test]
    fn events_that_overlap_add_up() {
        let event = |at, lasts, factor| Event { at, lasts: Some(lasts), every: None, effect: Effect::Slow { factor } };
        let spec = ServerSpec { event: vec![event(1.0, 4.0, 2.0), event(2.0, 1.0, 5.0)], ..ServerSpec::default() };
        let speeds: Vec<_> = phases(&spec, nanos(10.0), 1).iter().map(|p| (p.from, p.speed)).collect();
        let at = |s: u64| s * 1_000_000_000;
        assert_eq!(speeds, [(0, 1.0), (at(1), 0.5), (at(2), 0.1), (at(3), 0.5), (at(5), 1.0)]);
    }
}
