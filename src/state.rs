//! `labor_state`: what was set for servers, kept in a file over a restart of nginx.
//!
//! Read when a server gets its record, so that it is obeyed from the first pick on; written by whichever worker changed
//! something. The shared memory is what counts: what it holds is never replaced by the file. Not here: the form of the file
//! (`labor_api_format`), and who changes what (`api.rs`).

mod file;
mod writer;

use core::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;

use labor_api_format::state::Entry;
use labor_core::Metric;
use labor_core::control::Control;
use labor_core::time::{Micros, SECOND, since};
use nginx_sys::{NGX_LOG_ERR, NGX_LOG_WARN, ngx_cycle, ngx_cycle_t};
use ngx::ngx_log_error;

use file::Stamp;
pub use file::{Failure, Saved};

use crate::zone::View;
use crate::{ffi, worker};

/// Thousands of servers that get their records at once are one look at the file.
const PAUSE: Micros = SECOND / 100;

thread_local! {
    static PATH: Cell<Option<&'static Path>> = const { Cell::new(None) };
    /// What the file said when it was last read, by the keys of both metrics.
    static KNOWN: RefCell<HashMap<u64, Control>> = RefCell::default();
    /// Which file that was; `None` before the first look.
    static STAMP: Cell<Option<Stamp>> = const { Cell::new(None) };
    /// When this worker last looked whether there is another.
    static LOOKED: Cell<Option<Micros>> = const { Cell::new(None) };
}

/// A worker starts: takes note of its file.
pub fn init_process(cycle: *mut ngx_cycle_t) {
    PATH.set(named(cycle));
    STAMP.set(None);
    LOOKED.set(None);
}

/// The file that this worker's configuration names, if it names one.
pub fn path() -> Option<&'static Path> {
    PATH.get()
}

fn named(cycle: *mut ngx_cycle_t) -> Option<&'static Path> {
    // SAFETY: a cycle whose configuration is read; it and its strings outlive the process that begins with it.
    unsafe { ffi::cycle_conf(cycle) }?.state_file.as_deref()
}

/// Replaces the file by what `make` makes of the entries that are in it; see [`file::save`].
pub fn save(make: impl FnOnce(Vec<Entry>) -> Vec<Entry>) -> Saved {
    path().map_or(Saved::Yes, |path| file::save(path, make))
}

/// Why this process could not write the file now.
pub fn cannot_write() -> Option<Failure> {
    file::cannot_write(path()?)
}

/// The configuration is read (also by `nginx -t`): says what is wrong with the file, if it is there, and whether workers will
/// be able to write it.
pub fn check(cycle: *mut ngx_cycle_t) {
    let Some(path) = named(cycle) else { return };
    // SAFETY: nginx's cycle has a log, and its configuration is read.
    let (log, obstacle) = unsafe { ((*cycle).log, writer::obstacle(cycle, path)) };
    if let Err(failure) = file::read(path) {
        ngx_log_error!(NGX_LOG_WARN, log, "labor: state file \"{}\" is ignored: {failure}", path.display());
    }
    if let Some(obstacle) = obstacle {
        ngx_log_error!(NGX_LOG_WARN, log, "labor: state file \"{}\" cannot be kept: {obstacle}", path.display());
    }
}

/// Gives the record at `slot`, if it is new, what was set for its server before: while another metric was measured (`other` is
/// its key then), or before nginx was started, as the file says. `key` is its own.
pub fn settle(view: View, slot: u32, key: u64, other: u64) {
    let Some(peer) = view.record(slot).filter(|peer| !peer.is_settled()) else { return };
    let before = Some(view.control(view.known(other))).filter(|control| !control.is_empty());
    peer.settle(before.or_else(|| remembered(key)).unwrap_or_default());
}

/// What the file says is set for the server of `key`; it is read if it is another one than last time.
fn remembered(key: u64) -> Option<Control> {
    let path = path()?;
    let now = worker::now();
    if LOOKED.get().is_none_or(|at| since(at, now) > PAUSE) {
        LOOKED.set(Some(now));
        look(path);
    }
    KNOWN.with(|known| known.try_borrow().ok()?.get(&key).copied())
}

/// Reads the file unless it is the one that was read last.
fn look(path: &Path) {
    let stamp = Stamp::of(path);
    if STAMP.get() == Some(stamp) {
        return;
    }
    STAMP.set(Some(stamp));
    KNOWN.replace(match file::read(path) {
        Ok(entries) => by_key(&entries),
        Err(failure) => {
            // SAFETY: nginx's own cycle, set before any worker runs.
            let log = unsafe { (*ngx_cycle).log };
            ngx_log_error!(NGX_LOG_ERR, log, "labor: state file \"{}\" is ignored: {failure}", path.display());
            HashMap::new()
        }
    });
}

fn by_key(entries: &[Entry]) -> HashMap<u64, Control> {
    let both = |entry: &Entry| [Metric::LastByte, Metric::Header].map(|metric| (entry.key(metric), entry.control));
    entries.iter().flat_map(both).collect()
}
