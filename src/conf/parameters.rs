//! The parameters of the directive `labor`: words → [`Params`], or the message that `nginx -t` shows.
//!
//! Here because it is the one place where their syntax stands; it touches no nginx structure. Ranges that depend on what the
//! balancing can use are explained at the constants. What the values mean is the core's business.

use core::fmt;
use core::str;

use labor_core::params::StatusSet;
use labor_core::time::{Micros, SECOND};
use labor_core::{Metric, Params, Policy};

/// Smallest half-life: the table of scores is rebuilt at most every 20 ms, so that evidence gone within a few builds would
/// leave nothing to decide by.
const HALF_LIFE_MIN: Micros = SECOND / 10;
/// Largest half-life: a server nobody has listed for ten minutes loses its record, so nothing can be remembered longer.
const HALF_LIFE_MAX: Micros = 600 * SECOND;
/// Largest exploration budget, per cent of latency: beyond a tenth it costs more than any server it may find.
const EXPLORE_MAX: f32 = 10.0;
/// Shortest and longest ramp: below a second there is no time for steps, and beyond an hour nobody watches any more.
const SLOW_START: core::ops::RangeInclusive<Micros> = SECOND..=3600 * SECOND;
/// Statuses that can count as failures: below 400 an answer is a success by the definition of HTTP, above 599 there is none.
const FAILURE_STATUSES: core::ops::RangeInclusive<u16> = 400..=599;

/// The policies by name.
const POLICIES: [(&str, Policy); 5] = [
    ("fastest", Policy::Fastest),
    ("weighted", Policy::Weighted),
    ("least_conn", Policy::LeastConn),
    ("round_robin", Policy::RoundRobin),
    ("decay", Policy::Decay),
];

/// What nginx's own parser makes of a time such as `1m30s`: milliseconds, `None` when it is none.
pub type ParseTime = fn(&[u8]) -> Option<u64>;

/// What was given so far.
#[derive(Default)]
struct Given<'a> {
    metric: Option<Metric>,
    policy: Option<Policy>,
    half_life: Option<Micros>,
    explore: Option<f32>,
    failure: Option<StatusSet>,
    slow_start: Option<Micros>,
    words: (Option<&'a [u8]>, Option<&'a [u8]>),
}

/// Reads the words behind `labor`. The error is a message in nginx's wording with the value and what would be right.
pub fn parse<'a>(words: impl Iterator<Item = &'a [u8]>, parse_time: ParseTime) -> Result<Params, String> {
    let mut given = Given::default();
    for word in words {
        match split(word) {
            (b"header", None) => metric(&mut given.metric, Metric::Header, word)?,
            (b"last_byte", None) => metric(&mut given.metric, Metric::LastByte, word)?,
            (b"policy", Some(value)) => once(&mut given.policy, "policy", policy(value)?)?,
            (b"half_life", Some(value)) => {
                once(&mut given.half_life, "half_life", half_life(value, parse_time)?)?;
                given.words.0 = Some(word);
            }
            (b"explore", Some(value)) => {
                once(&mut given.explore, "explore", explore(value)?)?;
                given.words.1 = Some(word);
            }
            (b"failure", Some(value)) => once(&mut given.failure, "failure", failure(value)?)?,
            (b"slow_start", Some(value)) => {
                once(&mut given.slow_start, "slow_start", slow_start(value, parse_time)?)?;
            }
            _ => {
                return Err(format!(
                    "invalid parameter \"{}\", it must be \"header\", \"last_byte\", \"policy=\", \"half_life=\", \
                     \"explore=\", \"failure=\" or \"slow_start=\"",
                    Text(word)
                ));
            }
        }
    }
    combine(given)
}

