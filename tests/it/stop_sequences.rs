//! Stop sequences that the gateway enforces for providers of responses, which have none: where the
//! answer ends, that the provider's stream is closed, and what the request costs.

use crate::support::{
    self, Answer, CHAT, Config, Ending, Gateway, Http2, MESSAGES, Request, bounded, prompt,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const LIMIT: u64 = 20_000;
/// A model that produces more than is reserved in any time.
const AT_ONCE: u64 = 4_000_000_000;

/// A provider of responses that answers every request with these bytes and never ends, and the
/// requests whose connection the gateway has closed.
async fn provider(answer: String) -> (SocketAddr, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (closed, all) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (answer, closed) = (answer.clone(), closed.clone());
            tokio::spawn(async move {
                // The whole request is in the first bytes: it is small.
                let mut request = vec![0; 64 * 1024];
                if stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    while stream.read(&mut request).await.is_ok_and(|read| read > 0) {}
                    let _ = closed.send(());
                }
            });
        }
    });
    (address, all)
}

/// A stream that says these pieces and goes on.
fn stream(pieces: &[&str]) -> String {
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}),
    ];
    events.extend(pieces.iter().map(|piece| {
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece})
    }));
    let events: String = events.iter().map(|it| format!("data: {it}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}")
}

fn whole(text: &str) -> String {
    let body = json!({
        "id": "resp_1", "object": "response", "status": "completed", "model": "m",
        "output": [{"type": "message", "id": "m", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}],
        "usage": {"input_tokens": 30, "output_tokens": 90, "total_tokens": 120},
    })
    .to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

async fn gateway(address: SocketAddr, reasoning: &str) -> Gateway {
    let mut settings = support::provider(address);
    settings["formats"] = json!(["responses"]);
    let config = Config::new()
        .provider("raw", settings)
        .model("test-model", json!(["raw"]))
        .with("models.test-model.reasoning", json!(reasoning))
        .with("models.test-model.output_rate", json!(AT_ONCE));
    Gateway::start(config).await
}

fn ask(path: &str, streams: bool, key: &str) -> Request {
    let (stop, limit) = match path {
        CHAT => ("stop", "max_completion_tokens"),
        _ => ("stop_sequences", "max_tokens"),
    };
    let more = json!({"stream": streams, stop: ["STOP", "\n\n"], limit: LIMIT});
    Request::post(path, &prompt(path, "test-model", "Hello!", more)).key(key)
}

/// The text of an answer, why it ended, and at which sequence.
fn read(path: &str, answer: &Answer) -> (String, Value, Value) {
    let parts = match answer.header("content-type") {
        Some("application/json") => vec![answer.json()],
        _ => answer.events(),
    };
    let (mut text, mut reason, mut sequence) = (String::new(), Value::Null, Value::Null);
    let (texts, reasons) = match path {
        CHAT => (
            ["/choices/0/delta/content", "/choices/0/message/content"],
            ["/choices/0/finish_reason"; 2],
        ),
        _ => (
            ["/delta/text", "/content/0/text"],
            ["/delta/stop_reason", "/stop_reason"],
        ),
    };
    for part in &parts {
        let found = |places: [&str; 2]| places.into_iter().find_map(|place| part.pointer(place));
        text.extend(found(texts).and_then(Value::as_str));
        if let Some(why) = found(reasons).filter(|why| !why.is_null()) {
            reason = why.clone();
        }
        let sequences = ["/delta/stop_sequence", "/stop_sequence"];
        if let Some(which) = found(sequences) {
            sequence = which.clone();
        }
    }
    (text, reason, sequence)
}

fn expected(path: &str, text: &str) -> (String, Value, Value) {
    match path {
        CHAT => (text.to_owned(), json!("stop"), Value::Null),
        _ => (text.to_owned(), json!("stop_sequence"), json!("STOP")),
    }
}

#[tokio::test]
async fn a_stream_ends_at_the_sequence_and_the_providers_stream_is_closed() {
    let (address, mut closed) = provider(stream(&["one ", "two S", "TO", "P three"])).await;
    let gateway = gateway(address, "none").await;
    for path in [CHAT, MESSAGES] {
        let request = ask(path, true, &gateway.key);
        let mut http2 = Http2::open(gateway.address).await;
        for answer in [gateway.send(&request).await, http2.send(&request).await] {
            answer.assert_ok();
            assert_eq!(answer.ending, Ending::Complete, "{answer:?}");
            assert_eq!(
                read(path, &answer),
                expected(path, "one two "),
                "{answer:?}"
            );
            let field = if path == CHAT {
                "stop"
            } else {
                "stop_sequences"
            };
            assert_eq!(answer.header("x-dropped-fields"), Some(field));
            bounded("the end of the provider's stream", closed.recv()).await;
            let line = gateway.line_of(&answer).await;
            assert_eq!(line["outcome"], "completed", "{line}");
            assert_eq!(line["count"], "estimated", "{line}");
        }
    }
    gateway.verify().await;
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
}

#[tokio::test]
async fn a_stream_that_ends_at_a_sequence_is_charged_like_one_whose_caller_left_there() {
    let charged = async |reasoning: &str| {
        let (address, _closed) = provider(stream(&["one two STOP three"])).await;
        let gateway = gateway(address, reasoning).await;
        let answer = gateway.send(&ask(CHAT, true, &gateway.key)).await;
        answer.assert_ok();
        let charged = gateway.line_of(&answer).await["charged"].as_u64().unwrap();
        gateway.has_spent(&gateway.key, charged).await;
        gateway.verify().await;
        charged
    };
    // All output is seen: what the provider sent is charged, and nothing for time.
    let seen = charged("none").await;
    // The model can have thought unseen, and no more is charged for that than was reserved.
    let input = charged("provider_default").await.checked_sub(LIMIT);
    let output = seen - input.expect("the whole reservation");
    assert!((1..=10).contains(&output), "{seen}: {output}");
}

#[tokio::test]
async fn a_whole_answer_is_cut_at_the_sequence_and_charged_what_its_provider_reports() {
    let (address, _closed) = provider(whole("one two STOP three")).await;
    let gateway = gateway(address, "none").await;
    for path in [CHAT, MESSAGES] {
        let answer = gateway.send(&ask(path, false, &gateway.key)).await;
        answer.assert_ok();
        assert_eq!(
            read(path, &answer),
            expected(path, "one two "),
            "{answer:?}"
        );
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["charged"], &line["count"]),
            (&json!(120), &json!("reported"))
        );
    }
}

