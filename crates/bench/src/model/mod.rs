//! `labor-bench model`: one process with any number of model servers whose behaviour is set per test.
//!
//! This file: command line, start and end of the process. The SPEC language is spec.rs, time and counters are server.rs,
//! connections are connection.rs, protocols a file each, changes at run time control.rs.

mod codec;
mod connection;
mod control;
mod dist;
mod fastcgi;
mod grpc;
mod http;
mod listen;
mod memcached;
mod scgi;
mod server;
mod slots;
mod spec;
mod uwsgi;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use self::listen::Site;
use self::server::Server;
use self::spec::Spec;
use crate::net::Endpoint;
use crate::timer::Timer;
use crate::units::{duration, explained};

/// The text behind `labor-bench model --help`.
const HELP: &str = "\
SPEC is a list of words separated by commas (times: 250us, 5ms, 1.5s, 2m):
  listen=ADDR          127.0.0.1:PORT, [::1]:PORT or unix:/path, port 0 is any [127.0.0.1:0]
  protocol=P           http, fastcgi, uwsgi, scgi, memcached, grpc (cleartext HTTP/2) [http]
  network=T            added time that occupies no slot, half of it each way [0]
  service=DIST         const:T, exp:MEAN, lognormal:MEAN:SIGMA or
                       bimodal:T1:T2:PROBABILITY_OF_T2 [const:0]
  k=N                  requests worked on at once, more wait in order; off: no limit [off]
  per_inflight=T       added service time per request in flight at arrival, itself included [0]
  first=N:T            the next N requests take the service time T instead [0:0]
  status=CODE          status of ordinary answers [200]
  fail=P[:CODE]        probability of a failing answer and its status [0:503, grpc 0:14]
  fast_fail            failing answers take neither slot nor service time [off]
  hang                 requests are read and never answered [off]
  accept_delay=T       wait between accepting a connection and reading from it [0]
  reset=WHERE          header: reset before the first byte; body: end in mid-body; none [none]
  body=BYTES           length of the body, k and m are allowed [16]
  chunk_delay=T        the header at once, the body spread over this time [0]
  garbage              the answer is not of the protocol [off]
  close_idle=N[:late]  a connection said to be kept alive closes after N answers, with :late
                       only when the next request arrives (http, fastcgi, memcached) [off]
  grpc_status=N        grpc-status of ordinary answers, 0 to 16 (grpc) [0]
  trailers_only        the answer is one header frame with the status (grpc) [off]
A word without value means on. An answer fails by fail, a status from 500 or a grpc_status.

Control port: GET /stats, POST /set (the body is a SPEC without listen and protocol), /close,
/block, /open, /reset. All take ?server=NAME and mean all servers without it. /close refuses
connections and ends the open ones, /close?keep=1 leaves those alone; /block ends them and lets
new ones hang (TCP only); /open undoes both; /reset zeroes the counters.";

/// Options of `labor-bench model`.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// A server, as NAME=SPEC; may be repeated
    #[arg(long = "server", value_name = "NAME=SPEC", required = true, value_parser = explained(Spec::parse))]
    servers: Vec<Spec>,
    /// Address of the control port, loopback only; port 0 is any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    control: SocketAddr,
    /// Seed of the random numbers; every server draws its own sequence from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The process ends after this time, whatever happens
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = explained(duration))]
    lifetime: Duration,
    /// Go on when standard input closes
    #[arg(long)]
    no_stdin: bool,
}

/// Runs the servers until standard input closes, a signal arrives or the lifetime is over.
pub async fn run(args: Args) -> Result<()> {
    let mut names = HashSet::new();
    for spec in &args.servers {
        ensure!(names.insert(&spec.name), "server name \"{}\" is given twice", spec.name);
    }
    let control = Endpoint::parse(&args.control.to_string())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let timer = Timer::start()?;
    let sites = args.servers.iter().map(|spec| {
        let server = Server::new(spec, args.seed, timer.clone());
        Site::start(server, &spec.listen).with_context(|| format!("server {}", spec.name))
    });
    let sites = Rc::new(sites.collect::<Result<Vec<_>>>()?);
    let listener = tokio::net::TcpListener::bind(args.control).await.with_context(|| format!("bind {control}"))?;
    announce(&listener.local_addr()?, &sites)?;
    tokio::task::spawn_local(control::serve(listener, sites.clone()));
    tokio::select! {
        () = stdin_closed(), if !args.no_stdin => {}
        () = tokio::time::sleep(args.lifetime) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // Ends the accepting tasks in order, so that unix sockets are removed.
    for site in sites.iter() {
        site.close(false).await?;
    }
    Ok(())
}

/// Prints one line with every address: whoever reads it may connect.
fn announce(control: &SocketAddr, sites: &[Site]) -> Result<()> {
    let servers: Map<String, Value> =
        sites.iter().map(|site| (site.server.name.clone(), json!(site.address.to_string()))).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", json!({ "control": control.to_string(), "servers": servers }))?;
    out.flush()?;
    Ok(())
}

/// Returns when standard input is closed: the parent is gone. A thread of its own, because a blocked read must not keep the
/// process from ending.
async fn stdin_closed() {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
        // The receiver is gone when the process ends for another reason.
        let _ = sender.send(());
    });
    // The sender is never dropped unsent.
    let _ = receiver.await;
}

/// Whether model servers understand a NAME=SPEC; for tests of what is written for them.
#[cfg(test)]
pub fn check(spec: &str) -> Result<()> {
    Spec::parse(spec).map(drop)
}
