//! Pictures of results, as SVG that reads on light and on dark pages. What they show is the report's; only drawing here.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::combinators::BindKeyPoints;
use plotters::prelude::*;

use super::figures::{Figures, Point};
use super::sheet::{Column, Prediction, Row, Sheet};
use super::stats::{Ratio, Spread};

type Predicted = fn(&Prediction) -> f64;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Stand for the colours of text and of lines in the background until [`themed`] replaces them.
const INK: RGBColor = RGBColor(1, 1, 1);
const FAINT: RGBColor = RGBColor(2, 2, 2);
/// Of equal lightness, apart for the colour-blind (Okabe and Ito 2008), and visible on white and on black.
const OURS: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const COLOURS: [RGBColor; 4] =
    [OURS, RGBColor(0x00, 0x86, 0xc4), RGBColor(0x00, 0x9e, 0x73), RGBColor(0xc0, 0x6f, 0xa0)];
const THEME: &str = "<style>[fill=\"#010101\"]{fill:#1f2328}[stroke=\"#010101\"]{stroke:#1f2328}\
    [fill=\"#020202\"]{fill:#818b98}[stroke=\"#020202\"]{stroke:#818b98}\
    @media (prefers-color-scheme:dark){[fill=\"#010101\"]{fill:#e6edf3}[stroke=\"#010101\"]{stroke:#e6edf3}\
    [fill=\"#020202\"]{fill:#7d8590}[stroke=\"#020202\"]{stroke:#7d8590}}</style>";

const WIDTH: u32 = 900;
/// Height of a row of a table-like picture.
const LINE: u32 = 22;
/// What stands above and below the rows.
const AROUND: u32 = 92;
const FONT: &str = "sans-serif";

fn text(size: u32, colour: &RGBColor) -> TextStyle<'static> {
    (FONT, size).into_font().color(colour)
}

/// Draws with `draw` on a picture of this height.
fn picture(height: u32, draw: impl Fn(&Area) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(themed(&svg))
}

fn themed(svg: &str) -> String {
    match svg.find('>') {
        Some(end) => format!("{}{THEME}{}", &svg[..=end], &svg[end + 1..]),
        None => svg.to_owned(),
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

/// Mean and 99th percentile of each method, with their spread and what the simulator says.
pub fn latencies(sheet: &Sheet) -> Result<String> {
    let rows: Vec<&Row> = sheet.rows.iter().filter(|row| !row.runs.is_empty()).collect();
    let (low, high) = bounds(rows.iter().flat_map(|row| [row.values(|f| f.mean), row.values(|f| f.p99)]).flatten());
    let count = rows.len();
    picture(AROUND + LINE * count as u32, |area| {
        let title = format!("{}: ● mean and ■ 99th percentile of good answers, ms; ✕ simulated", sheet.scenario);
        area.draw(&Text::new(title, (16, 10), text(16, &INK))).map_err(failed)?;
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_top(34)
            .margin_right(24)
            .x_label_area_size(34)
            .y_label_area_size(230)
            .build_cartesian_2d((low..high).log_scale().with_key_points(ticks(low, high)), 0.0..count as f64)
            .map_err(failed)?;
        let mesh = &mut chart.configure_mesh();
        mesh.disable_y_mesh().disable_y_axis().y_labels(0).x_labels(8).axis_style(FAINT).light_line_style(TRANSPARENT);
        mesh.bold_line_style(FAINT.mix(0.3)).x_label_style(text(13, &INK)).x_label_formatter(&|x| label(*x));
        mesh.draw().map_err(failed)?;
        for (index, row) in rows.iter().enumerate() {
            let y = count as f64 - index as f64 - 0.5;
            let colour = if row.method == "labor" { OURS } else { COLOURS[1] };
            let position = chart.backend_coord(&(low, y));
            let ink = text(13, if row.alone { &FAINT } else { &INK });
            area.draw(&Text::new(name(row), (16, position.1 - 7), ink)).map_err(failed)?;
            let shapes: [(Column, Predicted, bool); 2] =
                [(|f| f.mean, |p| p.mean, true), (|f| f.p99, |p| p.p99, false)];
            for (column, predicted, round) in shapes {
                let Some(spread) = Spread::of(row.values(column)) else { continue };
                let bar = PathElement::new([(spread.least, y), (spread.most, y)], colour.stroke_width(2));
                chart.plotting_area().draw(&bar).map_err(failed)?;
                let at = (spread.median, y);
                if round {
                    chart.plotting_area().draw(&Circle::new(at, 5, colour.filled())).map_err(failed)?;
                } else {
                    let square = EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], colour.filled());
                    chart.plotting_area().draw(&square).map_err(failed)?;
                }
                if let Some(value) = row.simulated.as_ref().map(predicted) {
                    let value = value.clamp(low, high);
                    chart.plotting_area().draw(&Cross::new((value, y), 5, INK.stroke_width(1))).map_err(failed)?;
                }
            }
        }
        Ok(())
    })
}

