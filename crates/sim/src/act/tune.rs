//! `labor-sim tune`: each tuned constant of the core at half and at twice its value.

use clap::Args;
use std::path::PathBuf;

/// What is varied, and on what it is judged.
#[derive(Args)]
pub struct Options {
    /// Only these constants (comma separated), as FILE.NAME or NAME.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Scenarios to judge by; all that come with labor-sim when none is given.
    scenarios: Vec<String>,
    /// Number of seeds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Requests per run.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Where the table and the pictures go.
    #[arg(long, value_name = "DIR", default_value = "docs/tuning")]
    out: PathBuf,
}

/// Says how to get a labor-sim that can.
#[cfg(not(feature = "tuning"))]
pub fn tune(options: &Options) -> Result<(), String> {
    let Options { only: _, scenarios: _, seeds: _, requests: _, out: _ } = options;
    Err("in this build the constants are fixed, as in the module; build with 'cargo run --release -p labor-sim \
         --features tuning -- tune'"
        .into())
}
