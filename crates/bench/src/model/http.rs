//! HTTP/1.0 and HTTP/1.1.
//!
//! Enough for proxies: keepalive, request bodies by length or in chunks (skipped), HEAD, and an upgrade to a tunnel that
//! echoes. An upgrade is answered without `Sec-WebSocket-Accept`: proxies do not look at it.

use anyhow::{Context, Result, bail};
use bytes::{Buf, BytesMut};

use super::codec::{Answer, Codec, Request, common_headers, put, reason};
use crate::chunked::Chunked;

/// Header lines of one request; above what nginx sends with every proxy header set.
const MAX_HEADERS: usize = 100;
/// Bytes of one request header; nginx's own large buffers are 4 × 8 KiB.
const MAX_HEAD: usize = 64 * 1024;

/// The codec.
#[derive(Default)]
pub struct Http {
    pending: Option<(Request, Body)>,
    upgrade: bool,
}

enum Body {
    Length(u64),
    Chunks(Chunked),
}

impl Codec for Http {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Request>> {
        if self.pending.is_none() {
            self.pending = head(input)?;
        }
        let over = match &mut self.pending {
            None => false,
            Some((_, Body::Length(left))) => skip(left, input),
            Some((_, Body::Chunks(chunked))) => chunked.skip(input)?,
        };
        if !over {
            return Ok(None);
        }
        let request = self.pending.take().map(|(request, _)| request);
        self.upgrade = request.is_some_and(|request| request.upgrade);
        Ok(request)
    }

    fn head(&mut self, answer: &Answer, out: &mut Vec<u8>) {
        if self.upgrade && answer.status == 101 {
            out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n");
        } else {
            put(out, format_args!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status)));
            let connection = if answer.keepalive { "keep-alive" } else { "close" };
            put(out, format_args!("Connection: {connection}\r\n"));
        }
        common_headers(answer, out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Drops up to `left` bytes of `input`; true when none is left.
pub fn skip(left: &mut u64, input: &mut BytesMut) -> bool {
    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    input.advance(step);
    *left -= step as u64;
    *left == 0
}

fn head(input: &mut BytesMut) -> Result<Option<(Request, Body)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(input)? else {
        if input.len() > MAX_HEAD {
            bail!("the request header is too large");
        }
        return Ok(None);
    };
    let head_only = parsed.method == Some("HEAD");
    let mut request = Request { keepalive: parsed.version == Some(1), upgrade: false, head_only };
    let mut body = Body::Length(0);
    for header in parsed.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default();
        if header.name.eq_ignore_ascii_case("connection") {
            for word in value.split(',').map(str::trim) {
                if word.eq_ignore_ascii_case("close") {
                    request.keepalive = false;
                } else if word.eq_ignore_ascii_case("keep-alive") {
                    request.keepalive = true;
                }
            }
        } else if header.name.eq_ignore_ascii_case("upgrade") {
            request.upgrade = value.eq_ignore_ascii_case("websocket");
        } else if header.name.eq_ignore_ascii_case("content-length") {
            body = Body::Length(value.parse().context("Content-Length")?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            body = Body::Chunks(Chunked::default());
        }
    }
    input.advance(length);
    Ok(Some((request, body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Option<Request> {
        let mut input = BytesMut::from(text);
        let request = Http::default().decode(&mut input).unwrap();
        assert!(request.is_none() || &input[..] == b"NEXT", "{input:?}");
        request
    }

    #[test]
    fn requests_end_where_their_body_ends() {
        let keep = Request { keepalive: true, ..Request::default() };
        assert_eq!(decode("GET / HTTP/1.1\r\nHost: a\r\n\r\nNEXT"), Some(keep));
        assert_eq!(decode("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcNEXT"), Some(keep));
        assert_eq!(decode("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab"), None);
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nNEXT";
        assert_eq!(decode(chunks), Some(keep));
    }

    #[test]
    fn the_version_and_connection_decide_on_keepalive() {
        assert!(!decode("GET / HTTP/1.0\r\n\r\nNEXT").unwrap().keepalive);
        assert!(decode("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nNEXT").unwrap().keepalive);
        assert!(!decode("GET / HTTP/1.1\r\nConnection: close\r\n\r\nNEXT").unwrap().keepalive);
        let upgrade = decode("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nNEXT").unwrap();
        assert!(upgrade.upgrade);
        assert!(decode("HEAD / HTTP/1.1\r\n\r\nNEXT").unwrap().head_only);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(Http::default().decode(&mut BytesMut::from("\0\0\0")).is_err());
        let mut input = BytesMut::from("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n");
        assert!(Http::default().decode(&mut input).is_err());
    }
}
