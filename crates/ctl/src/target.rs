//! Where to ask: `http://host:port/path`, or `unix:/path/to.sock:/uri` as nginx writes it.

use std::fmt;
use std::path::PathBuf;

use crate::text::printable;

/// A place that answers HTTP.
#[derive(Clone, Debug)]
pub struct Target {
    /// How to get there.
    pub transport: Transport,
    /// Value of the `Host` header.
    pub host: String,
    /// Value of the `Authorization` header, from `user:password@`.
    pub authorization: Option<String>,
    /// Path and query, as sent: starts with a slash, printable ASCII only.
    pub path: String,
}

/// The ways to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A host name or address without brackets, and a port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(PathBuf),
}

impl Target {
    /// Reads an URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Self, String> {
        if let Some(rest) = url.strip_prefix("unix:") {
            // A path with a colon cannot be written, as in nginx.
            let (socket, path) = rest.split_once(':').unwrap_or((rest, "/"));
            if socket.is_empty() {
                return Err("no path of a socket: unix:/path/to.sock:/uri".into());
            }
            let transport = Transport::Unix(socket.into());
            return Ok(Self { transport, host: "localhost".into(), authorization: None, path: checked(path)? });
        }
        if url.starts_with("https://") {
            return Err("https is not supported: use a listener on this host's loopback or a unix socket (over ssh -L from elsewhere)".into());
        }
        let rest = url.strip_prefix("http://").ok_or("neither http://HOST:PORT/PATH nor unix:/path/to.sock:/uri")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let transport = tcp(host)?;
        let authorization = user.map(decoded).transpose()?.map(|user| format!("Basic {}", base64(&user)));
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_string() };
        let path = if path.is_empty() { "/".into() } else { checked(&path)? };
        Ok(Self { transport, host: host.into(), authorization, path })
    }

    /// The resource `segments` below this one; each becomes exactly one segment, whatever it contains.
    #[must_use]
    pub fn below(&self, segments: &[&str]) -> Self {
        let base = self.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        let path = segments.iter().fold(base.to_string(), |path, segment| path + "/" + &encoded(segment));
        Self { path, ..self.clone() }
    }

    /// This resource with one more argument in its query.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        Self { path: format!("{}{mark}{name}={}", self.path, encoded(value)), ..self.clone() }
    }
}

/// Never with the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Tcp(..) => write!(f, "http://{}{}", self.host, self.path),
            Transport::Unix(socket) => write!(f, "unix:{}:{}", printable(&socket.to_string_lossy()), self.path),
        }
    }
}

fn tcp(authority: &str) -> Result<Transport, String> {
    // The square brackets are those of IPv6.
    let end = authority.find(']').map_or(0, |at| at + 1);
    let (host, port) = match authority.get(end..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => authority.split_at(end + colon),
        None => (authority, ""),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("the port is no number from 1 to 65535")?,
        None => 80,
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let name = bare.unwrap_or(host);
    let good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c) || (bare.is_some() && c == ':');
    if name.is_empty() || !name.chars().all(good) {
        return Err("no host name or address there (IPv6 in square brackets)".into());
    }
    Ok(Transport::Tcp(name.into(), port))
}

/// A path that can stand in a request line.
fn checked(path: &str) -> Result<String, String> {
    if !path.starts_with('/') {
        return Err(format!("the path \"{}\" does not start with a slash", printable(path)));
    }
    if !path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return Err("blanks, # and what is not ASCII must be written as %20, %23, … in the path".into());
    }
    Ok(path.into())
}

/// Everything but the unreserved characters of RFC 3986, 2.3, as %XX.
fn encoded(segment: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    segment.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(if b == b'%' {
            let pair = [bytes.next(), bytes.next()].map(|b| b.and_then(|b| char::from(b).to_digit(16)));
            let [Some(high), Some(low)] = pair else { return Err("a % in user or password is no %XX".into()) };
            u8::try_from(high * 16 + low).unwrap_or_default()
        } else {
            b
        });
    }
    Ok(out)
}

/// RFC 4648, section 4, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_usize, |word, b| word << 8 | usize::from(*b)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = char::from(DIGITS[word >> (18 - 6 * place) & 63]);
            out.push(if place > chunk.len() { '=' } else { digit });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (Transport, String, String) {
        let target = Target::parse(url).unwrap();
        (target.transport, target.host, target.path)
    }

    #[test]
    fn urls_are_understood() {
        let tcp = |host: &str, port| Transport::Tcp(host.into(), port);
        assert_eq!(parts("http://h:81/labor?a=b"), (tcp("h", 81), "h:81".into(), "/labor?a=b".into()));
        assert_eq!(parts("http://h"), (tcp("h", 80), "h".into(), "/".into()));
        assert_eq!(parts("http://h?x"), (tcp("h", 80), "h".into(), "/?x".into()));
        assert_eq!(parts("http://[::1]:8081/x"), (tcp("::1", 8081), "[::1]:8081".into(), "/x".into()));
        assert_eq!(parts("http://[::1]/"), (tcp("::1", 80), "[::1]".into(), "/".into()));
        assert_eq!(
            parts("unix:/run/a b.sock:/api/"),
            (Transport::Unix("/run/a b.sock".into()), "localhost".into(), "/api/".into())
        );
        assert_eq!(parts("unix:/run/a.sock").2, "/");
    }

    #[test]
    fn mistakes_are_named() {
        for (url, word) in [
            ("127.0.0.1:80", "neither"),
            ("https://h/", "https"),
            ("http://h:0/", "port"),
            ("http://h:x/", "port"),
            ("http:///x", "host"),
            ("http://a b/", "host"),
            ("http://::1/", "host"),
            ("http://h/a b", "%20"),
            ("http://h/a\r\nX: y", "%20"),
            ("http://h/ü", "%20"),
            ("unix::/x", "socket"),
            ("unix:/s:x", "slash"),
            ("http://a%zz@h/", "%XX"),
        ] {
            let error = Target::parse(url).expect_err(url);
            assert!(error.contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn a_name_stays_one_segment() {
        let api = Target::parse("unix:/s:/api/").unwrap();
        assert_eq!(api.below(&["upstreams", "a/b?c#%\u{e9} \r"]).path, "/api/upstreams/a%2Fb%3Fc%23%25%C3%A9%20%0D");
        assert_eq!(Target::parse("http://h").unwrap().below(&["x"]).path, "/x");
        assert_eq!(Target::parse("http://h/s?a=b").unwrap().with("upstream", "x&y").path, "/s?a=b&upstream=x%26y");
        assert_eq!(api.with("upstream", "u").path, "/api/?upstream=u");
    }

    #[test]
    fn a_password_is_sent_and_never_shown() {
        let target = Target::parse("http://me:p%40ss@h:8081/api").unwrap();
        assert_eq!(target.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        assert_eq!(target.to_string(), "http://h:8081/api");
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|s| base64(s.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
