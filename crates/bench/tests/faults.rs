//! The faults of a model server, as a client sees them and as the server counts them.

mod common;

use std::io::{Read, Write};

use common::{Model, load, log, read_until};

#[test]
fn a_hanging_server_counts_the_clients_that_leave() {
    let model = Model::start(&["A=hang"]);
    let report = load(&model.url("A"), "--burst 7 --timeout 50ms");
    assert_eq!(report["errors"]["timeout"], 7);
    assert!(report["latency_ms"]["p50"].as_f64().unwrap() >= 50.0);
    model.wait("A", "aborted", 7);
    assert_eq!((model.stat("A", "in_flight"), model.stat("A", "answers")), (0, 0));
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let model = Model::start(&["A=k=1,first=1:20s"]);
    assert_eq!(load(&model.url("A"), "--burst 1 --timeout 50ms")["errors"]["timeout"], 1);
    assert_eq!(load(&model.url("A"), "--burst 3")["statuses"]["200"], 3);
}

#[test]
fn connections_break_where_they_should() {
    let model = Model::start(&["H=reset=header", "B=reset=body,body=100k", "G=garbage"]);
    let before = load(&model.url("H"), "--burst 5");
    assert_eq!(before["errors"]["reset"], 5);
    assert!(before["servers"].as_object().unwrap().is_empty());
    let within = load(&model.url("B"), "--burst 5");
    assert_eq!((&within["errors"]["reset"], &within["servers"]["B"]["errors"]), (&5.into(), &5.into()));
    assert_eq!(load(&model.url("G"), "--burst 5")["errors"]["protocol"], 5);
    for server in ["H", "B", "G"] {
        assert_eq!((model.stat(server, "requests"), model.stat(server, "answers")), (5, 0), "{server}");
    }
}

#[test]
fn failing_answers_can_overtake_the_queue() {
    let model = Model::start(&["A=k=1,service=const:20s", "B=fail=1:429,fast_fail,service=const:20s"]);
    let mut first = model.connect("A");
    first.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    model.wait("A", "in_service", 1);
    model.post("/set?server=A", "status=500,fast_fail");
    let report = load(&model.url("A"), "--burst 4 --timeout 10s");
    assert_eq!(report["statuses"]["500"], 4);
    assert_eq!(load(&model.url("B"), "--burst 4 --timeout 10s")["statuses"]["429"], 4);
    assert_eq!(model.stat("B", "service_us"), 0);
}

#[test]
fn connections_are_kept_until_the_server_gives_them_up() {
    let model = Model::start(&["A=", "B=close_idle=2", "C=close_idle=2:late", "D="]);
    for (server, words, connections) in [("A", "", 1), ("B", "", 5), ("C", "", 5), ("D", "--new-connections", 10)] {
        let report = load(&model.url(server), &format!("--concurrency 1 --requests 10 {words}"));
        assert_eq!((&report["error_count"], &report["statuses"]["200"]), (&0.into(), &10.into()), "{server}");
        assert_eq!(model.stat(server, "connections"), connections, "{server}");
    }
}

#[test]
fn a_slow_accept_delays_new_connections_only() {
    let model = Model::start(&["A=accept_delay=80ms"]);
    let lines = log(&model.url("A"), "--concurrency 1 --requests 4");
    assert!(lines[0].latency >= 80_000, "{lines:?}");
    assert!(lines[1..].iter().any(|line| line.latency < 80_000), "{lines:?}");
}

#[test]
fn a_streamed_body_follows_its_header_slowly() {
    let model = Model::start(&["A=body=1000,chunk_delay=20s"]);
    let mut stream = model.connect("A");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    read_until(&mut stream, b"Content-Length: 1000\r\n\r\n");
    drop(stream);
    model.wait("A", "aborted", 1);
    model.post("/set", "chunk_delay=120ms");
    let report = load(&model.url("A"), "--burst 2");
    assert_eq!(report["error_count"], 0);
    assert!(report["latency_ms"]["p50"].as_f64().unwrap() >= 119.0, "{report}");
}

#[test]
fn bodies_have_the_length_that_was_asked_for() {
    let model = Model::start(&["A=body=300k", "B=body=0", "C=status=204"]);
    for server in ["A", "B", "C"] {
        let report = load(&model.url(server), "--concurrency 2 --requests 6 --method POST --body-bytes 200000");
        assert_eq!(report["error_count"], 0, "{server}");
        assert_eq!(model.stat(server, "answers"), 6, "{server}");
        assert_eq!(load(&model.url(server), "--burst 3 --method HEAD")["error_count"], 0, "{server}");
    }
}

#[test]
fn an_upgraded_connection_echoes_until_it_closes() {
    let model = Model::start(&["A=service=const:1ms"]);
    let mut stream = model.connect("A");
    stream.write_all(b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly").unwrap();
    let head = read_until(&mut stream, b"\r\n\r\n");
    assert!(head.starts_with(b"HTTP/1.1 101 ") && String::from_utf8_lossy(&head).contains("X-Server: A"));
    read_until(&mut stream, b"early");
    stream.write_all(b"and late").unwrap();
    read_until(&mut stream, b"and late");
    assert_eq!(model.stat("A", "in_flight"), 1);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    model.wait("A", "answers", 1);
}
