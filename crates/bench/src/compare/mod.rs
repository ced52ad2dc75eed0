//! `labor-bench compare` and `document`: balancing methods side by side, each a real balancer before model servers of its own.
//!
//! Fairness comes from here: for every seed every method meets the same arrivals and servers with the same random numbers,
//! fresh processes on both sides, in groups that run at the same time and are drawn anew for each seed. What is measured
//! and how stands in the modules; scripts/bench finds the programs.

mod conf;
mod dist;
mod document;
mod events;
mod figures;
mod machine;
mod method;
mod plot;
mod predict;
mod process;
mod report;
mod scenario;
mod sheet;
mod stats;
mod turns;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::signal::unix::{SignalKind, signal};

pub use self::document::{Args as DocumentArgs, run as document};
use self::method::{LeftOut, Method, Programs};
use self::predict::Simulator;
use self::process::{Balancer, Models};
use self::scenario::Scenario;
use self::sheet::{Made, Outcome, Row, Sheet};
use self::turns::{Clock, Turns};
use crate::clock::now;
use crate::units::{duration, explained};

/// Starting and ending the processes of a group, seconds; for the forecast of the time only.
const AROUND: f64 = 2.0;

/// Compare balancing methods on real balancers, model servers and open-loop load
#[derive(clap::Args)]
pub struct Args {
    /// Scenario files (TOML)
    #[arg(required = true, value_name = "FILE")]
    scenarios: Vec<PathBuf>,
    /// Without the scenarios that say `full = true`
    #[arg(long)]
    usual: bool,
    /// The simulator's scenarios
    #[arg(long, value_name = "DIR")]
    simulated: PathBuf,
    /// The simulator, for predictions
    #[arg(long, value_name = "PATH")]
    simulator: Option<PathBuf>,
    /// Methods, separated by commas [default: all usual ones there is a program for]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    methods: Vec<String>,
    /// Runs of each method, each with another seed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Length of a run instead of each scenario's own, everything in it earlier in proportion: to see that all works
    #[arg(long, value_name = "TIME", value_parser = explained(duration))]
    length: Option<Duration>,
    /// Requests per second of the methods that run at the same time, all together, at most
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1600.0)]
    together: f64,
    /// Worker processes of nginx, threads of the others
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: usize,
    /// A directory for configurations, sockets and logs; emptied by nobody
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Write the results of each scenario there, as NAME.json
    #[arg(long, value_name = "DIR")]
    json: Option<PathBuf>,
    /// For the document: the day, the command and the revision of the sources
    #[arg(long, value_name = "TEXT", num_args = 3)]
    made: Vec<String>,
    #[command(flatten)]
    programs: Programs,
}

/// Runs everything and prints Markdown, scenario by scenario.
///
/// # Errors
/// When a scenario is wrong, a program does not run, or on SIGINT and SIGTERM.
pub async fn run(args: Args) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // What is dropped on the way out ends its processes.
    tokio::select! {
        result = compare(Rc::new(args)) => result,
        _ = terminate.recv() => anyhow::bail!("terminated"),
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
    }
}

