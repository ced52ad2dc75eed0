//! nginx's least_time (1.31): integer-millisecond averages in classes of 20 ms, times the connections.
//!
//! `header` averages the time to the header, and still counts connections until the last byte.
//! In `inflight` mode the mean age of requests in flight is averaged at every pick and replaces a smaller answer time.

use super::swrr::Smooth;
use super::{Done, Policy, Query};
use crate::Nanos;
use crate::server::End;

/// Defaults of nginx's `fail_timeout`, seconds: after this long without a pick, the average halves.
const FAIL_TIMEOUT: u64 = 10;
/// Weight of a new value in nginx's averages.
const ALPHA: f64 = 0.05;
/// Answer times above this count as this, ms.
const CEILING: u64 = 5000;
/// Width of the classes, ms.
const CLASS: u64 = 20;

#[derive(Clone, Debug, Default)]
struct Peer {
    conns: u64,
    /// Average answer time, ms; 0 is unset.
    average: u64,
    /// Second of the latest bookkeeping pick.
    checked: u64,
    /// Average age of requests in flight, ms.
    age: u64,
    /// Sum of the ages at `changed`, ms.
    ages: u64,
    changed: u64,
}

/// What is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Time to the last byte.
    LastByte,
    /// Time to the header.
    Header,
    /// Time to the last byte, or the age of what is in flight if that is more.
    Inflight,
}

/// least_time.
#[derive(Debug)]
pub struct LeastTime {
    weights: Vec<u64>,
    peers: Vec<Peer>,
    ties: Smooth,
    measure: Measure,
    /// How often an average changed its class.
    changes: u64,
}

fn average(old: u64, value: u64) -> u64 {
    if old == 0 { value } else { (old as f64 * (1.0 - ALPHA) + value as f64 * ALPHA).round() as u64 }
}

/// What an average counts as, ms.
fn class(time: u64) -> u64 {
    if time > CEILING { CEILING } else { time.max(1).div_ceil(CLASS) * CLASS }
}

/// nginx's cached clock.
fn millis(at: Nanos) -> u64 {
    at / 1_000_000
}

impl LeastTime {
    /// By `weights`.
    pub fn new(weights: Vec<u32>, measure: Measure) -> Self {
        let ties = Smooth::new(&weights);
        let peers = vec![Peer::default(); weights.len()];
        Self { weights: weights.into_iter().map(u64::from).collect(), peers, ties, measure, changes: 0 }
    }

    /// Expected time of one more request, ms, before the weight.
    fn expected(&mut self, i: usize, now: u64) -> u64 {
        let peer = &mut self.peers[i];
        let quiet = (now / 1000).saturating_sub(peer.checked);
        let mut time = peer.average;
        if quiet > FAIL_TIMEOUT {
            time = time.checked_shr((quiet / (FAIL_TIMEOUT + 1)).min(63) as u32).unwrap_or(0);
        }
        if self.measure == Measure::Inflight && peer.conns > 0 {
            let age = peer.ages / peer.conns + now.saturating_sub(peer.changed);
            peer.age = average(peer.age, age);
            time = time.max(peer.age);
        }
        class(time) * (1 + peer.conns)
    }

    /// Folds in an answer time.
    fn learn(&mut self, server: usize, time: u64) {
        let peer = &mut self.peers[server];
        let before = class(peer.average);
        peer.average = average(peer.average, time);
        self.changes += u64::from(before != class(peer.average));
    }

    /// Brings the sum of ages up to `now`.
    fn advance(peer: &mut Peer, now: u64) {
        peer.ages += peer.conns * now.saturating_sub(peer.changed);
        peer.changed = now;
    }
}

impl Policy for LeastTime {
    fn pick(&mut self, query: &Query<'_>) -> Option<usize> {
        let now = millis(query.now);
        let mut best = None::<(usize, u64)>;
        let mut ties = Vec::new();
        for i in (0..self.peers.len()).filter(|&i| query.present[i]) {
            let expected = self.expected(i, now);
            // expected_i / w_i against the best's.
            let order = best.map_or(core::cmp::Ordering::Less, |(b, time)| {
                (expected * self.weights[b]).cmp(&(time * self.weights[i]))
            });
            match order {
                core::cmp::Ordering::Less => {
                    best = Some((i, expected));
                    ties.clear();
                    ties.push(i);
                }
                core::cmp::Ordering::Equal => ties.push(i),
                core::cmp::Ordering::Greater => {}
            }
        }
        let (first, _) = best?;
        let chosen = if ties.len() > 1 { self.ties.next(|i| ties.contains(&i)).unwrap_or(first) } else { first };
        let peer = &mut self.peers[chosen];
        if (now / 1000).saturating_sub(peer.checked) > FAIL_TIMEOUT {
            peer.checked = now / 1000;
        }
        Self::advance(peer, now);
        peer.conns += 1;
        Some(chosen)
    }

