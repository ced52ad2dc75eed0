//! What is expected of every server of a list, kept for those who look again and again and never pick: histories, events.
//!
//! Short lists are worked out when somebody asks. For long ones that would keep a worker for tens of milliseconds, so their
//! curves are renewed a part at a time, as picks do it (`long.rs`). Not here: who looks, and what a look is shown for
//! once ([`crate::report`]).

use crate::balancer::Member;
use crate::history::INTERVAL;
use crate::inflight::Shared;
use crate::long::{LONG, curves::Curves};
use crate::params::Params;
use crate::peer::Peer;
use crate::report::{self, Expected};
use crate::time::{Micros, since};

/// Rows renewed at once at most: well below a millisecond.
const MOST_ROWS: f32 = 256.0;

/// See the module. What is expected is as [`report::latencies`] has it.
#[derive(Debug, Default)]
pub struct Followed {
    members: Vec<Member>,
    /// Of a long list.
    curves: Option<Box<Curves>>,
    renewed: Micros,
    /// Of a short list, and when they were worked out.
    latencies: Vec<Option<Expected>>,
    at: Option<Micros>,
}

impl Followed {
    /// The list is `members` from now on; what is known of the same ones is kept.
    pub fn set_members(&mut self, members: &[Member]) {
        if self.members == members {
            return;
        }
        let same =
            self.members.len() == members.len() && self.members.iter().zip(members).all(|(a, b)| a.slot == b.slot);
        let before = core::mem::replace(&mut self.members, members.to_vec());
        self.at = None;
        match &mut self.curves {
            Some(curves) if same => curves.reweigh(members),
            Some(curves) if members.len() > LONG => curves.follow(&before, members),
            _ => {
                self.curves = (members.len() > LONG).then(|| Box::new(Curves::followed(members)));
                self.renewed = 0;
            }
        }
    }

    /// Renews a part of a long list: as many rows as pass all of it within the time between two points of a history, or as many
    /// at once as it may until all are known. Of a short list nothing.
    pub fn renew(&mut self, shared: Shared<'_>, params: &Params, now: Micros) {
        let Some(curves) = &mut self.curves else { return };
        let passed = since(self.renewed, now).min(INTERVAL) as f32 / INTERVAL as f32;
        self.renewed = now;
        let due = curves.credit + self.members.len() as f32 * passed;
        let rows = if curves.is_learning() { MOST_ROWS } else { due.min(MOST_ROWS) };
        curves.step(shared, &self.members, params, now, rows);
    }

    /// What is expected of member `i`. `anew`: from its evidence as it stands now, otherwise a long list's may be some seconds old.
    pub fn expected(
        &mut self,
        shared: Shared<'_>,
        params: &Params,
        i: usize,
        anew: bool,
        now: Micros,
    ) -> Option<Expected> {
        if let Some(curves) = &mut self.curves {
            let member = *self.members.get(i)?;
            if anew {
                curves.renew_one(i, shared, &self.members, params, now);
            }
            if curves.blank || member.weight == 0 {
                return None;
            }
            let queue = shared.peer(member.slot).map_or(0, Peer::queue);
            let [latency_us, idle_us] = [queue, 0].map(|queue| f64::from(curves.estimate(i, queue).latency) * 1e6);
            return Some(Expected { latency_us, idle_us, evidence: curves.evidence(i) });
        }
        if self.at != Some(now) {
            self.latencies = report::latencies(shared, &self.members, params, now);
            self.at = Some(now);
        }
        self.latencies.get(i).copied().flatten()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::evidence::{Sample, book};
    use crate::group::Group;
    use crate::time::SECOND;

    const NOW: Micros = 50 * SECOND;

    /// Servers of 1 to 10 ms, as many as asked for.
    fn world(count: usize) -> (Group, Vec<Peer>, Vec<Member>) {
        let (group, params) = (Group::default(), Params::default());
        let peers: Vec<Peer> = (0..count).map(|_| Peer::default()).collect();
        for (i, peer) in peers.iter().enumerate() {
            for k in 0..20 {
                let latency = (1_000 + 9_000 * i / count + 10 * k) as Micros;
                book((peer, &group), &params, (0, 0.0), (latency, Sample::Exact), NOW);
            }
        }
        (group, peers, (0..count as u32).map(|i| Member { slot: Some(i), weight: 1 }).collect())
    }

    #[test]
    fn a_long_list_is_known_part_by_part_as_if_at_once() {
        for count in [LONG, LONG + 1, 3000] {
            let (group, peers, members) = world(count);
            let (shared, params) = (Shared { group: &group, peers: &peers, cells: &[] }, Params::default());
            let mut followed = Followed::default();
            followed.set_members(&members);
            for part in 0..300 {
                followed.renew(shared, &params, NOW + part * SECOND / 20);
            }
            let now = NOW + 15 * SECOND;
            let at_once = report::latencies(shared, &members, &params, now);
            for (i, expected) in at_once.iter().enumerate() {
                let (got, expected) = (followed.expected(shared, &params, i, false, now).unwrap(), expected.unwrap());
                assert!(
                    (got.latency_us / expected.latency_us).ln().abs() < 0.05,
                    "{i} of {count}: {got:?} {expected:?}"
                );
                // Half of it is forgotten in five seconds, and a row is up to five seconds old.
                let older = (got.evidence / expected.evidence).log2();
                assert!(got.latency_us == got.idle_us && (-0.01..1.1).contains(&older), "{got:?} {expected:?}");
            }
        }
    }

    /// A server that turns slow is told of with its new latency, and others are not touched.
    #[test]
    fn one_member_is_renewed_on_demand() {
        let (group, peers, members) = world(1000);
        let (shared, params) = (Shared { group: &group, peers: &peers, cells: &[] }, Params::default());
        let mut followed = Followed::default();
        followed.set_members(&members);
        (0..100).for_each(|part| followed.renew(shared, &params, NOW + part));
        let before = followed.expected(shared, &params, 7, false, NOW).unwrap().idle_us;
        for _ in 0..400 {
            book((&peers[7], &group), &params, (0, 0.0), (80_000, Sample::Exact), NOW + SECOND);
        }
        let later = NOW + SECOND;
        assert_eq!(followed.expected(shared, &params, 7, false, later).unwrap().idle_us, before);
        assert!(followed.expected(shared, &params, 7, true, later).unwrap().idle_us > 5.0 * before);
        // Nobody who only looks tells of changes.
        assert!(
            peers.iter().all(|peer| report::Change::last(peer).is_none_or(|(change, _)| change == report::Change::New))
        );
    }

    #[test]
    fn nothing_is_known_of_those_who_drain_and_without_evidence() {
        let (group, peers, mut members) = world(600);
        members[3].weight = 0;
        let (shared, params) = (Shared { group: &group, peers: &peers, cells: &[] }, Params::default());
        let mut followed = Followed::default();
        followed.set_members(&members);
        assert_eq!(followed.expected(shared, &params, 0, false, NOW), None);
        (0..100).for_each(|part| followed.renew(shared, &params, NOW + part));
        assert_eq!(followed.expected(shared, &params, 3, true, NOW), None);
        assert!(followed.expected(shared, &params, 0, false, NOW).is_some());
        assert_eq!(followed.expected(shared, &params, 600, true, NOW), None);
    }
}
