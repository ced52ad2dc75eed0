//! `top`: the tables again and again, on a screen with keys, or as pages one after the other where there is none.

use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::control::no_upstream;
use crate::error::{Error, Kind, Result};
use crate::model::Status;
use crate::table::{Cell, Line, Paper, Style};
use crate::terminal::{self, Key, Screen};
use crate::text::printable;
use crate::view::{self, View};

/// How often the size of the screen is looked at while nothing else happens.
const TICK: Duration = Duration::from_millis(200);

/// What is shown and how often.
pub struct Top<'a> {
    /// Where from.
    pub client: &'a Client,
    /// Only this one.
    pub upstream: Option<String>,
    /// Between two looks.
    pub interval: Duration,
    /// Looks until the end.
    pub count: Option<u64>,
    /// How the tables are made.
    pub view: View<'a>,
    /// Whether colours are used.
    pub color: bool,
}

type Look = Result<Status>;

/// Shows it until somebody quits.
///
/// # Errors
/// The first look failed, or the output is gone. Later failures are shown, and it goes on.
pub fn run(top: &Top) -> Result<()> {
    let first = look(top.client, top.upstream.as_deref())?;
    if terminal::capable() && std::io::stdin().is_terminal() {
        let screen = Screen::enter().map_err(gone)?;
        Live::new(top, screen, first).run()
    } else {
        pages(top, first)
    }
}

/// One look; an upstream that is not there is an error.
pub fn look(client: &Client, upstream: Option<&str>) -> Look {
    let (_, status) = client.status(upstream)?;
    if upstream.is_some() && status.upstreams.0.is_empty() {
        let (_, all) = client.status(None)?;
        return Err(no_upstream(&all.upstreams, upstream));
    }
    Ok(status)
}

fn gone(error: std::io::Error) -> Error {
    Error::new(Kind::Output, format!("the terminal cannot be used: {error}"))
}

fn heading(top: &Top, view: &View, status: &Status) -> String {
    let versions = format!("nginx {}, labor {}", printable(&status.nginx), printable(&status.labor));
    let order = if view.reverse { " reversed" } else { "" };
    format!("{}  {versions}  {}  sort: {}{order}", printable(&status.time), top.client.target, view.sort.name())
}

/// Without keys and cursor: each page follows the last one.
fn pages(top: &Top, first: Status) -> Result<()> {
    let mut look_again: Look = Ok(first);
    let mut shown = 0;
    loop {
        let view = View { room: terminal::columns(), ..top.view };
        let paper = Paper { width: view.room, color: top.color };
        let page = match &look_again {
            Ok(status) => {
                let mut lines = vec![vec![Cell::new(Style::Bold, heading(top, &view, status))]];
                lines.extend(view::status(status, &view));
                paper.page(&lines)
            }
            Err(error) => format!("{}\n", error.message()),
        };
        shown += 1;
        let last = top.count.is_some_and(|count| shown >= count);
        crate::print(&format!("{page}{}", if last { "" } else { "\n" }))?;
        if last {
            return Ok(());
        }
        thread::sleep(top.interval);
        look_again = look(top.client, top.upstream.as_deref());
    }
}

/// The screen with what it shows.
struct Live<'a> {
    top: &'a Top<'a>,
    view: View<'a>,
    screen: Screen,
    status: Status,
    /// Why the last look failed.
    trouble: Option<String>,
    paused: bool,
    /// Lines above the screen.
    scroll: usize,
    looks: u64,
}

impl<'a> Live<'a> {
    fn new(top: &'a Top<'a>, screen: Screen, status: Status) -> Self {
        Self { top, view: top.view, screen, status, trouble: None, paused: false, scroll: 0, looks: 1 }
    }

    fn run(mut self) -> Result<()> {
        // Looks are taken beside, so that keys work while the server is slow.
        let (ask, asked) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let (client, upstream, interval) = (self.top.client.clone(), self.top.upstream.clone(), self.top.interval);
        thread::spawn(move || looks(&client, upstream.as_deref(), interval, &asked, &tell));
        let mut size = terminal::size();
        let mut drawn = false;
        while !self.screen.ended() && self.top.count.is_none_or(|count| self.looks < count) {
            if !drawn {
                self.draw(size).map_err(gone)?;
            }
            drawn = true;
            for key in self.screen.keys(TICK).map_err(gone)? {
                if matches!(key, Key::Char('q') | Key::Closed) {
                    return Ok(());
                }
                self.press(key, size, &ask);
                drawn = false;
            }
            for result in told.try_iter() {
                self.take(result);
                drawn = false;
            }
            let now = terminal::size();
            drawn &= now == size && !self.screen.suspended().map_err(gone)?;
            size = now;
        }
        Ok(())
    }

    fn take(&mut self, result: Look) {
        self.looks += 1;
        match result {
            Ok(_) if self.paused => {}
            Ok(status) => (self.status, self.trouble) = (status, None),
            Err(error) => self.trouble = Some(error.message().lines().next().unwrap_or_default().to_string()),
        }
    }

    fn press(&mut self, key: Key, (_, rows): (usize, usize), ask: &Sender<()>) {
        let page = rows.saturating_sub(2).max(1);
        match key {
            Key::Char('s') => self.view.sort = self.view.sort.next(),
            Key::Char('r') => self.view.reverse = !self.view.reverse,
            Key::Char(' ') => {
                self.paused = !self.paused;
                // Nobody is there to look when the thread has ended; it only ends with us.
                let _ = ask.send(());
            }
            Key::Up | Key::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            Key::Down | Key::Char('j') => self.scroll += 1,
            Key::PageUp => self.scroll = self.scroll.saturating_sub(page),
            Key::PageDown => self.scroll += page,
            Key::Home | Key::Char('g') => self.scroll = 0,
            _ => {}
        }
    }

    fn draw(&mut self, (columns, rows): (usize, usize)) -> std::io::Result<()> {
        self.view.room = Some(columns);
        let paper = Paper { width: Some(columns), color: self.top.color };
        let lines = view::status(&self.status, &self.view);
        let body = rows.saturating_sub(2);
        self.scroll = self.scroll.min(lines.len().saturating_sub(body));
        let head: Line = vec![Cell::new(Style::Bold, heading(self.top, &self.view, &self.status))];
        let mut page = vec![paper.paint(&head)];
        page.extend(lines.iter().skip(self.scroll).take(body).map(|line| paper.paint(line)));
        page.resize(rows.saturating_sub(1), String::new());
        page.push(paper.paint(&self.foot(lines.len(), body)));
        // A screen of one row has the foot only.
        self.screen.draw(page.get(page.len().saturating_sub(rows)..).unwrap_or_default())
    }

    fn foot(&self, lines: usize, body: usize) -> Line {
        if let Some(trouble) = &self.trouble {
            return vec![Cell::new(Style::Bad, format!("NO ANSWER, figures are old: {trouble}"))];
        }
        let more = if lines > body {
            format!("  lines {}-{} of {lines}", self.scroll + 1, (self.scroll + body).min(lines))
        } else {
            String::new()
        };
        let paused = if self.paused { "PAUSED  " } else { "" };
        vec![Cell::new(Style::Bar, format!("{paused}q quit  s sort  r reverse  space pause  arrows scroll{more}"))]
    }
}

/// Looks every `interval`, or at once when asked to; ends when nobody listens.
fn looks(client: &Client, upstream: Option<&str>, interval: Duration, asked: &Receiver<()>, tell: &Sender<Look>) {
    loop {
        if asked.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        if tell.send(look(client, upstream)).is_err() {
            return;
        }
    }
}
