//! `labor-sim`: the command line of the simulator. Parsing and printing only; what is computed is in the library.

use clap::{Parser, Subcommand};
use labor_sim::compare::{Figure, MEAN, P99, Sheet, average, compare, short};
use labor_sim::{Kind, Scenario, random, run};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Simulates servers behind load balancers: the production core of labor beside its competitors.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one scenario with one policy and print its figures.
    Run {
        /// A TOML file, or the name of a scenario that comes with labor-sim.
        scenario: String,
        /// Who chooses the server.
        #[arg(long, value_enum, default_value = "labor")]
        policy: Kind,
        /// Everything random follows from it.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of requests instead of the scenario's duration.
        #[arg(long)]
        requests: Option<u64>,
    },
    /// Run all policies on scenarios and compare them.
    Compare {
        /// TOML files or names; all that come with labor-sim when none is given.
        scenarios: Vec<String>,
        /// Number of seeds.
        #[arg(long, default_value_t = 3)]
        seeds: u64,
        /// First seed.
        #[arg(long, default_value_t = 1)]
        first_seed: u64,
        /// Only these policies (comma separated).
        #[arg(long, value_enum, value_delimiter = ',')]
        policy: Vec<Kind>,
        /// Number of requests instead of each scenario's duration.
        #[arg(long)]
        requests: Option<u64>,
    },
    /// Random settings: geometric means over the oracle.
    Random {
        /// How many settings.
        #[arg(long, default_value_t = 120)]
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
    /// List the scenarios that come with labor-sim.
    List,
}

