//! The key of a request, and the servers that keys belong to, as `labor_hash` says.
//!
//! nginx evaluates the key once a request; which server it belongs to is the core's business (`labor_core::affinity`). A server's
//! identity there is that of its record without what is measured, so that keys stay when `header` becomes `last_byte`.

use labor_core::Member;
use nginx_sys::{
    NGX_OK, ngx_http_complex_value, ngx_http_request_t, ngx_http_upstream_srv_conf_t, ngx_int_t, ngx_str_t,
};

use super::list::List;
use crate::ffi;
use crate::worker;
use crate::zone::View;

/// The key of a request to the upstream; `None` without `labor_hash`, when the key is empty, and without memory for it.
///
/// # Safety
/// Both are live, the upstream has our settings. The text lives as long as the request.
pub unsafe fn key<'a>(r: *mut ngx_http_request_t, us: *mut ngx_http_upstream_srv_conf_t) -> Option<&'a [u8]> {
    // SAFETY: by contract; nginx compiled the value for this configuration and puts the text into the request's pool.
    unsafe {
        let hash = ffi::upstream_conf(us).as_ref()?.hash?;
        let mut text = ngx_str_t::default();
        let done = ngx_http_complex_value(r, hash.key, &raw mut text) == NGX_OK as ngx_int_t;
        (done && text.len > 0).then(|| ffi::bytes(text))
    }
}

impl List {
    /// The servers became these: keys belong to them from now on.
    pub(super) fn rekey(&mut self, members: &[Member], view: View) {
        let Some(keyed) = &mut self.keyed else { return };
        let entries = self.entries.iter().zip(members);
        let servers: Vec<(u64, u32)> =
            entries.map(|(entry, member)| (entry.key ^ entry.other, member.weight)).collect();
        keyed.set(self.secret.unwrap_or_else(|| view.secret(worker::seed)), &servers);
    }
}
