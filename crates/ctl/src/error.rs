//! What can go wrong, in words for people and as an exit status for scripts.

use std::fmt;
use std::process::ExitCode;

/// The kinds of failure that a script can tell apart. The numbers are the exit status and documented: they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The server answered and refused.
    Refused = 1,
    /// The command line or an environment variable is wrong. Clap uses the same number.
    Usage = 2,
    /// No connection, or no complete answer in time.
    Connect = 3,
    /// The address stands for several servers.
    Ambiguous = 4,
    /// There is no such upstream or server.
    Unknown = 5,
    /// What answers is not `labor`, or one of another version.
    Answer = 6,
    /// The result could not be written to standard output.
    Output = 7,
}

/// A failure: what happened and, where we know, what to do about it. Text from outside is made printable before it gets here.
#[derive(Debug)]
pub struct Error {
    /// For scripts.
    pub kind: Kind,
    message: String,
    hint: Option<String>,
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure without advice.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The exit status of the process.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }

    /// The message alone, for where there is one line.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}
