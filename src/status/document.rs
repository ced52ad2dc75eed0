//! The status as a whole: what this is, the shared memory, every upstream.
//!
//! Upstreams are looked at one by one while the answer is written, so that only one is in memory. Not here: one upstream
//! (`group.rs`), one server (`row.rs`), HTTP (`status.rs`).

use nginx_sys::ngx_http_upstream_srv_conf_t;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::group::{Depth, Group};
use super::query::Query;
use super::text::{Clock, Date, text};
use crate::zone;

/// The version of this format: grows when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// The whole answer.
#[derive(serde::Serialize)]
pub struct Document<'a> {
    version: u32,
    nginx: &'static str,
    labor: &'static str,
    /// The process that answers.
    worker: u32,
    time: Date,
    /// The same moment, ms since 1970.
    timestamp: u64,
    zone: Option<Zone>,
    upstreams: Upstreams<'a>,
}

/// The shared memory; null in a process without.
#[derive(serde::Serialize)]
struct Zone {
    size: usize,
    /// Configurations, the first and each reload, that have used this memory.
    generation: u64,
    peers_used: usize,
    peers_max: usize,
    lists_used: usize,
    workers_used: usize,
    workers_max: usize,
}

impl<'a> Document<'a> {
    /// The status of `upstreams` at this moment.
    pub fn new(upstreams: &'a [*mut ngx_http_upstream_srv_conf_t], query: &'a Query) -> Self {
        let zone = zone::view().map(|v| v.usage()).map(|usage| Zone {
            size: usage.size,
            generation: usage.configurations,
            peers_used: usage.peers,
            peers_max: usage.peers_max,
            lists_used: usage.groups,
            workers_used: usage.workers,
            workers_max: usage.workers_max,
        });
        let clock = Clock::read();
        Self {
            version: VERSION,
            nginx: env!("LABOR_NGINX_VERSION"),
            labor: env!("CARGO_PKG_VERSION"),
            worker: std::process::id(),
            time: Date(clock.wall),
            timestamp: clock.wall,
            zone,
            upstreams: Upstreams { list: upstreams, query, clock },
        }
    }
}

/// Name → upstream.
struct Upstreams<'a> {
    list: &'a [*mut ngx_http_upstream_srv_conf_t],
    query: &'a Query,
    clock: Clock,
}

impl Serialize for Upstreams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for us in self.list {
            // SAFETY: upstreams of the running configuration, which are not changed any more.
            let group = unsafe { Group::read(*us, |name| self.query.has_upstream(name), Depth::All, self.clock) };
            if let Some(group) = group {
                map.serialize_entry(&text(group.name), &group.shown(self.query, true))?;
            }
        }
        map.end()
    }
}
