//! `labor_status`: what this module knows, as JSON. Read-only; never on the way of another request.
//!
//! The answer is written into a chain of buffers from the request's pool, so that thousands of servers need no large piece of
//! memory. What it says is `status/document.rs` and `status/row.rs`; how nginx's lists are read is `status/servers.rs`. No formula here.

mod document;
mod row;
mod servers;

use core::ptr;
use std::io::{self, Write};

use nginx_sys::{
    NGX_ERROR, NGX_HTTP_GET, NGX_HTTP_HEAD, NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_HTTP_NOT_ALLOWED, NGX_HTTP_OK,
    NGX_LOG_ERR, NGX_OK, ngx_alloc_chain_link, ngx_buf_t, ngx_chain_t, ngx_create_temp_buf, ngx_cycle,
    ngx_http_discard_request_body, ngx_http_output_filter, ngx_http_request_t, ngx_http_send_header, ngx_int_t,
    ngx_list_push, ngx_pool_t, ngx_str_t, ngx_table_elt_t, ngx_uint_t, off_t,
};
use ngx::{ngx_log_error, ngx_string};

use crate::ffi;

/// Size of one buffer, bytes: what nginx uses for its own answers, and small enough for its pools.
const BUFFER: usize = 16 * 1024;

/// Answers a request for the status.
pub unsafe extern "C" fn handler(request: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx hands over a live request, which nothing else uses until this returns.
    unsafe {
        let r = &mut *request;
        if r.method & (NGX_HTTP_GET | NGX_HTTP_HEAD) as ngx_uint_t == 0 {
            return match header(r, ngx_string!("Allow"), ngx_string!("GET, HEAD")) {
                Some(()) => NGX_HTTP_NOT_ALLOWED as ngx_int_t,
                None => NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t,
            };
        }
        let status = ngx_http_discard_request_body(r);
        if status != NGX_OK as ngx_int_t {
            return status;
        }
        let mut chain = Chain::new(r.pool);
        // The configuration is this process's own, no other reference to it is in use.
        let main = ffi::cycle_conf(ngx_cycle);
        let document = document::Document::new(main.map_or(&[], |m| m.upstreams.as_slice()));
        // With an end of line, for terminals.
        let written = serde_json::to_writer(&mut chain, &document).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| chain.write_all(b"\n")) {
            ngx_log_error!(NGX_LOG_ERR, (*r.connection).log, "labor: status cannot be written: {error}");
            return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
        }
        answer(r, chain)
    }
}

/// Sends header and body.
unsafe fn answer(r: &mut ngx_http_request_t, chain: Chain) -> ngx_int_t {
    // A subrequest (SSI) ends with its part of the page; the page goes on.
    let main = ptr::eq(r, r.main);
    let (first, length) = chain.finish(main);
    r.headers_out.status = NGX_HTTP_OK as ngx_uint_t;
    r.headers_out.content_length_n = length;
    r.headers_out.content_type = ngx_string!("application/json");
    r.headers_out.content_type_len = r.headers_out.content_type.len;
    // SAFETY: the request is live, its list of headers is nginx's; the chain's buffers live in the request's pool.
    unsafe {
        if header(r, ngx_string!("Cache-Control"), ngx_string!("no-store")).is_none() {
            return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
        }
        let status = ngx_http_send_header(r);
        if status == NGX_ERROR as ngx_int_t || status > NGX_OK as ngx_int_t || r.header_only() != 0 {
            return status;
        }
        ngx_http_output_filter(r, first)
    }
}

/// Adds a header to the answer; `None` without memory.
///
/// # Safety
/// The request is live; `name` and `value` are static.
unsafe fn header(r: &mut ngx_http_request_t, name: ngx_str_t, value: ngx_str_t) -> Option<()> {
    // SAFETY: the list was made with elements of this type; zeros are valid in every version of it, whatever fields it has.
    unsafe {
        let element = ngx_list_push(&raw mut r.headers_out.headers).cast::<ngx_table_elt_t>();
        if element.is_null() {
            return None;
        }
        element.write_bytes(0, 1);
        (*element).hash = 1;
        (*element).key = name;
        (*element).value = value;
    }
    Some(())
}

/// A chain of buffers that grows as it is written to.
struct Chain {
    pool: *mut ngx_pool_t,
    first: *mut ngx_chain_t,
    last: *mut ngx_chain_t,
    length: off_t,
}

impl Chain {
    /// An empty chain; buffers come from `pool`, which must outlive it.
    unsafe fn new(pool: *mut ngx_pool_t) -> Self {
        Self { pool, first: ptr::null_mut(), last: ptr::null_mut(), length: 0 }
    }

    /// The buffer written to, if it has room.
    fn current(&self) -> Option<*mut ngx_buf_t> {
        // SAFETY: links and buffers come from `grow` and live as long as the pool.
        unsafe { Some(self.last.as_ref()?.buf).filter(|b| (**b).last < (**b).end) }
    }

    /// Appends an empty buffer.
    fn grow(&mut self) -> Option<*mut ngx_buf_t> {
        // SAFETY: the pool is live; what comes from it is initialised here before it is linked.
        unsafe {
            let (link, buffer) = (ngx_alloc_chain_link(self.pool), ngx_create_temp_buf(self.pool, BUFFER));
            let (link, _) = (link.as_mut()?, buffer.as_ref()?);
            link.buf = buffer;
            link.next = ptr::null_mut();
            match self.last.as_mut() {
                Some(last) => last.next = link,
                None => self.first = link,
            }
            self.last = link;
            Some(buffer)
        }
    }

    /// The chain, its last buffer marked as such (`main`: as that of the whole answer), and the length of its text.
    fn finish(self, main: bool) -> (*mut ngx_chain_t, off_t) {
        // SAFETY: as for `current`.
        if let Some(last) = unsafe { self.last.as_ref() } {
            // SAFETY: as for `current`.
            unsafe {
                (*last.buf).set_last_buf(u32::from(main));
                (*last.buf).set_last_in_chain(1);
            }
        }
        (self.first, self.length)
    }
}

impl Write for Chain {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if text.is_empty() {
            return Ok(0);
        }
        let buffer = self.current().or_else(|| self.grow()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the buffer has room for at least one byte between `last` and `end`, both in one allocation.
        let count = unsafe {
            let room = (*buffer).end.offset_from((*buffer).last).unsigned_abs();
            let count = room.min(text.len());
            ptr::copy_nonoverlapping(text.as_ptr(), (*buffer).last, count);
            (*buffer).last = (*buffer).last.add(count);
            count
        };
        self.length = self.length.saturating_add(off_t::try_from(count).unwrap_or(0));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
