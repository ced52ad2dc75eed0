//! nginx's own TLS for connections of this module, looked up by name: an nginx without TLS loads the module all the same.
//!
//! Only functions and the two fields that have not moved since they exist (`ngx_ssl_t.log`, `ngx_ssl_connection_t.connection`).
//! Certificates are not verified, as with `proxy_ssl_verify off`, nginx's default.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::mem::transmute;
use core::ptr::NonNull;

use nginx_sys::{NGX_AGAIN, NGX_OK, ngx_connection_t, ngx_int_t, ngx_log_t, ngx_uint_t};

type Create = unsafe extern "C" fn(*mut c_void, ngx_uint_t, *mut c_void) -> ngx_int_t;
type CreateConnection = unsafe extern "C" fn(*mut c_void, *mut ngx_connection_t, ngx_uint_t) -> ngx_int_t;
type OfConnection = unsafe extern "C" fn(*mut ngx_connection_t) -> ngx_int_t;
type Ctrl = unsafe extern "C" fn(*mut c_void, c_int, c_long, *mut c_void) -> c_long;
type SetAlpn = unsafe extern "C" fn(*mut c_void, *const u8, c_uint) -> c_int;

/// TLS 1.2 and 1.3 (`NGX_SSL_TLSv1_2`, `NGX_SSL_TLSv1_3`).
const PROTOCOLS: ngx_uint_t = 0x0020 | 0x0040;
/// `NGX_SSL_BUFFER`, `NGX_SSL_CLIENT`.
const AS_CLIENT: ngx_uint_t = 1 | 2;
/// `SSL_CTRL_SET_TLSEXT_HOSTNAME`.
const SET_HOST_NAME: c_int = 55;
/// Words of an `ngx_ssl_t`: it has three to nine by version.
const WORDS: usize = 32;

/// The functions.
#[derive(Clone, Copy)]
struct Functions {
    create: Create,
    create_connection: CreateConnection,
    handshake: OfConnection,
    shutdown: OfConnection,
    ctrl: Ctrl,
    set_alpn: Option<SetAlpn>,
}

/// The address of a function that the program or one of its libraries has.
fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a lookup by a valid name.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

fn functions() -> Option<Functions> {
    // SAFETY: functions of nginx and of OpenSSL under their own names, with their types in every supported version.
    unsafe {
        Some(Functions {
            create: transmute::<NonNull<c_void>, Create>(symbol(c"ngx_ssl_create")?),
            create_connection: transmute::<NonNull<c_void>, CreateConnection>(symbol(c"ngx_ssl_create_connection")?),
            handshake: transmute::<NonNull<c_void>, OfConnection>(symbol(c"ngx_ssl_handshake")?),
            shutdown: transmute::<NonNull<c_void>, OfConnection>(symbol(c"ngx_ssl_shutdown")?),
            ctrl: transmute::<NonNull<c_void>, Ctrl>(symbol(c"SSL_ctrl")?),
            set_alpn: symbol(c"SSL_set_alpn_protos").map(|f| transmute::<NonNull<c_void>, SetAlpn>(f)),
        })
    }
}

/// Whether this nginx has TLS; `alpn`: with the negotiation of protocols.
pub fn is_available(alpn: bool) -> bool {
    functions().is_some_and(|f| !alpn || f.set_alpn.is_some())
}

/// A client's TLS context.
pub struct Tls {
    functions: Functions,
    /// An `ngx_ssl_t`.
    context: Box<UnsafeCell<[usize; WORDS]>>,
}

/// How far a handshake is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// The connection is encrypted.
    Done,
    /// It goes on with the next event.
    Again,
    /// It failed.
    Failed,
}

impl Tls {
    /// A context for this process, which lives as long as that; `None` without TLS, which is logged.
    pub fn new(log: *mut ngx_log_t) -> Option<Self> {
        let functions = functions()?;
        let mut words = [0; WORDS];
        if let Some(word) = words.get_mut(1) {
            *word = log.expose_provenance();
        }
        let context = Box::new(UnsafeCell::new(words));
        // SAFETY: room for an `ngx_ssl_t` of any version, zeroed but for its log.
        let status = unsafe { (functions.create)(context.get().cast(), PROTOCOLS, core::ptr::null_mut()) };
        (status == NGX_OK as ngx_int_t).then_some(Self { functions, context })
    }

    /// Prepares `c` for a handshake with a server of this name (none for an address), and protocol where one is asked for.
    ///
    /// # Safety
    /// `c` is connected, has a pool and no TLS yet.
    pub unsafe fn begin(&self, c: *mut ngx_connection_t, name: Option<&CStr>, alpn: Option<&[u8]>) -> bool {
        let f = &self.functions;
        // SAFETY: by contract; the context is complete. OpenSSL copies name and protocols.
        unsafe {
            if (f.create_connection)(self.context.get().cast(), c, AS_CLIENT) != NGX_OK as ngx_int_t {
                return false;
            }
            let connection = (*c).ssl.cast::<*mut c_void>().read();
            if let Some(name) = name
                && (f.ctrl)(connection, SET_HOST_NAME, 0, name.as_ptr().cast::<c_char>().cast_mut().cast()) == 0
            {
                return false;
            }
            let Some(protocols) = alpn else { return true };
            // 0 is success, unlike everywhere else in OpenSSL.
            f.set_alpn.is_some_and(|set| set(connection, protocols.as_ptr(), protocols.len() as c_uint) == 0)
        }
    }

    /// Goes on with the handshake. nginx sets the handlers of both events, which the caller puts back.
    ///
    /// # Safety
    /// `c` is as [`Tls::begin`] left it.
    pub unsafe fn handshake(&self, c: *mut ngx_connection_t) -> Handshake {
        // SAFETY: by contract.
        match unsafe { (self.functions.handshake)(c) } {
            status if status == NGX_OK as ngx_int_t => Handshake::Done,
            status if status == NGX_AGAIN as ngx_int_t => Handshake::Again,
            _ => Handshake::Failed,
        }
    }

    /// Frees what TLS holds of `c`, without a word to the server.
    ///
    /// # Safety
    /// `c` is a live connection.
    pub unsafe fn end(&self, c: *mut ngx_connection_t) {
        // SAFETY: by contract. Marked as timed out, so that nginx shuts down quietly and at once.
        unsafe {
            if !(*c).ssl.is_null() {
                (*c).set_timedout(1);
                let _ = (self.functions.shutdown)(c);
            }
        }
    }
}
