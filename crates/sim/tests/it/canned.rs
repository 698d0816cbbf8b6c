//! A server that is canned as a whole: its own reading of HTTP/1.1, and HTTP/2 beside it.

use crate::client::{ALL, CHAT, Server, read_reply};
use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{io::AsyncWriteExt, time::timeout};
use tollgate_sim::{Canned, Sim};

async fn canned(answers: Canned) -> Server {
    Server::start(Sim::builder().canned(true).canned_answers(answers)).await
}

#[tokio::test]
async fn every_request_gets_the_prebuilt_body_of_its_format() {
    let server = canned(Canned {
        bytes: 2000,
        ..Canned::default()
    })
    .await;
    for (path, text) in ALL.into_iter().zip([
        "/choices/0/message/content",
        "/output/0/content/0/text",
        "/content/0/text",
    ]) {
        let reply = server.send("POST", path, "", "whatever").await;
        assert_eq!(
            reply.json().pointer(text).unwrap().as_str().unwrap().len(),
            2000
        );
    }
    let count = server
        .send("POST", "/v1/messages/count_tokens", "", "{}")
        .await;
    assert!(count.json()["input_tokens"].is_number());
}

#[tokio::test]
async fn requests_are_separated_however_they_are_framed() {
    let server = canned(Canned::default()).await;
    let mut stream = server.connect().await;
    let requests = [
        format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nGET /"),
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\ntrailer: x\r\n\r\n"
        ),
        "GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        ),
    ];
    for byte in requests.concat().bytes() {
        stream.write_all(&[byte]).await.unwrap();
    }
    let replies = read_reply(&mut stream).await;
    assert_eq!(
        memchr::memmem::find_iter(&replies.raw, b"HTTP/1.1 200 OK").count(),
        4
    );
    let counted = server
        .handle
        .when(|counters| counters.requests == 4 && counters.open_connections == 0);
    timeout(crate::client::PATIENCE, counted).await.unwrap();
}

#[tokio::test]
async fn nonsense_ends_the_connection_and_a_body_is_asked_for() {
    let server = canned(Canned::default()).await;
    let mut stream = server.connect().await;
    stream.write_all(b"this is not HTTP\r\n\r\n").await.unwrap();
    assert!(read_reply(&mut stream).await.raw.is_empty());
    let reply = server
        .send("POST", CHAT, "expect: 100-continue\r\n", "x")
        .await;
    assert!(
        reply
            .raw
            .starts_with(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    );
}

#[tokio::test]
async fn a_canned_stream_has_so_many_events_each_flushed_alone() {
    let answers = Canned {
        chunks: Some(20),
        chunk_bytes: 33,
        ..Canned::default()
    };
    let server = canned(answers).await;
    for path in ALL {
        let reply = server.send("POST", path, "", "{}").await;
        let (chunks, ended) = reply.chunks();
        assert!(ended);
        assert_eq!(chunks.len(), 22, "{path}");
        assert!(reply.events().len() >= 22);
    }
}

#[tokio::test]
async fn http2_is_answered_on_the_same_port() {
    for options in [Sim::builder().canned(true), Sim::builder()] {
        let server = Server::start(options).await;
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
        let request = Request::post(format!("http://{}{CHAT}", server.address))
            .header("authorization", "Bearer k")
            .body(Full::new(Bytes::from_static(
                b"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
            )))
            .unwrap();
        let reply = timeout(crate::client::PATIENCE, client.request(request))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (reply.version(), reply.status()),
            (http::Version::HTTP_2, http::StatusCode::OK)
        );
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()["object"],
            "chat.completion"
        );
    }
}
