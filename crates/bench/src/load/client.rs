//! One HTTP/1.1 exchange, and the idle connections between exchanges.
//!
//! Knows nothing of schedules and statistics.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::chunked::Chunked;
use crate::clock::now;
use crate::net::{Endpoint, Stream};
use crate::timer::Timer;

/// The largest answer header.
const MAX_HEAD: usize = 64 * 1024;
/// Header lines of an answer.
const MAX_HEADERS: usize = 100;
/// A slow reader takes its bytes in so many steps per second.
const SLOW_STEPS: u64 = 20;
/// The kernel's buffer of a slow reader, bytes: a large one would read in its place.
const SLOW_BUFFER: u32 = 4096;

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole answer with this status.
    Status(u16),
    /// No connection.
    Connect,
    /// The client gave up and closed.
    Timeout,
    /// The connection ended before the answer did.
    Reset,
    /// The answer is not HTTP.
    Protocol,
    /// Not sent: too many requests in flight.
    Overflow,
}

/// What every exchange of a run has in common.
pub struct Client {
    /// Where to connect.
    pub endpoint: Endpoint,
    /// The bytes of a request.
    pub request: Vec<u8>,
    /// The answers have no body (HEAD).
    pub head_only: bool,
    /// Keep connections and use them again.
    pub keepalive: bool,
    /// Give up after this time.
    pub timeout: Duration,
    /// Bytes per second that are read; `None` is as fast as they come.
    pub read_rate: Option<u64>,
    /// The answer header that names the server.
    pub server_header: String,
    /// The thread's timer, for slow reading.
    pub timer: Timer,
    /// Connections waiting for use, the last used on top.
    pub idle: RefCell<Vec<Connection>>,
}

/// An open connection and what was read ahead.
pub struct Connection {
    stream: Stream,
    input: BytesMut,
}

struct Head {
    status: u16,
    server: String,
    keepalive: bool,
    body: Body,
}

enum Body {
    Length(u64),
    Chunks(Chunked),
    UntilClose,
}

impl Client {
    /// One exchange: how it ended, and the server that answered or an empty name.
    pub async fn exchange(&self) -> (Outcome, String) {
        match tokio::time::timeout(self.timeout, self.attempt()).await {
            Ok(done) => done,
            Err(_) => (Outcome::Timeout, String::new()),
        }
    }

    async fn attempt(&self) -> (Outcome, String) {
        while let Some(mut connection) = self.take_idle() {
            match self.converse(&mut connection).await {
                // The other side closed the idle connection as the request went out: nothing was answered, so nothing
                // is counted, as in every client that keeps connections.
                Err(Failure::Silent) => {}
                done => return self.conclude(done, connection),
            }
        }
        let buffer = self.read_rate.map(|_| SLOW_BUFFER);
        let Ok(stream) = self.endpoint.connect(buffer).await else { return (Outcome::Connect, String::new()) };
        let mut connection = Connection { stream, input: BytesMut::new() };
        let done = self.converse(&mut connection).await;
        self.conclude(done, connection)
    }

    fn take_idle(&self) -> Option<Connection> {
        loop {
            let connection = self.idle.borrow_mut().pop()?;
            if connection.stream.is_idle() {
                return Some(connection);
            }
        }
    }

    fn conclude(&self, done: Result<Head, Failure>, connection: Connection) -> (Outcome, String) {
        match done {
            Ok(head) => {
                if self.keepalive && head.keepalive && connection.input.is_empty() {
                    self.idle.borrow_mut().push(connection);
                }
                (Outcome::Status(head.status), head.server)
            }
            Err(Failure::Silent) => (Outcome::Reset, String::new()),
            Err(Failure::Cut(server)) => (Outcome::Reset, server),
            Err(Failure::Nonsense(server)) => (Outcome::Protocol, server),
        }
    }

