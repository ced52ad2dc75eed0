//! Reading and replacing the state file.
//!
//! A new file is written beside the old one, brought to disk and renamed over it, so that there is a whole one at any moment.
//! Writers keep each other out by a lock on the directory, which nobody waits for here and which the kernel gives back when
//! its holder dies. Not here: what is written.

use core::fmt;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use labor_api_format::state::{self, Entry};

/// Who may read the file: names of servers are nobody else's business.
const MODE: u32 = 0o640;

/// What tells one file from the one that replaced it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stamp(Option<(u64, u64, i64, i64, u64)>);

impl Stamp {
    /// Of the file at `path`; all missing files are the same.
    pub fn of(path: &Path) -> Self {
        Self(fs::metadata(path).ok().map(|m| (m.dev(), m.ino(), m.mtime(), m.mtime_nsec(), m.size())))
    }
}

/// Why the file cannot be read or written.
#[derive(Debug)]
pub enum Failure {
    /// The system refuses: doing what, and why.
    System(&'static str, PathBuf, io::Error),
    /// It is no regular file.
    Kind,
    /// What is in it is wrong.
    Content(state::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(what, path, error) => {
                write!(f, "cannot {what} \"{}\": {error}", path.display())?;
                if matches!(error.kind(), ErrorKind::PermissionDenied) {
                    // SAFETY: always succeeds and changes nothing.
                    let user = unsafe { libc::geteuid() };
                    let directory = if path.is_dir() { path } else { parent(path) };
                    write!(f, "; this process runs as uid {user}: \"chown {user} {}\"", directory.display())?;
                }
                Ok(())
            }
            Self::Kind => f.write_str("it is no regular file"),
            Self::Content(error) => write!(f, "{error}"),
        }
    }
}

/// Reads the file; empty when there is none.
pub fn read(path: &Path) -> Result<Vec<Entry>, Failure> {
    let failed = |error| Failure::System("read", path.to_owned(), error);
    // Opening a pipe must not wait for its other end.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Failure::Kind);
    }
    let (mut text, most) = (Vec::new(), state::LIMIT as u64);
    file.take(most.saturating_add(1)).read_to_end(&mut text).map_err(failed)?;
    state::parse(&text).map_err(Failure::Content)
}

/// Why this process could not write the file, as far as that can be told without doing it.
pub fn cannot_write(path: &Path) -> Option<Failure> {
    let parent = parent(path);
    let name = CString::new(parent.as_os_str().as_bytes()).ok()?;
    // SAFETY: a string of C; nothing is changed.
    let good = unsafe { libc::access(name.as_ptr(), libc::R_OK | libc::W_OK | libc::X_OK) } == 0;
    (!good).then(|| Failure::System("write into", parent.to_owned(), io::Error::last_os_error()))
}

/// The directory that `path` is in.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What came of [`save`].
pub enum Saved {
    /// The file holds what was given.
    Yes,
    /// Another worker is writing at this moment: ask again.
    Busy,
    /// It could not be written.
    No(Failure),
}

/// Replaces the file by what `make` makes of the entries that are in it.
///
/// `make` runs while no other worker writes, so that what it reads of the shared memory is newer than what is in the file.
pub fn save(path: &Path, make: impl FnOnce(Vec<Entry>) -> Vec<Entry>) -> Saved {
    match write(path, make) {
        Ok(true) => Saved::Yes,
        Ok(false) => Saved::Busy,
        Err(failure) => Saved::No(failure),
    }
}

fn write(path: &Path, make: impl FnOnce(Vec<Entry>) -> Vec<Entry>) -> Result<bool, Failure> {
    let parent = parent(path);
    // The directory itself is what writers lock: it is there and is not replaced.
    let directory = File::open(parent).map_err(|e| Failure::System("open", parent.to_owned(), e))?;
    // SAFETY: a descriptor that is open.
    if unsafe { libc::flock(directory.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
            _ => Err(Failure::System("lock", parent.to_owned(), error)),
        };
    }
    let before = match read(path) {
        // Damaged: kept for whoever wants to know, if it can be.
        Err(Failure::Content(_)) => {
            let _ = fs::rename(path, beside(path, ".damaged"));
            Vec::new()
        }
        // What cannot be read may be good: to replace it would lose what it says of servers that are not there now.
        other => other?,
    };
    let text = state::write(&make(before));
    let fresh = beside(path, ".tmp");
    let failed = |what| {
        let fresh = fresh.clone();
        move |error| Failure::System(what, fresh, error)
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(MODE).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(&fresh).map_err(failed("create"))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write"))?;
    fs::rename(&fresh, path).map_err(failed("rename"))?;
    // Without this the rename itself may be lost with the power.
    directory.sync_all().map_err(|error| Failure::System("sync", parent.to_owned(), error))?;
    Ok(true)
}

/// A file beside `path` whose name is longer by `suffix`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
