//! Scenarios as data: what a TOML file may say. Whether it makes sense is checked in `check`.

mod check;

use crate::Nanos;
use crate::dist::Dist;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// One scenario.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name; the file's name when absent.
    #[serde(default)]
    pub name: String,
    /// What it stands for, and which values were chosen for it.
    pub about: String,
    /// Requests a second, all balancers together (Poisson).
    pub rate: f64,
    /// Simulated seconds in which requests arrive.
    pub duration: f64,
    /// Simulated seconds at the start that do not count.
    #[serde(default)]
    pub warmup: f64,
    /// Requests that arrive at the very start, all at once, before the Poisson stream.
    #[serde(default)]
    pub burst: u32,
    /// How the size of requests varies; known to an oracle.
    #[serde(default)]
    pub service: Dist,
    /// Independent balancers over the same servers.
    #[serde(default = "one")]
    pub balancers: u32,
    /// Workers that share one balancer's state.
    #[serde(default = "one")]
    pub workers: u32,
    /// Share of requests with a safe method.
    #[serde(default = "whole")]
    pub safe: f64,
    /// Servers that a request is sent to at most: above 1 a failed attempt goes on to the next one (`proxy_next_upstream`).
    #[serde(default = "one")]
    pub tries: u32,
    /// Whether servers have breakers with the directive's defaults, where policies have any (`labor_breaker`).
    #[serde(default)]
    pub breaker: bool,
    /// Seconds for which new servers are led up to their share, where policies do that (`slow_start`); 0 for not at all.
    #[serde(default)]
    pub slow_start: f64,
    /// Seconds after which an attempt without an answer has failed.
    #[serde(default = "minute")]
    pub timeout: f64,
    /// Requests that become long sessions.
    pub session: Option<Session>,
    /// What requests are about, where policies keep that together.
    pub keys: Option<Keys>,
    /// A server and a time to look at more closely.
    pub watch: Option<Watch>,
    /// The server that is to be found, and from when on: the fastest one from the start when absent.
    pub find: Option<Watch>,
    /// When requests arrive, instead of a Poisson stream; and where each was sent, for a replay.
    #[serde(skip)]
    pub arrivals: Arc<[(Nanos, u32)]>,
    /// The servers.
    pub server: Vec<ServerSpec>,
}

/// Keys of requests: sessions, or objects of a cache.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// How many there are, all alike but the first.
    pub count: u32,
    /// Share of the requests that the first one has, beside its part among all.
    #[serde(default)]
    pub hot: f64,
}

/// A window of interest.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Index of the server whose share is shown.
    pub server: usize,
    /// From this second on.
    pub from: f64,
    /// Until this second; the end when absent.
    pub until: Option<f64>,
}

/// Requests that stay open after their answer, as WebSockets do: they take no place at the server any more.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Share of the requests, 0–1.
    pub share: f64,
    /// Mean length after the answer (exponential), seconds.
    pub lasts: f64,
}

/// One server, or several equal ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// How many of them.
    #[serde(default = "one")]
    pub count: u32,
    /// Mean service time.
    pub service_ms: f64,
    /// With `count` above 1: the mean of the last one, the others evenly between.
    pub service_to_ms: Option<f64>,
    /// Network time, both ways together.
    #[serde(default)]
    pub net_ms: f64,
    /// Requests worked on at once.
    pub concurrency: u32,
    /// Configured weight.
    #[serde(default = "one")]
    pub weight: u32,
    /// Its own variation, hidden from an oracle, instead of the requests' size.
    pub own: Option<Dist>,
    /// Second at which it joins the list.
    #[serde(default)]
    pub join: f64,
    /// Second at which it leaves the list; what it has been sent it still answers.
    pub leave: Option<f64>,
    /// With `count` above 1: seconds by which the events of each come later than its predecessor's.
    #[serde(default)]
    pub stagger: f64,
    /// What happens to it.
    #[serde(default)]
    pub event: Vec<Event>,
}

