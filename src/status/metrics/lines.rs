//! Lines of Prometheus's text format: escaping, numbers, heads of metrics.
//!
//! Written by hand because a thousand servers are some fifty thousand lines. Not here: which metrics there are.

use labor_core::time::{Micros, SECOND};

/// Bytes after which what is written is handed on.
pub const ENOUGH: usize = 32 * 1024;

/// The lines that stand before a metric's samples.
pub fn head(out: &mut Vec<u8>, name: &str, kind: &str, help: &str) {
    for part in ["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends a label to others. In a value backslash, quote and end of line are escaped, as the format asks.
pub fn label(out: &mut Vec<u8>, name: &str, value: &str) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    for byte in value.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            other => out.push(other),
        }
    }
    out.push(b'"');
}

/// A sample's value.
#[derive(Clone, Copy)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// µs, written as seconds.
    Time(Micros),
    /// Between 0 and 1.
    Ratio(f64),
}

/// The samples of one metric of one server.
pub struct Lines<'a> {
    out: &'a mut Vec<u8>,
    name: &'static str,
    labels: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Samples of `name` with `labels`, appended to `out`.
    pub fn new(out: &'a mut Vec<u8>, name: &'static str, labels: &'a [u8]) -> Self {
        Self { out, name, labels }
    }

    /// A sample.
    pub fn plain(&mut self, value: Value) {
        self.line("", "", "", value);
    }

    /// A sample with one label more, whose value needs no escaping.
    pub fn with(&mut self, label: &str, is: &str, value: Value) {
        self.line("", label, is, value);
    }

    /// A bucket of a histogram: that of answers up to `bound`, as [`bound`] writes it, or of all.
    pub fn bucket(&mut self, bound: Option<&str>, count: u64) {
        self.line("_bucket", "le", bound.unwrap_or("+Inf"), Value::Count(count));
    }

    /// What follows the buckets.
    pub fn end_of_histogram(&mut self, sum: Micros, count: u64) {
        self.line("_sum", "", "", Value::Time(sum));
        self.line("_count", "", "", Value::Count(count));
    }

    fn line(&mut self, suffix: &str, label: &str, is: &str, value: Value) {
        let out = &mut *self.out;
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(suffix.as_bytes());
        if !self.labels.is_empty() || !label.is_empty() {
            out.push(b'{');
            out.extend_from_slice(self.labels);
            if !label.is_empty() {
                if !self.labels.is_empty() {
                    out.push(b',');
                }
                for part in [label, "=\"", is, "\""] {
                    out.extend_from_slice(part.as_bytes());
                }
            }
            out.push(b'}');
        }
        out.push(b' ');
        match value {
            Value::Count(count) => digits(out, count, 1),
            Value::Time(us) => seconds(out, us),
            Value::Ratio(ratio) => seconds(out, (ratio * 1e6).round() as u64),
        }
        out.push(b'\n');
    }
}

/// A bucket's bound of `us` in seconds.
pub fn bound(us: Micros) -> String {
    let mut text = Vec::new();
    seconds(&mut text, us);
    String::from_utf8(text).unwrap_or_default()
}

/// µs as seconds, without zeros at the end.
fn seconds(out: &mut Vec<u8>, us: Micros) {
    digits(out, us / SECOND, 1);
    let (mut rest, mut width) = (us % SECOND, 6);
    if rest > 0 {
        while rest % 10 == 0 {
            rest /= 10;
            width = usize::saturating_sub(width, 1);
        }
        out.push(b'.');
        digits(out, rest, width);
    }
}

/// A number in at least `width` digits.
fn digits(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut text = [b'0'; 20];
    let mut used = 0_usize;
    for place in text.iter_mut().rev() {
        if number == 0 && used >= width {
            break;
        }
        *place = b'0'.wrapping_add((number % 10) as u8);
        number /= 10;
        used = used.saturating_add(1);
    }
    out.extend_from_slice(text.get(text.len().saturating_sub(used)..).unwrap_or_default());
}
