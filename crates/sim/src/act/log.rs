//! `labor-sim --from`: what labor would have done with a user's own log.

use super::{pictures, runs, write};
use clap::Args;
use labor_sim::log::{BASELINES, Format, HINT, Log, model, report, text};
use std::io::Read;
use std::path::PathBuf;

/// Where the log is and how it is written.
#[derive(Args)]
pub struct Options {
    /// Say what labor would have done with this access log; several (rotated, .gz) are read as one, - is the standard input.
    #[arg(long, num_args = 1.., value_name = "LOG")]
    from: Vec<PathBuf>,
    /// The log's log_format, with $msec, $upstream_addr, $upstream_response_time and, better, $upstream_status; not needed for
    /// JSON lines and name=value pairs with these names.
    #[arg(long, requires = "from")]
    format: Option<String>,
    /// Write pictures into this directory.
    #[arg(long, value_name = "DIR", requires = "from")]
    svg: Option<PathBuf>,
    /// Also write the text to this file.
    #[arg(long, value_name = "FILE", requires = "from")]
    out: Option<PathBuf>,
}

/// Reads, models, simulates, tells.
pub fn from_log(options: &Options) -> Result<(), String> {
    let format = options.format.as_deref().map_or(Ok(Format::Named), Format::parse)?;
    let mut log = Log::default();
    for path in &options.from {
        let name = path.display().to_string();
        let bytes = if name == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(path)
        };
        let bytes = bytes.map_err(|e| format!("{name}: {e}"))?;
        log.add(&name, &text(&bytes).map_err(|e| format!("{name}: {e}"))?, &format)?;
    }
    log.sort();
    let first = options.from.first().and_then(|p| p.file_name()).map_or("log".into(), |n| n.to_string_lossy());
    let model = model(&first, &log).map_err(|e| format!("{first}: {e}. A log that can be read: {HINT}"))?;
    let said = report(&log, &model);
    print!("{said}");
    if let Some(file) = &options.out {
        write(file, &said)?;
    }
    if let Some(directory) = &options.svg {
        for file in pictures(directory, &model.scenario, &runs(&model.scenario, &BASELINES, 1))? {
            println!("{}", directory.join(file).display());
        }
    }
    Ok(())
}
