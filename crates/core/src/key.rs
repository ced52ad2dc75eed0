//! The identity of a record in shared memory: what makes a server "the same" over reloads and changes of the list.

use crate::params::Metric;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;

/// What a server's record is found by. Renaming an upstream starts afresh; equal servers in one list learn separately.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The upstream's name.
    pub upstream: &'a [u8],
    /// Whether the server is in the backup list.
    pub backup: bool,
    /// The server as configured (a name may resolve to several addresses).
    pub name: &'a [u8],
    /// The printable address.
    pub address: &'a [u8],
    /// 0 for the first of equal entries, 1 for the second, …
    pub ordinal: u32,
    /// What is measured: header times and full times do not mix.
    pub metric: Metric,
}

/// The 64-bit key of a server's record, never 0 (0 is a free slot).
pub fn peer_key(id: &Identity<'_>) -> u64 {
    let mut hash = SipHasher13::new();
    for part in [id.upstream, id.name, id.address] {
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        hash.write_u64(part.len() as u64);
        hash.write(part);
    }
    hash.write_u8(u8::from(id.backup));
    hash.write_u32(id.ordinal);
    hash.write_u8(id.metric as u8);
    hash.finish().max(1)
}

/// The 64-bit key of a group's record (one list of one upstream), never 0.
pub fn group_key(upstream: &[u8], backup: bool, metric: Metric) -> u64 {
    peer_key(&Identity { upstream, backup, name: b"", address: b"", ordinal: 0, metric })
}
