//! What is shown, and what is said when something is wrong.

mod common;

use std::net::SocketAddr;

use rustix::net::{AddressFamily, SocketType};

use common::{Mock, finished, html, in_turn, json, program, run, socket_path, status};

fn url(mock: &Mock) -> String {
    format!("{}/labor", mock.http)
}

#[test]
fn the_status_is_a_table_with_units_and_words() {
    let mock = Mock::new(|_, _, _| json(200, &status(1234)));
    let (code, out, err) = run(&["status", "--url", &url(&mock)]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "web  fastest, last byte  1 of 2 servers usable");
    for word in [
        "10.0.0.1:80  ",
        " up ",
        "1.23 ms",
        "9.00 ms",
        "75.0 %",
        " 31 ",
        "5 (api, configured 1)",
        "fastest 93 %, tie 5 %",
        "faster, 12 s ago",
    ] {
        assert!(lines[2].contains(word), "{word:?} is missing in {:?}", lines[2]);
    }
    for word in ["10.0.0.2:80 (b.example) backup", "half open 61 s", " - ", " 3 "] {
        assert!(lines[3].contains(word), "{word:?} is missing in {:?}", lines[3]);
    }
    assert_eq!(lines[5], "api  fastest, header  0 of 1 servers usable");
    assert!(!out.contains('\u{1b}'), "no colours in a pipe");
    assert_eq!(mock.asked(), ["GET /labor"]);
}

#[test]
fn both_ways_lead_to_it_and_the_environment_can_say_where() {
    let mock = Mock::new(|_, path, head| {
        assert!(head.contains("\r\nAccept: application/json\r\n") && head.contains("\r\nHost: "), "{head}");
        let body = status(1000);
        let half = body.len() / 2;
        match path {
            // In chunks, as nginx sends what has no length.
            "/chunked" => format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{half:x}\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                &body[..half], body.len() - half, &body[half..]
            ).into(),
            _ => json(200, &body),
        }
    });
    for place in [format!("{}/chunked", mock.http), format!("{}/labor", mock.unix)] {
        let (code, out, err) = run(&["status", "--url", &place]);
        assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 8), "{place}: {out}");
        let output = program(&["status"]).env("LABOR_STATUS", &place).output().unwrap();
        assert_eq!(finished(output).1, out, "the environment says where");
    }
}

#[test]
fn one_upstream_is_asked_for_by_name() {
    let mock = Mock::new(|_, path, _| match path {
        "/labor?upstream=a%20%26b" => json(200, r#"{"version":1,"upstreams":{}}"#),
        _ => json(200, &status(1)),
    });
    assert_eq!(run(&["status", "web", "--url", &url(&mock)]).0, 0);
    assert_eq!(mock.asked(), ["GET /labor?upstream=web"]);
    for more in [&[][..], &["--json"]] {
        let (code, out, err) = run(&[&["status", "a &b", "--url", &url(&mock)], more].concat());
        assert_eq!((code, out.as_str()), (5, ""));
        assert!(err.contains("no upstream a &b") && err.contains("web, api"), "{err}");
    }
}

#[test]
fn servers_are_sorted_on_demand() {
    let body = r#"{"version":1,"upstreams":{"u":{"peers":[
        {"server":"a","labor":{"state":"up","latency_us":5}},{"server":"b","labor":{"state":"down"}},{"server":"c","labor":{"state":"up","latency_us":9}}]}}}"#;
    let mock = Mock::new(move |_, _, _| json(200, body));
    let order = |arguments: &[&str]| -> String {
        let (code, out, err) = run(&[&["status", "--url", &url(&mock)], arguments].concat());
        assert_eq!(code, 0, "{err}");
        out.lines().skip(2).map(|line| line.trim().chars().next().unwrap()).collect()
    };
    assert_eq!(order(&[]), "abc");
    assert_eq!(order(&["--sort", "latency"]), "cab");
    assert_eq!(order(&["--sort", "state"]), "bac");
    assert_eq!(order(&["--sort", "state", "--reverse"]), "cab");
}

