//! SCGI: a netstring of headers, then a body; the answer is CGI output and the connection closes.

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;

use super::codec::{Answer, Codec, Request, common_headers, put, reason};
use super::http::skip;

/// Digits of the netstring's length; more than a header of 64 KiB needs.
const MAX_DIGITS: usize = 6;

/// The codec.
#[derive(Default)]
pub struct Scgi {
    body: Option<u64>,
}

impl Codec for Scgi {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Request>> {
        if self.body.is_none() {
            self.body = head(input)?;
        }
        let over = self.body.as_mut().is_some_and(|left| skip(left, input));
        Ok(over.then(|| {
            self.body = None;
            Request::default()
        }))
    }

    fn head(&mut self, answer: &Answer, out: &mut Vec<u8>) {
        put(out, format_args!("Status: {} {}\r\n", answer.status, reason(answer.status)));
        common_headers(answer, out);
        out.extend_from_slice(b"\r\n");
    }
}

/// The length of the body, once the headers are there.
fn head(input: &mut BytesMut) -> Result<Option<u64>> {
    let Some(colon) = input.iter().position(|byte| *byte == b':') else {
        ensure!(input.len() <= MAX_DIGITS, "not a netstring");
        return Ok(None);
    };
    ensure!(colon <= MAX_DIGITS, "the netstring is too long");
    let length: usize = std::str::from_utf8(&input[..colon])?.parse().context("netstring length")?;
    let end = colon + 1 + length;
    if input.len() <= end {
        return Ok(None);
    }
    ensure!(input[end] == b',', "the netstring does not end with a comma");
    let head = input.split_to(end + 1);
    let mut words = head[colon + 1..end].split(|byte| *byte == 0);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        if name == b"CONTENT_LENGTH" {
            return Ok(Some(std::str::from_utf8(value)?.parse().context("CONTENT_LENGTH")?));
        }
    }
    Ok(Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_part_of_the_request() {
        let mut codec = Scgi::default();
        let mut input = BytesMut::from(&b"24:CONTENT_LENGTH\x003\0SCGI\x001\0,ab"[..]);
        assert_eq!(codec.decode(&mut input).unwrap(), None);
        input.extend_from_slice(b"c");
        assert_eq!(codec.decode(&mut input).unwrap(), Some(Request::default()));
        assert!(input.is_empty());
    }

    #[test]
    fn nonsense_is_an_error() {
        for wrong in [&b"GET / HTTP/1.1\r\n"[..], b"3:abcd", b"x:", b"9999999:"] {
            assert!(Scgi::default().decode(&mut BytesMut::from(wrong)).is_err(), "{wrong:?}");
        }
    }
}
