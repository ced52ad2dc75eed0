//! What `labor-bench compare` has found, as Markdown that also reads well in a terminal, and as JSON.
//!
//! Two tables a scenario: all requests, and those after learning. A cell is the median over the seeds, with the smallest
//! and the largest behind it where there are several.

use std::fmt::Write;

use serde_json::{Value, json};

use super::figures::{Figures, Spread};
use super::method::Method;
use super::scenario::Scenario;

/// One run of one method.
pub struct Outcome {
    /// Of every request.
    pub all: Figures,
    /// Without the first ones, see [`Scenario::learning`].
    pub learned: Figures,
}

/// A method's runs, one per seed, in the order of the seeds.
pub struct Row {
    /// Which.
    pub method: Method,
    /// Its runs.
    pub runs: Vec<Outcome>,
}

/// A method whose share of errors is larger than labor's by more than this is no competitor: an error that comes at once
/// is no speed. One per cent is the bar for a server that turns to instant errors.
const MORE_ERRORS: f64 = 0.01;

type View = fn(&Outcome) -> &Figures;
type Column = fn(&Figures) -> f64;

/// The section of a scenario.
pub fn markdown(scenario: &Scenario, rows: &[Row]) -> String {
    let seeds = rows.first().map_or(0, |row| row.runs.len());
    let mut text = format!("## {}\n\n{}.\n\n", scenario.name, scenario.about);
    let way = if scenario.together { "at the same time" } else { "one after the other" };
    add(&mut text, format_args!("{} requests a run, {seeds} runs each, methods {way}.\n", scenario.requests));
    table(&mut text, scenario, rows, &format!("after learning ({} requests)", scenario.learning), |run| &run.learned);
    table(&mut text, scenario, rows, "all requests", |run| &run.all);
    text
}

fn table(text: &mut String, scenario: &Scenario, rows: &[Row], title: &str, view: View) {
    let names: Vec<&str> = scenario.servers.iter().map(|server| server.name.as_str()).collect();
    add(text, format_args!("| {title} | mean ms | p50 ms | p99 ms | errors % | % {} |", names.join(" / ")));
    add(text, format_args!("|---|---|---|---|---|---|"));
    for row in rows {
        let cell = |column: Column| spread(Spread::of(row.runs.iter().map(|run| column(view(run)))));
        let shares: Vec<String> = names
            .iter()
            .map(|name| {
                let of = row.runs.iter().map(|run| view(run).shares.get(*name).copied().unwrap_or(0.0) * 100.0);
                Spread::of(of).map_or("-".to_owned(), |share| format!("{:.1}", share.median))
            })
            .collect();
        let (mean, p50, p99) = (cell(|f| f.mean), cell(|f| f.p50), cell(|f| f.p99));
        let errors = cell(|f| f.error_share() * 100.0);
        add(text, format_args!("| {} | {mean} | {p50} | {p99} | {errors} | {} |", row.method.name, shares.join(" / ")));
    }
    let columns: [(&str, Column); 2] = [("mean", |f| f.mean), ("p99", |f| f.p99)];
    if rows.iter().any(|row| row.method.name == "labor") {
        for (name, column) in columns {
            match ratio(rows, view, column) {
                Some((other, ratio)) => {
                    add(text, format_args!("\n{name} of labor / {other} (best other): {}", spread(Some(ratio))));
                }
                None => add(text, format_args!("\n{name}: no other method has as few errors")),
            }
        }
    }
    text.push('\n');
}

/// The competitor with the smallest median, and labor's figure over its, seed by seed; see [`MORE_ERRORS`].
fn ratio(rows: &[Row], view: View, column: Column) -> Option<(&'static str, Spread)> {
    let labor = rows.iter().find(|row| row.method.name == "labor")?;
    let values = |row: &Row, column: Column| row.runs.iter().map(|run| column(view(run))).collect::<Vec<_>>();
    let middle = |row: &Row, column| Spread::of(values(row, column)).map_or(f64::INFINITY, |spread| spread.median);
    let errors = |row| middle(row, Figures::error_share);
    let median = |row| middle(row, column);
    let others = rows.iter().filter(|row| !row.method.first_only && !row.method.name.starts_with("labor"));
    let others = others.filter(|row| errors(row) <= errors(labor) + MORE_ERRORS);
    let best = others.min_by(|a, b| median(a).total_cmp(&median(b)))?;
    let ratios = values(labor, column).into_iter().zip(values(best, column)).map(|(ours, theirs)| ours / theirs);
    Some((best.method.name, Spread::of(ratios)?))
}

/// As JSON, every run.
pub fn json(scenario: &Scenario, rows: &[Row]) -> Value {
    let runs = |row: &Row| -> Value {
        row.runs.iter().map(|run| json!({ "all": run.all.json(), "learned": run.learned.json() })).collect()
    };
    json!({ "scenario": scenario.name, "methods": rows.iter().map(|row| (row.method.name.to_owned(), runs(row)))
        .collect::<serde_json::Map<_, _>>() })
}

/// `12.3 (11.9–12.8)`: three significant digits are what such runs can tell.
fn spread(spread: Option<Spread>) -> String {
    let Some(Spread { median, least, most }) = spread else { return "-".to_owned() };
    let (median, least, most) = (digits(median), digits(least), digits(most));
    if least == most { median } else { format!("{median} ({least}–{most})") }
}

fn digits(value: f64) -> String {
    match value {
        ..1e-9 => "0".to_owned(),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn add(text: &mut String, line: std::fmt::Arguments) {
    writeln!(text, "{line}").expect("a String takes every write");
}

#[cfg(test)]
mod tests {
    use super::super::method::METHODS;
    use super::*;

    fn row(name: &str, means: &[f64]) -> Row {
        let figures = |mean| Figures { count: 10, errors: 1, mean, p50: 1.0, p99: mean, shares: [].into() };
        let run = |mean: &f64| Outcome { all: figures(*mean), learned: figures(*mean) };
        let method = *METHODS.iter().find(|method| method.name == name).unwrap();
        Row { method, runs: means.iter().map(run).collect() }
    }

    #[test]
    fn labor_is_compared_seed_by_seed_with_the_best_other_method() {
        let rows = [
            row("labor", &[1.0, 2.0, 3.0]),
            row("labor_header", &[0.1, 0.1, 0.1]),
            row("round_robin", &[9.0, 9.0, 9.0]),
            row("least_conn", &[2.0, 2.0, 4.0]),
            row("first_alone", &[0.1, 0.1, 0.1]),
        ];
        let (other, ratio) = ratio(&rows, |run| &run.all, |figures| figures.mean).unwrap();
        assert_eq!((other, ratio), ("least_conn", Spread { median: 0.75, least: 0.5, most: 1.0 }));
    }

    #[test]
    fn fast_errors_are_no_speed() {
        let mut failing = row("least_conn", &[0.1]);
        failing.runs.iter_mut().for_each(|run| run.all.errors = 5);
        let rows = [row("labor", &[1.0]), failing, row("round_robin", &[4.0])];
        let (other, ratio) = ratio(&rows, |run| &run.all, |figures| figures.mean).unwrap();
        assert_eq!((other, ratio.median), ("round_robin", 0.25));
    }

    #[test]
    fn a_cell_shows_the_spread_only_where_there_is_one() {
        assert_eq!(spread(Spread::of([1.234, 2.0, 300.0])), "2.00 (1.23–300)");
        assert_eq!(spread(Spread::of([12.34])), "12.3");
        assert_eq!(spread(Spread::of([0.0])), "0");
    }
}
