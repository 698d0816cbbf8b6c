//! Event streams through the gateway: they pass as they came, a broken one never looks like
//! a finished one, and what fails before its first content is replaced unseen.

mod foreign;
mod other_kind;

use crate::support::{
    self, AT_ONCE, Act, Answer, CHAT, Config, Ending, FORMATS, Gateway, Http2, MESSAGES, Provider,
    RESPONSES, Request, Upstream, bounded, closed_port, prompt, provider,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Sentences of the simulated provider's errors.
const PROVIDER_TEXT: &[&str] = &["The server had an error", "\"Overloaded\"", "server_error"];

/// What a stream is asked for; with usage, so that the gateway has nothing to add.
fn streamed(path: &str, said: &str) -> Value {
    let more = match path {
        CHAT => json!({"stream": true, "stream_options": {"include_usage": true}}),
        _ => json!({"stream": true}),
    };
    prompt(path, "test-model", said, more)
}

/// What the provider answers when it is asked without a gateway.
async fn direct(provider: &Provider, path: &str, body: &Value, orders: &str) -> Answer {
    let mut body = body.clone();
    body["model"] = json!("upstream-model");
    let request = Request::post(path, &body).key("any").orders(orders);
    let mut connection = support::Connection::open(provider.address).await;
    connection.send(&request).await
}

async fn through(gateway: &Gateway, path: &str, body: &Value, orders: &str) -> Answer {
    let request = Request::post(path, body).key(&gateway.key).orders(orders);
    gateway.send(&request).await
}

/// The stream ended in the error event of its format and in nothing else.
#[track_caller]
fn assert_broken_off(path: &str, answer: &Answer, code: &str) {
    let text = answer.text();
    for words in PROVIDER_TEXT {
        assert!(!text.contains(words), "{words}: {text}");
    }
    for end in ["[DONE]", "message_stop", "response.completed"] {
        assert!(!text.contains(end), "{path}: {end}: {text}");
    }
    let events = answer.events();
    let last = events.last().expect("an event");
    match path {
        CHAT => assert_eq!(last["error"]["code"], code, "{text}"),
        MESSAGES => {
            assert_eq!(last["type"], "error", "{text}");
            assert_eq!(last["error"]["code"], code, "{text}");
            assert!(text.contains("\nevent: error\n"), "{text}");
        }
        _ => {
            assert_eq!(last["type"], "response.failed", "{text}");
            assert_eq!(last["response"]["status"], "failed", "{text}");
            assert_eq!(last["response"]["error"]["code"], code, "{text}");
            let numbers = events.iter().map(|event| event["sequence_number"].as_u64());
            assert!(numbers.eq((0..).map(Some).take(events.len())), "{text}");
        }
    }
    assert!(text.ends_with("\n\n"), "{text}");
}

#[tokio::test]
async fn a_stream_passes_byte_for_byte_however_it_is_cut() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for path in FORMATS {
        let body = streamed(
            path,
            "Tell me — in ünïcode — about the sea, at some length.",
        );
        let expected = direct(&provider, path, &body, "tokens-40").await;
        expected.assert_ok();
        for orders in ["", "chunks-1,", "chunks-7,", "chunks-64,", "chunks-1000,"] {
            let answer = through(&gateway, path, &body, &format!("{orders}tokens-40")).await;
            answer.assert_ok();
            assert_eq!(answer.text(), expected.text(), "{path} {orders}");
            assert_eq!(
                answer.header("content-type"),
                expected.header("content-type")
            );
        }
    }
}

#[tokio::test]
async fn an_open_stream_that_waits_takes_little_memory() {
    const STREAMS: usize = 300;
    /// Measured: 49 KiB, and 76 with buffers that a waiting stream keeps.
    const MOST: usize = 64 * 1024;
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let body = streamed(CHAT, &"word ".repeat(200));
    let request = Request::post(CHAT, &body).key(&gateway.key);
    let request = request.orders("stall-after-4").bytes();
    let open = async || {
        let mut caller = gateway.connect().await;
        caller.write(&request).await;
        caller.read_until(b"word").await;
        caller
    };
    // What the first requests make once.
    drop((open().await, open().await));
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
    let before = resident(gateway.id());
    let mut callers = Vec::new();
    for _ in 0..STREAMS {
        callers.push(open().await);
    }
    let each = resident(gateway.id()).saturating_sub(before) / STREAMS;
    assert!(each < MOST, "{each} bytes a stream");
}

