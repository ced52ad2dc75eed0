//! What kinds of events there are, who asks for them, and the words that people read.
//!
//! Words are made of figures and fixed texts only, where they are shown. Not here: the ring.

use std::fmt;

use super::Seen;
use crate::attempt::Failure;
use crate::check::Cause;
use crate::control::Source;

/// What happened. Codes are stored in shared memory, so new ones come at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// It fails, and requests keep away from it. `before`: code of the [`Failure`] or [`NO_KIND`]; `after`: level in thousandths.
    Lowered = 1,
    /// It is no longer lowered, or max_fails lets it in again.
    Recovered = 2,
    /// New sessions keep away from it.
    Drained = 3,
    /// Nobody may use it.
    Down = 4,
    /// It may be used again after `Drained` or `Down`.
    Up = 5,
    /// Another weight, `before` → `after`.
    Weight = 6,
    /// Another limit of connections, `before` → `after`; 0 is none.
    MaxConns = 7,
    /// What was learned and counted is forgotten.
    Reset = 8,
    /// A configuration was read; `after`: how many so far.
    Reload = 9,
    /// No record was left for `after` servers.
    ZoneFull = 10,
    /// Quiet with requests in flight.
    Silent = 11,
    /// Slower when idle; `before` → `after` in µs where known.
    Slower = 12,
    /// Faster when idle; `before` → `after` in µs where known.
    Faster = 13,
    /// It came into the list.
    Added = 14,
    /// It left the list.
    Removed = 15,
    /// nginx's max_fails took it out.
    Unavail = 16,
    /// It is led up to its share.
    Ramping = 17,
    /// Its breaker opened.
    Opened = 18,
    /// Trials are let through to it.
    HalfOpen = 19,
    /// Its breaker closed.
    Closed = 20,
    /// Nobody was usable, and the least bad server was used.
    FailOpen = 21,
    /// Its checks fail. `before`: code of the [`Cause`]; `after`: HTTP status, 0 without one.
    CheckFailed = 22,
    /// Its checks pass again.
    CheckPassed = 23,
}

/// For [`Event::Lowered`]: what kind of failure is not known.
pub const NO_KIND: u32 = u32::MAX;

impl Event {
    /// All events.
    pub const ALL: [Self; 23] = [
        Self::Lowered,
        Self::Recovered,
        Self::Drained,
        Self::Down,
        Self::Up,
        Self::Weight,
        Self::MaxConns,
        Self::Reset,
        Self::Reload,
        Self::ZoneFull,
        Self::Silent,
        Self::Slower,
        Self::Faster,
        Self::Added,
        Self::Removed,
        Self::Unavail,
        Self::Ramping,
        Self::Opened,
        Self::HalfOpen,
        Self::Closed,
        Self::FailOpen,
        Self::CheckFailed,
        Self::CheckPassed,
    ];

    /// The event's name as status pages and logs show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lowered => "lowered",
            Self::Recovered => "recovered",
            Self::Drained => "drained",
            Self::Down => "down",
            Self::Up => "up",
            Self::Weight => "weight",
            Self::MaxConns => "max_conns",
            Self::Reset => "reset",
            Self::Reload => "reload",
            Self::ZoneFull => "zone_full",
            Self::Silent => "silent",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Unavail => "unavail",
            Self::Ramping => "ramping",
            Self::Opened => "opened",
            Self::HalfOpen => "half_open",
            Self::Closed => "closed",
            Self::FailOpen => "fail_open",
            Self::CheckFailed => "check_failed",
            Self::CheckPassed => "check_passed",
        }
    }
}

/// Who asked for an event, as one byte; 0 when nobody did.
pub(super) const fn code(source: Option<Source>) -> u8 {
    match source {
        None => 0,
        Some(Source::Configuration) => 1,
        Some(Source::Api) => 2,
        Some(Source::StateFile) => 3,
    }
}

/// Who is meant by a byte.
pub(super) const fn source(code: u8) -> Option<Source> {
    match code {
        1 => Some(Source::Configuration),
        2 => Some(Source::Api),
        3 => Some(Source::StateFile),
        _ => None,
    }
}

impl Seen {
    /// A few words for people; empty where the event's name says all. Figures and fixed words only.
    pub fn detail(&self) -> String {
        let (before, after) = (self.before, self.after);
        let mut words = match self.event {
            Event::Lowered => match Failure::ALL.into_iter().find(|kind| *kind as u32 == before) {
                Some(kind) => format!("{} failures, level {:.2}", kind.name(), f64::from(after) / 1000.0),
                None => String::new(),
            },
            Event::Weight => format!("weight {after}, was {before}"),
            Event::MaxConns => format!("max_conns {}, was {}", Limit(after), Limit(before)),
            Event::Reload => format!("configuration {after}"),
            Event::ZoneFull => format!("no record for {after} servers"),
            Event::Slower | Event::Faster if before > 0 && after > 0 => {
                format!("{} → {}", Time(before), Time(after))
            }
            Event::CheckFailed => match Cause::from_code(before.into()) {
                Some(Cause::Status) => format!("status {after}"),
                Some(cause) => cause.name().into(),
                None => String::new(),
            },
            Event::Unavail => "max_fails".into(),
            _ => String::new(),
        };
        if let Some(source) = self.source.map(Source::name) {
            words.push_str(if words.is_empty() { "by " } else { " (" });
            words.push_str(source);
            words.push_str(if words.starts_with("by ") { "" } else { ")" });
        }
        words
    }
}

/// A limit, 0 for none.
struct Limit(u32);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("unlimited") } else { self.0.fmt(f) }
    }
}

/// Microseconds with the unit that leaves few digits.
struct Time(u32);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us @ 0..1_000 => write!(f, "{us} µs"),
            us @ 1_000..1_000_000 => write!(f, "{:.1} ms", f64::from(us) / 1e3),
            us => write!(f, "{:.2} s", f64::from(us) / 1e6),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn details_are_words_for_people() {
        let seen =
            |event, source, before, after| Seen { at: 1, event, source, before, after, server: Vec::new() }.detail();
        for (event, before, after, words) in [
            (Event::Lowered, Failure::Reset as u32, 460, "reset failures, level 0.46"),
            (Event::Lowered, NO_KIND, 100, ""),
            (Event::MaxConns, 0, 5, "max_conns 5, was unlimited"),
            (Event::Slower, 950, 12_300, "950 µs → 12.3 ms"),
            (Event::Faster, 2_500_000, 0, ""),
            (Event::Silent, 0, 0, ""),
        ] {
            assert_eq!(seen(event, None, before, after), words);
        }
        assert_eq!(seen(Event::Drained, Some(Source::StateFile), 0, 0), "by state_file");
    }

    #[test]
    fn names_are_words_and_differ() {
        let names: std::collections::HashSet<_> = Event::ALL.iter().map(|e| e.name()).collect();
        assert_eq!(names.len(), Event::ALL.len());
    }
}
