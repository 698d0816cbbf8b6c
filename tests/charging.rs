//! What a request costs, by how it ended: what the provider reports, what was delivered
//! where nothing was reported, nothing where nothing was had. Each once.

#![cfg(test)]

mod support;
#[path = "charging/unseen.rs"]
mod unseen;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use support::{
    Act, Answer, CHAT, COUNT_TOKENS, Config, Connection, Ending, FORMATS, Gateway, Http2, LONG,
    MESSAGES, Provider, RESPONSES, Request, Upstream, bounded, prompt,
};

const SAID: &str = "one two three four five six seven eight nine ten eleven twelve thirteen \
                    fourteen fifteen sixteen seventeen eighteen nineteen twenty";

async fn start() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

/// The provider has the whole request and works, while its caller holds back the end of it.
#[tokio::test]
async fn who_holds_back_the_last_chunk_pays_like_who_hangs_up() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_timeout", json!("500ms"));
    let gateway = Gateway::start(config).await;
    let said = "word ".repeat(20_000);
    let request = Request::post(CHAT, &prompt(CHAT, "test-model", &said, json!({})))
        .key(&gateway.key)
        .orders("hang")
        .in_chunks_of(10_000);
    let whole = request.bytes();
    let mut connection = gateway.connect().await;
    connection.write(&whole[..whole.len() - 5]).await;
    provider
        .when("the head has come", |it| it.requests == 1)
        .await;
    connection.write(b"1\r\n \r\n").await;
    let answer = connection.answer(&request).await;
    answer.assert_error(408, "invalid_request");
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["outcome"], "client_closed", "{line}");
    assert_eq!(line["status"], 408, "{line}");
    assert!(line["charged"].as_u64().unwrap() > 10_000, "{line}");
}

