//! What passes of heads and bodies.

use super::{FILES, MIB, SECRET, config, draw, gateway, ok, plain, send};
use crate::support::{Act, Ending, Gateway, LONG, Request, Service};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;

/// A form with a file of so many bytes, and its media type.
fn form(bytes: usize) -> (String, Vec<u8>) {
    let file: Vec<u8> = (0..251).cycle().take(bytes).collect();
    let head = b"--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
    let body = [&head[..], &file, b"\r\n--edge--\r\n"].concat();
    ("multipart/form-data; boundary=edge".to_owned(), body)
}

#[tokio::test]
async fn heads_pass_by_allow_list_and_the_credential_is_the_providers() {
    let service = Service::answering(|_| {
        let more = format!(
            "content-disposition: attachment; filename=\"a.wav\"\r\nx-note: two\r\nx-note: three\r\n\
             set-cookie: {SECRET}\r\nserver: {SECRET}\r\nopenai-organization: {SECRET}\r\n"
        );
        ok("multipart/mixed; boundary=x", &more, b"--x--")
    })
    .await;
    let gateway = gateway(&service).await;
    let request = Request::get(&format!("{FILES}/f?limit=2&key=sk-1&after=a%26b&Api_Key=2"))
        .key(&gateway.key)
        .header("content-type", "text/plain; charset=latin1")
        .header("accept", "audio/wav")
        .header("openai-beta", "assistants=v2")
        .header("range", "bytes=0-3")
        .header("x-api-key", &gateway.key)
        .header("cookie", "a=b")
        .header("openai-organization", "org-of-the-client")
        .header("x-note", "of the client")
        .header("x-forwarded-for", "10.0.0.1");
    let answer = gateway.send(&request).await;
    answer.assert_ok();

    let seen = service.last();
    assert_eq!(seen.target, "/v1/files/f?limit=2&after=a%26b");
    let authority = service.address.to_string();
    for (name, value) in [
        ("authorization", Some("Bearer credential-of-the-provider")),
        ("content-type", Some("text/plain; charset=latin1")),
        ("accept", Some("audio/wav")),
        ("openai-beta", Some("assistants=v2")),
        ("range", Some("bytes=0-3")),
        ("host", Some(&authority)),
        ("x-api-key", None),
        ("cookie", None),
        ("openai-organization", None),
        ("x-note", None),
        ("x-forwarded-for", None),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    let of_gateway = format!("{:?}", seen.headers);
    assert!(!of_gateway.contains(&gateway.key), "{of_gateway}");

    assert_eq!(
        answer.header("content-type"),
        Some("multipart/mixed; boundary=x")
    );
    let disposition = answer.header("content-disposition");
    assert_eq!(disposition, Some("attachment; filename=\"a.wav\""));
    assert_eq!(answer.header("content-length"), Some("5"));
    let notes = answer.headers.iter().filter(|(name, _)| name == "x-note");
    assert_eq!(
        notes.map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
        ["two", "three"]
    );
    assert!(answer.header("x-request-id").is_some());
    assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");

    // Without them, neither JSON nor a type of the gateway's is made up.
    send(&gateway, "GET", FILES).await.assert_ok();
    let seen = service.last();
    assert_eq!(
        (seen.header("content-type"), seen.header("accept")),
        (None, Some("*/*"))
    );
}

#[tokio::test]
async fn a_request_without_a_body_has_a_length_of_zero_if_its_method_expects_a_body() {
    let methods = ["POST", "PUT", "PATCH", "GET", "DELETE"];
    let service = Service::answering(plain).await;
    let entry = json!([{"path": "/v1/files", "methods": methods, "charge": 0}]);
    let config = config(&service).with("providers.sim.passthrough", entry);
    let gateway = Gateway::start(config).await;
    for (at, method) in methods.into_iter().enumerate() {
        let request = Request::new(method, FILES).key(&gateway.key);
        for request in [request.clone(), request.body("")] {
            gateway.send(&request).await.assert_ok();
            let seen = service.last();
            let expected = (at < 3).then_some("0");
            assert_eq!(seen.method, method);
            assert_eq!(seen.header("content-length"), expected, "{seen:?}");
            assert_eq!(seen.header("transfer-encoding"), None, "{seen:?}");
        }
    }
}

#[tokio::test]
async fn an_upload_of_20_mib_passes_while_it_comes_and_counts_no_memory() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    let (media_type, body) = form(20 * MIB);
    let upload = Request::new("POST", FILES)
        .key(&gateway.key)
        .header("content-type", &media_type)
        .body(body.clone());
    let mut connection = gateway.connect().await;
    connection.write(&upload.head()).await;
    let (first, rest) = body.split_at(MIB);
    connection.write(first).await;
    // A part has arrived before the rest is sent.
    service.has_bytes(MIB / 2).await;
    assert_eq!(
        gateway.sample("tollgate_request_body_bytes").await,
        Some(0.0)
    );
    connection.write(rest).await;
    let answer = connection.answer(&upload).await;
    answer.assert_ok();
    let seen = service.last();
    assert!(
        seen.body == body,
        "{} of {} bytes",
        seen.body.len(),
        body.len()
    );
    assert_eq!(seen.header("content-type"), Some(&*media_type));
    assert_eq!(
        seen.header("content-length"),
        Some(&*body.len().to_string())
    );
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["request_bytes"], json!(body.len()), "{line}");

    // The connection goes on, and so does a body of unknown length.
    let chunked = upload.clone().in_chunks_of(MIB);
    connection.send(&chunked).await.assert_ok();
    let seen = service.last();
    assert!(
        seen.body == body,
        "{} of {} bytes",
        seen.body.len(),
        body.len()
    );
    assert_eq!(seen.header("transfer-encoding"), Some("chunked"));
    let (media_type, small) = form(1000);
    let small = upload
        .without("content-type")
        .header("content-type", &media_type)
        .body(small);
    connection.send(&small).await.assert_ok();
    assert_eq!(service.last().body, small.body);
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_refused() {
    let service = Service::answering(plain).await;
    let gateway = Gateway::start(config(&service).with(
        "providers.sim.passthrough",
        json!([
            {"path": "/v1/files", "methods": ["POST"], "charge": 10, "body": "2MiB"},
            {"path": "/v1/small", "methods": ["POST"], "charge": 10, "body": 10},
        ]),
    ))
    .await;
    let key = gateway.key_with(1000, LONG);
    let post = |path: &str, size: usize| {
        Request::new("POST", &format!("/passthrough/sim{path}"))
            .key(&key)
            .body(vec![b'x'; size])
    };
    gateway.send(&post("/v1/small", 10)).await.assert_ok();
    gateway.send(&post("/v1/files", 2 * MIB)).await.assert_ok();
    for request in [
        post("/v1/small", 11),
        post("/v1/files", 2 * MIB + 1),
        post("/v1/small", 11).in_chunks_of(4),
        post("/v1/files", 3 * MIB).in_chunks_of(MIB),
    ] {
        gateway
            .send(&request)
            .await
            .assert_error(413, "request_too_large");
    }
    gateway.has_spent(&key, 20).await;
}

