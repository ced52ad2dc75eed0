//! HTTP/1.1: the request of a probe, and its answer judged as it comes.
//!
//! An answer is complete with its last byte: a server that breaks off or hangs in the body is not well, whatever its status was.

use memchr::memmem;

use crate::chunked::Chunks;
use crate::{BODY_MOST, End, FIELDS_MOST, HEADER_MOST, Verdict};

/// What an answer is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Good statuses, as ranges with both ends.
    pub statuses: Vec<(u16, u16)>,
    /// Text that the body must contain.
    pub body: Option<Vec<u8>>,
    /// The request was HEAD: no body comes.
    pub head: bool,
}

impl Expected {
    fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|(from, to)| (*from..=*to).contains(&status))
    }
}

/// The request: `method`, `uri` and `host` as they are, which must hold no blank and no control character.
pub fn request(method: &[u8], uri: &[u8], host: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(128);
    for part in [method, b" ", uri, b" HTTP/1.1\r\nHost: ", host, b"\r\nUser-Agent: labor_check\r\nAccept: */*\r\n"] {
        text.extend_from_slice(part);
    }
    if !matches!(method, b"GET" | b"HEAD" | b"OPTIONS") {
        text.extend_from_slice(b"Content-Length: 0\r\n");
    }
    text.extend_from_slice(b"Connection: keep-alive\r\n\r\n");
    text
}

/// How the body ends.
#[derive(Clone, Copy, Debug)]
enum Framing {
    /// After so many more bytes.
    Length(u64),
    Chunked(Chunks),
    /// With the connection.
    Close,
}

/// An answer being read.
#[derive(Debug, Default)]
pub struct Answer {
    /// Header bytes until the header is complete.
    header: Vec<u8>,
    /// Bytes of headers so far, interim ones included.
    headers: usize,
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    status: u16,
    keep: bool,
    framing: Framing,
    length: usize,
    found: bool,
    /// What has been searched already, as far as a text may begin there.
    text: Vec<u8>,
}

impl Answer {
    /// Whether anything has come: until then a connection that was kept may simply have been too old.
    pub fn has_begun(&self) -> bool {
        self.headers > 0
    }

    /// Takes the next bytes; the answer's end once it is known.
    pub fn feed(&mut self, bytes: &[u8], expected: &Expected) -> Option<End> {
        let mut bytes = bytes;
        let mut rest;
        while self.body.is_none() {
            if bytes.is_empty() {
                return None;
            }
            let room = HEADER_MOST.saturating_sub(self.headers);
            let taken = room.min(bytes.len());
            let old = self.header.len();
            self.header.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            self.headers += taken;
            match self.parse(expected) {
                Ok(Some(used)) => {
                    // What lies behind this header, in what has just come.
                    let behind = used.saturating_sub(old);
                    self.headers -= taken.saturating_sub(behind);
                    rest = bytes.get(behind..).unwrap_or_default();
                    self.header.clear();
                    bytes = rest;
                }
                Ok(None) if self.headers >= HEADER_MOST => return Some(End::new(Verdict::Invalid, 0)),
                Ok(None) => return None,
                Err(status) => return Some(End::new(Verdict::Invalid, status)),
            }
        }
        self.body.as_mut()?.feed(bytes, expected)
    }

    /// The server has closed the connection.
    pub fn closed(&mut self, expected: &Expected) -> End {
        match &self.body {
            Some(body) if matches!(body.framing, Framing::Close) => body.end(expected, false),
            Some(body) => End::new(Verdict::Short, body.status),
            None => End::new(Verdict::Short, 0),
        }
    }

