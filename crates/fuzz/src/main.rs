//! libFuzzer around one target, which `LABOR_FUZZ` names; everything else is libFuzzer's own command line.
//!
//! Built by scripts/fuzz with the coverage instrumentation of the compiler, which stable Rust has. Not here: the targets.
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<labor_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("LABOR_FUZZ").unwrap_or_default();
    match labor_fuzz::TARGETS.iter().find(|(known, _)| *known == name) {
        Some((_, target)) => *target,
        None => {
            let names: Vec<_> = labor_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            eprintln!("LABOR_FUZZ=\"{name}\" is none of {}", names.join(", "));
            std::process::exit(2);
        }
    }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (*TARGET)(data);
});
