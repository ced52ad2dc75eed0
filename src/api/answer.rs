//! Answers of the interface: JSON in the shape of NGINX Plus, errors as well.
//!
//! What a server or an upstream looks like is `status.rs` and `api/server.rs`.

use std::borrow::Cow;
use std::io::{self, Write};

use labor_api_format::body;
use labor_api_format::route::Route;
use nginx_sys::{
    NGX_HTTP_BAD_REQUEST, NGX_HTTP_FORBIDDEN, NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_HTTP_NO_CONTENT,
    NGX_HTTP_NOT_ALLOWED, NGX_HTTP_NOT_FOUND, NGX_HTTP_OK, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
    NGX_HTTP_SERVICE_UNAVAILABLE, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE, NGX_LOG_ERR, ngx_int_t, ngx_str_t,
};
use ngx::{ngx_log_error, ngx_string};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::request::Request;
use super::server::{self, Conf};
use crate::status::{self, Chain, Clock, Depth, Group, Query, text};

/// Where errors are explained.
const HREF: &str = "README.md#control";

/// Why a request is not carried out.
pub struct Refusal {
    status: u32,
    code: &'static str,
    text: Cow<'static, str>,
    allow: Option<&'static str>,
}

impl Refusal {
    /// `status` with a `code` for programs and a `text` for people.
    pub fn new(status: u32, code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, text: text.into(), allow: None }
    }

    /// The path does not exist.
    pub fn path(route: Route<'_>) -> Self {
        match route {
            Route::NoUpstream => Self::new(NGX_HTTP_NOT_FOUND, "UpstreamNotFound", "upstream not found"),
            _ => Self::new(NGX_HTTP_NOT_FOUND, "PathNotFound", "path not found"),
        }
    }

    /// The path does not know the method.
    pub fn method(allow: &'static str) -> Self {
        let text = "method is not known here";
        Self { allow: Some(allow), ..Self::new(NGX_HTTP_NOT_ALLOWED, "MethodNotAllowed", text) }
    }

    /// Nothing may be changed here.
    pub fn read_only(allow: &'static str) -> Self {
        let text = "changes are disabled: \"labor_api write=on\" enables them";
        Self { allow: Some(allow), ..Self::new(NGX_HTTP_NOT_ALLOWED, "MethodDisabled", text) }
    }

    /// A page of another site had a browser send it.
    pub fn cross_site() -> Self {
        Self::new(NGX_HTTP_FORBIDDEN, "CrossSiteRequest", "sent by a page of another site")
    }

    /// It is not said to be JSON.
    pub fn content_type() -> Self {
        let text = "\"Content-Type: application/json\" is required";
        Self::new(NGX_HTTP_UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", text)
    }

    /// The body is too long.
    pub fn too_long() -> Self {
        body::Error::TooLong.into()
    }

    /// No such server.
    pub fn no_server() -> Self {
        Self::new(NGX_HTTP_NOT_FOUND, "UpstreamServerNotFound", "server not found")
    }

    /// It is in effect, but not in the state file.
    pub fn not_saved(reason: &str) -> Self {
        let text = format!("in effect, but not saved, so that a restart of nginx loses it: {reason}");
        Self::new(NGX_HTTP_INTERNAL_SERVER_ERROR, "StateNotSaved", text)
    }

    /// A reload is under way that may miss it.
    pub fn reloading() -> Self {
        let text = "nginx is being reloaded with shared memory of another size: try again in a second";
        Self::new(NGX_HTTP_SERVICE_UNAVAILABLE, "Reloading", text)
    }

    /// There is no record to keep it in.
    pub fn no_memory() -> Self {
        let text = "no shared memory for this server: raise \"labor_zone\"";
        Self::new(NGX_HTTP_INTERNAL_SERVER_ERROR, "UpstreamOutOfMemory", text)
    }

    /// The body cannot be read.
    pub fn unreadable(error: &io::Error) -> Self {
        Self::new(NGX_HTTP_INTERNAL_SERVER_ERROR, "BodyReadError", format!("the request body cannot be read: {error}"))
    }
}

impl From<body::Error> for Refusal {
    fn from(error: body::Error) -> Self {
        use body::{Error, Field};
        let (status, code) = match &error {
            Error::TooLong => (NGX_HTTP_REQUEST_ENTITY_TOO_LARGE, "BodyTooLarge"),
            Error::Json(_) => (NGX_HTTP_UNSUPPORTED_MEDIA_TYPE, "JsonError"),
            Error::Empty | Error::Form(_) => (NGX_HTTP_BAD_REQUEST, "UpstreamConfFormatError"),
            Error::Value(Field::Weight) => (NGX_HTTP_BAD_REQUEST, "UpstreamBadWeight"),
            Error::Value(Field::State) => (NGX_HTTP_BAD_REQUEST, "UpstreamBadState"),
            Error::Value(Field::MaxConns) => (NGX_HTTP_BAD_REQUEST, "UpstreamBadMaxConns"),
        };
        Self::new(status, code, error.to_string())
    }
}

