//! The host that a probe names, and the name that TLS asks for.

use labor_probe_format::{authority, server_name};

#[test]
fn the_host_is_the_configured_name_with_the_port_that_is_asked() {
    for (name, port, tls, host) in [
        ("backend.example.com:8080", Some(8080), false, "backend.example.com:8080"),
        ("backend.example.com:8080", Some(9000), false, "backend.example.com:9000"),
        ("backend.example.com", Some(80), false, "backend.example.com"),
        ("backend.example.com:443", Some(443), true, "backend.example.com"),
        ("backend.example.com", Some(80), true, "backend.example.com:80"),
        ("127.0.0.1:80", Some(80), false, "127.0.0.1"),
        ("[::1]:19001", Some(19001), false, "[::1]:19001"),
        ("[::1]", Some(80), false, "[::1]"),
        ("unix:/run/app.sock", None, false, "localhost"),
    ] {
        assert_eq!(String::from_utf8(authority(name.as_bytes(), port, tls)).unwrap(), host, "{name}");
    }
}

#[test]
fn tls_asks_for_names_only() {
    for (host, name) in [
        ("backend.example.com:8443", Some("backend.example.com")),
        ("backend.example.com", Some("backend.example.com")),
        ("127.0.0.1:443", None),
        ("[::1]:443", None),
        ("::1", None),
        ("unix:/run/app.sock", None),
        ("", None),
    ] {
        assert_eq!(server_name(host.as_bytes()), name.map(str::as_bytes), "{host}");
    }
}
