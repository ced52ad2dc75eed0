//! Whether a browser says that a request comes from a page of another site.
//!
//! Tools send neither header. Not here: what is refused for it.

/// Whether the `Origin` of a request is the server it was sent to. Default ports may stand or be left out.
pub fn is_own(origin: &[u8], host: &[u8]) -> bool {
    let origin = origin.to_ascii_lowercase();
    let (authority, port) = if let Some(rest) = origin.strip_prefix(b"http://") {
        (rest, &b":80"[..])
    } else if let Some(rest) = origin.strip_prefix(b"https://") {
        (rest, &b":443"[..])
    } else {
        // "null" (sandboxed pages, files), and schemes that no server of nginx answers.
        return false;
    };
    let host = host.to_ascii_lowercase();
    let bare = |text: &[u8]| text.strip_suffix(port).unwrap_or(text).to_vec();
    !authority.is_empty() && bare(authority) == bare(&host)
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
