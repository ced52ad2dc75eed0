//! Curves renewed step by step against a table built at once, and what all of it takes in memory.

use super::course::Course;
use super::curves::*;
use crate::balancer::{Balancer, Candidate, Fit, Member, Request};
use crate::evidence::{Sample, book};
use crate::group::Group;
use crate::inflight::Shared;
use crate::params::Params;
use crate::peer::Peer;
use crate::rng::Rng;
use crate::sync::Ordering;
use crate::table::Table;
use crate::time::Micros;

/// All that picks need of a server: its record, this worker's cell there, and what the structure keeps: member, course, key
/// with its part of the tournament, turn and stride.
#[test]
fn a_server_takes_less_than_a_kibibyte_in_all() {
    let own = size_of::<Course>() + size_of::<Member>() + 8 + 8usize.div_ceil(15) + 2 * size_of::<u32>();
    let all = own + size_of::<Peer>() + size_of::<crate::inflight::Cell>();
    assert!(own <= 256 && all <= 1024, "{own} {all}");
}

/// Curves renewed step by step come to those of a table built at once from the same evidence.
#[test]
fn rounds_come_to_what_a_build_says() {
    let (group, params) = (Group::default(), Params::default());
    let count = 300usize;
    let peers: Vec<Peer> = (0..count).map(|_| Peer::default()).collect();
    let members: Vec<Member> = (0..count as u32).map(|i| Member { slot: Some(i), weight: 1 + i % 3 }).collect();
    let mut rng = Rng::new(5);
    let mut now = 5_000_000;
    for _ in 0..count * 60 {
        let i = (rng.unit() * count as f64) as usize;
        // Slow servers have the longer queues, four at once are no slower than one.
        let own = 5_000.0 + 20_000.0 * i as f64 / count as f64;
        let queue = (rng.unit() * 4.0 * (1.0 + i as f64 / count as f64)) as u32;
        let latency = own * (1.0f64).max(f64::from(queue + 1) / 4.0) * (0.5 + rng.unit());
        now += 50;
        book((&peers[i], &group), &params, (queue, 0.0), (latency as Micros, Sample::Exact), now);
    }
    let shared = Shared { group: &group, peers: &peers, cells: &[] };
    let mut table = Table::default();
    table.resize(&members);
    table.refresh(shared, &members, &params, now);
    let mut curves = Curves::default();
    curves.resize(&members);
    for _ in 0..3000 {
        curves.advance(shared, &members, &params, now);
        curves.seen = None;
        curves.credit = MOST_ROWS;
    }
    assert!(curves.round > 10, "{}", curves.round);
    for i in 0..count {
        for q in [0, 1, 3, 7, 9] {
            let (direct, stepwise) = (table.estimate(i, q), curves.estimate(i, q));
            assert!((direct.base - stepwise.base).abs() < 0.05, "{i} {q}: {direct:?} {stepwise:?}");
        }
    }
}

/// A worker that begins while others have saved for visits leaves that alone, also before its first rounds are over.
#[test]
fn who_begins_takes_no_savings_away() {
    let (group, params) = (Group::default(), Params::default());
    let peers: Vec<Peer> = (0..300).map(|_| Peer::default()).collect();
    let members: Vec<Member> = (0..300).map(|i| Member { slot: Some(i), weight: 1 }).collect();
    let mut now = 5_000_000;
    for (i, peer) in peers.iter().enumerate().flat_map(|entry| core::iter::repeat_n(entry, 20)) {
        book((peer, &group), &params, (0, 0.0), (5_000 + 500 * i as Micros, Sample::Exact), now);
    }
    let saved = || f64::from_bits(group.savings.visits.load(Ordering::Acquire));
    group.savings.visits.store(0.01f64.to_bits(), Ordering::Release);
    // Unsafe among safe ones: it earns and may not spend.
    group.last_safe.store(now, Ordering::Release);
    let mut balancer = Balancer::new(params, 1);
    balancer.set_members(&members);
    let candidates = vec![Candidate { fit: Fit::Usable, conns: 0 }; members.len()];
    let shared = Shared { group: &group, peers: &peers, cells: &[] };
    for pick in 0..100 {
        now += 20_000;
        assert!(
            balancer
                .pick(shared, &candidates, Request { first: true, safe: false, backup: false, spare: false }, now)
                .is_some()
        );
        assert!(saved() >= 0.01, "{} after {pick} picks", saved());
    }
    assert!(saved() > 0.01, "nothing was earned");
}
