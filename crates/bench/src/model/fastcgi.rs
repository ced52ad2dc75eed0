//! FastCGI responder: one request at a time on a connection, kept alive when the client asks for it.
//!
//! Record types and layout are those of the FastCGI Specification 1.0, sections 3.3 and 5.

use anyhow::{Result, ensure};
use bytes::BytesMut;

use super::codec::{Answer, Codec, Request, common_headers, put, reason};

const VERSION: u8 = 1;
const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const HEADER: usize = 8;
const KEEP_CONN: u8 = 1;

/// The codec.
#[derive(Default)]
pub struct Fastcgi {
    id: u16,
    keepalive: bool,
}

impl Codec for Fastcgi {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Request>> {
        while input.len() >= HEADER {
            ensure!(input[0] == VERSION, "FastCGI version {}", input[0]);
            let length = usize::from(u16::from_be_bytes([input[4], input[5]]));
            let whole = HEADER + length + usize::from(input[6]);
            if input.len() < whole {
                return Ok(None);
            }
            let record = input.split_to(whole);
            match record[1] {
                BEGIN_REQUEST => {
                    ensure!(length >= 3, "a short BEGIN_REQUEST");
                    self.id = u16::from_be_bytes([record[2], record[3]]);
                    self.keepalive = record[HEADER + 2] & KEEP_CONN != 0;
                }
                STDIN if length == 0 => {
                    return Ok(Some(Request { keepalive: self.keepalive, ..Request::default() }));
                }
                ABORT_REQUEST => anyhow::bail!("the client aborted"),
                // Parameters and body do not matter to a model.
                _ => {}
            }
        }
        Ok(None)
    }

    fn head(&mut self, answer: &Answer, out: &mut Vec<u8>) {
        let mut head = Vec::new();
        put(&mut head, format_args!("Status: {} {}\r\n", answer.status, reason(answer.status)));
        common_headers(answer, &mut head);
        head.extend_from_slice(b"\r\n");
        self.record(STDOUT, &head, out);
    }

    fn body(&mut self, part: &[u8], out: &mut Vec<u8>) {
        for piece in part.chunks(usize::from(u16::MAX)) {
            self.record(STDOUT, piece, out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.record(STDOUT, b"", out);
        self.record(END_REQUEST, &[0; 8], out);
    }
}

impl Fastcgi {
    fn record(&self, kind: u8, content: &[u8], out: &mut Vec<u8>) {
        let length = u16::try_from(content.len()).expect("records are cut to 65535 bytes").to_be_bytes();
        let id = self.id.to_be_bytes();
        out.extend_from_slice(&[VERSION, kind, id[0], id[1], length[0], length[1], 0, 0]);
        out.extend_from_slice(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

    /// Reads the header block of STDOUT records again; the counterpart for tests.
    fn stdout_of(mut out: &[u8]) -> (Vec<u8>, bool) {
        let (mut text, mut ended) = (Vec::new(), false);
        while out.has_remaining() {
            let length = usize::from(u16::from_be_bytes([out[4], out[5]]));
            match out[1] {
                STDOUT => text.extend_from_slice(&out[HEADER..HEADER + length]),
                END_REQUEST => ended = true,
                other => panic!("record type {other}"),
            }
            out.advance(HEADER + length + usize::from(out[6]));
        }
        (text, ended)
    }

    #[test]
    fn a_request_ends_with_empty_stdin_and_the_answer_carries_its_id() {
        let begin = [1, BEGIN_REQUEST, 0, 9, 0, 8, 0, 0, 0, 1, KEEP_CONN, 0, 0, 0, 0, 0];
        let params = [1, 4, 0, 9, 0, 3, 1, 0, b'a', b'b', b'c', 0];
        let stdin = [1, STDIN, 0, 9, 0, 0, 0, 0];
        let mut codec = Fastcgi::default();
        let mut input = BytesMut::from([&begin[..], &params, &stdin[..4]].concat().as_slice());
        assert_eq!(codec.decode(&mut input).unwrap(), None);
        input.extend_from_slice(&stdin[4..]);
        assert_eq!(codec.decode(&mut input).unwrap(), Some(Request { keepalive: true, ..Request::default() }));
        let mut out = Vec::new();
        let answer = Answer { server: "A", in_flight: 1, status: 200, failing: false, length: 2, keepalive: true };
        codec.head(&answer, &mut out);
        codec.body(b"ok", &mut out);
        codec.end(&mut out);
        assert_eq!(out[3], 9);
        let (text, ended) = stdout_of(&out);
        assert!(ended && text.starts_with(b"Status: 200 OK\r\nX-Server: A\r\n") && text.ends_with(b"\r\n\r\nok"));
    }
}
