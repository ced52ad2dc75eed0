//! Who a process is, so that another can tell whether it still lives: its id and when it started.
//!
//! The start time tells a process from a later one with the same id. Read from /proc, which may be missing or hide others:
//! then the id alone decides. Not here: what is done about the dead.

use std::fs::File;
use std::io::Read;

use std::sync::OnceLock;

/// Where the state stands in /proc/PID/stat, counted from the process name's closing parenthesis.
const STATE: usize = 0;
/// Where the start time stands, counted likewise (field 22 of proc(5), the state being field 3).
const START: usize = 19;

/// What /proc says.
struct Stat {
    /// A process that has ended and waits for its parent to notice.
    ended: bool,
    /// Ticks since boot, low 32 bits: enough to differ, at 100 a second they repeat after 497 days.
    start: u32,
}

/// This process as one word: id in the upper half, start time in the lower. Never 0.
pub fn own() -> u64 {
    static OWN: OnceLock<(u32, u64)> = OnceLock::new();
    let pid = std::process::id();
    let make = || pack(pid, stat(pid).map_or(0, |s| s.start));
    let (owner, word) = *OWN.get_or_init(|| (pid, make()));
    // A process forked after the first call inherits the answer of its parent.
    if owner == pid { word } else { make() }
}

/// Whether the process of `word` is known to have ended. In doubt it lives.
pub fn is_dead(word: u64) -> bool {
    let (pid, start) = ((word >> 32) as u32, word as u32);
    let Ok(id) = libc::pid_t::try_from(pid) else { return true };
    // SAFETY: signal 0 only asks. EPERM means that it exists.
    if unsafe { libc::kill(id, 0) } == -1 && last_error() == libc::ESRCH {
        return true;
    }
    // Exists: the same one, unless /proc says otherwise. A zombie's memory is gone though its parent has not looked yet.
    stat(pid).is_some_and(|s| s.ended || (start != 0 && s.start != start))
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

const fn pack(pid: u32, start: u32) -> u64 {
    ((pid as u64) << 32) | start as u64
}

fn stat(pid: u32) -> Option<Stat> {
    // The line has 52 numbers at most; the first 22 always fit.
    let mut buffer = [0_u8; 1024];
    let read = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut buffer).ok()?;
    let text = buffer.get(..read)?;
    // The name may hold anything, parentheses and spaces included; only the last parenthesis ends it.
    let rest = text.get(text.iter().rposition(|b| *b == b')')?.checked_add(1)?..)?;
    let mut fields = rest.split(|b| b.is_ascii_whitespace()).filter(|f| !f.is_empty());
    let state = fields.nth(STATE)?;
    let start = fields.nth(START.checked_sub(STATE)?.checked_sub(1)?)?;
    let start: u64 = core::str::from_utf8(start).ok()?.parse().ok()?;
    Some(Stat { ended: matches!(state, b"Z" | b"X" | b"x"), start: start as u32 })
}
