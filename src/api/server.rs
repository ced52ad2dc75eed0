//! One server of an upstream as the interface knows it: which one an ID means, and its configuration as NGINX Plus shows it.

use labor_core::Metric;
use labor_core::control::State;
use nginx_sys::NGX_HTTP_BAD_REQUEST;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::answer::Refusal;
use crate::status::{Group, Row, Setting, text};

/// The server that `id` means: its position in the list, its address, or its name as configured.
pub fn find<'a>(group: &'a Group, id: &[u8]) -> Result<Row<'a>, Refusal> {
    if id.iter().all(u8::is_ascii_digit) {
        let position = core::str::from_utf8(id).ok().and_then(|id| id.parse::<u32>().ok());
        return group.rows().find(|row| Some(row.id) == position).ok_or_else(Refusal::no_server);
    }
    let is = |name: &[u8]| name == id || text(name).as_bytes() == id;
    let by = |name: fn(&Row<'a>) -> &'a [u8]| {
        let mut fitting = group.rows().filter(move |row| is(name(row)));
        (fitting.next(), fitting.next().is_some())
    };
    let found = match by(|row| row.servers.address(row.server)) {
        (None, _) => by(|row| row.servers.name(row.server)),
        found => found,
    };
    match found {
        (Some(row), false) => Ok(row),
        (None, _) => Err(Refusal::no_server()),
        (Some(_), true) => {
            let text = "several servers have this address or name: use the position (\"id\")";
            Err(Refusal::new(NGX_HTTP_BAD_REQUEST, "UpstreamBadServerId", text))
        }
    }
}

/// What a server's record is found by: now, and when the other metric is measured.
pub fn keys(group: &Group, row: &Row<'_>) -> (u64, u64) {
    let key = |metric| row.servers.key(row.server, group.name, metric);
    match group.params.metric {
        Metric::LastByte => (key(Metric::LastByte), key(Metric::Header)),
        Metric::Header => (key(Metric::Header), key(Metric::LastByte)),
    }
}

/// A server's configuration, with what is set at run time.
pub struct Conf<'a>(pub Row<'a>);

impl Serialize for Conf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Own {
            weight: Setting,
            max_conns: Setting,
            state: Word,
        }
        #[derive(serde::Serialize)]
        struct Word {
            effective: &'static str,
            configured: &'static str,
            source: &'static str,
        }
        let row = &self.0;
        let settings = row.settings();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &row.id)?;
        map.serialize_entry("server", &text(row.servers.address(row.server)))?;
        map.serialize_entry("name", &text(row.servers.name(row.server)))?;
        map.serialize_entry("weight", &settings.weight)?;
        map.serialize_entry("max_conns", &settings.max_conns)?;
        map.serialize_entry("max_fails", &row.server.max_fails)?;
        map.serialize_entry("fail_timeout", &format!("{}s", row.server.fail_timeout))?;
        map.serialize_entry("backup", &row.servers.backup)?;
        map.serialize_entry("down", &(settings.state == State::Down))?;
        map.serialize_entry("drain", &(settings.state == State::Drain))?;
        map.serialize_entry("state", settings.state.name())?;
        let (control, configured) = (row.control(), row.server.configured);
        let state = Word {
            effective: settings.state.name(),
            configured: configured.state.name(),
            source: control.state_source().name(),
        };
        let weight = Setting::weight(&control, settings, configured);
        let own = Own { weight, max_conns: Setting::max_conns(&control, settings, configured), state };
        map.serialize_entry("labor", &own)?;
        map.end()
    }
}
