//! `labor-sim`: the command line of the simulator. Parsing and printing only; what is computed is in the library.

mod act;

use clap::{Parser, Subcommand};
use labor_sim::Kind;
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulates servers behind load balancers: the production core of labor beside its competitors.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    log: act::log::Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run one scenario with one policy and print its figures.
    Run {
        /// A TOML file, or the name of a scenario that comes with labor-sim.
        scenario: String,
        /// Who chooses the server; several (comma separated) for pictures.
        #[arg(long, value_enum, value_delimiter = ',', default_value = "labor")]
        policy: Vec<Kind>,
        /// Everything random follows from it.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of requests instead of the scenario's duration.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        requests: Option<u64>,
        /// Write pictures into this directory: latency and shares over time, learned curves.
        #[arg(long, value_name = "DIR")]
        svg: Option<PathBuf>,
        /// Write the course of the run to this file, a line per slice of time.
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,
    },
    /// Run all policies on scenarios and compare them.
    Compare {
        /// TOML files or names; all that come with labor-sim when none is given.
        scenarios: Vec<String>,
        /// Number of seeds.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
        /// First seed.
        #[arg(long, default_value_t = 1)]
        first_seed: u64,
        /// Only these policies (comma separated).
        #[arg(long, value_enum, value_delimiter = ',')]
        policy: Vec<Kind>,
        /// Number of requests instead of each scenario's duration.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        requests: Option<u64>,
        /// Write every run's figures to this file, a line per scenario, policy and seed.
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,
        /// Write pictures of each scenario (first seed) into this directory.
        #[arg(long, value_name = "DIR")]
        svg: Option<PathBuf>,
    },
    /// Random settings: geometric means over the oracle.
    Random {
        /// How many settings.
        #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
        settings: u64,
        /// Seed of the first setting.
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// Only these policies (comma separated); the oracle always runs.
        #[arg(long, value_enum, value_delimiter = ',')]
        policy: Vec<Kind>,
        /// Print every setting with its ratios to the oracle.
        #[arg(long)]
        each: bool,
    },
    /// Vary each tuned constant of the core and show what that does (needs `--features tuning`).
    Tune(act::tune::Options),
    /// List the scenarios that come with labor-sim, or print one to start from.
    List {
        /// Print this one.
        scenario: Option<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("labor-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<(), String> {
    match cli.command {
        None => act::log::from_log(&cli.log),
        Some(Command::Run { scenario, policy, seed, requests, svg, csv }) => {
            act::one::run(&scenario, &policy, (seed, requests), (svg.as_deref(), csv.as_deref()))
        }
        Some(Command::Compare { scenarios, seeds, first_seed, policy, requests, csv, svg }) => {
            let names = if scenarios.is_empty() { labor_sim::shipped::names() } else { scenarios };
            let kinds = if policy.is_empty() { Kind::ALL.to_vec() } else { policy };
            let seeds: Vec<_> = (first_seed..first_seed + seeds).collect();
            act::many::compare_all(&names, (&kinds, &seeds, requests), (csv.as_deref(), svg.as_deref()))
        }
        Some(Command::Random { settings, first, policy, each }) => {
            act::many::random_settings((first, settings), policy, each);
            Ok(())
        }
        Some(Command::Tune(options)) => act::tune::tune(&options),
        Some(Command::List { scenario: Some(name) }) => {
            print!("{}", labor_sim::shipped::text(&name)?);
            Ok(())
        }
        Some(Command::List { scenario: None }) => {
            for name in labor_sim::shipped::names() {
                println!("{name:<20} {}", labor_sim::shipped::load(&name)?.about);
            }
            Ok(())
        }
    }
}