#[test]
fn hostile_names_never_steer_the_terminal() {
    let evil = r#"\u001b]0;x\u0007\u001b[2J\u009b1m\u202eabc\r\n\u2028<script>\"'"#;
    let body = format!(
        r#"{{"version":1,"nginx":"{evil}","labor":"{evil}","time":"{evil}","upstreams":{{"{evil}":{{"peers":[{{"server":"{evil}","name":"x{evil}",
        "state":"{evil}","labor":{{"state":"{evil}","weight":{{"effective":1,"source":"{evil}"}},"picks":{{"{evil}":1}},
        "last_change":{{"reason":"{evil}","seconds_ago":1,"detail":"{evil}"}}}}}}],
        "labor":{{"policy":"{evil}","metric":"{evil}","events":[{{"time":"{evil}","seconds_ago":1,"server":"{evil}","reason":"{evil}","detail":"{evil}"}}]}}}}}}}}"#
    );
    let raw = "\u{9b}2J\u{202e}\u{7f}";
    let refusal = format!(r#"{{"error":{{"status":400,"text":"{evil}{raw}","code":"X"}},"request_id":"{evil}"}}"#);
    let mock = Mock::new(move |_, path, _| match path {
        "/refused" => json(400, &refusal),
        "/type" => b"HTTP/1.1 200 OK\r\nContent-Type: a\xc2\x9b2J\r\n\r\n".to_vec(),
        "/moved" => b"HTTP/1.1 301 M\r\nLocation: http://a\xc2\x9b2J\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => json(200, &body),
    });
    let harmless = |text: &str| text.chars().all(|c| c == '\n' || c == '…' || (' '..='~').contains(&c) || c == 'µ');
    let place = url(&mock);
    for arguments in [&["status"][..], &["events"], &["top", "-n1"], &["status", "--json"], &["status", "none"]] {
        let (code, out, err) = run(&[arguments, &["--url", &place]].concat());
        assert_eq!(code, 0, "{arguments:?}: {err}");
        assert!(harmless(&out) && harmless(&err), "{arguments:?} lets something through: {out:?} {err:?}");
        assert!(out.contains("abc"), "{arguments:?} shows the name: {out}");
    }
    for (path, code) in [("/refused", 1), ("/type", 6), ("/moved", 1)] {
        let (got, out, err) = run(&["status", "--url", &format!("{}{path}", mock.http)]);
        assert_eq!((got, out.as_str()), (code, ""), "{path}: {err}");
        assert!(harmless(&err), "{path}: {err:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_advice_and_a_status() {
    let mock = Mock::new(|_, path, _| match path {
        "/403" => html(403),
        "/401" => html(401),
        "/404" => html(404),
        "/301" => html(301),
        "/502" => html(502),
        "/html" => html(200),
        "/else" => json(200, r#"{"status":"fine"}"#),
        "/broken" => json(200, r#"{"version":1,"upst"#),
        "/version" => json(200, r#"{"version":2,"upstreams":{}}"#),
        "/ssh" => b"SSH-2.0-OpenSSH\r\n".to_vec(),
        "/short" => b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{}".to_vec(),
        "/large" => {
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{}".to_vec()
        }
        _ => Vec::new(),
    });
    for (path, code, words) in [
        ("/403", 1, "allow and deny"),
        ("/401", 1, "USER:PASSWORD"),
        ("/404", 1, "path right"),
        ("/301", 1, "points to /else"),
        ("/502", 1, "error log"),
        ("/html", 6, "labor_status location"),
        ("/else", 6, "labor_status location"),
        ("/broken", 6, "not labor's"),
        ("/version", 6, "version 2"),
        ("/ssh", 3, "HTTP"),
        ("/short", 3, "middle"),
        ("/large", 3, "64 MiB"),
        ("/nothing", 3, "middle"),
    ] {
        let (got, out, err) = run(&["status", "--url", &format!("{}{path}", mock.http)]);
        assert_eq!((got, out.as_str()), (code, ""), "{path}: {err}");
        assert!(err.starts_with("labor-ctl: ") && err.contains(words), "{path}: {err}");
    }
}

#[test]
fn nobody_there_and_somebody_silent_are_told_apart() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // Bound but not listening: refused, and nobody else gets the port.
    let held = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&held, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let gone = SocketAddr::try_from(rustix::net::getsockname(&held).unwrap()).unwrap();
    let missing = socket_path();
    for (place, words) in [
        (format!("http://{gone}/"), "cannot connect"),
        (format!("unix:{}:/", missing.display()), "no such socket"),
        (format!("http://{}/", silent.local_addr().unwrap()), "no answer within 0.3 s"),
        ("http://name.invalid/".into(), "cannot connect"),
    ] {
        let (code, out, err) = run(&["status", "--timeout", "300ms", "--url", &place]);
        // A resolver that has nobody to ask may be silent too.
        let said = err.contains(words) || (place.contains("invalid") && err.contains("no answer"));
        assert!(code == 3 && out.is_empty() && said, "{place}: {code} {err}");
    }
}

#[test]
fn wrong_usage_is_two_and_passwords_are_not_shown() {
    for arguments in [
        &["frob"][..],
        &[],
        &["status", "--url", "ftp://x"],
        &["top", "--interval", "0"],
        &["top", "--json"],
        &["weight", "a", "65536"],
        &["weight", "a"],
        &["max-conns", "a", "-1"],
        &["drain", ""],
        &["status", "--timeout", "1d"],
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
    }
    let (code, _, err) = run(&["status", "--url", "http://me:secret@127.0.0.1:1/x"]);
    assert!(code == 3 && !err.contains("secret"), "{err}");
    let output = program(&["status", "--help"]).env("LABOR_STATUS", "http://me:secret@h/").output().unwrap();
    assert!(!finished(output).1.contains("secret"));
}

#[test]
fn json_is_what_the_server_said() {
    let mock = Mock::new(|_, _, _| json(200, &status(7)));
    let (code, out, _) = run(&["status", "--json", "--url", &url(&mock)]);
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!((code, parse(&out)), (0, parse(&status(7))));
}

#[test]
fn events_are_a_log_with_the_newest_last() {
    let mock = Mock::new(|_, _, _| json(200, &status(1)));
    let (code, out, err) = run(&["events", "--url", &url(&mock)]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        [
            "2026-12-01T03:39:00.000Z  web  reload",
            "2026-12-01T03:39:30.000Z  api 10.0.0.1:80  drained",
            "2026-12-01T03:39:58.000Z  web 10.0.0.2:80  lowered: 3 failures",
        ]
    );
}

#[test]
fn followed_events_are_printed_once() {
    use std::io::BufRead;
    let event = r#"{"time":"T2","seconds_ago":0,"server":"10.0.0.1:80","reason":"up","detail":null},"#;
    let later = status(1)
        .replace(r#""events":["#, &format!(r#""events":[{event}"#))
        .replace("\"seconds_ago\":60", "\"seconds_ago\":61");
    let mock = Mock::new(in_turn(&[status(1), status(1), later]));
    let mut command = program(&["events", "web", "--follow", "-i", "10ms", "--url", &url(&mock)]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Vec<String> = lines.by_ref().take(3).collect();
    assert!(first[0].ends_with("web  reload") && first[2].ends_with("lowered: 3 failures"), "{first:?}");
    let new: Vec<String> = lines.by_ref().take(2).collect();
    assert_eq!(new, ["T2  api 10.0.0.1:80  up", "T2  web 10.0.0.1:80  up"]);
    child.kill().unwrap();
    assert_eq!(lines.count(), 0, "nothing twice");
    child.wait().unwrap();
}

#[test]
fn there_are_completions_and_a_manual_page() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&["completions", shell]);
        assert!(code == 0 && out.contains("max-conns"), "{shell}");
    }
    let (code, out, _) = run(&["man"]);
    assert!(code == 0 && out.contains(".TH labor-ctl 1") && out.contains("Exit status"), "{out}");
}
