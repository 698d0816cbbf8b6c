//! The contract with callers: what is refused before a provider is asked, what of a request
//! reaches a provider, and which requests of browsers and of compressing clients are served.

use crate::support::{
    self, Act, Answer, CHAT, COUNT_TOKENS, Config, FORMATS, Gateway, Http2, MESSAGES, Provider,
    RESPONSES, Request, Upstream, prompt,
};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::io::Write as _;

async fn scene() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

fn body(path: &str, more: Value) -> Value {
    prompt(path, "test-model", "Hello!", more)
}

#[tokio::test]
async fn a_field_that_no_provider_accepts_is_refused_by_name_before_one_is_asked() {
    let (provider, gateway) = scene().await;
    let limit = |path: &str| match path {
        RESPONSES => "max_output_tokens",
        _ => "max_tokens",
    };
    for path in FORMATS.into_iter().chain([COUNT_TOKENS]) {
        let list = match path {
            RESPONSES => "input",
            _ => "messages",
        };
        let entry = format!("{list}[0]");
        for (more, param, range) in [
            (json!({list: []}), list, "at least one"),
            (json!({list: ["Hello!"]}), &*entry, "an object"),
            (json!({list: [{"content": "Hello!"}]}), &*entry, "role"),
            (json!({"temperature": 7}), "temperature", "from 0 to 2"),
            (json!({"temperature": "hot"}), "temperature", "from 0 to 2"),
            (json!({"top_p": -1}), "top_p", "from 0 to 1"),
            (json!({limit(path): 0}), limit(path), "positive"),
            (json!({"tools": {}}), "tools", "array"),
            (json!({"tools": [7]}), "tools[0]", "an object"),
        ] {
            let request = Request::post(path, &body(path, more.clone())).key(&gateway.key);
            let answer = gateway.send(&request).await;
            answer.assert_error(400, "invalid_request");
            let message = answer.message();
            assert!(
                message.contains(param) && message.contains(range),
                "{path} {more}: {message}"
            );
            let reported = answer.json()["error"]["param"].clone();
            match path {
                MESSAGES | COUNT_TOKENS => assert_eq!(reported, Value::Null),
                _ => assert!(
                    reported.as_str().unwrap().starts_with(param),
                    "{more}: {reported}"
                ),
            }
        }
    }
    assert_eq!(provider.handle.counters().requests, 0);
}

/// A provider that refuses every request with this error.
async fn refusing(error: &Value) -> Upstream {
    let body = error.to_string();
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Upstream::playing([Act::send(format!("{head}{body}")), Act::Again]).await
}

#[tokio::test]
async fn the_field_that_a_provider_refuses_is_named_and_nothing_of_its_text() {
    const TEXT: &str = "Bad secret-of-the-provider";
    for (path, error, param) in [
        (
            CHAT,
            json!({"error": {"message": TEXT, "type": "invalid_request_error", "param": "messages[0].content"}}),
            Some("messages[0].content"),
        ),
        (
            RESPONSES,
            json!({"error": {"message": TEXT, "type": "invalid_request_error", "param": "input[0].status"}}),
            Some("input[0]"),
        ),
        (
            CHAT,
            json!({"error": {"message": TEXT, "type": "invalid_request_error", "param": "secret_field"}}),
            None,
        ),
        (
            CHAT,
            json!({"error": {"message": TEXT, "type": "invalid_request_error", "param": "Bad secret of it"}}),
            None,
        ),
        (
            MESSAGES,
            json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": format!("messages.0.content: {TEXT}")}}),
            Some("messages[0].content"),
        ),
    ] {
        let upstream = refusing(&error).await;
        let config = Config::new()
            .provider("sim", support::provider(upstream.address))
            .model("test-model", json!(["sim/upstream-model"]));
        let gateway = Gateway::start(config).await;
        let answer = gateway.post(path, &body(path, json!({}))).await;
        answer.assert_error(400, "upstream_error");
        assert!(!answer.text().contains("secret"), "{answer:?}");
        let reported = answer.json()["error"]["param"].clone();
        match path {
            MESSAGES => assert_eq!(reported, Value::Null),
            _ => assert_eq!(reported.as_str(), param, "{error}"),
        }
        match param {
            Some(param) => assert!(answer.message().contains(param), "{answer:?}"),
            None => assert!(!answer.message().contains("see"), "{answer:?}"),
        }
        // The operator reads what the provider wrote.
        gateway.log_line(TEXT).await;
    }
}

