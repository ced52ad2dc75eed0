//! A server that answers as a test says, over TCP and over a unix socket, and the program under test.
#![allow(dead_code, reason = "each file of tests uses a part of it")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked, one line each: method, path, and the body where there was one.
type Log = Arc<Mutex<Vec<String>>>;

/// Answers one request each time: from the method and the path to all bytes of the answer.
type Rule = dyn Fn(&str, &str, &str) -> Vec<u8> + Send + Sync;

/// A server that lives as long as the process.
pub struct Mock {
    /// `http://127.0.0.1:PORT`.
    pub http: String,
    /// `unix:/…/sock:`.
    pub unix: String,
    socket: PathBuf,
    log: Log,
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Mock {
    /// Answers by `rule`.
    pub fn new(rule: impl Fn(&str, &str, &str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let log = Log::default();
        let rule: Arc<Rule> = Arc::new(rule);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = format!("http://{}", tcp.local_addr().unwrap());
        let path = socket_path();
        let unix = UnixListener::bind(&path).unwrap();
        let (l, r) = (Arc::clone(&log), Arc::clone(&rule));
        thread::spawn(move || tcp.incoming().for_each(|peer| serve(peer.unwrap(), &l, &*r)));
        let l = Arc::clone(&log);
        thread::spawn(move || unix.incoming().for_each(|peer| serve(peer.unwrap(), &l, &*rule)));
        Self { http, unix: format!("unix:{}:", path.display()), socket: path, log }
    }

    /// What was asked since the last time.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

/// A path for a socket that nobody else uses; cargo gives each run its own directory.
pub fn socket_path() -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("labor-ctl-{}-{number}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn serve(mut peer: impl Read + Write, log: &Log, rule: &Rule) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    let (head, body) = loop {
        let count = peer.read(&mut buffer).unwrap_or(0);
        if count == 0 {
            return;
        }
        text.extend_from_slice(&buffer[..count]);
        let all = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            break (head.to_string(), body.to_string());
        }
    };
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let json = if head.contains("\r\nContent-Type: application/json\r\n") { " json" } else { "" };
    let shown = if body.is_empty() { String::new() } else { format!("{json} {body}") };
    log.lock().unwrap().push(format!("{method} {path}{shown}"));
    // Who left does not matter.
    let _ = peer.write_all(&rule(method, path, &head));
}

/// An answer with a status, of JSON.
pub fn json(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .into()
}

/// An answer with a status, of HTML, as nginx itself sends it.
pub fn html(status: u16) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: 13\r\nLocation: /else\r\n\r\n<html></html>"
    )
    .into()
}

/// A command of the program under test, with nothing of the environment that changes it.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_labor-ctl"));
    for name in ["LABOR_STATUS", "LABOR_API", "NO_COLOR", "COLUMNS", "LINES"] {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// Runs it: exit status, standard output, standard error.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    finished(program(arguments).output().unwrap())
}

/// The result of a process as text.
pub fn finished(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Statuses one after the other, the last one for ever.
pub fn in_turn(bodies: &[String]) -> impl Fn(&str, &str, &str) -> Vec<u8> + Send + Sync + use<> {
    let left = Mutex::new(VecDeque::from(bodies.to_vec()));
    move |_, _, _| {
        let mut left = left.lock().unwrap();
        let body = if left.len() > 1 { left.pop_front().unwrap() } else { left[0].clone() };
        json(200, &body)
    }
}

/// A status with two upstreams; `latency` is that of the first server, in µs.
pub fn status(latency: u32) -> String {
    r#"{"version":1,"nginx":"1.28.3","labor":"0.1.0","worker":7,"time":"2026-12-01T03:40:00.123Z","timestamp":1,"zone":{"size":1},
    "upstreams":{"web":{"peers":[
      {"id":0,"server":"10.0.0.1:80","name":"10.0.0.1:80","backup":false,"weight":5,"state":"up","active":2,"requests":1200,"unknown":{},
       "labor":{"state":"up","state_since":3,"weight":{"effective":5,"configured":1,"source":"api"},
       "max_conns":{"effective":0,"configured":0,"source":"configuration"},"latency_us":LATENCY,"p50_us":1000,"p99_us":9000.5,"in_flight":2,
       "share":0.75,"requests_per_second":31.4,"picks":{"fastest":930,"explore":20,"tie":50},"failures":{"total":0,"level":0},
       "last_change":{"reason":"faster","seconds_ago":12.3}}},
      {"id":1,"server":"10.0.0.2:80","name":"b.example","backup":true,"state":"unavail","requests":4,
       "labor":{"state":"half_open","state_since":61,"latency_us":null,"failures":{"total":3,"level":0.5},"last_change":null}}],
      "labor":{"policy":"fastest","metric":"last_byte","events":[
       {"time":"2026-12-01T03:39:58.000Z","seconds_ago":2,"server":"10.0.0.2:80","reason":"lowered","detail":"3 failures"},
       {"time":"2026-12-01T03:39:00.000Z","seconds_ago":60,"server":null,"reason":"reload","detail":""}]}},
     "api":{"peers":[{"id":0,"server":"10.0.0.1:80","labor":{"state":"drain","latency_us":50000}}],
      "labor":{"policy":"fastest","metric":"header","events":[
       {"time":"2026-12-01T03:39:30.000Z","seconds_ago":30,"server":"10.0.0.1:80","reason":"drained","detail":null}]}}}}"#
        .replace("LATENCY", &latency.to_string())
}
