//! The life of one connection, for every protocol with one request at a time.
//!
//! Reads a request, lets the server take its time while watching whether the client leaves, writes the answer, and breaks
//! where the behaviour says so. Protocols are codec.rs and its implementations.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::codec::{Answer, Codec, Request, has_body};
use super::server::{Job, Server};
use super::spec::{Behaviour, Reset};
use crate::clock::now;
use crate::net::Stream;

/// What is read ahead while a request is worked on; a client that sends more has to wait.
const READ_AHEAD: usize = 1 << 20;
/// The size of one write of a body, the kernel's usual socket buffer.
const PIECE: usize = 64 * 1024;
/// A streamed body comes in pieces at least so far apart: below, timers would cost more than the stream.
const STREAM_STEP: Duration = Duration::from_millis(10);
/// Bytes that are no message of any of the protocols.
pub const GARBAGE: &[u8] = b"\xde\xad\xbe\xef this is not the protocol you are looking for\r\n\r\n";

/// Why a connection is over.
enum End {
    /// In order, or the client broke off; dropping the stream is right.
    Close,
    /// The behaviour wants a reset.
    Reset,
}

/// Serves requests until the connection ends.
pub async fn serve<C: Codec>(server: Rc<Server>, stream: Stream, codec: C) {
    let mut connection = Connection { server, stream, codec, input: BytesMut::new(), out: Vec::new() };
    if let End::Reset = connection.run().await {
        connection.stream.reset();
    }
}

struct Connection<C> {
    server: Rc<Server>,
    stream: Stream,
    codec: C,
    input: BytesMut,
    out: Vec<u8>,
}

impl<C: Codec> Connection<C> {
    async fn run(&mut self) -> End {
        let mut answers = 0;
        while let Some(request) = self.read().await {
            let behaviour = self.server.behaviour();
            let worn_out = behaviour.close_after > 0 && answers >= behaviour.close_after;
            if worn_out && behaviour.close_late {
                return End::Close;
            }
            let job = self.server.arrive(now());
            let finished = watched(job.work_or_hang(), &mut self.stream, &mut self.input).await;
            if finished.is_none() {
                job.aborted();
                return End::Close;
            }
            if job.cut_before_header() {
                return End::Reset;
            }
            if job.behaviour.garbage {
                // Whether the client still reads it makes no difference.
                let _ = self.stream.write_all(GARBAGE).await;
                return End::Close;
            }
            if request.upgrade && job.status() == 200 {
                return self.tunnel(&job).await;
            }
            if !self.answer(&job, request).await {
                job.aborted();
                return End::Close;
            }
            if job.behaviour.reset == Reset::Body && !request.head_only {
                return End::Close;
            }
            job.answered();
            drop(job);
            answers += 1;
            let closing = behaviour.close_after > 0 && answers >= behaviour.close_after && !behaviour.close_late;
            if closing || !request.keepalive {
                return End::Close;
            }
        }
        End::Close
    }

    /// The next whole request; `None` at the end of the connection or of the protocol.
    async fn read(&mut self) -> Option<Request> {
        loop {
            match self.codec.decode(&mut self.input) {
                Ok(Some(request)) => return Some(request),
                Ok(None) => {}
                Err(_) => return None,
            }
            if self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Writes the answer, or half of it for `reset=body`; false when the client has left.
    async fn answer(&mut self, job: &Job, request: Request) -> bool {
        let status = job.status();
        let fixed = self.codec.fixed_body(job.server_name());
        let length = fixed.as_ref().map_or(job.behaviour.body, Vec::len);
        let answer = Answer {
            server: job.server_name(),
            in_flight: job.in_flight,
            status,
            failing: job.failing,
            length,
            keepalive: request.keepalive,
        };
        self.out.clear();
        self.codec.head(&answer, &mut self.out);
        if has_body(status) && !request.head_only {
            let whole = if let Some(fixed) = fixed {
                self.codec.body(&fixed, &mut self.out);
                true
            } else {
                self.body(&job.behaviour).await
            };
            if !whole {
                return false;
            }
        }
        if job.behaviour.reset != Reset::Body {
            self.codec.end(&mut self.out);
        }
        self.stream.write_all(&self.out).await.is_ok()
    }

    /// Writes all of the body but what fits the last write; that is left in `out`.
    async fn body(&mut self, behaviour: &Behaviour) -> bool {
        let mut left = if behaviour.reset == Reset::Body { behaviour.body / 2 } else { behaviour.body };
        let steps = (behaviour.chunk_delay.as_micros() / STREAM_STEP.as_micros()).clamp(1, left.max(1) as u128);
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        let streamed = !behaviour.chunk_delay.is_zero();
        let piece = if streamed { left.div_ceil(steps) } else { left.min(PIECE) };
        let start = now();
        let total = left.max(1);
        let mut sent = 0;
        while left > 0 {
            if streamed {
                if self.stream.write_all(&self.out).await.is_err() {
                    return false;
                }
                self.out.clear();
                let due = start + behaviour.chunk_delay.mul_f64((sent + piece).min(total) as f64 / total as f64);
                let timer = self.server.timer.clone();
                if watched(timer.until(due), &mut self.stream, &mut self.input).await.is_none() {
                    return false;
                }
            } else if self.out.len() >= PIECE {
                if self.stream.write_all(&self.out).await.is_err() {
                    return false;
                }
                self.out.clear();
            }
            let step = piece.min(left);
            self.part(step);
            left -= step;
            sent += step;
        }
        true
    }

    fn part(&mut self, mut bytes: usize) {
        const FILL: &[u8] = &[b'x'; PIECE];
        while bytes > 0 {
            let step = bytes.min(PIECE);
            self.codec.body(&FILL[..step], &mut self.out);
            bytes -= step;
        }
    }

    /// Answers 101 and echoes until the client closes.
    async fn tunnel(&mut self, job: &Job) -> End {
        let answer = Answer {
            server: job.server_name(),
            in_flight: job.in_flight,
            status: 101,
            failing: false,
            length: 0,
            keepalive: true,
        };
        self.out.clear();
        self.codec.head(&answer, &mut self.out);
        self.out.extend_from_slice(&self.input.split());
        while self.stream.write_all(&self.out).await.is_ok() {
            self.out.clear();
            if self.stream.read_buf(&mut self.out).await.unwrap_or(0) == 0 {
                job.answered();
                break;
            }
        }
        End::Close
    }
}

/// Runs `work` unless the client closes first; what it sends in the meantime is kept in `input`.
async fn watched<T>(work: impl Future<Output = T>, stream: &mut Stream, input: &mut BytesMut) -> Option<T> {
    let mut work = pin!(work);
    let mut gone = pin!(async {
        while input.len() < READ_AHEAD {
            if stream.read_buf(input).await.unwrap_or(0) == 0 {
                return;
            }
        }
        std::future::pending::<()>().await;
    });
    tokio::select! {
        biased;
        done = &mut work => Some(done),
        () = &mut gone => None,
    }
}
