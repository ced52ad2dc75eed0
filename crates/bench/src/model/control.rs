//! The control port: statistics, changes of behaviour, and opening and closing of servers, over plain HTTP.
//!
//! One request per connection; the paths are listed in docs/model-servers.md and in the answer to an unknown one.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, BytesMut};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::codec::reason;
use super::listen::Site;
use super::server::Server;

/// The largest request, far above any SPEC.
const MAX_REQUEST: usize = 64 * 1024;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves the control port until the process ends.
pub async fn serve(listener: TcpListener, sites: Rc<Vec<Site>>) {
    loop {
        // Out of descriptors or the like: the next attempt may do better, and a test would see its request time out.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let sites = sites.clone();
        tokio::task::spawn_local(async move {
            // A client that leaves early is no concern of the servers.
            let _ = tokio::time::timeout(PATIENCE, handle(stream, &sites)).await;
        });
    }
}

async fn handle(mut stream: TcpStream, sites: &[Site]) -> io::Result<()> {
    let (status, body) = match read(&mut stream).await {
        Ok((method, target, body)) => match act(&method, &target, &body, sites).await {
            Ok(body) => (200, body),
            Err(error) => (400, json!({ "error": format!("{error:#}") })),
        },
        Err(error) => (400, json!({ "error": format!("{error:#}") })),
    };
    let body = format!("{body}\n");
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        reason(status),
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await
}

async fn read(stream: &mut TcpStream) -> Result<(String, String, String)> {
    let mut input = BytesMut::new();
    let (method, target, length) = loop {
        if let Some(head) = head(&mut input)? {
            break head;
        }
        ensure!(input.len() < MAX_REQUEST, "the request is too large");
        ensure!(stream.read_buf(&mut input).await? > 0, "the request is not whole");
    };
    ensure!(length < MAX_REQUEST, "the request is too large");
    while input.len() < length {
        ensure!(stream.read_buf(&mut input).await? > 0, "the request is not whole");
    }
    Ok((method, target, String::from_utf8(input[..length].to_vec())?))
}

/// Method, target and body length, once the header is whole.
fn head(input: &mut BytesMut) -> Result<Option<(String, String, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(end) = request.parse(input)? else { return Ok(None) };
    let length = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(Ok(0), |header| std::str::from_utf8(header.value)?.parse().context("Content-Length"))?;
    let (method, target) = (request.method.unwrap_or_default().to_owned(), request.path.unwrap_or_default().to_owned());
    input.advance(end);
    Ok(Some((method, target, length)))
}

/// Does what the request asks for; servers are named by `server=`, all of them when it is missing.
async fn act(method: &str, target: &str, body: &str, sites: &[Site]) -> Result<Value> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (mut chosen, mut keep) = (None, false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("server", name)) => chosen = Some(name),
            Some(("keep", "1")) => keep = true,
            _ => bail!("query \"{pair}\" is not server=NAME or keep=1"),
        }
    }
    let sites: Vec<&Site> = sites.iter().filter(|site| chosen.is_none_or(|name| site.server.name == name)).collect();
    ensure!(!sites.is_empty(), "there is no server \"{}\"", chosen.unwrap_or_default());
    let servers = || sites.iter().map(|site| &site.server);
    match (method, path) {
        ("GET", "/stats") => {}
        ("POST", "/set") => set(&servers().collect::<Vec<_>>(), body.trim())?,
        ("POST", "/close") => {
            for site in &sites {
                site.close(keep).await?;
            }
        }
        ("POST", "/block") => {
            for site in &sites {
                site.block().await?;
            }
        }
        ("POST", "/open") => sites.iter().try_for_each(|site| site.open())?,
        ("POST", "/reset") => servers().for_each(|server| server.reset()),
        _ => bail!("{method} {path} is not GET /stats or POST /set, /close, /block, /open, /reset"),
    }
    let stats: Map<String, Value> = sites.iter().map(|site| (site.server.name.clone(), site.stats())).collect();
    Ok(Value::Object(stats))
}

fn set(servers: &[&Rc<Server>], spec: &str) -> Result<()> {
    ensure!(!spec.is_empty(), "the body holds no SPEC");
    // All or none: every server is asked before the first is changed.
    for server in servers {
        server.behaviour().changed(spec, server.protocol).with_context(|| format!("server {}", server.name))?;
    }
    servers.iter().try_for_each(|server| server.change(spec))
}
