//! One probe: a connection, what is said on it, what is heard.
//!
//! Driven by events until it says how it ended. Not here: when probes are sent, deadlines, and what results are good for.

use core::ffi::CStr;

use labor_core::check::Cause;
use labor_probe_format::{End, Verdict, grpc, http};

use super::connection::{Connection, Handler, Io};
use crate::ffi::tls::{Handshake, Tls};
use crate::settings::{Check, Kind};

/// Bytes read at once.
const PIECE: usize = 4096;

/// How a probe ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub cause: Cause,
    /// HTTP status, 0 without one.
    pub status: u16,
    /// Whether the connection is good for another one.
    pub reusable: bool,
}

impl Ended {
    /// By something else than an answer.
    pub fn by(cause: Cause) -> Self {
        Self { cause, status: 0, reusable: false }
    }
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        let cause = match end.verdict {
            Verdict::Good => Cause::Passed,
            Verdict::Short => Cause::Reset,
            Verdict::Invalid => Cause::Header,
            Verdict::Status => Cause::Status,
            Verdict::Body => Cause::Body,
            Verdict::NotServing => Cause::NotServing,
        };
        Self { cause, status: end.status, reusable: end.reusable }
    }
}

/// How far it is.
enum At {
    Connecting,
    Handshake,
    /// What is still to be sent; then answers are read.
    Talking,
}

/// What the answer is read by.
enum Reader {
    Http(http::Answer),
    Grpc(grpc::Answer),
}

/// How to talk to a server.
pub struct Manner<'a> {
    pub check: &'a Check,
    pub request: &'a [u8],
    /// For TLS: the context, and the server's name.
    pub tls: Option<&'static Tls>,
    pub name: Option<&'a CStr>,
    pub handler: Handler,
}

/// A probe under way.
pub struct Talk {
    connection: Connection,
    at: At,
    unsent: Vec<u8>,
    reader: Reader,
    /// The connection has served before.
    pub reused: bool,
}

impl Talk {
    /// On a connection that has just been opened.
    pub fn new(connection: Connection, manner: &Manner<'_>) -> Self {
        Self::on(connection, At::Connecting, manner, false)
    }

    /// On one that an earlier probe has left.
    pub fn again(connection: Connection, manner: &Manner<'_>) -> Self {
        connection.set_idle(false);
        Self::on(connection, At::Talking, manner, true)
    }

    fn on(connection: Connection, at: At, manner: &Manner<'_>, reused: bool) -> Self {
        let reader = match manner.check.kind {
            Kind::Grpc => Reader::Grpc(grpc::Answer::default()),
            Kind::Http | Kind::Tcp => Reader::Http(http::Answer::default()),
        };
        Self { connection, at, unsent: manner.request.to_vec(), reader, reused }
    }

    /// The connection, for the next probe.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// Whether the server has said anything.
    pub fn has_begun(&self) -> bool {
        match &self.reader {
            Reader::Http(answer) => answer.has_begun(),
            // Never on a connection that was kept.
            Reader::Grpc(_) => true,
        }
    }

    /// Goes as far as it can now; how it ended, once it has.
    pub fn go_on(&mut self, manner: &Manner<'_>, established: bool) -> Option<Ended> {
        if matches!(self.at, At::Connecting) {
            if !established && !self.connection.is_writable() {
                return None;
            }
            if !self.connection.is_established() {
                return Some(Ended::by(Cause::Connect));
            }
            self.at = match manner.tls {
                None => At::Talking,
                Some(tls) => {
                    let alpn = (manner.check.kind == Kind::Grpc).then_some(b"\x02h2".as_slice());
                    if !self.connection.begin_tls(tls, manner.name, alpn) {
                        return Some(Ended::by(Cause::Tls));
                    }
                    At::Handshake
                }
            };
        }
        if matches!(self.at, At::Handshake) {
            match self.connection.handshake(manner.handler) {
                Handshake::Done => self.at = At::Talking,
                Handshake::Again => return None,
                Handshake::Failed => return Some(Ended::by(Cause::Tls)),
            }
        }
        if manner.check.kind == Kind::Tcp {
            return Some(Ended::by(Cause::Passed));
        }
        self.talk(manner.check)
    }

    /// Sends and reads until neither goes on.
    fn talk(&mut self, check: &Check) -> Option<Ended> {
        loop {
            if let Some(ended) = self.say() {
                return Some(ended);
            }
            let mut piece = [0; PIECE];
            let end = match self.connection.receive(&mut piece) {
                Io::Again => return None,
                Io::Broken => return Some(Ended::by(Cause::Reset)),
                Io::Closed => Some(match &mut self.reader {
                    Reader::Http(answer) => answer.closed(&check.expected),
                    Reader::Grpc(answer) => answer.closed(),
                }),
                Io::Some(count) => {
                    let bytes = piece.get(..count).unwrap_or_default();
                    match &mut self.reader {
                        Reader::Http(answer) => answer.feed(bytes, &check.expected),
                        Reader::Grpc(answer) => {
                            let end = answer.feed(bytes);
                            self.unsent.extend_from_slice(&answer.take_reply());
                            end
                        }
                    }
                }
            };
            if let Some(end) = end {
                // An answer to half a request is no reason to go on with the other half.
                return Some(Ended { reusable: end.reusable && self.unsent.is_empty(), ..end.into() });
            }
        }
    }

    fn say(&mut self) -> Option<Ended> {
        while !self.unsent.is_empty() {
            match self.connection.send(&self.unsent) {
                Io::Some(count) => {
                    self.unsent.drain(..count.min(self.unsent.len()));
                }
                Io::Again => return None,
                Io::Closed | Io::Broken => return Some(Ended::by(Cause::Reset)),
            }
        }
        None
    }
}
