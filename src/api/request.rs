//! A request to the interface, as a safe view: method, path, headers, body, and whether it may be meant at all.
//!
//! Not here: what it asks for.

use core::slice;
use std::io::{self, ErrorKind};

use labor_api_format::{body, origin};
use nginx_sys::{
    ngx_buf_t, ngx_http_core_loc_conf_t, ngx_http_core_module, ngx_http_get_indexed_variable, ngx_http_request_t,
    ngx_list_part_t, ngx_table_elt_t,
};

use super::answer::Refusal;
use super::bits;
use crate::ffi;
use crate::settings::{Api, LocationConf};

/// A live request of a location with `labor_api`.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    r: *mut ngx_http_request_t,
    /// What its location says.
    api: &'a Api,
    location: &'a [u8],
}

impl<'a> Request<'a> {
    /// The view of `r`; `None` when its location has not the directive.
    ///
    /// # Safety
    /// `r` is a live request, and stays so for `'a`.
    pub unsafe fn new(r: *mut ngx_http_request_t) -> Option<Self> {
        // SAFETY: by contract; both configurations are made for every location.
        unsafe {
            let confs = (*r).loc_conf;
            let own = ffi::slot(confs).cast::<LocationConf>().as_ref()?;
            let core = (*confs.add(ngx_http_core_module.ctx_index)).cast::<ngx_http_core_loc_conf_t>().as_ref()?;
            Some(Self { r, api: own.api.as_ref()?, location: ffi::bytes(core.name) })
        }
    }

    /// nginx's request.
    pub fn as_ptr(&self) -> *mut ngx_http_request_t {
        self.r
    }

    /// nginx's number for the method.
    pub fn method(&self) -> u32 {
        // SAFETY: the request is live.
        bits(unsafe { (*self.r).method })
    }

    /// Whether anything may be changed here.
    pub fn may_write(&self) -> bool {
        self.api.write
    }

    /// The decoded path below the location; `None` in a location that is no prefix of it (a regular expression).
    pub fn path(&self) -> Option<&'a [u8]> {
        // SAFETY: the request is live.
        unsafe { ffi::bytes((*self.r).uri) }.strip_prefix(self.location)
    }

    /// The arguments, not decoded.
    pub fn args(&self) -> &'a [u8] {
        // SAFETY: as above.
        unsafe { ffi::bytes((*self.r).args) }
    }

    /// The client's address.
    pub fn client(&self) -> &'a [u8] {
        // SAFETY: as above.
        unsafe { ffi::bytes((*(*self.r).connection).addr_text) }
    }

    /// The name by which the client has logged in, if it has.
    pub fn user(&self) -> &'a [u8] {
        // SAFETY: as above.
        unsafe { ffi::bytes((*self.r).headers_in.user) }
    }

    /// `$request_id`: the same as in every log.
    pub fn id(&self) -> String {
        // SAFETY: as above; the index is that of a variable which nginx evaluates once a request.
        unsafe {
            let value = ngx_http_get_indexed_variable(self.r, self.api.request_id).as_ref();
            let text = value.filter(|value| value.not_found() == 0 && !value.data.is_null());
            let bytes = text.map_or(&[][..], |value| slice::from_raw_parts(value.data, value.len() as usize));
            String::from_utf8_lossy(bytes).into_owned()
        }
    }

    /// The values of every header of that name, in whatever case.
    fn headers(&self, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        // SAFETY: the list is the request's own: parts of `nelts` headers each, ended by null.
        let mut part: *const ngx_list_part_t = unsafe { &raw const (*self.r).headers_in.headers.part };
        let mut index = 0;
        core::iter::from_fn(move || {
            // SAFETY: as above.
            while let Some(this) = unsafe { part.as_ref() } {
                if index < this.nelts {
                    // SAFETY: in bounds.
                    let element = unsafe { &*this.elts.cast::<ngx_table_elt_t>().add(index) };
                    index = index.saturating_add(1);
                    return Some(element);
                }
                (part, index) = (this.next, 0);
            }
            None
        })
        // SAFETY: names and values live as long as the request.
        .filter(move |element| unsafe { ffi::bytes(element.key) }.eq_ignore_ascii_case(name))
        // SAFETY: as above.
        .map(|element| unsafe { ffi::bytes(element.value) })
    }

    /// Why it may not be carried out: sent by a page of another site, or (`typed`) not said to be JSON.
    pub fn refusal(&self, typed: bool) -> Option<Refusal> {
        let host = self.headers(b"host").next().unwrap_or_default();
        let foreign = self.headers(b"sec-fetch-site").any(origin::is_foreign_site)
            || self.headers(b"origin").any(|origin| !origin::is_own(origin, host));
        if foreign {
            return Some(Refusal::cross_site());
        }
        let mut types = self.headers(b"content-type").peekable();
        if typed && (types.peek().is_none() || !types.all(origin::is_json)) {
            return Some(Refusal::content_type());
        }
        // SAFETY: the request is live.
        let length = unsafe { (*self.r).headers_in.content_length_n };
        u64::try_from(length).is_ok_and(|length| length > body::LIMIT as u64).then(Refusal::too_long)
    }

    /// The body, from memory and from its file; one byte more than the limit when it is longer.
    pub fn body(&self) -> io::Result<Vec<u8>> {
        let (mut text, most) = (Vec::new(), body::LIMIT.saturating_add(1));
        // SAFETY: the body is read; its chain of buffers is the request's.
        let mut link = unsafe { (*self.r).request_body.as_ref().map_or(core::ptr::null_mut(), |body| body.bufs) };
        // SAFETY: as above.
        while let Some(this) = unsafe { link.as_ref() } {
            // SAFETY: as above.
            unsafe { append(&mut text, &*this.buf, most)? };
            link = this.next;
        }
        Ok(text)
    }
}

/// Appends what a buffer holds, until `text` is `most` long.
///
/// # Safety
/// The buffer is one of a request's body.
unsafe fn append(text: &mut Vec<u8>, buffer: &ngx_buf_t, most: usize) -> io::Result<()> {
    let room = most.saturating_sub(text.len());
    if buffer.in_file() == 0 {
        // SAFETY: a buffer in memory holds what is from `pos` to `last`.
        let bytes = unsafe {
            let count = buffer.last.offset_from(buffer.pos).unsigned_abs();
            if buffer.pos.is_null() { &[][..] } else { slice::from_raw_parts(buffer.pos, count.min(room)) }
        };
        text.extend_from_slice(bytes);
        return Ok(());
    }
    let (mut at, end) = (buffer.file_pos, buffer.file_last);
    while at < end && text.len() < most {
        let mut block = [0_u8; 1024];
        let wanted = usize::try_from(end.saturating_sub(at)).unwrap_or(0).min(block.len()).min(most - text.len());
        // SAFETY: the file is open as long as the request; the block has room for what is asked for.
        let got = unsafe { libc::pread((*buffer.file).fd, block.as_mut_ptr().cast(), wanted, at) };
        let Ok(got) = usize::try_from(got) else { return Err(io::Error::last_os_error()) };
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(block.get(..got).unwrap_or_default());
        at = at.saturating_add(i64::try_from(got).unwrap_or(0));
    }
    Ok(())
}
