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

/// Numbers equal entries in their list's order: the `ordinal` of an [`Identity`].
///
/// `entries` are (what must be equal, position) and are left sorted; `number(position, ordinal)` is called once for each.
pub fn number_equals<K: Copy + Ord>(entries: &mut [(K, u32)], mut number: impl FnMut(u32, u32)) {
    entries.sort_unstable();
    let mut before: Option<(K, u32)> = None;
    for &(key, position) in &*entries {
        let ordinal = match before {
            Some((equal, ordinal)) if equal == key => ordinal.saturating_add(1),
            _ => 0,
        };
        before = Some((key, ordinal));
        number(position, ordinal);
    }
}

/// The 64-bit key of a group's record (one list of one upstream), never 0.
pub fn group_key(upstream: &[u8], backup: bool, metric: Metric) -> u64 {
    peer_key(&Identity { upstream, backup, name: b"", address: b"", ordinal: 0, metric })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn equal_entries_are_numbered_in_the_order_of_the_list() {
        let mut entries = [("b", 0), ("a", 1), ("b", 2), ("", 3), ("b", 4), ("a", 5)];
        let mut ordinals = [u32::MAX; 6];
        number_equals(&mut entries, |position, ordinal| ordinals[position as usize] = ordinal);
        assert_eq!(ordinals, [0, 0, 1, 0, 2, 1]);
    }

    #[test]
    fn every_part_of_an_identity_tells_servers_apart() {
        let one =
            Identity { upstream: b"u", backup: false, name: b"n", address: b"a", ordinal: 0, metric: Metric::LastByte };
        let others = [
            Identity { upstream: b"un", name: b"", ..one },
            Identity { name: b"na", address: b"", ..one },
            Identity { backup: true, ..one },
            Identity { ordinal: 1, ..one },
            Identity { metric: Metric::Header, ..one },
        ];
        assert!(others.iter().all(|other| peer_key(other) != peer_key(&one)));
    }
}
