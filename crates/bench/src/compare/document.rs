//! `labor-bench document`: from the results of `compare` to a Markdown file with tables and pictures. Nothing is measured here.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::figures::Figures;
use super::plot;
use super::report;
use super::sheet::Sheet;

/// Write the document of results that `compare --json` has left
#[derive(clap::Args)]
pub struct Args {
    /// The directory of the results (NAME.json); pictures are written there too
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// The Markdown file; must be in the directory above that of the results
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

const HEAD: &str = "# Benchmarks

Written by `scripts/bench --document`; each section tells its own date, command, versions and how busy the machine was.

Each method is a real balancer with both sides on the same machine: model servers and an open-loop load generator with Poisson
arrivals (model-servers.md). Latency counts from the moment a request was due (no coordinated omission) and is of good answers;
errors are told apart. For every seed each method meets the same arrivals and the same servers with the same random numbers.
A scenario is the simulator's of the same name, stretched in time so that two cores bear it, and shortened
(`crates/bench/scenarios`).

- Cells: median over the runs (smallest–largest). \"To the best\": share of the answers that came from the servers no other is
  faster than.
- \"labor ÷ it\": geometric mean of the ratios, seed by seed, with the 95 % interval of a bootstrap over the seeds. Below 1 labor is
  faster. A method with more errors than labor (by over 1 % of the requests) is no competitor: an error at once is no speed.
- \"Simulated\": what `labor-sim` says of the same servers, rate and events, and how far reality is from it; in bold from 15 % on.
- `first_alone` sends everything to the first server only, as a measure, no competitor. `least_conn_1.31` is least_conn in the nginx
  that has least_time, to show what the builds differ by. `lua_fastest` is the idea of weights from response times, `lua_ewma`
  that of ingress-nginx, both written anew in Lua (`crates/bench/lua`); `upstream_fair` is the module of that name.

What reality has and the simulator has not:

- The way through load generator, balancer and kernel: some 0.3 ms on a quiet machine. It shows in means below 5 ms.
- Other programs and the bench itself on the same two cores: a stall of some ten ms moves every method's 99th percentile, and then the
  traffic of methods that react to single late answers. The share of the processors that was busy is told with each section; with all
  of it busy, `recovered` came out 9 % (round robin) to 44 % (least_time inflight) above the simulation.
- HAProxy's `random` draws its two servers with replacement and from a ring of hashes with unequal parts, so that a bad server keeps
  1/N² of the requests and more; the simulator's is nginx's `random two`, which draws two different ones.
- The 99th percentile of a method that sends close to 1 % of the requests to a far server is the one server's or the other's by luck.

";

/// Writes the document and its pictures.
///
/// # Errors
/// When there are no results, or files cannot be read or written.
pub fn run(args: &Args) -> Result<()> {
    let dir = args.results.file_name().context("the results need a directory of their own")?.to_string_lossy();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&args.results).with_context(|| format!("read {}", args.results.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    let sheets = files.iter().map(|path| Sheet::read(path)).collect::<Result<Vec<_>>>()?;
    ensure!(!sheets.is_empty(), "no results in {}", args.results.display());
    let mut text = HEAD.to_owned();
    text += &summary(&sheets);
    let write = |name: &str, svg: &str| -> Result<String> {
        let path = args.results.join(name);
        std::fs::write(&path, svg).with_context(|| format!("write {}", path.display()))?;
        Ok(format!("{dir}/{name}"))
    };
    write("summary.svg", &plot::summary(&sheets)?)?;
    for sheet in &sheets {
        let mut images = vec![write(&format!("{}.svg", sheet.scenario), &plot::latencies(sheet)?)?];
        if !sheet.events.is_empty() {
            images.push(write(&format!("{}-time.svg", sheet.scenario), &plot::over_time(sheet)?)?);
        }
        text += "\n";
        text += &report::section(sheet, &images);
    }
    let text = text.replace("SUMMARY.svg", &format!("{dir}/summary.svg"));
    std::fs::write(&args.out, text).with_context(|| format!("write {}", args.out.display()))
}

/// labor against the best other of each scenario.
fn summary(sheets: &[Sheet]) -> String {
    let mut text = "## Summary\n\n![labor over the others](SUMMARY.svg)\n\n".to_owned();
    text += "| scenario | mean: labor ÷ best other | | p99: labor ÷ best other | | errors % of labor |\n|---|---|---|---|---|---|\n";
    for sheet in sheets {
        let Some(labor) = sheet.labor() else { continue };
        let against = |column: fn(&Figures) -> f64| match sheet.best_other(column) {
            Some(other) => (report::ratio(sheet.ratio(other, column)), other.method.clone()),
            None => ("-".to_owned(), "no other has as few errors".to_owned()),
        };
        let (mean, p99) = (against(|f| f.mean), against(|f| f.p99));
        let errors = report::short(labor.median(Figures::error_share) * 100.0);
        let name = &sheet.scenario;
        let _ = writeln!(text, "| [{name}](#{name}) | {} | {} | {} | {} | {errors} |", mean.0, mean.1, p99.0, p99.1);
    }
    text + &disagreements(sheets)
}

/// Where reality and simulation differ by more than they may, all in one place.
fn disagreements(sheets: &[Sheet]) -> String {
    let mut text = String::new();
    let (mut all, mut close) = (0, 0);
    for sheet in sheets {
        let mut far = Vec::new();
        for row in &sheet.rows {
            let Some(off) = row.off(|f| f.mean, |p| p.mean) else { continue };
            all += 1;
            if off.ln().abs() > (1.0 + super::sheet::APART).ln() {
                far.push(format!("{} {:+.0} %", row.method, (off - 1.0) * 100.0));
            } else {
                close += 1;
            }
        }
        if !far.is_empty() {
            let _ = writeln!(text, "- [{0}](#{0}): {1}", sheet.scenario, far.join(", "));
        }
    }
    if all == 0 {
        return text;
    }
    let rest = if text.is_empty() { ".\n" } else { "; not in these (reasons above and in their sections):\n\n" };
    format!("\nThe simulator's mean is within 15 % of the real one in {close} of {all} cases{rest}{text}")
}

#[cfg(test)]
mod tests {
    use super::super::sheet::tests::sheet;
    use super::*;

    #[test]
    fn a_document_is_made_of_results() {
        let root = std::env::temp_dir().join(format!("labor-bench-document-{}", std::process::id()));
        let results = root.join("benchmarks");
        std::fs::create_dir_all(&results).unwrap();
        let rows: [(&str, &[f64]); 3] = [("labor", &[1.0, 3.0]), ("least_conn", &[2.0, 4.0]), ("first_alone", &[9.0])];
        sheet(&rows).write(&results.join("lan.json")).unwrap();
        let args = Args { results: results.clone(), out: root.join("benchmarks.md") };
        let done = run(&args);
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let (text, picture, time) = (read(args.out), read(results.join("lan.svg")), read(results.join("lan-time.svg")));
        std::fs::remove_dir_all(&root).unwrap();
        done.unwrap();
        assert!(
            text.contains("| [lan](#lan) | 0.61 [0.50, 0.75] | least_conn | 0.61 [0.50, 0.75] | least_conn | 0.10 |"),
            "{text}"
        );
        assert!(text.contains("benchmarks/lan.svg") && text.contains("benchmarks/summary.svg"));
        assert!(text.contains("- [lan](#lan): labor +100 %, least_conn +50 %"), "{text}");
        assert!(picture.contains("least_conn") && picture.contains("prefers-color-scheme"));
        assert!(time.contains("× 20"), "{time}");
    }

    #[test]
    fn no_results_are_an_error() {
        let args = Args { results: "does/not/exist".into(), out: "x".into() };
        assert!(run(&args).is_err());
    }
}
