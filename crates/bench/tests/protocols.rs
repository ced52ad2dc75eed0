//! The protocols besides HTTP, byte by byte and, for gRPC, with another implementation's client.

mod common;

use std::future::poll_fn;
use std::io::{Read, Write};

use bytes::Bytes;
use common::{Model, read_until};

/// Sends `request` and reads to the end of the connection.
fn whole(model: &Model, server: &str, request: &[u8]) -> String {
    let mut stream = model.connect(server);
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn scgi_and_uwsgi_answer_and_close() {
    let model = Model::start(&["S=protocol=scgi,fail=0.5:500", "U=protocol=uwsgi,status=404,service=const:1ms"]);
    model.post("/set?server=S", "fail=1:500");
    let scgi = whole(&model, "S", b"24:CONTENT_LENGTH\x002\0SCGI\x001\0,ab");
    assert!(scgi.starts_with("Status: 500 Internal Server Error\r\nX-Server: S\r\n"), "{scgi}");
    let uwsgi = whole(&model, "U", b"\0\x13\0\0\x0e\0CONTENT_LENGTH\x01\x002ab");
    assert!(
        uwsgi.starts_with("HTTP/1.1 404 Not Found\r\nX-Server: U\r\n") && uwsgi.ends_with("\r\n\r\nxxxxxxxxxxxxxxxx")
    );
    assert_eq!((model.stat("S", "failures"), model.stat("U", "answers")), (1, 1));
}

#[test]
fn fastcgi_keeps_its_connection_when_asked_to() {
    let model = Model::start(&["F=protocol=fastcgi,body=5"]);
    let request =
        |flags| [&[1, 1, 0, 1, 0, 8, 0, 0, 0, 1, flags, 0, 0, 0, 0, 0][..], &[1, 5, 0, 1, 0, 0, 0, 0]].concat();
    let mut stream = model.connect("F");
    let end = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..2 {
        stream.write_all(&request(1)).unwrap();
        let answer = read_until(&mut stream, &end);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("Status: 200 OK\r\nX-Server: F\r\n") && text.contains("xxxxx"), "{text}");
    }
    assert!(whole(&model, "F", &request(0)).contains("Status: 200 OK"));
    assert_eq!((model.stat("F", "connections"), model.stat("F", "answers")), (2, 3));
}

#[test]
fn memcached_gives_its_name() {
    let model = Model::start(&["M=protocol=memcached"]);
    let mut stream = model.connect("M");
    stream.write_all(b"get /a\r\n").unwrap();
    assert_eq!(read_until(&mut stream, b"END\r\n"), b"VALUE /a 0 1\r\nM\r\nEND\r\n");
    model.post("/set", "fail=1");
    stream.write_all(b"get /a\r\n").unwrap();
    assert!(read_until(&mut stream, b"\r\n").starts_with(b"SERVER_ERROR"));
}

/// One unary call: HTTP status, server, message, grpc-status from trailers or header.
async fn call(address: &str) -> Result<(u16, String, Vec<u8>, String), h2::Error> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await?;
    let driver = tokio::spawn(connection);
    let request = http::Request::post("http://a/service/method").header("te", "trailers").body(()).unwrap();
    let (response, mut body) = client.ready().await?.send_request(request, false)?;
    body.send_data(Bytes::from_static(b"\0\0\0\0\x02ab"), true)?;
    let response = response.await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut stream = response.into_body();
    let mut message = Vec::new();
    while let Some(part) = stream.data().await {
        message.extend_from_slice(&part?);
    }
    let trailers = poll_fn(|context| stream.poll_trailers(context)).await?;
    driver.abort();
    let code = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status")).or(headers.get("grpc-status"));
    let text = |value: Option<&http::HeaderValue>| value.map(|value| value.to_str().unwrap().to_owned());
    Ok((status, text(headers.get("x-server")).unwrap(), message, text(code).unwrap_or_default()))
}

#[tokio::test]
async fn grpc_carries_its_status_in_trailers_or_alone() {
    let model = Model::start(&["G=protocol=grpc,body=3,service=const:1ms"]);
    let address = model.address("G");
    let good = (200, "G".to_owned(), b"\0\0\0\0\x03xxx".to_vec(), "0".to_owned());
    assert_eq!(call(address).await.unwrap(), good);
    model.post("/set", "grpc_status=8");
    assert_eq!(call(address).await.unwrap(), (200, "G".to_owned(), good.2, "8".to_owned()));
    model.post("/set", "fail=1,trailers_only");
    assert_eq!(call(address).await.unwrap(), (200, "G".to_owned(), Vec::new(), "14".to_owned()));
    assert_eq!(model.stat("G", "failures"), 1);
    model.post("/set", "reset=header");
    assert!(call(address).await.is_err());
    model.post("/set", "trailers_only=off,reset=body,body=1000");
    assert!(call(address).await.is_err());
    assert_eq!((model.stat("G", "requests"), model.stat("G", "answers"), model.stat("G", "aborted")), (5, 3, 0));
}

#[tokio::test]
async fn a_grpc_call_whose_client_leaves_counts_as_aborted() {
    let model = Model::start(&["G=protocol=grpc,hang"]);
    let address = model.address("G").to_owned();
    let task = tokio::spawn(async move { call(&address).await.map(drop) });
    while model.stat("G", "in_flight") < 1 {
        tokio::task::yield_now().await;
    }
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let model = tokio::task::spawn_blocking(move || {
        model.wait("G", "aborted", 1);
        model
    });
    assert_eq!(model.await.unwrap().stat("G", "in_flight"), 0);
}