async fn compare(args: Rc<Args>) -> Result<()> {
    ensure!(args.workers >= 1, "--workers must be at least 1");
    ensure!(args.together > 0.0, "--together must be above 0");
    let mut scenarios = Vec::new();
    for path in &args.scenarios {
        let scenario = Scenario::read(path, &args.simulated)?;
        if args.usual && scenario.full {
            continue;
        }
        scenarios.push(match args.length {
            Some(length) => scenario.hurried(length.as_secs_f64())?,
            None => scenario,
        });
    }
    let simulator = match &args.simulator {
        Some(program) => Some(Simulator::new(program).await?),
        None => None,
    };
    let (methods, left_out) = method::choose(&args.methods, &args.programs)?;
    let first = scenarios.first().context("no scenario")?;
    let (methods, left_out) = probe(&args, first, methods, left_out).await?;
    let versions = args.programs.versions(&methods);
    let turns = |scenario: &Scenario| Turns::new(methods.len(), scenario.rate, args.together, scenario.at_once);
    let forecast = |s: &Scenario| (args.seeds as usize * turns(s).groups) as f64 * (s.seconds + AROUND);
    let mut clock = Clock::new(now(), scenarios.iter().map(forecast).sum());
    for scenario in scenarios {
        let scenario = Rc::new(scenario);
        let mut sheet = empty(&args, &scenario, &methods, &left_out, turns(&scenario).size);
        sheet.made.versions = versions.clone();
        if let Some(simulator) = &simulator {
            let predicted = simulator.predict(&scenario, &methods, args.workers, args.seeds, &args.dir).await;
            let mut predicted = predicted.with_context(|| format!("the simulator on {}", scenario.name))?;
            sheet.rows.iter_mut().for_each(|row| row.simulated = predicted.remove(row.method.as_str()));
        }
        seeds(&args, &scenario, &methods, turns(&scenario), &mut sheet, &mut clock).await?;
        println!("{}", report::section(&sheet, &[]));
        if let Some(dir) = &args.json {
            sheet.write(&dir.join(format!("{}.json", scenario.name)))?;
        }
    }
    eprintln!("Total time: {}", clock.elapsed(now()));
    Ok(())
}

/// All runs of a scenario.
async fn seeds(
    args: &Rc<Args>,
    scenario: &Rc<Scenario>,
    methods: &[Method],
    turns: Turns,
    sheet: &mut Sheet,
    clock: &mut Clock,
) -> Result<()> {
    let before = machine::Usage::now()?;
    for seed in 1..=args.seeds {
        for (number, group) in turns.of(seed).into_iter().enumerate() {
            let of =
                if turns.groups > 1 { format!(", group {} of {}", number + 1, turns.groups) } else { String::new() };
            eprintln!("{}: seed {seed} of {}{of} ({})", scenario.name, args.seeds, clock.say(now()));
            let chosen: Vec<Method> = group.iter().map(|index| methods[*index]).collect();
            let outcomes = one_group(args, scenario, &chosen, seed).await;
            let outcomes = outcomes.with_context(|| format!("scenario {}, seed {seed}", scenario.name))?;
            for (index, (outcome, timeline)) in group.into_iter().zip(outcomes) {
                sheet.rows[index].runs.push(outcome);
                figures::merge(&mut sheet.rows[index].timeline, &timeline);
            }
            clock.done(scenario.seconds + AROUND);
        }
    }
    sheet.made.busy = before.busy_since()?;
    Ok(())
}

/// A sheet without runs.
fn empty(args: &Args, scenario: &Scenario, methods: &[Method], left_out: &[(Method, String)], at_once: usize) -> Sheet {
    let text = |index: usize| args.made.get(index).cloned().unwrap_or_else(|| "unknown".to_owned());
    let row = |method: &Method| Row {
        method: method.name.to_owned(),
        alone: method.first_only,
        runs: Vec::new(),
        timeline: Vec::new(),
        simulated: None,
    };
    let name = |server: usize| scenario.servers[server].name.clone();
    let made = Made {
        date: text(0),
        command: text(1),
        revision: text(2),
        versions: Vec::new(),
        machine: machine::describe(),
        busy: 0.0,
        load: machine::load(),
    };
    Sheet {
        scenario: scenario.name.clone(),
        about: scenario.about.clone(),
        notes: scenario.notes.clone(),
        made,
        rate: scenario.rate,
        seconds: scenario.seconds,
        warmup: scenario.warmup,
        at_once,
        watch: scenario.watch.map(|w| (name(w.server), w.from, w.until.unwrap_or(scenario.seconds))),
        servers: scenario.servers.iter().map(|server| server.name.clone()).collect(),
        best: scenario.servers.iter().map(|server| server.best).collect(),
        events: scenario.changes.iter().map(|c| (c.at, name(c.server), c.label.clone())).collect(),
        rows: methods.iter().map(row).collect(),
        left_out: left_out.iter().map(|(method, why)| (method.name.to_owned(), why.clone())).collect(),
    }
}