/// The name of a method, with its errors where they are a reason for its latencies: who fails at once has time.
fn name(row: &Row) -> String {
    let errors = row.median(Figures::error_share) * 100.0;
    if errors < 0.5 { row.method.clone() } else { format!("{} ({errors:.0} % errors)", row.method) }
}

/// Mean latency over time and the share of the server that changes first: labor, the best others, and what everybody knows.
pub fn over_time(sheet: &Sheet) -> Result<String> {
    let rows = shown(sheet);
    picture(520, |area| {
        legend(area, sheet, &rows)?;
        let (upper, lower) = area.margin(44, 0, 0, 0).split_vertically(286);
        means(&upper, sheet, &rows)?;
        shares(&lower, sheet, &rows)
    })
}

/// The points of a row that have a value, at the middle of their time.
fn points(sheet: &Sheet, row: &Row, value: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let step = sheet.seconds / super::figures::POINTS as f64;
    let points = row.timeline.iter().enumerate().map(|(index, point)| ((index as f64 + 0.5) * step, value(point)));
    points.filter(|point| point.1.is_finite()).collect()
}

fn means(area: &Area, sheet: &Sheet, rows: &[&Row]) -> Result<()> {
    let lines: Vec<_> = rows.iter().map(|row| points(sheet, row, |point| point.sum / point.good as f64)).collect();
    let (low, high) = bounds(lines.iter().flatten().map(|point| point.1));
    let y = (low..high).log_scale().with_key_points(ticks(low, high));
    let mut chart = panel(area).build_cartesian_2d(0.0..sheet.seconds, y).map_err(failed)?;
    let mesh = &mut chart.configure_mesh();
    mesh.axis_style(FAINT).light_line_style(TRANSPARENT).bold_line_style(FAINT.mix(0.3)).label_style(text(13, &INK));
    mesh.x_label_formatter(&|x| label(*x)).y_label_formatter(&|y| label(*y));
    mesh.y_desc("mean, ms").draw().map_err(failed)?;
    for (line, colour) in lines.into_iter().zip(COLOURS) {
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2))).map_err(failed)?;
    }
    let top = area.get_pixel_range().1.start;
    for (index, (at, server, what)) in sheet.events.iter().enumerate() {
        let line = PathElement::new([(*at, low), (*at, high)], FAINT.stroke_width(1));
        chart.plotting_area().draw(&line).map_err(failed)?;
        let (x, y) = chart.backend_coord(&(*at, high));
        // In two rows: events may follow each other closely.
        let y = y - top + 2 + 14 * i32::try_from(index % 2)?;
        area.draw(&Text::new(format!("{server} {what}"), (x + 4, y), text(12, &INK))).map_err(failed)?;
    }
    Ok(())
}

fn shares(area: &Area, sheet: &Sheet, rows: &[&Row]) -> Result<()> {
    let changing = sheet.events.first().map_or("", |event| event.1.as_str());
    let lines: Vec<_> =
        rows.iter().map(|row| points(sheet, row, |point| 100.0 * point.there as f64 / point.count as f64)).collect();
    let most = lines.iter().flatten().map(|point| point.1).fold(5.0, f64::max);
    let mut chart = panel(area).build_cartesian_2d(0.0..sheet.seconds, 0.0..most).map_err(failed)?;
    let mesh = &mut chart.configure_mesh();
    mesh.axis_style(FAINT).light_line_style(TRANSPARENT).bold_line_style(FAINT.mix(0.3)).label_style(text(13, &INK));
    mesh.x_label_formatter(&|x| label(*x)).y_label_formatter(&|y| label(*y)).y_labels(5);
    mesh.y_desc(format!("to {changing}, %")).x_desc("seconds").draw().map_err(failed)?;
    for (line, colour) in lines.into_iter().zip(COLOURS) {
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2))).map_err(failed)?;
    }
    Ok(())
}

