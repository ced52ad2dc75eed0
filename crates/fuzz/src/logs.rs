//! Lines of access logs, as `labor-sim` reads them.

use labor_sim::log::{Format, Log, text};

/// A log of JSON, of `name=value` pairs, or packed.
pub fn lines(data: &[u8]) {
    read(data, &Format::Named);
}

/// The first line is the format of the others.
pub fn format(data: &[u8]) {
    let (first, rest) = crate::halves(data);
    match Format::parse(&String::from_utf8_lossy(first)) {
        Ok(format) => read(rest, &format),
        Err(words) => assert!(words.starts_with("--format"), "{words}"),
    }
}

fn read(data: &[u8], format: &Format) {
    // A packed log may be far larger than its file: what a user gives it is his own.
    let Ok(text) = (if data.len() < 64 << 10 { text(data) } else { return }) else { return };
    for line in text.lines() {
        if let Ok(Some(entry)) = format.read(line) {
            assert!(!entry.attempts.is_empty());
            assert!(entry.attempts.iter().all(|a| a.time.is_none_or(|time| (0.0..1e6).contains(&time))));
        }
    }
    let mut log = Log::default();
    let _ = log.add("log", &text, format);
}
