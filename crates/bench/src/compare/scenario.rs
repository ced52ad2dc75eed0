//! A scenario of `labor-bench compare`: servers, load and what changes meanwhile, read from a TOML file.
//!
//! Only the data and its checks. What a server's words mean is the SPEC language of the model servers, which checks it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::units::duration;

/// Requests of one run at most: a minute at the highest rate two cores bear.
const MAX_REQUESTS: u64 = 1_000_000;

/// A whole scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of its file without the suffix.
    #[serde(skip)]
    pub name: String,
    /// One sentence for people.
    pub about: String,
    /// Requests per second, Poisson arrivals.
    pub rate: f64,
    /// Requests of one run.
    pub requests: u64,
    /// How many of them, in order of due time, are left out of the figures "after learning".
    pub learning: u64,
    /// The methods run at the same time, each before servers of its own: only where all of them together leave the
    /// processor mostly idle. Otherwise one after the other.
    #[serde(default)]
    pub together: bool,
    /// In the order of the configuration.
    #[serde(rename = "server")]
    pub servers: Vec<Server>,
    /// In order of time.
    #[serde(rename = "event", default)]
    pub events: Vec<Event>,
}

/// A model server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Letters, digits, `-`, `_` and `.`, as the report shows it.
    pub name: String,
    /// Words of the SPEC language.
    pub spec: String,
}

/// A change of a server while the load runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// From the start of the load, with a unit.
    #[serde(deserialize_with = "time")]
    pub at: Duration,
    /// Which server.
    pub server: String,
    /// Words of the SPEC language that change; the others stay.
    pub set: String,
}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration(&text).map_err(serde::de::Error::custom)
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no scenario, or contradicts itself.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(name, &text).with_context(|| format!("scenario {}", path.display()))
    }

    fn parse(name: String, text: &str) -> Result<Self> {
        let scenario = Self { name, ..toml::from_str(text)? };
        ensure!(scenario.rate.is_finite() && scenario.rate > 0.0, "rate must be above 0");
        ensure!(scenario.requests <= MAX_REQUESTS, "requests must be at most {MAX_REQUESTS}");
        ensure!(scenario.learning < scenario.requests, "learning leaves no requests");
        ensure!(!scenario.servers.is_empty(), "no [[server]]");
        for server in &scenario.servers {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            ensure!(!server.name.is_empty() && server.name.chars().all(plain), "server name \"{}\"", server.name);
        }
        for event in &scenario.events {
            ensure!(scenario.servers.iter().any(|server| server.name == event.server), "no server {}", event.server);
        }
        ensure!(scenario.events.is_sorted_by_key(|event| event.at), "events must be in order of time");
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "about = \"x\"\nrate = 5\nrequests = 10\nlearning = 2\n";
    const SERVER: &str = "[[server]]\nname = \"a\"\nspec = \"k=1\"\n";

    #[test]
    fn the_scenarios_that_come_along_are_scenarios() {
        let mut count = 0;
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap() {
            Scenario::read(&entry.unwrap().path()).unwrap();
            count += 1;
        }
        assert!(count >= 7, "{count}");
    }

    #[test]
    fn contradictions_are_refused() {
        let parse = |text: &str| Scenario::parse("x".to_owned(), text);
        let event =
            |server: &str, at: &str| format!("[[event]]\nat = \"{at}\"\nserver = \"{server}\"\nset = \"hang\"\n");
        assert_eq!(parse(&format!("{HEAD}{SERVER}{}", event("a", "2s"))).unwrap().events[0].at, Duration::from_secs(2));
        assert!(parse(HEAD).is_err(), "no server");
        assert!(parse(&format!("{HEAD}colour = 1\n{SERVER}")).is_err(), "unknown word");
        assert!(parse(&format!("{HEAD}{SERVER}{}", event("b", "2s"))).is_err(), "unknown server");
        assert!(parse(&format!("{HEAD}{SERVER}{}", event("a", "2"))).is_err(), "no unit");
        assert!(parse(&format!("{HEAD}{SERVER}{}{}", event("a", "2s"), event("a", "1s"))).is_err(), "order");
        assert!(parse(&format!("{}{SERVER}", HEAD.replace("learning = 2", "learning = 10"))).is_err());
    }
}
