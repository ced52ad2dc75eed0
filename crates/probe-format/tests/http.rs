//! Answers to probes: what is good and what is not, however they are cut, and that nothing is a panic.

use labor_probe_format::http::{Answer, Expected, request};
use labor_probe_format::{BODY_MOST, End, Verdict};
use proptest::prelude::*;

fn expected(body: Option<&str>) -> Expected {
    Expected { statuses: vec![(200, 399)], body: body.map(|text| text.into()), head: false }
}

/// The end of an answer in pieces of `size` bytes; with `closed` the server closes the connection behind it.
fn read(answer: &[u8], expected: &Expected, size: usize, closed: bool) -> Option<End> {
    let mut reader = Answer::default();
    for piece in answer.chunks(size) {
        if let Some(end) = reader.feed(piece, expected) {
            return Some(end);
        }
    }
    closed.then(|| reader.closed(expected))
}

fn good(reusable: bool) -> End {
    End { verdict: Verdict::Good, status: 200, reusable }
}

#[test]
fn complete_answers_are_judged_at_their_last_byte() {
    let cases: &[(&str, End)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", good(true)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", good(false)),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", good(false)),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nok", good(true)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nA: b\r\n\r\n", good(true)),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            good(true),
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", End { status: 204, ..good(true) }),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", End { status: 304, ..good(true) }),
        ("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", End { verdict: Verdict::Status, status: 503, reusable: true }),
        (
            "HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0\r\n\r\n",
            End { verdict: Verdict::Status, status: 101, reusable: false },
        ),
        // Bytes behind an answer belong to nobody.
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!", good(false)),
    ];
    for (answer, end) in cases {
        for size in [1, 2, 3, 7, 1000] {
            // Cut anywhere, what comes behind the end may not have come yet.
            let seen = read(answer.as_bytes(), &expected(None), size, false).unwrap();
            assert_eq!((seen.verdict, seen.status), (end.verdict, end.status), "{answer:?} by {size}");
            assert!(seen.reusable == end.reusable || answer.ends_with('!'), "{answer:?} by {size}");
        }
        assert_eq!(read(answer.as_bytes(), &expected(None), 1000, false), Some(*end), "{answer:?}");
    }
}

#[test]
fn incomplete_answers_are_no_answers() {
    for answer in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        assert_eq!(read(answer.as_bytes(), &expected(None), 1000, false), None, "{answer:?}");
        assert_eq!(read(answer.as_bytes(), &expected(None), 1000, true).unwrap().verdict, Verdict::Short, "{answer:?}");
    }
    let to_the_end = b"HTTP/1.1 200 OK\r\n\r\nok";
    assert_eq!(read(to_the_end, &expected(None), 4, false), None);
    assert_eq!(read(to_the_end, &expected(Some("ok")), 4, true), Some(good(false)));
}

#[test]
fn what_is_no_http_is_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(9000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(65));
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(400);
    for answer in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\0\0\0\0\0\0\0\0\0\0\0\0",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
        &long,
        &many,
        &interim,
    ] {
        for size in [1, 100, 100_000] {
            let end = read(answer.as_bytes(), &expected(None), size, false);
            assert_eq!(
                end.map(|end| end.verdict),
                Some(Verdict::Invalid),
                "{:?} by {size}",
                &answer[..answer.len().min(80)]
            );
        }
    }
}

#[test]
fn the_body_is_searched_over_all_cuts_and_up_to_a_bound() {
    let answer = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n5\r\n well\r\n0\r\n\r\n";
    for size in 1..20 {
        assert_eq!(
            read(answer("it is all well").as_bytes(), &expected(Some("all well")), size, false),
            Some(good(true))
        );
        assert_eq!(read(chunks.as_bytes(), &expected(Some("all well")), size, false), Some(good(true)));
        let failure = read(answer("failure").as_bytes(), &expected(Some("all well")), size, false).unwrap();
        assert_eq!(failure.verdict, Verdict::Body);
    }
    let late = format!("{}well", "x".repeat(BODY_MOST));
    assert_eq!(read(answer(&late).as_bytes(), &expected(Some("well")), 4096, false).unwrap().verdict, Verdict::Body);
    let just = format!("{}well", "x".repeat(BODY_MOST - 4));
    assert_eq!(read(answer(&just).as_bytes(), &expected(Some("well")), 4096, false).unwrap().verdict, Verdict::Good);
    // A body without end is cut off.
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(BODY_MOST + 1));
    assert_eq!(read(endless.as_bytes(), &expected(None), 4096, false), Some(good(false)));
}

#[test]
fn no_body_comes_with_head() {
    let head = Expected { head: true, ..expected(None) };
    assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", &head, 5, false), Some(good(true)));
}

#[test]
fn requests_are_what_servers_expect() {
    let text = String::from_utf8(request(b"GET", b"/health?x=1", b"[::1]:8080")).unwrap();
    assert!(
        text.starts_with("GET /health?x=1 HTTP/1.1\r\nHost: [::1]:8080\r\n") && text.ends_with("\r\n\r\n"),
        "{text}"
    );
    assert!(!text.contains("Content-Length"));
    assert!(String::from_utf8(request(b"POST", b"/", b"a")).unwrap().contains("Content-Length: 0\r\n"));
}

proptest! {
    #[test]
    fn cuts_change_no_verdict(
        body in "[a-z]{0,40}", wanted in "[a-z]{1,3}", chunk in 1usize..9, size in 1usize..30, status in 150u16..650,
    ) {
        let mut answer = format!("HTTP/1.1 {status} x\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
        for part in body.as_bytes().chunks(chunk) {
            answer.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            answer.extend_from_slice(part);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        let expected = expected(Some(&wanted));
        let whole = read(&answer, &expected, answer.len(), true).unwrap();
        let cut = read(&answer, &expected, size, true).unwrap();
        prop_assert_eq!((cut.verdict, cut.status), (whole.verdict, whole.status));
        // What lies behind an answer that has no body is not seen when it comes later.
        prop_assert!(cut.reusable == whole.reusable || (cut.reusable && matches!(status, 204 | 304)));
        if (200..400).contains(&status) && !matches!(status, 204 | 304) {
            let verdict = if body.contains(&wanted) { Verdict::Good } else { Verdict::Body };
            prop_assert_eq!(whole.verdict, verdict);
        }
    }

    #[test]
    fn nothing_is_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), size in 1usize..600, http in any::<bool>()) {
        let mut answer = if http { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec() } else { Vec::new() };
        answer.extend_from_slice(&bytes);
        let _ = read(&answer, &expected(Some("x")), size, true);
    }
}
