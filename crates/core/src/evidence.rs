//! Booking: how an answer becomes evidence in shared memory, and how evidence ages.
//!
//! Writes only; what the evidence means is the table's business. Everything is lock-free, and a lost race costs a
//! sample, never an answer.

use crate::curve::bucket;
use crate::explore;
use crate::group::Group;
use crate::pair;
use crate::params::Params;
use crate::peer::{Peer, RECENT};
use crate::report::Change;
use crate::score::SEASONED;
use crate::shift;
use crate::sync::Ordering;
use crate::time::{Micros, SECOND, seconds, since};
use crate::tuning::{tuned, value};

tuned! {
/// A bucket's evidence stays at or below this many samples, so that a change shows after some forty answers at most.
const EVIDENCE_CAP: f32 = 40.0;
/// Evidence of a server with few answers is kept for up to this half-life.
const LONGEST_HALF_LIFE: Micros = 60 * SECOND;
/// Half-life of residual sums: rare slow answers need a longer memory than the curve.
const RESIDUAL_HALF_LIFE: f64 = 60.0;
/// Residual sums stop growing here, so that they follow a change within some thousand answers.
const RESIDUAL_CAP: f32 = 2000.0;
/// ln of the largest residual that counts: one answer cannot weigh more than e⁵ ordinary ones.
const RESIDUAL_CLIP: f32 = 5.0;
/// A bucket's mean of fewer samples is too noisy to measure residuals against.
const RESIDUAL_EVIDENCE: f32 = 2.0;
/// A mean residual beyond ±1 (a factor e) says that the curve is still moving: the sums start afresh.
const DRIFT: f32 = 1.0;
/// The drift is a mean over some 40 answers, and none before 10.
const DRIFT_CAP: f32 = 40.0;
const DRIFT_EVIDENCE: f32 = 10.0;
/// The pooled variance looks back over about this many samples.
const VARIANCE_CAP: f32 = 1000.0;
/// A single squared residual counts as 5² at most, so that a step does not pass for noise for long.
const SQUARE_CLIP: f32 = 25.0;
/// Answers that the long-run mean looks back over.
const LONG_CAP: f32 = 200.0;
/// Share of the old level that stays after each attempt: after three failures in a row, five successes forget them.
const FAILURE_KEEP: f32 = 0.6;
/// The level after one failure of a server that was well: most such failures are the request's and not the server's, so it
/// costs one idle answer. That keeps a fast failing server from the next request, and an equal one hardly from any. (At 0.4,
/// as from the second in a row on, one random failure in a hundred answers made ten busy servers a fifth slower.)
const FAILURE_FIRST: f32 = 0.1;
/// From this level on (two failures in a row) a server counts as failed, and starts small when it recovers.
const FAILURE_RAMP: f32 = 0.45;
/// Above this level a server is lowered: it gets trials.
pub const LOWERED: f32 = 0.02;
}

/// The short mean follows as many answers as a bucket.
const SHORT_CAP: f32 = 40.0;
/// A server whose last samples came within this time has more than decisions need: 2000 a second and more, when a bucket
/// remembers 40. Looking at every second one from then on halves what booking costs, and so on.
const DENSE: Micros = RECENT as Micros * 500;
/// And every one again below a fifth of that rate, so that the two do not chase each other.
const SPARSE: Micros = 5 * DENSE;
/// At most one answer in 2^6 is looked at: from 128,000 answers a second and server on the rate grows again.
const MOST_THINNING: u32 = 6;
/// A bucket with less evidence than this, half of the most, learns from every answer.
const ENOUGH: f32 = 20.0;
/// Answers counted after a claim or a recovery: far more than caps ask for, and then a well server's count is left alone.
const ANSWERS_CAP: u32 = 1000;

/// What an answer says about latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// It took just so long.
    Exact,
    /// It would have taken at least so long, or is no fair example: it may raise the estimate, never lower it.
    Bound,
}