/// What is asked, streamed or not; a chat stream with its usage.
fn ask(path: &str, stream: bool, more: Value) -> Value {
    let mut body = prompt(path, "test-model", SAID, more);
    if stream {
        body["stream"] = json!(true);
        if path == CHAT && body.get("stream_options").is_none() {
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    body
}

/// What the provider answers when it is asked without a gateway.
async fn direct(provider: &Provider, path: &str, body: &Value) -> Answer {
    let mut body = body.clone();
    body["model"] = json!("upstream-model");
    let request = Request::post(path, &body).key("any");
    let mut connection = Connection::open(provider.address).await;
    let answer = connection.send(&request).await;
    answer.assert_ok();
    answer
}

/// What a request's line in the access log says of money.
fn money(line: &Value) -> (&str, u64, &str) {
    let text = |field: &str| {
        line[field]
            .as_str()
            .unwrap_or_else(|| panic!("{field}: {line}"))
    };
    (
        text("outcome"),
        line["charged"].as_u64().unwrap_or_else(|| panic!("{line}")),
        text("count"),
    )
}

#[tokio::test]
async fn an_answer_costs_what_its_provider_reports() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for path in FORMATS {
        for stream in [false, true] {
            let limit = match path {
                CHAT => json!({"max_completion_tokens": 16}),
                RESPONSES => json!({"max_output_tokens": 16}),
                _ => json!({"max_tokens": 16}),
            };
            for (more, outcome) in [(json!({}), "completed"), (limit, "incomplete")] {
                let body = ask(path, stream, more);
                let cost = direct(&provider, path, &body).await.reported();
                let answer = gateway.post(path, &body).await;
                answer.assert_ok();
                let line = gateway.line_of(&answer).await;
                assert_eq!(money(&line), (outcome, cost, "reported"), "{line}");
                spent += cost;
            }
        }
    }
    gateway.has_spent(&gateway.key, spent).await;
    gateway.verify().await;
}

/// The text of a whole answer.
fn text_of(path: &str, answer: &Answer) -> String {
    let place = match path {
        CHAT => "/choices/0/message/content",
        RESPONSES => "/output/0/content/0/text",
        _ => "/content/0/text",
    };
    let body = answer.json();
    let text = body.pointer(place).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// What the gateway counts by itself: four bytes a token.
fn counted(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}

/// The input as the gateway counts it: a role and what was said.
fn input() -> u64 {
    counted(&format!("user{SAID}"))
}

/// What is charged where no usage was reported. Only the messages format tells the input
/// before its end.
fn estimated(path: &str, whole: &Answer, delivered: &str) -> u64 {
    let input = match path {
        MESSAGES => whole.json()["usage"]["input_tokens"].as_u64().unwrap(),
        _ => input(),
    };
    input + counted(delivered)
}

/// Orders that send a stream without the event that reports its usage and what comes
/// behind it, and what of that comes last.
async fn all_but_the_usage(provider: &Provider, path: &str) -> (String, &'static str) {
    let is_usage = |event: &Value| match path {
        CHAT => event["choices"] == json!([]),
        RESPONSES => event["type"] == "response.completed",
        _ => event["type"] == "message_delta",
    };
    let answer = direct(provider, path, &ask(path, true, json!({}))).await;
    let before = answer.events().iter().position(is_usage).unwrap();
    let last = match path {
        CHAT => "\"finish_reason\":\"stop\"",
        RESPONSES => "\"type\":\"response.output_item.done\"",
        _ => "\"type\":\"content_block_stop\"",
    };
    (format!("stall-after-{before}"), last)
}

#[tokio::test]
async fn whoever_hangs_up_just_before_the_usage_pays_for_the_whole_text() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let cost = estimated(path, &whole, &text_of(path, &whole));
        let (orders, last) = all_but_the_usage(&provider, path).await;
        let mut options = vec![json!({})];
        if path == CHAT {
            // Who asks for no usage does not see it, and that is all.
            options.push(json!({"stream_options": {"include_usage": false}}));
        }
        for more in options {
            let request = Request::post(path, &ask(path, true, more))
                .key(&gateway.key)
                .orders(&orders);
            let mut connection = gateway.connect().await;
            connection.write(&request.bytes()).await;
            let answer = connection.head().await;
            connection.read_until(last.as_bytes()).await;
            drop(connection);
            let line = gateway.line_of(&answer).await;
            assert_eq!(money(&line), ("client_closed", cost, "estimated"), "{line}");
            spent += cost;
        }
    }
    gateway.has_spent(&gateway.key, spent).await;
    gateway.verify().await;
}

#[tokio::test]
async fn whoever_hangs_up_within_a_whole_answer_pays_for_what_has_come() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        const PIECE: usize = 256;
        let long = "seven letters a word ".repeat(2000);
        let body = prompt(path, "test-model", &long, json!({}));
        let orders = "tokens-9000";
        let request = Request::post(path, &body).key("any").orders(orders);
        let whole = Connection::open(provider.address)
            .await
            .send(&request)
            .await;
        let usage = whole.text().rfind("\"usage\"").unwrap();
        let orders = format!("{orders},chunks-{PIECE},stall-after-{}", usage / PIECE);
        let request = Request::post(path, &body).key(&gateway.key).orders(&orders);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        let answer = connection.head().await;
        let mut had = Vec::new();
        while had.len() < usage / 2 {
            had.extend(connection.read_until(b" ").await);
        }
        drop(connection);
        let line = gateway.line_of(&answer).await;
        let (outcome, charged, count) = money(&line);
        assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
        let input = counted(&format!("user{long}"));
        let least = input + (had.len() as u64 - 1000) / 4;
        let most = input + counted(&text_of(path, &whole));
        assert!(
            (least..=most).contains(&charged),
            "{least} to {most}: {line}"
        );
    }
    gateway.verify().await;
}