/// An error, as NGINX Plus writes it.
#[derive(serde::Serialize)]
struct Error<'a> {
    error: Reason<'a>,
    request_id: String,
    href: &'static str,
}

#[derive(serde::Serialize)]
struct Reason<'a> {
    status: u32,
    text: &'a str,
    code: &'static str,
}

/// Answers with the reason for doing nothing.
pub fn refuse(request: &Request<'_>, refusal: &Refusal) -> ngx_int_t {
    if let Some(allow) = refusal.allow
        && !put(request, ngx_string!("Allow"), allow)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
    }
    let reason = Reason { status: refusal.status, text: &refusal.text, code: refusal.code };
    json(request, refusal.status, &Error { error: reason, request_id: request.id(), href: HREF })
}

/// What is there.
pub fn root(request: &Request<'_>) -> ngx_int_t {
    #[derive(serde::Serialize)]
    struct Root {
        version: u32,
        endpoints: [&'static str; 1],
        write: bool,
    }
    json(request, NGX_HTTP_OK, &Root { version: 1, endpoints: ["upstreams"], write: request.may_write() })
}

/// Every upstream.
pub fn upstreams(request: &Request<'_>) -> ngx_int_t {
    struct All(Query, Clock);
    impl Serialize for All {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            for position in 0..super::upstreams().len() {
                if let Some(group) = group(position, Depth::All, self.1) {
                    map.serialize_entry(&text(group.name), &group.shown(&self.0, false))?;
                }
            }
            map.end()
        }
    }
    json(request, NGX_HTTP_OK, &All(Query::parse(request.args()), Clock::read()))
}

/// The upstream at `position`.
pub fn upstream(request: &Request<'_>, position: usize) -> ngx_int_t {
    let query = Query::parse(request.args());
    match group(position, Depth::All, Clock::read()) {
        Some(group) => json(request, NGX_HTTP_OK, &group.shown(&query, false)),
        None => refuse(request, &Refusal::path(Route::NoUpstream)),
    }
}

/// Its servers, as they are configured and set.
pub fn servers(request: &Request<'_>, position: usize) -> ngx_int_t {
    match group(position, Depth::Counters, Clock::read()) {
        Some(group) => json(request, NGX_HTTP_OK, &group.rows().map(Conf).collect::<Vec<_>>()),
        None => refuse(request, &Refusal::path(Route::NoUpstream)),
    }
}

/// One of its servers.
pub fn server(request: &Request<'_>, position: usize, id: &[u8]) -> ngx_int_t {
    let Some(group) = group(position, Depth::Counters, Clock::read()) else {
        return refuse(request, &Refusal::path(Route::NoUpstream));
    };
    match server::find(&group, id) {
        Ok(row) => json(request, NGX_HTTP_OK, &Conf(row)),
        Err(refusal) => refuse(request, &refusal),
    }
}

/// The upstream at `position` as it is now; `depth` says what of how its servers stand.
pub fn group(position: usize, depth: Depth, clock: Clock) -> Option<Group> {
    let us = super::upstreams().get(position)?;
    // SAFETY: an upstream of the running configuration; no list is locked here.
    unsafe { Group::read(*us, |_| true, depth, clock) }
}

/// What may be asked of a path.
pub fn options(request: &Request<'_>, allow: &'static str) -> ngx_int_t {
    if put(request, ngx_string!("Allow"), allow) {
        nothing(request)
    } else {
        NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t
    }
}

/// It is done, and there is nothing to say.
pub fn nothing(request: &Request<'_>) -> ngx_int_t {
    // SAFETY: the request is live, its body is read or discarded, nothing was sent yet.
    unsafe {
        let r = &mut *request.as_ptr();
        let chain = Chain::new(r.pool);
        status::send(r, NGX_HTTP_NO_CONTENT, ngx_string!("application/json"), chain)
    }
}

fn put(request: &Request<'_>, name: ngx_str_t, value: &'static str) -> bool {
    // SAFETY: the request is live; both texts are static.
    unsafe { status::header(&mut *request.as_ptr(), name, crate::ffi::ngx_str(value.as_bytes())) }.is_some()
}

fn json<T: Serialize>(request: &Request<'_>, code: u32, value: &T) -> ngx_int_t {
    // SAFETY: as for `nothing`.
    unsafe {
        let r = &mut *request.as_ptr();
        let mut chain = Chain::new(r.pool);
        // With an end of line, for terminals.
        let mut json = serde_json::Serializer::with_formatter(&mut chain, status::Figures);
        let written = value.serialize(&mut json).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| chain.write_all(b"\n")) {
            ngx_log_error!(NGX_LOG_ERR, (*r.connection).log, "labor: api: the answer cannot be written: {error}");
            return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
        }
        status::send(r, code, ngx_string!("application/json"), chain)
    }
}
