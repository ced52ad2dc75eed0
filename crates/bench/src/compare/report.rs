//! The section of a scenario, as Markdown that also reads well in a terminal.
//!
//! A cell is the median over the seeds, with the smallest and the largest behind it where there are several.

use std::fmt::Write;

use super::figures::Figures;
use super::sheet::{APART, Column, Outcome, Row, Sheet};
use super::stats::{Ratio, Spread};

/// Tables and what is to be said to them. `images` are files of pictures that belong to it, relative to the document.
pub fn section(sheet: &Sheet, images: &[String]) -> String {
    let mut text = format!("## {}\n\n{}.\n\n", sheet.scenario, sheet.about.trim_end_matches('.'));
    let runs = sheet.rows.first().map_or(0, |row| row.runs.len());
    let Sheet { seconds, warmup, at_once, .. } = sheet;
    let (seconds, warmup, s) = (short(*seconds), short(*warmup), if runs == 1 { "" } else { "s" });
    add(
        &mut text,
        format_args!("{runs} run{s} of {seconds} s, of which the first {warmup} s do not count unless said;"),
    );
    add(&mut text, format_args!("{at_once} methods at a time, each before servers of its own."));
    for (at, server, what) in &sheet.events {
        add(&mut text, format_args!("At {} s: {server} {what}.", short(*at)));
    }
    text.push('\n');
    for image in images {
        add(&mut text, format_args!("![{}]({image})\n", sheet.scenario));
    }
    latencies(&mut text, sheet);
    shares(&mut text, sheet);
    if !sheet.notes.is_empty() {
        add(&mut text, format_args!("{}\n", sheet.notes));
    }
    let made = &sheet.made;
    add(
        &mut text,
        format_args!("{}, `{}` at {}; {}.", made.date, made.command, made.revision, made.versions.join(", ")),
    );
    add(
        &mut text,
        format_args!("{}; {:.0} % of it busy meanwhile, load {} before.", made.machine, made.busy * 100.0, made.load),
    );
    for (method, why) in &sheet.left_out {
        add(&mut text, format_args!("Left out: {method} ({why})."));
    }
    text
}

fn latencies(text: &mut String, sheet: &Sheet) {
    let best = sheet.best.iter().any(|best| !best);
    let head = if best { " to the best % |" } else { "" };
    add(
        text,
        format_args!(
            "| method | mean ms | p50 ms | p99 ms | p99.9 ms | errors % |{head} labor ÷ it: mean | p99 | simulated: mean | p99 |"
        ),
    );
    add(text, format_args!("|---|---|---|---|---|---|{}---|---|---|---|", if best { "---|" } else { "" }));
    for row in &sheet.rows {
        let (mean, p50, p99) = (cell(row, |f| f.mean), cell(row, |f| f.p50), cell(row, |f| f.p99));
        let p999 = if row.runs.iter().all(|run| run.learned.p999.is_some()) {
            cell(row, |f| f.p999.unwrap_or(f64::NAN))
        } else {
            "-".to_owned()
        };
        let errors = cell(row, |f| f.error_share() * 100.0);
        let _ = write!(text, "| {} | {mean} | {p50} | {p99} | {p999} | {errors} |", row.method);
        if best {
            let of = row.runs.iter().filter_map(|run| sheet.best_share(&run.learned)).map(|share| share * 100.0);
            let _ = write!(text, " {} |", spread(Spread::of(of)));
        }
        let own = row.method == "labor";
        let ours = |column| if own { "-".to_owned() } else { ratio(sheet.ratio(row, column)) };
        let _ = write!(text, " {} | {} |", ours(|f| f.mean), ours(|f| f.p99));
        let (mean, p99) = (row.off(|f| f.mean, |p| p.mean), row.off(|f| f.p99, |p| p.p99));
        let predicted = |value: Option<f64>, off| value.map_or("-".to_owned(), |value| simulated(value, off));
        let simulation = row.simulated.as_ref();
        let (mean, p99) = (predicted(simulation.map(|s| s.mean), mean), predicted(simulation.map(|s| s.p99), p99));
        add(text, format_args!(" {mean} | {p99} |"));
    }
    text.push('\n');
    verdict(text, sheet);
}

/// labor against the best other, in words.
fn verdict(text: &mut String, sheet: &Sheet) {
    if sheet.labor().is_none() {
        return;
    }
    let columns: [(&str, Column); 2] = [("mean", |f| f.mean), ("p99", |f| f.p99)];
    for (name, column) in columns {
        match sheet.best_other(column) {
            Some(other) => {
                let ratio = ratio(sheet.ratio(other, column));
                add(text, format_args!("labor over the best other, {name}: {ratio} of {}.\n", other.method));
            }
            None => add(text, format_args!("{name}: no other method has as few errors.\n")),
        }
    }
}

