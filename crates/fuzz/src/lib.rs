//! One function for each parser of `labor`: any bytes in, a panic when what must hold does not.
//!
//! Here so that the same targets are fuzzed under guidance of coverage (`scripts/fuzz`) and replayed with their corpus by the
//! tests of every build. A new parser gets a function, a row in [`TARGETS`] and a directory in `corpus`. Not here: what the
//! parsers' values mean; that is tested beside them.

mod conf;
mod control;
mod logs;
mod probes;
mod status;

/// A parser with what must hold of its values.
pub type Target = fn(&[u8]);

/// Every target by name: the name of its corpus and of what `LABOR_FUZZ` asks for.
pub const TARGETS: &[(&str, Target)] = &[
    ("directive", conf::directive),
    ("body", control::body),
    ("route", control::route),
    ("origin", control::origin),
    ("state", control::state),
    ("text", control::text),
    ("query", control::query),
    ("probe-http", probes::http),
    ("probe-grpc", probes::grpc),
    ("log", logs::lines),
    ("log-format", logs::format),
];

/// Splits input at its first line feed; the second part is empty where there is none.
fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    (&data[..at], data.get(at + 1..).unwrap_or_default())
}
