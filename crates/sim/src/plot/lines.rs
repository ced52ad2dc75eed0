//! One kind of picture for everything: lines over an axis, with fields or lines where something happens.

use super::canvas::{AXIS, FIELD, GRID, INK, PAPER, colour, themed};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use std::ops::Range;

/// Size of a picture.
const SIZE: (u32, u32) = (840, 380);

/// A line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What the legend calls it; nothing when it has no entry.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
    /// Number of its colour; its place among the lines when absent.
    pub colour: Option<usize>,
    /// Dashed.
    pub dashed: bool,
}

/// A time in which something happens.
#[derive(Clone, Debug)]
pub struct Mark {
    /// From …
    pub from: f64,
    /// … until; the same for a moment.
    pub until: f64,
    /// What happens.
    pub label: String,
}

/// Draws `all` lines; `logarithmic` says which axes are (x, y).
///
/// # Errors
/// When there is no point to draw, or the drawing library fails.
pub fn lines(
    title: &str,
    axes: (&str, &str),
    all: &[Line],
    marks: &[Mark],
    logarithmic: (bool, bool),
) -> Result<String, String> {
    let flat = |pick: fn(&(f64, f64)) -> f64| all.iter().flat_map(|l| &l.points).map(pick).filter(|v| v.is_finite());
    let span = |pick: fn(&(f64, f64)) -> f64| {
        flat(pick).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (x, y) = (span(|p| p.0), span(|p| p.1));
    if x.0 > x.1 || y.0 > y.1 {
        return Err(format!("{title}: nothing to draw"));
    }
    let (from, until) = (axis(x, logarithmic.0, false), axis(y, logarithmic.1, true));
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&PAPER).map_err(|e| e.to_string())?;
        let plot = Plot { title, axes, all, marks, logarithmic, ranges: (from, until) };
        plot.draw(&root).map_err(|e| format!("{title}: {e}"))?;
        root.present().map_err(|e| e.to_string())?;
    }
    Ok(themed(&svg))
}

/// The range of an axis in drawn units: logarithms are drawn as such, and labelled with what they stand for.
fn axis((low, high): (f64, f64), logarithmic: bool, roomy: bool) -> Range<f64> {
    if logarithmic {
        let (low, high) = (low.max(1e-6).log10(), high.max(1e-6).log10());
        let room = if roomy { (0.06 * (high - low)).max(0.05) } else { 0.0 };
        return low - room..(high + room).max(low + 0.1);
    }
    let low = if low >= 0.0 && low < 0.6 * high { 0.0 } else { low };
    let room = if roomy { 0.05 * (high - low).max(1e-9) } else { 0.0 };
    low - if low == 0.0 { 0.0 } else { room }..(high + room).max(low + 1e-6)
}

