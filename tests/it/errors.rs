//! Errors: whatever goes wrong, and wherever, the caller gets the one shape, a status that
//! means something, and not a word of a provider's.

use crate::support::{
    self, Act, Answer, CHAT, COUNT_TOKENS, Config, Ending, FORMATS, Gateway, MESSAGES, Provider,
    RESPONSES, Request, Upstream, closed_port, prompt,
};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::io::Write;
use tollgate_sim::vendors::VENDORS;

/// The table of `error.type`.
fn type_of(status: u16, code: &str) -> &'static str {
    match (code, status) {
        ("missing_api_key" | "invalid_api_key", _) => "authentication_error",
        ("permission_denied", _) => "permission_error",
        ("rate_limit_exceeded", _) => "rate_limit_error",
        ("service_unavailable", _) => "overloaded_error",
        ("not_found", _) | ("invalid_model", 404) => "not_found_error",
        ("upstream_error", 500..) | ("internal_error", _) => "api_error",
        _ => "invalid_request_error",
    }
}

/// The one shape on `path`, with its headers.
#[track_caller]
fn assert_shape(path: &str, answer: &Answer, status: u16, code: &str) {
    answer.assert_error(status, code);
    let body = answer.json();
    let fields =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let mut expected = vec!["message", "type", "code"];
    if !body["error"]["param"].is_null() {
        expected.push("param");
    }
    assert_eq!(fields(&body["error"]), expected, "{body}");
    assert_eq!(body["error"]["type"], type_of(status, code), "{body}");
    assert_ne!(answer.message(), "");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let id = answer.header("x-request-id").expect("a request id");
    assert!(id.starts_with("req_"), "{id}");
    if path.starts_with(MESSAGES) {
        assert_eq!(fields(&body), ["type", "error", "request_id"]);
        assert_eq!(
            (&body["type"], &body["request_id"]),
            (&json!("error"), &json!(id))
        );
        assert_eq!(answer.header("request-id"), Some(id));
    } else {
        assert_eq!(fields(&body), ["error"]);
    }
    let has_retry_after = answer.header("retry-after").is_some();
    assert_eq!(has_retry_after, matches!(status, 429 | 503), "{answer:?}");
    assert_eq!(has_retry_after, answer.header("retry-after-ms").is_some());
    assert!(answer.header("server").is_none(), "{answer:?}");
}

/// What may stand in the head of an error.
const OWN_HEADERS: &[&str] = &[
    "x-request-id",
    "request-id",
    "content-type",
    "content-length",
    "date",
    "connection",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "x-model",
    "x-attempts",
];

/// Nothing of what a provider said is in an answer, not even a part of a sentence.
#[track_caller]
fn assert_nothing_of(provider: &str, answer: &Answer) {
    const TELLTALE: usize = 24;
    let text = answer.text();
    for window in provider.as_bytes().windows(TELLTALE) {
        let window = String::from_utf8_lossy(window);
        assert!(
            !text.contains(&*window),
            "{window:?} of the provider's in {text}"
        );
    }
    for (name, value) in &answer.headers {
        assert!(OWN_HEADERS.contains(&name.as_str()), "{name}: {value}");
    }
}

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with(
            "families.closed",
            json!({"group": "closed", "deployments": ["sim"]}),
        )
        .with("models.other-group", json!({"family": "closed"}))
        // Every fault here is reported, one after the other.
        .with("routing.health", json!({"enabled": false}))
        .with(
            "server.limits",
            json!({"body_bytes": "100kB", "head_bytes": "8KiB"}),
        );
    let gateway = Gateway::start(config).await;
    (provider, gateway)
}

