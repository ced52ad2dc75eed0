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

/// The name of a server without its port: `name:port`, `[v6]:port`, a bare name or address.
fn split_port(name: &[u8]) -> &[u8] {
    if name.first() == Some(&b'[') {
        let end = name.iter().position(|byte| *byte == b']').map_or(name.len(), |at| at + 1);
        return name.get(..end).unwrap_or(name);
    }
    let mut parts = name.splitn(2, |byte| *byte == b':');
    let (first, rest) = (parts.next().unwrap_or_default(), parts.next());
    // More than one colon without brackets is an address, not a port.
    if rest.is_some_and(|rest| rest.contains(&b':')) { name } else { first }
}

/// What a request names as its host: the name that the server is configured by, with the port that is asked unless that is the
/// scheme's own. A unix socket has none, and is `localhost`.
pub fn authority(name: &[u8], port: Option<u16>, tls: bool) -> Vec<u8> {
    if name.starts_with(b"unix:") {
        return b"localhost".to_vec();
    }
    let mut host = split_port(name).to_vec();
    let usual = if tls { 443 } else { 80 };
    if let Some(port) = port.filter(|port| *port != usual) {
        host.extend_from_slice(format!(":{port}").as_bytes());
    }
    host
}

/// The name that TLS asks for, of a host with or without a port: none for addresses and unix sockets.
pub fn server_name(host: &[u8]) -> Option<&[u8]> {
    let name = split_port(host);
    let text = core::str::from_utf8(name).ok()?;
    let address = text.starts_with('[') || text.parse::<std::net::IpAddr>().is_ok() || text.starts_with("unix");
    (!address && !text.is_empty()).then_some(name)
}
