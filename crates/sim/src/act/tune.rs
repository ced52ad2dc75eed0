//! `labor-sim tune`: each tuned constant of the core at half and at twice its value.

use clap::Args;
use std::path::PathBuf;

/// What is varied, and on what it is judged.
#[derive(Args)]
pub struct Options {
    /// Only these constants (comma separated), as FILE.NAME or NAME.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Scenarios to judge by; all that come with labor-sim when none is given.
    scenarios: Vec<String>,
    /// Number of seeds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Requests per run.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Where the table and the pictures go.
    #[arg(long, value_name = "DIR", default_value = "docs/tuning")]
    out: PathBuf,
}

/// Says how to get a labor-sim that can.
#[cfg(not(feature = "tuning"))]
pub fn tune(options: &Options) -> Result<(), String> {
    let Options { only: _, scenarios: _, seeds: _, requests: _, out: _ } = options;
    Err("in this build the constants are fixed, as in the module; build with 'cargo run --release -p labor-sim \
         --features tuning -- tune'"
        .into())
}

#[cfg(feature = "tuning")]
pub use varied::tune;

#[cfg(feature = "tuning")]
mod varied {
    use super::Options;
    use crate::act::{now, progress, write};
    use labor_core::tuning::{Knob, knobs};
    use labor_sim::compare::{Figure, MEAN, P99, average, compare};
    use labor_sim::plot::{Line, lines};
    use labor_sim::policy::Kind;
    use labor_sim::{Scenario, shipped};
    use std::fmt::Write as _;

    /// What a constant is multiplied by.
    const FACTORS: [f64; 4] = [0.5, 0.71, 1.41, 2.0];
    /// Scenarios with more servers take longer than they tell.
    const MOST_SERVERS: usize = 500;
    /// Beyond this the mean of some scenario moves more than a user would call the same.
    const CLIFF: f64 = 1.05;

    /// One figure of every scenario over what it is with the constants as they are.
    type Ratios = Vec<f64>;

    /// What one constant does: ratios of means and of 99th percentiles by factor.
    struct Finding {
        knob: &'static Knob,
        values: Vec<f64>,
        mean: Vec<Ratios>,
        p99: Vec<Ratios>,
    }

    /// Varies the constants one by one; writes a picture of each, and a table of all.
    pub fn tune(options: &Options) -> Result<(), String> {
        let scenarios = scenarios(options)?;
        let wanted = |k: &&Knob| {
            let full = format!("{}.{}", k.file(), k.name);
            options.only.is_empty() || options.only.iter().any(|o| o == k.name || *o == full)
        };
        let knobs: Vec<_> = knobs().into_iter().filter(wanted).collect();
        if knobs.is_empty() {
            let names: Vec<_> =
                labor_core::tuning::knobs().iter().map(|k| format!("{}.{}", k.file(), k.name)).collect();
            return Err(format!("--only: no constant of that name; there are {}", names.join(", ")));
        }
        let seeds: Vec<u64> = (1..=options.seeds).collect();
        let begun = now();
        let figures = |name: &str| -> [Vec<f64>; 2] {
            let sheets = compare(&scenarios, &[Kind::Labor], &seeds, &progress(name));
            [MEAN, P99].map(|f: Figure| sheets.iter().map(|s| average(&s.figures(Kind::Labor, f))).collect())
        };
        let base = figures("as it is");
        let mut findings = Vec::new();
        for (i, knob) in knobs.iter().enumerate() {
            let mut finding = Finding { knob, values: Vec::new(), mean: Vec::new(), p99: Vec::new() };
            for factor in FACTORS {
                let value = varied(knob.default, factor);
                knob.set(value);
                let label = format!("{} of {}: {} = {value:.4}", i + 1, knobs.len(), knob.name);
                let [mean, p99] = figures(&label);
                knob.set(knob.default);
                let over = |new: Vec<f64>, old: &Vec<f64>| new.iter().zip(old).map(|(n, o)| n / o).collect();
                finding.values.push(value);
                finding.mean.push(over(mean, &base[0]));
                finding.p99.push(over(p99, &base[1]));
            }
            println!("{}", row(&finding, &scenarios));
            write(&options.out.join(file(knob)), &picture(&finding, &scenarios)?)?;
            findings.push(finding);
            // After each: who stops it keeps what there is.
            write(&options.out.join("README.md"), &document(&findings, &scenarios, options))?;
        }
        println!("{} constants, {} scenarios: {:.0} s", knobs.len(), scenarios.len(), begun.elapsed().as_secs_f64());
        Ok(())
    }

    fn scenarios(options: &Options) -> Result<Vec<Scenario>, String> {
        let names = if options.scenarios.is_empty() { shipped::names() } else { options.scenarios.clone() };
        let all = names.iter().map(|n| shipped::load(n)).collect::<Result<Vec<_>, _>>()?;
        let few = |s: &Scenario| !options.scenarios.is_empty() || s.server.len() <= MOST_SERVERS;
        // What has events needs its whole length.
        let steady = |s: &Scenario| s.server.iter().all(|s| s.event.is_empty() && s.join == 0.0 && s.leave.is_none());
        let cut = |s: Scenario| {
            let long = s.rate * s.duration > options.requests as f64;
            if long && steady(&s) { s.with_requests(options.requests) } else { s }
        };
        Ok(all.into_iter().filter(few).map(cut).collect())
    }

