//! The load generator: what latency means, its kinds of load, its limits.

mod common;

use common::{Model, load, log, output};

#[test]
fn latency_counts_from_the_moment_a_request_was_due() {
    // The first request stalls the only place for 300 ms: all that are due meanwhile wait for the rest of that time.
    let model = Model::start(&["A=k=1,first=1:300ms"]);
    let lines = log(&model.url("A"), "--rate 200 --uniform --requests 80");
    assert_eq!(lines.len(), 80);
    let begin = lines[0].due;
    for line in &lines {
        assert_eq!((line.due - begin) % 5_000, 0, "{line:?}");
        assert!(line.latency + (line.due - begin) >= 300_000, "{line:?}");
    }
}

#[test]
fn a_client_that_cannot_send_in_time_still_counts_from_the_schedule() {
    // Every connection is accepted late, so that the queue is in front of the server, where the server cannot see it.
    let model = Model::start(&["A=accept_delay=100ms"]);
    let lines = log(&model.url("A"), "--burst 6 --new-connections");
    assert!(lines.iter().all(|line| line.due == 0 && line.latency >= 100_000), "{lines:?}");
}

#[test]
fn poisson_arrivals_have_the_rate_and_depend_on_the_seed() {
    let model = Model::start(&["A="]);
    let due = |seed: &str| -> Vec<u64> {
        let lines = log(&model.url("A"), &format!("--rate 5000 --requests 2000 --seed {seed}"));
        lines.iter().map(|line| line.due).collect()
    };
    let first = due("1");
    assert_eq!(first, due("1"));
    assert_ne!(first, due("2"));
    assert!((360_000..440_000).contains(first.last().unwrap()), "{:?}", first.last());
    // Exponential gaps: a share of 1/e is longer than the mean of 200 µs.
    let long = first.windows(2).filter(|pair| pair[1] - pair[0] > 200).count();
    assert!((640..830).contains(&long), "{long}");
}

#[test]
fn a_closed_loop_keeps_to_its_concurrency_and_a_burst_does_not_wait() {
    let model = Model::start(&["A=service=const:2ms", "B=service=const:200ms"]);
    assert_eq!(load(&model.url("A"), "--concurrency 5 --requests 100")["count"], 100);
    assert!(model.stat("A", "max_in_flight") <= 5);
    load(&model.url("B"), "--burst 50");
    assert_eq!(model.stat("B", "max_in_flight"), 50);
}

#[test]
fn the_duration_is_a_bound_and_too_many_in_flight_overflow() {
    let model = Model::start(&["A=hang"]);
    let report = load(&model.url("A"), "--rate 1000 --duration 100ms --timeout 200ms --max-inflight 10");
    let (timeouts, overflow) = (&report["errors"]["timeout"], &report["errors"]["overflow"]);
    assert_eq!(timeouts, 10, "{report}");
    assert_eq!(overflow.as_u64().unwrap() + 10, report["count"].as_u64().unwrap());
    assert!((40..=200).contains(&report["count"].as_u64().unwrap()));
}

#[test]
fn a_slow_reader_takes_its_time() {
    let model = Model::start(&["A=body=200k"]);
    let report = load(&model.url("A"), "--burst 1 --read-rate 1000000");
    assert_eq!(report["error_count"], 0);
    assert!(report["latency_ms"]["max"].as_f64().unwrap() >= 195.0, "{report}");
}

#[test]
fn shares_and_timeline_add_up() {
    let model = Model::start(&["A=service=const:1ms"]);
    let report = load(&model.url("A"), "--rate 500 --uniform --requests 100 --timeline 50ms");
    assert_eq!(report["servers"]["A"]["share"], 1.0);
    let buckets = report["timeline"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum::<u64>(), 100);
    assert_eq!(buckets[1]["count"], 25);
    let other = load(&model.url("A"), "--burst 2 --server-header X-Inflight");
    assert!(other["servers"].get("A").is_none() && other["servers"].get("1").is_some(), "{other}");
}

#[test]
fn other_machines_and_unbounded_runs_are_refused() {
    for (args, reason) in [
        (&["--url", "http://192.0.2.1/", "--rate", "1"][..], "not on this machine"),
        (&["--url", "http://example.com/", "--rate", "1"], "names are not resolved"),
        (&["--url", "http://127.0.0.1:1/", "--rate", "0"], "--rate"),
        (&["--url", "http://127.0.0.1:1/", "--rate", "1", "--requests", "11m"], "more than"),
        (&["--url", "http://127.0.0.1:1/", "--rate", "1", "--duration", "61m"], "longer than 1 h"),
        (&["--url", "http://127.0.0.1:1/", "--rate", "1", "--burst", "1"], "cannot be used with"),
        (&["--url", "http://127.0.0.1:1/"], "required"),
        (&["--url", "http://127.0.0.1:1/", "--burst", "1", "--header", "x"], "NAME: VALUE"),
    ] {
        let output = output("load", args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(reason), "{args:?}: {text}");
    }
}

#[test]
fn the_table_is_for_people() {
    let model = Model::start(&["A=fail=1:502"]);
    let output = output("load", &["--url", &model.url("A"), "--burst", "3"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("3 requests in ") && text.contains("status_5xx: 3") && text.contains("100.0%"), "{text}");
}

#[test]
fn a_burst_can_come_before_the_steady_load() {
    let model = Model::start(&["A="]);
    let lines = log(&model.url("A"), "--rate 1000 --uniform --at-start 30 --requests 50");
    assert_eq!(lines.iter().filter(|line| line.due == 0).count(), 30);
    assert_eq!(lines.last().unwrap().due, 20_000);
}