/// An axis with round numbers; whether they are logarithms.
#[derive(Clone)]
struct Scale(Range<f64>, bool);

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let along = (value - self.0.start) / (self.0.end - self.0.start);
        limit.0 + (along * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        ticks(&self.0, self.1)
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

struct Plot<'a> {
    title: &'a str,
    axes: (&'a str, &'a str),
    all: &'a [Line],
    marks: &'a [Mark],
    logarithmic: (bool, bool),
    ranges: (Range<f64>, Range<f64>),
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<Scale, Scale>>;

impl Plot<'_> {
    fn place(&self, point: &(f64, f64)) -> (f64, f64) {
        let log = |v: f64, yes: bool| if yes { v.max(1e-6).log10() } else { v };
        (log(point.0, self.logarithmic.0), log(point.1, self.logarithmic.1))
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), Box<dyn std::error::Error + '_>> {
        let (x, y) = self.ranges.clone();
        let named = self.all.iter().filter(|l| !l.name.is_empty()).count();
        let area = root.margin(8, 8, 8, if named > 0 { 175 } else { 16 });
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 17).into_font().color(&INK))
            .x_label_area_size(40)
            .y_label_area_size(62)
            .build_cartesian_2d(Scale(x, self.logarithmic.0), Scale(y, self.logarithmic.1))
            .map_err(|e| e.to_string())?;
        let label = |v: &f64, yes: bool| number(if yes { 10f64.powf(*v) } else { *v });
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(AXIS)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .axis_desc_style(("sans-serif", 14).into_font().color(&INK))
            .x_desc(self.axes.0)
            .y_desc(self.axes.1)
            .x_label_formatter(&|v| label(v, self.logarithmic.0))
            .y_label_formatter(&|v| label(v, self.logarithmic.1))
            .draw()
            .map_err(|e| e.to_string())?;
        self.draw_marks(&mut chart)?;
        self.draw_lines(&mut chart)?;
        self.draw_legend(root)
    }

    fn draw_marks(&self, chart: &mut Chart<'_, '_>) -> Result<(), Box<dyn std::error::Error>> {
        let (x, y) = self.ranges.clone();
        let text = ("sans-serif", 12).into_font().color(&INK);
        // A label needs about a twelfth of the width; the next one goes a line lower, and after three lines up again.
        let (mut last, mut row) = (f64::NEG_INFINITY, 0);
        for mark in self.marks {
            let (from, until) = (mark.from.max(x.start), mark.until.min(x.end));
            chart.draw_series([Rectangle::new([(from, y.start), (until, y.end)], FIELD.filled())])?;
            if mark.until <= mark.from {
                chart.draw_series([PathElement::new([(from, y.start), (from, y.end)], AXIS)])?;
            }
            row = if from - last < (x.end - x.start) / 10.0 { row + 1 } else { 0 };
            last = from;
            if row < 4 {
                let height = y.end - (y.end - y.start) * (0.01 + 0.05 * f64::from(row));
                chart.draw_series([Text::new(mark.label.clone(), (from, height), text.clone())])?;
            }
        }
        Ok(())
    }

    fn draw_lines(&self, chart: &mut Chart<'_, '_>) -> Result<(), Box<dyn std::error::Error>> {
        for (i, line) in self.all.iter().enumerate() {
            let style = colour(line.colour.unwrap_or(i)).stroke_width(2);
            let points = line.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()).map(|p| self.place(p));
            if line.dashed {
                chart.draw_series(DashedLineSeries::new(points, 6, 5, style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
            }
        }
        Ok(())
    }

    fn draw_legend(&self, root: &Area<'_>) -> Result<(), Box<dyn std::error::Error + '_>> {
        let text = ("sans-serif", 13).into_font().color(&INK);
        let left = SIZE.0 as i32 - 167;
        let named = self.all.iter().enumerate().filter(|(_, l)| !l.name.is_empty());
        for (row, (i, line)) in (0i32..).zip(named) {
            let y = 46 + 22 * row;
            let style = colour(line.colour.unwrap_or(i)).stroke_width(3);
            let dashes: &[i32] = if line.dashed { &[6, 6] } else { &[22] };
            for (k, &length) in (0..).zip(dashes) {
                let from = left + 12 * k;
                root.draw(&PathElement::new([(from, y), (from + length, y)], style)).map_err(|e| e.to_string())?;
            }
            root.draw(&Text::new(line.name.clone(), (left + 28, y - 7), text.clone())).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

/// Where an axis has numbers: 1, 2 and 5 times powers of ten.
fn ticks(range: &Range<f64>, logarithmic: bool) -> Vec<f64> {
    let inside = |v: &f64| range.start - 1e-9 <= *v && *v <= range.end + 1e-9;
    if logarithmic {
        let decades = (range.start.floor() as i32)..=(range.end.ceil() as i32);
        let all = |steps: &'static [f64]| {
            let of = move |d: i32| steps.iter().map(move |s| f64::from(d) + s.log10());
            decades.clone().flat_map(of).filter(inside).collect::<Vec<_>>()
        };
        let wide = range.end - range.start > 4.0;
        let few = all(if wide { &[1.0] } else { &[1.0, 2.0, 5.0] });
        return if few.len() >= 3 { few } else { all(&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]) };
    }
    let raw = (range.end - range.start) / 6.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|&s| s >= raw).unwrap_or(raw);
    let first = (range.start / step).ceil() as i64;
    (first..first + 12).map(|k| k as f64 * step).filter(inside).collect()
}

/// A number on an axis: as short as it can be told.
fn number(v: f64) -> String {
    match v.abs() {
        a if a >= 99.5 || a == 0.0 => format!("{v:.0}"),
        a if a >= 9.95 => format!("{v:.1}").trim_end_matches(".0").to_owned(),
        a if a >= 0.995 => format!("{v:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => format!("{v:.3}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(ticks(&(0.0..180.0), false), [0.0, 50.0, 100.0, 150.0]);
        let log: Vec<_> = ticks(&(0.9..2.1), true).iter().map(|v| 10f64.powf(*v).round()).collect();
        assert_eq!(log, [10.0, 20.0, 50.0, 100.0]);
        assert_eq!([0.05, 0.5, 1.0, 2.5, 20.0, 1000.0].map(number), ["0.05", "0.5", "1", "2.5", "20", "1000"]);
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(lines("x", ("a", "b"), &[Line::default()], &[], (false, true)).is_err());
    }
}