    /// Reads the header, if it is complete: its length. Interim answers are passed over. `Err` with the status as far as it
    /// is known.
    fn parse(&mut self, expected: &Expected) -> Result<Option<usize>, u16> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MOST];
        let mut response = httparse::Response::new(&mut fields);
        let used = match response.parse(&self.header) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(response.code.unwrap_or(0)),
        };
        let status = response.code.unwrap_or(0);
        // 101 is an answer: nobody asked for another protocol.
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(used));
        }
        let framing = framing(response.headers, status, expected.head).ok_or(status)?;
        let named = |name: &str, word: &str| {
            let values = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            values.flat_map(|field| field.value.split(|byte| *byte == b',')).any(|value| is_word(value, word))
        };
        let keep = match response.version {
            Some(1) => !named("connection", "close"),
            _ => named("connection", "keep-alive"),
        };
        self.body = Some(Body { status, keep, framing, length: 0, found: expected.body.is_none(), text: Vec::new() });
        Ok(Some(used))
    }
}

fn is_word(value: &[u8], word: &str) -> bool {
    value.trim_ascii().eq_ignore_ascii_case(word.as_bytes())
}

/// How the body of an answer with these fields ends (RFC 9112, section 6.3); `None` when they contradict each other.
fn framing(fields: &[httparse::Header<'_>], status: u16, head: bool) -> Option<Framing> {
    let values = |name: &'static str| {
        fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    };
    let mut length = None;
    for value in values("content-length") {
        let digits = value.trim_ascii();
        let number = Some(digits).filter(|d| !d.is_empty() && d.len() <= 18 && d.iter().all(u8::is_ascii_digit))?;
        let number = number.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        if length.replace(number).is_some_and(|before| before != number) {
            return None;
        }
    }
    let mut codings = values("transfer-encoding").flat_map(|value| value.split(|byte| *byte == b','));
    let chunked = match codings.next() {
        None => false,
        Some(coding) if is_word(coding, "chunked") && codings.next().is_none() && length.is_none() => true,
        Some(_) => return None,
    };
    Some(match length {
        _ if head || status == 204 || status == 304 => Framing::Length(0),
        _ if chunked => Framing::Chunked(Chunks::default()),
        Some(length) => Framing::Length(length),
        None => Framing::Close,
    })
}

impl Body {
    fn feed(&mut self, bytes: &[u8], expected: &Expected) -> Option<End> {
        let mut framing = self.framing;
        let left_over = match &mut framing {
            Framing::Length(left) => {
                let own = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                self.take(bytes.get(..own).unwrap_or_default(), expected);
                *left -= own as u64;
                (*left == 0).then(|| bytes.len() - own)
            }
            Framing::Chunked(chunks) => match chunks.feed(bytes, |data| self.take(data, expected)) {
                Ok(end) => end,
                Err(_) => return Some(End::new(Verdict::Invalid, self.status)),
            },
            Framing::Close => {
                self.take(bytes, expected);
                None
            }
        };
        self.framing = framing;
        if let Some(left_over) = left_over {
            // Bytes behind the answer: whatever they are, they are none to a next request.
            return Some(self.end(expected, left_over == 0));
        }
        // Enough of it has been seen.
        (self.length > BODY_MOST).then(|| self.end(expected, false))
    }

    /// Looks for the text in what comes, the end of what came before included.
    fn take(&mut self, data: &[u8], expected: &Expected) {
        let room = BODY_MOST.saturating_sub(self.length).min(data.len());
        self.length = self.length.saturating_add(data.len());
        let Some(wanted) = expected.body.as_ref().filter(|_| !self.found) else { return };
        self.text.extend_from_slice(data.get(..room).unwrap_or_default());
        self.found = memmem::find(&self.text, wanted).is_some();
        let keep = wanted.len().saturating_sub(1).min(self.text.len());
        self.text.drain(..self.text.len() - keep);
    }

    fn end(&self, expected: &Expected, whole: bool) -> End {
        let verdict = if !expected.accepts(self.status) {
            Verdict::Status
        } else if self.found {
            Verdict::Good
        } else {
            Verdict::Body
        };
        End { verdict, status: self.status, reusable: whole && self.keep && self.status != 101 }
    }
}
