//! `labor-ctl`: see and steer the upstreams of an nginx with labor, for people who live in a terminal.
//!
//! It speaks to the two locations that nginx has, `labor_status` and `labor_api`, and knows nothing that they do not say. What
//! comes from outside is made printable before it is shown.

mod cli;
mod client;
mod clock;
mod control;
mod error;
mod http;
mod model;
mod table;
mod target;
mod terminal;
mod text;
mod top;
mod view;

use std::collections::HashSet;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};

use cli::{Cli, Color, Command, Options, Place, TableOptions};
use client::Client;
use control::Change;
use error::{Error, Kind, Result};
use table::Paper;
use top::Top;
use view::View;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command, &cli.options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("labor-ctl: {error}");
            error.code()
        }
    }
}

fn run(command: Command, options: &Options) -> Result<()> {
    let change = |place: &Place, change| {
        let api = Client { target: options.api.clone(), time: options.timeout };
        control::change(&api, place, change, options.json, print)
    };
    match command {
        Command::Status { upstream, table } => status(options, upstream.as_deref(), &table),
        Command::Top { upstream, table, interval, count } => {
            if options.json {
                return Err(Error::new(Kind::Usage, "top has no --json").hint("status --json is one look"));
            }
            let view = view(&table);
            top::run(&Top { client: &looking(options), upstream, interval, count, view, color: paper(options).color })
        }
        Command::Events { upstream, follow, interval } => {
            events(options, upstream.as_deref(), follow.then_some(interval))
        }
        Command::Drain(place) => change(&place, Change::State("drain")),
        Command::Down(place) => change(&place, Change::State("down")),
        Command::Up(place) => change(&place, Change::State("up")),
        Command::Weight { place, value } => change(&place, Change::Weight(value)),
        Command::MaxConns { place, value } => change(&place, Change::MaxConns(value)),
        Command::Clear(place) => change(&place, Change::Clear),
        Command::Reset { upstream } => {
            let api = Client { target: options.api.clone(), time: options.timeout };
            let line = control::reset(&api, &upstream)?;
            if options.json { Ok(()) } else { print(&line) }
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "labor-ctl", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(unwritten)?;
            print(&String::from_utf8_lossy(&page))
        }
    }
}

fn looking(options: &Options) -> Client {
    Client { target: options.url.clone(), time: options.timeout }
}

fn view(table: &TableOptions) -> View<'_> {
    View { sort: table.sort, reverse: table.reverse, room: terminal::columns(), labels: &table.label }
}

/// Standard output as it is to be written to.
fn paper(options: &Options) -> Paper {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let color = match options.color {
        Color::Auto => std::io::stdout().is_terminal() && terminal::capable() && wanted,
        Color::Always => true,
        Color::Never => false,
    };
    Paper { width: terminal::columns(), color }
}

fn status(options: &Options, upstream: Option<&str>, table: &TableOptions) -> Result<()> {
    let client = looking(options);
    if options.json {
        return json(&client, upstream);
    }
    let status = top::look(&client, upstream)?;
    print(&paper(options).page(&view::status(&status, &view(table))))
}

/// The status as it came, on one line.
fn json(client: &Client, upstream: Option<&str>) -> Result<()> {
    let (text, status) = client.status(upstream)?;
    if upstream.is_some() && status.upstreams.0.is_empty() {
        return top::look(client, upstream).map(|_| ());
    }
    print(&(text::ascii_json(text.trim_end()) + "\n"))
}

fn events(options: &Options, upstream: Option<&str>, follow: Option<Duration>) -> Result<()> {
    let client = looking(options);
    if options.json {
        return match follow {
            Some(_) => Err(Error::new(Kind::Usage, "--follow has no --json")),
            None => json(&client, upstream),
        };
    }
    // Whole lines, which a terminal may wrap: it is a log.
    let paper = Paper { width: None, ..paper(options) };
    let mut status = top::look(&client, upstream)?;
    let (mut seen, mut silent) = (HashSet::new(), false);
    loop {
        let mut now = HashSet::new();
        for (name, event) in view::events(&status) {
            let line = paper.paint(&view::event(&name, &event)) + "\n";
            if !seen.contains(&line) {
                print(&line)?;
            }
            now.insert(line);
        }
        seen = now;
        let Some(interval) = follow else { return Ok(()) };
        status = loop {
            std::thread::sleep(interval);
            match top::look(&client, upstream) {
                Ok(status) => break status,
                // Said once: nginx may be on its way back.
                Err(error) if !silent => eprintln!("labor-ctl: {}; trying again", error.message()),
                Err(_) => {}
            }
            silent = true;
        };
        silent = false;
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::new(Kind::Output, format!("the result cannot be written: {error}"))
}

/// Writes to standard output. Who has closed it has seen enough.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.map_err(unwritten),
    }
}