#[tokio::test]
async fn whoever_hangs_up_after_the_usage_pays_what_was_reported() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for (path, last) in [(CHAT, "\"choices\":[]"), (MESSAGES, "message_delta")] {
        let body = ask(path, true, json!({}));
        let expected = direct(&provider, path, &body).await;
        let events = expected.events().len();
        let orders = format!("stall-after-{}", events - 1);
        let request = Request::post(path, &body).key(&gateway.key).orders(&orders);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        let answer = connection.head().await;
        connection.read_until(last.as_bytes()).await;
        drop(connection);
        let line = gateway.line_of(&answer).await;
        let cost = expected.reported();
        assert_eq!(money(&line), ("client_closed", cost, "reported"), "{line}");
        spent += cost;
    }
    gateway.has_spent(&gateway.key, spent).await;
}

/// Reads an answer up to some text, and leaves.
async fn read_until(answer: hyper::Response<hyper::body::Incoming>, text: &str) {
    let mut body = answer.into_body();
    let mut read = String::new();
    while !read.contains(text) {
        let frame = bounded(text, body.frame()).await.expect(text).unwrap();
        read.push_str(&String::from_utf8_lossy(
            &frame.into_data().unwrap_or_default(),
        ));
    }
}

#[tokio::test]
async fn whoever_cancels_over_http2_pays_for_what_was_produced() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let (orders, last) = all_but_the_usage(&provider, path).await;
        let request = Request::post(path, &ask(path, true, json!({})))
            .key(&gateway.key)
            .orders(&orders);
        let mut http2 = Http2::open(gateway.address).await;
        let answer = bounded("a head", http2.begin(&request)).await.unwrap();
        let id = answer.headers()["x-request-id"]
            .to_str()
            .unwrap()
            .to_owned();
        read_until(answer, last).await;
        let line = gateway.access_line(|line| line["id"] == *id).await;
        let cost = estimated(path, &whole, &text_of(path, &whole));
        assert_eq!(money(&line), ("client_closed", cost, "estimated"), "{line}");
    }
}

#[tokio::test]
async fn whoever_leaves_before_any_content_pays_for_the_input() {
    let (provider, gateway) = start().await;
    let mut left = 0;
    for (path, orders) in [
        (CHAT, "hang"),
        (RESPONSES, "hang"),
        (MESSAGES, "hang"),
        // The first event says nothing yet, and is held back.
        (CHAT, "stall-after-1"),
        (RESPONSES, "stall-after-2"),
    ] {
        let request = Request::post(path, &ask(path, true, json!({})))
            .key(&gateway.key)
            .orders(orders);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        left += 1;
        provider
            .when("the provider is asked", |it| it.requests == left)
            .await;
        drop(connection);
        gateway.has_spent(&gateway.key, left * input()).await;
    }
    let line = gateway.access_line(|line| line["status"] == 499).await;
    assert_eq!(
        money(&line),
        ("client_closed", input(), "estimated"),
        "{line}"
    );
}

#[tokio::test]
async fn what_failed_before_any_content_is_free() {
    let (_provider, gateway) = start().await;
    for path in FORMATS {
        for stream in [false, true] {
            for orders in [
                "status-500",
                "status-429",
                "error-first",
                "reset",
                "cut-20",
                "not-json,empty",
            ] {
                let request = Request::post(path, &ask(path, stream, json!({})))
                    .key(&gateway.key)
                    .orders(orders);
                let answer = gateway.send(&request).await;
                assert!(answer.status >= 429, "{orders}: {answer:?}");
                let line = gateway.line_of(&answer).await;
                assert_eq!(money(&line), ("upstream_failed", 0, "reported"), "{line}");
            }
        }
    }
    gateway.has_spent(&gateway.key, 0).await;
}

#[tokio::test]
async fn what_a_provider_refuses_is_free() {
    let (_provider, gateway) = start().await;
    for path in FORMATS {
        for orders in [
            "vendor-anthropic-context",
            "vendor-openai-content",
            "status-422",
        ] {
            let request = Request::post(path, &ask(path, true, json!({})))
                .key(&gateway.key)
                .orders(orders);
            let answer = gateway.send(&request).await;
            assert_eq!(answer.status / 100, 4, "{orders}: {answer:?}");
            let line = gateway.line_of(&answer).await;
            assert_eq!(money(&line), ("rejected", 0, "reported"), "{line}");
        }
    }
    gateway.has_spent(&gateway.key, 0).await;
}