/// A little more than the range of values, for a logarithmic axis.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    (low * 0.8, high * 1.25)
}

/// labor, the best other by mean, least_conn and round robin, as far as they ran.
fn shown(sheet: &Sheet) -> Vec<&Row> {
    let mut rows: Vec<&Row> = sheet.labor().into_iter().chain(sheet.best_other(|f| f.mean)).collect();
    for name in ["least_conn", "least_time_last_byte", "round_robin"] {
        let row = sheet.rows.iter().find(|row| row.method == name);
        rows.extend(row.filter(|row| rows.iter().all(|shown| shown.method != row.method)));
    }
    rows.truncate(COLOURS.len());
    rows
}

fn legend(area: &Area, sheet: &Sheet, rows: &[&Row]) -> Result<()> {
    area.draw(&Text::new(sheet.scenario.clone(), (16, 10), text(16, &INK))).map_err(failed)?;
    for (index, (row, colour)) in rows.iter().zip(COLOURS).enumerate() {
        let x = 150 + 185 * i32::try_from(index)?;
        area.draw(&PathElement::new([(x, 19), (x + 22, 19)], colour.stroke_width(3))).map_err(failed)?;
        area.draw(&Text::new(row.method.clone(), (x + 28, 12), text(13, &INK))).map_err(failed)?;
    }
    Ok(())
}

fn panel<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart.margin(8).margin_right(24).x_label_area_size(38).y_label_area_size(58);
    chart
}

/// labor over the best other method in every scenario, mean and 99th percentile, with 95 % intervals.
pub fn summary(sheets: &[Sheet]) -> Result<String> {
    let columns: [Column; 2] = [|f: &Figures| f.mean, |f: &Figures| f.p99];
    let rows: Vec<(&str, [Option<Ratio>; 2])> = sheets
        .iter()
        .map(|s| (s.scenario.as_str(), columns.map(|c| s.best_other(c).and_then(|other| s.ratio(other, c)))))
        .collect();
    let highs = rows.iter().flat_map(|row| row.1.iter().flatten()).map(|ratio| ratio.high);
    let most = highs.fold(1.2_f64, f64::max) * 1.05;
    let count = rows.len();
    picture(AROUND + LINE * count as u32, |area| {
        let title = "labor over the best other method: ● mean, ■ 99th percentile; left of 1 labor is faster";
        area.draw(&Text::new(title, (16, 10), text(16, &INK))).map_err(failed)?;
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_top(34)
            .margin_right(24)
            .x_label_area_size(34)
            .y_label_area_size(130)
            .build_cartesian_2d(0.0..most, 0.0..count as f64)
            .map_err(failed)?;
        let mesh = &mut chart.configure_mesh();
        mesh.disable_y_mesh().disable_y_axis().y_labels(0).x_labels(8).axis_style(FAINT).light_line_style(TRANSPARENT);
        mesh.bold_line_style(FAINT.mix(0.3)).x_label_style(text(13, &INK)).draw().map_err(failed)?;
        let one = PathElement::new([(1.0, 0.0), (1.0, count as f64)], INK.stroke_width(1));
        chart.plotting_area().draw(&one).map_err(failed)?;
        for (index, (name, ratios)) in rows.iter().enumerate() {
            let middle = count as f64 - index as f64 - 0.5;
            let position = chart.backend_coord(&(0.0, middle));
            area.draw(&Text::new((*name).to_owned(), (16, position.1 - 7), text(13, &INK))).map_err(failed)?;
            for (which, ratio) in ratios.iter().enumerate() {
                let Some(ratio) = ratio else { continue };
                let (y, colour) = (middle + 0.18 - 0.36 * which as f64, COLOURS[which]);
                let bar = PathElement::new([(ratio.low, y), (ratio.high, y)], colour.stroke_width(2));
                chart.plotting_area().draw(&bar).map_err(failed)?;
                let at = (ratio.value, y);
                if which == 0 {
                    chart.plotting_area().draw(&Circle::new(at, 4, colour.filled())).map_err(failed)?;
                } else {
                    let square = EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], colour.filled());
                    chart.plotting_area().draw(&square).map_err(failed)?;
                }
            }
        }
        Ok(())
    })
}

/// 1, 2 and 5 times each power of ten within bounds.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10.0_f64.powi(power)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

/// A number of an axis.
fn label(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{}", (value * 100.0).round() / 100.0) }
}