/// Starts each method once and sends it a few requests. One that does not answer is left out, or an error when it was named.
async fn probe(
    args: &Args,
    scenario: &Scenario,
    methods: Vec<Method>,
    mut left_out: LeftOut,
) -> Result<(Vec<Method>, LeftOut)> {
    let mut well = Vec::new();
    for method in methods {
        eprintln!("Trying {} …", method.name);
        match try_method(args, scenario, method).await {
            Ok(()) => well.push(method),
            Err(error) if args.methods.is_empty() && method.name != "labor" => {
                left_out.push((method, format!("{error:#}")))
            }
            Err(error) => return Err(error),
        }
    }
    for (method, why) in &left_out {
        eprintln!("Left out: {}: {why}", method.name);
    }
    Ok((well, left_out))
}

async fn try_method(args: &Args, scenario: &Scenario, method: Method) -> Result<()> {
    let (models, balancer) = start(args, scenario, method, 0).await?;
    process::probe(&directory(args, scenario, method, 0)).await?;
    balancer.stop().await?;
    models.stop().await
}

fn directory(args: &Args, scenario: &Scenario, method: Method, seed: u64) -> PathBuf {
    args.dir.join(format!("{}-{}-{seed}", scenario.name, method.name))
}

async fn start(args: &Args, scenario: &Scenario, method: Method, seed: u64) -> Result<(Models, Balancer)> {
    let dir = directory(args, scenario, method, seed);
    std::fs::create_dir_all(&dir)?;
    let models = Models::start(scenario, seed).await?;
    let balancer = Balancer::start(&args.programs, method, args.workers, &models.servers, &dir).await?;
    Ok((models, balancer))
}

/// One run of some methods at the same time: first all are started, then all get their load.
async fn one_group(
    args: &Rc<Args>,
    scenario: &Rc<Scenario>,
    methods: &[Method],
    seed: u64,
) -> Result<Vec<(Outcome, Vec<figures::Point>)>> {
    let mut started = Vec::new();
    for method in methods {
        started.push((*method, start(args, scenario, *method, seed).await?));
    }
    let mut runs = Vec::new();
    for (method, (models, balancer)) in started {
        let (scenario, dir) = (scenario.clone(), directory(args, scenario, method, seed));
        runs.push(tokio::task::spawn_local(async move {
            let run = one_run(&scenario, &models, balancer, seed, &dir).await;
            let (run, ended) = (run.with_context(|| method.name)?, models.stop().await);
            ended.map(|()| run)
        }));
    }
    let mut outcomes = Vec::new();
    for run in runs {
        outcomes.push(run.await??);
    }
    Ok(outcomes)
}

async fn one_run(
    scenario: &Scenario,
    models: &Models,
    balancer: Balancer,
    seed: u64,
    dir: &Path,
) -> Result<(Outcome, Vec<figures::Point>)> {
    let (log, ()) = tokio::try_join!(process::load(scenario, seed, dir), models.change(scenario))?;
    balancer.stop().await?;
    let names: Vec<&str> = scenario.servers.iter().map(|server| server.name.as_str()).collect();
    let requests = figures::read(&log, &names)?;
    let of = |from, until| figures::Figures::of(&requests, from, until, names.len());
    let outcome = Outcome {
        all: of(0.0, f64::INFINITY)?,
        learned: of(scenario.warmup, f64::INFINITY)?,
        watched: scenario.watch.map(|watch| of(watch.from, watch.until.unwrap_or(f64::INFINITY))).transpose()?,
    };
    // Thousands of lines a run are of no use to anyone after this.
    std::fs::remove_dir_all(dir)?;
    // Where nothing happens there is nothing to see over time.
    let changing = scenario.changes.first().map(|change| change.server);
    let timeline = changing.map(|server| figures::timeline(&requests, scenario.seconds, server)).unwrap_or_default();
    Ok((outcome, timeline))
}
