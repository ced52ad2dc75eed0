//! Text for a terminal: what comes from outside made harmless, widths, and figures in units that people read.

use unicode_width::UnicodeWidthChar;

/// `raw` without anything that could steer a terminal or deceive its reader: control and format characters (also those that turn
/// the direction of writing), separators, combining marks and what is not assigned appear as escapes, `\u{1b}`.
pub fn printable(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}

/// Columns of a terminal that `text` takes. Only for printable text.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The beginning of `text` in at most `columns`, with an ellipsis where something is missing.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > columns {
            break;
        }
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// A word of the status as a word for people: "half_open" becomes "half open".
pub fn word(name: &str) -> String {
    printable(name).replace('_', " ")
}

/// Microseconds in the unit that leaves three or four digits.
pub fn latency(us: f64) -> String {
    match us {
        us if !us.is_finite() || us < 0.0 => "-".into(),
        us if us < 999.5 => format!("{us:.0} µs"),
        us if us < 9_995.0 => format!("{:.2} ms", us / 1e3),
        us if us < 99_950.0 => format!("{:.1} ms", us / 1e3),
        us if us < 999_500.0 => format!("{:.0} ms", us / 1e3),
        us if us < 99_950_000.0 => format!("{:.2} s", us / 1e6),
        us => format!("{:.0} s", us / 1e6),
    }
}

/// How long ago, coarsely: "3 s", "5 min", "2 h", "4 d".
pub fn age(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() || s < 0.0 => "-".into(),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86400.0),
    }
}

/// A share from 0 to 1 in per cent.
pub fn share(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "-".into() }
}

/// A rate: one decimal where it matters.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if !r.is_finite() => "-".into(),
        r if r < 9.95 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    }
}

/// JSON with nothing but printable ASCII. Outside of its strings JSON is ASCII, and in them every character may stand as an escape.
pub fn ascii_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\x7f' {
            out.push(c);
        } else {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        let hostile =
            "a\u{1b}]0;x\u{7}\r\n\t\u{9b}2J\u{202e}b\u{200b}\u{2028}\u{301}\u{7f}\u{0}\u{ad}\u{feff}\\ \"q' é 日";
        let shown = printable(hostile);
        assert!(
            shown.chars().all(|c| c == ' ' || c.is_alphanumeric() || (c.is_ascii_punctuation())),
            "not harmless: {shown:?}"
        );
        assert!(shown.starts_with(r"a\u{1b}]0;x\u{7}\r\n\t\u{9b}2J\u{202e}b\u{200b}\u{2028}"), "{shown}");
        assert!(shown.ends_with("\\ \"q' é 日"), "{shown}");
    }

    #[test]
    fn text_is_cut_by_columns_and_not_by_bytes() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 2), "a…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn figures_keep_three_digits() {
        let shown = [0.0, 999.4, 999.6, 1234.0, 12_345.0, 123_456.0, 1_234_567.0, 123_456_789.0].map(latency);
        assert_eq!(shown, ["0 µs", "999 µs", "1.00 ms", "1.23 ms", "12.3 ms", "123 ms", "1.23 s", "123 s"]);
        assert_eq!(latency(f64::NAN), "-");
        assert_eq!([3.2, 150.0, 9000.0, 400_000.0].map(age), ["3 s", "2 min", "2 h", "5 d"]);
        assert_eq!((share(0.4567), rate(0.25), rate(120.4)), ("45.7 %".into(), "0.2".into(), "120".into()));
    }

    #[test]
    fn json_stays_the_same_json() {
        let json = "{\"a\":\"\u{9b}2J é 😀\u{7f}\\u001b\"}";
        let ascii = ascii_json(json);
        assert!(ascii.bytes().all(|b| (0x20..0x7f).contains(&b)), "{ascii}");
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&ascii), parse(json));
    }
}
