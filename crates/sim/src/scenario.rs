//! Scenarios as data: what a TOML file says, checked.

use crate::dist::Dist;
use serde::Deserialize;
use std::path::Path;

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
    /// Seconds after which a request without an answer has failed.
    #[serde(default = "minute")]
    pub timeout: f64,
    /// A server and a time to look at more closely.
    pub watch: Option<Watch>,
    /// The servers.
    pub server: Vec<ServerSpec>,
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
    /// A `share` of arriving requests is answered with an error after `after_ms`, taking no place.
    Fail {
        /// 0–1.
        share: f64,
        /// At the server, beside the network time.
        #[serde(default)]
        after_ms: f64,
    },
    /// Arriving requests are never answered.
    Hang,
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
            stagger: 0.0,
            event: Vec::new(),
        }
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
        let mut scenario = Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
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
        let mut scenario: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        scenario.check()?;
        scenario.server = scenario.server.iter().flat_map(expand).collect();
        if scenario.watch.is_some_and(|w| w.server >= scenario.server.len()) {
            return Err("watch.server: there is no such server".into());
        }
        Ok(scenario)
    }

    /// The same for `requests` requests in all, burst and warm-up included.
    pub fn with_requests(mut self, requests: u64) -> Self {
        self.duration = requests as f64 / self.rate;
        self.warmup = self.warmup.min(self.duration / 2.0);
        self
    }

    fn check(&self) -> Result<(), String> {
        let positive = |name: &str, x: f64| {
            if x.is_finite() && x > 0.0 { Ok(()) } else { Err(format!("{name} must be above 0, is {x}")) }
        };
        positive("rate", self.rate)?;
        positive("duration", self.duration)?;
        positive("timeout", self.timeout)?;
        if !(0.0..self.duration).contains(&self.warmup) {
            return Err("warmup must be shorter than duration".into());
        }
        if self.server.is_empty() || self.balancers == 0 || self.workers == 0 {
            return Err("needs servers, balancers and workers".into());
        }
        if !(0.0..=1.0).contains(&self.safe) {
            return Err("safe must be in 0–1".into());
        }
        for server in &self.server {
            positive("service_ms", server.service_ms)?;
            if server.concurrency == 0 || server.count == 0 || server.net_ms.is_nan() || server.net_ms < 0.0 {
                return Err("concurrency and count must be at least 1, net_ms at least 0".into());
            }
            for event in &server.event {
                match event.effect {
                    Effect::Slow { factor } => positive("factor", factor)?,
                    Effect::Fail { share, .. } if !(0.0..=1.0).contains(&share) => {
                        return Err("share must be in 0–1".into());
                    }
                    _ => {}
                }
                if let Some(every) = event.every {
                    positive("every", every)?;
                }
            }
        }
        let dists = self.server.iter().filter_map(|s| s.own).chain([self.service]);
        dists.into_iter().find_map(|d| d.fault()).map_or(Ok(()), |fault| Err(fault.into()))
    }
}

/// The servers that a specification with a count stands for.
fn expand(spec: &ServerSpec) -> Vec<ServerSpec> {
    (0..spec.count)
        .map(|i| {
            let mut server = ServerSpec { count: 1, service_to_ms: None, ..spec.clone() };
            if let Some(to) = spec.service_to_ms {
                server.service_ms += (to - spec.service_ms) * f64::from(i) / f64::from((spec.count - 1).max(1));
            }
            for event in &mut server.event {
                event.at += spec.stagger * f64::from(i);
            }
            server
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "about='x'\nrate=10\nduration=5\n[[server]]\ncount=3\nservice_ms=5\nservice_to_ms=15\nconcurrency=2\n";

    #[test]
    fn counts_expand_evenly() {
        let scenario = Scenario::parse(GOOD).unwrap();
        let means: Vec<_> = scenario.server.iter().map(|s| s.service_ms).collect();
        assert_eq!(means, [5.0, 10.0, 15.0]);
    }

    #[test]
    fn faults_are_named() {
        for (bad, word) in [
            (GOOD.replace("rate=10", "rate=0"), "rate"),
            (GOOD.replace("rate=10", "rate=10\nwarmup=9"), "warmup"),
            (GOOD.replace("rate=10", "rate=10\nspeed=9"), "speed"),
            (GOOD.replace("concurrency=2", "concurrency=0"), "concurrency"),
        ] {
            let error = Scenario::parse(&bad).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn every_shipped_scenario_is_valid() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut seen = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
            seen += 1;
        }
        assert!(seen >= 20, "{seen}");
    }
}