/// Something that happens to a server.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Event {
    /// When it begins, seconds.
    pub at: f64,
    /// How long it lasts, seconds; for ever when absent.
    pub lasts: Option<f64>,
    /// Period of repetition, seconds.
    pub every: Option<f64>,
    /// What it does.
    #[serde(flatten)]
    pub effect: Effect,
}

/// What an event does to a server.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "effect", rename_all = "lowercase")]
pub enum Effect {
    /// Everything takes `factor` times as long, also what is under way.
    Slow {
        /// > 0; below 1 is faster.
        factor: f64,
    },
    /// Nothing moves; what is under way goes on afterwards.
    Pause,
    /// A `share` of arriving requests is answered with an error after `after_ms`, taking no place: 1 is fast failure, less is
    /// a flaky server.
    Fail {
        /// 0–1.
        share: f64,
        /// At the server, beside the network time.
        #[serde(default)]
        after_ms: f64,
    },
    /// Arriving requests are never answered: a black hole.
    Hang,
    /// The next `requests` answers take `factor` times as long: empty caches, code not compiled yet.
    Cold {
        /// How many.
        requests: u32,
        /// How much slower they are.
        factor: f64,
    },
    /// Somebody else uses the machine in bursts: while a burst lasts everything takes `factor` times as long.
    Antagonist {
        /// How much slower.
        factor: f64,
        /// Share of the time that bursts take, 0–1.
        share: f64,
        /// Mean length of a burst (exponential).
        burst_ms: f64,
    },
}

impl Effect {
    /// A word for plots.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Slow { factor } if *factor < 1.0 => "faster",
            Self::Slow { .. } => "slow",
            Self::Pause => "pause",
            Self::Fail { .. } => "fails",
            Self::Hang => "hangs",
            Self::Cold { .. } => "cold",
            Self::Antagonist { .. } => "antagonist",
        }
    }
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            count: 1,
            service_ms: 10.0,
            service_to_ms: None,
            net_ms: 0.0,
            concurrency: 1,
            weight: 1,
            own: None,
            join: 0.0,
            leave: None,
            stagger: 0.0,
            event: Vec::new(),
        }
    }
}

impl ServerSpec {
    /// What an answer of the idle server takes on average, ms.
    pub fn idle_ms(&self) -> f64 {
        self.service_ms + self.net_ms
    }
}

fn one() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}

fn minute() -> f64 {
    60.0
}

impl Scenario {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// When the file cannot be read, is no scenario or holds values out of range: a sentence that names file and value.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut scenario = Self::within(&text, directory).map_err(|e| format!("{}: {e}", path.display()))?;
        if scenario.name.is_empty() {
            scenario.name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        }
        Ok(scenario)
    }

    /// Parses and checks a scenario's text.
    ///
    /// # Errors
    /// When it is no scenario or holds values out of range: a sentence that says which.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::within(text, Path::new("."))
    }

    /// The same; what the text calls a file is looked for in `directory`.
    fn within(text: &str, directory: &Path) -> Result<Self, String> {
        let mut scenario: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        scenario.service.load(directory)?;
        for own in scenario.server.iter_mut().filter_map(|s| s.own.as_mut()) {
            own.load(directory)?;
        }
        scenario.check()?;
        scenario.server = scenario.server.iter().flat_map(check::expand).collect();
        for (what, window) in [("watch", scenario.watch), ("find", scenario.find)] {
            if window.is_some_and(|w| w.server >= scenario.server.len()) {
                return Err(format!("{what}.server: there is no such server; the first one is 0"));
            }
        }
        Ok(scenario)
    }

    /// The same for `requests` requests in all, burst and warm-up included.
    pub fn with_requests(mut self, requests: u64) -> Self {
        self.duration = requests as f64 / self.rate;
        self.warmup = self.warmup.min(self.duration / 2.0);
        self
    }

    /// The servers that answer soonest when idle: everybody when there is no difference.
    pub fn fastest(&self) -> Vec<bool> {
        let least = self.server.iter().map(ServerSpec::idle_ms).fold(f64::INFINITY, f64::min);
        self.server.iter().map(|s| s.idle_ms() <= least).collect()
    }
}
