//! A connection of nginx's to a server, for probes: opened, encrypted, written, read, closed.
//!
//! All of the `unsafe` about connections is here. Nothing blocks; every call says whether to wait for the next event.

use core::ffi::{CStr, c_int, c_void};
use core::mem;
use core::ptr;

use nginx_sys::{
    NGX_AGAIN, NGX_DECLINED, NGX_OK, ngx_close_connection, ngx_connection_t, ngx_create_pool, ngx_destroy_pool,
    ngx_event_connect_peer, ngx_event_get_peer, ngx_event_t, ngx_handle_read_event, ngx_handle_write_event, ngx_int_t,
    ngx_log_t, ngx_peer_connection_t, ngx_pool_t, ngx_str_t,
};

use crate::ffi::tls::{Handshake, Tls};

/// What nginx calls for the connection's events.
pub type Handler = unsafe extern "C" fn(*mut ngx_event_t);

/// What TLS keeps of a connection comes from this pool, in pieces of this size.
const POOL: usize = 1024;

/// `NGX_ERROR_ERR`: what goes wrong on the connection is logged as errors, not as alerts.
const LOG_AS_ERROR: u32 = 1;

/// An open connection; closed when dropped.
pub struct Connection {
    c: *mut ngx_connection_t,
    pool: *mut ngx_pool_t,
    tls: Option<&'static Tls>,
}

/// Why there is no connection.
pub enum NoConnection {
    /// The server does not take it.
    Refused,
    /// There is none to be had here: no descriptor, no slot, no memory.
    None,
}

/// What came of reading or writing.
pub enum Io {
    /// So many bytes.
    Some(usize),
    /// Wait for the next event.
    Again,
    /// The server has closed.
    Closed,
    /// The connection is broken.
    Broken,
}

impl Connection {
    /// Opens a connection to `address`; `handler` is called for its events, which carry `number`. Says whether it is
    /// established already.
    ///
    /// # Safety
    /// `log` lives as long as the process.
    pub unsafe fn open(
        address: &[u8],
        log: *mut ngx_log_t,
        handler: Handler,
        number: usize,
    ) -> Result<(Self, bool), NoConnection> {
        let mut address = address.to_vec();
        let mut name = ngx_str_t { len: 5, data: c"probe".as_ptr().cast_mut().cast() };
        // SAFETY: a zeroed structure is what nginx's own callers begin with; address and name outlive the call, after which
        // nothing points to them. The connection is ours from then on.
        unsafe {
            let mut pc: ngx_peer_connection_t = mem::zeroed();
            pc.sockaddr = address.as_mut_ptr().cast();
            pc.socklen = u32::try_from(address.len()).map_err(|_| NoConnection::None)?;
            pc.name = &raw mut name;
            pc.get = Some(ngx_event_get_peer);
            pc.log = log;
            pc.set_log_error(LOG_AS_ERROR);
            let status = ngx_event_connect_peer(&raw mut pc);
            if status != NGX_OK as ngx_int_t && status != NGX_AGAIN as ngx_int_t {
                // nginx has closed it.
                let declined = status == NGX_DECLINED as ngx_int_t;
                return Err(if declined { NoConnection::Refused } else { NoConnection::None });
            }
            let c = pc.connection;
            (*c).data = ptr::without_provenance_mut(number);
            let connection = Self { c, pool: ptr::null_mut(), tls: None };
            connection.listen(handler);
            Ok((connection, status == NGX_OK as ngx_int_t))
        }
    }

    /// Has `handler` called for its events.
    fn listen(&self, handler: Handler) {
        // SAFETY: the connection is open; its events live as long.
        unsafe {
            (*(*self.c).read).handler = Some(handler);
            (*(*self.c).write).handler = Some(handler);
        }
    }

    /// Whether the connection under way has come about.
    pub fn is_established(&self) -> bool {
        let mut error: c_int = 0;
        let mut size = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: an open descriptor; a place of this size to write to.
        let status = unsafe {
            libc::getsockopt(
                (*self.c).fd,
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast::<c_void>(),
                &raw mut size,
            )
        };
        status == 0 && error == 0
    }

    /// Whether nginx found it ready for writing: a connection under way has come about or failed then.
    pub fn is_writable(&self) -> bool {
        // SAFETY: as for `listen`.
        unsafe { (*(*self.c).write).ready() != 0 }
    }

    /// Prepares a handshake with a server of this name.
    pub fn begin_tls(&mut self, tls: &'static Tls, name: Option<&CStr>, alpn: Option<&[u8]>) -> bool {
        // SAFETY: the connection is open and has neither pool nor TLS yet; its log lives as long as the process.
        unsafe {
            self.pool = ngx_create_pool(POOL, (*self.c).log);
            (*self.c).pool = self.pool;
            self.tls = Some(tls);
            !self.pool.is_null() && tls.begin(self.c, name, alpn)
        }
    }

    /// Goes on with the handshake; `handler` is called for the next event.
    pub fn handshake(&self, handler: Handler) -> Handshake {
        let Some(tls) = self.tls else { return Handshake::Failed };
        // SAFETY: prepared by `begin_tls`.
        let step = unsafe { tls.handshake(self.c) };
        self.listen(handler);
        step
    }

    /// Writes what can be written now.
    pub fn send(&self, bytes: &[u8]) -> Io {
        // SAFETY: the connection is open; nginx reads the bytes before it returns.
        unsafe {
            let Some(send) = (*self.c).send else { return Io::Broken };
            match send(self.c, bytes.as_ptr().cast_mut(), bytes.len()) {
                again if again == NGX_AGAIN as isize => {
                    if ngx_handle_write_event((*self.c).write, 0) == NGX_OK as ngx_int_t {
                        Io::Again
                    } else {
                        Io::Broken
                    }
                }
                sent => usize::try_from(sent).map_or(Io::Broken, Io::Some),
            }
        }
    }

    /// Reads what has come, at most `into` holds.
    pub fn receive(&self, into: &mut [u8]) -> Io {
        // SAFETY: the connection is open; nginx writes at most the given length.
        unsafe {
            let Some(recv) = (*self.c).recv else { return Io::Broken };
            match recv(self.c, into.as_mut_ptr(), into.len()) {
                0 => Io::Closed,
                again if again == NGX_AGAIN as isize => {
                    if ngx_handle_read_event((*self.c).read, 0) == NGX_OK as ngx_int_t { Io::Again } else { Io::Broken }
                }
                got => usize::try_from(got).map_or(Io::Broken, Io::Some),
            }
        }
    }

    /// Whether the server leaves it open and says nothing, and nginx does not want it closed.
    pub fn is_quiet(&self) -> bool {
        // SAFETY: the connection is open.
        let wanted = unsafe { (*self.c).close() } == 0;
        wanted && matches!(self.receive(&mut [0]), Io::Again)
    }

    /// Marks it as one that nginx may close when the worker leaves, or not.
    pub fn set_idle(&self, idle: bool) {
        // SAFETY: the connection is open.
        unsafe { (*self.c).set_idle(u32::from(idle)) };
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the connection is open and ours; the pool is used by nothing but its TLS.
        unsafe {
            if let Some(tls) = self.tls {
                tls.end(self.c);
            }
            ngx_close_connection(self.c);
            if !self.pool.is_null() {
                ngx_destroy_pool(self.pool);
            }
        }
    }
}
