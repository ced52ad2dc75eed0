//! A scenario of `labor-bench compare`: one of the simulator's, made to fit a real machine.
//!
//! What it is stands in the simulator's file; ours of the same name says how it is run: stretched in time, so that two
//! cores bear the rate, and shortened. The simulator can be given the result, so that both do the same. Only data here;
//! what happens to servers is events.rs, what the simulator says is predict.rs.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::dist::Dist;
use super::events::{self, Change};

/// Requests of one run at most: a typing error must not occupy the machine for hours.
const MAX_REQUESTS: f64 = 1e6;
/// Latencies within this factor of the least count as the best server.
const EQUALLY_GOOD: f64 = 1.001;
/// A network time below this share of the service time is not worth a word in a name.
const NEAR: f64 = 0.25;

/// Words of the simulator's files that change nothing of what happens.
const IRRELEVANT: &[&str] = &["find", "name"];

/// How a scenario is run here: the file in crates/bench/scenarios.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// Service and network times are so many times those of the simulator's file, and the rate as much lower.
    stretch: f64,
    /// The times of events are so many times those of the simulator's file.
    #[serde(default = "one")]
    clock: f64,
    /// Length of a run.
    seconds: f64,
    /// Its first seconds do not count.
    warmup: f64,
    /// Methods at the same time at most; for what needs the processors at single moments.
    #[serde(default = "no_limit")]
    at_once: usize,
    /// Not among the usual ones: it takes long, or repeats what another shows.
    #[serde(default)]
    full: bool,
    /// Why it is run so, and why reality differs from the simulator where it does; for the document.
    #[serde(default)]
    notes: String,
}

/// A scenario as the simulator reads it; a word that is not here is one we cannot do.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Simulated {
    about: String,
    rate: f64,
    duration: f64,
    #[serde(default)]
    warmup: f64,
    #[serde(default)]
    burst: u32,
    #[serde(default = "count_of_one")]
    balancers: u32,
    #[serde(default = "count_of_one")]
    workers: u32,
    #[serde(default = "one")]
    safe: f64,
    #[serde(default = "count_of_one", skip_serializing)]
    tries: u32,
    #[serde(default)]
    service: Dist,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<Watch>,
    server: Vec<Spec>,
}

/// A server and a time to look at more closely.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Index of the server.
    pub server: usize,
    /// Seconds.
    pub from: f64,
    /// Seconds; the end when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
}

/// One server or several equal ones.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    #[serde(default = "count_of_one")]
    count: u32,
    service_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_to_ms: Option<f64>,
    #[serde(default)]
    net_ms: f64,
    concurrency: u32,
    #[serde(default = "count_of_one")]
    weight: u32,
    #[serde(default)]
    stagger: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<Dist>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    event: Vec<events::Event>,
}

fn one() -> f64 {
    1.0
}

fn no_limit() -> usize {
    usize::MAX
}

fn count_of_one() -> u32 {
    1
}

/// A scenario ready to run.
pub struct Scenario {
    /// The name of its file without the suffix, here and in the simulator.
    pub name: String,
    /// What it is and how it is run, for people.
    pub about: String,
    /// Why so, and what was found.
    pub notes: String,
    /// Not among the usual ones.
    pub full: bool,
    /// Methods at the same time at most.
    pub at_once: usize,
    /// Requests per second, Poisson arrivals.
    pub rate: f64,
    /// Requests more at the very start.
    pub burst: u32,
    /// Without a safe method.
    pub post: bool,
    /// Length of a run.
    pub seconds: f64,
    /// Its first seconds do not count.
    pub warmup: f64,
    /// What is looked at more closely.
    pub watch: Option<Watch>,
    /// In the order of the configuration.
    pub servers: Vec<Server>,
    /// In order of time.
    pub changes: Vec<Change>,
    simulated: Simulated,
}

/// A model server.
pub struct Server {
    /// The latency when idle.
    pub name: String,
    /// Words of the SPEC language.
    pub spec: String,
    /// Its configured weight.
    pub weight: u32,
    /// Whether no other is faster at the end of the run, idle.
    pub best: bool,
}

impl Scenario {
    /// Reads our file and the simulator's of the same name in `simulator`.
    ///
    /// # Errors
    /// When one cannot be read, is no scenario, contradicts itself or needs what we cannot do.
    pub fn read(path: &Path, simulator: &Path) -> Result<Self> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()));
        let source = simulator.join(format!("{name}.toml"));
        Self::parse(name, &text(path)?, &text(&source)?)
            .with_context(|| format!("scenario {} of {}", path.display(), source.display()))
    }

    fn parse(name: String, plan: &str, simulated: &str) -> Result<Self> {
        let plan: Plan = toml::from_str(plan).context("how it is run")?;
        let mut original: toml::Table = toml::from_str(simulated).context("the simulator's file")?;
        IRRELEVANT.iter().for_each(|key| drop(original.remove(*key)));
        let original: Simulated = original.try_into().context("the simulator's file")?;
        for (what, value) in [("stretch", plan.stretch), ("clock", plan.clock), ("seconds", plan.seconds)] {
            ensure!(value.is_finite() && value > 0.0, "{what} must be above 0");
        }
        ensure!((0.0..plan.seconds).contains(&plan.warmup), "warmup must be shorter than seconds");
        ensure!(original.balancers == 1, "several balancers are not run here");
        ensure!(original.safe == 0.0 || original.safe == 1.0, "safe must be 0 or 1 here: a run has one method");
        ensure!(original.tries == 1, "second tries are not made here");
        let about = about(&original, &plan);
        let simulated = adapted(original, &plan)?;
        ensure!(simulated.rate * plan.seconds <= MAX_REQUESTS, "more than {MAX_REQUESTS} requests");
        let (servers, changes) = servers(&simulated)?;
        ensure!(simulated.watch.is_none_or(|watch| watch.server < servers.len()), "watch.server: no such server");
        Ok(Self {
            name,
            about,
            notes: plan.notes.trim().to_owned(),
            full: plan.full,
            at_once: plan.at_once.max(1),
            rate: simulated.rate,
            burst: simulated.burst,
            post: simulated.safe == 0.0,
            seconds: plan.seconds,
            warmup: plan.warmup,
            watch: simulated.watch,
            servers,
            changes,
            simulated,
        })
    }

    /// The same for a run of `seconds`, everything earlier in proportion: to see that all works.
    pub fn hurried(mut self, seconds: f64) -> Result<Self> {
        let clock = seconds / self.seconds;
        let warmup = self.warmup * clock;
        let plan = Plan { stretch: 1.0, clock, seconds, warmup, at_once: 1, full: false, notes: String::new() };
        self.simulated = adapted(self.simulated, &plan)?;
        (self.servers, self.changes) = servers(&self.simulated)?;
        (self.seconds, self.warmup, self.watch) = (seconds, plan.warmup, self.simulated.watch);
        Ok(self)
    }

    /// What the simulator has to be given to do the same, behind `workers` workers.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn for_simulator(&self, workers: usize) -> Result<String> {
        let workers = u32::try_from(workers)?;
        Ok(toml::to_string(&Simulated { workers, ..self.simulated.clone() })?)
    }
}

