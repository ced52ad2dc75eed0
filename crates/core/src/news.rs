//! When it is worth telling people that a server became slower or faster, so that a list of events holds what mattered.
//!
//! Latencies wander: told at every step, the list would hold nothing else. What is told is compared with what was told last, in
//! both directions (so a small way back is silent), must be large, be more than chance, and last. The rule only; who looks, and
//! how often, is not decided here.

use crate::events::Event;
use crate::ledger::Kept;
use crate::report::Expected;
use crate::sync::Ordering;
use crate::time::{Micros, SECOND, since};

/// A change by this factor matters to somebody; less than that is weather.
pub const LARGE: f64 = 1.5;
/// It must be seen at two looks at least this far apart: a pause of a garbage collector is over by then.
pub const LASTING: Micros = 4 * SECOND;
/// After a change the way back is told no sooner than this: a server that goes to and fro fills two entries a minute.
pub const REVERSAL: Micros = 30 * SECOND;
/// Standard errors of the difference between two means beyond which it is no chance: one false alarm in some 400 looks of a
/// steady server that also would have to last.
const ERRORS: f64 = 3.0;
/// A change begins with one answer of the server's own at least. It need not go on with more: a server that became slow is left
/// alone, what is known of it is forgotten, and once nothing is known it is taken to be as fast as the others again.
const LEAST: f64 = 1.0;
/// A speed that was taken for known from fewer answers than this is taken anew, in silence, when there are more.
const FIRM: u32 = 30;

/// A server became slower or faster: what it was, what it is, µs when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// [`Event::Slower`] or [`Event::Faster`].
    pub event: Event,
    /// As told last.
    pub before: u32,
    /// Now: larger when slower, smaller when faster, by [`LARGE`] at least.
    pub after: u32,
}

/// What is to be told of a server's speed at `now`, and remembers in `kept` that it was. `variance`: of ln(latency) of a single
/// answer. One caller at a time.
pub fn speed(kept: &Kept, expected: &Expected, variance: f64, now: Micros) -> Option<News> {
    let turning = kept.turning.load(Ordering::Acquire);
    if turning == 0 && expected.evidence < LEAST {
        return None;
    }
    let (idle, samples) = (expected.idle_us.round().max(1.0) as u32, expected.evidence.round() as u32);
    let (before, known) = (kept.told_us.load(Ordering::Acquire), kept.told_samples.load(Ordering::Acquire));
    let change = (f64::from(idle) / f64::from(before)).ln();
    let chance = ERRORS * (variance / expected.evidence.max(LEAST) + variance / f64::from(known.max(1))).sqrt();
    if before == 0 || change.abs() < LARGE.ln().max(chance) {
        if before == 0 || (known < FIRM && samples > known) {
            kept.set_speed(idle, samples);
        }
        kept.turning.store(0, Ordering::Release);
        return None;
    }
    let event = if change > 0.0 { Event::Slower } else { Event::Faster };
    if turning as u8 != event as u8 {
        kept.turning.store(stamp(event, now), Ordering::Release);
        return None;
    }
    let told = kept.told_speed.load(Ordering::Acquire);
    let reversal = told != 0 && told as u8 != event as u8;
    if since(turning >> 8, now) < LASTING || (reversal && since(told >> 8, now) < REVERSAL) {
        return None;
    }
    kept.set_speed(idle, samples);
    kept.turning.store(0, Ordering::Release);
    kept.told_speed.store(stamp(event, now), Ordering::Release);
    Some(News { event, before, after: idle })
}

