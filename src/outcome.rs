//! How an attempt ended, read from what nginx leaves behind when it gives the server back.
//!
//! Here because nginx's own word is not enough: state 0 is also given for a 500 that was passed on, a body that broke off
//! and a client that left. `facts.rs` collects what can be seen in nginx's structures, `decide` turns it into an [`Outcome`]
//! and knows no pointer. What an outcome does to a server is `labor_core`'s business.
//!
//! | state | header | further facts, first that holds | outcome |
//! |---|---|---|---|
//! | FAILED | none | reused connection, nothing received, no timeout | Void: it had been closed before |
//! | | | connecting, sending or reading timed out | Fail Timeout |
//! | | | nothing could be sent (refused, unreachable, TLS) | Fail Connect |
//! | | | bytes came, connection is whole | Fail Header |
//! | | | else | Fail Reset |
//! | FAILED, NEXT | came | status in `failure=` | Fail Status |
//! | | | status ≥ 400 (403, 404 tried elsewhere) | Refused |
//! | | | sending went on and broke (gRPC) | Fail Timeout or Reset |
//! | 0 | none | client gone, while the server had the turn | Abort |
//! | | | else: no socket, no memory, client sends slowly | Void |
//! | 0 | came | no status line (nginx takes it for HTTP/0.9) | Fail Header |
//! | | | status in `failure=`, grpc-status 4, 8, 13, 14 | Fail Status |
//! | | | upgraded, whatever ends the tunnel | Pass |
//! | | | body broke off or timed out | Fail Reset or Timeout; Held if the server had been waiting for the client |
//! | | | body unfinished, client gone | Abort; Held if held |
//! | | | body unfinished, nobody gone: not to be parsed | Fail Header; Void if a temporary file may be the cause |
//! | | | body not asked for: X-Accel-Redirect, `error_page`, 304 | Pass or Refused by status |
//! | | | body not asked for, an error of ours | Abort if the client is gone, else Void |
//! | | | body complete, held back | Held |
//! | | | body complete, status ≥ 400, other grpc-status than 0 | Refused |
//! | | | body complete | Pass |
//!
//! Limits: a connect error with a cause on this host (no free local port) looks like one of the server; a gRPC server that says
//! goodbye (GOAWAY) on a reused connection counts as one bad header; nginx without `keep_conn` takes a FastCGI answer
//! that ends early for a complete one.

mod facts;

use core::ffi::c_void;

use labor_core::{Failure, Outcome, Params, Receipt};
use nginx_sys::{
    NGX_HTTP_SPECIAL_RESPONSE, NGX_LOG_DEBUG, NGX_LOG_DEBUG_HTTP, ngx_http_request_t, ngx_http_upstream_t,
    ngx_log_error_core, ngx_peer_connection_t, ngx_uint_t,
};

pub use facts::{has_header, status};

use facts::{Body, Facts};

/// First status that refuses.
const REFUSING: u16 = 400;
/// First status that asks for no body to be passed on when nginx answers itself (redirects, 304, errors).
const SPECIAL: u16 = NGX_HTTP_SPECIAL_RESPONSE as u16;
/// gRPC statuses that say the server is unwell: DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE.
const GRPC_FAILURES: [u32; 4] = [4, 8, 13, 14];

/// How the attempt of `u` for `r` ended, when nginx frees the peer with `state`. `held`: the request path knows that the server
/// had to wait for the client.
///
/// All pointers are those of the `peer.free` call that is going on.
pub fn classify(
    r: *mut ngx_http_request_t,
    u: *mut ngx_http_upstream_t,
    pc: *mut ngx_peer_connection_t,
    state: usize,
    held: bool,
    params: &Params,
) -> Outcome {
    // SAFETY: nginx is in peer.free: request, upstream object and peer are live; the connection is null or live.
    let facts = unsafe { facts::observe(r, u, pc, state, held) };
    decide(&facts, params)
}

