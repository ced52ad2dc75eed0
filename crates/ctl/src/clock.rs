//! The one place of `labor-ctl` that reads a clock: how much of the time a whole exchange may take is left.

use std::io;
use std::time::{Duration, Instant};

/// A moment by which something must be over.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// `time` from now.
    pub fn after(time: Duration) -> Self {
        Self(now() + time)
    }

    /// What is left, never zero (sockets take zero for "for ever").
    ///
    /// # Errors
    /// `TimedOut` when nothing is left.
    pub fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

#[expect(clippy::disallowed_methods, reason = "a person waits; the rule protects the module and the core")]
fn now() -> Instant {
    Instant::now()
}