/// Resident memory of a process in bytes.
fn resident(id: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
    kibibytes.unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn tool_calls_and_thoughts_pass_like_everything_else() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    for (path, more) in [
        (
            CHAT,
            json!({"tools": [{"type": "function", "function": {"name": "shell", "parameters": schema}}]}),
        ),
        (
            RESPONSES,
            json!({"tools": [{"type": "function", "name": "shell", "parameters": schema}],
                   "reasoning": {"effort": "low", "summary": "auto"}}),
        ),
        (
            MESSAGES,
            json!({"tools": [{"name": "shell", "input_schema": schema}],
                   "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ),
    ] {
        let mut body = streamed(path, "run: ls -la");
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let expected = direct(&provider, path, &body, "").await;
        expected.assert_ok();
        assert!(expected.text().contains("\"shell\""), "{}", expected.text());
        let answer = through(&gateway, path, &body, "chunks-11").await;
        assert_eq!(answer.text(), expected.text(), "{path}");
    }
}

#[tokio::test]
async fn a_chat_stream_shows_its_usage_only_on_request() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let is_usage = |event: &Value| event["choices"] == json!([]);
    let asked = streamed(CHAT, "Hello there!");
    let expected = direct(&provider, CHAT, &asked, "").await;
    assert!(expected.events().iter().any(is_usage));

    for options in [Value::Null, json!({"include_usage": false})] {
        let mut body = asked.clone();
        body["stream_options"] = options.clone();
        if options.is_null() {
            body.as_object_mut().unwrap().remove("stream_options");
        }
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        let sent: Value = serde_json::from_slice(&provider.last().body).unwrap();
        assert_eq!(sent["stream_options"]["include_usage"], true, "{options}");
        let mut left = expected.events();
        left.retain(|event| !is_usage(event));
        assert_eq!(answer.events(), left, "{options}");
        assert!(answer.text().ends_with("data: [DONE]\n\n"));
    }
    let answer = gateway.post(CHAT, &asked).await;
    assert_eq!(answer.text(), expected.text());
    let usage = expected.events().into_iter().find(is_usage).unwrap();
    let tokens = usage["usage"]["completion_tokens"].as_f64().unwrap();
    let sample =
        r#"tollgate_tokens_total{format="chat",kind="output",model="test-model",provider="sim"}"#;
    gateway.sample_is(sample, 3.0 * tokens).await;
}

#[tokio::test]
async fn nothing_is_held_back_once_content_has_come() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for (path, first) in [
        (CHAT, "delta\":{\"content\""),
        (RESPONSES, "response.output_text.delta"),
        (MESSAGES, "text_delta"),
    ] {
        let body = streamed(path, "one two three four five six seven eight");
        let request = Request::post(path, &body)
            .key(&gateway.key)
            .orders("stall-after-6");
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        assert_eq!(connection.head().await.status, 200);
        // The provider says no more, and yet this arrives.
        connection.read_until(first.as_bytes()).await;
    }
}

#[tokio::test]
async fn an_error_as_the_first_event_gets_a_status_of_its_own() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for (path, status, code) in [
        (CHAT, 502, "upstream_error"),
        (RESPONSES, 502, "upstream_error"),
        (MESSAGES, 503, "service_unavailable"),
    ] {
        let body = streamed(path, "Hello there!");
        let answer = through(&gateway, path, &body, "error-first").await;
        answer.assert_error(status, code);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        for words in PROVIDER_TEXT {
            assert!(!answer.text().contains(words), "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_is_sent_in_the_callers_format() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for (path, code) in [
        (CHAT, "upstream_error"),
        (RESPONSES, "upstream_error"),
        (MESSAGES, "service_unavailable"),
    ] {
        let body = streamed(path, "one two three four five six seven eight");
        let expected = direct(&provider, path, &body, "").await.text();
        for orders in [
            "error-after-5",
            "error-after-5,chunks-1",
            "error-after-8,chunks-33",
        ] {
            let answer = through(&gateway, path, &body, orders).await;
            assert_eq!((answer.status, answer.ending), (200, Ending::Complete));
            assert_broken_off(path, &answer, code);
            let text = answer.text();
            let shared = text.bytes().zip(expected.bytes());
            let shared = shared.take_while(|(a, b)| a == b).count();
            assert!(shared > 200, "the start has passed: {text}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_mid_stream_is_sent_as_an_error() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for path in FORMATS {
        let body = streamed(path, "one two three four five six seven eight");
        let whole = direct(&provider, path, &body, "").await.body().len();
        let late = whole - 30;
        for orders in [
            format!("cut-{}", whole / 2),
            format!("cut-{}", whole / 2 + 17),
            format!("cut-{late}"),
            format!("cut-{},reset", whole / 2),
        ] {
            let answer = through(&gateway, path, &body, &orders).await;
            assert_eq!(answer.status, 200, "{orders}");
            assert_eq!(answer.ending, Ending::Complete, "{orders}");
            assert_broken_off(path, &answer, "service_unavailable");
        }
        let mut http2 = Http2::open(gateway.address).await;
        let request = Request::post(path, &body)
            .key(&gateway.key)
            .orders(&format!("cut-{}", whole / 2));
        let answer = http2.send(&request).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Complete));
        assert_broken_off(path, &answer, "service_unavailable");
    }
}

#[tokio::test]
async fn a_stream_that_stops_without_its_end_is_sent_as_an_error() {
    // A proper end of the connection's framing is not the end of an answer.
    // An empty reason is none.
    for (reason, has_length) in [
        (Value::Null, true),
        (Value::Null, false),
        (json!(""), false),
    ] {
        let delta = json!({"index": 0, "delta": {"content": "Hel"}, "finish_reason": reason});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [delta]});
        let event = format!("data: {chunk}\n\n");
        let events = event.repeat(2);
        let framing = match has_length {
            true => format!("content-length: {}", events.len()),
            false => "connection: close".to_owned(),
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
        let bytes = format!("{head}\r\n{framing}\r\n\r\n{events}");
        let (start, end) = bytes.split_at(bytes.len() - event.len());
        let seen = Arc::new(Notify::new());
        let script = [
            Act::send(start),
            Act::Wait(Arc::clone(&seen)),
            Act::send(end),
        ];
        let upstream = Upstream::playing(script).await;
        let config = Config::new()
            .provider("raw", provider(upstream.address))
            .model("test-model", json!(["raw"]));
        let gateway = Gateway::start(config).await;
        let request = Request::post(CHAT, &streamed(CHAT, "Hello!")).key(&gateway.key);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        let mut answer = connection.head().await;
        seen.notify_one();
        connection.read_body(&mut answer).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().starts_with(&events), "{}", answer.text());
        assert_broken_off(CHAT, &answer, "service_unavailable");
    }
}

