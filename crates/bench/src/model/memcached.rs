//! memcached, text protocol, `get` of one key: the value is the server's name.
//!
//! There is no status: a failing answer is a `SERVER_ERROR` line.

use anyhow::{Context, Result, bail};
use bytes::BytesMut;

use super::codec::{Answer, Codec, Request, put};

/// A command line: keys have at most 250 bytes, nginx escapes them to at most three times that.
const MAX_LINE: usize = 1024;

/// The codec.
#[derive(Default)]
pub struct Memcached {
    key: String,
    failing: bool,
}

impl Codec for Memcached {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Request>> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            if input.len() > MAX_LINE {
                bail!("the command line is too long");
            }
            return Ok(None);
        };
        let line = input.split_to(end + 1);
        let line = std::str::from_utf8(&line)?.trim_end();
        self.key = line.strip_prefix("get ").with_context(|| format!("command \"{line}\""))?.to_owned();
        Ok(Some(Request { keepalive: true, ..Request::default() }))
    }

    fn head(&mut self, answer: &Answer, out: &mut Vec<u8>) {
        self.failing = answer.failing;
        if answer.failing {
            out.extend_from_slice(b"SERVER_ERROR failing as asked\r\n");
        } else {
            put(out, format_args!("VALUE {} 0 {}\r\n", self.key, answer.length));
        }
    }

    fn body(&mut self, part: &[u8], out: &mut Vec<u8>) {
        if !self.failing {
            out.extend_from_slice(part);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.failing {
            out.extend_from_slice(b"\r\nEND\r\n");
        }
    }

    fn fixed_body(&self, server: &str) -> Option<Vec<u8>> {
        Some(server.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_get_is_answered_with_the_name() {
        let mut codec = Memcached::default();
        assert_eq!(codec.decode(&mut BytesMut::from("get /a")).unwrap(), None);
        assert!(codec.decode(&mut BytesMut::from("get /a\r\n")).unwrap().unwrap().keepalive);
        let mut answer = Answer { server: "A", in_flight: 1, status: 200, failing: false, length: 1, keepalive: true };
        let mut out = Vec::new();
        codec.head(&answer, &mut out);
        codec.body(b"A", &mut out);
        codec.end(&mut out);
        assert_eq!(out, b"VALUE /a 0 1\r\nA\r\nEND\r\n");
        answer.failing = true;
        out.clear();
        codec.head(&answer, &mut out);
        codec.end(&mut out);
        assert!(out.starts_with(b"SERVER_ERROR") && !out.ends_with(b"END\r\n"));
        assert!(codec.decode(&mut BytesMut::from("set a\r\n")).is_err());
    }
}
