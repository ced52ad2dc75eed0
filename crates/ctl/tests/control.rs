//! Changes: which requests are sent, and what is said of their answers.

mod common;

use std::sync::Mutex;

use common::{Mock, finished, html, json, program, run, status};

/// One server as the API answers it.
fn server(address: &str, weight: &str, state: &str) -> String {
    format!(
        r#"{{"id":0,"server":"{address}","weight":1,"state":"up","labor":{{"weight":{weight},
        "max_conns":{{"effective":0,"configured":0,"source":"configuration"}},"state":{state}}}}}"#
    )
}

const WEIGHT_1: &str = r#"{"effective":1,"configured":1,"source":"configuration"}"#;
const UP: &str = r#"{"effective":"up","configured":"up","source":"configuration"}"#;

/// An API with the upstreams of `status`: 10.0.0.1:80 in web and api, 10.0.0.2:80 in web, whatever is sent is said back.
fn api() -> Mock {
    let peers: serde_json::Value = serde_json::from_str(&status(1)).unwrap();
    let peers = peers["upstreams"].to_string();
    Mock::new(move |method, path, _| {
        let address = if path.contains("10.0.0.2") { "10.0.0.2:80" } else { "10.0.0.1:80" };
        match (method, path) {
            ("GET", "/api/upstreams") => json(200, &peers),
            ("GET", _) | ("DELETE", _) if path.ends_with("/overrides") || method == "GET" => {
                json(200, &server(address, WEIGHT_1, UP))
            }
            ("PATCH", _) => json(
                200,
                &server(
                    address,
                    r#"{"effective":5,"configured":1,"source":"api"}"#,
                    r#"{"effective":"drain","configured":"up","source":"api"}"#,
                ),
            ),
            ("DELETE", "/api/upstreams/web/statistics") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            _ => json(
                404,
                r#"{"error":{"status":404,"text":"upstream not found","code":"UpstreamNotFound"},"request_id":"r1","href":"h"}"#,
            ),
        }
    })
}

/// Runs a command against `mock` over its unix socket.
fn ctl(mock: &Mock, arguments: &[&str]) -> (i32, String, String) {
    let place = format!("{}/api/", mock.unix);
    run(&[arguments, &["--api", &place]].concat())
}

