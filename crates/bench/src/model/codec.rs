//! What a protocol must be able to do, without sockets or time.
//!
//! A codec takes whole requests off a buffer and writes answers into one; connection.rs does everything between. One
//! request at a time: a codec keeps what it needs for the answer of the last request.

use std::io::Write;

use anyhow::Result;
use bytes::BytesMut;

/// A whole request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The connection may carry another one.
    pub keepalive: bool,
    /// The client asks for a tunnel.
    pub upgrade: bool,
    /// The answer has no body whatever its length says (HEAD).
    pub head_only: bool,
}

/// What goes into an answer's header.
pub struct Answer<'a> {
    /// `X-Server`.
    pub server: &'a str,
    /// `X-Inflight`.
    pub in_flight: usize,
    /// The status of the protocol.
    pub status: u16,
    /// `fail` struck: protocols without a status say so in their own way.
    pub failing: bool,
    /// Bytes of body to come.
    pub length: usize,
    /// Whether the connection is said to stay open.
    pub keepalive: bool,
}

/// One protocol on one connection.
pub trait Codec {
    /// Takes one whole request off `input`; `None` asks for more bytes.
    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Request>>;
    /// Writes the header of the answer.
    fn head(&mut self, answer: &Answer, out: &mut Vec<u8>);
    /// Writes a part of the body.
    fn body(&mut self, part: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(part);
    }
    /// Writes what follows the body.
    fn end(&mut self, _out: &mut Vec<u8>) {}
    /// The body that the protocol prescribes; `None` is one of `body=` bytes.
    fn fixed_body(&self, _server: &str) -> Option<Vec<u8>> {
        None
    }
}

/// Appends formatted text.
pub fn put(out: &mut Vec<u8>, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a Vec takes every write");
}

/// The header lines that every HTTP-like answer carries, without the empty line.
pub fn common_headers(answer: &Answer, out: &mut Vec<u8>) {
    put(out, format_args!("X-Server: {}\r\nX-Inflight: {}\r\n", answer.server, answer.in_flight));
    if has_body(answer.status) {
        put(out, format_args!("Content-Type: text/plain\r\nContent-Length: {}\r\n", answer.length));
    }
}

/// Whether an answer of this status may have a body.
pub fn has_body(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// The reason phrase; nginx passes it on, so the usual ones are right.
pub fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}