fn main() -> ExitCode {
    match act(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("labor-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act(command: Command) -> Result<(), String> {
    match command {
        Command::Run { scenario, policy, seed, requests } => one(&scenario, policy, seed, requests),
        Command::Compare { scenarios, seeds, first_seed, policy, requests } => {
            let names = if scenarios.is_empty() { shipped()? } else { scenarios };
            let scenarios = names.iter().map(|n| load(n, requests)).collect::<Result<Vec<_>, _>>()?;
            let seeds: Vec<_> = (first_seed..first_seed + seeds).collect();
            let kinds = if policy.is_empty() { Kind::ALL.to_vec() } else { policy };
            #[expect(clippy::disallowed_methods, reason = "the total time is shown to the person who waits")]
            let begun = Instant::now();
            for scenario in &scenarios {
                for sheet in compare(std::slice::from_ref(scenario), &kinds, &seeds, &progress(&scenario.name)) {
                    println!("{}", sheet.table());
                }
            }
            println!("{:.1} s", begun.elapsed().as_secs_f64());
            Ok(())
        }
        Command::Random { settings, first, policy, each } => {
            randoms(settings, first, policy, each);
            Ok(())
        }
        Command::List => {
            for name in shipped()? {
                println!("{name:<18} {}", load(&name, None)?.about);
            }
            Ok(())
        }
    }
}

fn one(name: &str, policy: Kind, seed: u64, requests: Option<u64>) -> Result<(), String> {
    let scenario = load(name, requests)?;
    #[expect(clippy::disallowed_methods, reason = "the speed is shown to the person who waits")]
    let begun = Instant::now();
    let s = run(&scenario, policy, seed);
    let took = begun.elapsed().as_secs_f64();
    println!("{}: {}", scenario.name, scenario.about);
    println!("policy {}, seed {seed}, {} requests", policy.name(), s.sent);
    println!("mean {}  p50 {}  p99 {}  p99.9 {} ms", short(s.mean), short(s.p50), short(s.p99), short(s.p999));
    println!("errors {:.3} %, refused {}, above 10 times the median {:.3} %", s.errors(), s.refused, 100.0 * s.slow);
    let shares: Vec<_> = (0..s.counts.len()).map(|i| format!("{:.1}", 100.0 * s.share(i))).collect();
    println!("shares % {}", shares.join(" "));
    for (server, reason, count) in &s.reasons {
        println!("  server {server} {reason}: {count}");
    }
    if scenario.watch.is_some() {
        let w = s.watch;
        let (share, errors) = (100.0 * w.share(), 100.0 * w.errors());
        println!("watched: share {share:.3} %, errors {errors:.3} %, mean {} ms, {} requests", short(w.mean()), w.sent);
    }
    println!("{took:.2} s, {:.2} M requests/s", s.sent as f64 / took / 1e6);
    Ok(())
}

fn randoms(settings: u64, first: u64, policy: Vec<Kind>, each: bool) {
    let mut kinds = if policy.is_empty() {
        vec![Kind::LeastConn, Kind::LeastTime, Kind::LeastTimeInflight, Kind::PeakEwma, Kind::Labor]
    } else {
        policy
    };
    kinds.retain(|&k| k != Kind::Oracle);
    kinds.push(Kind::Oracle);
    let scenarios: Vec<_> = (first..first + settings).map(random::setting).collect();
    let sheets = compare(&scenarios, &kinds, &[1], &progress("random"));
    println!("{settings} settings from {first}: geometric mean of (policy / oracle), and the worst");
    for &kind in &kinds {
        let [mean, p99] = [MEAN, P99].map(|f| over_oracle(&sheets, kind, f));
        println!(
            "  {:<12} mean {:.3} (worst {:.2})   p99 {:.3} (worst {:.2})",
            kind.name(),
            mean.0,
            mean.1,
            p99.0,
            p99.1
        );
    }
    behind(&sheets);
    for sheet in sheets.iter().filter(|_| each) {
        let s = sheet.scenario;
        let ratio = |f: Figure| sheet.ratio(Kind::Oracle, f).map_or(f64::NAN, |r| r.mean);
        println!(
            "  {}: mean {:.3}  p99 {:.3}  {} balancers, {}",
            s.name,
            ratio(MEAN),
            ratio(P99),
            s.balancers,
            s.about
        );
    }
}

/// Geometric mean and maximum of a figure over the oracle's.
fn over_oracle(sheets: &[Sheet<'_>], kind: Kind, figure: Figure) -> (f64, f64) {
    let logs: Vec<f64> = sheets
        .iter()
        .map(|s| (average(&s.figures(kind, figure)) / average(&s.figures(Kind::Oracle, figure))).ln())
        .collect();
    (average(&logs).exp(), logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp())
}

/// Lists the settings in which labor is more than 2 % behind the best peer.
fn behind(sheets: &[Sheet<'_>]) {
    for sheet in sheets {
        let against = |f: Figure| sheet.best_peer(f).and_then(|peer| Some((peer, sheet.ratio(peer, f)?.mean)));
        let (Some((peer, mean)), Some((_, p99))) = (against(MEAN), against(P99)) else { continue };
        if mean > 1.02 {
            let both = if p99 > 1.02 { "  BOTH" } else { "" };
            let s = sheet.scenario;
            println!(
                "  {}: mean {mean:.3}, p99 {p99:.3} of {}{both}  ({}, {} balancers)",
                s.name,
                peer.name(),
                s.about,
                s.balancers
            );
        }
    }
}

/// Tells a terminal how far the runs are.
fn progress(name: &str) -> impl Fn(usize, usize) + Sync + use<> {
    let name = name.to_owned();
    let show = std::io::stderr().is_terminal();
    move |done, total| {
        if show {
            let end = if done == total { "\r\x1b[K" } else { "" };
            let _ = write!(std::io::stderr(), "\r{name}: {done}/{total}{end}");
        }
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

fn shipped() -> Result<Vec<String>, String> {
    let dir = directory();
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut names: Vec<_> =
        entries.filter_map(|e| Some(e.ok()?.path().file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

fn load(name: &str, requests: Option<u64>) -> Result<Scenario, String> {
    let path = if name.ends_with(".toml") { PathBuf::from(name) } else { directory().join(format!("{name}.toml")) };
    let scenario = Scenario::load(&path)?;
    Ok(requests.map_or(scenario.clone(), |n| scenario.with_requests(n)))
}
