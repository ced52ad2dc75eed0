//! How many servers of a list breakers may take out at once (`max_ejected`): asked when one should open, and once after every
//! change of the list, as a shorter list may have fewer out. Part of [`Balancer`]; what a breaker does is in [`crate::breaker`].

use crate::attempt::Receipt;
use crate::balancer::Balancer;
use crate::breaker::{self, Phase, State};
use crate::inflight::Shared;
use crate::params::BreakerParams;
use crate::peer::Peer;
use crate::time::Micros;

impl Balancer {
    /// Says who of the list, in its order, gets no requests by order (`down`, draining): these are no part of what breakers may
    /// take a part of. A shorter slice leaves the rest in; a new list begins with all in.
    pub fn set_closed(&mut self, closed: &[bool]) {
        // Most lists have none.
        let closed = if closed.contains(&true) { closed } else { &[] };
        if self.closed != closed {
            self.closed = closed.to_vec();
            self.recount = true;
        }
    }

    /// The servers that count.
    fn counted<'a>(&'a self, shared: Shared<'a>) -> impl Iterator<Item = Option<&'a Peer>> {
        let closed = |i: usize| self.closed.get(i).copied().unwrap_or(false);
        let counts = move |(i, member): &(usize, &crate::choice::Member)| member.weight > 0 && !closed(*i);
        self.members.iter().enumerate().filter(counts).map(move |(_, member)| shared.peer(member.slot))
    }

    /// How many may be out. A part of a server is none: of one, half may not be taken out.
    fn most_out(&self, shared: Shared<'_>, params: &BreakerParams) -> usize {
        (self.counted(shared).count() as f64 * f64::from(params.max_ejected)) as usize
    }

    /// Opens the breaker of the server that `receipt` is about, unless too many are open already.
    pub(crate) fn trip(&self, shared: Shared<'_>, receipt: &Receipt) {
        let (Some(params), Some(peer)) = (&self.params.breaker, shared.peer(receipt.slot)) else { return };
        let broken = || self.counted(shared).flatten().filter(|peer| breaker::is_broken(peer)).count();
        let most = self.most_out(shared, params);
        if broken() < most && breaker::open(peer, params, receipt.ended) && broken() > most {
            breaker::take_back(peer, receipt.ended);
        }
    }

    /// After a change of the list: when more are out than may be, those go back that had a success or are out the longest. All
    /// workers find the same ones, and each is let back once.
    pub(crate) fn let_back(&mut self, shared: Shared<'_>, now: Micros) {
        if !core::mem::take(&mut self.recount) {
            return;
        }
        let Some(params) = &self.params.breaker else { return };
        let of = |peer| (peer, State::of(peer));
        let mut out: Vec<(&Peer, State)> =
            self.counted(shared).flatten().map(of).filter(|(_, state)| state.phase != Phase::Closed).collect();
        let excess = out.len().saturating_sub(self.most_out(shared, params));
        out.sort_by_key(|(_, state)| (state.phase == Phase::Open, state.since));
        for (peer, state) in out.into_iter().take(excess) {
            breaker::let_back(peer, state, now);
        }
    }
}