#[tokio::test]
async fn an_answer_without_the_sequence_comes_whole() {
    let (address, _closed) = provider(whole("one two ST")).await;
    let gateway = gateway(address, "none").await;
    let answer = gateway.send(&ask(MESSAGES, false, &gateway.key)).await;
    let (text, reason, sequence) = read(MESSAGES, &answer);
    assert_eq!(
        (text.as_str(), reason, sequence),
        ("one two ST", json!("end_turn"), Value::Null)
    );
}

#[tokio::test]
async fn usage_that_comes_with_the_sequence_is_charged_and_reported() {
    let completed = json!({"type": "response.completed", "response": {
        "id": "resp_1", "status": "completed",
        "usage": {"input_tokens": 30, "output_tokens": 90, "total_tokens": 120},
    }});
    let answer = stream(&["one two STOP three"]) + &format!("data: {completed}\n\n");
    // Its length ends it, for this provider does not, and serves one request over each connection.
    let (head, events) = answer.split_once("\r\n\r\n").unwrap();
    let length = events.len();
    let answer = format!("{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{events}");
    let (address, _closed) = provider(answer).await;
    let gateway = gateway(address, "none").await;
    for path in [CHAT, MESSAGES] {
        let answer = gateway.send(&ask(path, true, &gateway.key)).await;
        answer.assert_ok();
        assert_eq!(
            read(path, &answer),
            expected(path, "one two "),
            "{answer:?}"
        );
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["charged"], &line["count"]),
            (&json!(120), &json!("reported")),
            "{answer:?}"
        );
    }
}