#[tokio::test]
async fn of_a_translated_request_only_top_level_fields_are_named() {
    for (param, reported) in [
        ("messages[0].content", None),
        ("temperature", Some("temperature")),
    ] {
        let error = json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": format!("{param}: refused")}});
        let upstream = refusing(&error).await;
        let mut provider = support::provider(upstream.address);
        provider["formats"] = json!(["messages"]);
        let config = Config::new()
            .provider("sim", provider)
            .model("test-model", json!(["sim/upstream-model"]));
        let gateway = Gateway::start(config).await;
        let body = body(CHAT, json!({"temperature": 0.5}));
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_error(400, "upstream_error");
        assert_eq!(
            answer.json()["error"]["param"].as_str(),
            reported,
            "{param}"
        );
    }
}

#[tokio::test]
async fn another_scheme_is_no_key_and_a_key_beside_it_counts() {
    let (_provider, gateway) = scene().await;
    let basic = Request::get("/v1/models").header("authorization", "Basic dXNlcjpwYXNz");
    let answer = gateway.send(&basic).await;
    answer.assert_error(401, "missing_api_key");
    assert!(answer.message().contains("Bearer"), "{answer:?}");
    let both = basic.header("x-api-key", &gateway.key);
    gateway.send(&both).await.assert_ok();
    let malformed = Request::get("/v1/models").key("sk-0");
    let answer = gateway.send(&malformed).await;
    answer.assert_error(401, "invalid_api_key");
}

#[tokio::test]
async fn of_a_query_beta_goes_upstream_and_nothing_else() {
    let (provider, gateway) = scene().await;
    for (path, query, sent) in [
        (MESSAGES, "?beta=true", "/v1/messages?beta=true"),
        (
            MESSAGES,
            "?key=sk-1&beta=true&x=y",
            "/v1/messages?beta=true",
        ),
        (MESSAGES, "?beta=a%20b", "/v1/messages"),
        (MESSAGES, "?alphabeta=true", "/v1/messages"),
        (
            COUNT_TOKENS,
            "?beta=true",
            "/v1/messages/count_tokens?beta=true",
        ),
        (CHAT, "?beta=true", "/v1/chat/completions"),
    ] {
        let target = format!("{path}{query}");
        let request = Request::post(&target, &body(path, json!({}))).key(&gateway.key);
        gateway.send(&request).await.assert_ok();
        assert_eq!(provider.last().uri.to_string(), sent, "{target}");
    }
}

/// What a provider of messages is sent of `thinking`, asked for in the format of `path`.
async fn thinking(path: &str, model: Value, capabilities: Value) -> Value {
    let provider = Provider::start().await;
    let mut settings = support::provider(provider.address);
    settings["formats"] = json!(["messages"]);
    settings["capabilities"] = capabilities;
    let mut config = Config::new()
        .provider("sim", settings)
        .model("test-model", json!(["sim/upstream-model"]));
    for (field, value) in model.as_object().unwrap() {
        config = config.with(&format!("models.test-model.{field}"), value.clone());
    }
    let gateway = Gateway::start(config).await;
    gateway.post(path, &body(path, json!({}))).await.assert_ok();
    let sent: Value = serde_json::from_slice(&provider.last().body).unwrap();
    sent["thinking"]["type"].clone()
}

#[tokio::test]
async fn a_thinking_model_is_asked_in_the_same_way_through_every_format() {
    let budgets = json!({"messages": {"adaptive_thinking": false}});
    for path in FORMATS {
        let extended = json!({"reasoning": "extended", "max_output_tokens": 8000});
        assert_eq!(
            thinking(path, extended.clone(), json!({})).await,
            "enabled",
            "{path}"
        );
        assert_eq!(
            thinking(path, extended, budgets.clone()).await,
            "enabled",
            "{path}"
        );
        let adaptive = json!({"reasoning": "extended", "thinking": "adaptive"});
        for capabilities in [json!({}), budgets.clone()] {
            let sent = thinking(path, adaptive.clone(), capabilities).await;
            assert_eq!(sent, "adaptive", "{path}");
        }
    }
}