#[tokio::test]
async fn a_provider_that_falls_silent_in_mid_stream_is_given_up() {
    let provider = Provider::start().await;
    let timeouts = json!({"read": "60s", "between_events": "300ms"});
    let config = Config::of(&provider).with("providers.sim.timeouts", timeouts);
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        let body = streamed(path, "one two three four five six seven eight");
        let answer = through(&gateway, path, &body, "stall-after-6").await;
        assert_eq!(answer.status, 200);
        assert_broken_off(path, &answer, "upstream_error");
    }
}

#[tokio::test]
async fn a_caller_that_leaves_ends_the_request_at_the_provider_at_once() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let mut slowest = Duration::ZERO;
    let mut left = 0;
    for path in FORMATS {
        for (orders, is_streaming) in [("hang", false), ("stall-after-6", true)] {
            let body = streamed(path, "one two three four five six seven eight");
            let request = Request::post(path, &body).key(&gateway.key).orders(orders);
            let mut connection = gateway.connect().await;
            connection.write(&request.bytes()).await;
            provider
                .when("the provider is asked", |it| it.open_answers == 1)
                .await;
            if is_streaming {
                connection.read_until(b"data: ").await;
            }
            let leaving = Instant::now();
            drop(connection);
            left += 1;
            provider
                .when("the provider hears of it", |it| it.left_early == left)
                .await;
            slowest = slowest.max(leaving.elapsed());
        }
    }
    assert!(slowest < AT_ONCE, "{slowest:?}");
    println!("the slowest of six took {slowest:?}");
    let line = gateway
        .access_line(|line| line["outcome"] == "client_closed")
        .await;
    assert_eq!(line["model"], "test-model", "{line}");
}

