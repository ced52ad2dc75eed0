//! `labor_status`: what this module knows, as JSON, as metrics or as a page. Read-only; never on the way of another request.
//!
//! What it says is `status/document.rs` (the whole), `status/group.rs` (an upstream) and `status/row.rs` (a server); how nginx's
//! lists are read is `status/servers.rs`, what a client asks for `status/query.rs` and `status/format.rs`, the page is `status/page.rs`, metrics are
//! `status/metrics.rs`,
//! how all of it is sent `status/send.rs`. No formula here.

mod document;
pub mod followed;
mod format;
mod group;
pub mod keeper;
mod metrics;
mod own;
mod page;
mod past;
mod query;
mod row;
mod send;
mod text;

use std::io::{self, Write};

use nginx_sys::{
    NGX_HTTP_GET, NGX_HTTP_HEAD, NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_HTTP_NOT_ALLOWED, NGX_HTTP_OK, NGX_LOG_ERR,
    NGX_OK, ngx_cycle, ngx_http_discard_request_body, ngx_http_request_t, ngx_http_upstream_srv_conf_t, ngx_int_t,
    ngx_str_t, ngx_uint_t,
};
use ngx::{ngx_log_error, ngx_string};
use serde::Serialize;

use crate::ffi;
pub use format::Format;
pub use group::{Depth, Group};
pub use own::Setting;
pub use query::Query;
pub use row::Row;
pub use send::{Chain, header, send};
pub use text::{Clock, Figures, text};

/// What `labor_status` sets as the handler of its location, by the word behind it.
pub fn handler(word: Option<Format>) -> unsafe extern "C" fn(*mut ngx_http_request_t) -> ngx_int_t {
    match word {
        None => any,
        Some(Format::Json) => json,
        Some(Format::Html) => html,
        Some(Format::Metrics) => prometheus,
    }
}

/// Answers a request in a location of `labor_status;`.
unsafe extern "C" fn any(request: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: as nginx hands it over.
    unsafe { answer(request, None) }
}

/// Answers a request in a location of `labor_status json;`.
unsafe extern "C" fn json(request: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: as nginx hands it over.
    unsafe { answer(request, Some(Format::Json)) }
}

/// Answers a request in a location of `labor_status html;`.
unsafe extern "C" fn html(request: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: as nginx hands it over.
    unsafe { answer(request, Some(Format::Html)) }
}

/// Answers a request in a location of `labor_status prometheus;`.
unsafe extern "C" fn prometheus(request: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: as nginx hands it over.
    unsafe { answer(request, Some(Format::Metrics)) }
}

/// Answers a request for the status.
///
/// # Safety
/// The request is live.
unsafe fn answer(request: *mut ngx_http_request_t, word: Option<Format>) -> ngx_int_t {
    // SAFETY: nginx hands over a live request, which nothing else uses until this returns.
    unsafe {
        let r = &mut *request;
        if r.method & (NGX_HTTP_GET | NGX_HTTP_HEAD) as ngx_uint_t == 0 {
            return match send::header(r, ngx_string!("Allow"), ngx_string!("GET, HEAD")) {
                Some(()) => NGX_HTTP_NOT_ALLOWED as ngx_int_t,
                None => NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t,
            };
        }
        let status = ngx_http_discard_request_body(r);
        if status != NGX_OK as ngx_int_t {
            return status;
        }
        let query = Query::parse(ffi::bytes(r.args));
        match Format::of(r, word) {
            Format::Json => {
                let write = |out: &mut Chain, upstreams: &[_]| {
                    let document = document::Document::new(upstreams, &query);
                    // With an end of line, for terminals.
                    document
                        .serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Figures))
                        .map_err(io::Error::from)
                        .and_then(|()| out.write_all(b"\n"))
                };
                written(r, ngx_string!("application/json"), write)
            }
            Format::Metrics => {
                let kind = ngx_string!("text/plain; version=0.0.4; charset=utf-8");
                written(r, kind, |out, upstreams| metrics::write(out, upstreams, &query))
            }
            Format::Html => page::send(r, &query),
        }
    }
}

/// Answers with what `write` makes of the upstreams of the running configuration; `kind` is its media type.
///
/// # Safety
/// As for [`answer`], the body read or discarded; `kind` is static.
unsafe fn written(
    r: &mut ngx_http_request_t,
    kind: ngx_str_t,
    write: impl FnOnce(&mut Chain, &[*mut ngx_http_upstream_srv_conf_t]) -> io::Result<()>,
) -> ngx_int_t {
    // SAFETY: the pool is the request's; the configuration is this process's own, no other reference to it is in use.
    unsafe {
        let mut chain = Chain::new(r.pool);
        let main = ffi::cycle_conf(ngx_cycle);
        if let Err(error) = write(&mut chain, main.map_or(&[], |m| m.upstreams.as_slice())) {
            ngx_log_error!(NGX_LOG_ERR, (*r.connection).log, "labor: status cannot be written: {error}");
            return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
        }
        // Names may look like anything: nobody is to guess a type from them.
        if send::header(r, ngx_string!("X-Content-Type-Options"), ngx_string!("nosniff")).is_none() {
            return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
        }
        send::send(r, NGX_HTTP_OK, kind, chain)
    }
}
