//! Starts the binary under test and talks to it; shared by the integration tests.
#![allow(dead_code, reason = "every test file uses another part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// How long a condition may take to come true; only a defect reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running `labor-bench model`; dropping it closes its standard input, which ends it.
pub struct Model {
    child: Child,
    addresses: Value,
}

impl Model {
    /// Starts the servers and waits until they listen.
    pub fn start(servers: &[&str]) -> Self {
        let mut command = bench("model");
        for server in servers {
            command.args(["--server", server]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { addresses: serde_json::from_str(&line).unwrap(), child }
    }

    /// The address of a server.
    pub fn address(&self, server: &str) -> &str {
        self.addresses["servers"][server].as_str().unwrap()
    }

    /// A connection to a server, with a time-out on reads.
    pub fn connect(&self, server: &str) -> TcpStream {
        let stream = TcpStream::connect(self.address(server)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The URL of a server.
    pub fn url(&self, server: &str) -> String {
        format!("http://{}/", self.address(server))
    }

    /// One request to the control port: status and JSON.
    pub fn control(&self, method: &str, target: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.addresses["control"].as_str().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(stream, "{method} {target} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    /// A POST to the control port that must work.
    pub fn post(&self, target: &str, body: &str) {
        let (status, answer) = self.control("POST", target, body);
        assert_eq!(status, 200, "{answer}");
    }

    /// One figure of `/stats`.
    pub fn stat(&self, server: &str, name: &str) -> u64 {
        let (_, stats) = self.control("GET", "/stats", "");
        stats[server][name].as_u64().unwrap_or_else(|| panic!("no {name} of {server} in {stats}"))
    }

    /// Waits until a figure of `/stats` has this value.
    pub fn wait(&self, server: &str, name: &str, value: u64) {
        wait_for(&format!("{name} of {server} to be {value}"), || self.stat(server, name) == value);
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes standard input.
    pub fn close_stdin(&mut self) {
        self.child.stdin.take();
    }

    /// Waits for the end of the process; true when it was a success.
    pub fn ended(&mut self) -> bool {
        let mut status = None;
        wait_for("the model to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().success()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.child.stdin.take();
        // Its lifetime is bounded, and a failed test should not wait for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until the condition holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let step = Duration::from_millis(2);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if holds() {
            return;
        }
        std::thread::sleep(step);
    }
    panic!("waited in vain for {what}");
}

/// The binary with a subcommand.
pub fn bench(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_labor-bench"));
    command.arg(subcommand);
    command
}

/// Runs it to its end.
pub fn output(subcommand: &str, args: &[&str]) -> Output {
    bench(subcommand).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Runs `load --json` with these words and returns its report.
pub fn load(url: &str, words: &str) -> Value {
    let mut args = vec!["--json", "--url", url];
    args.extend(words.split_whitespace());
    let output = output("load", &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One line of a load log.
#[derive(Debug, PartialEq)]
pub struct Line {
    /// When the request was due, µs.
    pub due: u64,
    /// From there to its end, µs.
    pub latency: u64,
    /// Server or `-`.
    pub server: String,
    /// Status or kind of error.
    pub outcome: String,
}

/// Runs `load --log` with these words and returns the lines of the log.
pub fn log(url: &str, words: &str) -> Vec<Line> {
    let file = std::env::temp_dir().join(format!("labor-bench-{}-{}.log", std::process::id(), fresh()));
    load(url, &format!("{words} --log {}", file.display()));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let line = |line: &str| {
        let fields: Vec<_> = line.split('\t').collect();
        let [due, latency, server, outcome] = fields[..] else { panic!("{line}") };
        let (due, latency) = (due.parse().unwrap(), latency.parse().unwrap());
        Line { due, latency, server: server.to_owned(), outcome: outcome.to_owned() }
    };
    text.lines().map(line).collect()
}

/// A number that no other test of this process got.
pub fn fresh() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Reads until the text read so far ends with `end`.
pub fn read_until(stream: &mut impl Read, end: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end) {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "ended after {:?}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    text
}
