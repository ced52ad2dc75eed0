//! The terminal `top` draws on: its size, keys without Enter, a screen of its own, and everything as it was at the end.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};

/// A screen of its own without a cursor (DEC private modes 1049 and 25, known to every terminal of the last decades).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end of the input: nobody will press a key any more.
    Closed,
}

/// Whether standard output is a terminal that understands more than lines.
pub fn capable() -> bool {
    io::stdout().is_terminal() && std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}

/// Columns of standard output, if it is a terminal; `COLUMNS` where that does not know.
pub fn columns() -> Option<usize> {
    io::stdout().is_terminal().then(|| size().0)
}

/// Columns and rows. Terminals that do not know theirs have the classic 80 by 24.
pub fn size() -> (usize, usize) {
    let known = tcgetwinsize(io::stdout()).ok();
    let or = |n: Option<u16>, name: &str, default| match n {
        Some(n) if n > 0 => usize::from(n),
        _ => std::env::var(name).ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(default),
    };
    (or(known.map(|s| s.ws_col), "COLUMNS", 80), or(known.map(|s| s.ws_row), "LINES", 24))
}

/// A terminal taken over until this is dropped.
pub struct Screen {
    before: Termios,
    ended: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// Standard input is no terminal, or signals cannot be watched.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let (ended, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended))?;
        }
        signal_hook::flag::register(SIGTSTP, Arc::clone(&stopped))?;
        let screen = Self { before, ended, stopped };
        screen.take()?;
        Ok(screen)
    }

    fn take(&self) -> io::Result<()> {
        // Keys come at once and are not shown; Ctrl-C and Ctrl-Z stay signals.
        let mut mode = self.before.clone();
        mode.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &mode)?;
        write(ENTER)
    }

    fn give_back(&self) -> io::Result<()> {
        write(LEAVE)?;
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &self.before)?)
    }

    /// Whether the process is asked to end.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Stops the process if that is asked for (Ctrl-Z), with the terminal as it was before; true when it went on after that.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn suspended(&self) -> io::Result<bool> {
        if !self.stopped.swap(false, Ordering::Relaxed) {
            return Ok(false);
        }
        self.give_back()?;
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.take()?;
        Ok(true)
    }

    /// Keys that were pressed, as soon as there are some, at most after `time`. A signal ends the wait too.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn keys(&self, time: Duration) -> io::Result<Vec<Key>> {
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        let stdin = io::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            polled => polled?,
        };
        let mut bytes = [0; 64];
        let count = stdin.lock().read(&mut bytes)?;
        Ok(if count == 0 { vec![Key::Closed] } else { decode(bytes.get(..count).unwrap_or_default()) })
    }

    /// Shows lines (already of at most the screen's width) from the first row on, over what was there.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        // Each line is written over the old one and its rest erased (EL), then what is below (ED): nothing flickers.
        let body: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        write(&format!("\x1b[H{}\x1b[J", body.join("\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody left to tell when the terminal is gone.
        let _ = self.give_back();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What terminals send for the keys we know; others are passed over.
fn decode(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 8] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Home),
        (b"\x1bOH", Key::Home),
    ];
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let Some((first, after)) = rest.split_first() {
        if *first != 0x1b {
            if first.is_ascii_graphic() || *first == b' ' {
                keys.push(Key::Char(char::from(*first)));
            }
            rest = after;
        } else if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            keys.push(*key);
            rest = rest.get(sequence.len()..).unwrap_or_default();
        } else {
            // Another sequence: up to its final letter.
            let end = after
                .iter()
                .skip(1)
                .position(|b| b.is_ascii_alphabetic() || *b == b'~')
                .map_or(after.len(), |at| at + 2);
            rest = after.get(end..).unwrap_or_default();
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_and_other_sequences_passed_over() {
        assert_eq!(decode(b"q\x1b[A\x1b[5~ s"), [Key::Char('q'), Key::Up, Key::PageUp, Key::Char(' '), Key::Char('s')]);
        assert_eq!(decode(b"\x1b[1;5Cq\x1bOBx"), [Key::Char('q'), Key::Down, Key::Char('x')]);
        assert_eq!(decode(b"\x1b"), []);
        assert_eq!(decode(b"\x1b[200"), []);
        assert_eq!(decode(b"\x03\xff\x80"), []);
    }
}