/// What it is and how it is run, in words.
fn about(original: &Simulated, plan: &Plan) -> String {
    let mut text = original.about.clone();
    let times = |factor: f64| (factor * 1000.0).round() / 1000.0;
    match plan.stretch {
        1.0 => {}
        factor if factor > 1.0 => text += &format!(". Here with all times {} times longer", times(factor)),
        factor => text += &format!(". Here with all times {} times shorter", times(1.0 / factor)),
    }
    text += &format!(
        "{}{} requests/s",
        if plan.stretch == 1.0 { ". Here " } else { ": " },
        times(original.rate / plan.stretch)
    );
    if original.server.iter().any(|server| !server.event.is_empty()) && plan.clock != 1.0 {
        text += &format!(", events at {} of their time", times(plan.clock));
    }
    text
}

/// The simulator's scenario stretched and shortened.
fn adapted(original: Simulated, plan: &Plan) -> Result<Simulated> {
    let mut new = original;
    new.rate /= plan.stretch;
    (new.duration, new.warmup) = (plan.seconds, plan.warmup);
    if let Some(watch) = &mut new.watch {
        watch.from *= plan.clock;
        watch.until = watch.until.map(|until| until * plan.clock).filter(|until| *until < plan.seconds);
        ensure!(watch.from < plan.seconds, "the run ends before what is watched begins");
    }
    for server in &mut new.server {
        server.service_ms *= plan.stretch;
        server.service_to_ms = server.service_to_ms.map(|to| to * plan.stretch);
        server.net_ms *= plan.stretch;
        server.stagger *= plan.clock;
        server.event.iter_mut().for_each(|event| event.adapt(plan.clock, plan.stretch));
    }
    Ok(new)
}

/// The model servers, and what happens to them.
fn servers(scenario: &Simulated) -> Result<(Vec<Server>, Vec<Change>)> {
    let mut servers: Vec<Server> = Vec::new();
    let mut changes = Vec::new();
    let mut latencies = Vec::new();
    for spec in &scenario.server {
        ensure!(spec.count >= 1 && spec.concurrency >= 1, "count and concurrency must be at least 1");
        for index in 0..spec.count {
            let step = spec.service_to_ms.map_or(0.0, |to| (to - spec.service_ms) / f64::from((spec.count - 1).max(1)));
            let service = spec.service_ms + step * f64::from(index);
            let delay = spec.stagger * f64::from(index);
            let mut phases = events::phases(&spec.event, delay, scenario.duration)?.into_iter();
            let Some(first) = phases.next() else { bail!("a server without a beginning") };
            let number = servers.len();
            changes.extend(phases.map(|phase| Change { server: number, ..phase }));
            let last = changes.last().filter(|change: &&Change| change.server == number).unwrap_or(&first);
            latencies.push(if last.works { service * last.slow + spec.net_ms } else { f64::INFINITY });
            let dist = spec.own.as_ref().unwrap_or(&scenario.service);
            let words = format!("network={:.3}ms,service={},k={}", spec.net_ms, dist.words(service), spec.concurrency);
            let name = name(service, spec.net_ms, &servers);
            servers.push(Server { name, spec: format!("{words},{}", first.set), weight: spec.weight, best: false });
        }
    }
    let least = latencies.iter().copied().fold(f64::INFINITY, f64::min);
    servers.iter_mut().zip(latencies).for_each(|(server, latency)| server.best = latency <= least * EQUALLY_GOOD);
    changes.sort_by(|a, b| a.at.total_cmp(&b.at));
    Ok((servers, changes))
}

/// `5ms`, with `+50` behind it for 50 ms of network, made unique by a letter.
fn name(service: f64, network: f64, others: &[Server]) -> String {
    let digits = |time: f64| format!("{}", (time * 10.0).round() / 10.0);
    let mut name = format!("{}ms", digits(service));
    if network > service * NEAR {
        name = format!("{}-{}ms", digits(service), digits(network));
    }
    let letters = ('a'..='z').map(|letter| format!("{name}-{letter}"));
    let used = |name: &String| others.iter().any(|server| server.name == *name);
    if used(&name) {
        return letters.skip(1).find(|name| !used(name)).unwrap_or_else(|| format!("{name}-{}", others.len()));
    }
    name
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
