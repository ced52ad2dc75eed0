//! What happens to the servers of a scenario, as changes of model servers at certain times.
//!
//! The simulator's events overlap and repeat; a model server is told its whole behaviour whenever anything changes.

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// The status of a failing answer; which one plays no part.
const FAILURE: u16 = 500;

/// So much slower that nothing is done in the time of a run.
const STANDSTILL: f64 = 1e6;

/// An event of the simulator; times in seconds.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    at: f64,
    effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lasts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_ms: Option<f64>,
}

/// A change of a server while the load runs.
#[derive(Clone)]
pub struct Change {
    /// Seconds from the start of the load.
    pub at: f64,
    /// Which server.
    pub server: usize,
    /// All words of the SPEC language that events decide.
    pub set: String,
    /// For people, a word or two.
    pub label: String,
    /// How many times slower it is now.
    pub slow: f64,
    /// Whether it answers, and not mainly with errors.
    pub works: bool,
}

impl Event {
    /// Times of events by `clock`, what a request takes by `stretch`.
    pub fn adapt(&mut self, clock: f64, stretch: f64) {
        self.at *= clock;
        self.lasts = self.lasts.map(|time| time * clock);
        self.every = self.every.map(|time| time * clock);
        self.after_ms = self.after_ms.map(|time| time * stretch);
    }
}

/// The behaviours of a server one after the other up to `end`, the first at 0; `delay` shifts its events.
///
/// # Errors
/// When an event is of a kind that model servers cannot do.
pub fn phases(events: &[Event], delay: f64, end: f64) -> Result<Vec<Change>> {
    let mut spans: Vec<(f64, f64, &Event)> = Vec::new();
    for event in events {
        let mut at = event.at + delay;
        ensure!(event.every.is_none_or(|every| every > 0.0), "every must be above 0");
        while at < end {
            spans.push((at, at + event.lasts.unwrap_or(f64::INFINITY), event));
            match event.every {
                Some(every) => at += every,
                None => break,
            }
        }
    }
    let mut cuts: Vec<f64> = spans.iter().flat_map(|span| [span.0, span.1]).chain([0.0]).collect();
    cuts.retain(|cut| *cut < end);
    cuts.sort_by(f64::total_cmp);
    cuts.dedup();
    cuts.into_iter().map(|at| phase(at, spans.iter().filter(|s| s.0 <= at && at < s.1).map(|s| s.2))).collect()
}

fn phase<'a>(at: f64, events: impl Iterator<Item = &'a Event>) -> Result<Change> {
    let (mut slow, mut share, mut after, mut hang) = (1.0, 0.0, 0.0, false);
    for event in events {
        match (event.effect.as_str(), event.factor, event.share) {
            ("slow", Some(factor), _) => slow *= factor,
            ("fail", _, Some(failing)) => (share, after) = (failing, event.after_ms.unwrap_or(0.0)),
            ("pause", ..) => slow = STANDSTILL,
            ("hang", ..) => hang = true,
            (other, ..) => bail!("an event \"{other}\" cannot be done here"),
        }
    }
    let switch = |on: bool| if on { "on" } else { "off" };
    let failing = switch(share > 0.0);
    let set =
        format!("slow={slow},fail={share}:{FAILURE},fast_fail={failing},fail_after={after:.3}ms,hang={}", switch(hang));
    let label = match (hang, share, slow) {
        (true, ..) => "hangs".to_owned(),
        (_, share, _) if share > 0.0 => format!("{:.0} % errors", share * 100.0),
        (_, _, 1.0) => "well".to_owned(),
        (_, _, STANDSTILL..) => "pauses".to_owned(),
        (_, _, slow) => format!("× {slow}"),
    };
    Ok(Change { at, server: 0, set, label, slow, works: !hang && share < 0.5 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn events_overlap_and_repeat() {
        let slow = event("at = 2\nlasts = 4\nevery = 10\neffect = 'slow'\nfactor = 3");
        let slower = event("at = 4\nlasts = 1\neffect = 'slow'\nfactor = 2");
        let phases = phases(&[slow, slower], 1.0, 15.0).unwrap();
        let seen: Vec<_> = phases.iter().map(|p| (p.at, p.slow)).collect();
        assert_eq!(seen, [(0.0, 1.0), (3.0, 3.0), (5.0, 6.0), (6.0, 3.0), (7.0, 1.0), (13.0, 3.0)]);
    }

    #[test]
    fn failing_takes_the_time_it_is_given_and_others_are_refused() {
        let fail = event("at = 0\neffect = 'fail'\nshare = 1\nafter_ms = 0.5");
        let phases = phases(&[fail], 0.0, 9.0).unwrap();
        assert_eq!((phases.len(), phases[0].works), (1, false));
        assert_eq!(phases[0].set, "slow=1,fail=1:500,fast_fail=on,fail_after=0.500ms,hang=off");
        assert!(super::phases(&[event("at = 0\neffect = 'melt'")], 0.0, 9.0).is_err());
    }
}
