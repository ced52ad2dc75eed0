//! The gRPC health protocol (`grpc.health.v1.Health/Check`) over HTTP/2, as far as one call on a fresh connection needs it.
//!
//! Frames are read (RFC 9113), header blocks are not: whether a server serves stands in the message, which only comes with a
//! successful call, so that what headers and trailers say adds nothing. Without a message the server is not well.

use crate::{End, Verdict};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const PADDED: u8 = 8;
/// The one call's stream.
const STREAM: u32 = 1;
/// Most bytes of a frame: what every peer may send without asking.
const FRAME_MOST: usize = 16 << 10;
/// Most bytes that are read for one call.
const MOST: usize = 64 << 10;
/// Most bytes of a health message; it has two in practice.
const MESSAGE_MOST: usize = 4 << 10;
/// `HealthCheckResponse.ServingStatus.SERVING`.
const SERVING: u64 = 1;

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(length.get(1..).unwrap_or_default());
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A header field that no table needs to know (RFC 7541, section 6.2.2), without Huffman coding.
fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(0);
    string(out, name);
    string(out, value);
}

fn string(out: &mut Vec<u8>, text: &[u8]) {
    // An integer with a prefix of seven bits (RFC 7541, section 5.1).
    if text.len() < 127 {
        out.push(text.len() as u8);
    } else {
        out.push(127);
        let mut left = text.len() - 127;
        while left >= 128 {
            out.push((left % 128) as u8 | 128);
            left /= 128;
        }
        out.push(left as u8);
    }
    out.extend_from_slice(text);
}

/// What is sent: preface, settings, and the call for `service` (empty for the server as a whole) at `host`. Both of at most 255
/// bytes.
pub fn request(service: &[u8], host: &[u8], tls: bool) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    // No header tables, no push.
    frame(&mut out, SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    let mut block = Vec::new();
    field(&mut block, b":method", b"POST");
    field(&mut block, b":scheme", if tls { b"https" } else { b"http" });
    field(&mut block, b":path", b"/grpc.health.v1.Health/Check");
    field(&mut block, b":authority", host);
    field(&mut block, b"content-type", b"application/grpc");
    field(&mut block, b"te", b"trailers");
    field(&mut block, b"user-agent", b"labor_check");
    // END_HEADERS
    frame(&mut out, HEADERS, 4, STREAM, &block);
    let mut message = Vec::new();
    if !service.is_empty() {
        // Field 1, a string.
        message.push(0x0a);
        varint(&mut message, service.len());
        message.extend_from_slice(service);
    }
    let mut data = vec![0];
    data.extend_from_slice(&(message.len() as u32).to_be_bytes());
    data.extend_from_slice(&message);
    frame(&mut out, DATA, END_STREAM, STREAM, &data);
    out
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 128 {
        out.push((value % 128) as u8 | 128);
        value /= 128;
    }
    out.push(value as u8);
}

/// An answer being read.
#[derive(Debug, Default)]
pub struct Answer {
    pending: Vec<u8>,
    total: usize,
    settled: bool,
    message: Vec<u8>,
    reply: Vec<u8>,
}

impl Answer {
    /// What is to be sent in between: acknowledgements that the server waits for.
    pub fn take_reply(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.reply)
    }

    /// Takes the next bytes; the answer's end once it is known.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<End> {
        self.total = self.total.saturating_add(bytes.len());
        if self.total > MOST {
            return Some(End::new(Verdict::Invalid, 0));
        }
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        let end = loop {
            match self.frame(at) {
                Ok(Some(used)) => at += used,
                Ok(None) => break None,
                Err(verdict) => break Some(End::new(verdict, 0)),
            }
        };
        self.pending.drain(..at.min(self.pending.len()));
        end
    }

    /// The server has closed the connection.
    pub fn closed(&self) -> End {
        End::new(Verdict::Short, 0)
    }

    /// Reads the frame at `at`: its length. `Err` with the verdict when that is known.
    fn frame(&mut self, at: usize) -> Result<Option<usize>, Verdict> {
        let rest = self.pending.get(at..).unwrap_or_default();
        let Some(head) = rest.first_chunk::<9>() else { return Ok(None) };
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *head;
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        // The first frame of a server is its settings: anything else speaks another protocol.
        if length > FRAME_MOST || (!self.settled && kind != SETTINGS) {
            return Err(Verdict::Invalid);
        }
        let Some(payload) = rest.get(9..).and_then(|rest| rest.get(..length)) else { return Ok(None) };
        match (kind, stream) {
            (SETTINGS, 0) if flags & ACK == 0 => {
                self.settled = true;
                frame(&mut self.reply, SETTINGS, ACK, 0, &[]);
            }
            (PING, 0) if flags & ACK == 0 && length == 8 => {
                let payload = payload.to_vec();
                frame(&mut self.reply, PING, ACK, 0, &payload);
            }
            (GOAWAY, 0) | (RST_STREAM, STREAM) => return Err(Verdict::Short),
            (DATA, STREAM) => {
                let data = unpadded(payload, flags)?.to_vec();
                self.message.extend_from_slice(&data);
                if self.message.len() > MESSAGE_MOST {
                    return Err(Verdict::Invalid);
                }
            }
            _ => {}
        }
        if stream == STREAM && flags & END_STREAM != 0 && (kind == DATA || kind == HEADERS) {
            return Err(self.judge());
        }
        Ok(Some(9 + length))
    }

    /// The call is over: what its message says.
    fn judge(&self) -> Verdict {
        let Some((prefix, message)) = self.message.split_first_chunk::<5>() else { return Verdict::NotServing };
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 || u32::from_be_bytes(length) as usize != message.len() {
            return Verdict::Invalid;
        }
        match status(message) {
            Some(SERVING) => Verdict::Good,
            Some(_) => Verdict::NotServing,
            None => Verdict::Invalid,
        }
    }
}

fn unpadded(payload: &[u8], flags: u8) -> Result<&[u8], Verdict> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Verdict::Invalid)?;
    rest.len().checked_sub(usize::from(*padding)).and_then(|length| rest.get(..length)).ok_or(Verdict::Invalid)
}

/// Field 1 of a message, 0 when it is left out; other fields are passed over. `None` when it is none of protobuf's.
fn status(message: &[u8]) -> Option<u64> {
    let (mut rest, mut status) = (message, 0);
    while !rest.is_empty() {
        let (key, after) = number(rest)?;
        let (value, after) = match key & 7 {
            0 => number(after)?,
            1 => (0, after.get(8..)?),
            2 => {
                let (length, after) = number(after)?;
                (0, after.get(usize::try_from(length).ok()?..)?)
            }
            5 => (0, after.get(4..)?),
            _ => return None,
        };
        if key == 8 {
            status = value;
        }
        rest = after;
    }
    Some(status)
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (i, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * i as u32)?;
        if byte & 0x80 == 0 {
            return bytes.get(i + 1..).map(|rest| (value, rest));
        }
    }
    None
}