    /// Shares that stay are varied by what goes: half of 0.999 would be another law.
    fn varied(value: f64, factor: f64) -> f64 {
        if (0.5..1.0).contains(&value) { 1.0 - (1.0 - value) * factor } else { value * factor }
    }

    fn file(knob: &Knob) -> String {
        format!("{}-{}.svg", knob.file(), knob.name.to_lowercase())
    }

    fn geometric(ratios: &Ratios) -> f64 {
        average(&ratios.iter().map(|r| r.ln()).collect::<Vec<_>>()).exp()
    }

    /// The scenario that is hurt most, and by how much.
    fn worst(ratios: &Ratios) -> (usize, f64) {
        ratios.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 1.0))
    }

    fn row(finding: &Finding, scenarios: &[Scenario]) -> String {
        let knob = finding.knob;
        let mut out = format!("| [{}.{}]({}) | {} |", knob.file(), knob.name, file(knob), short(knob.default));
        let mut hurt: (f64, &str) = (1.0, "–");
        for at in [0, FACTORS.len() - 1] {
            let (mean, p99) = (&finding.mean[at], &finding.p99[at]);
            let _ = write!(out, " {:.3} / {:.3} |", geometric(mean), geometric(p99));
            let (i, ratio) = worst(mean);
            if ratio > hurt.0 {
                hurt = (ratio, &scenarios[i].name);
            }
        }
        let cliff = if hurt.0 > CLIFF { " **" } else { " " };
        let _ = write!(out, "{cliff}{:.3}{} {} |", hurt.0, cliff.trim(), hurt.1);
        out
    }

    fn short(value: f64) -> String {
        if value >= 0.01 { format!("{value}") } else { format!("{value:e}") }
    }

    fn picture(finding: &Finding, scenarios: &[Scenario]) -> Result<String, String> {
        let with_one = |of: &dyn Fn(usize) -> f64| {
            let mut points: Vec<_> = (0..FACTORS.len()).map(|i| (FACTORS[i], of(i))).chain([(1.0, 1.0)]).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let line = |name: String, points, colour| Line { name, points, colour: Some(colour), dashed: false };
        let mut all = vec![
            line("mean, all".into(), with_one(&|i| geometric(&finding.mean[i])), 0),
            line("p99, all".into(), with_one(&|i| geometric(&finding.p99[i])), 1),
        ];
        let mut extremes = |ratios: &[Ratios], what: &str, colour: usize| {
            let of = |s: usize| ratios.iter().map(|r| r[s]).fold(1.0, f64::max);
            let Some(s) = (0..scenarios.len()).max_by(|&a, &b| of(a).total_cmp(&of(b))) else { return };
            let points = with_one(&|i| ratios[i][s]);
            all.push(Line {
                name: format!("{what}, {}", scenarios[s].name),
                points,
                colour: Some(colour),
                dashed: true,
            });
        };
        extremes(&finding.mean, "mean", 0);
        extremes(&finding.p99, "p99", 1);
        let title = format!("{}.{} = {}", finding.knob.file(), finding.knob.name, short(finding.knob.default));
        lines(&title, ("times its value", "over what it is"), &all, &[], (true, false))
    }

    fn document(findings: &[Finding], scenarios: &[Scenario], options: &Options) -> String {
        let names: Vec<_> = scenarios.iter().map(|s| s.name.as_str()).collect();
        let mut out = format!(
            "# Tuned constants: is one on a cliff?\n\nEach constant of the core at half and at twice its value, everything else as it \
             is; simulated, paired by seed. The reasons stand with the constants in `crates/core/src`. Generated:\n\n```\ncargo run \
             --release -p labor-sim --features tuning -- tune{} --seeds {} --requests {}\n```\n\nGeometric means over {} scenarios of \
             mean / 99th percentile, over what they are. Shares that stay (0.5 to 1) are varied by what goes. Last: the scenario \
             whose mean is hurt most in either direction; **bold** beyond {CLIFF}. 1.000 everywhere: these scenarios do not ask for \
             the constant. A picture each: all scenarios (solid), the one hurt most (dashed).\n\n| constant | value | × ½ | × 2 | \
             worst mean |\n|---|---|---|---|---|\n",
            options.scenarios.iter().map(|s| format!(" {s}")).collect::<String>(),
            options.seeds,
            options.requests,
            scenarios.len()
        );
        findings.iter().for_each(|f| {
            let _ = writeln!(out, "{}", row(f, scenarios));
        });
        let _ = writeln!(out, "\nScenarios: {}.", names.join(", "));
        out
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_stays_is_varied_by_what_goes() {
            assert_eq!([varied(8.0, 0.5), varied(0.1, 2.0)], [4.0, 0.2]);
            assert!((varied(0.999, 2.0) - 0.998).abs() < 1e-12 && (varied(0.6, 0.5) - 0.8).abs() < 1e-12);
        }
    }
}
