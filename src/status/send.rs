//! Answers of this module's own locations: a chain of buffers that grows as it is written to, headers, and sending them.
//!
//! The text is written into buffers from the request's pool, so that thousands of servers need no large piece of memory. What
//! it says is others' business.

use core::ptr;
use std::io::{self, Write};

use nginx_sys::{
    NGX_ERROR, NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_OK, ngx_alloc_chain_link, ngx_buf_t, ngx_chain_t,
    ngx_create_temp_buf, ngx_http_output_filter, ngx_http_request_t, ngx_http_send_header, ngx_int_t, ngx_list_push,
    ngx_pool_t, ngx_str_t, ngx_table_elt_t, ngx_uint_t, off_t,
};
use ngx::ngx_string;

use crate::ffi;

/// Size of one buffer, bytes: what nginx uses for its own answers, and small enough for its pools.
const BUFFER: usize = 16 * 1024;

/// Sends header and body: `status` with the text in `chain`, never to be cached.
///
/// # Safety
/// The request is live, its body is read or discarded, and nothing was sent yet; `kind` is static.
pub unsafe fn send(r: &mut ngx_http_request_t, status: u32, kind: ngx_str_t, chain: Chain) -> ngx_int_t {
    // A subrequest (SSI) ends with its part of the page; the page goes on.
    let main = ptr::eq(r, r.main);
    let (first, length) = chain.finish(main);
    r.headers_out.status = status as ngx_uint_t;
    r.headers_out.content_length_n = length;
    r.headers_out.content_type = kind;
    // By the type without its charset nginx decides whether to compress and whether to add a charset.
    // SAFETY: the string is static.
    let bare = unsafe { ffi::bytes(kind) }.iter().position(|b| *b == b';').unwrap_or(kind.len);
    r.headers_out.content_type_len = bare;
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
pub unsafe fn header(r: &mut ngx_http_request_t, name: ngx_str_t, value: ngx_str_t) -> Option<()> {
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
pub struct Chain {
    pool: *mut ngx_pool_t,
    first: *mut ngx_chain_t,
    last: *mut ngx_chain_t,
    length: off_t,
}

impl Chain {
    /// An empty chain; buffers come from `pool`, which must outlive it.
    ///
    /// # Safety
    /// `pool` is live.
    pub unsafe fn new(pool: *mut ngx_pool_t) -> Self {
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
