//! `labor_api`: looking at servers and changing them at run time, over HTTP.
//!
//! Here is the way of a request: who may ask for what, and in which order. What paths and bodies mean is `labor_api_format`;
//! what is shown is `status.rs`; how a change is made and kept is `api/change.rs` and `api/keep.rs`, how it is answered
//! `api/answer.rs`.

mod answer;
mod change;
mod keep;
mod request;
mod server;

use labor_api_format::route::{self, Route};
use nginx_sys::{
    NGX_DONE, NGX_HTTP_DELETE, NGX_HTTP_GET, NGX_HTTP_HEAD, NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_HTTP_OPTIONS,
    NGX_HTTP_PATCH, NGX_HTTP_SPECIAL_RESPONSE, NGX_OK, ngx_cycle, ngx_http_discard_request_body,
    ngx_http_finalize_request, ngx_http_read_client_request_body, ngx_http_request_t, ngx_http_upstream_srv_conf_t,
    ngx_int_t, ngx_uint_t,
};

use answer::Refusal;
use change::Step;
use request::Request;

use crate::ffi;

pub use keep::{each_second, init_process};

/// What may be asked of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Methods {
    get: bool,
    patch: bool,
    delete: bool,
}

impl Methods {
    const READ: Self = Self { get: true, patch: false, delete: false };
    const CHANGE: Self = Self { get: true, patch: true, delete: false };
    const DELETE: Self = Self { get: false, patch: false, delete: true };

    /// What `route` allows.
    fn of(route: Route<'_>) -> Self {
        match route {
            Route::Server(..) => Self::CHANGE,
            Route::Overrides(..) | Route::Statistics(_) => Self::DELETE,
            _ => Self::READ,
        }
    }

    /// As the header `Allow` says it; `write` is whether anything may be changed.
    const fn allow(self, write: bool) -> &'static str {
        match (self.get, self.patch && write, self.delete && write) {
            (true, true, _) => "GET, HEAD, PATCH, OPTIONS",
            (true, false, _) => "GET, HEAD, OPTIONS",
            (false, _, true) => "DELETE, OPTIONS",
            (false, ..) => "OPTIONS",
        }
    }
}

/// The upstreams of the running configuration.
fn upstreams<'a>() -> &'a [*mut ngx_http_upstream_srv_conf_t] {
    // SAFETY: nginx's own cycle, whose configuration is not changed any more; no other reference to it is in use.
    unsafe { ffi::cycle_conf(ngx_cycle) }.map_or(&[], |main| main.upstreams.as_slice())
}

/// What the request's path names.
fn route<'a>(request: &Request<'a>) -> Route<'a> {
    // SAFETY: names live as long as the configuration.
    let names: Vec<&[u8]> = upstreams().iter().map(|us| unsafe { ffi::bytes((**us).host) }).collect();
    request.path().map_or(Route::Nothing, |path| route::parse(path, &names))
}

/// Answers a request.
pub unsafe extern "C" fn handler(r: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx hands over a live request of a location with the directive.
    let Some(request) = (unsafe { Request::new(r) }) else { return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t };
    let (route, write) = (route(&request), request.may_write());
    let methods = Methods::of(route);
    match request.method() {
        NGX_HTTP_GET | NGX_HTTP_HEAD | NGX_HTTP_OPTIONS => {
            // SAFETY: as above.
            let status = unsafe { ngx_http_discard_request_body(r) };
            if status != NGX_OK as ngx_int_t {
                return status;
            }
            if request.method() == NGX_HTTP_OPTIONS {
                return answer::options(&request, methods.allow(write));
            }
            if !methods.get {
                return refuse(&request, Refusal::method(methods.allow(write)));
            }
            look(&request, route)
        }
        _ if !write => refuse(&request, Refusal::read_only(methods.allow(write))),
        method @ (NGX_HTTP_PATCH | NGX_HTTP_DELETE) => {
            let allowed = if method == NGX_HTTP_PATCH { methods.patch } else { methods.delete };
            let refusal = match route {
                Route::Nothing | Route::NoUpstream => Some(Refusal::path(route)),
                _ if !allowed => Some(Refusal::method(methods.allow(write))),
                _ => request.refusal(method == NGX_HTTP_PATCH),
            };
            if let Some(refusal) = refusal {
                return refuse(&request, refusal);
            }
            // SAFETY: as above; nginx counts the request once more until `body_ready` ends it.
            let status = unsafe { ngx_http_read_client_request_body(r, Some(body_ready)) };
            if status >= NGX_HTTP_SPECIAL_RESPONSE as ngx_int_t { status } else { NGX_DONE as ngx_int_t }
        }
        _ => refuse(&request, Refusal::method(methods.allow(write))),
    }
}

/// Refuses a request whose body nobody reads.
fn refuse(request: &Request<'_>, refusal: Refusal) -> ngx_int_t {
    // SAFETY: the request is live.
    let status = unsafe { ngx_http_discard_request_body(request.as_ptr()) };
    if status != NGX_OK as ngx_int_t { status } else { answer::refuse(request, &refusal) }
}

/// Answers a GET.
fn look(request: &Request<'_>, route: Route<'_>) -> ngx_int_t {
    match route {
        Route::Root => answer::root(request),
        Route::Upstreams => answer::upstreams(request),
        Route::Upstream(upstream) => answer::upstream(request, upstream),
        Route::Servers(upstream) => answer::servers(request, upstream),
        Route::Server(upstream, id) => answer::server(request, upstream, id),
        other => answer::refuse(request, &Refusal::path(other)),
    }
}

/// The body is there: makes the change, and answers as soon as it is kept.
unsafe extern "C" fn body_ready(r: *mut ngx_http_request_t) {
    // SAFETY: nginx calls back with the request whose body it was asked to read.
    let step = match unsafe { Request::new(r) } {
        Some(request) => change::begin(&request, route(&request)),
        None => Step::Answered(NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t),
    };
    if let Step::Answered(status) = step {
        // SAFETY: ends what reading the body began.
        unsafe { ngx_http_finalize_request(r, status) };
    }
}

/// As nginx counts methods.
fn bits(method: ngx_uint_t) -> u32 {
    u32::try_from(method).unwrap_or(0)
}
