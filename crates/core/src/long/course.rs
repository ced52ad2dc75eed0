//! What a worker keeps of one member of a long list: its curve, and that looked up.
//!
//! Here by itself because it is all that a server costs. Not here: how curves are renewed ([`super::curves`]).

use crate::balancer::Member;
use crate::peer::BUCKETS;
use crate::table::{Estimate, UNKNOWN};

/// Queues below this are looked up per member: a cache line. Members of a long list rarely have more in flight.
const MEMO: usize = 8;
/// A memo of nothing.
pub(super) const BLANK: [Estimate; MEMO] = [UNKNOWN; MEMO];

/// What is known of one member: the whole of it, so this is what a server costs a worker.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    pub(super) curve: [f32; BUCKETS],
    pub(super) memo: [Estimate; MEMO],
    /// w̄/w: from requests in flight to x; 0 for members that drain.
    pub(crate) scale: f32,
    /// Predicted latency when idle, seconds; 0 before it was fitted.
    pub(super) idle: f32,
    /// Long-run mean latency, seconds; 0 before the first answer.
    pub(crate) long: f32,
    /// Its own evidence, samples.
    pub(super) evidence: f32,
    /// Idle latency (ln seconds) last told as a change; NaN before that.
    pub(super) told: f32,
    /// Which round's group curve the memo holds, or the mark of an own curve.
    pub(super) made: u32,
    /// It has a curve of its own.
    pub(super) own: bool,
    /// It waits among the news.
    pub(super) news: bool,
}

impl Course {
    pub(super) fn new(scale: f32) -> Self {
        let (curve, memo) = ([0.0; BUCKETS], BLANK);
        Self {
            curve,
            memo,
            scale,
            idle: 0.0,
            long: 0.0,
            evidence: 0.0,
            told: f32::NAN,
            made: 0,
            own: false,
            news: false,
        }
    }
}

/// The courses of `members`, where those of `before` were `courses`: by their records, whatever place they have now.
pub(super) fn carried(before: &[Member], courses: Vec<Course>, members: &[Member]) -> Vec<Course> {
    let mut known: Vec<(u32, Course)> =
        before.iter().zip(courses).filter_map(|(member, course)| Some((member.slot?, course))).collect();
    known.sort_unstable_by_key(|(slot, _)| *slot);
    let course = |slot: Option<u32>| {
        let at = known.binary_search_by_key(&slot?, |(slot, _)| *slot).ok()?;
        known.get(at).map(|(_, course)| Course { news: false, ..course.clone() })
    };
    members.iter().map(|member| course(member.slot).unwrap_or_else(|| Course::new(0.0))).collect()
}
