//! The states that a server can be in, as people see them.
//!
//! Codes, because they are stored in shared memory. Not here: what a state is found by.

use crate::time::Micros;

/// How a server stands, as people see it. Codes are stored in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nothing speaks against it.
    Up = 1,
    /// It has as many connections as `max_conns` allows.
    Full = 2,
    /// It fails or is silent: requests keep away but for trials.
    Lowered = 3,
    /// nginx's `max_fails` took it out.
    Unavail = 4,
    /// Only sessions that belong to it go on.
    Drain = 5,
    /// Nobody may use it.
    Down = 6,
    /// It left the list.
    Removed = 7,
    /// It is new, or came back, and is led up to its share.
    Ramping = 8,
    /// Its breaker is open: nobody asks it.
    Open = 9,
    /// Its breaker is half open: one trial at a time does.
    HalfOpen = 10,
    /// Its checks fail: nobody asks it while others are left.
    Unhealthy = 11,
    /// It waits for the first result of its checks, and is used.
    Checking = 12,
}

impl State {
    /// Every state that a listed server can be in.
    pub const ALL: [Self; 11] = [
        Self::Up,
        Self::Full,
        Self::Ramping,
        Self::Lowered,
        Self::HalfOpen,
        Self::Open,
        Self::Unhealthy,
        Self::Checking,
        Self::Unavail,
        Self::Drain,
        Self::Down,
    ];

    /// The state's name as status pages show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Full => "full",
            Self::Lowered => "lowered",
            Self::Unavail => "unavail",
            Self::Drain => "drain",
            Self::Down => "down",
            Self::Removed => "removed",
            Self::Ramping => "ramping",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::Unhealthy => "unhealthy",
            Self::Checking => "checking",
        }
    }

    fn from_code(code: u64) -> Option<Self> {
        Some(match code {
            1 => Self::Up,
            2 => Self::Full,
            3 => Self::Lowered,
            4 => Self::Unavail,
            5 => Self::Drain,
            6 => Self::Down,
            7 => Self::Removed,
            8 => Self::Ramping,
            9 => Self::Open,
            10 => Self::HalfOpen,
            11 => Self::Unhealthy,
            12 => Self::Checking,
            _ => return None,
        })
    }

    /// Whether requests are kept away because of how the server does.
    pub(super) const fn is_out(self) -> bool {
        matches!(self, Self::Lowered | Self::Unavail | Self::Open | Self::HalfOpen | Self::Unhealthy)
    }
}

/// A state and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The state.
    pub state: State,
    /// When it began, µs.
    pub at: Micros,
}

/// What a stored word says.
pub(super) fn standing(word: u64) -> Option<Standing> {
    State::from_code(word & 0xff).map(|state| Standing { state, at: word >> 8 })
}
