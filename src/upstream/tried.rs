//! The servers that a request has been to, by key.
//!
//! nginx remembers positions, which mean something else once the list changes; a request is rarely at more than a few servers,
//! so a short list of keys does, for both lists at once; sorted, because each candidate of each retry is looked up and a list
//! may hold thousands of dead servers. Memory comes from the request's pool when the inline places are used up. Whether a
//! server may be tried again is decided by the caller.

use core::slice;

use nginx_sys::ngx_pool_t;

use crate::ffi;

/// Attempts remembered without allocating: more retries than this are rare.
const INLINE: usize = 6;

/// One server.
#[derive(Clone, Copy, Default)]
struct Entry {
    key: u64,
    /// The attempt came to nothing through no fault of the server.
    void: bool,
}

/// The servers of one request.
pub struct Tried {
    inline: [Entry; INLINE],
    /// From the pool, null while the inline places suffice.
    more: *mut Entry,
    capacity: usize,
    len: usize,
    /// The server of the last attempt.
    last: u64,
}

impl Tried {
    /// None so far.
    pub fn new() -> Self {
        Self { inline: [Entry::default(); INLINE], more: core::ptr::null_mut(), capacity: INLINE, len: 0, last: 0 }
    }

    fn entries(&self) -> &[Entry] {
        if self.more.is_null() {
            self.inline.get(..self.len).unwrap_or_default()
        } else {
            // SAFETY: `push` put `len` entries there; the pool outlives the request's data.
            unsafe { slice::from_raw_parts(self.more, self.len) }
        }
    }

    fn places(&mut self) -> &mut [Entry] {
        if self.more.is_null() {
            &mut self.inline
        } else {
            // SAFETY: `grow` initialised all `capacity` entries.
            unsafe { slice::from_raw_parts_mut(self.more, self.capacity) }
        }
    }

    /// Whether the request has been to no server yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the request has been to the server with this key.
    pub fn contains(&self, key: u64) -> bool {
        self.find(key).is_ok()
    }

    /// Where the server with this key stands, or where it would.
    fn find(&self, key: u64) -> Result<usize, usize> {
        self.entries().binary_search_by_key(&key, |entry| entry.key)
    }

    /// Notes a server; false when there is no memory for it.
    pub fn push(&mut self, key: u64, pool: *mut ngx_pool_t) -> bool {
        if self.len == self.capacity && !self.grow(pool) {
            return false;
        }
        self.last = key;
        let Err(at) = self.find(key) else { return true };
        let len = self.len.saturating_add(1);
        if let Some(tail) = self.places().get_mut(at..len) {
            tail.rotate_right(1);
            if let Some(place) = tail.first_mut() {
                *place = Entry { key, void: false };
            }
            self.len = len;
        }
        true
    }

    fn grow(&mut self, pool: *mut ngx_pool_t) -> bool {
        let capacity = self.capacity.saturating_mul(2);
        // SAFETY: the pool is the request's.
        let more = unsafe { ffi::palloc::<Entry>(pool, capacity) };
        if more.is_null() {
            return false;
        }
        for at in 0..capacity {
            let entry = self.entries().get(at).copied().unwrap_or_default();
            // SAFETY: `more` has room for `capacity` entries.
            unsafe { more.add(at).write(entry) };
        }
        self.more = more;
        self.capacity = capacity;
        true
    }

    /// The last attempt says nothing about its server.
    pub fn last_was_void(&mut self) {
        let Ok(at) = self.find(self.last) else { return };
        if let Some(entry) = self.places().get_mut(at) {
            entry.void = true;
        }
    }

    /// Forgets the attempts that say nothing about their servers; whether there were any.
    pub fn forgive(&mut self) -> bool {
        let len = self.len;
        let mut kept = 0usize;
        let places = self.places();
        for at in 0..len {
            let Some(entry) = places.get(at).copied() else { break };
            if entry.void {
                continue;
            }
            if let Some(place) = places.get_mut(kept) {
                *place = entry;
                kept = kept.saturating_add(1);
            }
        }
        self.len = kept;
        kept < len
    }
}