#[tokio::test]
async fn what_failed_within_the_content_costs_what_was_delivered() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let streamed = direct(&provider, path, &ask(path, true, json!({}))).await;
        let events = streamed.events();
        let deltas = |event: &Value| match path {
            CHAT => event["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned),
            RESPONSES if event["type"] != "response.output_text.delta" => None,
            RESPONSES => event["delta"].as_str().map(str::to_owned),
            _ => event["delta"]["text"].as_str().map(str::to_owned),
        };
        let delivered: String = events.iter().take(12).filter_map(deltas).collect();
        let bytes: usize = streamed
            .text()
            .split_inclusive("\n\n")
            .take(12)
            .map(str::len)
            .sum();
        let cost = estimated(path, &whole, &delivered);
        for orders in ["error-after-12".to_owned(), format!("cut-{}", bytes + 10)] {
            let request = Request::post(path, &ask(path, true, json!({})))
                .key(&gateway.key)
                .orders(&orders);
            let answer = gateway.send(&request).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                money(&line),
                ("upstream_failed", cost, "estimated"),
                "{orders}: {line}"
            );
            spent += cost;
        }
    }
    gateway.has_spent(&gateway.key, spent).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_failover_is_one_charge() {
    let provider = Provider::start().await;
    let deployments = json!([
        "sim/sim-error-first",
        {"provider": "sim", "upstream_model": "sim-status-503", "priority": 1},
        {"provider": "sim", "upstream_model": "upstream-model", "priority": 2},
    ]);
    let gateway = Gateway::start(Config::of(&provider).model("test-model", deployments)).await;
    let mut spent = 0;
    for path in FORMATS {
        let body = ask(path, true, json!({}));
        let cost = direct(&provider, path, &body).await.reported();
        let answer = gateway.post(path, &body).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("3"));
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line), ("completed", cost, "reported"), "{line}");
        spent += cost;
    }
    gateway.has_spent(&gateway.key, spent).await;
}

#[tokio::test]
async fn counting_tokens_costs_nothing() {
    let (_provider, gateway) = start().await;
    let poor = gateway.key_with(1, LONG);
    let body = prompt(COUNT_TOKENS, "test-model", SAID, json!({}));
    for _ in 0..3 {
        let answer = gateway
            .send(&Request::post(COUNT_TOKENS, &body).key(&poor))
            .await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["charged"], Value::Null, "{line}");
    }
    gateway.has_spent(&poor, 0).await;
}

#[tokio::test]
async fn a_usage_that_makes_no_sense_is_never_believed() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let right = whole.reported();
        for stream in [false, true] {
            for orders in ["no-usage", "usage-negative", "usage-twice"] {
                let request = Request::post(path, &ask(path, stream, json!({})))
                    .key(&gateway.key)
                    .orders(orders);
                let answer = gateway.send(&request).await;
                answer.assert_ok();
                let line = gateway.line_of(&answer).await;
                let counted = input() + counted(&text_of(path, &whole));
                let expected = match orders {
                    "usage-twice" => ("completed", right, "reported"),
                    _ => ("completed", counted, "estimated"),
                };
                assert_eq!(money(&line), expected, "{orders}: {line}");
                if orders == "usage-negative" {
                    let id = answer.header("x-request-id").unwrap();
                    gateway
                        .log_line(&format!("{id}: the reported usage was not believed"))
                        .await;
                }
            }
        }
    }
    gateway.verify().await;
}

