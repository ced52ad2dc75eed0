//! Colours for both themes: the drawing uses fixed marks, and a style sheet in the file replaces them on dark pages.

use plotters::style::RGBColor;

/// Background, text, grid, axes and fields of events, as drawn and as they are on dark pages.
const THEME: [(RGBColor, &str); 5] =
    [(PAPER, "#0d1117"), (INK, "#e6edf3"), (GRID, "#2a313c"), (AXIS, "#8b949e"), (FIELD, "#5a3a00")];

/// Background.
pub(super) const PAPER: RGBColor = RGBColor(255, 255, 255);
/// Text.
pub(super) const INK: RGBColor = RGBColor(31, 35, 40);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(229, 231, 235);
/// Axes.
pub(super) const AXIS: RGBColor = RGBColor(87, 96, 106);
/// Fields of events.
pub(super) const FIELD: RGBColor = RGBColor(255, 232, 204);

/// Colours of lines, readable on both grounds, and told apart by people who see red and green alike (Okabe and Ito, with
/// the brightest darkened).
const LINES: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(140, 140, 140),
    RGBColor(190, 140, 0),
    RGBColor(86, 160, 213),
    RGBColor(150, 90, 200),
];

/// The colour of line `i`.
pub(super) fn colour(i: usize) -> RGBColor {
    LINES[i % LINES.len()]
}

fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// Adds the style sheet to a drawing.
pub(super) fn themed(svg: &str) -> String {
    let rules: String = THEME
        .iter()
        .map(|(light, dark)| {
            let light = hex(*light);
            format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
        })
        .collect();
    let style = format!("<style>@media (prefers-color-scheme: dark){{{rules}}}</style>");
    match svg.find('>') {
        Some(end) => format!("{}{style}{}", &svg[..=end], &svg[end + 1..]),
        None => svg.to_owned(),
    }
}
