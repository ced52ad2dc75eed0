//! Lines and tables of styled text, fitted to a width. Knows nothing of what they say.

use crate::text::{cut, width};

/// How a piece of text looks where colours are on. The words say the same without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    #[default]
    Plain,
    /// A heading.
    Bold,
    /// Of less importance.
    Dim,
    /// Needs a look.
    Warn,
    /// Needs a hand.
    Bad,
    /// A bar in reverse.
    Bar,
}

impl Style {
    /// ECMA-48, 8.3.117 (SGR). Of the basic colours only, which every terminal theme makes readable.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Warn => "\x1b[33m",
            Self::Bad => "\x1b[1;31m",
            Self::Bar => "\x1b[7m",
        }
    }
}

/// A piece of text of one look; printable only.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// How it looks.
    pub style: Style,
}

impl Cell {
    /// Text with a look.
    pub fn new(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Style::Plain, text)
    }
}

/// A line: pieces that follow each other.
pub type Line = Vec<Cell>;

/// How lines are put on a screen or into a file.
#[derive(Clone, Copy)]
pub struct Paper {
    /// Columns, where there is a limit.
    pub width: Option<usize>,
    /// Whether looks are shown.
    pub color: bool,
}

impl Paper {
    /// A line as text, cut at the width.
    pub fn paint(self, line: &[Cell]) -> String {
        let mut room = self.width.unwrap_or(usize::MAX);
        let mut out = String::new();
        for cell in line {
            let text = if room == usize::MAX { cell.text.clone() } else { cut(&cell.text, room) };
            room = room.saturating_sub(width(&text));
            let code = if self.color { cell.style.code() } else { "" };
            if code.is_empty() || text.is_empty() {
                out += &text;
            } else {
                out += &format!("{code}{text}\x1b[0m");
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out
    }

    /// Lines as text, each with its end.
    pub fn page(self, lines: &[Line]) -> String {
        lines.iter().map(|line| self.paint(line) + "\n").collect()
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Whether figures stand in it, which end at the same place.
    pub right: bool,
    /// Where there is no room the column of the highest number goes first; 0 stays.
    pub rank: u8,
}

/// Between columns.
const GAP: usize = 2;
/// Before the first one.
const INDENT: usize = 2;
/// A first column is not cut below this: an IPv4 address with its port fits.
const SHORTEST: usize = 21;

/// A table with its head. Each row has a cell for each column.
pub fn table(columns: &[Column], rows: &[Vec<Cell>], room: Option<usize>) -> Vec<Line> {
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| {
            rows.iter().filter_map(|r| r.get(i)).map(|cell| width(&cell.text)).fold(width(c.title), usize::max)
        })
        .collect();
    let mut shown = vec![true; columns.len()];
    if let Some(room) = room {
        fit(columns, &mut widths, &mut shown, room);
    }
    let head: Vec<Cell> = columns.iter().map(|c| Cell::new(Style::Dim, c.title)).collect();
    std::iter::once(&head).chain(rows).map(|row| line(columns, &widths, &shown, row)).collect()
}

fn fit(columns: &[Column], widths: &mut [usize], shown: &mut [bool], room: usize) {
    let needed = |widths: &[usize], shown: &[bool]| {
        INDENT
            + widths.iter().zip(shown).filter(|(_, on)| **on).map(|(w, _)| w + GAP).sum::<usize>().saturating_sub(GAP)
    };
    // A long name may not cost the figures: it is cut before they go, and gets the room they leave.
    let whole = widths.first().copied().unwrap_or(0);
    if needed(widths, shown) > room
        && let Some(first) = widths.first_mut()
    {
        *first = whole.min(SHORTEST);
    }
    while needed(widths, shown) > room {
        let worst = (0..columns.len()).filter(|i| shown[*i] && columns[*i].rank > 0).max_by_key(|i| columns[*i].rank);
        match worst {
            Some(i) => shown[i] = false,
            None => break,
        }
    }
    let left = room.saturating_sub(needed(widths, shown));
    if let Some(first) = widths.first_mut() {
        *first = whole.min(*first + left);
    }
}

fn line(columns: &[Column], widths: &[usize], shown: &[bool], row: &[Cell]) -> Line {
    let mut line = Line::new();
    for (((column, room), cell), _) in columns.iter().zip(widths).zip(row).zip(shown).filter(|(_, on)| **on) {
        let text = cut(&cell.text, *room);
        let blanks = " ".repeat(room - width(&text));
        let (before, after) = if column.right { (blanks, String::new()) } else { (String::new(), blanks) };
        let gap = if line.is_empty() { INDENT } else { GAP };
        line.push(Cell::from(" ".repeat(gap) + &before));
        line.push(Cell::new(cell.style, text));
        line.push(after.into());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { title: "name", right: false, rank: 0 },
        Column { title: "state", right: false, rank: 0 },
        Column { title: "n", right: true, rank: 1 },
        Column { title: "more", right: false, rank: 2 },
    ];

    fn shown(room: Option<usize>) -> Vec<String> {
        let row = |cells: [&str; 4]| cells.map(Cell::from).to_vec();
        let rows = [row(["日本 the longest name of all", "up", "12345", "x"]), row(["b", "lowered", "7", "words"])];
        let paper = Paper { width: room, color: false };
        table(&COLUMNS, &rows, room).iter().map(|line| paper.paint(line)).collect()
    }

    #[test]
    fn columns_stand_under_each_other() {
        assert_eq!(
            shown(None),
            [
                "  name                          state        n  more",
                "  日本 the longest name of all  up       12345  x",
                "  b                             lowered      7  words",
            ]
        );
    }

    #[test]
    fn with_less_room_names_are_cut_and_columns_go_by_rank() {
        for room in 0..60 {
            for line in shown(Some(room)) {
                assert!(width(&line) <= room, "{room}: {line:?}");
            }
        }
        assert_eq!(shown(Some(50))[1], "  日本 the longest name of…  up       12345  x");
        assert_eq!(shown(Some(40))[1], "  日本 the longest name…  up       12345");
        assert_eq!(shown(Some(32))[1], "  日本 the longest nam…  up");
    }

    #[test]
    fn looks_are_codes_only_where_wanted() {
        let line = [Cell::new(Style::Bad, "down"), Cell::from(" x")];
        assert_eq!(Paper { width: None, color: false }.paint(&line), "down x");
        assert_eq!(Paper { width: Some(3), color: true }.paint(&line), "\x1b[1;31mdo…\x1b[0m");
    }
}
