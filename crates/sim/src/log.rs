//! A user's own access log: read, turned into a scenario, and judged. What it cannot tell is said in `report`.

mod line;
mod model;
mod report;

pub use line::{Attempt, Entry, Format};
pub use model::{Model, model};
pub use report::{BASELINES, report};

use flate2::read::MultiGzDecoder;
use std::io::Read;

/// Of a log's lines this share may be unreadable: a cut line at a rotation is no reason to give up.
const UNREADABLE: f64 = 0.01;
/// How to write a log that can be read.
pub const HINT: &str = "log_format labor '$msec $upstream_addr $upstream_response_time $upstream_status'; and \
                        --format '$msec $upstream_addr $upstream_response_time $upstream_status'";

/// A log.
#[derive(Debug, Default)]
pub struct Log {
    /// Requests that went to servers, in the order of their beginnings.
    pub entries: Vec<Entry>,
    /// Lines of requests that went to no server: answered by nginx itself or from its cache.
    pub elsewhere: usize,
    /// Lines that could not be read.
    pub unreadable: usize,
}

/// The text of a file's bytes, unpacked when it is gzip. Bytes that are no UTF-8 (in paths, for one) are replaced.
///
/// # Errors
/// When it begins as gzip does, and is none.
pub fn text(bytes: &[u8]) -> Result<String, String> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        MultiGzDecoder::new(bytes).read_to_end(&mut plain).map_err(|e| format!("damaged gzip: {e}"))?;
        return Ok(String::from_utf8_lossy(&plain).into_owned());
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

impl Log {
    /// Adds the lines of one file called `name`.
    ///
    /// # Errors
    /// When more than one line in a hundred cannot be read: the first one's number, what is wrong with it and what to do.
    pub fn add(&mut self, name: &str, text: &str, format: &Format) -> Result<(), String> {
        let (mut bad, mut all, mut first) = (0usize, 0usize, None);
        for (n, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            all += 1;
            match format.read(line) {
                Ok(Some(entry)) => self.entries.push(entry),
                Ok(None) => self.elsewhere += 1,
                Err(error) => {
                    bad += 1;
                    first.get_or_insert_with(|| {
                        let shown: String = line.chars().take(120).collect();
                        format!("{name}:{}: {error}\n  {shown}\n", n + 1)
                    });
                }
            }
        }
        if bad as f64 > UNREADABLE * all as f64 {
            let first = first.unwrap_or_default();
            return Err(format!(
                "{first}and {} of {all} lines more. A log that can be read: {HINT}",
                bad.saturating_sub(1)
            ));
        }
        self.unreadable += bad;
        Ok(())
    }

    /// Puts the requests in the order in which they began.
    pub fn sort(&mut self) {
        self.entries.sort_by(|a, b| a.began().total_cmp(&b.began()));
    }
}
