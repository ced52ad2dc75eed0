//! What a path below the interface's location names.
//!
//! nginx hands over the path decoded, so a name may hold slashes: names are compared with those that exist, and the longest
//! that fits is meant. Not here: whether a server exists.

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/`: what there is.
    Root,
    /// `/upstreams`.
    Upstreams,
    /// `/upstreams/NAME`, by the position of the name.
    Upstream(usize),
    /// `/upstreams/NAME/servers`.
    Servers(usize),
    /// `/upstreams/NAME/servers/ID`.
    Server(usize, &'a [u8]),
    /// `/upstreams/NAME/servers/ID/overrides`.
    Overrides(usize, &'a [u8]),
    /// `/upstreams/NAME/statistics`.
    Statistics(usize),
    /// No upstream of that name.
    NoUpstream,
    /// Nothing that exists.
    Nothing,
}

/// Reads a path; `names` are the upstreams'. One slash at either end does not matter.
pub fn parse<'a>(path: &'a [u8], names: &[&[u8]]) -> Route<'a> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    if path.is_empty() {
        return Route::Root;
    }
    let Some(rest) = below(path, b"upstreams") else { return Route::Nothing };
    if rest.is_empty() {
        return Route::Upstreams;
    }
    let fitting = names.iter().enumerate().filter_map(|(i, name)| Some((i, name.len(), below(rest, name)?)));
    let Some((upstream, _, rest)) = fitting.max_by_key(|(_, length, _)| *length) else { return Route::NoUpstream };
    if rest.is_empty() {
        return Route::Upstream(upstream);
    }
    if below(rest, b"statistics").is_some_and(<[u8]>::is_empty) {
        return Route::Statistics(upstream);
    }
    let Some(id) = below(rest, b"servers") else { return Route::Nothing };
    let id = id.strip_suffix(b"/").unwrap_or(id);
    match id.strip_suffix(b"/overrides") {
        _ if id.is_empty() => Route::Servers(upstream),
        Some(id) if !id.is_empty() => Route::Overrides(upstream, id),
        _ => Route::Server(upstream, id),
    }
}

/// What follows `name` and a slash; empty when nothing does.
fn below<'a>(path: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&[u8]; 4] = [b"app", b"app/servers", b"api", b""];

    #[test]
    fn every_path() {
        let route = |path: &'static str| parse(path.as_bytes(), &NAMES[..3]);
        for path in ["", "/"] {
            assert_eq!(route(path), Route::Root);
        }
        assert_eq!((route("upstreams"), route("/upstreams/")), (Route::Upstreams, Route::Upstreams));
        assert_eq!((route("/upstreams/app"), route("/upstreams/api/")), (Route::Upstream(0), Route::Upstream(2)));
        assert_eq!(
            (route("/upstreams/api/servers"), route("/upstreams/api/servers/")),
            (Route::Servers(2), Route::Servers(2))
        );
        assert_eq!(route("/upstreams/api/servers/0"), Route::Server(2, b"0"));
        assert_eq!(route("/upstreams/api/servers/127.0.0.1:80/"), Route::Server(2, b"127.0.0.1:80"));
        assert_eq!(route("/upstreams/api/servers/unix:/run/x.sock"), Route::Server(2, b"unix:/run/x.sock"));
        assert_eq!(route("/upstreams/api/servers/unix:/run/x/overrides"), Route::Overrides(2, b"unix:/run/x"));
        assert_eq!(route("/upstreams/api/statistics"), Route::Statistics(2));
        assert_eq!(route("/upstreams/nobody/servers"), Route::NoUpstream);
        for path in ["x", "/upstreamsx", "/upstreams/api/x", "/upstreams/api/statistics/x", "/9/http/upstreams"] {
            assert_eq!(route(path), Route::Nothing, "{path}");
        }
    }

    #[test]
    fn the_longest_name_is_meant() {
        assert_eq!(parse(b"/upstreams/app/servers", &NAMES), Route::Upstream(1));
        assert_eq!(parse(b"/upstreams/app/servers/servers/0", &NAMES), Route::Server(1, b"0"));
    }

    proptest! {
        #[test]
        fn any_path_has_a_route(path in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&path, &NAMES);
        }
    }
}