fn shares(text: &mut String, sheet: &Sheet) {
    let names = sheet.servers.join(" / ");
    let window = sheet.watch.as_ref();
    let head = window.map_or(String::new(), |(server, from, until)| {
        let span = format!("from {} to {} s", short(*from), short(*until));
        format!(" {span}: % to {server} | errors % | mean ms |")
    });
    add(text, format_args!("| method | % {names} | mean of all, first {} s included |{head}", short(sheet.warmup)));
    add(text, format_args!("|---|---|---|{}", if window.is_some() { "---|---|---|" } else { "" }));
    for row in &sheet.rows {
        let share = |server: usize| row.median_of(|run| Some(run.learned.shares[server] * 100.0));
        let shares: Vec<_> =
            (0..sheet.servers.len()).map(|server| share(server).map_or("-".to_owned(), tenths)).collect();
        let all = spread(Spread::of(row.runs.iter().map(|run| run.all.mean)));
        let _ = write!(text, "| {} | {} | {all} |", row.method, shares.join(" / "));
        if let Some((server, ..)) = window {
            let index = sheet.servers.iter().position(|name| name == server).unwrap_or(0);
            let of = |column: &dyn Fn(&Figures) -> f64| {
                spread(Spread::of(row.runs.iter().filter_map(|run| run.watched.as_ref()).map(column)))
            };
            let (share, errors) = (of(&|f| f.shares[index] * 100.0), of(&|f| f.error_share() * 100.0));
            let _ = write!(text, " {share} | {errors} | {} |", of(&|f| f.mean));
        }
        text.push('\n');
    }
    text.push('\n');
}

impl Row {
    fn median_of(&self, column: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        Spread::of(self.runs.iter().filter_map(column)).map(|spread| spread.median)
    }
}

fn cell(row: &Row, column: Column) -> String {
    spread(Spread::of(row.values(column)))
}

/// `0.71 [0.69, 0.73]`; the interval only where there is one.
pub fn ratio(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Ratio { value, low, high }) if high - low < 1e-9 => format!("{value:.2}"),
        Some(Ratio { value, low, high }) => format!("{value:.2} [{low:.2}, {high:.2}]"),
    }
}

/// What was predicted, and how much more reality is; in bold where that wants an explanation.
fn simulated(value: f64, off: Option<f64>) -> String {
    let Some(off) = off else { return short(value) };
    let bold = if off.ln().abs() > (1.0 + APART).ln() { "**" } else { "" };
    format!("{} ({bold}{:+.0} %{bold})", short(value), (off - 1.0) * 100.0)
}

/// `12.3 (11.9–12.8)`: three significant digits are what such runs can tell.
fn spread(spread: Option<Spread>) -> String {
    let Some(Spread { median, least, most }) = spread else { return "-".to_owned() };
    let (median, least, most) = (short(median), short(least), short(most));
    if least == most { median } else { format!("{median} ({least}–{most})") }
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// Three significant digits.
pub fn short(value: f64) -> String {
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
    use super::super::sheet::tests::sheet;
    use super::*;

    #[test]
    fn a_cell_shows_the_spread_only_where_there_is_one() {
        assert_eq!(spread(Spread::of([1.234, 2.0, 300.0])), "2.00 (1.23–300)");
        assert_eq!(spread(Spread::of([12.34])), "12.3");
        assert_eq!(spread(Spread::of([0.0])), "0");
    }

    #[test]
    fn a_prediction_that_does_not_hold_is_seen() {
        assert_eq!(simulated(10.0, Some(1.14)), "10.0 (+14 %)");
        assert_eq!(simulated(10.0, Some(1.16)), "10.0 (**+16 %**)");
        assert_eq!(simulated(10.0, Some(0.86)), "10.0 (**-14 %**)");
    }

    #[test]
    fn a_section_has_everything() {
        let mut sheet = sheet(&[("labor", &[1.0, 2.0, 4.0]), ("least_conn", &[2.0, 4.0, 8.0])]);
        sheet.watch = Some(("5ms".to_owned(), 5.0, 10.0));
        sheet.rows.iter_mut().for_each(|row| row.runs.iter_mut().for_each(|run| run.watched = Some(run.all.clone())));
        let text = section(&sheet, &["lan.svg".to_owned()]);
        for part in [
            "## lan",
            "![lan](lan.svg)",
            "| least_conn | 4.00 (2.00–8.00) | 2.00 (1.00–4.00) |",
            "| 75.0 | 0.50 | 0.50 | 2.00 (**+133 %**) | 4.00 (**+250 %**) |",
            "labor over the best other, mean: 0.50 of least_conn.",
            "| labor | 75.0 / 25.0 |",
            "Left out: caddy_least_conn (no --caddy is given).",
            "At 5.00 s: 5ms × 20.",
            "Because.",
        ] {
            assert!(text.contains(part), "no \"{part}\" in\n{text}");
        }
    }
}