#[tokio::test]
async fn head_is_answered_wherever_get_is_and_without_a_body() {
    let (_provider, gateway) = scene().await;
    let stored = body(RESPONSES, json!({"store": true}));
    let made = gateway.post(RESPONSES, &stored).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let mut connection = gateway.connect().await;
    for path in [
        "/v1",
        "/v1/models",
        "/v1/models/test-model",
        "/v1/usage",
        "/v1/usage/history",
    ] {
        let whole = connection.send(&Request::get(path).key(&gateway.key)).await;
        let head = connection
            .send(&Request::new("HEAD", path).key(&gateway.key))
            .await;
        assert_eq!(
            (head.status, head.body().len()),
            (200, 0),
            "{path}: {head:?}"
        );
        assert_eq!(
            head.header("content-type"),
            whole.header("content-type"),
            "{path}"
        );
        assert!(head.header("content-length").is_some(), "{path}: {head:?}");
    }
    for end in ["", "/input_items"] {
        let stored = format!("{RESPONSES}/{id}{end}");
        let head = connection
            .send(&Request::new("HEAD", &stored).key(&gateway.key))
            .await;
        assert_eq!(
            (head.status, head.body().len()),
            (200, 0),
            "{end}: {head:?}"
        );
        assert_eq!(head.header("content-length"), None, "{end}: {head:?}");
    }
    let stranger = gateway.create_key(&[]).await;
    let other = Request::new("HEAD", &format!("{RESPONSES}/{id}")).key(&stranger);
    assert_eq!(gateway.send(&other).await.status, 404);
    // The connection is still in step.
    connection
        .send(&Request::get("/v1").key(&gateway.key))
        .await
        .assert_ok();
}

const PAGE: &str = "https://app.example";

fn preflight(path: &str, origin: &str) -> Request {
    Request::new("OPTIONS", path)
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization, x-stainless-os",
        )
}

#[tokio::test]
async fn a_page_of_a_configured_origin_can_call_and_read_errors_too() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.cors.origins", json!([PAGE]));
    let gateway = Gateway::start(config).await;
    let answer = gateway.send(&preflight(CHAT, PAGE)).await;
    assert_eq!((answer.status, answer.body().len()), (204, 0), "{answer:?}");
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "POST"),
        (
            "access-control-allow-headers",
            "authorization, x-stainless-os",
        ),
        ("vary", "origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    let readable = |answer: &Answer| {
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some(PAGE),
            "{answer:?}"
        );
        assert_eq!(
            answer.header("access-control-expose-headers"),
            Some("*"),
            "{answer:?}"
        );
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    };
    let ask = Request::post(CHAT, &body(CHAT, json!({}))).header("origin", PAGE);
    let answered = gateway.send(&ask.clone().key(&gateway.key)).await;
    answered.assert_ok();
    readable(&answered);
    let streamed = Request::post(CHAT, &body(CHAT, json!({"stream": true})));
    let streamed = streamed.header("origin", PAGE).key(&gateway.key);
    readable(&gateway.send(&streamed).await);
    for (request, status) in [
        (ask.clone(), 401),
        (ask.clone().key(&gateway.key).orders("status-500"), 502),
        (Request::get("/v1/nothing").header("origin", PAGE), 404),
        (preflight("/v1/nothing", PAGE), 404),
    ] {
        let answer = gateway.send(&request).await;
        assert_eq!(answer.status, status, "{answer:?}");
        readable(&answer);
    }
    let other = gateway.send(&preflight(CHAT, "https://evil.example")).await;
    assert_eq!(other.status, 401, "{other:?}");
    assert_eq!(other.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn without_a_configured_origin_no_page_can_call() {
    let (_provider, gateway) = scene().await;
    let refused = gateway.send(&preflight(CHAT, PAGE)).await;
    refused.assert_error(401, "missing_api_key");
    let request = Request::get("/v1").key(&gateway.key).header("origin", PAGE);
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    for name in ["access-control-allow-origin", "vary"] {
        assert_eq!(answer.header(name), None, "{answer:?}");
    }
}

#[tokio::test]
async fn a_page_may_set_the_headers_that_are_configured() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("server.cors.origins", json!(["*"]))
        .with(
            "server.cors.headers",
            json!(["Authorization", "content-type"]),
        );
    let gateway = Gateway::start(config).await;
    let answer = gateway.send(&preflight(MESSAGES, PAGE)).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(
        answer.header("access-control-allow-headers"),
        Some("authorization")
    );
    assert_eq!(answer.header("vary"), None);
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn pack(coding: &str, data: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => gzip(data),
        _ => zstd::encode_all(data, 3).unwrap(),
    }
}

