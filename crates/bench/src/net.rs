//! Loopback addresses and the streams between them.
//!
//! Model servers and load exist for measurements on one machine. The type of an address is the guard: an [`Endpoint`] that
//! is not loopback cannot be built, so nothing here can be pointed at other people's servers by a typing error.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::{Result, bail};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Connections that may wait to be accepted; above what a burst of a test opens at once.
const BACKLOG: u32 = 4096;

/// An address on this machine: loopback TCP or a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// 127.0.0.0/8 or `::1`.
    Tcp(SocketAddr),
    /// A unix socket by path.
    Unix(PathBuf),
}

impl Endpoint {
    /// Reads `127.0.0.1:80`, `[::1]:80`, `localhost:80` or `unix:/path`; everything else is refused.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                bail!("\"{text}\" names no path");
            }
            return Ok(Self::Unix(path.into()));
        }
        let address = match text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
            Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            None => match text.parse::<SocketAddr>() {
                Ok(address) => address,
                Err(_) => bail!("\"{text}\" is not 127.0.0.1:PORT, [::1]:PORT or unix:/path (names are not resolved)"),
            },
        };
        if !address.ip().is_loopback() {
            bail!("\"{text}\" is not on this machine: only 127.0.0.0/8, ::1 and unix: are allowed");
        }
        Ok(Self::Tcp(address))
    }

    /// Opens a connection; `receive_buffer` (bytes) shrinks the kernel's buffer for slow readers.
    pub async fn connect(&self, receive_buffer: Option<u32>) -> io::Result<Stream> {
        match self {
            Self::Tcp(address) => {
                let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                if let Some(bytes) = receive_buffer {
                    socket.set_recv_buffer_size(bytes)?;
                }
                let stream = socket.connect(*address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address that is ours, listening or not: connections are refused until [`Reserved::listen`].
pub enum Reserved {
    /// Bound without listening, so that nobody else can take the port.
    Tcp(TcpSocket),
    /// A path; the file appears on listening.
    Unix(PathBuf),
}

impl Reserved {
    /// Takes the address; port 0 becomes a free port, which the returned endpoint tells.
    pub fn bind(endpoint: &Endpoint) -> io::Result<(Self, Endpoint)> {
        match endpoint {
            Endpoint::Tcp(address) => {
                let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                socket.set_reuseaddr(true)?;
                socket.bind(*address)?;
                let chosen = socket.local_addr()?;
                Ok((Self::Tcp(socket), Endpoint::Tcp(chosen)))
            }
            Endpoint::Unix(path) => Ok((Self::Unix(path.clone()), endpoint.clone())),
        }
    }

    /// Starts to accept.
    pub fn listen(self) -> io::Result<Listener> {
        self.listen_for(BACKLOG)
    }

    /// Listens with room for a single connection, and takes that room itself: later connections to a TCP address neither
    /// succeed nor fail until both are dropped. Refused for unix sockets, where connecting fails at once.
    pub async fn block(self, endpoint: &Endpoint) -> io::Result<(Listener, Stream)> {
        if let Self::Unix(_) = self {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a unix socket with a full queue refuses at once"));
        }
        // The kernel's queue holds one connection more than its backlog says.
        let listener = self.listen_for(0)?;
        Ok((listener, endpoint.connect(None).await?))
    }

    fn listen_for(self, backlog: u32) -> io::Result<Listener> {
        match self {
            Self::Tcp(socket) => Ok(Listener::Tcp(socket.listen(backlog)?)),
            Self::Unix(path) => {
                remove_socket(&path);
                Ok(Listener::Unix(UnixListener::bind(&path)?, path))
            }
        }
    }
}

/// Removes a left-over socket file, and nothing that is not a socket.
fn remove_socket(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    if path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket()) {
        // If it cannot be removed, the bind that follows fails and says so.
        let _ = std::fs::remove_file(path);
    }
}

/// A listening socket; a unix one removes its file when dropped.
pub enum Listener {
    /// Loopback TCP.
    Tcp(TcpListener),
    /// A unix socket and its path.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// The next connection, without Nagle's delay.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            remove_socket(path);
        }
    }
}

/// A connection over either kind of socket.
pub enum Stream {
    /// Loopback TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Closes with a reset instead of an orderly end; unix sockets know only the latter.
    pub fn reset(self) {
        if let Self::Tcp(stream) = &self {
            // The connection may be gone already, which is as good.
            let _ = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }

    /// Whether an idle connection is still open and silent, without waiting.
    pub fn is_idle(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Self::Tcp(stream) => stream.try_read(&mut byte),
            Self::Unix(stream) => stream.try_read(&mut byte),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_an_endpoint() {
        for good in ["127.0.0.1:80", "127.9.8.7:1", "[::1]:80", "localhost:80", "unix:/run/a.sock"] {
            assert!(Endpoint::parse(good).is_ok(), "{good}");
        }
        for bad in ["10.0.0.1:80", "0.0.0.0:80", "[::]:80", "[2001:db8::1]:80", "example.com:80", "127.0.0.1", "unix:"]
        {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
        let refusal = Endpoint::parse("192.0.2.1:80").unwrap_err().to_string();
        assert!(refusal.contains("not on this machine"), "{refusal}");
    }
}