#[test]
fn each_command_sends_what_it_says() {
    let mock = api();
    let patch = |body: &str| format!("PATCH /api/upstreams/web/servers/10.0.0.2%3A80 json {body}");
    for (arguments, request, said) in [
        (
            &["drain", "10.0.0.2:80"][..],
            patch(r#"{"state":"drain"}"#),
            "web 10.0.0.2:80: drain (api, configured up), was up",
        ),
        (&["down", "10.0.0.2"], patch(r#"{"state":"down"}"#), "web 10.0.0.2:80: drain (api, configured up), was up"),
        (&["up", "b.example"], patch(r#"{"state":"up"}"#), "web 10.0.0.2:80: drain (api, configured up), was up"),
        (
            &["weight", "10.0.0.2:80", "5"],
            patch(r#"{"weight":5}"#),
            "web 10.0.0.2:80: weight 5 (api, configured 1), was weight 1",
        ),
        (&["weight", "1", "default", "-u", "web"], patch(r#"{"weight":null}"#), "web 10.0.0.2:80: weight 5"),
        (&["max-conns", "10.0.0.2:80", "0"], patch(r#"{"max_conns":0}"#), "max_conns no limit, was max_conns no limit"),
        (
            &["clear", "10.0.0.2:80"],
            "DELETE /api/upstreams/web/servers/10.0.0.2%3A80/overrides".into(),
            "web 10.0.0.2:80: up, weight 1, max_conns no limit, was up, weight 1, max_conns no limit",
        ),
    ] {
        let (code, out, err) = ctl(&mock, arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        assert!(out.contains(said), "{arguments:?}: {out}");
        let asked = mock.asked();
        assert_eq!(asked.last(), Some(&request), "{arguments:?}");
        assert_eq!(asked.len(), 3, "the list, the server as it was, the change: {asked:?}");
    }
    let (code, out, _) = ctl(&mock, &["reset", "web"]);
    assert_eq!((code, out.as_str()), (0, "web: statistics and learning reset\n"));
    assert_eq!(mock.asked(), ["DELETE /api/upstreams/web/statistics"]);
}

#[test]
fn nothing_is_changed_when_it_is_not_clear_which() {
    let mock = api();
    let (code, out, err) = ctl(&mock, &["down", "10.0.0.1:80"]);
    assert_eq!((code, out.as_str()), (4, ""));
    assert!(err.contains("web 10.0.0.1:80") && err.contains("api 10.0.0.1:80") && err.contains("--upstream"), "{err}");
    for (arguments, words) in [
        (&["down", "10.0.0.3:80"][..], "10.0.0.2:80"),
        (&["down", "10.0.0.1:80", "--upstream", "none"], "api, web"),
        (&["down", "10.0.0.2:80", "--upstream", "api"], "10.0.0.1:80"),
    ] {
        let (code, out, err) = ctl(&mock, arguments);
        assert_eq!((code, out.as_str()), (5, ""), "{arguments:?}");
        assert!(err.contains(words), "{arguments:?}: {err}");
    }
    assert!(mock.asked().iter().all(|request| request == "GET /api/upstreams"));
}

#[test]
fn all_are_changed_on_demand_and_an_error_does_not_stop_the_others() {
    let mock = api();
    let (code, out, _) = ctl(&mock, &["drain", "10.0.0.1:80", "--all"]);
    assert_eq!((code, out.lines().count()), (0, 2), "{out}");

    let peers = serde_json::from_str::<serde_json::Value>(&status(1)).unwrap()["upstreams"].to_string();
    let mock = Mock::new(move |method, path, _| match (method, path) {
        ("GET", "/api/upstreams") => json(200, &peers),
        ("PATCH", "/api/upstreams/web/servers/10.0.0.1%3A80") => html(500),
        _ => json(200, &server("10.0.0.1:80", WEIGHT_1, UP)),
    });
    let (code, out, err) = ctl(&mock, &["drain", "10.0.0.1:80", "--all"]);
    assert_eq!((code, out.lines().count()), (1, 1), "{out}");
    assert!(out.starts_with("api 10.0.0.1:80") && err.contains("web 10.0.0.1:80: "), "{out}{err}");
}

#[test]
fn twins_are_changed_by_number_and_only_while_it_is_theirs() {
    let peers = r#"{"u":{"peers":[{"id":0,"server":"10.0.0.1:80"},{"id":1,"server":"10.0.0.1:80","backup":true},{"id":2,"server":"10.0.0.3:80"}]}}"#;
    let now = std::sync::Arc::new(Mutex::new("10.0.0.1:80"));
    let shared = std::sync::Arc::clone(&now);
    let mock = Mock::new(move |_, path, _| match path {
        "/api/upstreams" => json(200, peers),
        _ => json(200, &server(&shared.lock().unwrap(), WEIGHT_1, UP)),
    });
    assert_eq!(ctl(&mock, &["drain", "10.0.0.1:80", "-u", "u"]).0, 4);
    mock.asked();
    assert_eq!(ctl(&mock, &["drain", "1", "-u", "u"]).0, 0);
    assert_eq!(mock.asked()[2], r#"PATCH /api/upstreams/u/servers/1 json {"state":"drain"}"#);
    // The list has changed between the two questions.
    *now.lock().unwrap() = "10.0.0.3:80";
    let (code, out, err) = ctl(&mock, &["drain", "1", "-u", "u"]);
    assert!(code == 5 && out.is_empty() && err.contains("changed meanwhile"), "{code} {err}");
    assert!(!mock.asked().iter().any(|request| request.starts_with("PATCH")));
}

#[test]
fn refusals_are_explained() {
    let refusal = |status: u16, code: &str| {
        json(
            status,
            &format!(
                r#"{{"error":{{"status":{status},"text":"the text","code":"{code}"}},"request_id":"abc123","href":"h"}}"#
            ),
        )
    };
    let peers = serde_json::from_str::<serde_json::Value>(&status(1)).unwrap()["upstreams"].to_string();
    for (path, answer, code, words) in [
        ("/off", refusal(405, "MethodDisabled"), 1, "write=on"),
        ("/bad", refusal(400, "UpstreamBadWeight"), 1, "the text (request abc123)"),
        ("/gone", refusal(404, "UpstreamServerNotFound"), 5, "status lists all"),
        ("/html", html(403), 1, "keep this host out"),
        ("/old", json(200, r#"{"id":0}"#), 6, "labor_api location"),
    ] {
        let peers = peers.clone();
        let mock = Mock::new(move |method, p, _| match method {
            "GET" if p.ends_with("/upstreams") => json(200, &peers),
            "GET" => json(200, &server("10.0.0.2:80", WEIGHT_1, UP)),
            _ => answer.clone(),
        });
        let place = format!("{}{path}", mock.http);
        let (got, out, err) = run(&["drain", "10.0.0.2:80", "--api", &place]);
        assert_eq!((got, out.as_str()), (code, ""), "{path}: {err}");
        assert!(err.contains(words), "{path}: {err}");
    }
    let (code, _, err) = ctl(&api(), &["reset", "none"]);
    assert!(code == 5 && err.contains("upstream not found"), "{err}");
}

#[test]
fn the_answers_themselves_and_the_environment_serve_scripts() {
    let mock = api();
    let place = format!("{}/api", mock.http.replace("http://", "http://me:pw@"));
    let output = program(&["weight", "10.0.0.2:80", "5", "--json"]).env("LABOR_API", place).output().unwrap();
    let (code, out, _) = finished(output);
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, answer["labor"]["weight"]["effective"].as_u64()), (0, Some(5)));
    assert_eq!(ctl(&mock, &["reset", "web", "--json"]).1, "");
}
