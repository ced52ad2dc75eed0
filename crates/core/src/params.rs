//! What the `labor` directive says, as values that cannot be contradictory. Parsing text is the caller's business.

use crate::time::{Micros, SECOND};
use crate::tuning::{tuned, value};

tuned! {
/// Default half-life of evidence: a change shows within some seconds, and five seconds of answers are enough to tell
/// servers apart.
const HALF_LIFE: Micros = 5 * SECOND;
/// Default share of latency that exploration may cost: one per cent is less than any measurement would notice.
const EXPLORE: f32 = 0.01;
}

/// Which part of an answer is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Pick to the last byte from the server.
    #[default]
    LastByte,
    /// Pick to the response header.
    Header,
}

/// How the next server is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Smallest predicted response time, learned curves (the default).
    #[default]
    Fastest,
    /// Smooth weighted round robin with learned weights, proportional to 1 / response time.
    Weighted,
    /// Fewest requests in flight by weight.
    LeastConn,
    /// Smooth weighted round robin with the configured weights.
    RoundRobin,
    /// 1 / (weight / (n + 1) · d) with d falling with response time.
    Decay,
}

impl Policy {
    /// Whether the policy keeps servers without news known by exploring them (the others use every server anyway, or
    /// none of what is learned).
    pub const fn explores(self) -> bool {
        matches!(self, Self::Fastest)
    }

    /// Whether the policy chooses by measured response times, so that their half-life matters.
    pub const fn learns(self) -> bool {
        matches!(self, Self::Fastest | Self::Weighted | Self::Decay)
    }
}

/// A set of HTTP statuses (100–599) that count as failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSet([u64; 10]);

impl StatusSet {
    /// No status at all.
    pub const EMPTY: Self = Self([0; 10]);

    /// Adds `status`; values outside 0–639 are ignored (the caller has checked the range).
    pub fn insert(&mut self, status: u16) {
        if let Some(word) = self.0.get_mut(usize::from(status / 64)) {
            *word |= 1 << (status % 64);
        }
    }

    /// Whether `status` is in the set.
    pub fn contains(&self, status: u16) -> bool {
        self.0.get(usize::from(status / 64)).is_some_and(|word| word & (1 << (status % 64)) != 0)
    }
}

impl Default for StatusSet {
    /// 429 and every 5xx but 501 and 505: those two say that the request is not supported, not that the server is unwell.
    fn default() -> Self {
        let mut set = Self::EMPTY;
        set.insert(429);
        for status in (500..600).filter(|s| !matches!(s, 501 | 505)) {
            set.insert(status);
        }
        set
    }
}

/// When servers are taken out for failing, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerParams {
    /// Failures in a row that open it, 1 to 1000.
    pub fails: u32,
    /// The time over which a failure rate is counted, µs.
    pub window: Micros,
    /// How long it is open the first time, µs.
    pub open: Micros,
    /// And how long at most, after many times, µs; at least `open`.
    pub max_open: Micros,
    /// The share of a list that may be taken out at once, above 0 to 1.
    pub max_ejected: f32,
}

impl Default for BreakerParams {
    fn default() -> Self {
        Self { fails: 5, window: 10 * SECOND, open: 5 * SECOND, max_open: 60 * SECOND, max_ejected: 0.5 }
    }
}

/// When servers are probed, and what that makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckParams {
    /// Time between two probes of a server, µs.
    pub interval: Micros,
    /// By how much probes are put off at random, µs; at most half an interval.
    pub jitter: Micros,
    /// How long a probe may take altogether, µs; at most an interval.
    pub timeout: Micros,
    /// Failures in a row that make it unhealthy, at least 1.
    pub fails: u32,
    /// Successes in a row that make it healthy again, at least 1.
    pub passes: u32,
    /// Only servers that have not answered requests for an interval are probed.
    pub idle: bool,
}

impl Default for CheckParams {
    fn default() -> Self {
        Self { interval: 5 * SECOND, jitter: 0, timeout: 2 * SECOND, fails: 2, passes: 2, idle: false }
    }
}

/// Everything the directive sets for one upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// What is measured.
    pub metric: Metric,
    /// How to choose.
    pub policy: Policy,
    /// Half-life of evidence in µs, at least; slow servers keep theirs longer (the time of their last 20 samples).
    pub half_life: Micros,
    /// Share of latency that exploration may cost, 0–0.10; 0 is off.
    pub explore: f32,
    /// HTTP statuses that count as failures.
    pub failure: StatusSet,
    /// How long a server that is new or came back is led up to its share, µs; 0 for not at all.
    pub slow_start: Micros,
    /// The breakers of its servers; `None` for none.
    pub breaker: Option<BreakerParams>,
    /// The checks of its servers; `None` for none.
    pub check: Option<CheckParams>,
}

impl Params {
    /// How long a ramp takes, µs; 0 where nothing begins one. After a breaker a server is led back in any case.
    pub fn ramp(&self) -> Micros {
        match self.slow_start {
            0 => self.breaker.map_or(0, |breaker| breaker.open),
            time => time,
        }
    }
}

impl Default for Params {
    fn default() -> Self {
        Self {
            metric: Metric::default(),
            policy: Policy::default(),
            half_life: value(HALF_LIFE),
            explore: value(EXPLORE),
            failure: StatusSet::default(),
            slow_start: 0,
            breaker: None,
            check: None,
        }
    }
}
