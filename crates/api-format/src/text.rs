//! Names of any bytes in places for text: log lines and the state file.

use core::fmt;

/// Bytes for a line of a log, in quotes: printable ASCII as it is, everything else as `\xNN`, so that no name can begin a new
/// line, end the quotes or colour a terminal. At most 255 bytes, then `…`.
pub struct Quoted<'a>(pub &'a [u8]);

/// Longest name written whole.
const MOST: usize = 255;

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.iter().take(MOST) {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(*byte))?,
                b' '..=b'~' => write!(f, "{}", char::from(*byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str(if self.0.len() > MOST { "…\"" } else { "\"" })
    }
}

/// Percent-encodes everything but letters, digits and what names of servers are made of.
pub fn encode(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' | b'/' | b'[' | b']' => {
                out.push(char::from(*byte));
            }
            _ => {
                out.push('%');
                for half in [byte >> 4, byte & 15] {
                    out.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
                }
            }
        }
    }
}

/// Decodes what [`encode`] wrote; `None` for a lone or wrong `%`.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut half = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (half()?, half()?);
        out.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hostile_name_stays_in_its_quotes() {
        let name = b"a\" b\\\n\r\x1b[31m</script>\xff\xe2\x80\xa8";
        assert_eq!(Quoted(name).to_string(), r#""a\" b\\\x0a\x0d\x1b[31m</script>\xff\xe2\x80\xa8""#);
        assert!(Quoted(&[b'x'; 300]).to_string().ends_with("x…\""));
    }

    proptest! {
        #[test]
        fn encoding_is_reversible_and_plain(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut text = String::new();
            encode(&bytes, &mut text);
            prop_assert!(text.bytes().all(|b| b.is_ascii_graphic() && b != b'='));
            prop_assert_eq!(decode(&text), Some(bytes));
        }

        #[test]
        fn decoding_anything_is_no_panic(text in ".*") {
            let _ = decode(&text);
        }
    }
}
