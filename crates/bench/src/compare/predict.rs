//! What the simulator says of a scenario: labor-sim runs the same servers, rate and events with the policy that a method is.
//!
//! Its random numbers are its own, so that single seeds cannot be compared, only means over them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::method::Method;
use super::scenario::Scenario;
use super::sheet::Prediction;

/// Runs at least: they cost little, and what is predicted should not depend on luck.
const RUNS: u64 = 5;

/// The simulator.
pub struct Simulator {
    program: PathBuf,
    /// Policies that it knows.
    policies: Vec<String>,
}

impl Simulator {
    /// Asks the program at `program` what it knows.
    ///
    /// # Errors
    /// When it does not run or is no labor-sim.
    pub async fn new(program: &Path) -> Result<Self> {
        let help = output(program, &["run", "--help"]).await?;
        // clap lists long possible values as "- name: help", short ones in brackets.
        let listed = help.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next());
        let bracketed = help.split("[possible values: ").skip(1).filter_map(|rest| rest.split(']').next());
        let policies: Vec<String> =
            listed.chain(bracketed.flat_map(|list| list.split(", "))).map(|name| name.trim().to_owned()).collect();
        ensure!(!policies.is_empty(), "{} run --help names no policies", program.display());
        Ok(Self { program: program.to_owned(), policies })
    }

    /// The predictions for methods, by their name; none for those that it has no policy for.
    ///
    /// # Errors
    /// When it cannot run the scenario.
    pub async fn predict(
        &self,
        scenario: &Scenario,
        methods: &[Method],
        workers: usize,
        seeds: u64,
        dir: &Path,
    ) -> Result<HashMap<&'static str, Prediction>> {
        let file = dir.join(format!("{}.toml", scenario.name));
        std::fs::write(&file, scenario.for_simulator(workers)?)?;
        let mut known: HashMap<&str, Prediction> = HashMap::new();
        let mut predictions = HashMap::new();
        for method in methods {
            let Some(policy) = method.simulated.iter().find(|name| self.policies.iter().any(|p| p == *name)) else {
                continue;
            };
            if !known.contains_key(policy) {
                known.insert(policy, self.run(&file, policy, seeds.max(RUNS)).await?);
            }
            predictions.insert(method.name, known[policy].clone());
        }
        Ok(predictions)
    }

    /// Means over the seeds.
    async fn run(&self, file: &Path, policy: &str, seeds: u64) -> Result<Prediction> {
        let mut sum = (0.0, 0.0);
        for seed in 1..=seeds {
            let file = file.display().to_string();
            let text = output(&self.program, &["run", &file, "--policy", policy, "--seed", &seed.to_string()]).await?;
            let (mean, p99) = parse(&text).with_context(|| format!("labor-sim has said: {text}"))?;
            sum = (sum.0 + mean, sum.1 + p99);
        }
        let runs = seeds as f64;
        Ok(Prediction { policy: policy.to_owned(), mean: sum.0 / runs, p99: sum.1 / runs })
    }
}

async fn output(program: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).kill_on_drop(true).output().await;
    let output = output.with_context(|| format!("run {}", program.display()))?;
    ensure!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Mean and 99th percentile in what `labor-sim run` prints: "mean 1.23  p50 1.00  p99 4.56  p99.9 7.89 ms".
fn parse(text: &str) -> Result<(f64, f64)> {
    let line = text.lines().find(|line| line.starts_with("mean ")).context("no line with the mean")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| -> Result<f64> {
        let at = words.iter().position(|word| *word == name).with_context(|| format!("no {name}"))?;
        words.get(at + 1).context("no value")?.parse().with_context(|| format!("value of {name}"))
    };
    Ok((after("mean")?, after("p99")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_what_is_printed() {
        let text = "lan: about\npolicy labor\nmean 1.26  p50 1.00  p99 3.57  p99.9 5.10 ms\nerrors 0\n";
        assert_eq!(parse(text).unwrap(), (1.26, 3.57));
        assert!(parse("lan: about").is_err());
    }
}
