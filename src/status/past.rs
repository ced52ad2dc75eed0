//! What happened in an upstream: its last events and, where asked for, its last quarter of an hour.
//!
//! Read from the rings in shared memory. Not here: who writes them (`keeper.rs`, the API).

use labor_core::events::{EVENTS, Seen};
use labor_core::history::{INTERVAL, Point, tick};
use labor_core::time::{seconds, since};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::group::Group;
use super::text::{Clock, Date, rounded, text};

/// Events in JSON, newest first.
pub struct Events(pub Vec<Seen>, pub Clock);

impl Events {
    /// Those of several rings as one.
    pub fn of(rings: impl Iterator<Item = Vec<Seen>>, clock: Clock) -> Self {
        let mut all: Vec<Seen> = rings.flatten().collect();
        // Stable: of two at the same moment the one that its ring has as the newer comes first.
        all.sort_by_key(|event| core::cmp::Reverse(event.at));
        all.truncate(EVENTS);
        Self(all, clock)
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for seen in &self.0 {
            seq.serialize_element(&Event(seen, self.1))?;
        }
        seq.end()
    }
}

/// One event in JSON.
struct Event<'a>(&'a Seen, Clock);

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(seen, clock) = self;
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("time", &clock.date(seen.at))?;
        map.serialize_entry("seconds_ago", &rounded(seconds(since(seen.at, clock.now))))?;
        map.serialize_entry("server", &(!seen.server.is_empty()).then(|| text(&seen.server)))?;
        map.serialize_entry("reason", seen.event.name())?;
        map.serialize_entry("detail", &Some(seen.detail()).filter(|words| !words.is_empty()))?;
        map.end()
    }
}

/// The last quarter of an hour in JSON.
pub struct History {
    interval: f64,
    end: Date,
    /// By the server's id.
    servers: Vec<(u32, Vec<Option<Point>>)>,
}

impl History {
    /// That of every server of `group`.
    pub fn of(group: &Group, clock: Clock) -> Self {
        let now = tick(clock.now);
        let read = |at: u64| -> Vec<_> {
            let points = |row: super::row::Row<'_>| row.ledger.map_or_else(Vec::new, |l| l.history.read(at).collect());
            group.rows().map(|row| (row.id, points(row))).collect()
        };
        let mut servers = read(now);
        // The interval that has just ended is noted within a second.
        let noted =
            |servers: &[(u32, Vec<Option<Point>>)]| servers.iter().any(|(_, p)| p.last().is_some_and(Option::is_some));
        let mut ends = now;
        if !noted(&servers) {
            let before = read(now.saturating_sub(1));
            if noted(&before) {
                (servers, ends) = (before, now.saturating_sub(1));
            }
        }
        // Lists of equal length, so that the same place is the same time everywhere.
        let length = servers.iter().map(|(_, points)| points.len()).max().unwrap_or(0);
        for (_, points) in &mut servers {
            let missing = length.saturating_sub(points.len());
            points.splice(0..0, core::iter::repeat_n(None, missing));
        }
        let end = clock.wall.saturating_sub(since(ends.saturating_mul(INTERVAL), clock.now) / 1000);
        Self { interval: seconds(INTERVAL), end: Date(end), servers }
    }
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("interval", &(self.interval.round() as u64))?;
        map.serialize_entry("end", &self.end.0)?;
        map.serialize_entry("servers", &Servers(&self.servers))?;
        map.end()
    }
}

/// Id → points.
struct Servers<'a>(&'a [(u32, Vec<Option<Point>>)]);

impl Serialize for Servers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(id, points)| (id, Points(points))))
    }
}

/// One server's points as two lists.
struct Points<'a>(&'a [Option<Point>]);

impl Serialize for Points<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        let latency = |point: &Option<Point>| point.map(|p| p.latency_us).filter(|us| *us > 0);
        map.serialize_entry("latency_us", &List(self.0, latency))?;
        map.serialize_entry("requests", &List(self.0, |point: &Option<Point>| point.map(|p| p.requests)))?;
        map.end()
    }
}

/// One figure of every point.
struct List<'a, F>(&'a [Option<Point>], F);

impl<F: Fn(&Option<Point>) -> Option<u32>> Serialize for List<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(&self.1))
    }
}
