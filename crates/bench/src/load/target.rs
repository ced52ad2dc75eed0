//! Where the load goes: the URL, checked to be on this machine, and the bytes of the request.

use anyhow::{Context, Result, bail, ensure};

use crate::net::Endpoint;

/// A parsed `--url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where to connect.
    pub endpoint: Endpoint,
    host: String,
    path: String,
}

impl Target {
    /// Reads `http://ADDR[:PORT][/path]` or `http://unix:/path:/uri`. Refuses everything that is not loopback.
    pub fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("http://").with_context(|| format!("\"{url}\" does not begin with http://"))?;
        ensure!(url.bytes().all(|byte| byte.is_ascii_graphic()), "\"{url}\" holds spaces or control characters");
        if let Some(unix) = rest.strip_prefix("unix:") {
            let (path, uri) = unix.split_once(':').unwrap_or((unix, "/"));
            let endpoint = Endpoint::parse(&format!("unix:{path}"))?;
            return Ok(Self { endpoint, host: "localhost".to_owned(), path: uri.to_owned() });
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit()));
        let address = if has_port { host.to_owned() } else { format!("{host}:80") };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { endpoint: Endpoint::parse(&address)?, host: host.to_owned(), path: path.to_owned() })
    }

    /// The bytes of one request with `body_bytes` bytes of body; `headers` are whole lines, of which `Host` replaces ours.
    pub fn request(&self, method: &str, headers: &[String], body_bytes: usize, keepalive: bool) -> Result<Vec<u8>> {
        ensure!(!method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase()), "method \"{method}\"");
        let mut head = format!("{method} {} HTTP/1.1\r\n", self.path);
        let is_host = |line: &String| line.to_ascii_lowercase().starts_with("host:");
        if !headers.iter().any(is_host) {
            head += &format!("Host: {}\r\n", self.host);
        }
        for line in headers {
            if !line.contains(':') || line.contains(['\r', '\n']) {
                bail!("header \"{line}\" is not NAME: VALUE");
            }
            head += &format!("{line}\r\n");
        }
        if !keepalive {
            head += "Connection: close\r\n";
        }
        if body_bytes > 0 || matches!(method, "POST" | "PUT" | "PATCH") {
            head += &format!("Content-Length: {body_bytes}\r\n");
        }
        head += "\r\n";
        let mut request = head.into_bytes();
        request.resize(request.len() + body_bytes, b'x');
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_on_this_machine_are_read_and_others_refused() {
        let target = Target::parse("http://127.0.0.1:8080/a?b=c").unwrap();
        assert_eq!((target.host.as_str(), target.path.as_str()), ("127.0.0.1:8080", "/a?b=c"));
        assert_eq!(Target::parse("http://[::1]").unwrap().endpoint, Endpoint::parse("[::1]:80").unwrap());
        let unix = Target::parse("http://unix:/run/a.sock:/x").unwrap();
        assert_eq!((unix.endpoint, unix.path.as_str()), (Endpoint::parse("unix:/run/a.sock").unwrap(), "/x"));
        for bad in
            ["http://192.0.2.1/", "http://example.com/", "https://127.0.0.1/", "http://127.0.0.1/a b", "127.0.0.1"]
        {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_request_is_whole() {
        let target = Target::parse("http://127.0.0.1:1/").unwrap();
        let text = String::from_utf8(target.request("POST", &["X-A: b".into()], 2, false).unwrap()).unwrap();
        assert_eq!(
            text,
            "POST / HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-A: b\r\nConnection: close\r\nContent-Length: 2\r\n\r\nxx"
        );
        let own = String::from_utf8(target.request("GET", &["Host: b".into()], 0, true).unwrap()).unwrap();
        assert_eq!(own, "GET / HTTP/1.1\r\nHost: b\r\n\r\n");
        assert!(target.request("GET", &["a: b\r\nc: d".into()], 0, true).is_err());
        assert!(target.request("get it", &[], 0, true).is_err());
    }
}
