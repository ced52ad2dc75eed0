//! Slow start: what a server that is new, or that came back, may take until it is warm.
//!
//! A ramp is a limit of picks, not of weight: a server whose weight is low is passed over for as long as others are idle, and one
//! that is idle looks best to everybody. Its start and the counters at that moment are in shared memory, so that all workers
//! and the next configuration go by one clock. Who is full by this rule is asked after all others, but is never shut out.

use crate::group::Group;
use crate::peer::{Peer, RAMPING};
use crate::report::Change;
use crate::sync::Ordering;
use crate::time::{Micros, since};

/// What a server takes of its even share when its ramp begins: a tenth, as Envoy's slow start has it. Anything from a
/// twentieth to a fifth is a first step that a cold server bears.
const FLOOR: f32 = 0.1;

/// Begins a ramp of `time` µs (0: never) at `now`, unless one is under way.
pub fn begin(peer: &Peer, group: &Group, time: Micros, now: Micros) {
    let seen = peer.ramp_start.load(Ordering::Acquire);
    let under_way = seen != 0 && since(seen, now) < time;
    if time == 0 || under_way {
        return;
    }
    if peer.ramp_start.compare_exchange(seen, now.max(1), Ordering::AcqRel, Ordering::Acquire).is_err() {
        return;
    }
    peer.ramp_picks.store(group.picks.load(Ordering::Relaxed), Ordering::Release);
    peer.ramp_requests.store(peer.requests.load(Ordering::Relaxed), Ordering::Release);
    peer.marks.fetch_or(RAMPING, Ordering::AcqRel);
    Change::Ramping.note(peer, now);
}

/// A request goes past the group to its backups: it counts as a pick, or the share of a server that is alone in its group would
/// be one of what it gets itself.
pub(crate) fn passed(group: &Group) {
    group.picks.fetch_add(1, Ordering::Relaxed);
}

/// Whether a ramp was under way when somebody last looked: one load.
pub(crate) fn is_under_way(peer: &Peer) -> bool {
    peer.marks.load(Ordering::Relaxed) & RAMPING != 0
}

/// How far the server is, 0 to 1; `None` when no ramp is under way. Ends one that is over.
fn progress(peer: &Peer, time: Micros, now: Micros) -> Option<f32> {
    if !is_under_way(peer) {
        return None;
    }
    let gone = since(peer.ramp_start.load(Ordering::Acquire), now);
    if gone < time {
        return Some(gone as f32 / time as f32);
    }
    peer.marks.fetch_and(!RAMPING, Ordering::AcqRel);
    None
}

/// The part of its even share that a server may take now, 0.1 to 1; 1 when no ramp is under way.
pub fn fraction(peer: &Peer, time: Micros, now: Micros) -> f32 {
    progress(peer, time, now).map_or(1.0, |far| far.max(FLOOR))
}

/// Whether the server has had what its ramp of `time` µs gives it by now, where an even share of the picks is `share`.
///
/// At the progress f it gets f/(1 − f) of an even share of the picks, so that half-way it is like any other, and one that is
/// to get most of the traffic has no step at the end. What it may have had by then is the integral of that by the ramp so far,
/// (−ln(1 − f) − f)/f, plus the floor; and the first pick at once.
pub(crate) fn is_sated(peer: &Peer, group: &Group, share: f64, time: Micros, now: Micros) -> bool {
    let Some(far) = progress(peer, time, now).map(f64::from) else { return false };
    let picks = group.picks.load(Ordering::Relaxed).saturating_sub(peer.ramp_picks.load(Ordering::Acquire));
    let taken = peer.requests.load(Ordering::Relaxed).saturating_sub(peer.ramp_requests.load(Ordering::Acquire));
    // Near 0 the difference of two small numbers is noise, and its limit f/2.
    let gained = if far < 1e-3 { far / 2.0 } else { (-(-far).ln_1p() - far) / far };
    taken as f64 >= 1.0 + picks as f64 * share * (gained + f64::from(FLOOR))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::SECOND;

    const TIME: Micros = 10 * SECOND;
    const START: Micros = 100 * SECOND;

    /// A hundred picks a second in a group of ten; a server that takes whatever it may: what it has had after each second.
    fn course() -> Vec<u64> {
        let (peer, group) = (Peer::default(), Group::default());
        group.picks.store(5000, Ordering::Relaxed);
        begin(&peer, &group, TIME, START);
        let mut had = Vec::new();
        for pick in 0..1100u64 {
            let now = START + pick * SECOND / 100;
            if pick % 100 == 0 {
                had.push(peer.requests.load(Ordering::Relaxed));
            }
            group.picks.fetch_add(1, Ordering::Relaxed);
            if !is_sated(&peer, &group, 0.1, TIME, now) {
                peer.requests.fetch_add(1, Ordering::Relaxed);
            }
        }
        had
    }

    #[test]
    fn it_begins_small_and_grows_by_the_clock() {
        let had = course();
        let steps: Vec<u64> = had.windows(2).map(|w| w[1] - w[0]).collect();
        // An even share is ten a second.
        assert!((1..=4).contains(&steps[0]), "{steps:?}");
        assert!(steps[..9].windows(2).all(|w| w[1] + 1 >= w[0]), "{steps:?}");
        assert!((6..=16).contains(&steps[5]), "{steps:?}");
        assert!(steps[9] > 25, "{steps:?}");
        // And then it may have everything.
        assert_eq!(steps.last().copied(), steps.get(9).copied());
    }

    #[test]
    fn a_second_cause_does_not_begin_it_anew_and_none_lasts_longer_than_its_time() {
        let (peer, group) = (Peer::default(), Group::default());
        begin(&peer, &group, 0, START);
        assert_eq!(fraction(&peer, TIME, START), 1.0);
        begin(&peer, &group, TIME, START);
        assert_eq!(fraction(&peer, TIME, START + SECOND / 2), 0.1);
        begin(&peer, &group, TIME, START + 5 * SECOND);
        assert_eq!(fraction(&peer, TIME, START + 5 * SECOND), 0.5);
        peer.requests.store(1000, Ordering::Relaxed);
        assert!(is_sated(&peer, &group, 0.1, TIME, START + 5 * SECOND));
        assert!(!is_sated(&peer, &group, 0.1, TIME, START + TIME));
        assert_eq!(fraction(&peer, TIME, START + 5 * SECOND), 1.0, "over is over");
        begin(&peer, &group, TIME, START + 11 * SECOND);
        assert_eq!(fraction(&peer, TIME, START + 12 * SECOND), 0.1);
        // A configuration without slow_start ends it.
        assert_eq!(fraction(&peer, 0, START + 12 * SECOND), 1.0);
    }
}
