//! The table of `scripts/run`: what `labor_status` says, for people, once or every second.
//!
//! It reads the status page and nothing else, so that it shows what any monitoring would see.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::net::Endpoint;

/// How long nginx may take to answer its status page; it answers in microseconds when it lives.
const PATIENCE: Duration = Duration::from_secs(3);
/// Clears a terminal and puts the cursor into its first corner (ECMA-48 ED and CUP).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Show what a labor_status location says as a table
#[derive(ClapArgs)]
pub struct Args {
    /// The status location, such as http://127.0.0.1:8080/labor_status
    #[arg(long, value_name = "URL")]
    status: String,
    /// Print the table once and exit
    #[arg(long)]
    once: bool,
    /// Time between two tables
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = crate::units::duration)]
    interval: Duration,
    /// What to call the server at an address; may repeat
    #[arg(long, value_name = "ADDRESS=NAME")]
    label: Vec<String>,
}

/// Prints the table until interrupted, or once.
///
/// # Errors
/// When the location cannot be reached or does not answer with status JSON.
pub async fn run(args: Args) -> Result<()> {
    let clear = std::io::stdout().is_terminal() && !args.once;
    loop {
        let table = render(&fetch(&args.status).await?, &args.label)?;
        let mut out = std::io::stdout().lock();
        let page = format!("{}{}\n{table}", if clear { CLEAR } else { "" }, args.status);
        match out.write_all(page.as_bytes()).and_then(|()| out.flush()) {
            // Whoever read the table has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        drop(out);
        if args.once {
            return Ok(());
        }
        tokio::time::sleep(args.interval).await;
    }
}

async fn fetch(url: &str) -> Result<Value> {
    let rest = url.strip_prefix("http://").with_context(|| format!("\"{url}\" does not start with http://"))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let endpoint = Endpoint::parse(authority)?;
    let answer = timeout(PATIENCE, async {
        let mut stream = endpoint.connect(None).await?;
        let path = if path.is_empty() { "/" } else { path };
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    });
    let answer = answer.await.with_context(|| format!("{url} did not answer"))??;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("{url} sent no HTTP answer"))?;
    let status = head.split(' ').nth(1).unwrap_or("?");
    if status != "200" {
        bail!("{url} answered {status}");
    }
    serde_json::from_str(body).with_context(|| format!("{url} sent something other than status JSON"))
}

fn render(status: &Value, labels: &[String]) -> Result<String> {
    let mut out = String::new();
    let upstreams = status["upstreams"].as_object().context("the status names no upstreams")?;
    for (name, upstream) in upstreams {
        let (policy, metric) = (text(&upstream["labor"]["policy"]), text(&upstream["labor"]["metric"]));
        writeln!(out, "{name}  (policy {policy}, {metric})")?;
        writeln!(
            out,
            "  {:<24} {:>7} {:>11} {:>9} {:>7} {:>9} {:>8}  picked because / last change",
            "server", "state", "latency", "in flight", "share", "requests", "failures"
        )?;
        for server in upstream["peers"].as_array().into_iter().flatten() {
            writeln!(out, "  {}", row(server, labels))?;
        }
        writeln!(out)?;
    }
    Ok(out)
}

fn row(server: &Value, labels: &[String]) -> String {
    let (address, own) = (text(&server["server"]), &server["labor"]);
    let label = labels.iter().find_map(|label| label.strip_prefix(&address)?.strip_prefix('='));
    let shown = label.map_or_else(|| address.clone(), |label| format!("{label} {address}"));
    let latency = own["latency_us"].as_f64().map_or("-".into(), |us| format!("{:.3} ms", us / 1000.0));
    let share = own["share"].as_f64().map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
    format!(
        "{shown:<24} {:>7} {latency:>11} {:>9} {share:>7} {:>9} {:>8}  {} / {}",
        text(&own["state"]),
        number(&own["in_flight"]),
        number(&server["requests"]),
        number(&own["failures"]["total"]),
        picks(&own["picks"]),
        text(&own["last_change"]["reason"])
    )
}

/// The two commonest reasons, "fastest 93 %, explore 2 %".
fn picks(picks: &Value) -> String {
    let mut counts: Vec<(&str, u64)> =
        picks.as_object().into_iter().flatten().filter_map(|(why, n)| Some((why.as_str(), n.as_u64()?))).collect();
    let total: u64 = counts.iter().map(|(_, n)| n).sum();
    counts.retain(|(_, n)| *n > 0);
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let shown: Vec<String> =
        counts.iter().take(2).map(|(why, n)| format!("{why} {:.0} %", *n as f64 * 100.0 / total as f64)).collect();
    if shown.is_empty() { "-".into() } else { shown.join(", ") }
}

/// A count; what is missing becomes "-".
fn number(value: &Value) -> String {
    if value.is_number() { value.to_string() } else { "-".into() }
}

/// A string for a terminal: what is missing becomes "-", control characters become "?".
fn text(value: &Value) -> String {
    let shown = value.as_str().unwrap_or("-");
    shown.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_becomes_a_row_with_units() {
        let status = json!({"upstreams": {"app": {"labor": {"policy": "fastest", "metric": "last_byte"}, "peers": [{
            "server": "127.0.0.1:9001", "requests": 10, "labor": {"state": "up", "latency_us": 1234, "in_flight": 2,
            "share": 0.5, "failures": {"total": 1}, "picks": {"fastest": 9, "explore": 1, "tie": 0},
            "last_change": {"reason": "faster"}}}]}}});
        let table = render(&status, &["127.0.0.1:9001=fast".into(), "127.0.0.1:9002=slow".into()]).unwrap();
        let row = table.lines().nth(2).unwrap();
        for part in ["fast 127.0.0.1:9001", "1.234 ms", "50.0 %", "fastest 90 %, explore 10 %", "faster"] {
            assert!(row.contains(part), "{part:?} is missing in {row:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_control_characters_are_harmless() {
        let status =
            json!({"upstreams": {"a": {"peers": [{"server": "evil\u{1b}[2J", "labor": {"latency_us": null}}]}}});
        let table = render(&status, &[]).unwrap();
        assert!(table.contains("evil?[2J"), "{table:?}");
        assert!(!table.contains('\u{1b}'), "{table:?}");
    }
}
