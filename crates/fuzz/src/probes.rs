//! What servers answer to active checks: HTTP/1.1 and gRPC health.
//!
//! Every input is read whole and byte by byte: where it is cut must not matter. Not here: what verdicts mean.

use labor_probe_format::{End, grpc, http};

fn expected() -> http::Expected {
    http::Expected { statuses: vec![(200, 399)], body: Some(b"well".to_vec()), head: false }
}

fn read_http(data: &[u8], size: usize) -> End {
    let (mut answer, expected) = (http::Answer::default(), expected());
    let end = data.chunks(size).find_map(|piece| answer.feed(piece, &expected));
    end.unwrap_or_else(|| answer.closed(&expected))
}

/// An answer of HTTP.
pub fn http(data: &[u8]) {
    let (whole, cut) = (read_http(data, data.len().max(1)), read_http(data, 1));
    // What lies behind the end is not seen when it comes later.
    assert_eq!((whole.verdict, whole.status), (cut.verdict, cut.status));
    assert!(cut.reusable || !whole.reusable);
    assert!(whole.status < 1000);
}

fn read_grpc(data: &[u8], size: usize) -> (End, usize) {
    let (mut answer, mut replies) = (grpc::Answer::default(), 0);
    let mut end = None;
    for piece in data.chunks(size) {
        end = answer.feed(piece);
        replies += answer.take_reply().len();
        if end.is_some() {
            break;
        }
    }
    (end.unwrap_or_else(|| answer.closed()), replies)
}

/// Frames of HTTP/2.
pub fn grpc(data: &[u8]) {
    let (whole, cut) = (read_grpc(data, data.len().max(1)), read_grpc(data, 1));
    // Beyond the bound, what was read before it decides only where it is cut.
    assert!(whole.0 == cut.0 || data.len() > 64 << 10);
    // A reply is never longer than what asked for it.
    assert!(whole.1 <= data.len());
}
