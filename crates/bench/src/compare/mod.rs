//! `labor-bench compare`: balancing methods side by side, each a real nginx or HAProxy before model servers of its own kind.
//!
//! Fairness comes from here: for every seed every method meets the same arrivals and servers with the same random numbers,
//! fresh processes on both sides, in an order that rotates from seed to seed, or all at the same time. What is measured
//! and how stands in the modules; scripts/bench finds the programs.

mod figures;
mod method;
mod process;
mod report;
mod scenario;

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use self::figures::Figures;
use self::method::{Method, Programs};
use self::process::{Balancer, Models};
use self::report::{Outcome, Row};
use self::scenario::Scenario;

/// Compare balancing methods on real balancers, model servers and open-loop load
#[derive(clap::Args)]
pub struct Args {
    /// Scenario files (TOML)
    #[arg(required = true, value_name = "FILE")]
    scenarios: Vec<PathBuf>,
    /// Methods, separated by commas [default: all usual ones there is a program for]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    methods: Vec<String>,
    /// Runs of each method, each with another seed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Worker processes of nginx, threads of HAProxy
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: usize,
    /// A directory for configurations, sockets and logs; emptied by nobody
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Also write every figure as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
    let methods = method::choose(&args.methods, &args.programs)?;
    let scenarios = args.scenarios.iter().map(|path| Scenario::read(path).map(Rc::new)).collect::<Result<Vec<_>>>()?;
    ensure!(args.workers >= 1, "--workers must be at least 1");
    let mut results: Vec<Value> = Vec::new();
    for scenario in &scenarios {
        let mut rows: Vec<Row> = methods.iter().map(|method| Row { method: *method, runs: Vec::new() }).collect();
        for seed in 1..=args.seeds {
            eprintln!("{}: seed {seed} of {}", scenario.name, args.seeds);
            let outcomes = one_seed(&args, scenario, seed, &methods).await;
            let outcomes = outcomes.with_context(|| format!("scenario {}, seed {seed}", scenario.name))?;
            for (index, outcome) in outcomes {
                rows[index].runs.push(outcome);
            }
        }
        println!("{}", report::markdown(scenario, &rows));
        results.push(report::json(scenario, &rows));
    }
    if let Some(file) = &args.json {
        std::fs::write(file, format!("{:#}\n", Value::Array(results)))?;
    }
    Ok(())
}

/// One run of every method with the same seed; each outcome with the index of its method.
async fn one_seed(
    args: &Rc<Args>,
    scenario: &Rc<Scenario>,
    seed: u64,
    methods: &[Method],
) -> Result<Vec<(usize, Outcome)>> {
    let mut outcomes = Vec::new();
    if scenario.together {
        let mut runs = JoinSet::new();
        for (index, method) in methods.iter().copied().enumerate() {
            let (args, scenario) = (args.clone(), scenario.clone());
            runs.spawn_local(async move { (index, one_run(&args, &scenario, method, seed).await) });
        }
        while let Some(run) = runs.join_next().await {
            let (index, outcome) = run?;
            outcomes.push((index, outcome?));
        }
    } else {
        // Another method begins with every seed, so that none always follows the same one.
        let order = (0..methods.len()).cycle().skip(usize::try_from(seed)? % methods.len());
        for index in order.take(methods.len()) {
            outcomes.push((index, one_run(args, scenario, methods[index], seed).await?));
        }
    }
    Ok(outcomes)
}

async fn one_run(args: &Args, scenario: &Scenario, method: Method, seed: u64) -> Result<Outcome> {
    let dir = args.dir.join(format!("{}-{}-{seed}", scenario.name, method.name));
    std::fs::create_dir_all(&dir)?;
    let models = Models::start(scenario, seed).await?;
    let balancer = Balancer::start(&args.programs, method, args.workers, &models.servers, &dir).await?;
    let (log, ()) = tokio::try_join!(process::load(scenario, seed, &dir), models.change(scenario))?;
    balancer.stop().await?;
    models.stop().await?;
    let requests = figures::read(&log)?;
    let learned = requests.get(usize::try_from(scenario.learning)?..).unwrap_or_default();
    Ok(Outcome { all: Figures::of(&requests)?, learned: Figures::of(learned)? })
}
