//! What the commands do: files, progress and printing around the library.

pub mod log;
pub mod many;
pub mod one;
pub mod tune;

use labor_sim::plot;
use labor_sim::policy::Kind;
use labor_sim::stats::{Recorder, Summary};
use labor_sim::{Scenario, engine};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

/// The clock on the wall, for the person who waits.
pub fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "times are shown to the person who waits, nothing is computed from them"
    )]
    Instant::now()
}

/// Tells a terminal how far the runs are, and for how long they have been at it.
pub fn progress(name: &str) -> impl Fn(usize, usize) + Sync + use<> {
    let name = name.to_owned();
    let show = std::io::stderr().is_terminal();
    let begun = now();
    move |done, total| {
        if show {
            let end = if done == total { "\r\x1b[K" } else { "" };
            let seconds = begun.elapsed().as_secs_f64();
            let _ = write!(std::io::stderr(), "\r\x1b[K{name}: {done}/{total}, {seconds:.0} s{end}");
        }
    }
}

/// Writes a file, and the directories it is in.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

/// Runs `kinds` with their course in time.
pub fn runs(scenario: &Scenario, kinds: &[Kind], seed: u64) -> Vec<(Kind, Summary)> {
    let run = |&kind| (kind, engine::run_with(scenario, kind, seed, Recorder::with_timeline(scenario)));
    kinds.iter().map(run).collect()
}

/// Writes the pictures of some runs of one scenario; returns the files' names.
pub fn pictures(directory: &Path, scenario: &Scenario, runs: &[(Kind, Summary)]) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    let mut save = |what: String, svg: String| {
        let file = format!("{}-{what}.svg", scenario.name);
        write(&directory.join(&file), &svg)?;
        files.push(file);
        Ok::<(), String>(())
    };
    let lines: Vec<_> = runs.iter().map(|(kind, s)| (kind.name(), &s.timeline)).collect();
    save("mean".into(), plot::latency(scenario, &lines, false)?)?;
    save("p99".into(), plot::latency(scenario, &lines, true)?)?;
    for (kind, summary) in runs {
        save(
            format!("shares-{}", kind.name().trim_end_matches('*')),
            plot::shares(scenario, kind.name(), &summary.timeline)?,
        )?;
        if !summary.curves.is_empty() {
            save("curves".into(), plot::curves(scenario, &summary.curves)?)?;
        }
    }
    Ok(files)
}
