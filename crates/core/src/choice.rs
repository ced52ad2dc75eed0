//! What goes into a pick and what comes out: members, candidates, the request, the choice and its reason.
//!
//! Plain values; who chooses is in [`crate::balancer`].

/// Why a server was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Its score was the smallest.
    Fastest,
    /// It was among equals and its turn.
    Tie,
    /// To learn what it can do, paid from the exploration budget.
    Explore,
    /// To learn whether a lowered server is well again.
    Trial,
    /// The session belongs to it.
    Sticky,
    /// The primary servers are all unusable.
    Backup,
    /// It was the only usable one.
    Only,
    /// Nobody was usable: the least bad one.
    Panic,
    /// The request's key is at home there.
    Hash,
    /// The key's home cannot be had, is at its bound or too slow: the next in the key's order.
    Overflow,
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = 10;
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Fastest,
        Self::Tie,
        Self::Explore,
        Self::Trial,
        Self::Sticky,
        Self::Backup,
        Self::Only,
        Self::Panic,
        Self::Hash,
        Self::Overflow,
    ];

    /// The reason's name as logs and status pages show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Tie => "tie",
            Self::Explore => "explore",
            Self::Trial => "trial",
            Self::Sticky => "sticky",
            Self::Backup => "backup",
            Self::Only => "only",
            Self::Panic => "panic",
            Self::Hash => "hash",
            Self::Overflow => "overflow",
        }
    }
}

/// Whether a server may be given this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It may.
    Usable,
    /// nginx counts it out for its failures (max_fails, fail_timeout): trials, and when nobody else is left.
    CountedOut,
    /// Its checks fail: for nobody but when nobody else is left.
    Unhealthy,
    /// Already tried by this request, down, draining, weight 0 or full.
    Unfit,
}

/// One server of the list, as it stands for this request. The position in the slice is its index.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Whether it may be given this request.
    pub fit: Fit,
    /// nginx's own count of connections: the queue of a server that has no record.
    pub conns: u32,
}

/// One server of the list, as it stands until the list changes. The position in the slice is its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its record in shared memory; `None` when the zone was full.
    pub slot: Option<u32>,
    /// Configured weight; 0 drains.
    pub weight: u32,
}

/// What matters of the request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its first attempt.
    pub first: bool,
    /// A safe method: GET, HEAD, OPTIONS.
    pub safe: bool,
    /// The list is the backup list.
    pub backup: bool,
    /// Somebody else can serve it: servers that have had what their ramp gives them need not.
    pub spare: bool,
}

/// The picked server.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Its index in the list.
    pub index: usize,
    /// Its record.
    pub slot: Option<u32>,
    /// Why it was picked.
    pub reason: Reason,
    /// Predicted response time of this request, seconds; 0 when nothing is known.
    pub latency: f32,
    /// Its score (ln seconds and penalties, smaller is better).
    pub score: f32,
    /// Requests in flight there at the pick, this one excluded.
    pub queue: u32,
    /// What exploration paid for it, seconds; 0 for other reasons.
    pub price: f32,
    /// For exploring a server: predicted response time of the best one, seconds; 0 for everything else.
    pub best: f32,
}
