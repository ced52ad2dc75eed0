//! `labor-bench load`: requests to a loopback address, by a schedule or in a closed loop.
//!
//! In an open loop a request is due at a moment that no answer can move, and its latency counts from there: a server that
//! stalls delays all that were due meanwhile, and the figures say so (no coordinated omission). This file: options and
//! schedule. The exchange is client.rs, the figures are report.rs.

mod client;
mod report;
mod target;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ArgGroup;
use tokio::sync::Notify;

use self::client::{Client, Outcome};
use self::report::{Report, Sample};
use self::target::Target;
use crate::clock::now;
use crate::timer::Timer;
use crate::units::{count, duration, explained};

/// Requests of one run at most: a typing error must not occupy the machine for hours.
const MAX_REQUESTS: u64 = 10_000_000;
/// The longest run.
const MAX_DURATION: Duration = Duration::from_secs(3600);
/// The duration when neither requests nor duration are given.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// The highest rate; one core sends less.
const MAX_RATE: f64 = 1e6;

/// Options of `labor-bench load`.
// What stands behind the options is help for a terminal, not documentation to link.
#[allow(rustdoc::broken_intra_doc_links)]
#[derive(clap::Args)]
#[command(group = ArgGroup::new("mode").required(true).args(["rate", "concurrency", "burst"]))]
pub struct Args {
    /// http://127.0.0.1:PORT/path, http://[::1]:PORT/path or http://unix:/path:/uri; other machines are refused
    #[arg(long, value_parser = explained(Target::parse))]
    url: Target,
    /// Open loop: requests per second, Poisson arrivals
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// With --rate: so many requests more at the very start, all at once
    #[arg(long, value_name = "N", requires = "rate", default_value_t = 0)]
    at_start: u64,
    /// With --rate: equal distances instead of Poisson
    #[arg(long, requires = "rate")]
    uniform: bool,
    /// Closed loop: so many clients, each sends its next request when the last is answered
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// So many requests at once
    #[arg(long, value_name = "N")]
    burst: Option<u64>,
    /// Stop after so many requests (k and m are allowed); at most 10m
    #[arg(long, value_name = "N", value_parser = explained(count), conflicts_with = "burst")]
    requests: Option<u64>,
    /// Send nothing after this time; at most 1 h, 10 s when neither this nor --requests is given
    #[arg(long, value_name = "TIME", value_parser = explained(duration))]
    duration: Option<Duration>,
    /// The client gives up and closes the connection after this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = explained(duration))]
    timeout: Duration,
    /// A new connection for every request instead of keepalive
    #[arg(long)]
    new_connections: bool,
    /// Request method
    #[arg(long, default_value = "GET")]
    method: String,
    /// Bytes of request body, at most 64 MiB
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=64 << 20))]
    body_bytes: u64,
    /// A request header, "NAME: VALUE"; may be repeated, Host replaces the usual one
    #[arg(long = "header", value_name = "LINE")]
    headers: Vec<String>,
    /// Read answers no faster than so many bytes per second [default: as fast as they come]
    #[arg(long, value_name = "BYTES_PER_SECOND", value_parser = clap::value_parser!(u64).range(1..))]
    read_rate: Option<u64>,
    /// Requests in flight at most in an open loop; one that is due above that is an "overflow" error
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_inflight: usize,
    /// The answer header that names the server
    #[arg(long, value_name = "NAME", default_value = "X-Server")]
    server_header: String,
    /// Seed of the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Also report counts, latency and shares for each such span of time
    #[arg(long, value_name = "TIME", value_parser = explained(duration))]
    timeline: Option<Duration>,
    /// Write one line per request: due µs, latency µs, server, status or error
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl Args {
    fn check(&self) -> Result<()> {
        if let Some(rate) = self.rate {
            ensure!(rate > 0.0 && rate <= MAX_RATE, "--rate {rate} is not above 0 and at most {MAX_RATE}");
        }
        ensure!(self.concurrency.is_none_or(|n| (1..=100_000).contains(&n)), "--concurrency is not in 1 to 100000");
        ensure!(self.burst.is_none_or(|n| n >= 1), "--burst is not positive");
        let requests = self.requests.or(self.burst).unwrap_or(0);
        ensure!(requests <= MAX_REQUESTS, "more than {MAX_REQUESTS} requests");
        ensure!(self.duration.is_none_or(|time| time <= MAX_DURATION), "--duration is longer than 1 h");
        ensure!(self.timeline.is_none_or(|step| step >= Duration::from_millis(1)), "--timeline is below 1 ms");
        ensure!(!self.timeout.is_zero(), "--timeout is zero");
        Ok(())
    }

    /// Requests at most, and the time after which none is sent.
    fn bounds(&self) -> (u64, Duration) {
        let requests = self.requests.or(self.burst);
        let duration = self.duration.unwrap_or(if requests.is_some() { MAX_DURATION } else { DEFAULT_DURATION });
        (requests.unwrap_or(MAX_REQUESTS), duration)
    }

    fn client(&self, timer: Timer) -> Result<Client> {
        let body = usize::try_from(self.body_bytes)?;
        Ok(Client {
            endpoint: self.url.endpoint.clone(),
            request: self.url.request(&self.method, &self.headers, body, !self.new_connections)?,
            head_only: self.method == "HEAD",
            keepalive: !self.new_connections,
            timeout: self.timeout,
            read_rate: self.read_rate,
            server_header: self.server_header.clone(),
            timer,
            idle: RefCell::default(),
        })
    }
}

