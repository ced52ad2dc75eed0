//! Prints what it takes to place servers on the ring of `labor_hash`, and to find a key's home, by number of servers.
//! Run with `cargo run --release -p labor-core --example ring_cost`. A guide, no test: speed is measured, never asserted.
#![allow(clippy::disallowed_methods, reason = "measures itself, so it needs the clock")]

use labor_core::affinity::{Ring, Secret};
use std::time::Instant;

/// Homes that are looked up: enough for a stable mean.
const KEYS: u64 = 1_000_000;

fn main() {
    let secret = Secret::new([1, 2]);
    println!("{:>8} {:>10} {:>12}", "servers", "ring ms", "home ns");
    for count in [4, 64, 256, 1000, 10_000, 40_000] {
        let servers: Vec<_> = (0..count).map(|id| (id, 1)).collect();
        let start = Instant::now();
        let ring = Ring::new(secret, &servers, 64);
        let built = start.elapsed();
        let start = Instant::now();
        let homes: usize = (0..KEYS).filter_map(|key| ring.order(secret.key(&key.to_le_bytes())).next()).sum();
        let found = start.elapsed();
        assert!(homes > 0);
        println!("{count:>8} {:>10.2} {:>12.0}", built.as_secs_f64() * 1e3, found.as_nanos() as f64 / KEYS as f64);
    }
}