#[tokio::test]
async fn every_refusal_has_the_one_shape_in_every_format() {
    let (provider, gateway) = gateway().await;
    let limited = gateway.create_key(&["--group", "other"]).await;
    for path in FORMATS.into_iter().chain([COUNT_TOKENS]) {
        let ask = |model: &str| {
            let body = prompt(path, model, "Hello!", Value::Null);
            Request::post(path, &body)
        };
        let plain = ask("test-model").key(&gateway.key);
        let text = |body: &str| plain.clone().body(body);
        let changed = |field: &str, value: Option<Value>| {
            let mut body = prompt(path, "test-model", "Hello!", Value::Null);
            body.as_object_mut().unwrap().remove(field);
            if let Some(value) = value {
                body[field] = value;
            }
            text(&body.to_string())
        };
        let cases = [
            ("no key", ask("test-model"), 401, "missing_api_key"),
            (
                "a wrong key",
                ask("test-model").key("sk-0"),
                401,
                "invalid_api_key",
            ),
            (
                "two keys",
                plain.clone().header("x-api-key", "sk-1"),
                401,
                "invalid_api_key",
            ),
            (
                "another scheme",
                ask("test-model").header("authorization", "Basic eA=="),
                401,
                "missing_api_key",
            ),
            (
                "a model of another group",
                ask("other-group").key(&limited),
                403,
                "permission_denied",
            ),
            (
                "an unknown model",
                ask("nothing").key(&gateway.key),
                404,
                "invalid_model",
            ),
            ("no model", changed("model", None), 400, "invalid_model"),
            (
                "an empty model",
                ask("").key(&gateway.key),
                400,
                "invalid_model",
            ),
            (
                "a model that is no string",
                changed("model", Some(json!(5))),
                400,
                "invalid_model",
            ),
            ("no JSON", text("Hello!"), 400, "invalid_request"),
            (
                "half a JSON",
                text("{\"model\":\"test-model\","),
                400,
                "invalid_request",
            ),
            (
                "more than JSON",
                text("{\"model\":\"test-model\"}}"),
                400,
                "invalid_request",
            ),
            ("a list", text("[]"), 400, "invalid_request"),
            (
                "a model twice",
                text("{\"model\":\"test-model\",\"mod\\u0065l\":\"a\"}"),
                400,
                "invalid_request",
            ),
            (
                "no media type",
                plain.clone().without("content-type"),
                415,
                "invalid_request",
            ),
            (
                "another media type",
                plain
                    .clone()
                    .without("content-type")
                    .header("content-type", "text/plain"),
                415,
                "invalid_request",
            ),
            (
                "a body packed in another way",
                plain.clone().header("content-encoding", "br"),
                415,
                "invalid_request",
            ),
            (
                "a large body",
                text(&" ".repeat(100_001)),
                413,
                "request_too_large",
            ),
            (
                "a large head",
                plain.clone().header("x-large", &"x".repeat(9000)),
                431,
                "request_too_large",
            ),
            (
                "a wrong method",
                Request::get(path).key(&gateway.key),
                405,
                "method_not_allowed",
            ),
        ];
        for (what, request, status, code) in cases {
            let answer = gateway.send(&request).await;
            assert_eq!(answer.error(), (status, code.to_owned()), "{path}, {what}");
            assert_shape(path, &answer, status, code);
            assert_eq!(answer.header("x-should-retry"), Some("false"), "{what}");
        }
    }
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn bad_numbers_are_refused_by_the_name_of_their_field() {
    let (provider, gateway) = gateway().await;
    for (path, fields) in [
        (CHAT, &["max_tokens", "max_completion_tokens", "n"][..]),
        (RESPONSES, &["max_output_tokens"]),
        (MESSAGES, &["max_tokens"]),
    ] {
        for field in fields {
            for value in [
                "-1",
                "0",
                "1.5",
                "\"5\"",
                "1e309",
                "9223372036854775808",
                "[]",
                "true",
            ] {
                let body = format!("{{\"model\":\"test-model\",\"{field}\":{value}}}");
                let request = Request::post(path, &Value::Null)
                    .body(body)
                    .key(&gateway.key);
                let answer = gateway.send(&request).await;
                assert_shape(path, &answer, 400, "invalid_request");
                assert!(
                    answer.message().contains(field),
                    "{field} {value}: {answer:?}"
                );
            }
        }
    }
    for (body, word) in [
        (
            "{\"model\":\"test-model\",\"stream\":\"yes\"}".to_owned(),
            "stream",
        ),
        (
            format!(
                "{{\"model\":\"test-model\",\"x\":{}1{}}}",
                "[".repeat(2000),
                "]".repeat(2000)
            ),
            "deep",
        ),
    ] {
        let request = Request::post(CHAT, &Value::Null)
            .body(body)
            .key(&gateway.key);
        let answer = gateway.send(&request).await;
        assert_shape(CHAT, &answer, 400, "invalid_request");
        assert!(answer.message().contains(word), "{answer:?}");
    }
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_refused() {
    let (_provider, gateway) = gateway().await;
    for path in [
        "/",
        "/v2",
        "/v1/",
        "//v1",
        "/v1/messages/",
        "/v1/..;/v1",
        "/v1/%6dodels",
        "/metrics",
    ] {
        for request in [Request::get(path), Request::get(path).key(&gateway.key)] {
            let answer = gateway.send(&request).await;
            assert_shape("", &answer, 404, "not_found");
        }
    }
    let answer = gateway.send(&Request::new("HEAD", "/api/hello")).await;
    assert_eq!((answer.status, answer.body().len()), (404, 0));

    for (path, method, allowed) in [
        (CHAT, "GET", "POST"),
        (RESPONSES, "PUT", "POST"),
        (MESSAGES, "DELETE", "POST"),
        (COUNT_TOKENS, "PATCH", "POST"),
        ("/v1/models", "POST", "GET"),
        ("/v1/models/test-model", "DELETE", "GET"),
        ("/v1", "OPTIONS", "GET, HEAD"),
    ] {
        let answer = gateway.send(&Request::new(method, path)).await;
        assert_shape(path, &answer, 401, "missing_api_key");
        let answer = gateway
            .send(&Request::new(method, path).key(&gateway.key))
            .await;
        assert_shape(path, &answer, 405, "method_not_allowed");
        let allow = answer.header("allow").expect("allow");
        assert!(allow.starts_with(allowed), "{path}: {allow}");
    }
}

#[tokio::test]
async fn a_websocket_is_refused_so_that_clients_fall_back() {
    let (_provider, gateway) = gateway().await;
    let request = Request::get(RESPONSES)
        .key(&gateway.key)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let answer = gateway.send(&request).await;
    assert_shape(RESPONSES, &answer, 426, "invalid_request");
}

#[tokio::test]
async fn a_client_that_offers_http2_is_served_without_it() {
    let (_provider, gateway) = gateway().await;
    let offer = |request: Request| {
        request
            .key(&gateway.key)
            .header("connection", "Upgrade, HTTP2-Settings")
            .header("upgrade", "h2c")
            .header("http2-settings", "AAMAAABkAAQCAAAAAAIAAAAA")
    };
    let models = gateway.send(&offer(Request::get("/v1/models"))).await;
    assert_eq!(models.status, 200, "{models:?}");
    let chat = offer(Request::post(
        CHAT,
        &prompt(CHAT, "test-model", "Hello!", Value::Null),
    ));
    let answer = gateway.send(&chat).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The sentence in a vendor's error.
fn sentence(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    let places = ["/error/message", "/error", "/message"];
    let mut found = places
        .iter()
        .filter_map(|place| body.pointer(place)?.as_str());
    found.next().expect("a sentence").to_owned()
}

/// The caller's error for a vendor's error, by the decisions on overlaps.
pub(crate) fn reported(vendor: &str) -> (u16, &'static str) {
    let (_, kind) = vendor.split_once('-').unwrap();
    match kind {
        "context" | "context-output" => (400, "context_length_exceeded"),
        "content" => (400, "content_policy_violation"),
        "model" | "model-responses" => (404, "invalid_model"),
        "quota" | "billing" | "spend-limit" | "arrears" => (503, "service_unavailable"),
        "rate" => (429, "rate_limit_exceeded"),
        "too-large" if vendor == "openai-too-large" => (429, "rate_limit_exceeded"),
        "too-large" => (413, "upstream_error"),
        "busy" | "timeout" => (503, "service_unavailable"),
        "auth" | "permission" | "server" => (502, "upstream_error"),
        "encrypted" | "signature" | "tool" | "image" | "endpoint" => (400, "upstream_error"),
        _ => panic!("{vendor} is new: say what becomes of it"),
    }
}

#[tokio::test]
async fn every_vendors_error_becomes_ours_without_a_word_of_theirs() {
    let (_provider, gateway) = gateway().await;
    for vendor in VENDORS {
        let (status, code) = reported(vendor.name);
        for path in FORMATS {
            for more in [json!({}), json!({"stream": true})] {
                let orders = format!("vendor-{}", vendor.name);
                let answer = gateway.ask(path, "test-model", &orders, more).await;
                assert_eq!(answer.error(), (status, code.to_owned()), "{}", vendor.name);
                assert_shape(path, &answer, status, code);
                if code == "context_length_exceeded" {
                    // Composed in the wording by which agents shrink their request.
                    let message = answer.message();
                    let known = match path {
                        MESSAGES => ["prompt is too long", "input length and `max_tokens` exceed"],
                        _ => ["This model's maximum context length is"; 2],
                    };
                    assert!(known.iter().any(|it| message.starts_with(it)), "{message}");
                } else {
                    assert_nothing_of(&sentence(vendor.body), &answer);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_context_error_keeps_the_numbers() {
    let (_provider, gateway) = gateway().await;
    for (vendor, messages, others) in [
        (
            "openai-context",
            "prompt is too long: 8227 tokens > 8192 maximum",
            "8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.",
        ),
        (
            "anthropic-context",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "200000 tokens. However, your messages resulted in 210000 tokens. Please reduce the length of the messages.",
        ),
        (
            "anthropic-context-output",
            "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648",
            "204648 tokens. However, you requested 209136 tokens (189136 in the messages, 20000 in the completion). Please reduce the length of the messages or completion.",
        ),
        (
            "xai-context",
            "prompt is too long: 136973 tokens > 131072 maximum",
            "131072 tokens. However, your messages resulted in 136973 tokens. Please reduce the length of the messages.",
        ),
    ] {
        let orders = format!("vendor-{vendor}");
        for path in FORMATS {
            // Each format's agents look for the words of its own provider.
            let message = match path {
                MESSAGES => messages.to_owned(),
                _ => format!("This model's maximum context length is {others}"),
            };
            for more in [json!({}), json!({"stream": true})] {
                let answer = gateway.ask(path, "test-model", &orders, more).await;
                assert_eq!(answer.message(), message, "{vendor}: {path}");
                assert_eq!(answer.header("x-should-retry"), Some("false"));
            }
        }
    }
}

#[tokio::test]
async fn a_provider_that_asks_to_wait_is_heard() {
    let (_provider, gateway) = gateway().await;
    for (orders, status, seconds, millis) in [
        ("vendor-openai-rate", 429, "3", "2500"),
        ("vendor-azure-rate", 429, "26", "26000"),
        ("status-503,retry-after-7", 503, "7", "7000"),
        ("status-529", 503, "1", "1000"),
    ] {
        let answer = gateway.ask(CHAT, "test-model", orders, json!({})).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some(seconds), "{orders}");
        assert_eq!(answer.header("retry-after-ms"), Some(millis), "{orders}");
    }
    let answer = gateway
        .ask(CHAT, "test-model", "vendor-openai-quota", json!({}))
        .await;
    assert_eq!(answer.header("x-should-retry"), Some("false"), "{answer:?}");
}

#[tokio::test]
async fn a_provider_that_makes_no_sense_is_an_upstream_error() {
    let (_provider, gateway) = gateway().await;
    for path in FORMATS {
        for more in [json!({}), json!({"stream": true})] {
            for (orders, status, code) in [
                ("html-502", 502, "upstream_error"),
                ("html-503", 503, "service_unavailable"),
                ("html-200", 502, "upstream_error"),
                ("empty", 502, "upstream_error"),
                ("garbage", 502, "upstream_error"),
                ("reset", 503, "service_unavailable"),
                ("cut-1", 503, "service_unavailable"),
                ("status-302", 502, "upstream_error"),
                ("status-418", 418, "upstream_error"),
                ("gzip,status-429", 429, "rate_limit_exceeded"),
                ("gzip,vendor-anthropic-busy", 503, "service_unavailable"),
            ] {
                let answer = gateway.ask(path, "test-model", orders, more.clone()).await;
                // Nothing at all of a stream is a stream that was cut.
                let is_cut = orders == "empty" && more["stream"] == true;
                let (status, code) = match is_cut {
                    true => (503, "service_unavailable"),
                    false => (status, code),
                };
                assert_eq!(
                    answer.error(),
                    (status, code.to_owned()),
                    "{path} {orders} {more}"
                );
                assert_shape(path, &answer, status, code);
                assert_nothing_of("<center>nginx</center> this is not HTTP", &answer);
            }
        }
    }
    let answer = gateway.ask(CHAT, "test-model", "not-json", json!({})).await;
    assert!(
        answer.status == 502 || answer.ending != Ending::Complete,
        "{answer:?}"
    );
}

#[tokio::test]
async fn compressed_answers_are_unfolded_and_huge_ones_pass() {
    let (_provider, gateway) = gateway().await;
    for path in FORMATS {
        let more = json!({"max_tokens": 40});
        let more = if path == RESPONSES { json!({}) } else { more };
        let plain = gateway.ask(path, "test-model", "", more.clone()).await;
        let packed = gateway.ask(path, "test-model", "gzip", more.clone()).await;
        assert_eq!(packed.text(), plain.text(), "{path}");
        assert_eq!(packed.header("content-encoding"), None);
        let more = match path {
            MESSAGES => json!({"max_tokens": 100_000}),
            _ => json!({}),
        };
        let least = if path == MESSAGES { 700_000 } else { 3 << 20 };
        let huge = gateway.ask(path, "test-model", "huge-3mb", more).await;
        huge.assert_ok();
        assert!(huge.body().len() > least, "{path}: {}", huge.body().len());
    }
}

#[tokio::test]
async fn an_error_that_cannot_be_unpacked_keeps_its_status() {
    let plain = br#"{"error":{"message":"no"}}"#;
    // Only its checksum is missing.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let policy = br#"{"error":{"message":"no","code":"content_policy_violation"}}"#;
    encoder.write_all(policy).unwrap();
    let mut cut = encoder.finish().unwrap();
    cut.truncate(cut.len() - 6);
    let unreadable = [("br", &plain[..]), ("gzip", plain), ("gzip", b"")];
    let statuses = [
        (400, 400, "upstream_error"),
        (401, 502, "upstream_error"),
        (429, 429, "rate_limit_exceeded"),
        (503, 503, "service_unavailable"),
    ];
    let cases = unreadable
        .into_iter()
        .flat_map(|it| statuses.map(|status| (it, status)));
    let cases: Vec<_> = cases
        .chain([(("gzip", &*cut), (400, 400, "content_policy_violation"))])
        .collect();
    let healthy = Provider::start().await;
    let mut config = Config::of(&healthy).with("routing.health", json!({"enabled": false}));
    let mut upstreams = Vec::new();
    for (number, ((coding, body), (status, ..))) in cases.iter().enumerate() {
        let head = format!(
            "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\nretry-after: 7\r\n\
             content-encoding: {coding}\r\nconnection: close\r\n\r\n"
        );
        let upstream = Upstream::playing([Act::send([head.as_bytes(), body].concat())]).await;
        let name = format!("raw-{number}");
        config = config
            .provider(&name, support::provider(upstream.address))
            .model(&format!("alone-{number}"), json!([name]))
            .model(
                &format!("two-{number}"),
                json!([name, {"provider": "sim", "priority": 1}]),
            );
        upstreams.push(upstream);
    }
    let gateway = Gateway::start(config).await;
    for (number, ((coding, _), (refused, status, code))) in cases.iter().enumerate() {
        for more in [json!({}), json!({"stream": true})] {
            let alone = format!("alone-{number}");
            let answer = gateway.ask(CHAT, &alone, "", more.clone()).await;
            let what = format!("{coding} {refused}");
            assert_eq!(answer.error(), (*status, (*code).to_owned()), "{what}");
            let waits = matches!(status, 429 | 503).then_some("7");
            assert_eq!(answer.header("retry-after"), waits, "{what}");
            let answer = gateway.ask(CHAT, &format!("two-{number}"), "", more).await;
            let is_final = *refused == 400;
            assert_eq!(answer.status, if is_final { 400 } else { 200 }, "{what}");
        }
    }
}

#[tokio::test]
async fn raw_misbehaviour_is_answered_and_bounded() {
    let head = "HTTP/1.1 500 Oh\r\ncontent-type: application/json\r\n";
    let secret = "the provider's secret words";
    let redirect = "HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/the-providers-secret\r\ncontent-length: 0\r\n\r\n".to_owned();
    let long = format!(
        "{{\"error\":{{\"message\":\"{}\"}}}}",
        format!("{secret} ").repeat(50_000)
    );
    let cases = [
        (
            "an error without a body",
            format!("{head}content-length: 0\r\n\r\n"),
            502,
            "upstream_error",
        ),
        (
            "an error until the end",
            format!("{head}\r\n{secret}"),
            502,
            "upstream_error",
        ),
        (
            "an error of a megabyte",
            format!("{head}content-length: {}\r\n\r\n{long}", long.len()),
            502,
            "upstream_error",
        ),
        (
            "an error cut short",
            format!("{head}content-length: 500\r\n\r\n{secret}"),
            502,
            "upstream_error",
        ),
        (
            "a success without a body",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n"
                .to_owned(),
            502,
            "upstream_error",
        ),
        (
            "no content",
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            502,
            "upstream_error",
        ),
        ("a redirect", redirect, 502, "upstream_error"),
        (
            "text",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{secret}",
                secret.len()
            ),
            502,
            "upstream_error",
        ),
        (
            "no answer at all",
            String::new(),
            503,
            "service_unavailable",
        ),
        (
            "half a head",
            "HTTP/1.1 200 OK\r\ncontent-ty".to_owned(),
            503,
            "service_unavailable",
        ),
        (
            "an unknown encoding",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: br\r\ncontent-length: {}\r\n\r\n{secret}",
                secret.len()
            ),
            502,
            "upstream_error",
        ),
    ];
    let mut config = Config::new();
    let mut upstreams = Vec::new();
    for (number, (_, bytes, ..)) in cases.iter().enumerate() {
        let upstream = Upstream::playing([Act::send(bytes.as_bytes())]).await;
        config = config
            .provider(
                &format!("raw-{number}"),
                support::provider(upstream.address),
            )
            .model(&format!("model-{number}"), json!([format!("raw-{number}")]));
        upstreams.push(upstream);
    }
    let gateway = Gateway::start(config).await;
    for (number, (what, _, status, code)) in cases.iter().enumerate() {
        for path in FORMATS {
            let answer = gateway
                .ask(path, &format!("model-{number}"), "", json!({}))
                .await;
            assert_eq!(
                answer.error(),
                (*status, (*code).to_owned()),
                "{path} {what}"
            );
            assert_shape(path, &answer, *status, code);
            assert_nothing_of(secret, &answer);
        }
    }
}

#[tokio::test]
async fn a_provider_that_is_silent_or_away_is_given_up_in_time() {
    let provider = Provider::start().await;
    let (closed, _port) = closed_port();
    let config = Config::of(&provider)
        .with("providers.sim.timeouts", json!({"read": "300ms"}))
        .provider("closed", support::provider(closed))
        .model("away", json!(["closed"]));
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        let answer = gateway.ask(path, "away", "", json!({})).await;
        assert_shape(path, &answer, 503, "service_unavailable");
        for more in [json!({}), json!({"stream": true})] {
            let answer = gateway.ask(path, "test-model", "hang", more).await;
            assert_shape(path, &answer, 504, "upstream_error");
        }
    }
}
