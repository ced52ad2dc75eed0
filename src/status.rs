//! `labor_status`: what this module knows, as JSON. Read-only; never on the way of another request.

use nginx_sys::{NGX_HTTP_NOT_FOUND, ngx_http_request_t, ngx_int_t};

/// Answers a request for the status.
pub unsafe extern "C" fn handler(_request: *mut ngx_http_request_t) -> ngx_int_t {
    NGX_HTTP_NOT_FOUND as ngx_int_t
}
