//! A server that has become slower or faster as a whole: told by answers that surprise one after the other, and then what was
//! learned moves with it.
//!
//! Evidence fades slowly so that curves are steady, so old and new answers would be mixed for a while. Not here: what single
//! answers teach.

use crate::group::Group;
use crate::pair;
use crate::peer::Peer;
use crate::sync::Ordering;
use crate::time::{Micros, SECOND, since};
use crate::tuning::{tuned, value};

tuned! {
/// An answer surprises when it is further from its bucket's mean than so many standard deviations …
const SURPRISE: f64 = 3.0;
/// … and by this much (ln; a factor of three): smaller changes the mean follows soon enough.
const LEAST_SURPRISE: f64 = 1.1;
/// Surprises in a row, all to the same side, each asked for when the one before had come: requests under way together share
/// one pause. Answers ten times as slow by chance do not come three times in a row.
const RUN: f32 = 3.0;
/// The last of them was asked for so long after the first: a server that collects garbage or writes a checkpoint is back by then.
const LONGEST_PAUSE: Micros = SECOND;
/// What was learned before weighs no more than so many samples afterwards: its course is likely to be the same, its level
/// is known from these answers.
const LEFT: f32 = 2.0;
}

/// Notes an answer of ln seconds `y`, asked for at `started` and here at `now`, where the mean was `m` of `e` samples.
pub(crate) fn note((peer, group): (&Peer, &Group), (y, e, m): (f32, f32, f32), started: Micros, now: Micros) {
    let residual = y - m;
    let limit = || (SURPRISE * group.pooled_variance().sqrt()).max(value(LEAST_SURPRISE));
    let (count, _) = pair::read(&peer.surprises);
    // Most answers are no surprise, and the root is dear.
    if f64::from(residual.abs()) < LEAST_SURPRISE || e < 1.0 || f64::from(residual.abs()) < limit() {
        if count != 0.0 {
            peer.surprises.store(0, Ordering::Release);
        }
        return;
    }
    let same = count * residual > 0.0;
    if same && started < peer.surprised.load(Ordering::Acquire) {
        return;
    }
    let step = 1f32.copysign(residual);
    let before = pair::update(&peer.surprises, |count, mean| {
        if count * residual <= 0.0 {
            return (step, residual);
        }
        let count = count + step;
        // Only as many as it takes: the mean itself follows meanwhile.
        (count, mean + (residual - mean) / count.abs().min(value(RUN)))
    });
    peer.surprised.store(now, Ordering::Release);
    if !same {
        peer.surprised_from.store(started, Ordering::Release);
        return;
    }
    let lasting = since(peer.surprised_from.load(Ordering::Acquire), started) >= LONGEST_PAUSE;
    let Some((count, mean)) = before.filter(|(count, _)| lasting && count.abs() + 1.0 >= RUN) else { return };
    // Of two workers that come this far at once, one moves the curve: twice would be ten times too far.
    if peer.surprises.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    let count = (count.abs() + 1.0).min(value(RUN));
    move_all(peer, mean + (residual - mean) / count);
    peer.long_mean.store(pair::pack(1.0, y.exp()), Ordering::Release);
}

/// Moves the whole curve by `shift` (ln) and leaves it little evidence.
fn move_all(peer: &Peer, shift: f32) {
    let total: f32 = peer.buckets.iter().map(|word| pair::read(word).0).sum();
    let keep = (LEFT / total.max(1e-6)).min(1.0);
    for word in &peer.buckets {
        if word.load(Ordering::Relaxed) != 0 {
            // A lost race leaves this bucket where it was, to be corrected by its next samples.
            let _ = pair::update(word, |e, m| (e * keep, m + shift));
        }
    }
    for word in [&peer.residual, &peer.residual_square, &peer.drift] {
        word.store(0, Ordering::Release);
    }
}