#[tokio::test]
async fn what_the_end_of_the_grace_period_cuts_is_settled_and_told() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.shutdown.grace", json!("300ms"));
    let mut gateway = Gateway::start(config).await;
    let mut spent = 0;
    let (mut streams, mut costs) = (Vec::new(), Vec::new());
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let cost = estimated(path, &whole, &text_of(path, &whole));
        let (orders, last) = all_but_the_usage(&provider, path).await;
        let request = Request::post(path, &ask(path, true, json!({})))
            .key(&gateway.key)
            .orders(&orders);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        let answer = connection.head().await;
        connection.read_until(last.as_bytes()).await;
        let id = answer.header("x-request-id").unwrap().to_owned();
        let mut http2 = Http2::open(gateway.address).await;
        let head = bounded("a head", http2.begin(&request)).await.unwrap();
        let id_of_http2 = head.headers()["x-request-id"].to_str().unwrap().to_owned();
        let mut body = head.into_body();
        let mut read = String::new();
        while !read.contains(last) {
            let frame = bounded(last, body.frame()).await.expect(last).unwrap();
            read.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap()));
        }
        costs.extend([(id, cost), (id_of_http2, cost)]);
        spent += 2 * cost;
        streams.push((connection, http2, body));
    }
    // One of which nothing has come yet, and one that is still being sent.
    let mut waiting = gateway.connect().await;
    let request = Request::post(CHAT, &ask(CHAT, true, json!({}))).key(&gateway.key);
    let asked = provider.handle.counters().requests;
    waiting.write(&request.clone().orders("hang").bytes()).await;
    provider
        .when("it is asked", |it| it.requests == asked + 1)
        .await;
    let mut sending = gateway.connect().await;
    let bytes = request.bytes();
    sending.write(&bytes[..bytes.len() - 1]).await;

    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    gateway.log_line("8 requests were cut").await;
    for (id, cost) in costs {
        let line = gateway.access_line(|line| line["id"] == *id).await;
        assert_eq!(
            money(&line),
            ("upstream_failed", cost, "estimated"),
            "{line}"
        );
        assert_eq!(line["code"], "service_unavailable", "{line}");
    }
    let line = gateway
        .access_line(|line| line["status"] == 503 && line["attempts"] == 1)
        .await;
    assert_eq!(money(&line), ("upstream_failed", 0, "reported"), "{line}");
    let line = gateway
        .access_line(|line| line["status"] == 503 && line["attempts"] == 0)
        .await;
    assert_eq!(line["outcome"], "rejected", "{line}");
    assert_eq!(gateway.spent(&gateway.key).await, spent);
    assert!(
        !gateway.output().contains("have not been settled"),
        "{}",
        gateway.output()
    );
    gateway.verify().await;
    for (mut connection, _, mut body) in streams {
        assert_ne!(connection.rest().await.1, Ending::Complete);
        let over = bounded("the end", body.frame()).await;
        assert!(
            over.is_some_and(|frame| frame.is_err()),
            "a cut stream is reset"
        );
    }
}

/// A gateway before a provider that sends these bytes in answer to every request.
async fn before(bytes: Vec<u8>) -> Gateway {
    let upstream = Upstream::playing([Act::Send(bytes)]).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]));
    Gateway::start(config).await
}

/// A stream of chat that says "Hello" and reports a usage, and what comes after.
fn stream_with(usage: &Value, behind: &str) -> Vec<u8> {
    let chunk = |choices: Value, usage: &Value| json!({"id": "c", "object": "chat.completion.chunk", "choices": choices, "usage": usage});
    let delta = json!([{"index": 0, "delta": {"content": "Hello"}, "finish_reason": null}]);
    let stop = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let events = [
        chunk(delta, &Value::Null),
        chunk(stop, &Value::Null),
        chunk(json!([]), usage),
    ];
    let events: String = events.iter().map(|it| format!("data: {it}\n\n")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}{events}data: [DONE]\n\n{behind}").into_bytes()
}