/// Books `latency` µs for an attempt dispatched at `queue` requests in flight, predicted to take `predicted` seconds.
pub(crate) fn book(
    (peer, group): (&Peer, &Group),
    params: &Params,
    (queue, predicted): (u32, f32),
    (latency, kind): (Micros, Sample),
    now: Micros,
) {
    if kind == Sample::Exact && is_one_too_many(peer, queue, now) {
        return;
    }
    decay(peer, params, now);
    // Nothing takes less than the clock can tell.
    let measured = seconds(latency.max(1)) as f32;
    let y = measured.ln();
    let Some(word) = peer.buckets.get(bucket(queue)) else { return };
    let (e, m) = pair::read(word);
    if kind == Sample::Bound {
        let expected = if predicted > 0.0 { predicted.ln() } else { f32::NEG_INFINITY };
        let known = if e > 0.0 { m } else { f32::NEG_INFINITY };
        let reference = expected.max(known);
        // Without anything to compare with, a bound would be taken for an estimate.
        if !reference.is_finite() || y <= reference {
            return;
        }
    }
    let Some((e, m)) = pair::add_mean(word, y, value(EVIDENCE_CAP)) else {
        group.dropped.fetch_add(1, Ordering::Relaxed);
        return;
    };
    if kind == Sample::Exact {
        residuals(peer, group, y, (e, m));
        pair::add_mean(&peer.long_mean, measured, value(LONG_CAP));
        shift::note((peer, group), (y, e, m), now.saturating_sub(latency), now);
        pair::add_mean(&peer.short_mean, measured, SHORT_CAP);
    }
    let place = peer.samples.fetch_add(1, Ordering::AcqRel) as usize % RECENT;
    if let Some(stamp) = peer.recent.get(place) {
        let before = stamp.swap(now, Ordering::AcqRel);
        if place == 0 && before != 0 {
            thin(peer, since(before, now));
        }
    }
    group.evidence.fetch_add(1, Ordering::Release);
}

/// Mean of ln(seconds) of what it answers at its present queue, where at least `least` samples of it are left.
pub(crate) fn known(peer: &Peer, params: &Params, least: f32, now: Micros) -> Option<f32> {
    let (e, m) = pair::read(peer.buckets.get(bucket(peer.queue()))?);
    (f64::from(e) * pending(peer, params, now) >= f64::from(least)).then_some(m)
}

/// Whether an answer at `now` may be passed over. Which ones are is left to the clock's lowest digits, which know nothing of how
/// long an answer took: every k-th, or the first after a pause, would be no fair sample.
fn is_one_too_many(peer: &Peer, queue: u32, now: Micros) -> bool {
    let thinning = peer.thinning.load(Ordering::Relaxed).min(MOST_THINNING);
    if thinning == 0 {
        return false;
    }
    let digits = now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - thinning);
    digits != 0 && peer.buckets.get(bucket(queue)).is_some_and(|word| pair::read(word).0 >= ENOUGH)
}

/// Follows the rate of samples: the last [`RECENT`] took `span` µs.
fn thin(peer: &Peer, span: Micros) {
    let thinning = peer.thinning.load(Ordering::Relaxed);
    if span < DENSE && thinning < MOST_THINNING {
        peer.thinning.store(thinning + 1, Ordering::Relaxed);
    } else if span > SPARSE && thinning > 0 {
        peer.thinning.store(thinning - 1, Ordering::Relaxed);
    }
}

/// Variance and residuals of one sample against its bucket's mean `m` over `e` samples before it.
fn residuals(peer: &Peer, group: &Group, y: f32, (e, m): (f32, f32)) {
    if e >= 1.0 {
        // Welford: (y − old mean)(y − new mean) has the variance as its expectation, whatever e.
        let grown = (e + 1.0).min(value(EVIDENCE_CAP));
        let square = (y - m) * (y - m) * (1.0 - 1.0 / grown);
        pair::add_sum(&group.variance, square.min(value(SQUARE_CLIP)), value(VARIANCE_CAP));
    }
    if e < RESIDUAL_EVIDENCE {
        return;
    }
    let residual = (y - m).min(value(RESIDUAL_CLIP));
    let factor = residual.exp();
    pair::add_sum(&peer.residual, factor, value(RESIDUAL_CAP));
    pair::add_sum(&peer.residual_square, factor * factor, value(RESIDUAL_CAP));
    pair::add_mean(&peer.drift, residual, value(DRIFT_CAP));
    let (weight, mean) = pair::read(&peer.drift);
    if weight >= DRIFT_EVIDENCE && mean.abs() > DRIFT {
        for word in [&peer.residual, &peer.residual_square, &peer.drift] {
            word.store(0, Ordering::Release);
        }
    }
}

/// Half-life of the server's evidence, µs: `params.half_life` or the time of its last samples, at most a minute.
pub(crate) fn half_life(peer: &Peer, params: &Params) -> Micros {
    let count = peer.samples.load(Ordering::Acquire) as usize;
    let stamp = |i: usize| peer.recent.get(i % RECENT).map_or(0, |s| s.load(Ordering::Acquire));
    let (oldest, newest) = (stamp(count), stamp(count.wrapping_add(RECENT - 1)));
    // Until twenty samples have been seen, each is precious.
    let span = if oldest == 0 { value(LONGEST_HALF_LIFE) } else { since(oldest, newest) };
    params.half_life.max(span.min(value(LONGEST_HALF_LIFE))).max(1)
}