#[tokio::test]
async fn an_answer_of_20_mib_passes_while_it_comes() {
    let go = Arc::new(Notify::new());
    let mut sound: Vec<u8> = (0..253).cycle().take(20 * MIB).collect();
    // Nothing else is like the end of the first part.
    sound[MIB - 1] = u8::MAX;
    let (waits, sent) = (Arc::clone(&go), sound.clone());
    let service = Service::answering(move |_| {
        let (first, rest) = sent.split_at(MIB);
        let length = sent.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: {length}\r\n\r\n"
        );
        vec![
            Act::send([head.as_bytes(), first].concat()),
            Act::Wait(Arc::clone(&waits)),
            Act::send(rest),
        ]
    })
    .await;
    let gateway = gateway(&service).await;
    let request = Request::get(FILES).key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let mut answer = connection.head().await;
    assert_eq!(answer.header("content-type"), Some("audio/wav"));
    assert_eq!(
        answer.header("content-length"),
        Some(&*sound.len().to_string())
    );
    let begun = connection.read_until(&[u8::MAX]).await;
    assert_eq!(begun.len(), MIB);
    go.notify_one();
    connection.read_body_behind(begun, &mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert!(answer.body() == sound, "{} bytes", answer.body().len());
}

#[tokio::test]
async fn frames_of_amazon_pass_as_they_come() {
    let media_type = "application/vnd.amazon.eventstream";
    let service = Service::answering(move |_| ok(media_type, "", b"no frame")).await;
    let gateway = gateway(&service).await;
    let answer = send(&gateway, "GET", FILES).await;
    answer.assert_ok();
    assert_eq!(answer.header("content-type"), Some(media_type));
    assert_eq!(answer.body(), b"no frame");
}

#[tokio::test]
async fn events_pass_as_they_come() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let service = Service::answering(move |_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        vec![
            Act::send(format!("{head}9\r\ndata: 1\n\n\r\n")),
            Act::Wait(Arc::clone(&waits)),
            Act::send("9\r\ndata: 2\n\n\r\n0\r\n\r\n"),
        ]
    })
    .await;
    let gateway = gateway(&service).await;
    let request = draw().key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let mut answer = connection.head().await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let begun = connection.read_until(b"data: 1\n\n").await;
    go.notify_one();
    connection.read_body_behind(begun, &mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert_eq!(answer.events(), [json!(1), json!(2)]);
}

#[tokio::test]
async fn an_answer_without_a_body_passes() {
    let service = Service::answering(|seen| {
        vec![Act::send(match &*seen.method {
            "DELETE" => "HTTP/1.1 204 No Content\r\n\r\n",
            _ => "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n",
        })]
    })
    .await;
    let gateway = gateway(&service).await;
    let mut connection = gateway.connect().await;
    for (method, status, length) in [("DELETE", 204, None), ("POST", 201, Some("0"))] {
        let request = Request::new(method, FILES).key(&gateway.key);
        let answer = connection.send(&request).await;
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (status, length)
        );
        assert_eq!(answer.header("transfer-encoding"), None);
    }
}
