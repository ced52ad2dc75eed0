//! Affinity: requests with the same key stay on one server for as long as that server can bear them.
//!
//! A key's home is found in two steps, key → virtual node → server (`ring`), with a hash that only those can compute who know
//! the secret. A home that is busier than its part of what is in flight (`parts`), or far slower than the best, passes requests
//! on to the next server in the key's own order, which is as stable as the home; afterwards they come back. A key that brings
//! more than a server's part alone (`heavy`) yields sooner, so that the other keys of its home keep their place. Consistent
//! hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018) by capacity instead of count. The choice itself is
//! `choose`. Not here: where keys come from and where the secret is kept.

mod choose;
mod heavy;
mod parts;
mod ring;

pub use choose::{Asked, Keyed};
pub use ring::{Order, Ring};

use core::hash::Hasher;
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24x128};

/// What is set for the affinity of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affinity {
    /// How many times its part of what is in flight a home may have, 1 or more.
    pub bound: f32,
    /// Virtual nodes of a server for each unit of its weight, 1 or more.
    pub vnodes: u32,
    /// How many times the best server's score (as a response time) a home's may be, above 1; infinite for no limit.
    pub slack: f32,
}

impl Default for Affinity {
    /// A quarter above the fair part is what others with bounded loads chose as well: less moves more keys, more lets servers
    /// become unequal. 64 virtual nodes keep parts within some ten per cent. Three times the response time is more than chance
    /// makes between two equal servers, and less than anybody wants to wait for a warm cache.
    fn default() -> Self {
        Self { bound: 1.25, vnodes: 64, slack: 3.0 }
    }
}

/// What the hash of keys and servers depends on. Who does not know it cannot choose keys for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(u64, u64);

/// A key as it is hashed with a [`Secret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Secret {
    /// Of 128 random bits.
    pub const fn new([first, second]: [u64; 2]) -> Self {
        Self(first, second)
    }

    /// From a text that several hosts share: as secret as the text is.
    pub fn of(text: &[u8]) -> Self {
        // The digits of pi after the point: any constants do, the text is the secret.
        let mut hash = SipHasher24x128::new_with_keys(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344);
        hash.write(text);
        let hash = hash.finish128();
        Self(hash.h1, hash.h2)
    }

    /// The key that `text` is.
    pub fn key(self, text: &[u8]) -> Key {
        Key(self.hash(text, 0))
    }

    /// Where the virtual nodes of the server with this identity begin.
    fn server(self, id: u64) -> u64 {
        self.hash(&id.to_le_bytes(), 1)
    }

    /// SipHash-2-4, made for keys that attackers choose. `domain` keeps keys and servers apart.
    fn hash(self, bytes: &[u8], domain: u64) -> u64 {
        let mut hash = SipHasher24::new_with_keys(self.0, self.1 ^ domain);
        hash.write(bytes);
        hash.finish()
    }
}

/// Spreads a number that is secret already over 64 bits, `step` by `step`: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn spread(seed: u64, step: u64) -> u64 {
    let mut z = seed.wrapping_add(step.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
