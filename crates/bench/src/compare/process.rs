//! The processes of one run of `labor-bench compare`: model servers, a balancer, a load generator, in a directory of their own.
//!
//! All end with the run, also when it is interrupted. What they are given is scenario.rs and method.rs.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::conf::{self, Upstream};
use super::method::{Method, Programs};
use super::scenario::{Scenario, Server};
use crate::clock::now;
use crate::net::Endpoint;

/// How long a process may take to start or to end; a loaded machine needs some.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at something that is awaited.
const POLL: Duration = Duration::from_millis(10);
/// A request that takes longer counts as an error: longer than any answer of the scenarios, overload included.
const TIMEOUT: &str = "30s";

/// Model servers of one scenario.
pub struct Models {
    child: Child,
    control: Endpoint,
    /// In the order of the scenario.
    pub servers: Vec<Upstream>,
}

impl Models {
    /// Starts them and returns when they listen.
    ///
    /// # Errors
    /// When a SPEC is wrong or the process does not start.
    pub async fn start(scenario: &Scenario, seed: u64) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("model").args(["--seed", &seed.to_string()]);
        for server in &scenario.servers {
            command.args(["--server", &format!("{}={}", server.name, server.spec)]);
        }
        // It ends when its standard input closes: that is when this value is dropped or this process dies.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().context("standard output is a pipe")?;
        let mut line = String::new();
        timeout(PATIENCE, BufReader::new(out).read_line(&mut line)).await.context("model servers do not start")??;
        let ready: Value = serde_json::from_str(&line).context("model servers do not start")?;
        let address = |value: &Value| value.as_str().map(str::to_owned).context("an address is missing");
        let upstream = |server: &Server| -> Result<Upstream> {
            let address = address(&ready["servers"][&server.name])?;
            Ok(Upstream { name: server.name.clone(), address, weight: server.weight })
        };
        let servers = scenario.servers.iter().map(upstream).collect::<Result<_>>()?;
        Ok(Self { child, control: Endpoint::parse(&address(&ready["control"])?)?, servers })
    }

    /// Applies the changes of a scenario in time; ends after the last.
    ///
    /// # Errors
    /// When the model servers refuse one.
    pub async fn change(&self, scenario: &Scenario) -> Result<()> {
        let start = now();
        for change in &scenario.changes {
            let at = start + Duration::from_secs_f64(change.at);
            sleep(at.saturating_duration_since(now())).await;
            let name = &scenario.servers[change.server].name;
            let answer = self.ask(&format!("/set?server={name}"), &change.set).await?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "event of {name}: {answer}");
        }
        Ok(())
    }

    async fn ask(&self, target: &str, body: &str) -> Result<String> {
        let mut stream = self.control.connect(None).await?;
        let request = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.context("the control port does not answer")??;
        Ok(answer)
    }

    /// Ends them.
    ///
    /// # Errors
    /// When they do not.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        timeout(PATIENCE, self.child.wait()).await.context("model servers do not end")??;
        Ok(())
    }
}

/// A balancer that runs.
pub struct Balancer {
    child: Child,
}

impl Balancer {
    /// Starts a method before servers and returns when it takes connections.
    ///
    /// # Errors
    /// When the program refuses its configuration or does not start; with what it said.
    pub async fn start(
        programs: &Programs,
        method: Method,
        workers: usize,
        servers: &[Upstream],
        dir: &Path,
    ) -> Result<Self> {
        for (name, text) in conf::files(programs, method, workers, servers, dir) {
            std::fs::write(dir.join(name), text)?;
        }
        if let Some(modules) = conf::modules(programs, method) {
            std::os::unix::fs::symlink(modules.canonicalize()?, dir.join("modules"))?;
        }
        let command = programs.command(method, workers, dir).context("this method has no program")?;
        let said = dir.join("said");
        let child = Command::from(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&said)?)
            .spawn()
            .with_context(|| format!("run {}", method.name))?;
        let mut balancer = Self { child };
        let listen = Endpoint::parse(&format!("unix:{}", dir.join("listen").display()))?;
        let deadline = now() + PATIENCE;
        while listen.connect(None).await.is_err() {
            let ended = balancer.child.try_wait()?.is_some();
            if ended || now() > deadline {
                bail!("{} does not start: {}", method.name, std::fs::read_to_string(&said)?.trim());
            }
            sleep(POLL).await;
        }
        Ok(balancer)
    }

    /// Ends it with its workers.
    pub async fn stop(mut self) -> Result<()> {
        self.signal();
        timeout(PATIENCE, self.child.wait()).await.context("the balancer does not end")??;
        Ok(())
    }

    /// SIGTERM, on which a master process ends its workers; a killed one would leave them behind.
    fn signal(&self) {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // A process that has ended already needs no signal.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.signal();
    }
}

/// Sends the load of a scenario to the balancer in `dir`; the log of all requests, as `labor-bench load --log` writes it.
///
/// # Errors
/// When the load generator fails.
pub async fn load(scenario: &Scenario, seed: u64, dir: &Path) -> Result<String> {
    let mut kind = vec![
        format!("--rate={}", scenario.rate),
        format!("--duration={}s", scenario.seconds),
        format!("--at-start={}", scenario.burst),
        format!("--seed={seed}"),
    ];
    if scenario.post {
        kind.extend(["--method=POST".to_owned(), "--body-bytes=16".to_owned()]);
    }
    send(dir, &kind).await
}

/// A few requests, of which at least one has to be answered.
///
/// # Errors
/// When none is, or the load generator fails.
pub async fn probe(dir: &Path) -> Result<()> {
    let log = send(dir, &["--burst=8".to_owned()]).await?;
    ensure!(log.lines().any(|line| line.ends_with("\t200")), "no good answer comes through: {}", log.trim());
    Ok(())
}

async fn send(dir: &Path, kind: &[String]) -> Result<String> {
    let log = dir.join("log");
    let output = Command::new(std::env::current_exe()?)
        .args(["load", "--json", "--timeout", TIMEOUT])
        .args(["--url", &format!("http://unix:{}:/", dir.join("listen").display())])
        .args(kind)
        .arg("--log")
        .arg(&log)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(output.status.success(), "load: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(&log).context("read the log of the load")
}
