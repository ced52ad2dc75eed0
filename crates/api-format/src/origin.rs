//! Whether a browser says that a request comes from a page of another site.
//!
//! Tools send neither header. Not here: what is refused for it.

/// Whether the `Origin` of a request is the server it was sent to. Default ports may stand or be left out.
pub fn is_own(origin: &[u8], host: &[u8]) -> bool {
    let origin = origin.to_ascii_lowercase();
    let (authority, usual) = if let Some(rest) = origin.strip_prefix(b"http://") {
        (rest, &b"80"[..])
    } else if let Some(rest) = origin.strip_prefix(b"https://") {
        (rest, &b"443"[..])
    } else {
        // "null" (sandboxed pages, files), and schemes that no server of nginx answers.
        return false;
    };
    let host = host.to_ascii_lowercase();
    let own = split(&host, usual);
    own.is_some() && split(authority, usual) == own
}

/// Host and port of an authority (RFC 3986, section 3.2), with the scheme's own port where none is named. `None` for what is no
/// authority of a server: without a host, with two ports, with a path or a user.
fn split<'a>(authority: &'a [u8], usual: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let from = if authority.first() == Some(&b'[') { authority.iter().position(|byte| *byte == b']')? } else { 0 };
    let colon = authority.get(from..)?.iter().position(|byte| *byte == b':').map(|at| from + at);
    let (host, port) = match colon {
        Some(at) => (authority.get(..at)?, authority.get(at + 1..)?),
        None => (authority, usual),
    };
    let whole = !host.is_empty() && !host.iter().any(|byte| matches!(byte, b'/' | b'@' | b'?' | b'#'));
    (whole && !port.is_empty() && port.iter().all(u8::is_ascii_digit)).then_some((host, port))
}

/// Whether `Sec-Fetch-Site` names another site or another host of the same one. Unknown words count as foreign.
pub fn is_foreign_site(value: &[u8]) -> bool {
    !matches!(value.to_ascii_lowercase().as_slice(), b"same-origin" | b"none")
}

/// Whether a `Content-Type` is JSON, with or without parameters.
pub fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_origins() {
        for (origin, host) in [
            ("http://localhost:8081", "localhost:8081"),
            ("http://Localhost", "localhost"),
            ("http://localhost", "localhost:80"),
            ("https://labor.example:443", "labor.example"),
            ("http://[::1]:8081", "[::1]:8081"),
            ("http://[::1]", "[::1]:80"),
        ] {
            assert!(is_own(origin.as_bytes(), host.as_bytes()), "{origin} {host}");
        }
    }

    #[test]
    fn foreign_origins() {
        for (origin, host) in [
            ("null", "null"),
            ("http://evil.example", "localhost:8081"),
            ("http://localhost:8082", "localhost:8081"),
            ("http://localhost:8081.evil.example", "localhost:8081"),
            ("http://localhost", "localhost:443"),
            ("file://", ""),
            ("http://", ""),
            ("", ""),
            ("http://localhost:8081/", "localhost:8081"),
            ("http://localhost:443", "localhost:443:80"),
            ("http://localhost:", "localhost:"),
            ("http://a@localhost", "a@localhost"),
            ("http://[::1", "[::1"),
        ] {
            assert!(!is_own(origin.as_bytes(), host.as_bytes()), "{origin} {host}");
        }
    }

    #[test]
    fn sites() {
        assert!([&b"cross-site"[..], b"same-site", b"", b"x"].into_iter().all(is_foreign_site));
        assert!(![&b"same-origin"[..], b"none", b"None"].into_iter().any(is_foreign_site));
    }

    #[test]
    fn content_types() {
        assert!(
            [&b"application/json"[..], b"Application/JSON; charset=utf-8", b" application/json ;"]
                .into_iter()
                .all(is_json)
        );
        assert!(
            ![&b""[..], b"text/plain", b"application/jsonx", b"application/json-patch+json"].into_iter().any(is_json)
        );
    }
}
