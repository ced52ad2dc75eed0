//! Changing servers: finding the one that is meant, saying what changed from what to what.

use serde_json::json;

use crate::cli::{Place, Value};
use crate::client::Client;
use crate::error::{Error, Kind, Result};
use crate::model::{Named, Server, Upstream};
use crate::text::{ascii_json, printable};
use crate::view::setting;

/// What is done to a server.
#[derive(Clone, Copy)]
pub enum Change {
    /// `up`, `drain` or `down`.
    State(&'static str),
    /// Capacity.
    Weight(Value),
    /// Limit of connections.
    MaxConns(Value),
    /// Everything as configured.
    Clear,
}

impl Change {
    /// The body of the request.
    fn body(self) -> String {
        let number = |value| match value {
            Value::Number(n) => json!(n),
            Value::Default => json!(null),
        };
        match self {
            Self::State(state) => json!({ "state": state }),
            Self::Weight(value) => json!({ "weight": number(value) }),
            Self::MaxConns(value) => json!({ "max_conns": number(value) }),
            Self::Clear => json!({}),
        }
        .to_string()
    }

    /// What it changes, as it is at `server`.
    fn shown(self, server: &Server) -> String {
        let labor = &server.labor;
        let limit = |n: &u64| if *n == 0 { "no limit".into() } else { n.to_string() };
        let state = || setting(&labor.state, |state| printable(state));
        let weight = || format!("weight {}", setting(&labor.weight, u64::to_string));
        let max_conns = || format!("max_conns {}", setting(&labor.max_conns, limit));
        match self {
            Self::State(_) => state(),
            Self::Weight(_) => weight(),
            Self::MaxConns(_) => max_conns(),
            Self::Clear => format!("{}, {}, {}", state(), weight(), max_conns()),
        }
    }
}

/// Where a server is.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    upstream: String,
    /// Its address.
    server: String,
    /// Its address too, or its position where others of that upstream have the same address.
    id: String,
}

impl Found {
    fn shown(&self) -> String {
        let number = if self.id == self.server { String::new() } else { format!(" (number {})", self.id) };
        format!("{} {}{number}", printable(&self.upstream), printable(&self.server))
    }
}

/// Does `change` to the server or servers that `place` means; what to print.
///
/// # Errors
/// No such server, several, or what the server says. With several servers, the first error after all were tried.
pub fn change(
    client: &Client,
    place: &Place,
    change: Change,
    json: bool,
    mut print: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let found = find(&client.upstreams()?, place)?;
    let mut result = Ok(());
    for server in &found {
        match apply(client, server, change, json) {
            Ok(line) => print(&line)?,
            Err(error) if found.len() > 1 => {
                let error = Error::new(error.kind, format!("{}: {error}", server.shown()));
                if result.is_ok() {
                    result = Err(error);
                } else {
                    eprintln!("labor-ctl: {error}");
                }
            }
            Err(error) => return Err(error),
        }
    }
    result
}

fn apply(client: &Client, found: &Found, change: Change, json: bool) -> Result<String> {
    let path = ["upstreams", &found.upstream, "servers", &found.id];
    let (_, before) = client.server("GET", &path, None)?;
    // A position means another server once the list has changed.
    same(found, &before)?;
    let (text, after) = match change {
        Change::Clear => client.server("DELETE", &[&path[..], &["overrides"]].concat(), None)?,
        _ => client.server("PATCH", &path, Some(&change.body()))?,
    };
    if json {
        return Ok(ascii_json(text.trim_end()) + "\n");
    }
    same(found, &after)?;
    Ok(format!("{}: {}, was {}\n", found.shown(), change.shown(&after), change.shown(&before)))
}

fn same(found: &Found, server: &Server) -> Result<()> {
    if server.server == found.server {
        return Ok(());
    }
    let message = format!("number {} is {} now: the list has changed meanwhile", found.id, printable(&server.server));
    Err(Error::new(Kind::Unknown, message).hint("labor-ctl status shows what is set; try again"))
}

/// Forgets what was learned of an upstream; what to print.
///
/// # Errors
/// What the server says.
pub fn reset(client: &Client, upstream: &str) -> Result<String> {
    client.delete(&["upstreams", upstream, "statistics"])?;
    Ok(format!("{}: statistics and learning reset\n", printable(upstream)))
}

/// The servers that are meant: one, or with `--all` one or more.
fn find(upstreams: &Named<Upstream>, place: &Place) -> Result<Vec<Found>> {
    let asked: Vec<&(String, Upstream)> =
        upstreams.0.iter().filter(|(name, _)| place.upstream.as_ref().is_none_or(|wanted| wanted == name)).collect();
    if asked.is_empty() {
        return Err(no_upstream(upstreams, place.upstream.as_deref()));
    }
    // The most exact reading that fits somewhere: the address or the configured name, the number, the host.
    let mut found = pick(&asked, |peer, at| peer.server == at || (peer.name == at && !at.is_empty()), &place.address);
    if found.is_empty() && place.upstream.is_some() {
        found = pick(&asked, |peer, at| at.parse() == Ok(peer.id), &place.address);
    }
    if found.is_empty() {
        let host = |server: &str| server.rsplit_once(':').map(|(host, _)| host.to_string()).filter(|h| h != "unix");
        found = pick(&asked, |peer, at| host(&peer.server).as_deref() == Some(at), &place.address);
    }
    match found.len() {
        0 => Err(no_server(&asked, place)),
        1 => Ok(found),
        _ if place.all => Ok(found),
        count => {
            let list: String = found.iter().map(|f| format!("\n    {}", f.shown())).collect();
            let message = format!("{} stands for {count} servers:{list}", printable(&place.address));
            Err(Error::new(Kind::Ambiguous, message)
                .hint("--upstream NAME chooses (there also by number), --all takes all of them"))
        }
    }
}