/// The table above.
fn decide(f: &Facts, params: &Params) -> Outcome {
    match (f.given_up, f.header) {
        (true, false) => unanswered(f),
        (false, false) if f.client_gone && !f.uploading => Outcome::Abort,
        (false, false) => Outcome::Void,
        (true, true) => match verdict(f, params) {
            Outcome::Pass if f.timed_out => Outcome::Fail(Failure::Timeout),
            Outcome::Pass => Outcome::Fail(Failure::Reset),
            other => other,
        },
        (false, true) => answered(f, params),
    }
}

/// nginx gave up before a header.
fn unanswered(f: &Facts) -> Outcome {
    if f.reused && !f.received && !f.timed_out {
        return Outcome::Void;
    }
    Outcome::Fail(if f.timed_out {
        Failure::Timeout
    } else if !f.connected {
        Failure::Connect
    } else if f.received && !f.closed {
        Failure::Header
    } else {
        Failure::Reset
    })
}

/// What the status alone says.
fn verdict(f: &Facts, params: &Params) -> Outcome {
    let grpc = f.grpc.unwrap_or(0);
    if f.status == 0 {
        Outcome::Fail(Failure::Header)
    } else if params.failure.contains(f.status) || GRPC_FAILURES.contains(&grpc) {
        Outcome::Fail(Failure::Status)
    } else if f.status >= REFUSING || grpc != 0 {
        Outcome::Refused
    } else {
        Outcome::Pass
    }
}

/// The header came, and nginx calls it a success whatever followed.
fn answered(f: &Facts, params: &Params) -> Outcome {
    let verdict = verdict(f, params);
    if matches!(verdict, Outcome::Fail(_)) || f.tunnel {
        return verdict;
    }
    match f.body {
        Body::Complete | Body::Broken(_) if f.held => Outcome::Held,
        Body::Complete => verdict,
        Body::Broken(kind) => Outcome::Fail(kind),
        Body::Unfinished { .. } if f.client_gone && f.held => Outcome::Held,
        Body::Unfinished { .. } if f.client_gone => Outcome::Abort,
        Body::Unfinished { local: true } => Outcome::Void,
        Body::Unfinished { local: false } => Outcome::Fail(Failure::Header),
        Body::Unwanted if f.redirected || f.status >= SPECIAL => verdict,
        Body::Unwanted if f.client_gone => Outcome::Abort,
        Body::Unwanted => Outcome::Void,
    }
}

/// Writes the end of an attempt to the debug log: server, outcome, status, time.
///
/// Called in `peer.free` after [`classify`], before the peer is given back.
pub fn log(u: *mut ngx_http_upstream_t, pc: *mut ngx_peer_connection_t, outcome: Outcome, receipt: &Receipt) {
    // SAFETY: nginx is in peer.free: all is live, the name is null or a string; the format matches the arguments.
    unsafe {
        let log = (*pc).log;
        if log.is_null() || (*log).log_level & NGX_LOG_DEBUG_HTTP as ngx_uint_t == 0 || (*pc).name.is_null() {
            return;
        }
        let word = word(outcome);
        let status = if has_header(u) { ngx_uint_t::from(status(u)) } else { 0 };
        ngx_log_error_core(
            NGX_LOG_DEBUG as ngx_uint_t,
            log,
            0,
            c"labor: attempt %V %*s status %ui total %uLus".as_ptr(),
            (*pc).name.cast::<c_void>(),
            word.len(),
            word.as_ptr(),
            status,
            receipt.total,
        );
    }
}

/// The outcome as the log shows it.
const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Refused => "refused",
        Outcome::Held => "held",
        Outcome::Abort => "abort",
        Outcome::Void => "void",
        Outcome::Fail(Failure::Connect) => "fail-connect",
        Outcome::Fail(Failure::Timeout) => "fail-timeout",
        Outcome::Fail(Failure::Reset) => "fail-reset",
        Outcome::Fail(Failure::Header) => "fail-header",
        Outcome::Fail(Failure::Status) => "fail-status",
    }
}