#[tokio::test]
async fn a_caller_that_cancels_a_stream_of_http2_ends_it_at_the_provider() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let body = streamed(MESSAGES, "one two three four five six seven eight");
    let request = Request::post(MESSAGES, &body)
        .key(&gateway.key)
        .orders("stall-after-6");
    let mut http2 = Http2::open(gateway.address).await;
    let answer = bounded("an answer", http2.begin(&request)).await.unwrap();
    assert_eq!(answer.status(), 200);
    drop(answer);
    provider
        .when("the provider hears of it", |it| it.left_early == 1)
        .await;
    // The connection itself goes on.
    let request = Request::get("/v1/models").key(&gateway.key);
    assert_eq!(http2.send(&request).await.status, 200);
}

#[tokio::test]
async fn a_candidate_that_fails_before_the_first_content_is_replaced_unseen() {
    let provider = Provider::start().await;
    let orders = [
        "status-500",
        "status-503",
        "status-529",
        "status-429",
        "status-401",
        "vendor-openai-model",
        "vendor-anthropic-model",
        "html-502",
        "vendor-openai-quota",
        "vendor-anthropic-quota",
        "vendor-xai-auth",
        "garbage",
        "reset",
        "empty",
        "error-first",
        "cut-20",
        "cut-20+reset",
        "hang",
        "stall-after-1",
    ];
    let impatient = json!({"read": "300ms"});
    let mut config = Config::of(&provider)
        .with("providers.sim.timeouts", impatient)
        // The candidate that answers has its time.
        .provider("patient", support::provider(provider.address))
        // Every provider is to fail in each format again.
        .with("routing.health", json!({"enabled": false}));
    for order in orders {
        let deployments = json!([
            format!("sim/sim-{order}"),
            {"provider": "patient", "upstream_model": "upstream-model", "priority": 1},
        ]);
        config = config.model(order, deployments);
    }
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        let mut body = streamed(path, "Hello there!");
        let expected = direct(&provider, path, &body, "").await;
        for order in orders {
            body["model"] = json!(order);
            let answer = gateway.post(path, &body).await;
            answer.assert_ok();
            assert_eq!(answer.text(), expected.text(), "{path} {order}");
            assert_eq!(answer.header("x-attempts"), Some("2"), "{path} {order}");
            assert_eq!(answer.header("x-model"), Some(order), "{path} {order}");
        }
    }
    let faults = r#"tollgate_upstream_faults_total{class="connection_broken",provider="sim"}"#;
    assert!(gateway.sample(faults).await.is_some_and(|it| it >= 9.0));
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_replaced_unseen() {
    let provider = Provider::start().await;
    let (closed, _port) = closed_port();
    let config = Config::of(&provider)
        .provider("closed", support::provider(closed))
        .model(
            "test-model",
            json!(["closed", {"provider": "sim", "upstream_model": "upstream-model", "priority": 1}]),
        );
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        let body = streamed(path, "Hello there!");
        let answer = through(&gateway, path, &body, "").await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("2"));
    }
}

#[tokio::test]
async fn a_fault_of_the_request_is_not_tried_elsewhere() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).model("test-model", json!(["sim/a", "sim/b", "sim/c"]));
    let gateway = Gateway::start(config).await;
    let cases = [
        ("vendor-anthropic-context", 400, "context_length_exceeded"),
        ("vendor-azure-content", 400, "content_policy_violation"),
        ("status-422", 422, "upstream_error"),
    ];
    for (asked, (orders, status, code)) in (1..).zip(cases) {
        let answer = through(&gateway, CHAT, &streamed(CHAT, "Hello!"), orders).await;
        answer.assert_error(status, code);
        assert_eq!(provider.handle.counters().requests, asked);
        assert_eq!(answer.header("x-attempts"), None);
    }
}
