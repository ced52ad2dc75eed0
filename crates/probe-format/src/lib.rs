//! What active checks send, and how they read what comes back: HTTP/1.1 (`http`) and the gRPC health protocol (`grpc`).
//!
//! A crate of its own, so that what parses foreign bytes is tested and fuzzed without nginx. Bytes in, a verdict out: no
//! sockets, no clock, no panic on any input, and bounds on everything. Not here: when servers are probed, and what verdicts
//! make of them.
#![forbid(unsafe_code)]

mod chunked;
pub mod grpc;
pub mod http;

/// Most bytes of response headers that are looked at, interim answers included.
pub const HEADER_MOST: usize = 8 << 10;
/// Most header fields.
pub const FIELDS_MOST: usize = 64;
/// Most bytes of a body that are looked at.
pub const BODY_MOST: usize = 256 << 10;

/// How a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected.
    Good,
    /// Closed before its answer was complete.
    Short,
    /// No valid answer.
    Invalid,
    /// A status that was not expected.
    Status,
    /// The text was not found in the body.
    Body,
    /// It says that it does not serve (gRPC).
    NotServing,
}

/// A finished answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// How the server did.
    pub verdict: Verdict,
    /// HTTP status, 0 when none was read.
    pub status: u16,
    /// Whether the connection may be used for another probe.
    pub reusable: bool,
}

impl End {
    fn new(verdict: Verdict, status: u16) -> Self {
        Self { verdict, status, reusable: false }
    }
}
