//! Whole answers that their provider cuts: the next candidate answers instead at no charge, and
//! every client sees the break of one that was too large to be held.

mod trailers;

use crate::support::{
    self, Act, Answer, CHAT, Config, Connection, Ending, Gateway, Http2, MESSAGES, Provider,
    Request, Upstream, prompt,
};
use futures::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const MIB: usize = 1024 * 1024;

/// A whole answer with so many bytes of text.
fn body(bytes: usize) -> String {
    let message = json!({"role": "assistant", "content": "x".repeat(bytes)});
    json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
    })
    .to_string()
}

/// How a provider frames the body of its answer.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Length,
    Chunked,
    /// The end of the connection ends the body.
    Close,
}

impl Framing {
    const ALL: [Self; 3] = [Self::Length, Self::Chunked, Self::Close];

    /// An answer of which `sent` bytes come.
    fn cut(self, body: &str, sent: usize) -> String {
        let part = &body[..sent];
        let (header, part) = match self {
            Self::Length => (
                format!("content-length: {}\r\n", body.len()),
                part.to_owned(),
            ),
            Self::Chunked => (
                "transfer-encoding: chunked\r\n".to_owned(),
                format!("{sent:x}\r\n{part}\r\n"),
            ),
            Self::Close => (String::new(), part.to_owned()),
        };
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{header}\r\n{part}")
    }
}

/// What the same request gets over both versions of HTTP.
async fn over_both(gateway: &Gateway, model: &str) -> [Answer; 2] {
    let body = prompt(CHAT, model, "Hello!", json!({}));
    let request = Request::post(CHAT, &body).key(&gateway.key);
    let one = Connection::open(gateway.address).await.send(&request).await;
    let two = Http2::open(gateway.address).await.send(&request).await;
    [one, two]
}

fn config() -> Config {
    Config::new()
        .with("failover", json!({"pause": "10ms"}))
        .with("routing.health", json!({"enabled": false}))
}

#[tokio::test]
async fn a_whole_answer_that_is_cut_is_replaced_and_costs_nothing() {
    for framing in Framing::ALL {
        for (bytes, ends) in [
            (1_000, vec![]),
            (900_000, vec![]),
            (900_000, vec![Act::Reset]),
        ] {
            let torn = body(bytes);
            let mut script = vec![Act::send(framing.cut(&torn, torn.len() - 100))];
            let ends_by_reset = !ends.is_empty();
            script.extend(ends);
            let upstream = Upstream::playing(script).await;
            let healthy = Provider::start().await;
            let config = config()
                .provider("torn", support::provider(upstream.address))
                .provider("healthy", support::provider(healthy.address))
                .model("alone", json!(["torn"]))
                .model(
                    "both",
                    json!([
                        {"provider": "torn", "upstream_model": "m", "priority": 0},
                        {"provider": "healthy", "upstream_model": "m", "priority": 1},
                    ]),
                );
            let gateway = Gateway::start(config).await;
            for answer in over_both(&gateway, "alone").await {
                let what = format!("{framing:?}, {bytes}");
                // Without a length the end looks like that of a body, which is no answer.
                let expected = match (framing, ends_by_reset) {
                    (Framing::Close, false) => (502, "upstream_error".to_owned()),
                    _ => (503, "service_unavailable".to_owned()),
                };
                assert_eq!(answer.error(), expected, "{what}");
                assert_eq!(answer.ending, Ending::Complete, "{what}");
                let line = gateway.line_of(&answer).await;
                assert_eq!(line["outcome"], "upstream_failed", "{line}");
                assert_eq!(line["charged"], 0, "{line}");
            }
            let mut spent = 0;
            for answer in over_both(&gateway, "both").await {
                answer.assert_ok();
                assert_eq!(answer.header("x-attempts"), Some("2"), "{framing:?}");
                spent += answer.reported();
            }
            gateway.has_spent(&gateway.key, spent).await;
            gateway.verify().await;
        }
    }
}