    fn done(&mut self, done: &Done) {
        let now = millis(done.now);
        let time = now.saturating_sub(millis(done.started));
        let peer = &mut self.peers[done.server];
        Self::advance(peer, now);
        peer.conns -= 1;
        peer.ages = if peer.conns == 0 { 0 } else { peer.ages.saturating_sub(time) };
        // An error status passed on is a success to nginx; a time-out is not accounted.
        let booked = done.session && self.measure == Measure::Header;
        if done.end != End::Timeout && !booked {
            self.learn(done.server, time);
        }
    }

    fn header(&mut self, done: &Done) {
        if self.measure == Measure::Header {
            self.learn(done.server, millis(done.now).saturating_sub(millis(done.started)));
        }
    }

    fn changes(&self) -> Option<u64> {
        Some(self.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::harness::{answer, done, pick_at};

    fn taught(times: &[u64], measure: Measure) -> LeastTime {
        let mut policy = LeastTime::new(vec![1; times.len()], measure);
        for (peer, &time) in policy.peers.iter_mut().zip(times) {
            peer.average = time;
        }
        policy
    }

    #[test]
    fn below_twenty_milliseconds_all_are_equal() {
        let mut policy = taught(&[1, 19], Measure::LastByte);
        let mut counts = [0; 2];
        for _ in 0..100 {
            let server = pick_at(&mut policy, 2, 1);
            policy.peers[server].conns -= 1;
            counts[server] += 1;
        }
        assert_eq!(counts, [50, 50]);
    }

    #[test]
    fn time_is_multiplied_by_connections() {
        // 20 · (1 + n) against 60 · 1: the first takes two and ties at the third.
        let mut policy = taught(&[20, 60], Measure::LastByte);
        assert_eq!([pick_at(&mut policy, 2, 1), pick_at(&mut policy, 2, 1)], [0, 0]);
        policy.peers[0].conns = 3;
        assert_eq!(pick_at(&mut policy, 2, 1), 1);
    }

    #[test]
    fn the_average_has_a_dead_band() {
        let mut policy = taught(&[200, 5000], Measure::LastByte);
        for t in 0..2000 {
            policy.peers[0].conns = 1;
            answer(&mut policy, 0, t, t + 1);
        }
        // A server of 1 ms stays at 11 for ever.
        assert!((10..=11).contains(&policy.peers[0].average), "{}", policy.peers[0].average);
    }

    #[test]
    fn an_unpicked_average_halves() {
        let mut policy = taught(&[20, 640], Measure::LastByte);
        policy.peers[0].conns = 2;
        policy.peers[0].checked = 1000;
        policy.peers[1].checked = 970;
        // 30 s unpicked: two halvings, 160 against 60.
        assert_eq!(pick_at(&mut policy, 2, 1_000_000), 0);
        policy.peers[0].conns = 2;
        policy.peers[1].checked = 955;
        // 45 s: four halvings, 40 against 60.
        assert_eq!(pick_at(&mut policy, 2, 1_000_000), 1);
    }

    #[test]
    fn inflight_sees_what_has_not_come_back() {
        let mut policy = taught(&[20, 20], Measure::Inflight);
        policy.peers[0] = Peer { conns: 1, average: 20, changed: 0, ..Peer::default() };
        policy.peers[1] = Peer { conns: 1, average: 20, changed: 900, ..Peer::default() };
        for _ in 0..5 {
            assert_eq!(pick_at(&mut policy, 2, 1000), 1);
            policy.peers[1].conns -= 1;
        }
    }

    #[test]
    fn header_mode_averages_headers_and_counts_connections_to_the_end() {
        let mut policy = taught(&[20, 20], Measure::Header);
        policy.peers[0].conns = 1;
        let session = |from: u64, to: u64| Done { session: true, ..done(0, from * 1_000_000, to * 1_000_000) };
        policy.header(&session(0, 400));
        // round(0.95 · 20 + 0.05 · 400) = 39, whatever the session takes.
        assert_eq!((policy.peers[0].average, policy.peers[0].conns), (39, 1));
        policy.done(&session(0, 90_000));
        assert_eq!((policy.peers[0].average, policy.peers[0].conns), (39, 0));
        assert_eq!(policy.changes(), Some(1));
        let mut whole = taught(&[20, 20], Measure::LastByte);
        whole.peers[0].conns = 1;
        whole.done(&session(0, 1020));
        assert_eq!(whole.peers[0].average, 70);
    }
}