/// By what the stored evidence has to be multiplied at `now`: reading never writes.
pub(crate) fn pending(peer: &Peer, params: &Params, now: Micros) -> f64 {
    let stamp = peer.decayed.load(Ordering::Acquire);
    let dt = since(stamp, now);
    if stamp == 0 || dt == 0 {
        return 1.0;
    }
    (-(dt as f64) / half_life(peer, params) as f64).exp2()
}

/// Ages the evidence to `now`: one worker wins the stamp and decays, the others go on.
fn decay(peer: &Peer, params: &Params, now: Micros) {
    let stamp = peer.decayed.load(Ordering::Acquire);
    let half_life = half_life(peer, params);
    let dt = since(stamp, now);
    // Steps of a 64th of a half-life (one per cent) are finer than any decision and save the loop on most answers.
    if stamp != 0 && dt < half_life / 64 {
        return;
    }
    if peer.decayed.compare_exchange(stamp, now, Ordering::AcqRel, Ordering::Acquire).is_err() || stamp == 0 {
        return;
    }
    let factor = (-(dt as f64) / half_life as f64).exp2() as f32;
    for word in &peer.buckets {
        if word.load(Ordering::Relaxed) != 0 {
            pair::fade(word, factor, false);
        }
    }
    let slow = (-seconds(dt) / RESIDUAL_HALF_LIFE).exp2() as f32;
    pair::fade(&peer.residual, slow, true);
    pair::fade(&peer.residual_square, slow, true);
    pair::fade(&peer.short_mean, (-(dt as f64) / params.half_life.max(1) as f64).exp2() as f32, false);
}

/// An answer came from the server at `now`.
pub(crate) fn answered(peer: &Peer, now: Micros) {
    peer.last_answer.fetch_max(now, Ordering::AcqRel);
    if Change::last(peer).is_some_and(|(change, _)| change == Change::Silent) {
        Change::Answering.note(peer, now);
    }
}

/// Books a success: the failure level falls. Says whether the server has just recovered from more than a single failure.
pub(crate) fn succeeded(peer: &Peer, group: &Group, now: Micros) -> bool {
    peer.timed_out.store(0, Ordering::Relaxed);
    let answers = peer.answers.load(Ordering::Relaxed);
    if answers < ANSWERS_CAP {
        peer.answers.fetch_add(1, Ordering::AcqRel);
    }
    if answers == 0 && peer.last_change.load(Ordering::Relaxed) == 0 {
        Change::New.note(peer, now);
    }
    if peer.failure.load(Ordering::Acquire) == 0 {
        return false;
    }
    let (before, after) = level(peer, |f| if f <= FAILURE_FIRST { 0.0 } else { f * FAILURE_KEEP });
    let recovered = before > LOWERED && after <= LOWERED;
    if recovered {
        Change::Recovered.note(peer, now);
    }
    if after > LOWERED {
        explore::hurry(peer, group, now);
    }
    group.evidence.fetch_add(1, Ordering::Release);
    // Its answers were counted anew when it failed for the second time.
    recovered && answers < SEASONED
}

/// Books a failure: the failure level rises; from the second in a row on, the server starts small when it comes back.
pub(crate) fn failed(peer: &Peer, group: &Group, timeout: bool, now: Micros) {
    peer.timed_out.store(u32::from(timeout), Ordering::Relaxed);
    let (before, after) = level(peer, risen);
    if before <= LOWERED {
        // Trials count from here: the one that failed just now was answer enough for a while.
        peer.last_trial.store(now, Ordering::Release);
        peer.trial_pick.store(group.picks.load(Ordering::Relaxed), Ordering::Release);
        Change::Failing.note(peer, now);
    }
    if before < FAILURE_RAMP && after >= FAILURE_RAMP {
        peer.answers.store(0, Ordering::Release);
    }
    group.evidence.fetch_add(1, Ordering::Release);
}

/// The failure level one failure after `f`.
fn risen(f: f32) -> f32 {
    if f <= 0.0 { value(FAILURE_FIRST) } else { (f * FAILURE_KEEP + (1.0 - FAILURE_KEEP)).min(1.0) }
}

/// Changes the failure level; returns it before and after.
fn level(peer: &Peer, change: impl Fn(f32) -> f32) -> (f32, f32) {
    let bits = |seen: u32| change(f32::from_bits(seen)).to_bits();
    let before = peer.failure.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| Some(bits(seen)));
    let before = before.unwrap_or_else(|seen| seen);
    (f32::from_bits(before), f32::from_bits(bits(before)))
}
