//! One HTTP/1.1 request on a connection of its own, over TCP or a unix socket, bounded in time and size.
//!
//! By hand, because it is little: no redirects (a write must go where it was sent), no TLS, no compression, nothing kept open.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::clock::Deadline;
use crate::target::{Target, Transport};

/// The largest answer that is read: the status of 10,000 servers has some 40 MB.
const MAX_BODY: usize = 64 << 20;
/// The largest head; nginx's own limit for what it gets from upstream servers is 4 or 8 KiB.
const MAX_HEAD: usize = 32 << 10;
/// Header lines; a labor location sends about eight.
const MAX_HEADERS: usize = 100;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// 200 to 599.
    pub status: u16,
    /// Header lines in their order.
    headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header line of that name, empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

/// Sends a request, with JSON where `body` is something, and reads the answer, all within `time`.
///
/// # Errors
/// No connection, no complete or no valid answer, or not in time.
pub fn request(target: &Target, method: &str, body: Option<&str>, time: Duration) -> io::Result<Answer> {
    let deadline = Deadline::after(time);
    let mut head = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: labor-ctl/{}\r\nAccept: application/json\r\nConnection: close\r\n",
        target.path,
        target.host,
        env!("CARGO_PKG_VERSION")
    );
    if let Some(authorization) = &target.authorization {
        head += &format!("Authorization: {authorization}\r\n");
    }
    if let Some(body) = body {
        head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    let message = format!("{head}\r\n{}", body.unwrap_or_default());
    match &target.transport {
        Transport::Tcp(host, port) => exchange(tcp(host, *port, deadline)?, &message, deadline),
        Transport::Unix(path) => exchange(unix(path)?, &message, deadline),
    }
}

/// What both kinds of sockets can do.
trait Socket: Read + Write {
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Socket for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

fn tcp(host: &str, port: u16, deadline: Deadline) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::other("the name has no address"));
    for address in resolve(host, port, deadline)? {
        result = TcpStream::connect_timeout(&address, deadline.left()?);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Names are looked up beside: the system's resolver takes no time limit.
fn resolve(host: &str, port: u16, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (sender, receiver) = mpsc::channel();
    let host = host.to_string();
    thread::spawn(move || sender.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter)));
    receiver.recv_timeout(deadline.left()?).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Does not wait for a listener whose queue is full, which the standard library would for ever.
fn unix(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn exchange<S: Socket>(mut socket: S, message: &str, deadline: Deadline) -> io::Result<Answer> {
    socket.limit(deadline.left()?)?;
    // Who refuses early may close before it has read all: the answer says more than the failed write.
    let sent = socket.write_all(message.as_bytes());
    let mut source = Source { socket, deadline, bytes: Vec::new(), at: 0 };
    match (source.answer(), sent) {
        (Err(_), Err(error)) => Err(timed(error)),
        (answer, _) => answer.map_err(timed),
    }
}

/// A socket's own time limit shows as "would block".
fn timed(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What has been read and how much of it is used.
struct Source<S> {
    socket: S,
    deadline: Deadline,
    bytes: Vec<u8>,
    at: usize,
}

impl<S: Socket> Source<S> {
    /// Reads some more; false at the end.
    fn more(&mut self) -> io::Result<bool> {
        if self.bytes.len() > MAX_BODY + MAX_HEAD {
            return Err(broken("the answer is longer than 64 MiB"));
        }
        self.socket.limit(self.deadline.left()?)?;
        let mut buffer = [0; 16 << 10];
        loop {
            match self.socket.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let count = read?;
                    self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    return Ok(count > 0);
                }
            }
        }
    }

    fn must_have_more(&mut self) -> io::Result<()> {
        if self.more()? { Ok(()) } else { Err(broken("the answer ends in the middle")) }
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Exactly `count` bytes.
    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        if count > MAX_BODY {
            return Err(broken("the answer is longer than 64 MiB"));
        }
        while self.rest().len() < count {
            self.must_have_more()?;
        }
        let taken = self.rest().get(..count).unwrap_or_default().to_vec();
        self.at += count;
        Ok(taken)
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.head()?;
        while answer.status < 200 {
            answer = self.head()?;
        }
        let length = answer.header("Content-Length");
        answer.body = match answer.status {
            204 | 304 => Vec::new(),
            _ if answer.header("Transfer-Encoding").eq_ignore_ascii_case("chunked") => self.chunks()?,
            _ if length.is_empty() => self.until_closed()?,
            _ => self.take(length.parse().map_err(|_| broken("the answer's Content-Length is no number"))?)?,
        };
        Ok(answer)
    }

    fn head(&mut self) -> io::Result<Answer> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            let parsed = response.parse(self.rest()).map_err(|_| broken("what answers does not speak HTTP"))?;
            if let httparse::Status::Complete(length) = parsed {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let headers = response.headers.iter().map(|h| (h.name.to_string(), text(h.value))).collect();
                let status = response.code.unwrap_or_default();
                self.at += length;
                return Ok(Answer { status, headers, body: Vec::new() });
            }
            if self.rest().len() > MAX_HEAD {
                return Err(broken("the answer's header is longer than 32 KiB"));
            }
            self.must_have_more()?;
        }
    }

    fn until_closed(&mut self) -> io::Result<Vec<u8>> {
        while self.more()? {}
        Ok(self.rest().to_vec())
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let parsed = httparse::parse_chunk_size(self.rest()).map_err(|_| broken("a chunk has no length"))?;
            let httparse::Status::Complete((line, size)) = parsed else {
                self.must_have_more()?;
                continue;
            };
            self.at += line;
            if size == 0 {
                return Ok(body);
            }
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            body.extend(self.take(size)?);
            if body.len() > MAX_BODY {
                return Err(broken("the answer is longer than 64 MiB"));
            }
            if self.take(2)? != b"\r\n" {
                return Err(broken("a chunk is longer than it says"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that sends a few bytes at a time and then ends.
    struct Drops(Vec<u8>, usize);

    impl Read for Drops {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    impl Write for Drops {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            Ok(text.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Socket for Drops {
        fn limit(&self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn read(text: &str, step: usize) -> io::Result<Answer> {
        exchange(Drops(text.as_bytes().to_vec(), step), "", Deadline::after(Duration::from_secs(60)))
    }

    #[test]
    fn bodies_end_where_the_head_says_wherever_the_pieces_are_cut() {
        for step in [1, 2, 3, 7, 1000] {
            let answer = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcd", step).unwrap();
            assert_eq!((answer.status, answer.body.as_slice()), (200, &b"ab"[..]), "step {step}");
            let chunked = "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 404 N\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
            let answer = read(chunked, step).unwrap();
            assert_eq!((answer.status, answer.body.as_slice()), (404, &b"abc0123456789"[..]), "step {step}");
            assert_eq!((answer.header("x"), answer.header("y")), ("y", ""));
            assert_eq!(read("HTTP/1.0 200 OK\r\n\r\nto the end", step).unwrap().body, b"to the end");
            assert_eq!(read("HTTP/1.1 204 N\r\n\r\n", step).unwrap().status, 204);
        }
    }

    #[test]
    fn what_is_cut_short_or_no_http_is_an_error() {
        for (text, word) in [
            ("", "middle"),
            ("HTTP/1.1 200", "middle"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "middle"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -9\r\n\r\nabc", "number"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabc", "64 MiB"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "middle"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "longer"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nabc\r\n", "64 MiB"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "length"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "HTTP"),
        ] {
            let error = read(text, 5).expect_err(text).to_string();
            assert!(error.contains(word), "{text:?}: {error}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(20_000));
        assert!(read(&endless, 1000).is_err());
    }
}
