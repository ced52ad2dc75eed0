//! `labor-bench`: model servers and load for measuring load balancers on one machine.
//!
//! A single-threaded process per side: the machine's cores belong to what is measured. Only loopback addresses are
//! accepted on either side.

mod chunked;
mod clock;
mod compare;
mod load;
mod model;
mod net;
mod timer;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::task::LocalSet;

/// Model servers and open-loop load for measuring load balancers on loopback
#[derive(Parser)]
#[command(version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run servers whose latency, concurrency and faults can be set, also while they run
    Model(model::Args),
    /// Send requests to a loopback address and report latencies from the moment each was due
    Load(Box<load::Args>),
    Compare(Box<compare::Args>),
    Document(compare::DocumentArgs),
    /// Print an address of this machine with a port that is free at this moment
    FreeAddress {
        /// The address without a port, such as 127.0.0.1
        ip: std::net::IpAddr,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("labor-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    allow_many_descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        match command {
            Command::Model(args) => model::run(args).await,
            Command::Load(args) => load::run(*args).await,
            Command::Compare(args) => compare::run(*args).await,
            Command::Document(args) => compare::document(&args),
            Command::FreeAddress { ip } => {
                let endpoint = net::Endpoint::parse(&std::net::SocketAddr::new(ip, 0).to_string())?;
                println!("{}", net::Reserved::bind(&endpoint)?.1);
                Ok(())
            }
        }
    })
}

/// Raises the soft limit of open files to the hard one: a burst needs a descriptor per request.
fn allow_many_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Without more descriptors a large burst reports connect errors, which is visible enough.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
