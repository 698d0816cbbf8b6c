//! Strict HTTP: what two servers could read in two ways is refused here, and none of it
//! reaches the server behind.

mod corpus;

use crate::support::{
    Answer, CHAT, Config, Ending, Frames, Gateway, MESSAGES, Nginx, Provider, Request, eventually,
    prompt, provider,
};
use corpus::{corpus, good};
use serde_json::{Value, json};

const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

fn any() -> Request {
    Request::get("/")
}

#[tokio::test]
async fn no_request_of_the_corpus_reaches_an_nginx_behind_the_gateway() {
    let Some(nginx) = Nginx::start(ANSWER).await else {
        return;
    };
    let config = Config::new()
        .provider("nginx", provider(nginx.address))
        .model("test-model", json!(["nginx"]));
    let gateway = Gateway::start(config).await;
    let ask = async |bytes: &[u8]| -> Answer {
        let mut connection = gateway.connect().await;
        connection.write(bytes).await;
        connection.answer(&any()).await
    };
    ask(&good(&gateway.key)).await.assert_ok();
    // It writes its line after the answer.
    let lines = async |count| {
        eventually("a line for each request", async || {
            Some(nginx.requests()).filter(|lines| lines.len() >= count)
        })
        .await
    };
    let expected = lines(1).await;
    assert_eq!(expected.len(), 1, "{expected:?}");

    let cases = corpus(&gateway.key);
    println!("{} requests", cases.len());
    let mut faults = Vec::new();
    for case in &cases {
        let mut connection = gateway.connect().await;
        // It may be refused before its end.
        let _ = connection.try_write(&case.bytes).await;
        let answer = connection.answer(&any()).await;
        let reached = nginx.requests().len() > expected.len();
        if reached || !case.reported.contains(&answer.status) {
            faults.push(format!("{}: reached {reached}, {answer:?}", case.name));
            continue;
        }
        // Each in the one shape, and behind a head that was refused nothing is read.
        answer.error();
        assert!(answer.header("x-request-id").is_some(), "{answer:?}");
        if matches!(answer.status, 400 | 431) && answer.header("connection") == Some("close") {
            let (rest, _) = connection.rest().await;
            assert_eq!(String::from_utf8_lossy(&rest), "", "{}", case.name);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // And it was not refused for another reason. Lines are in order: none of them is missing.
    ask(&good(&gateway.key)).await.assert_ok();
    let lines = lines(2).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    nginx.stop().await;
}

#[tokio::test]
async fn bytes_smuggled_behind_a_body_are_a_request_of_their_own() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let request = Request::post(CHAT, &prompt(CHAT, "test-model", "Hi", Value::Null));
    let request = request.key(&gateway.key);
    for framed in [request.clone(), request.in_chunks_of(20)] {
        // Without a key of its own it is refused; garbage ends the connection.
        let inner = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n\r\n";
        let garbage = "x y z\r\n\r\n";
        let mut connection = gateway.connect().await;
        let bytes = [&framed.bytes()[..], inner.as_bytes(), garbage.as_bytes()].concat();
        connection.write(&bytes).await;
        connection.answer(&framed).await.assert_ok();
        connection
            .answer(&framed)
            .await
            .assert_error(401, "missing_api_key");
        connection
            .answer(&framed)
            .await
            .assert_error(400, "invalid_request");
        let (rest, ending) = connection.rest().await;
        assert_eq!((rest.len(), ending), (0, Ending::Cut));
    }
    assert_eq!(provider.handle.counters().requests, 2);
}

#[tokio::test]
async fn a_refused_head_is_answered_in_the_shape_of_its_endpoint() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for (path, fields) in [(MESSAGES, 3), (CHAT, 1), ("/nowhere", 1)] {
        let mut connection = gateway.connect().await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n");
        connection.write(head.as_bytes()).await;
        let answer = connection.answer(&any()).await;
        answer.assert_error(400, "invalid_request");
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert!(answer.message().contains("host"), "{answer:?}");
        assert_eq!(
            answer.json().as_object().unwrap().len(),
            fields,
            "{answer:?}"
        );
        let id = answer.header("x-request-id");
        let expected = (path == MESSAGES).then_some(id).flatten();
        assert_eq!(answer.header("request-id"), expected);
    }
    let refused = "tollgate_heads_refused_total{reason=\"host\"}";
    gateway.sample_is(refused, 3.0).await;
}

