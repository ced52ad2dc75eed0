//! `top` on a terminal of its own, on a dumb one, and into a pipe.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Mock, in_turn, json, program, run, status};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Tries of 10 ms each: how long something may take on a busy machine.
const TRIES: u32 = 3000;

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within 30 s");
}

/// A pseudo terminal with `top` on it.
struct Terminal {
    master: File,
    slave: OwnedFd,
    child: Child,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(mock: &Mock, columns: u16, rows: u16, environment: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave: OwnedFd = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        let stream = || Stdio::from(slave.try_clone().unwrap());
        let mut command = program(&["top", "--interval", "20ms", "--url", &mock.http]);
        command
            .env("TERM", "xterm")
            .envs(environment.iter().copied())
            .stdin(stream())
            .stdout(stream())
            .stderr(stream());
        let child = command.spawn().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let mut reader = File::from(master.try_clone().unwrap());
        let all = Arc::clone(&seen);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                all.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { master: master.into(), slave, child, seen }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// The last page that was written to its end, line by line.
    fn page(&self) -> Vec<String> {
        let seen = self.seen();
        let Some((pages, _)) = seen.rsplit_once("\x1b[J") else { return Vec::new() };
        let page = pages.rsplit_once("\x1b[H").map_or("", |(_, page)| page);
        page.split("\r\n").map(|line| line.replace("\x1b[K", "").trim_end_matches('\r').to_string()).collect()
    }

    fn shows(&self, text: &str) {
        wait_for(&format!("{text:?} on the screen; last page: {:?}", self.page()), || {
            self.page().iter().any(|line| line.contains(text))
        });
    }

    fn ended(&mut self) -> ExitStatus {
        wait_for("the end", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Columns of a line without its looks.
fn columns(line: &str) -> usize {
    let plain: String = line
        .split("\x1b[")
        .enumerate()
        .map(|(i, part)| if i == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) })
        .collect();
    plain.chars().count()
}

#[test]
fn it_shows_what_is_now_obeys_keys_and_leaves_the_terminal_as_it_was() {
    let latency = Arc::new(AtomicU32::new(1234));
    let shared = Arc::clone(&latency);
    let mock = Mock::new(move |_, _, _| json(200, &status(shared.load(Ordering::Relaxed))));
    let mut terminal = Terminal::start(&mock, 160, 30, &[]);
    let before = LocalModes::ICANON | LocalModes::ECHO;
    terminal.shows("1.23 ms");
    assert!(!tcgetattr(&terminal.slave).unwrap().local_modes.intersects(before), "keys come at once");
    latency.store(77_000, Ordering::Relaxed);
    terminal.shows("77.0 ms");
    terminal.shows("sort: server");
    terminal.press("s");
    terminal.shows("sort: state");
    terminal.press("r");
    terminal.shows("sort: state reversed");
    terminal.press(" ");
    terminal.shows("PAUSED");
    latency.store(88_000, Ordering::Relaxed);
    mock.asked();
    for _ in 0..3 {
        wait_for("looks while paused", || !mock.asked().is_empty());
    }
    terminal.shows("77.0 ms");
    terminal.press(" ");
    terminal.shows("88.0 ms");
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
    wait_for("the screen is left", || terminal.seen().ends_with("\x1b[?25h\x1b[?1049l"));
    assert!(terminal.seen().starts_with("\x1b[?1049h\x1b[?25l"));
    assert!(tcgetattr(&terminal.slave).unwrap().local_modes.contains(before), "the terminal is as it was");
}

#[test]
fn it_fits_the_screen_whatever_its_size_and_scrolls() {
    let servers: Vec<String> = (0..50)
        .map(|n| format!(r#"{{"server":"10.0.0.{n}:8000","labor":{{"state":"up","latency_us":{n}}}}}"#))
        .collect();
    let body = format!(r#"{{"version":1,"upstreams":{{"u":{{"peers":[{}]}}}}}}"#, servers.join(","));
    let mock = Mock::new(move |_, _, _| json(200, &body));
    let mut terminal = Terminal::start(&mock, 100, 12, &[]);
    terminal.shows("lines 1-10 of 52");
    terminal.press("\x1b[6~\x1b[B");
    terminal.shows("lines 12-21 of 52");
    terminal.press("\x1b[A");
    terminal.shows("lines 11-20 of 52");
    for (columns_now, rows_now) in [(40, 6), (20, 2), (7, 1), (300, 60), (1, 1), (100, 12)] {
        tcsetwinsize(&terminal.slave, Winsize { ws_row: rows_now, ws_col: columns_now, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let fits = || {
            let page = terminal.page();
            page.len() == usize::from(rows_now) && page.iter().all(|line| columns(line) <= usize::from(columns_now))
        };
        wait_for(&format!("{columns_now} by {rows_now}: {:?}", terminal.page()), fits);
    }
    terminal.press("g");
    terminal.shows("lines 1-10 of 52");
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
}

#[test]
fn a_server_that_goes_away_is_waited_for() {
    let gone = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&gone);
    let mock =
        Mock::new(move |_, _, _| if shared.load(Ordering::Relaxed) { Vec::new() } else { json(200, &status(1)) });
    let mut terminal = Terminal::start(&mock, 160, 24, &[]);
    terminal.shows("q quit");
    gone.store(true, Ordering::Relaxed);
    terminal.shows("NO ANSWER");
    terminal.shows("10.0.0.1:80");
    gone.store(false, Ordering::Relaxed);
    terminal.shows("q quit");
    let pid = Pid::from_child(&terminal.child);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(terminal.ended().code(), Some(0));
    wait_for("the screen is left", || terminal.seen().ends_with("\x1b[?1049l"));
}

#[test]
fn stopped_it_gives_the_terminal_back_and_takes_it_again() {
    let mock = Mock::new(|_, _, _| json(200, &status(1)));
    let mut terminal = Terminal::start(&mock, 160, 24, &[]);
    terminal.shows("q quit");
    let pid = Pid::from_child(&terminal.child);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    kill_process(pid, Signal::TSTP).unwrap();
    wait_for("being stopped", || state().rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")));
    wait_for("the screen is left", || terminal.seen().ends_with("\x1b[?1049l"));
    assert!(tcgetattr(&terminal.slave).unwrap().local_modes.contains(LocalModes::ICANON));
    kill_process(pid, Signal::CONT).unwrap();
    wait_for("the screen again", || terminal.seen().matches("\x1b[?1049h").count() == 2);
    terminal.press("s");
    terminal.shows("sort: state");
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let mock = Mock::new(|_, _, _| json(200, &status(1)));
    let looks = |terminal: &Terminal| {
        terminal.seen().split("\x1b[").any(|part| {
            part.split_once(|c: char| c.is_ascii_alphabetic())
                .is_some_and(|(number, _)| part[number.len()..].starts_with('m'))
        })
    };
    let terminal = Terminal::start(&mock, 160, 24, &[]);
    terminal.shows("half open");
    assert!(looks(&terminal));
    let terminal = Terminal::start(&mock, 160, 24, &[("NO_COLOR", "1")]);
    terminal.shows("half open");
    assert!(!looks(&terminal));
}

#[test]
fn a_dumb_terminal_and_a_pipe_get_pages_without_any_code() {
    let mock = Mock::new(|_, _, _| json(200, &status(1)));
    let mut terminal = Terminal::start(&mock, 90, 24, &[("TERM", "dumb")]);
    wait_for("three pages", || terminal.seen().matches("sort: server").count() >= 3);
    terminal.child.kill().unwrap();
    terminal.ended();
    let seen = terminal.seen();
    assert!(!seen.contains('\u{1b}'), "{seen:?}");
    assert!(seen.lines().all(|line| columns(line) <= 90), "{seen}");

    let mock = Mock::new(in_turn(&[status(1000), status(2000), status(3000)]));
    let (code, out, err) = run(&["top", "web", "--count", "3", "-i", "1ms", "--url", &mock.http]);
    assert_eq!((code, err.as_str()), (0, ""));
    let places: Vec<_> = ["1.00 ms", "2.00 ms", "3.00 ms"].iter().map(|text| out.find(text)).collect();
    assert!(places[0].is_some() && places.is_sorted(), "{out}");
    assert_eq!(mock.asked().len(), 3);
}

#[test]
fn it_does_not_begin_without_an_answer() {
    let mock =
        Mock::new(|_, path, _| json(200, if path.contains("none") { r#"{"version":1,"upstreams":{}}"# } else { "{}" }));
    assert_eq!(run(&["top", "--url", &mock.http]).0, 6);
    let mock = Mock::new(|_, path, _| {
        json(200, if path.contains("none") { r#"{"version":1,"upstreams":{}}"#.into() } else { status(1) }.as_str())
    });
    let (code, _, err) = run(&["top", "none", "--url", &mock.http]);
    assert!(code == 5 && err.contains("web, api"), "{err}");
}
