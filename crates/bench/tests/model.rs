//! The model servers: places and their order, times, control at run time, and the end of the process.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;

use common::{Model, load, log, output, read_until, wait_for};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// The end of an answer with the usual 16 bytes of body.
const END: &[u8] = b"xxxxxxxxxxxxxxxx";

#[test]
fn no_more_than_k_are_worked_on() {
    let model = Model::start(&["A=k=3,service=const:20ms"]);
    let mut latencies: Vec<_> = log(&model.url("A"), "--burst 12").iter().map(|line| line.latency).collect();
    latencies.sort_unstable();
    assert_eq!(model.stat("A", "max_in_service"), 3);
    assert_eq!(model.stat("A", "max_in_flight"), 12);
    for (index, latency) in latencies.iter().enumerate() {
        let rounds = index as u64 / 3 + 1;
        assert!(*latency >= rounds * 20_000, "answer {index} after {latency} µs");
    }
}

#[test]
fn waiting_requests_are_served_in_order() {
    let model = Model::start(&["A=k=1,hang"]);
    model.post("/set", "hang=off,service=const:40ms");
    let (sender, receiver) = mpsc::channel();
    for index in 0..5 {
        let mut stream = model.connect("A");
        stream.write_all(GET).unwrap();
        wait_for("its arrival", || model.stat("A", "requests") == index + 1);
        let sender = sender.clone();
        std::thread::spawn(move || {
            read_until(&mut stream, END);
            sender.send(index).unwrap();
        });
    }
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn service_times_have_the_mean_that_was_asked_for() {
    let model = Model::start(&["A=service=exp:2ms"]);
    let report = load(&model.url("A"), "--concurrency 20 --requests 3000");
    let mean_us = model.stat("A", "service_us") / model.stat("A", "requests");
    assert!((1850..=2150).contains(&mean_us), "{mean_us}");
    // No answer can come before its service is over.
    assert!(report["latency_ms"]["mean"].as_f64().unwrap() * 1e3 >= mean_us as f64);
}

#[test]
fn network_time_occupies_no_place() {
    let model = Model::start(&["A=k=1,network=100ms"]);
    let lines = log(&model.url("A"), "--burst 8");
    assert!(lines.iter().all(|line| line.latency >= 100_000), "{lines:?}");
    assert_eq!(model.stat("A", "max_in_flight"), 8);
    assert_eq!(model.stat("A", "max_in_service"), 1);
}

#[test]
fn the_first_answers_and_the_own_load_add_time() {
    let model = Model::start(&["A=first=2:60ms,k=1", "B=per_inflight=20ms"]);
    let lines = log(&model.url("A"), "--concurrency 1 --requests 5");
    assert_eq!(lines.iter().filter(|line| line.latency >= 60_000).count(), 2, "{lines:?}");
    load(&model.url("B"), "--burst 4");
    // 20 ms each for 1, 2, 3 and 4 in flight.
    assert_eq!(model.stat("B", "service_us"), 200_000);
    model.post("/reset?server=A", "");
    let again = log(&model.url("A"), "--concurrency 1 --requests 5");
    assert_eq!(again.iter().filter(|line| line.latency >= 60_000).count(), 2, "{again:?}");
}

#[test]
fn behaviour_changes_at_run_time_or_not_at_all() {
    let model = Model::start(&["A=", "B="]);
    model.post("/set?server=A", "status=404,service=const:30ms");
    let report = load(&model.url("A"), "--burst 2");
    assert_eq!(report["statuses"]["404"], 2);
    assert!(report["latency_ms"]["p50"].as_f64().unwrap() >= 30.0);
    assert_eq!(load(&model.url("B"), "--burst 2")["statuses"]["200"], 2);
    let (status, error) = model.control("POST", "/set", "status=500,service=fast");
    assert!(status == 400 && error["error"].as_str().unwrap().contains("service"), "{error}");
    assert_eq!(load(&model.url("B"), "--burst 2")["statuses"]["200"], 2);
    for (method, target) in [("POST", "/set?server=C"), ("GET", "/set"), ("POST", "/stats"), ("POST", "/close?keep=2")]
    {
        assert_eq!(model.control(method, target, "k=1").0, 400, "{method} {target}");
    }
    model.post("/reset", "");
    assert_eq!(model.stat("A", "requests"), 0);
}

#[test]
fn a_raised_k_lets_waiting_requests_in() {
    let model = Model::start(&["A=k=1,service=const:10s"]);
    let mut streams: Vec<TcpStream> = (0..3).map(|_| model.connect("A")).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(GET).unwrap());
    model.wait("A", "waiting", 2);
    model.post("/set", "service=const:0,k=3");
    read_until(&mut streams[1], END);
    read_until(&mut streams[2], END);
}

