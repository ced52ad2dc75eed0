//! Answers of this module's own locations: a chain of buffers that grows as it is written to, headers, and sending them.
//!
//! The text is written into buffers from the request's pool, so that thousands of servers need no large piece of memory. What
//! it says is others' business.

use core::ptr;
use std::io::{self, Write};

use nginx_sys::{
    NGX_ERROR, NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_OK, ngx_alloc_chain_link, ngx_chain_t, ngx_create_temp_buf,
    ngx_http_output_filter, ngx_http_request_t, ngx_http_send_header, ngx_int_t, ngx_list_push, ngx_pool_t, ngx_str_t,
    ngx_table_elt_t, ngx_uint_t, off_t,
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
    /// Where the next byte goes, and the end of the last buffer; here and not in the buffer, because an answer is written in
    /// pieces of a few bytes each.
    next: *mut u8,
    end: *mut u8,
    /// Of the text in all buffers before the last one.
    length: off_t,
}

impl Chain {
    /// An empty chain; buffers come from `pool`, which must outlive it.
    ///
    /// # Safety
    /// `pool` is live.
    pub unsafe fn new(pool: *mut ngx_pool_t) -> Self {
        let (first, next) = (ptr::null_mut(), ptr::null_mut());
        Self { pool, first, last: first, next, end: next, length: 0 }
    }

    /// Bytes for which the last buffer has room.
    fn room(&self) -> usize {
        self.end.addr().saturating_sub(self.next.addr())
    }

    /// Copies `text`.
    ///
    /// # Safety
    /// There is room for it.
    unsafe fn copy(&mut self, text: &[u8]) {
        // SAFETY: as required; `next` and `end` are in one buffer of ours, of which nobody else knows yet.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), self.next, text.len());
            self.next = self.next.add(text.len());
        }
    }

    /// Writes what the last buffer has no room for.
    #[cold]
    #[inline(never)]
    fn spill(&mut self, mut text: &[u8]) -> io::Result<()> {
        while !text.is_empty() {
            if self.room() == 0 {
                self.grow().ok_or(io::ErrorKind::OutOfMemory)?;
            }
            let (now, later) = text.split_at(self.room().min(text.len()));
            // SAFETY: just cut to the room there is.
            unsafe { self.copy(now) };
            text = later;
        }
        Ok(())
    }

    /// Appends an empty buffer.
    fn grow(&mut self) -> Option<()> {
        self.settle();
        // SAFETY: the pool is live; what comes from it is initialised here before it is linked.
        unsafe {
            let (link, buffer) = (ngx_alloc_chain_link(self.pool), ngx_create_temp_buf(self.pool, BUFFER));
            let (link, buffer) = (link.as_mut()?, buffer.as_mut()?);
            (self.next, self.end) = (buffer.last, buffer.end);
            link.buf = buffer;
            link.next = ptr::null_mut();
            match self.last.as_mut() {
                Some(last) => last.next = link,
                None => self.first = link,
            }
            self.last = link;
        }
        Some(())
    }

    /// Tells the last buffer what it holds.
    fn settle(&mut self) {
        // SAFETY: links and buffers come from `grow` and live as long as the pool; `next` is in the last one.
        unsafe {
            if let Some(buffer) = self.last.as_ref().and_then(|link| link.buf.as_mut()) {
                self.length = self.length.saturating_add(self.next.offset_from(buffer.last) as off_t);
                buffer.last = self.next;
            }
        }
    }

    /// The chain, its last buffer marked as such (`main`: as that of the whole answer), and the length of its text.
    fn finish(mut self, main: bool) -> (*mut ngx_chain_t, off_t) {
        self.settle();
        // SAFETY: as for `settle`.
        unsafe {
            if let Some(last) = self.last.as_ref() {
                (*last.buf).set_last_buf(u32::from(main));
                (*last.buf).set_last_in_chain(1);
            }
        }
        (self.first, self.length)
    }
}

impl Write for Chain {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.write_all(text).map(|()| text.len())
    }

    #[inline]
    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        if text.is_empty() || text.len() > self.room() {
            return self.spill(text);
        }
        // SAFETY: there is room, and so a buffer.
        unsafe { self.copy(text) };
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