/// Refuses what the chosen policy would ignore, fills in the rest.
fn combine(given: Given<'_>) -> Result<Params, String> {
    let default = Params::default();
    let policy = given.policy.unwrap_or(default.policy);
    for (word, used) in [(given.words.0, policy.learns()), (given.words.1, policy.explores())] {
        if let Some(word) = word.filter(|_| !used) {
            return Err(format!(
                "parameter \"{}\" has no effect with \"policy={}\", remove one of them",
                Text(word),
                POLICIES.iter().find(|(_, p)| *p == policy).map_or("", |(name, _)| name)
            ));
        }
    }
    Ok(Params {
        metric: given.metric.unwrap_or(default.metric),
        policy,
        half_life: given.half_life.unwrap_or(default.half_life),
        explore: given.explore.unwrap_or(default.explore),
        failure: given.failure.unwrap_or(default.failure),
        slow_start: given.slow_start.unwrap_or(default.slow_start),
        breaker: default.breaker,
        check: default.check,
    })
}

/// `name=value` in two, or a word without `=`.
pub(super) fn split(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = word.splitn(2, |&byte| byte == b'=');
    (parts.next().unwrap_or_default(), parts.next())
}

/// Takes a parameter that may be given once.
pub(super) fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("duplicate parameter \"{name}\"")),
    }
}

fn metric(place: &mut Option<Metric>, value: Metric, word: &[u8]) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(before) if before == value => Err(format!("duplicate parameter \"{}\"", Text(word))),
        Some(_) => Err("parameters \"header\" and \"last_byte\" are mutually exclusive, give one of them".to_owned()),
    }
}

fn policy(value: &[u8]) -> Result<Policy, String> {
    POLICIES.iter().find(|(name, _)| name.as_bytes() == value).map(|(_, policy)| *policy).ok_or_else(|| {
        invalid(value, "policy", "it must be \"fastest\", \"weighted\", \"least_conn\", \"round_robin\" or \"decay\"")
    })
}

/// A time, µs.
pub(super) fn micros(value: &[u8], parse_time: ParseTime) -> Option<Micros> {
    parse_time(value)?.checked_mul(1000)
}

/// A number of digits and one point only: "inf", "1e1" and signs are numbers to Rust, not to nginx.
pub(super) fn number(value: &[u8]) -> Option<f32> {
    let plain = value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    str::from_utf8(value).ok().filter(|_| plain)?.parse().ok()
}

/// A number of digits only.
pub(super) fn digits(value: &[u8]) -> Option<u32> {
    let plain = value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value).ok().filter(|_| plain)?.parse().ok()
}

fn half_life(value: &[u8], parse_time: ParseTime) -> Result<Micros, String> {
    micros(value, parse_time)
        .filter(|us| (HALF_LIFE_MIN..=HALF_LIFE_MAX).contains(us))
        .ok_or_else(|| invalid(value, "half_life", "it must be a time from \"100ms\" to \"10m\""))
}

fn slow_start(value: &[u8], parse_time: ParseTime) -> Result<Micros, String> {
    micros(value, parse_time)
        .filter(|us| *us == 0 || SLOW_START.contains(us))
        .ok_or_else(|| invalid(value, "slow_start", "it must be 0 or a time from \"1s\" to \"1h\""))
}

fn explore(value: &[u8]) -> Result<f32, String> {
    if value == b"off" {
        return Ok(0.0);
    }
    value
        .strip_suffix(b"%")
        .and_then(number)
        .filter(|percent| (0.0..=EXPLORE_MAX).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| invalid(value, "explore", "it must be \"off\" or from \"0%\" to \"10%\""))
}

fn failure(value: &[u8]) -> Result<StatusSet, String> {
    let mut set = StatusSet::EMPTY;
    for item in value.split(|&byte| byte == b',') {
        let status = (item.len() == 3)
            .then(|| digits(item).and_then(|status| u16::try_from(status).ok()))
            .flatten()
            .filter(|status| FAILURE_STATUSES.contains(status))
            .ok_or_else(|| {
                invalid(item, "failure", "it must be a list of statuses from 400 to 599, such as \"429,500,503\"")
            })?;
        if set.contains(status) {
            return Err(format!("duplicate value \"{status}\" in parameter \"failure\""));
        }
        set.insert(status);
    }
    Ok(set)
}

pub(super) fn invalid(value: &[u8], name: &str, hint: &str) -> String {
    format!("invalid value \"{}\" in parameter \"{name}\", {hint}", Text(value))
}

/// A word of the configuration as text for a message; what is no UTF-8 is replaced.
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0))
    }
}