#[tokio::test]
async fn every_client_sees_the_break_of_an_answer_that_is_too_large_to_be_held() {
    let torn = body(2 * MIB);
    for framing in Framing::ALL {
        let script = [Act::send(framing.cut(&torn, MIB + MIB / 2))];
        let upstream = Upstream::playing(script).await;
        let config = config()
            .provider("torn", support::provider(upstream.address))
            .model("alone", json!(["torn"]));
        let gateway = Gateway::start(config).await;
        let [one, two] = over_both(&gateway, "alone").await;
        for (answer, way) in [(&one, "HTTP/1.1"), (&two, "HTTP/2")] {
            assert_eq!(answer.status, 200, "{framing:?}, {way}");
            assert_ne!(answer.ending, Ending::Complete, "{framing:?}, {way}");
            assert!(answer.body().len() < torn.len());
            let line = gateway.line_of(answer).await;
            assert_eq!(line["outcome"], "upstream_failed", "{line}");
        }
        assert_eq!(two.ending, Ending::Reset, "{framing:?}");
        gateway.verify().await;
    }
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_a_large_answer_complete_or_an_error() {
    let whole = body(2 * MIB);
    let ask = async |gateway: &Gateway, model: &str| {
        let asked = prompt(CHAT, model, "Hello!", json!({}));
        let request = Request::post(CHAT, &asked).key(&gateway.key);
        let bytes = String::from_utf8(request.bytes()).unwrap();
        let mut connection = gateway.connect().await;
        let old = bytes.replacen("HTTP/1.1", "HTTP/1.0", 1);
        connection.write(old.as_bytes()).await;
        connection.answer(&request).await
    };
    for framing in Framing::ALL {
        let torn = Upstream::playing([Act::send(framing.cut(&whole, MIB + MIB / 2))]).await;
        let complete = Upstream::playing([Act::send(framing.cut(&whole, whole.len()))]).await;
        let config = config()
            .provider("torn", support::provider(torn.address))
            .provider("complete", support::provider(complete.address))
            .model("torn", json!(["torn"]))
            .model("complete", json!(["complete"]));
        let gateway = Gateway::start(config).await;
        let answer = ask(&gateway, "torn").await;
        assert!(answer.status >= 500, "{framing:?}: {}", answer.status);
        assert_eq!(gateway.line_of(&answer).await["charged"], 0, "{framing:?}");
        let answer = ask(&gateway, "complete").await;
        answer.assert_ok();
        assert_eq!(answer.body().len(), whole.len(), "{framing:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_whole_passes_though_its_connection_stays_open() {
    let whole = body(200_000);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let upstream = Upstream::playing([Act::send(format!("{head}{whole}")), Act::Hang]).await;
    let config = config()
        .provider("open", support::provider(upstream.address))
        .model("open", json!(["open"]));
    let gateway = Gateway::start(config).await;
    let asked = prompt(CHAT, "open", "Hello!", json!({}));
    let request = Request::post(CHAT, &asked).key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    assert_eq!(connection.head().await.status, 200);
    connection.read_until(b"\"total_tokens\":30}}").await;
}

#[tokio::test]
async fn a_whole_answer_ends_as_usual_though_its_connection_breaks() {
    // Of the large text, a token per 128 bytes is charged.
    for (bytes, charged) in [(100, 30), (2 * MIB, 10 + 2 * MIB / 128)] {
        let whole = body(bytes);
        let longer = whole.clone() + "\n\n";
        for (answer, is_whole) in [
            (Framing::Chunked.cut(&whole, whole.len()), true),
            // More was announced. The client gets that length only if the answer is too large to be held.
            (Framing::Length.cut(&longer, whole.len()), bytes < MIB),
        ] {
            let upstream = Upstream::playing([Act::send(answer)]).await;
            let config = config()
                .provider("torn", support::provider(upstream.address))
                .model("alone", json!(["torn"]));
            let gateway = Gateway::start(config).await;
            for answer in over_both(&gateway, "alone").await {
                let what = format!("{bytes}, {is_whole}, {:?}", answer.ending);
                assert_eq!(answer.status, 200, "{what}");
                assert_eq!(answer.ending == Ending::Complete, is_whole, "{what}");
                assert!(!is_whole || answer.text() == whole, "{what}");
                let line = gateway.line_of(&answer).await;
                assert_eq!(line["outcome"], "completed", "{line}");
                assert_eq!(line["charged"], charged, "{line}");
            }
            assert_eq!(upstream.requests(), 2);
        }
    }
}

/// A gateway with a provider of chat completions that plays this script.
async fn translating(script: impl Into<Vec<Act>>) -> (Upstream, Gateway) {
    let upstream = Upstream::playing(script).await;
    let mut chat_alone = support::provider(upstream.address);
    chat_alone["formats"] = json!(["chat"]);
    let config = config()
        .provider("raw", chat_alone)
        .model("test-model", json!(["raw"]));
    let gateway = Gateway::start(config).await;
    (upstream, gateway)
}

#[tokio::test]
async fn a_translated_answer_that_is_whole_passes_though_its_end_is_missing() {
    let whole = body(100);
    let longer = whole.clone() + "\n\n";
    for answer in [
        Framing::Chunked.cut(&whole, whole.len()),
        // More was announced.
        Framing::Length.cut(&longer, whole.len()),
    ] {
        let (upstream, gateway) = translating([Act::send(&*answer)]).await;
        let translated = gateway.ask(MESSAGES, "test-model", "", json!({})).await;
        translated.assert_ok();
        assert_eq!(translated.json()["usage"]["output_tokens"], 20);
        let line = gateway.line_of(&translated).await;
        assert_eq!(line["outcome"], "completed", "{line}");
        assert_eq!(line["charged"], 30, "{line}");
        assert_eq!(upstream.requests(), 1, "it was bought once");
        let (_open, gateway) = translating([Act::send(answer), Act::Hang]).await;
        let translated = gateway.ask(MESSAGES, "test-model", "", json!({}));
        support::bounded("an answer", translated).await.assert_ok();
    }
}

#[tokio::test]
async fn a_connection_on_which_the_end_of_an_answer_is_missing_goes_on() {
    let whole = body(100);
    let cut = Framing::Chunked.cut(&whole, whole.len());
    let goes_on = async |path| {
        let (_open, gateway) = translating([Act::send(&*cut), Act::Hang]).await;
        let mut connection = gateway.connect().await;
        let body = prompt(path, "test-model", "Say something nice.", json!({}));
        let request = Request::post(path, &body).key(&gateway.key);
        for _ in 0..2 {
            let answer = connection.send(&request);
            support::bounded("an answer", answer).await.assert_ok();
        }
    };
    // Each takes the time that the end of an answer may take.
    tokio::join!(goes_on(CHAT), goes_on(MESSAGES));
}

#[tokio::test]
async fn a_whole_error_behind_a_200_is_an_error_though_its_end_is_missing() {
    let error = json!({"error": {"message": "x", "type": "server_error"}}).to_string();
    let longer = error.clone() + "\n\n";
    let answer = Framing::Length.cut(&longer, error.len());
    let (_open, gateway) = translating([Act::send(answer), Act::Hang]).await;
    for path in [CHAT, MESSAGES] {
        let answer = gateway.ask(path, "test-model", "", json!({}));
        let answer = support::bounded("an error", answer).await;
        answer.assert_error(502, "upstream_error");
    }
}

#[tokio::test]
async fn an_answer_for_which_there_is_no_memory_passes_as_it_comes() {
    const HELD: usize = 200_000;
    let whole = body(HELD + 100_000);
    for (bodies, passes) in [("250kB", true), ("4MB", false)] {
        let rest = Arc::new(Notify::new());
        let length = whole.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let script = [
            Act::send(format!("{head}{}", &whole[..HELD])),
            Act::Wait(Arc::clone(&rest)),
            Act::Reset,
        ];
        let upstream = Upstream::playing(script).await;
        let config = config()
            .with("failover", json!({"again": 0}))
            .with("server.limits.body_bytes", json!("100kB"))
            .with("server.limits.bodies_in_memory", json!(bodies))
            .provider("raw", support::provider(upstream.address))
            .model("raw", json!(["raw"]));
        let gateway = Gateway::start(config).await;
        let asked = prompt(CHAT, "raw", "Hello!", json!({}));
        let request = Request::post(CHAT, &asked).key(&gateway.key);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        if passes {
            assert_eq!(
                connection.head().await.status,
                200,
                "before the rest has come"
            );
            rest.notify_one();
            let (_, ending) = connection.rest().await;
            assert_ne!(ending, Ending::Complete);
        } else {
            rest.notify_one();
            let answer = connection.answer(&request).await;
            assert_eq!(answer.error(), (503, "service_unavailable".to_owned()));
        }
        // What was held is given back.
        gateway.sample_is("tollgate_request_body_bytes", 0.0).await;
    }
}

/// An error that comes as a success, too large to be held: before its kind is known, nothing passes.
#[tokio::test]
async fn a_large_error_behind_a_200_is_an_error_and_none_of_its_text_passes() {
    const SECRET: &str = "a-secret-of-the-provider";
    let error = json!({"message": SECRET, "type": "server_error", "padding": "x".repeat(2 * MIB)});
    let body = json!({"error": error}).to_string();
    let (first, rest) = body.split_at(1);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let begun = format!("{head}content-length: {}\r\n\r\n{first}", body.len());
    let script = [
        Act::send(begun),
        Act::Pause(Duration::from_millis(200)),
        Act::send(rest),
    ];
    let upstream = Upstream::playing(script).await;
    let config = config()
        .provider("large", support::provider(upstream.address))
        .model("test-model", json!(["large"]));
    let gateway = Gateway::start(config).await;
    for answer in over_both(&gateway, "test-model").await {
        assert!(answer.status >= 500, "{answer:?}");
        assert!(!answer.text().contains(SECRET), "{answer:?}");
    }
}

/// What a provider sends behind an answer in one piece is not the caller's business.
#[tokio::test]
async fn nothing_passes_behind_a_whole_answer_or_behind_its_break() {
    const SECRET: &str = "a-secret-of-the-provider";
    let (small, large) = (body(100), body(2 * MIB));
    let large = &large[..MIB + MIB / 2];
    join_all(Framing::ALL.map(async |framing| {
        for (text, behind) in [
            (&*small, format!("\nTraceback: {SECRET}")),
            (&*small, format!(r#"{{"error":{{"message":"{SECRET}"}}}}"#)),
            (large, format!("\" {SECRET}")),
        ] {
            let what = format!("{framing:?}, {behind}");
            let begun = framing.cut(&format!("{text}{behind}"), text.len());
            let rest = match framing {
                Framing::Chunked => format!("{:x}\r\n{behind}\r\n0\r\n\r\n", behind.len()),
                Framing::Length | Framing::Close => behind,
            };
            // The gateway has read the answer before more comes.
            let pause = Act::Pause(Duration::from_millis(600));
            let script = [Act::send(begun), pause, Act::send(rest)];
            let upstream = Upstream::playing(script).await;
            let config = config()
                .provider("raw", support::provider(upstream.address))
                .model("test-model", json!(["raw"]));
            let gateway = Gateway::start(config).await;
            for answer in over_both(&gateway, "test-model").await {
                assert_eq!(answer.status, 200, "{what}");
                assert!(!answer.text().contains(SECRET), "{what}");
                assert_eq!(answer.ending == Ending::Complete, text == small, "{what}");
                if text == small {
                    assert_eq!(answer.text(), text, "{what}");
                    let line = gateway.line_of(&answer).await;
                    assert_eq!(line["charged"], 30, "{line}");
                }
            }
        }
    }))
    .await;
}