fn packed(gateway: &Gateway, coding: &str, body: Vec<u8>) -> Request {
    Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .header("content-encoding", coding)
        .key(&gateway.key)
        .body(body)
}

#[tokio::test]
async fn compressed_bodies_are_unpacked_before_they_go_to_a_provider() {
    let (provider, gateway) = scene().await;
    // Text that hardly shrinks: the packed body must be larger than Pingora's buffer, too.
    let letters = || fastrand::alphanumeric();
    for size in [10, 100_000, 2_000_000] {
        let said: String = std::iter::repeat_with(letters).take(size).collect();
        let plain = prompt(CHAT, "test-model", &said, json!({})).to_string();
        let expected = plain.replace("test-model", "upstream-model");
        for coding in ["gzip", "zstd"] {
            let request = packed(&gateway, coding, pack(coding, plain.as_bytes()));
            let what = format!("{coding}, {size} bytes");
            let answer = gateway.send(&request).await;
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            let received = provider.last();
            assert!(received.body == expected.as_bytes(), "{what}: another body");
            assert!(!received.headers.contains_key("content-encoding"), "{what}");
            let http2 = Http2::open(gateway.address).await.send(&request).await;
            assert_eq!(http2.status, 200, "{what} over HTTP/2: {http2:?}");
            let chunked = gateway.send(&request.in_chunks_of(1000)).await;
            assert_eq!(chunked.status, 200, "{what} in chunks: {chunked:?}");
        }
    }
}

#[tokio::test]
async fn a_bomb_is_refused_at_the_limit_of_bodies() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_bytes", json!("1MiB"));
    let gateway = Gateway::start(config).await;
    for coding in ["gzip", "zstd"] {
        let bomb = [
            b"{\"model\":\"test-model\",\"x\":\"".to_vec(),
            vec![b' '; 64 << 20],
        ]
        .concat();
        let bomb = pack(coding, &bomb);
        assert!(bomb.len() < 100_000, "{coding}: {}", bomb.len());
        let answer = gateway.send(&packed(&gateway, coding, bomb)).await;
        answer.assert_error(413, "request_too_large");
    }
    assert_eq!(provider.handle.counters().requests, 0);
    // All of its memory is given back.
    gateway.sample_is("tollgate_request_body_bytes", 0.0).await;
}

#[tokio::test]
async fn broken_and_unknown_codings_are_refused() {
    let (provider, gateway) = scene().await;
    let plain = body(CHAT, json!({})).to_string().into_bytes();
    for coding in ["gzip", "zstd"] {
        let whole = pack(coding, &plain);
        let torn = whole[..whole.len() - 3].to_vec();
        let longer = [&whole[..], b"{}"].concat();
        for bad in [plain.clone(), torn, longer, Vec::new()] {
            let answer = gateway.send(&packed(&gateway, coding, bad)).await;
            answer.assert_error(400, "invalid_request");
        }
    }
    for coding in ["br", "deflate", "gzip, zstd"] {
        let answer = gateway.send(&packed(&gateway, coding, plain.clone())).await;
        answer.assert_error(415, "invalid_request");
        assert_eq!(answer.header("accept-encoding"), Some("gzip, zstd"));
    }
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn the_input_of_a_responses_request_is_counted() {
    let (provider, gateway) = scene().await;
    const INPUT_TOKENS: &str = "/v1/responses/input_tokens";
    let count = async |said: &str| {
        let body = prompt(RESPONSES, "test-model", said, json!({}));
        let answer = gateway.post(INPUT_TOKENS, &body).await;
        answer.assert_ok();
        assert_eq!(answer.json()["object"], "response.input_tokens");
        assert_eq!(answer.header("x-token-count-source"), Some("local"));
        answer.json()["input_tokens"].as_u64().unwrap()
    };
    let (short, long) = (
        count("Hello!").await,
        count(&"Hello, world! ".repeat(100)).await,
    );
    assert!(short > 0 && long > short + 100, "{short} {long}");
    assert_eq!(provider.handle.counters().requests, 0);
    let usage = gateway.get("/v1/usage").await.json();
    assert_eq!(usage["tokens"]["used"], 0, "{usage}");
    let compact = body(RESPONSES, json!({}));
    let answer = gateway.post("/v1/responses/compact", &compact).await;
    answer.assert_error(404, "not_found");
    assert!(
        answer.message().contains("POST /v1/responses"),
        "{answer:?}"
    );
}