    async fn converse(&self, connection: &mut Connection) -> Result<Head, Failure> {
        if connection.stream.write_all(&self.request).await.is_err() && connection.stream.is_idle() {
            return Err(Failure::Silent);
        }
        // A server may answer and close before it has read all: what it said is in the buffer, so reading goes on.
        let mut head = loop {
            match self.parse(&mut connection.input) {
                Ok(Some(head)) => break head,
                Ok(None) => {}
                Err(_) => return Err(Failure::Nonsense(String::new())),
            }
            if self.fill(connection).await == 0 {
                let silent = connection.input.is_empty();
                return Err(if silent { Failure::Silent } else { Failure::Cut(String::new()) });
            }
        };
        while !head.body.skip(&mut connection.input).map_err(|_| Failure::Nonsense(head.server.clone()))? {
            if self.fill(connection).await == 0 {
                if matches!(head.body, Body::UntilClose) {
                    break;
                }
                return Err(Failure::Cut(head.server));
            }
        }
        Ok(head)
    }

    /// Reads once, at the set rate; 0 at the end of the connection.
    async fn fill(&self, connection: &mut Connection) -> usize {
        let Some(rate) = self.read_rate else {
            return connection.stream.read_buf(&mut connection.input).await.unwrap_or(0);
        };
        let step = (rate / SLOW_STEPS).max(1);
        let read = (&mut connection.stream).take(step).read_buf(&mut connection.input).await.unwrap_or(0);
        let pause = Duration::from_secs_f64(read as f64 / rate as f64);
        self.timer.until(now() + pause).await;
        read
    }

    /// The header of the answer, once it is whole; interim answers are passed over.
    fn parse(&self, input: &mut BytesMut) -> Result<Option<Head>> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(length) = response.parse(input)? else {
                ensure!(input.len() < MAX_HEAD, "the answer header is too large");
                return Ok(None);
            };
            let status = response.code.unwrap_or_default();
            let head = (status >= 200 || status == 101).then(|| self.head(&response)).transpose()?;
            input.advance(length);
            if head.is_some() {
                return Ok(head);
            }
        }
    }

    fn head(&self, response: &httparse::Response) -> Result<Head> {
        let status = response.code.unwrap_or_default();
        let mut head =
            Head { status, server: String::new(), keepalive: response.version == Some(1), body: Body::UntilClose };
        for header in response.headers.iter() {
            let value = String::from_utf8_lossy(header.value);
            if header.name.eq_ignore_ascii_case(&self.server_header) {
                // No line ends can be in it; a tabulator would break the log's columns.
                head.server = value.replace('\t', " ");
            } else if header.name.eq_ignore_ascii_case("content-length") && !matches!(head.body, Body::Chunks(_)) {
                head.body = Body::Length(value.parse()?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                head.body = Body::Chunks(Chunked::default());
            } else if header.name.eq_ignore_ascii_case("connection") {
                head.keepalive = !value.eq_ignore_ascii_case("close")
                    && (head.keepalive || value.eq_ignore_ascii_case("keep-alive"));
            }
        }
        if self.head_only || matches!(status, 101 | 204 | 304) {
            head.body = Body::Length(0);
        }
        // A tunnel is not a connection for another request, nor is one that ended with its answer.
        head.keepalive &= status != 101 && !matches!(head.body, Body::UntilClose);
        Ok(head)
    }
}

/// Why there is no whole answer.
enum Failure {
    /// Closed before the first byte.
    Silent,
    /// Closed later; the server if the header was there.
    Cut(String),
    /// Not HTTP.
    Nonsense(String),
}

impl Body {
    /// Drops what `input` holds of the body; true when it is over.
    fn skip(&mut self, input: &mut BytesMut) -> Result<bool> {
        match self {
            Self::Length(left) => {
                let step = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                input.advance(step);
                *left -= step as u64;
                Ok(*left == 0)
            }
            Self::Chunks(chunked) => chunked.skip(input),
            Self::UntilClose => {
                input.clear();
                Ok(false)
            }
        }
    }
}
