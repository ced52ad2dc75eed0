//! How each server stands for a request, and whom the balancer chooses by that.
//!
//! In a short list everybody's standing is read beforehand (`list.rs`). In a long one the balancer asks for those that it looks
//! at, so that a pick does not cost more the longer the list is. How well a server does is the core's business.

use labor_core::affinity::Asked;
use labor_core::check;
use labor_core::control::Control;
use labor_core::{Candidate, Choice, Fit, Request, Shared};

use super::list::{List, Scan};
use super::rules::{closed, full};
use crate::ffi::{RrPeer, RrPeers};

/// A server that may not be given the request.
pub const UNFIT: Candidate = Candidate { fit: Fit::Unfit, conns: 0 };

/// How a server of this key and record, with what is set for it, stands for the request; `single` when nginx has no other,
/// `checked` when it is probed.
// For each server of each pick: a call of it took a fifth of a pick's instructions at 200 servers.
#[inline(always)]
pub fn stand(
    (peer, key, slot): (RrPeer, u64, Option<u32>),
    control: &Control,
    shared: Shared<'_>,
    scan: &Scan<'_>,
    (single, checked): (bool, bool),
) -> Candidate {
    let unfit = closed(peer, control, false)
        || full(peer, control, shared, slot)
        || (!scan.tried.is_empty() && scan.tried.contains(key));
    if unfit {
        return UNFIT;
    }
    let fit = if checked && shared.peer(slot).is_some_and(check::is_unhealthy) {
        Fit::Unhealthy
    } else if !single && peer.counted_out(scan.time) {
        Fit::CountedOut
    } else {
        Fit::Usable
    };
    let conns = if slot.is_none() { u32::try_from(peer.conns()).unwrap_or(u32::MAX) } else { 0 };
    Candidate { fit, conns }
}

impl List {
    /// Chooses a server for `request`: that of its `key`, the best one, or without a request the least bad of those that nginx
    /// counts out. `None` when the list changed since the scan.
    pub fn choose(&mut self, scan: &Scan<'_>, request: Option<Request>, key: Option<&[u8]>) -> Option<Option<Choice>> {
        let shared = self.shared(scan.view);
        let balancer = &mut self.balancer;
        // A list without affinity asks no key.
        let keyed = self.keyed.as_mut().zip(key).map(|(keyed, text)| (keyed.key(text), keyed));
        if !balancer.is_long() {
            let candidates = &self.candidates;
            return Some(match (request, keyed) {
                (Some(request), Some((key, keyed))) => {
                    let asked = Asked { key, request, candidates, stand: &|_, _| UNFIT };
                    balancer.pick_keyed(keyed, shared, asked, scan.now)
                }
                (Some(request), None) => balancer.pick(shared, candidates, request, scan.now),
                (None, _) => balancer.least_bad(shared, candidates, scan.now),
            });
        }
        // SAFETY: as for `scan`. The core takes microseconds, allocates nothing and cannot panic.
        let list = unsafe { RrPeers::read(scan.list) };
        if self.read != Some((scan.list, list.config())) {
            return None;
        }
        let checked = balancer.params().check.is_some();
        let (peers, keys, rules, how) = (&self.peers, &self.keys, &self.rules, (list.single(), checked));
        let stand = |index: usize, slot: Option<u32>| match (peers.get(index), keys.get(index)) {
            (Some(peer), Some(key)) => stand((*peer, *key, slot), rules.of(index), shared, scan, how),
            _ => UNFIT,
        };
        let choice = match (request, keyed) {
            (Some(request), Some((key, keyed))) => {
                balancer.pick_keyed(keyed, shared, Asked { key, request, candidates: &[], stand: &stand }, scan.now)
            }
            (Some(request), None) => balancer.pick_from(shared, &stand, request, scan.now),
            (None, _) => balancer.least_bad_from(shared, &stand, scan.now),
        };
        if let Some(choice) = &choice
            && let Some(place) = self.candidates.get_mut(choice.index)
        {
            *place = stand(choice.index, choice.slot);
        }
        Some(choice)
    }
}
