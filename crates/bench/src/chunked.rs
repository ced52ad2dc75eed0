//! Skips the body of an HTTP/1.1 message in chunked coding.
//!
//! The servers skip request bodies and the load generator answers; neither looks into them.

use anyhow::{Context, Result, bail};
use bytes::{Buf, BytesMut};

/// The longest line of a chunk size or trailer; nginx's own are far shorter.
const MAX_LINE: usize = 8192;

/// Where in the coding the next byte stands.
#[derive(Default)]
pub enum Chunked {
    /// Before a size line.
    #[default]
    Size,
    /// Within a chunk: so many bytes are left, its line end included.
    Data(u64),
    /// In the lines after the last chunk.
    Trailer,
}

impl Chunked {
    /// Drops what `input` holds of the body; true when the body is over, what follows stays in `input`.
    pub fn skip(&mut self, input: &mut BytesMut) -> Result<bool> {
        loop {
            match self {
                Self::Data(0) => *self = Self::Size,
                Self::Data(left) => {
                    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                    if step == 0 {
                        return Ok(false);
                    }
                    input.advance(step);
                    *left -= step as u64;
                }
                Self::Size => {
                    let Some(line) = line(input)? else { return Ok(false) };
                    let digits = line[..].split(|byte| matches!(byte, b';' | b' ')).next().unwrap_or_default();
                    let text = std::str::from_utf8(digits).context("chunk size")?;
                    let size = u64::from_str_radix(text, 16).context("chunk size")?;
                    *self = match size {
                        0 => Self::Trailer,
                        _ => Self::Data(size.checked_add(2).context("chunk size")?),
                    };
                }
                Self::Trailer => match line(input)? {
                    None => return Ok(false),
                    Some(line) if line.is_empty() => {
                        *self = Self::Size;
                        return Ok(true);
                    }
                    Some(_) => {}
                },
            }
        }
    }
}

/// Takes one line off the front, without its end.
fn line(input: &mut BytesMut) -> Result<Option<BytesMut>> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        if input.len() > MAX_LINE {
            bail!("a line of chunked coding is too long");
        }
        return Ok(None);
    };
    let mut line = input.split_to(end + 1);
    line.truncate(end);
    if line.ends_with(b"\r") {
        line.truncate(end - 1);
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_ends_at_the_same_byte_however_it_is_cut() {
        let whole = b"5;ext=1\r\nhello\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nNEXT";
        for cut in 0..whole.len() {
            let mut chunked = Chunked::default();
            let mut input = BytesMut::from(&whole[..cut]);
            let early = chunked.skip(&mut input).unwrap();
            input.extend_from_slice(&whole[cut..]);
            assert!(early || chunked.skip(&mut input).unwrap(), "cut at {cut}");
            assert_eq!(&input[..], b"NEXT", "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for wrong in [&b"xyz\r\n"[..], b"\r\n", b"ffffffffffffffff\r\n", &[b'1'; 9000]] {
            assert!(Chunked::default().skip(&mut BytesMut::from(wrong)).is_err());
        }
    }
}