#[tokio::test]
async fn an_absurd_usage_is_cut_down_to_what_was_agreed() {
    let limit = json!({"max_completion_tokens": 100});
    let body = ask(CHAT, true, limit);
    // A token a byte, and the frame.
    let bound = format!("user{SAID}").len() as u64 + 128;
    let unbelieved = input() + counted("Hello");
    for (usage, charged, count) in [
        (
            json!({"prompt_tokens": 7, "completion_tokens": 1u64 << 50}),
            7 + 100,
            "reported",
        ),
        (
            json!({"prompt_tokens": 1u64 << 50, "completion_tokens": 3}),
            bound + 3,
            "reported",
        ),
        (
            json!({"prompt_tokens": 0, "completion_tokens": 0}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 7, "completion_tokens": 1.5}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 7, "completion_tokens": "3"}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 7, "completion_tokens": u64::MAX}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": -7, "completion_tokens": -3}),
            unbelieved,
            "estimated",
        ),
    ] {
        let gateway = before(stream_with(&usage, "")).await;
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            money(&line),
            ("completed", charged, count),
            "{usage}: {line}"
        );
        let id = answer.header("x-request-id").unwrap();
        let words = format!("{id}: the reported usage was not believed");
        gateway.log_line(&words).await;
        gateway.has_spent(&gateway.key, charged).await;
    }
}

#[tokio::test]
async fn what_a_provider_sends_behind_its_end_changes_nothing() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3});
    let more = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 90}});
    let error = json!({"error": {"message": "late", "code": "server_error"}});
    for behind in [&more, &error] {
        let behind = format!("data: {behind}\n\n").repeat(3);
        let gateway = before(stream_with(&usage, &behind)).await;
        let answer = gateway.post(CHAT, &ask(CHAT, true, json!({}))).await;
        answer.assert_ok();
        assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line), ("completed", 10, "reported"), "{line}");
        gateway.has_spent(&gateway.key, 10).await;
    }
}

#[tokio::test]
async fn an_answer_that_ends_in_trailers_costs_what_it_reports() {
    let body = json!({
        "id": "c", "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    })
    .to_string();
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let bytes = format!(
        "{head}{:x}\r\n{body}\r\n0\r\nx-trailer: 1\r\n\r\n",
        body.len()
    );
    let gateway = before(bytes.into_bytes()).await;
    let answer = gateway.post(CHAT, &ask(CHAT, false, json!({}))).await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert_eq!(money(&line), ("completed", 10, "reported"), "{line}");
    gateway.has_spent(&gateway.key, 10).await;
}

#[tokio::test]
async fn a_translated_answer_costs_what_its_provider_reports_and_a_part_of_it_what_has_come() {
    let simulated = Provider::start().await;
    let providers = [
        ("chat", CHAT),
        ("responses", RESPONSES),
        ("messages", MESSAGES),
    ];
    let mut config = Config::new();
    for (format, _) in providers {
        let mut provider = support::provider(simulated.address);
        provider["formats"] = json!([format]);
        config = config
            .provider(&format!("p-{format}"), provider)
            .model(format, json!([format!("p-{format}")]));
    }
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        for (model, at) in providers.into_iter().filter(|(_, at)| *at != path) {
            for stream in [false, true] {
                let mut body = ask(path, stream, json!({}));
                body["model"] = json!(model);
                let answer = gateway.post(path, &body).await;
                answer.assert_ok();
                let line = gateway.line_of(&answer).await;
                let expected = ("completed", answer.reported(), "reported");
                assert_eq!(money(&line), expected, "{path} at {at}: {line}");
            }
            let whole = direct(&simulated, at, &ask(at, false, json!({}))).await;
            let text = text_of(at, &whole);
            let (orders, _) = all_but_the_usage(&simulated, at).await;
            let mut body = ask(path, true, json!({}));
            body["model"] = json!(model);
            let request = Request::post(path, &body).key(&gateway.key).orders(&orders);
            let mut connection = gateway.connect().await;
            connection.write(&request.bytes()).await;
            let answer = connection.head().await;
            connection.read_until("nine…".as_bytes()).await;
            drop(connection);
            let line = gateway.line_of(&answer).await;
            let (outcome, charged, count) = money(&line);
            assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
            let least = counted(SAID) + counted(&text);
            assert!(charged >= least, "{path} at {at}: {least} of {line}");
        }
    }
    gateway.verify().await;
}