#[test]
fn a_closed_server_refuses_and_comes_back_on_its_port() {
    let model = Model::start(&["A=hang"]);
    let mut open = model.connect("A");
    open.write_all(GET).unwrap();
    model.wait("A", "in_flight", 1);
    model.post("/close?server=A&keep=1", "");
    assert_eq!(load(&model.url("A"), "--burst 5")["errors"]["connect"], 5);
    assert_eq!(model.stat("A", "in_flight"), 1);
    model.post("/close", "");
    model.wait("A", "in_flight", 0);
    model.post("/open", "");
    model.post("/open", "");
    model.post("/set", "hang=off");
    assert_eq!(load(&model.url("A"), "--burst 5")["statuses"]["200"], 5);
}

#[test]
fn a_blocked_server_neither_accepts_nor_refuses() {
    let path = std::env::temp_dir().join(format!("labor-bench-block-{}.sock", std::process::id()));
    let model = Model::start(&["A=", &format!("U=listen=unix:{}", path.display())]);
    model.post("/block?server=A", "");
    let (_, stats) = model.control("GET", "/stats", "");
    assert_eq!((&stats["A"]["listening"], &stats["U"]["listening"]), (&"blocked".into(), &"open".into()));
    let report = load(&model.url("A"), "--burst 3 --timeout 100ms");
    assert_eq!((&report["errors"]["timeout"], model.stat("A", "connections")), (&3.into(), 0), "{report}");
    model.post("/close?server=A", "");
    assert_eq!(load(&model.url("A"), "--burst 3")["errors"]["connect"], 3);
    model.post("/block?server=A", "");
    model.post("/open?server=A", "");
    assert_eq!(load(&model.url("A"), "--burst 3")["statuses"]["200"], 3);
    assert_eq!(model.control("POST", "/block?server=U", "").0, 400);
}

#[test]
fn the_same_seed_fails_the_same_requests() {
    let outcomes = || {
        let model = Model::start(&["A=fail=0.3:500"]);
        let lines = log(&model.url("A"), "--concurrency 1 --requests 400");
        let failed: Vec<_> = lines.iter().map(|line| line.outcome == "500").collect();
        assert_eq!(model.stat("A", "failures"), failed.iter().filter(|failed| **failed).count() as u64);
        failed
    };
    let first = outcomes();
    assert!((90..=150).contains(&first.iter().filter(|failed| **failed).count()));
    assert_eq!(first, outcomes());
}

#[test]
fn unix_sockets_and_ipv6_work_and_the_socket_file_goes() {
    let path = std::env::temp_dir().join(format!("labor-bench-{}.sock", std::process::id()));
    let mut model = Model::start(&[&format!("A=listen=unix:{}", path.display()), "B=listen=[::1]:0"]);
    let report = load(&format!("http://unix:{}:/", path.display()), "--burst 3");
    assert_eq!(report["servers"]["A"]["count"], 3);
    assert_eq!(load(&model.url("B"), "--burst 3")["servers"]["B"]["count"], 3);
    model.close_stdin();
    assert!(model.ended() && !path.exists());
}

#[test]
fn a_signal_and_the_lifetime_end_the_process() {
    let mut model = Model::start(&["A="]);
    let pid = rustix::process::Pid::from_raw(model.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(model.ended());
    let output = output("model", &["--server", "A=", "--lifetime", "10ms", "--no-stdin"]);
    assert!(output.status.success() && output.stdout.starts_with(b"{\"control\":\"127.0.0.1:"));
}

#[test]
fn wrong_command_lines_say_why() {
    for (args, reason) in [
        (&["--server", "A=listen=0.0.0.0:0"][..], "not on this machine"),
        (&["--server", "A=", "--control", "192.0.2.1:0"], "not on this machine"),
        (&["--server", "A=", "--server", "A="], "given twice"),
        (&["--server", "A=colour=red"], "unknown word"),
    ] {
        let output = output("model", args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(reason), "{args:?}: {text}");
    }
}

#[test]
fn a_change_of_speed_stretches_and_shortens_what_is_under_way() {
    let model = Model::start(&["A=k=1,service=const:400ms,slow=1000000", "B=service=const:100ms"]);
    let asker = model.url("A");
    let waiting = std::thread::spawn(move || log(&asker, "--burst 2"));
    model.wait("A", "in_flight", 2);
    // Both stand still: only time passes, as long as another server's answer takes.
    assert!(log(&model.url("B"), "--burst 1")[0].latency >= 100_000);
    assert_eq!(model.stat("A", "answers"), 0);
    model.post("/set?server=A", "slow=0.01");
    model.wait("A", "answers", 2);
    let latencies: Vec<_> = waiting.join().unwrap().iter().map(|line| line.latency).collect();
    // At the first speed they would have taken days, at the usual one 400 and 800 ms after the change.
    assert!(latencies.iter().all(|latency| *latency >= 100_000), "{latencies:?}");
    assert!(model.stat("A", "service_us") >= 800_000);
}

#[test]
fn failing_answers_take_the_time_they_are_given() {
    let model = Model::start(&["A=k=1,service=const:30s,fail=1:500,fast_fail,fail_after=60ms,network=40ms"]);
    let lines = log(&model.url("A"), "--burst 4");
    assert!(lines.iter().all(|line| line.outcome == "500" && line.latency >= 100_000), "{lines:?}");
}
