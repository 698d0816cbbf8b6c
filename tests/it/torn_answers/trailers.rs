//! Answers that a provider of HTTP/2 ends with trailers.

use super::*;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// A provider that answers each request with this body and trailers.
async fn answering(status: u16, media_type: &'static str, body: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = Bytes::from(body.to_owned());
    let answer = move |request: hyper::Request<Incoming>| {
        let body = body.clone();
        async move {
            let _ = request.into_body().collect().await;
            let trailers = HeaderMap::from_iter([(
                "x-trailer".try_into().unwrap(),
                "of the provider".parse().unwrap(),
            )]);
            let frames = [Frame::data(body), Frame::trailers(trailers)];
            let frames = futures::stream::iter(frames.map(Ok::<_, Infallible>));
            let answer = Response::builder()
                .status(status)
                .header("content-type", media_type);
            answer.body(StreamBody::new(frames))
        }
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(answer.clone());
            tokio::spawn(async move {
                let server = http2::Builder::new(TokioExecutor::new());
                server.serve_connection(TokioIo::new(stream), service).await
            });
        }
    });
    address
}

/// A gateway in front of that provider, which answers `alone`, and a healthy one, which also answers `both`.
async fn before(first: SocketAddr) -> (Provider, Gateway) {
    let healthy = Provider::start().await;
    let of_chat = |address| {
        let mut settings = support::provider(address);
        settings["formats"] = json!(["chat"]);
        settings
    };
    let config = config()
        .provider("first", of_chat(first))
        .with("providers.first.http2", json!("always"))
        .provider("healthy", of_chat(healthy.address))
        .model("alone", json!(["first"]))
        .model(
            "both",
            json!(["first", {"provider": "healthy", "priority": 1}]),
        );
    (healthy, Gateway::start(config).await)
}

/// What a request gets over both versions of HTTP.
async fn ask_over_both(gateway: &Gateway, path: &str, model: &str, stream: bool) -> [Answer; 2] {
    let body = prompt(path, model, "Hello!", json!({"stream": stream}));
    let request = Request::post(path, &body).key(&gateway.key);
    let one = Connection::open(gateway.address).await.send(&request).await;
    let two = Http2::open(gateway.address).await.send(&request).await;
    [one, two]
}

fn events(finish: &str) -> String {
    let delta = json!({"index": 0, "delta": {"content": "Hello"}, "finish_reason": null});
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [delta]});
    format!("data: {chunk}\n\n{finish}")
}

#[tokio::test]
async fn a_whole_answer_passes_translated_or_not() {
    let provider = answering(200, "application/json", &body(100)).await;
    let (_healthy, gateway) = before(provider).await;
    for path in [CHAT, MESSAGES] {
        for answer in ask_over_both(&gateway, path, "alone", false).await {
            answer.assert_ok();
            assert!(answer.text().contains(&"x".repeat(100)), "{answer:?}");
            assert_eq!(answer.header("x-attempts"), None, "{path}");
            assert_eq!(answer.header("x-trailer"), None, "{path}");
            let line = gateway.line_of(&answer).await;
            assert_eq!(line["charged"], 30, "{line}");
        }
    }
    gateway.has_spent(&gateway.key, 4 * 30).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_stream_ends_as_its_provider_ends_it() {
    let provider = answering(200, "text/event-stream", &events("data: [DONE]\n\n")).await;
    let (_healthy, gateway) = before(provider).await;
    for answer in ask_over_both(&gateway, CHAT, "alone", true).await {
        answer.assert_ok();
        assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["outcome"], "completed", "{line}");
    }
    let provider = answering(200, "text/event-stream", &events("")).await;
    let (_healthy, gateway) = before(provider).await;
    for answer in ask_over_both(&gateway, CHAT, "alone", true).await {
        answer.assert_ok();
        assert!(answer.text().contains("Hello"), "{answer:?}");
        assert!(answer.text().contains("\"error\""), "{answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["outcome"], "upstream_failed", "{line}");
    }
}

#[tokio::test]
async fn the_next_candidate_replaces_a_cut_answer_and_an_error() {
    let torn = body(1000);
    let error = json!({"error": {"message": "busy", "type": "server_error"}}).to_string();
    for (status, body) in [(200, &torn[..900]), (503, &error)] {
        let provider = answering(status, "application/json", body).await;
        let (healthy, gateway) = before(provider).await;
        for path in [CHAT, MESSAGES] {
            for answer in ask_over_both(&gateway, path, "both", false).await {
                answer.assert_ok();
                assert_eq!(answer.header("x-attempts"), Some("2"), "{status}, {path}");
            }
            for answer in ask_over_both(&gateway, path, "alone", false).await {
                assert!(answer.status >= 500, "{answer:?}");
                assert_eq!(answer.ending, Ending::Complete, "{answer:?}");
                let line = gateway.line_of(&answer).await;
                assert_eq!(line["charged"], 0, "{line}");
            }
        }
        assert_eq!(healthy.handle.counters().requests, 4);
        gateway.verify().await;
    }
}

#[tokio::test]
async fn every_client_sees_the_break_of_a_large_answer() {
    let torn = body(2 * MIB);
    let provider = answering(200, "application/json", &torn[..MIB + MIB / 2]).await;
    let (_healthy, gateway) = before(provider).await;
    let [one, two] = ask_over_both(&gateway, CHAT, "alone", false).await;
    for answer in [&one, &two] {
        assert_eq!(answer.status, 200);
        assert_ne!(answer.ending, Ending::Complete);
        let line = gateway.line_of(answer).await;
        assert_eq!(line["outcome"], "upstream_failed", "{line}");
    }
    assert_eq!(two.ending, Ending::Reset);
    gateway.verify().await;
}
