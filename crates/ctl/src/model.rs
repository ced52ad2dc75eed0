//! The status and the answers of the API as data: what the tables show, and no more.
//!
//! Lenient on purpose: a field that is missing is shown as missing, one that is not known is passed over, so that `labor-ctl` and
//! the module need not be of one age. Texts are as they came; whoever shows them makes them printable.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The version of the status that this understands.
pub const VERSION: u64 = 1;

/// A JSON object as a list, in its own order: that of the configuration.
#[derive(Debug)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Named<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// The answer of `labor_status`.
#[derive(serde::Deserialize, Debug)]
pub struct Status {
    /// Of the format.
    pub version: u64,
    /// nginx's version.
    #[serde(default)]
    pub nginx: String,
    /// The module's version.
    #[serde(default)]
    pub labor: String,
    /// When it was written, ISO 8601.
    #[serde(default)]
    pub time: String,
    /// By name.
    pub upstreams: Named<Upstream>,
}

/// One upstream.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
pub struct Upstream {
    /// Its servers, in the order of the configuration.
    pub peers: Vec<Peer>,
    /// What Plus does not have.
    pub labor: UpstreamLabor,
}

/// Settings and events of an upstream.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
pub struct UpstreamLabor {
    /// `fastest`, …
    pub policy: String,
    /// `last_byte` or `header`.
    pub metric: String,
    /// Newest first.
    pub events: Vec<Event>,
}

/// Something that happened to a server or to an upstream.
#[derive(serde::Deserialize, Debug, Default, Clone)]
#[serde(default)]
pub struct Event {
    /// ISO 8601.
    pub time: String,
    /// Seconds.
    pub seconds_ago: f64,
    /// The server's address; none where the whole upstream is meant.
    pub server: Option<String>,
    /// One word.
    pub reason: String,
    /// More words.
    pub detail: Option<String>,
}

/// One server.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
pub struct Peer {
    /// Position.
    pub id: u64,
    /// Address.
    pub server: String,
    /// As configured.
    pub name: String,
    /// Of the second list.
    pub backup: bool,
    /// In Plus's words.
    pub state: String,
    /// Attempts.
    pub requests: u64,
    /// What Plus does not have.
    pub labor: PeerLabor,
}

/// What `labor` knows of a server.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
pub struct PeerLabor {
    /// `up`, `full`, `lowered`, …
    pub state: String,
    /// Seconds since the state changed.
    pub state_since: Option<f64>,
    /// Capacity.
    pub weight: Setting<u64>,
    /// Most connections; 0: no limit.
    pub max_conns: Setting<u64>,
    /// Expected of one more request now, µs.
    pub latency_us: Option<f64>,
    /// Median of the last minutes, µs.
    pub p50_us: Option<f64>,
    /// 99th percentile of the last minutes, µs.
    pub p99_us: Option<f64>,
    /// Requests on their way.
    pub in_flight: u64,
    /// Part of the traffic, 0 to 1.
    pub share: Option<f64>,
    /// Of the last seconds.
    pub requests_per_second: Option<f64>,
    /// Why it was picked, and how often.
    pub picks: BTreeMap<String, u64>,
    /// How it fails.
    pub failures: Failures,
    /// Why its standing last changed.
    pub last_change: Option<Change>,
}

/// A setting that can be changed at run time: a number, or the word of a state.
#[derive(serde::Deserialize, Debug, Clone)]
#[serde(default)]
pub struct Setting<T> {
    /// What counts.
    pub effective: Option<T>,
    /// What the configuration says.
    pub configured: Option<T>,
    /// `configuration`, `api` or `state_file`.
    pub source: String,
}

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self { effective: None, configured: None, source: String::new() }
    }
}

/// Failures of a server.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
pub struct Failures {
    /// Of all kinds.
    pub total: u64,
    /// 0: well, 1: fails always.
    pub level: f64,
}

/// A change of a server's standing.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
pub struct Change {
    /// One word.
    pub reason: String,
    /// Seconds.
    pub seconds_ago: f64,
    /// More words.
    pub detail: Option<String>,
}

/// A server as `…/servers/ID` of the API answers.
#[derive(serde::Deserialize, Debug)]
pub struct Server {
    /// Address.
    pub server: String,
    /// What Plus does not have.
    #[serde(default)]
    pub labor: ServerLabor,
}

/// Settings with their origin.
#[derive(serde::Deserialize, Debug, Default)]
#[serde(default)]
pub struct ServerLabor {
    /// Capacity.
    pub weight: Setting<u64>,
    /// Most connections; 0: no limit.
    pub max_conns: Setting<u64>,
    /// `up`, `drain` or `down`.
    pub state: Setting<String>,
}

/// An error of the API.
#[derive(serde::Deserialize, Debug)]
pub struct Refusal {
    /// The error itself.
    pub error: RefusalText,
    /// As in nginx's log.
    #[serde(default)]
    pub request_id: String,
}

/// What went wrong there.
#[derive(serde::Deserialize, Debug)]
pub struct RefusalText {
    /// A sentence.
    pub text: String,
    /// A word for programs.
    pub code: String,
}