/// Runs the load and prints the report; also after an interrupt, for what there is by then.
pub async fn run(args: Args) -> Result<()> {
    args.check()?;
    // Before the run: a log that cannot be written should not cost one.
    let log = args.log.as_ref().map(|path| File::create(path).with_context(|| path.display().to_string()));
    let log = log.transpose()?;
    let timer = Timer::start()?;
    let run = Rc::new(Run {
        client: args.client(timer.clone())?,
        report: RefCell::new(Report::new(args.timeline, log.is_some())),
        start: now(),
        in_flight: Cell::new(0),
        quiet: Notify::new(),
    });
    tokio::select! {
        () = send(&args, &run, &timer) => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    let elapsed = now() - run.start;
    let mut report = run.report.borrow_mut();
    if args.json {
        println!("{}", report.json(elapsed));
    } else {
        print!("{}", report.table(elapsed));
    }
    if let Some(file) = log {
        report.write_log(&mut BufWriter::new(file))?;
    }
    ensure!(report.count() > 0, "no request was sent");
    Ok(())
}

/// Sends everything and waits for the last answer.
async fn send(args: &Args, run: &Rc<Run>, timer: &Timer) {
    let (requests, length) = args.bounds();
    if let Some(clients) = args.concurrency {
        return run.closed_loop(clients, requests, length).await;
    }
    let mut schedule = Schedule::new(args);
    for _ in 0..requests {
        let due = schedule.next();
        if due > length {
            break;
        }
        timer.until(run.start + due).await;
        run.fire(due, args.max_inflight);
        if args.burst.is_none() && run.start + due < now() {
            // Behind the schedule the timer never waits: the answers still need their turn.
            tokio::task::yield_now().await;
        }
    }
    run.finish().await;
}

/// The moments at which requests are due, from the start of the run.
struct Schedule {
    distance: f64,
    poisson: bool,
    /// Requests that are due at once.
    first: u64,
    at: f64,
    rng: fastrand::Rng,
}

impl Schedule {
    fn new(args: &Args) -> Self {
        let distance = args.rate.map_or(0.0, |rate| 1.0 / rate);
        Self {
            distance,
            poisson: !args.uniform,
            first: args.at_start,
            at: 0.0,
            rng: fastrand::Rng::with_seed(args.seed),
        }
    }

    fn next(&mut self) -> Duration {
        if self.first > 0 {
            self.first -= 1;
            return Duration::ZERO;
        }
        // In (0, 1]: the logarithm of zero would end the run.
        let factor = if self.poisson { -(1.0 - self.rng.f64()).ln() } else { 1.0 };
        self.at += self.distance * factor;
        Duration::from_secs_f64(self.at)
    }
}

struct Run {
    client: Client,
    report: RefCell<Report>,
    start: Instant,
    in_flight: Cell<usize>,
    quiet: Notify,
}

impl Run {
    /// Starts a request without waiting for it.
    fn fire(self: &Rc<Self>, due: Duration, most: usize) {
        if self.in_flight.get() >= most {
            let sample = Sample { due, latency: Duration::ZERO, outcome: Outcome::Overflow, server: String::new() };
            return self.report.borrow_mut().add(sample);
        }
        self.in_flight.set(self.in_flight.get() + 1);
        let run = self.clone();
        tokio::task::spawn_local(async move {
            run.exchange(due).await;
            run.in_flight.set(run.in_flight.get() - 1);
            run.quiet.notify_one();
        });
    }

    async fn exchange(&self, due: Duration) {
        let (outcome, server) = self.client.exchange().await;
        let latency = now().saturating_duration_since(self.start + due);
        self.report.borrow_mut().add(Sample { due, latency, outcome, server });
    }

    async fn finish(&self) {
        while self.in_flight.get() > 0 {
            self.quiet.notified().await;
        }
    }

    async fn closed_loop(self: &Rc<Self>, clients: usize, requests: u64, length: Duration) {
        let left = Rc::new(Cell::new(requests));
        for _ in 0..clients {
            self.in_flight.set(self.in_flight.get() + 1);
            let (run, left) = (self.clone(), left.clone());
            tokio::task::spawn_local(async move {
                while left.get() > 0 && now() - run.start < length {
                    left.set(left.get() - 1);
                    run.exchange(now() - run.start).await;
                }
                run.in_flight.set(run.in_flight.get() - 1);
                run.quiet.notify_one();
            });
        }
        self.finish().await;
    }
}