fn pick(asked: &[&(String, Upstream)], fits: impl Fn(&crate::model::Peer, &str) -> bool, address: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (name, upstream) in asked {
        for peer in upstream.peers.iter().filter(|peer| fits(peer, address)) {
            let twins = upstream.peers.iter().filter(|other| other.server == peer.server).count();
            let id = if twins > 1 { peer.id.to_string() } else { peer.server.clone() };
            found.push(Found { upstream: name.clone(), server: peer.server.clone(), id });
        }
    }
    found
}

/// How many names an error lists.
const LISTED: usize = 10;

fn listed(names: &[String]) -> String {
    let more = if names.len() > LISTED { format!(" and {} more", names.len() - LISTED) } else { String::new() };
    names.iter().take(LISTED).map(|name| printable(name)).collect::<Vec<_>>().join(", ") + &more
}

/// The error for an upstream that is not there.
pub fn no_upstream<T>(upstreams: &Named<T>, wanted: Option<&str>) -> Error {
    let names: Vec<String> = upstreams.0.iter().map(|(name, _)| name.clone()).collect();
    match wanted {
        Some(wanted) if !names.is_empty() => {
            Error::new(Kind::Unknown, format!("there is no upstream {}", printable(wanted)))
                .hint(format!("there are: {}", listed(&names)))
        }
        _ => Error::new(Kind::Unknown, "no upstream has a labor directive"),
    }
}

fn no_server(asked: &[&(String, Upstream)], place: &Place) -> Error {
    let known: Vec<String> = asked.iter().flat_map(|(_, u)| u.peers.iter().map(|p| p.server.clone())).collect();
    let whose = place.upstream.as_ref().map_or_else(String::new, |name| format!(" of upstream {}", printable(name)));
    Error::new(Kind::Unknown, format!("there is no server {}{whose}", printable(&place.address)))
        .hint(format!("there are: {}", listed(&known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstreams() -> Named<Upstream> {
        let text = r#"{"app":{"peers":[{"id":0,"server":"10.0.0.1:80","name":"a.example:80"},{"id":1,"server":"10.0.0.2:80","name":"a.example:80"},
            {"id":2,"server":"10.0.0.3:80"},{"id":3,"server":"10.0.0.3:80","backup":true},{"id":4,"server":"[::1]:80"}]},
            "b":{"peers":[{"id":0,"server":"10.0.0.1:80"},{"id":1,"server":"10.0.0.9:81"},{"id":2,"server":"unix:/run/9.sock"}]}}"#;
        serde_json::from_str(text).unwrap()
    }

    fn look(address: &str, upstream: Option<&str>, all: bool) -> std::result::Result<Vec<String>, Kind> {
        let place = Place { address: address.into(), upstream: upstream.map(Into::into), all };
        find(&upstreams(), &place)
            .map(|f| f.iter().map(|f| format!("{}/{}", f.upstream, f.id)).collect())
            .map_err(|e| e.kind)
    }

    #[test]
    fn the_server_that_is_meant_is_found() {
        let one = |text: &str| Ok(vec![text.to_string()]);
        assert_eq!(look("10.0.0.2:80", None, false), one("app/10.0.0.2:80"));
        assert_eq!(look("10.0.0.9", None, false), one("b/10.0.0.9:81"));
        assert_eq!(look("unix:/run/9.sock", None, false), one("b/unix:/run/9.sock"));
        assert_eq!(look("[::1]", None, false), one("app/[::1]:80"));
        assert_eq!(look("10.0.0.1:80", Some("b"), false), one("b/10.0.0.1:80"));
        assert_eq!(look("3", Some("app"), false), one("app/3"));
    }

    #[test]
    fn several_are_taken_only_on_demand() {
        for (address, upstream) in
            [("10.0.0.1:80", None), ("10.0.0.1", None), ("a.example:80", None), ("10.0.0.3:80", Some("app"))]
        {
            assert_eq!(look(address, upstream, false), Err(Kind::Ambiguous), "{address}");
            assert_eq!(look(address, upstream, true).map(|f| f.len()), Ok(2), "{address}");
        }
        assert_eq!(look("10.0.0.3:80", None, true), Ok(vec!["app/2".to_string(), "app/3".to_string()]));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        for (address, upstream) in [
            ("10.0.0.4:80", None),
            ("3", None),
            ("", None),
            ("10.0.0.9:81", Some("app")),
            ("10.0.0.1:80", Some("c")),
            ("unix", None),
        ] {
            assert_eq!(look(address, upstream, true), Err(Kind::Unknown), "{address}");
        }
    }
}
