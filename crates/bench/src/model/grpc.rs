//! gRPC over cleartext HTTP/2: unary answers with a message and trailers, or trailers only.
//!
//! The streams of a connection are answered side by side, which is why this is not a codec.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::connection::GARBAGE;
use super::server::{Job, Server};
use super::spec::Reset;
use crate::clock::now;
use crate::net::Stream;

/// The call of the health protocol.
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Pause between the parts of a streamed message; see connection.rs.
const STREAM_STEP: Duration = Duration::from_millis(10);

/// Serves streams until the connection ends; what is being answered then counts as aborted.
pub async fn serve(server: Rc<Server>, mut stream: Stream) {
    if server.behaviour().garbage {
        // Whether the client still reads it makes no difference.
        let _ = stream.write_all(GARBAGE).await;
        return;
    }
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            call = connection.accept() => match call {
                Some(Ok((request, respond))) => {
                    calls.spawn_local(call_in(server.clone(), request, respond));
                }
                Some(Err(_)) | None => break,
            },
            Some(_) = calls.join_next(), if !calls.is_empty() => {}
        }
    }
}

/// A call that counts as aborted unless it came to its end, also when its task is dropped with the connection.
struct Call(Job, bool);

impl Drop for Call {
    fn drop(&mut self) {
        if !self.1 {
            self.0.aborted();
        }
    }
}

async fn call_in(server: Rc<Server>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let health = request.uri().path() == HEALTH;
    if drain(request.into_body()).await.is_err() {
        return;
    }
    let mut call = Call(server.arrive(now()), false);
    let left = unless_reset(call.0.work_or_hang(), &mut respond).await.is_none();
    if left {
        return;
    }
    let broken = call.0.cut_before_header();
    if broken {
        respond.send_reset(h2::Reason::INTERNAL_ERROR);
        call.1 = true;
        return;
    }
    if answer(&server, &call.0, health, &mut respond).await.is_ok() {
        call.1 = true;
        if call.0.behaviour.reset == Reset::None {
            call.0.answered();
        }
    }
}

async fn drain(mut body: RecvStream) -> Result<(), h2::Error> {
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
    }
    Ok(())
}

async fn unless_reset<T>(work: impl Future<Output = T>, respond: &mut SendResponse<Bytes>) -> Option<T> {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => Some(done),
        _ = poll_fn(|context| respond.poll_reset(context)) => None,
    }
}

async fn answer(server: &Server, job: &Job, health: bool, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let behaviour = &job.behaviour;
    let status = if job.failing { job.status() } else { behaviour.grpc_status };
    let head = Response::builder()
        .status(behaviour.status)
        .header("content-type", "application/grpc")
        .header("x-server", &server.name)
        .header("x-inflight", job.in_flight);
    if behaviour.trailers_only {
        let head = head.header("grpc-status", status).body(()).expect("every part is a valid header");
        return respond.send_response(head, true).map(drop);
    }
    let head = head.body(()).expect("every part is a valid header");
    let mut stream = respond.send_response(head, false)?;
    let (message, status) = match (health, status) {
        (false, status) => (message(behaviour.body), status),
        // Calls that would fail are what "not serving" means; that call itself succeeds.
        (true, status) => (framed(&[8, if status == 0 { 1 } else { 2 }]), 0),
    };
    let cut = if behaviour.reset == Reset::Body { message.len() / 2 } else { message.len() };
    let steps = (behaviour.chunk_delay.as_micros() / STREAM_STEP.as_micros()).clamp(1, cut.max(1) as u128);
    let piece = cut.div_ceil(usize::try_from(steps).unwrap_or(usize::MAX)).max(1);
    let start = now();
    for begin in (0..cut).step_by(piece) {
        let end = (begin + piece).min(cut);
        server.timer.until(start + behaviour.chunk_delay.mul_f64(end as f64 / cut as f64)).await;
        stream.send_data(message.slice(begin..end), false)?;
    }
    if behaviour.reset == Reset::Body {
        stream.send_reset(h2::Reason::INTERNAL_ERROR);
        return Ok(());
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(status));
    stream.send_trailers(trailers)
}

/// A length-prefixed, uncompressed message of `bytes` bytes.
fn message(bytes: usize) -> Bytes {
    framed(&vec![b'x'; bytes])
}

fn framed(payload: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(payload.len().saturating_add(5));
    message.put_u8(0);
    message.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    message.put_slice(payload);
    message.freeze()
}
