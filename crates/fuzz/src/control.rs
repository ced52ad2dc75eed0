//! What the control interface and the status read: bodies, paths, origins, the state file, names, queries.

use labor_api_format::{body, origin, route, state, text};

use crate::status;

/// The body of a change. Accepted means that something is changed, and that it stands there as a JSON object.
pub fn body(data: &[u8]) {
    match body::parse(data) {
        Ok(patch) => {
            assert!(data.len() <= body::LIMIT && data.trim_ascii().starts_with(b"{"));
            assert!(patch.weight.is_some() || patch.state.is_some() || patch.max_conns.is_some());
        }
        Err(error) => assert!(error.to_string().len() <= 1000, "{error}"),
    }
}

/// A path, over the names on the first line.
pub fn route(data: &[u8]) {
    let (names, path) = crate::halves(data);
    let names: Vec<&[u8]> = names.split(|byte| *byte == b' ').collect();
    let upstream = match route::parse(path, &names) {
        route::Route::Upstream(upstream) | route::Route::Servers(upstream) | route::Route::Statistics(upstream) => {
            upstream
        }
        route::Route::Server(upstream, id) | route::Route::Overrides(upstream, id) => {
            assert!(!id.is_empty());
            upstream
        }
        _ => return,
    };
    let named = names[upstream];
    assert!(path.windows(named.len().max(1)).any(|part| part == named) || named.is_empty());
}

/// An `Origin` and a `Host`; also read as the other two headers. Only a host's own pages are its own.
pub fn origin(data: &[u8]) {
    let (given, host) = crate::halves(data);
    if origin::is_own(given, host) {
        let given = given.to_ascii_lowercase();
        let (authority, port) = match given.strip_prefix(b"http://") {
            Some(rest) => (Some(rest), &b":80"[..]),
            None => (given.strip_prefix(b"https://"), &b":443"[..]),
        };
        // The same, or one of them with the port that the other leaves out.
        let (authority, host) = (authority.expect("a scheme of nginx"), host.to_ascii_lowercase());
        let same = authority == host || [authority, port].concat() == host || [&host, port].concat() == authority;
        assert!(same, "{} {}", authority.escape_ascii(), host.escape_ascii());
    }
    let (_, _) = (origin::is_foreign_site(given), origin::is_json(given));
}

/// The state file: what is read is written and read again as the same. With a right last line put behind it as well, since no
/// mutation finds a checksum.
pub fn state(data: &[u8]) {
    const HEAD: &[u8] = b"labor-state 1\n";
    read_state(data);
    let Ok(empty) = String::from_utf8([HEAD, data].concat()) else { return };
    let lines = if empty.ends_with('\n') { empty } else { empty + "\n" };
    read_state(sealed(&lines).as_bytes());
}

fn read_state(bytes: &[u8]) {
    match state::parse(bytes) {
        Ok(entries) => {
            let set: Vec<_> = entries.into_iter().filter(|entry| !entry.control.is_empty()).collect();
            let again = state::parse(state::write(&set).as_bytes());
            assert_eq!(again.as_ref(), Ok(&set));
        }
        Err(error) => assert!(error.to_string().len() <= 200, "{error}"),
    }
}

/// `lines` with the last line that makes a file of them.
fn sealed(lines: &str) -> String {
    let count = lines.lines().count().saturating_sub(1);
    format!("{lines}end {count} {:016x}\n", state::checksum(lines.as_bytes()))
}

/// Names in lines: encoding is reversible, and no name leaves its quotes or its line.
pub fn text(data: &[u8]) {
    let mut encoded = String::new();
    text::encode(data, &mut encoded);
    assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'='));
    assert_eq!(text::decode(&encoded).as_deref(), Some(data));
    if let Ok(foreign) = std::str::from_utf8(data) {
        let _ = text::decode(foreign);
    }
    let quoted = text::Quoted(data).to_string();
    assert!(quoted.len() <= 2 + 4 * 255 + '…'.len_utf8() && !quoted.contains(|c: char| c.is_control()));
}

/// The arguments of a status request, asked for the names on the first line.
pub fn query(data: &[u8]) {
    let (name, args) = crate::halves(data);
    let query = status::query::Query::parse(args);
    let wanted = query.has_upstream(name);
    assert!(wanted || args.windows(8).any(|part| part == b"upstream"));
    let field = query.has_field(&String::from_utf8_lossy(name));
    assert!(field || args.windows(6).any(|part| part == b"fields"));
    assert!(!query.history || args.windows(7).any(|part| part == b"history"));
}
