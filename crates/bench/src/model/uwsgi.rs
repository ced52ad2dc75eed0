//! uwsgi: a packet of variables, then a body; the answer is an HTTP message and the connection closes.

use anyhow::{Context, Result};
use bytes::{Buf, BytesMut};

use super::codec::{Answer, Codec, Request, common_headers, put, reason};
use super::http::skip;

/// Bytes before the variables: modifier1, length (little endian), modifier2.
const HEADER: usize = 4;

/// The codec.
#[derive(Default)]
pub struct Uwsgi {
    body: Option<u64>,
}

impl Codec for Uwsgi {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Request>> {
        if self.body.is_none() {
            if input.len() < HEADER {
                return Ok(None);
            }
            let length = usize::from(u16::from_le_bytes([input[1], input[2]]));
            if input.len() < HEADER + length {
                return Ok(None);
            }
            self.body = Some(content_length(&input.split_to(HEADER + length)[HEADER..])?);
        }
        let over = self.body.as_mut().is_some_and(|left| skip(left, input));
        Ok(over.then(|| {
            self.body = None;
            Request::default()
        }))
    }

    fn head(&mut self, answer: &Answer, out: &mut Vec<u8>) {
        put(out, format_args!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status)));
        common_headers(answer, out);
        out.extend_from_slice(b"\r\n");
    }
}

fn content_length(mut vars: &[u8]) -> Result<u64> {
    let mut length = 0;
    while !vars.is_empty() {
        let name = text(&mut vars)?;
        let value = text(&mut vars)?;
        if name == b"CONTENT_LENGTH" && !value.is_empty() {
            length = std::str::from_utf8(value)?.parse().context("CONTENT_LENGTH")?;
        }
    }
    Ok(length)
}

fn text<'a>(vars: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = vars.try_get_u16_le().context("a short variable")?;
    vars.split_off(..usize::from(length)).context("a short variable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_part_of_the_request() {
        let vars = b"\x0e\0CONTENT_LENGTH\x01\x002\x01\0A\0\0";
        let mut input = BytesMut::from(&[0, vars.len() as u8, 0, 0][..]);
        input.extend_from_slice(vars);
        input.extend_from_slice(b"x");
        let mut codec = Uwsgi::default();
        assert_eq!(codec.decode(&mut input).unwrap(), None);
        input.extend_from_slice(b"y");
        assert_eq!(codec.decode(&mut input).unwrap(), Some(Request::default()));
        assert!(input.is_empty());
    }

    #[test]
    fn a_short_variable_is_an_error() {
        assert!(Uwsgi::default().decode(&mut BytesMut::from(&b"\0\x03\0\0\x09\0A"[..])).is_err());
    }
}
