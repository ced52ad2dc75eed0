//! The chunked transfer coding (RFC 9112, section 7.1), byte by byte: what belongs to the body, and where it ends.
//!
//! Here because answers to probes end with the body, and a connection is only used again behind its last byte.

/// Where in the coding the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// In the size of a chunk; whether a digit has come.
    #[default]
    Size,
    /// In a chunk extension, up to the line feed.
    Extension,
    /// In the data of a chunk.
    Data,
    /// Behind the data: line end.
    DataEnd,
    /// In trailer fields: whether the line is empty so far.
    Trailer {
        empty: bool,
    },
    Done,
}

/// Most bytes of sizes, extensions and trailers: nobody needs more, and some send without end.
const OVERHEAD_MOST: usize = 8 << 10;
/// Most hexadecimal digits of a size: more chunk than any probe reads.
const DIGITS_MOST: u32 = 8;

/// A body being read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunks {
    at: At,
    left: u64,
    digits: u32,
    overhead: usize,
}

/// What is wrong with the coding.
#[derive(Debug)]
pub(crate) struct Malformed;

impl Chunks {
    /// Reads `bytes`, hands what belongs to the body to `data`. Says whether the body has ended, and then with how many bytes
    /// left over.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<Option<usize>, Malformed> {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            if self.at == At::Data {
                let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                let (part, after) = rest.split_at(taken);
                data(part);
                self.left -= taken as u64;
                if self.left == 0 {
                    self.at = At::DataEnd;
                }
                rest = after;
                continue;
            }
            rest = tail;
            self.overhead += 1;
            if self.overhead > OVERHEAD_MOST {
                return Err(Malformed);
            }
            self.step(byte)?;
            if self.at == At::Done {
                return Ok(Some(rest.len()));
            }
        }
        Ok(None)
    }

    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        match (self.at, byte) {
            (At::Size, digit) if digit.is_ascii_hexdigit() => {
                self.digits += 1;
                if self.digits > DIGITS_MOST {
                    return Err(Malformed);
                }
                let value = char::from(digit).to_digit(16).unwrap_or(0);
                self.left = self.left << 4 | u64::from(value);
            }
            (At::Size, b'\n') if self.digits > 0 => self.begin(),
            (At::Size, b'\r' | b' ' | b'\t' | b';') if self.digits > 0 => self.at = At::Extension,
            (At::Extension, b'\n') => self.begin(),
            (At::Extension, _) => {}
            (At::DataEnd, b'\r') => {}
            (At::DataEnd, b'\n') => (self.at, self.digits) = (At::Size, 0),
            (At::Trailer { empty: true }, b'\n') => self.at = At::Done,
            (At::Trailer { empty: false }, b'\n') => self.at = At::Trailer { empty: true },
            (At::Trailer { empty: true }, b'\r') => {}
            (At::Trailer { .. }, _) => self.at = At::Trailer { empty: false },
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.at = if self.left == 0 { At::Trailer { empty: true } } else { At::Data };
    }
}
