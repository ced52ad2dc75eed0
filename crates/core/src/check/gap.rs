//! What a good probe's time says of the time that answers to requests would take.
//!
//! Probes ask for something else than requests, so only the ratio of the two times is believed, and that is learned while both
//! are known. Not here: what probes say of a server's health.

use super::Check;
use crate::evidence::{self, Sample};
use crate::group::Group;
use crate::pair;
use crate::params::Params;
use crate::peer::Peer;
use crate::sync::Ordering;
use crate::time::{Micros, seconds, since};

/// The gap between probes and answers looks back over so many probes: it is about the application, which changes with releases.
const GAP_CAP: f32 = 20.0;
/// And says nothing before so many.
const GAP_LEAST: f32 = 3.0;
/// Evidence with which a bucket's mean is worth comparing a probe with.
const KNOWN: f32 = 2.0;

/// A good probe took `took` µs. While requests keep the estimate fresh, that teaches how probes and answers compare; when they do
/// not, it says how long an answer would have taken.
///
/// A probe asks for something else than requests do, so its time is no answer's time; but what makes a server slower makes
/// both slower.
pub(super) fn compare((peer, group, check): (&Peer, &Group, &Check), params: &Params, took: Micros, now: Micros) {
    let probe = seconds(took.max(1)).ln() as f32;
    let interval = params.check.map_or(0, |check| check.interval).max(params.half_life);
    if since(peer.last_answer.load(Ordering::Acquire), now) < interval {
        if let Some(mean) = evidence::known(peer, params, KNOWN, now) {
            pair::add_mean(&check.gap, mean - probe, GAP_CAP);
            pair::add_mean(&group.probe_gap, mean - probe, GAP_CAP);
        }
        return;
    }
    let own = pair::read(&check.gap);
    let (weight, gap) = if own.0 >= GAP_LEAST { own } else { pair::read(&group.probe_gap) };
    if weight < GAP_LEAST || !params.policy.learns() {
        return;
    }
    let answer = (f64::from(probe + gap).exp() * 1e6) as Micros;
    evidence::book((peer, group), params, (peer.queue(), 0.0), (answer.max(1), Sample::Exact), now);
    check.refreshed.fetch_add(1, Ordering::Relaxed);
}
