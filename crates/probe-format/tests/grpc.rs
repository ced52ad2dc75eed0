//! The gRPC health call: good and bad answers, however they are cut, and that nothing is a panic.

use labor_probe_format::Verdict;
use labor_probe_format::grpc::{Answer, request};
use proptest::prelude::*;

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const DATA: u8 = 0;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

fn message(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend((payload.len() as u32).to_be_bytes());
    out.extend(payload);
    out
}

fn answer(frames: &[Vec<u8>]) -> Vec<u8> {
    [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 1, 0, &[])].iter().chain(frames).flatten().copied().collect()
}

fn read(bytes: &[u8], size: usize) -> Option<Verdict> {
    let mut reader = Answer::default();
    bytes.chunks(size).find_map(|piece| reader.feed(piece)).map(|end| end.verdict)
}

#[test]
fn a_server_serves_when_its_message_says_so() {
    let headers = frame(HEADERS, 4, 1, b"\x88");
    let trailers = frame(HEADERS, 5, 1, b"\0\x0bgrpc-status\x010");
    for (payload, verdict) in [
        (&[8, 1][..], Verdict::Good),
        (&[8, 2], Verdict::NotServing),
        (&[8, 3], Verdict::NotServing),
        (&[], Verdict::NotServing),
        (&[0x12, 1, 9, 8, 1], Verdict::Good),
        (&[8], Verdict::Invalid),
        (&[0x0f, 1], Verdict::Invalid),
    ] {
        let bytes = answer(&[headers.clone(), frame(DATA, 0, 1, &message(payload)), trailers.clone()]);
        for size in [1, 5, 1000] {
            assert_eq!(read(&bytes, size), Some(verdict), "{payload:?} by {size}");
        }
    }
    // Cut over two frames, padded, and ended by the data.
    let (first, second) = (message(&[8, 1])[..3].to_vec(), message(&[8, 1])[3..].to_vec());
    let padded = [vec![2], second, vec![0, 0]].concat();
    assert_eq!(
        read(&answer(&[headers.clone(), frame(DATA, 0, 1, &first), frame(DATA, 9, 1, &padded)]), 3),
        Some(Verdict::Good)
    );
    // An error comes without a message.
    assert_eq!(read(&answer(&[trailers]), 3), Some(Verdict::NotServing));
}

#[test]
fn what_is_no_grpc_is_refused() {
    for (bytes, verdict) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), Verdict::Invalid),
        (frame(HEADERS, 4, 1, b"\x88"), Verdict::Invalid),
        (answer(&[frame(3, 0, 1, &[0; 4])]), Verdict::Short),
        (answer(&[frame(7, 0, 0, &[0; 8])]), Verdict::Short),
        (answer(&[frame(DATA, 1, 1, b"\x01\0\0\0\0")]), Verdict::Invalid),
        (answer(&[frame(DATA, 9, 1, b"\x09\0")]), Verdict::Invalid),
        (answer(&[frame(DATA, 0, 1, &[0; 5000])]), Verdict::Invalid),
        (answer(&vec![frame(8, 0, 0, &[0; 4]); 6000]), Verdict::Invalid),
    ] {
        assert_eq!(read(&bytes, 1000), Some(verdict));
    }
    assert_eq!(read(&answer(&[]), 3), None);
    assert_eq!(Answer::default().closed().verdict, Verdict::Short);
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let mut reader = Answer::default();
    assert_eq!(reader.feed(&frame(SETTINGS, 0, 0, &[])), None);
    assert_eq!(reader.take_reply(), frame(SETTINGS, 1, 0, &[]));
    assert_eq!(reader.feed(&frame(6, 0, 0, b"12345678")), None);
    assert_eq!(reader.take_reply(), frame(6, 1, 0, b"12345678"));
    assert!(reader.take_reply().is_empty());
}

#[test]
fn requests_name_the_service() {
    let bytes = request(b"shop.Cart", b"localhost:50051", false);
    assert!(bytes.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x0c\x04"));
    assert!(bytes.ends_with(b"\0\0\x10\0\x01\0\0\0\x01\0\0\0\0\x0b\x0a\x09shop.Cart"));
    let long = "s".repeat(255);
    assert!(request(long.as_bytes(), long.as_bytes(), true).ends_with(long.as_bytes()));
}

proptest! {
    #[test]
    fn nothing_is_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1usize..400, valid in any::<bool>()) {
        let bytes = if valid { answer(&[frame(DATA, 1, 1, &bytes)]) } else { bytes };
        let whole = read(&bytes, bytes.len().max(1));
        prop_assert_eq!(read(&bytes, size), whole);
    }
}
