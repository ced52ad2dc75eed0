//! The ring of virtual nodes: who is at home where, by key.
//!
//! Every server has some points on a ring of 2³² places. A key looks at several places and belongs to the server whose point
//! follows one of them most closely (multi-probe consistent hashing, Appleton and O'Reilly, 2015): with 64 points a server's part
//! varies by 3 per cent, one look would make it 12. Who goes takes only its own keys along, who comes takes only what becomes its
//! own. The points stand sorted behind an index by their first bits, so that a look costs the same however long the list is.

use super::{Key, Secret, spread};

/// Places that a key looks at, an even number.
const LOOKS: u64 = 8;
/// Points at most. With more (10,000 servers of weight 1 need 640,000) every server has half as many, and so on: 12 MiB a list.
const MOST_POINTS: u64 = 1 << 20;
/// Servers that a key's order names at most, repetitions included: when a thousandth of all are usable it is better to choose afresh.
const MOST_ORDER: u64 = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Ring {
    /// Position in the high half, server in the low one; sorted.
    points: Vec<u64>,
    /// By the first bits of a position: where its points begin. One more than there are such bits.
    starts: Vec<u32>,
    /// What is left of a position behind its first bits.
    shift: u32,
}

impl Ring {
    /// For servers by identity and weight (0: none of its own), with `vnodes` points for each unit of weight.
    pub fn new(secret: Secret, servers: &[(u64, u32)], vnodes: u32) -> Self {
        let all: u64 = servers.iter().map(|(_, weight)| u64::from(*weight) * u64::from(vnodes)).sum();
        let halvings = (0..64).find(|by| all >> by <= MOST_POINTS).unwrap_or(0);
        let points = |weight: u32| match u64::from(weight) * u64::from(vnodes) {
            0 => 0,
            all => (all >> halvings).max(1),
        };
        let count: u64 = servers.iter().map(|(_, weight)| points(*weight)).sum();
        // One point an entry; at least two entries, so that there are bits to shift by.
        let bits = 64 - count.max(1).leading_zeros();
        let shift = 32 - bits.min(32);
        let mut ring = Self { points: vec![0; count as usize], starts: vec![0; (1 << bits) + 1], shift };
        // Counted first, then put in their place: no memory but what stays.
        let each = |visit: &mut dyn FnMut(u64)| {
            for (index, (id, weight)) in (0u64..).zip(servers) {
                let seed = secret.server(*id);
                for pair in 0..points(*weight).div_ceil(2) {
                    let hash = spread(seed, pair);
                    visit(hash & HIGH | index);
                    if pair * 2 + 1 < points(*weight) {
                        visit(hash << 32 | index);
                    }
                }
            }
        };
        each(&mut |point| {
            if let Some(start) = ring.starts.get_mut((point >> 32 >> shift) as usize + 1) {
                *start += 1;
            }
        });
        let mut sum = 0;
        for start in &mut ring.starts {
            sum += *start;
            *start = sum;
        }
        // `starts` moves to the ends of its entries meanwhile, which are the beginnings of the next ones.
        each(&mut |point| {
            if let Some(start) = ring.starts.get_mut((point >> 32 >> shift) as usize) {
                if let Some(place) = ring.points.get_mut(*start as usize) {
                    *place = point;
                }
                *start += 1;
            }
        });
        ring.starts.rotate_right(1);
        if let Some(first) = ring.starts.first_mut() {
            *first = 0;
        }
        for bounds in ring.starts.windows(2) {
            if let &[from, to] = bounds
                && let Some(entry) = ring.points.get_mut(from as usize..to as usize)
            {
                entry.sort_unstable();
            }
        }
        ring
    }

    /// The servers of `key`, by index: home first, then where its requests go when they cannot stay. A server may come again.
    pub fn order(&self, key: Key) -> Order<'_> {
        Order { ring: self, key, at: 0 }
    }

    /// The first point at or after `position`, around the ring.
    fn after(&self, position: u32) -> Option<u64> {
        let bits = (position >> self.shift) as usize;
        let (from, to) = (*self.starts.get(bits)?, *self.starts.get(bits + 1)?);
        let least = u64::from(position) << 32;
        let entry = self.points.get(from as usize..to as usize)?;
        // Entries have one point on average. What follows the last one of an entry begins the next that has any.
        let at = from as usize + entry.iter().position(|point| *point >= least).unwrap_or(entry.len());
        self.points.get(at).or(self.points.first()).copied()
    }

    /// The server of the `turn`th place in the order of `key`.
    fn server(&self, key: Key, turn: u64) -> Option<usize> {
        let (mut nearest, mut server) = (u32::MAX, None);
        for look in 0..LOOKS / 2 {
            let hash = spread(key.0, turn * (LOOKS / 2) + look);
            for position in [(hash >> 32) as u32, hash as u32] {
                let point = self.after(position)?;
                let distance = ((point >> 32) as u32).wrapping_sub(position);
                if distance < nearest || server.is_none() {
                    (nearest, server) = (distance, Some(point as u32 as usize));
                }
            }
        }
        server
    }
}

