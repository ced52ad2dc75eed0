//! How names and times are written: any bytes as text, moments as ISO 8601, figures without digits that say nothing.
//!
//! Here because JSON, metrics and pages write the same names and times. Escaping for a format is that format's own.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use labor_core::time::{Micros, since};
use serde::ser::{Serialize, Serializer};
use serde_json::ser::{CompactFormatter, Formatter};

use crate::worker;

/// Any bytes as text: what is no UTF-8 becomes `\xNN`, so that different names stay different.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = core::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len().saturating_mul(2));
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    Cow::Owned(out)
}

/// Three decimals: more say nothing and double the answer's length.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The longest of [`decimal`]: a sign, ten digits, the point, six digits, and room to spare.
const WIDTH: usize = 24;

/// A figure with six decimals at most, and without zeros at the end, in `buffer`; `None` where that needs too many digits. Here
/// because the shortest text that gives the same bits again takes several times as long, and its last digits say nothing.
fn decimal(value: f64, buffer: &mut [u8; WIDTH]) -> Option<&[u8]> {
    let scaled = value.abs() * 1e6 + 0.5;
    if scaled.is_nan() || scaled >= 9e15 {
        return None;
    }
    let (mut rest, mut decimals) = (scaled as u64, 6_u32);
    let negative = value < 0.0 && rest > 0;
    if rest % 1_000_000 == 0 {
        (rest, decimals) = (rest / 1_000_000, 0);
    }
    while decimals > 0 && rest % 10 == 0 {
        (rest, decimals) = (rest / 10, decimals.saturating_sub(1));
    }
    let mut from = WIDTH;
    let mut places = buffer.iter_mut().rev();
    let mut put = |byte: u8| {
        if let Some(place) = places.next() {
            *place = byte;
            from = from.saturating_sub(1);
        }
    };
    let mut written = 0_u32;
    while rest > 0 || written <= decimals {
        if written == decimals && decimals > 0 {
            put(b'.');
        }
        put(b'0'.wrapping_add((rest % 10) as u8));
        rest /= 10;
        written = written.saturating_add(1);
    }
    if negative {
        put(b'-');
    }
    buffer.get(from..)
}

/// How JSON is written: compact, and figures with as many digits as mean something.
pub struct Figures;

impl Formatter for Figures {
    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        match decimal(value, &mut [0; WIDTH]) {
            Some(digits) => out.write_all(digits),
            None => CompactFormatter.write_f64(out, value),
        }
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f32) -> io::Result<()> {
        self.write_f64(out, value.into())
    }
}

/// One moment on both clocks: records hold the monotonic one, people read the other.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Now, µs of the monotonic clock.
    pub now: Micros,
    /// Now, ms since 1970.
    pub wall: u64,
}

impl Clock {
    /// This moment.
    pub fn read() -> Self {
        Self { now: worker::now(), wall: worker::wall() }
    }

    /// When it was `at` (µs of the monotonic clock); `None` for never.
    pub fn date(self, at: Micros) -> Option<Date> {
        (at != 0).then(|| Date(self.wall.saturating_sub(since(at, self.now) / 1000)))
    }
}

/// A moment, ms since 1970, written in ISO 8601 with milliseconds in UTC.
#[derive(Clone, Copy)]
pub struct Date(pub u64);

impl Date {
    /// Year, month, day, then hour, minute, second, millisecond. The civil calendar from days: Howard Hinnant,
    /// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for years from 1970 on.
    fn parts(self) -> [u64; 7] {
        let (ms, days) = (self.0 % 86_400_000, self.0 / 86_400_000);
        // Eras of 400 years that begin on the first of March of the year 0.
        let shifted = days.saturating_add(719_468);
        let (era, day) = (shifted / 146_097, shifted % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let in_year = day - (365 * year + year / 4 - year / 100);
        let shifted_month = (5 * in_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year + era * 400 + u64::from(month <= 2);
        let date = in_year - (153 * shifted_month + 2) / 5 + 1;
        [year, month, date, ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000]
    }
}

impl core::fmt::Display for Date {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [year, month, day, hour, minute, second, ms] = self.parts();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