/// When in µs << 8 | event.
const fn stamp(event: Event, now: Micros) -> u64 {
    now << 8 | event as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const STEP: Micros = 5 * SECOND;

    /// Everything that is told of latencies in ms, a look each five seconds, on `evidence` with this `deviation` of ln(latency).
    fn told(ms: impl IntoIterator<Item = f64>, evidence: f64, deviation: f64) -> Vec<(usize, News)> {
        let kept = Kept::default();
        let look = |(i, ms): (usize, f64)| {
            let expected = Expected { latency_us: ms * 1e3, idle_us: ms * 1e3, evidence };
            speed(&kept, &expected, deviation * deviation, STEP * (i as u64 + 1)).map(|news| (i, news))
        };
        ms.into_iter().enumerate().filter_map(look).collect()
    }

    fn news(event: Event, before: u32, after: u32) -> News {
        News { event, before, after }
    }

    #[test]
    fn wandering_is_no_news() {
        let mut rng = Rng::new(7);
        let wander: Vec<f64> = (0..2000).map(|_| 5.0 * (0.9 + 0.2 * rng.unit())).collect();
        assert_eq!(told(wander, 50.0, 0.3), []);
        assert_eq!(told([5.0, 5.4, 6.0, 7.4, 6.0, 4.0, 3.4, 5.0], 50.0, 0.1), []);
    }

    #[test]
    fn a_change_that_lasts_is_told_once_with_figures_that_fit() {
        let told = told([5.0, 5.0, 12.0, 12.5, 12.0, 12.0, 11.0, 14.0, 13.0, 12.0, 6.0, 5.5, 5.0], 50.0, 0.3);
        assert_eq!(told, [(3, news(Event::Slower, 5000, 12_500)), (11, news(Event::Faster, 12_500, 5500))]);
    }

    #[test]
    fn a_pause_is_no_news() {
        assert_eq!(told([5.0, 50.0, 5.0, 5.0, 50.0, 1.0, 50.0, 1.0, 5.0], 50.0, 0.1), []);
    }

    #[test]
    fn a_slow_drift_is_told_by_what_was_told_last() {
        let drift: Vec<f64> = (0..100).map(|i| 5.0 * 1.02_f64.powi(i)).collect();
        let told = told(drift, 50.0, 0.1);
        assert!((3..=4).contains(&told.len()), "{told:?}");
        assert!(
            told.iter().all(|(_, n)| n.event == Event::Slower && f64::from(n.after) >= LARGE * f64::from(n.before))
        );
        assert!(told.windows(2).all(|w| w[0].1.after == w[1].1.before), "{told:?}");
    }

    #[test]
    fn few_answers_need_a_larger_change() {
        let change = [5.0, 5.0, 12.0, 12.0];
        assert_eq!(told(change, 2.0, 0.5), []);
        assert_eq!(told(change, 0.9, 0.5), []);
        assert_eq!(told([5.0, 5.0, 200.0, 200.0], 2.0, 0.5).len(), 1);
        assert_eq!(told(change, 30.0, 0.5).len(), 1);
    }

    #[test]
    fn a_server_that_is_left_alone_after_it_became_slow_is_told_of() {
        let kept = Kept::default();
        let looks = [(5.0, 40.0), (200.0, 2.0), (198.0, 0.9), (5.0, 0.0)];
        let told: Vec<_> = (1..)
            .zip(looks)
            .filter_map(|(i, (ms, evidence))| {
                speed(&kept, &Expected { latency_us: ms * 1e3, idle_us: ms * 1e3, evidence }, 0.25, STEP * i)
            })
            .collect();
        assert_eq!(told, [news(Event::Slower, 5000, 198_000)]);
    }

    #[test]
    fn worse_is_told_at_once_and_to_and_fro_is_told_twice_a_minute() {
        let worse = told([5.0, 10.0, 10.0, 40.0, 40.0, 900.0, 900.0], 50.0, 0.1);
        assert_eq!(worse.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [2, 4, 6]);
        let flapping = (0..240).map(|i| if i / 3 % 2 == 0 { 5.0 } else { 20.0 });
        let count = told(flapping, 50.0, 0.1).len();
        assert!((2..=40).contains(&count), "{count} in twenty minutes");
    }

    #[test]
    fn a_first_impression_of_few_answers_is_mended_in_silence() {
        let kept = Kept::default();
        let mut at = 0;
        let mut look = |ms: f64, evidence: f64| {
            at += STEP;
            speed(&kept, &Expected { latency_us: ms * 1e3, idle_us: ms * 1e3, evidence }, 0.25, at)
        };
        assert_eq!([look(30.0, 1.0), look(10.0, 20.0), look(10.0, 40.0), look(10.0, 60.0)], [None; 4]);
        assert_eq!([look(30.0, 60.0), look(30.0, 60.0)], [None, Some(news(Event::Slower, 10_000, 30_000))]);
    }
}