/// The half of a point that is its position.
const HIGH: u64 = 0xffff_ffff_0000_0000;

/// The order of a key, home first.
#[derive(Debug)]
pub struct Order<'a> {
    ring: &'a Ring,
    key: Key,
    at: u64,
}

impl Iterator for Order<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.at >= MOST_ORDER {
            return None;
        }
        self.at += 1;
        self.ring.server(self.key, self.at - 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECRET: Secret = Secret::new([1, 2]);

    fn servers(count: u64) -> Vec<(u64, u32)> {
        (0..count).map(|i| (i * 77 + 5, 1)).collect()
    }

    fn home(ring: &Ring, secret: Secret, number: u64) -> usize {
        ring.order(secret.key(&number.to_le_bytes())).next().unwrap()
    }

    #[test]
    fn parts_follow_weights() {
        let weighted: Vec<_> = servers(8).iter().map(|&(id, _)| (id, 1 + id as u32 % 3)).collect();
        let ring = Ring::new(SECRET, &weighted, 64);
        let (mut counts, n) = ([0u32; 8], 200_000);
        (0..n).for_each(|i| counts[home(&ring, SECRET, i)] += 1);
        let all: u32 = weighted.iter().map(|w| w.1).sum();
        for (count, (_, weight)) in counts.iter().zip(&weighted) {
            let part = f64::from(*count) / n as f64 / (f64::from(*weight) / f64::from(all));
            assert!((0.85..1.15).contains(&part), "{counts:?}");
        }
    }

    /// Keys chosen by who knows everything but the secret.
    #[test]
    fn a_million_chosen_keys_overload_nobody() {
        let (list, attackers) = (servers(20), Secret::new([7, 7]));
        let (theirs, ours) = (Ring::new(attackers, &list, 64), Ring::new(SECRET, &list, 64));
        let chosen: Vec<u64> = (0..).filter(|&i| home(&theirs, attackers, i) == 3).take(1_000_000).collect();
        let mut counts = vec![0u32; list.len()];
        chosen.iter().for_each(|&i| counts[home(&ours, SECRET, i)] += 1);
        let most = f64::from(*counts.iter().max().unwrap()) / 50_000.0;
        assert!(most < 1.3, "{most}");
        // The same keys without a secret: all on one server.
        assert!(chosen.iter().all(|&i| home(&theirs, attackers, i) == 3));
    }

    /// Who comes or goes moves at most 1.2/n of the keys, and only to or from itself.
    #[test]
    fn only_the_keys_of_who_goes_move() {
        for n in [2, 3, 5, 10, 30, 100] {
            let all = servers(n);
            let before = Ring::new(SECRET, &all, 64);
            for gone in [0, n as usize / 2] {
                let mut rest = all.clone();
                rest.remove(gone);
                let after = Ring::new(SECRET, &rest, 64);
                let (mut moved, keys) = (0, 50_000);
                for key in 0..keys {
                    let (old, new) = (home(&before, SECRET, key), home(&after, SECRET, key));
                    let same = all[old].0 == rest[new].0;
                    assert!(same || old == gone, "a key of another server moved");
                    moved += u32::from(!same);
                }
                let moved = f64::from(moved) / keys as f64 * n as f64;
                assert!(moved < 1.2, "{n} servers: {moved}/n moved");
            }
        }
    }

    #[test]
    fn an_order_names_everybody_and_is_the_keys_own() {
        let ring = Ring::new(SECRET, &servers(5), 64);
        let mut seconds = [0u32; 5];
        for number in 0..2000u64 {
            let order: Vec<_> = ring.order(SECRET.key(&number.to_le_bytes())).collect();
            assert!((0..5).all(|server| order.contains(&server)), "{order:?}");
            if order[0] == 0 {
                seconds[*order.iter().find(|&&server| server != 0).unwrap()] += 1;
            }
        }
        // 400 keys of one home spread over the four others, 100 each: 50 is five standard deviations away.
        assert!(seconds[1..].iter().all(|&count| count > 50), "{seconds:?}");
    }

    #[test]
    fn points_are_sorted_and_complete() {
        for (count, vnodes) in [(1, 1), (1, 64), (3, 7), (1000, 64), (40_000, 64)] {
            let ring = Ring::new(SECRET, &servers(count), vnodes);
            assert!(ring.points.is_sorted() && ring.points.len() as u64 <= MOST_POINTS + count);
            assert_eq!(ring.starts.last().copied(), Some(ring.points.len() as u32));
            let mut seen = vec![false; count as usize];
            ring.points.iter().for_each(|point| seen[*point as u32 as usize] = true);
            assert!(seen.iter().all(|seen| *seen), "{count} servers");
        }
        assert_eq!(Ring::new(SECRET, &[(1, 0)], 64).order(SECRET.key(b"x")).next(), None);
        assert_eq!(Ring::new(SECRET, &[], 64).order(SECRET.key(b"x")).next(), None);
    }

    #[test]
    fn a_text_is_a_secret() {
        assert_eq!(Secret::of(b"a long text"), Secret::of(b"a long text"));
        assert_ne!(Secret::of(b"a long text"), Secret::of(b"a long tex"));
    }
}