#[tokio::test]
async fn odd_but_valid_requests_are_served() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let key = &gateway.key;
    for head in [
        format!("GET /v1 HTTP/1.1\r\nHOST: gateway\r\nAUTHORIZATION:Bearer {key}\r\n\r\n"),
        format!("\r\nGET /v1 HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\n\r\n"),
        format!(
            "GET http://gateway/v1 HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\n\r\n"
        ),
        format!(
            "GET /v1?a=%20b&c[]={{d}}|e HTTP/1.1\r\nhost: gateway:8080\r\nauthorization: Bearer {key}\r\n\r\n"
        ),
        format!(
            "GET /v1 HTTP/1.1\r\nhost: [::1]:8080\r\nauthorization: Bearer {key}\r\nx:\r\nx_y: caf\u{e9} \t\r\n\r\n"
        ),
        format!("GET /v1 HTTP/1.0\r\nauthorization: Bearer {key}\r\n\r\n"),
        format!(
            "GET /v1 HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\ncontent-length: 000\r\n\r\n"
        ),
    ] {
        let mut connection = gateway.connect().await;
        // In two pieces wherever it is cut.
        for piece in head.as_bytes().chunks(head.len().div_ceil(2)) {
            connection.write(piece).await;
        }
        let answer = connection.answer(&any()).await;
        assert_eq!(answer.status, 200, "{head}: {answer:?}");
    }
}

#[tokio::test]
async fn malformed_http2_requests_reach_no_provider() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let bearer = format!("Bearer {}", gateway.key);
    let usual = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/v1"),
        (":authority", "gateway"),
        ("authorization", &bearer),
    ];
    let without = |name: &str| -> Vec<(&str, &str)> {
        usual.into_iter().filter(|(it, _)| *it != name).collect()
    };
    let with = |name: &'static str, value: &'static str| -> Vec<(&str, &str)> {
        usual.into_iter().chain([(name, value)]).collect()
    };
    let mut frames = Frames::open(gateway.address).await;
    assert_eq!(frames.ask(&usual).await, Some(200));
    for (what, headers) in [
        ("no path", without(":path")),
        ("no method", without(":method")),
        ("no scheme", without(":scheme")),
        ("no authority", without(":authority")),
        ("two paths", with(":path", "/v1/models")),
        ("a pseudo header behind others", with(":status", "200")),
        ("an unknown pseudo header", with(":unknown", "x")),
        ("an encoding", with("transfer-encoding", "chunked")),
        ("a connection", with("connection", "close")),
        ("a keep-alive", with("keep-alive", "5")),
        ("an upgrade", with("upgrade", "websocket")),
        ("a name in capital letters", with("X-Large", "a")),
        ("a line end in a value", with("x", "a\r\nhost: other")),
        ("a null in a value", with("x", "a\0b")),
        ("a host that disagrees", with("host", "other")),
        ("two hosts", {
            let mut two = with("host", "gateway");
            two.push(("host", "gateway"));
            two
        }),
        ("a length that disagrees", with("content-length", "5")),
        ("two lengths", {
            let mut two = with("content-length", "0");
            two.push(("content-length", "0"));
            two
        }),
        (
            "CONNECT",
            vec![(":method", "CONNECT"), (":authority", "gateway:443")],
        ),
        ("a target in absolute form", {
            let mut other = without(":path");
            other.insert(2, (":path", "http://other/v1"));
            other
        }),
    ] {
        let mut frames = Frames::open(gateway.address).await;
        let reported = frames.ask(&headers).await;
        assert!(
            reported.is_none_or(|status| (400..500).contains(&status)),
            "{what}: {reported:?}"
        );
    }
    assert_eq!(provider.handle.counters().requests, 0);
}
