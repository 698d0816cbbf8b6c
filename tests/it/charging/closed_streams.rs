//! Streams that the gateway closes, and reports that are not final: hidden usage is charged as after a
//! disconnect.

use super::*;
use std::time::Duration;

/// More than any test takes to produce what is reserved.
const AT_ONCE: u64 = 4_000_000_000;
const LIMIT: u64 = 20_000;

fn head(kind: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n")
}

fn event(event: &Value) -> String {
    format!("data: {event}\n\n")
}

/// A gateway before two deployments of a provider of this format that play the same.
async fn playing(format: &str, script: impl Into<Vec<Act>>) -> (Upstream, Gateway) {
    playing_with(format, script, |config| config).await
}

/// The same with a change of its configuration.
async fn playing_with(
    format: &str,
    script: impl Into<Vec<Act>>,
    change: impl FnOnce(Config) -> Config,
) -> (Upstream, Gateway) {
    let upstream = Upstream::playing(script).await;
    let provider = |_| {
        let mut settings = support::provider(upstream.address);
        settings["formats"] = json!([format]);
        settings
    };
    let config = Config::new()
        .provider("raw", provider(()))
        .provider("spare", provider(()))
        .model("test-model", json!(["raw", "spare"]))
        .with("models.test-model.context_window", json!(100_000))
        .with("models.test-model.output_rate", json!(AT_ONCE));
    (upstream, Gateway::start(change(config)).await)
}

/// A gateway before a provider that speaks a format, at a price. All output is seen.
async fn priced(upstream: &Upstream, format: Value, price: Value) -> Gateway {
    let mut settings = support::provider(upstream.address);
    settings["formats"] = json!([format]);
    let config = Config::new()
        .provider("raw", settings)
        .model("test-model", json!(["raw"]))
        .with("models.test-model.reasoning", json!("none"))
        .with("models.test-model.price", price);
    Gateway::start(config).await
}

fn of_fast_mode() -> Value {
    json!({"input": 1, "output": 1, "tiers": {"fast": 6}})
}

#[tokio::test]
async fn a_stop_sequence_that_the_gateway_enforces_saves_no_hidden_input() {
    let response = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress",
        "model": "m", "output": []});
    let item = json!({"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []});
    let part = json!({"type": "output_text", "text": "", "annotations": []});
    let events = [
        json!({"type": "response.created", "sequence_number": 0, "response": response}),
        json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}),
        json!({"type": "response.content_part.added", "sequence_number": 2, "item_id": "msg_1",
            "output_index": 0, "content_index": 0, "part": part}),
        json!({"type": "response.output_text.delta", "sequence_number": 3, "item_id": "msg_1",
            "output_index": 0, "content_index": 0, "delta": "some words STOPHERE and more"}),
    ];
    let sent = head("text/event-stream") + &events.iter().map(event).collect::<String>();
    let (_, gateway) = playing("responses", [Act::send(sent), Act::Hang]).await;
    let pdf = json!({"type": "file", "file": {"filename": "a.pdf",
        "file_data": "data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK"}});
    let mut body = ask(CHAT, true, json!({"max_completion_tokens": LIMIT}));
    body["messages"] = json!([{"role": "user", "content": [pdf, {"type": "text", "text": "hi"}]}]);
    let left = leave_after(&gateway, CHAT, &body, "some words").await;
    body["stop"] = json!(["STOPHERE"]);
    let answer = gateway.post(CHAT, &body).await;
    answer.assert_ok();
    assert!(!answer.text().contains("and more"), "{answer:?}");
    let stopped = gateway.line_of(&answer).await;
    assert_eq!(money(&left).0, "client_closed", "{left}");
    assert_eq!(money(&stopped).0, "completed", "{stopped}");
    let (left, stopped) = (money(&left).1, money(&stopped).1);
    assert!(
        left > 50_000 && stopped.abs_diff(left) < 100,
        "{left} {stopped}"
    );
}

#[tokio::test]
async fn an_answer_that_the_model_has_spoilt_costs_what_is_reported_and_is_asked_for_once() {
    let gemini = json!({
        "candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "thoughtsTokenCount": 20_000, "totalTokenCount": 20_010},
    });
    let call = |arguments: &str| {
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 20_000}})
    };
    let tool = json!([{"name": "f", "input_schema": {"type": "object"}}]);
    for (format, path, answer) in [
        ("gemini", CHAT, gemini.clone()),
        ("chat", MESSAGES, call("[1]")),
    ] {
        let sent = head("application/json") + &answer.to_string();
        let (upstream, gateway) = playing(format, [Act::send(sent)]).await;
        let mut body = ask(path, false, json!({limit_field(path): LIMIT}));
        if path == MESSAGES {
            body["tools"] = tool.clone();
        }
        let answer = gateway.post(path, &body).await;
        assert_eq!(answer.status, 502, "{format}: {answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line), ("incomplete", 20_010, "reported"), "{line}");
        assert_eq!(upstream.requests(), 1, "{format}");
        gateway.verify().await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_malformed_is_charged_as_reported() {
    let part =
        json!({"candidates": [{"content": {"parts": [{"text": "some words"}]}, "index": 0}]});
    let end = json!({
        "candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "thoughtsTokenCount": 18_000, "totalTokenCount": 18_010},
    });
    let target = "/v1beta/models/test-model:streamGenerateContent?alt=sse";
    for events in [event(&end), event(&part) + &event(&end)] {
        for path in [CHAT, target] {
            let sent = head("text/event-stream") + &events;
            let (upstream, gateway) = playing("gemini", [Act::send(sent)]).await;
            let body = match path {
                CHAT => ask(path, true, json!({limit_field(path): LIMIT})),
                _ => json!({"contents": [{"role": "user", "parts": [{"text": SAID}]}],
                    "generationConfig": {"maxOutputTokens": LIMIT}}),
            };
            let answer = gateway.post(path, &body).await;
            let line = gateway.line_of(&answer).await;
            assert_eq!(money(&line), ("incomplete", 18_010, "reported"), "{line}");
            assert_eq!(upstream.requests(), 1, "{path}");
        }
    }
}

#[tokio::test]
async fn a_deeply_nested_call_is_charged_and_asked_for_once() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let answer = format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{{"type":"tool_use","id":"t","name":"f","input":{{"a":{deep}}}}}],"stop_reason":"tool_use","usage":{{"input_tokens":10,"output_tokens":500}}}}"#
    );
    for path in [MESSAGES, CHAT] {
        let sent = head("application/json") + &answer;
        let (upstream, gateway) = playing("messages", [Act::send(sent)]).await;
        let body = ask(path, false, json!({limit_field(path): LIMIT}));
        let answer = gateway.post(path, &body).await;
        assert_eq!(answer.status, 502, "{path}: {answer:?}");
        let line = gateway.line_of(&answer).await;
        let (outcome, charged, count) = money(&line);
        assert_eq!((outcome, count), ("incomplete", "estimated"), "{line}");
        assert!(charged > 0, "{line}");
        assert_eq!(upstream.requests(), 1, "{path}");
        gateway.verify().await;
    }
}

#[tokio::test]
async fn a_long_answer_that_the_model_has_spoilt_costs_what_is_reported() {
    let gemini = json!({
        "candidates": [{"content": {"parts": [{"text": "word ".repeat(30_000), "thought": true}]},
            "finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "thoughtsTokenCount": 18_000, "totalTokenCount": 18_010},
    });
    for path in [CHAT, "/v1beta/models/test-model:generateContent"] {
        let sent = head("application/json") + &gemini.to_string();
        let (before, after) = sent.split_at(sent.find("\"usageMetadata").unwrap());
        let script = [
            Act::send(before),
            Act::Pause(Duration::from_millis(50)),
            Act::send(after),
        ];
        let (upstream, gateway) = playing("gemini", script).await;
        let body = match path {
            CHAT => ask(path, false, json!({limit_field(path): LIMIT})),
            _ => json!({"contents": [{"role": "user", "parts": [{"text": SAID}]}],
                "generationConfig": {"maxOutputTokens": LIMIT}}),
        };
        let answer = gateway.post(path, &body).await;
        assert_eq!(answer.status, 502, "{path}: {answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line), ("incomplete", 18_010, "reported"), "{line}");
        assert_eq!(upstream.requests(), 1, "{path}");
    }
}

#[tokio::test]
async fn a_failing_provider_is_not_paid_for_hidden_thoughts() {
    let part = json!({"candidates": [{"content": {"parts": [{"text": "some words"}]}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 5000}});
    let sent = head("text/event-stream") + &event(&part);
    let (_, gateway) = playing("gemini", [Act::send(sent)]).await;
    let body = ask(CHAT, true, json!({limit_field(CHAT): LIMIT}));
    let answer = gateway.post(CHAT, &body).await;
    assert!(answer.text().contains("some words"), "{answer:?}");
    let line = gateway.line_of(&answer).await;
    let (outcome, charged, count) = money(&line);
    assert_eq!((outcome, count), ("upstream_failed", "estimated"), "{line}");
    assert!((12..20).contains(&charged), "{line}");
    gateway.verify().await;
}

fn chunk(index: u64, text: &str, finish: &Value, usage: &Value) -> String {
    let choice = json!({"index": index, "delta": {"content": text}, "finish_reason": finish});
    event(
        &json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice], "usage": usage}),
    )
}

#[tokio::test]
async fn a_running_report_is_not_final_when_the_first_of_several_choices_ends() {
    let words = "some more words ".repeat(1000);
    let running = |output: u64| json!({"prompt_tokens": 10, "completion_tokens": output});
    let sent = head("text/event-stream")
        + &chunk(0, "short", &json!("stop"), &running(2))
        + &chunk(1, &words, &Value::Null, &running(2))
        + &chunk(1, "the last of it", &Value::Null, &running(2));
    let (_, gateway) = playing("chat", [Act::send(sent), Act::Hang]).await;
    let body = ask(CHAT, true, json!({"n": 2, "max_completion_tokens": LIMIT}));
    let line = leave_after(&gateway, CHAT, &body, "the last of it").await;
    let (outcome, charged, count) = money(&line);
    assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
    assert!(charged > 3000, "{line}");
}

#[tokio::test]
async fn a_running_report_is_not_final_when_the_stop_comes_without_one() {
    let sent = head("text/event-stream")
        + &chunk(
            0,
            "Hello",
            &Value::Null,
            &json!({"prompt_tokens": 10, "completion_tokens": 2}),
        )
        + &chunk(0, "", &json!("stop"), &Value::Null);
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 20_000});
    let end = event(
        &json!({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage}),
    ) + "data: [DONE]\n\n";
    // Long enough for the gateway to notice the disconnect.
    let pause = Act::Pause(Duration::from_millis(1500));
    let script = [Act::send(sent), pause, Act::send(end)];
    let long_drain = |config: Config| config.with("settlement.drain.time", json!("30s"));
    let (_, gateway) = playing_with("chat", script, long_drain).await;
    let body = ask(CHAT, true, json!({"max_completion_tokens": LIMIT}));
    let line = leave_after(&gateway, CHAT, &body, "\"stop\"").await;
    assert_eq!(
        money(&line),
        ("client_closed", 20_010, "reported"),
        "{line}"
    );
}

#[tokio::test]
async fn sound_that_was_delivered_is_charged_by_time_and_rate() {
    let delta = json!({"audio": {"id": "a", "data": "A".repeat(20_000)}});
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    let sent = head("text/event-stream")
        + &event(&json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}))
        + &chunk(0, "the last of it", &Value::Null, &Value::Null);
    let upstream = Upstream::playing([Act::send(sent), Act::Hang]).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]))
        .with("models.test-model.reasoning", json!("none"))
        .with("models.test-model.output_rate", json!(AT_ONCE))
        .with(
            "models.test-model.price",
            json!({"input": 1, "output": 1, "audio_output": 8, "image_output": 4}),
        )
        .with("settlement.drain.time", json!("100ms"));
    let gateway = Gateway::start(config).await;
    let more = json!({"max_completion_tokens": LIMIT, "modalities": ["text", "audio"]});
    let line = leave_after(&gateway, CHAT, &ask(CHAT, true, more), "the last of it").await;
    assert_eq!(money(&line).0, "client_closed", "{line}");
    assert!(money(&line).1 >= LIMIT, "{line}");
    let cost: f64 = line["cost"].as_str().unwrap().parse().unwrap();
    assert!(cost >= LIMIT as f64 * 8.0 / 1e6, "{line}");
}

/// Two searches that have arrived, and calls that cost nothing, in streams of two formats.
fn searches() -> [(&'static str, &'static str, Value, Vec<Value>); 2] {
    let usage = json!({"input_tokens": 1000, "output_tokens": 1, "server_tool_use": {"web_search_requests": 0}});
    let block =
        |block: Value| json!({"type": "content_block_start", "index": 0, "content_block": block});
    let call = |name: &str| {
        block(json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": {}}))
    };
    let messages = vec![
        json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m",
            "content": [], "stop_reason": null, "usage": usage}}),
        call("web_search"),
        call("web_fetch"),
        call("web_search"),
        block(json!({"type": "text", "text": ""})),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "the last of it"}}),
    ];
    let added = |item: Value| json!({"type": "response.output_item.added", "output_index": 0, "item": item});
    let done =
        |item: Value| json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let begun = json!({"id": "ws_1", "type": "web_search_call", "status": "in_progress"});
    let ended = |action: &str| {
        json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": action, "query": "a"}})
    };
    let responses = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "created_at": 1,
            "status": "in_progress", "model": "m", "output": []}}),
        added(begun.clone()),
        done(ended("search")),
        added(begun.clone()),
        done(ended("open_page")),
        added(begun),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0,
            "delta": "the last of it"}),
    ];
    let search = json!({"type": "web_search_20250305", "name": "web_search"});
    [
        (
            MESSAGES,
            "messages",
            json!({"max_tokens": 64, "tools": [search]}),
            messages,
        ),
        (
            RESPONSES,
            "responses",
            json!({"tools": [{"type": "web_search"}]}),
            responses,
        ),
    ]
}

#[tokio::test]
async fn searches_that_have_arrived_are_paid_for_by_a_client_that_leaves() {
    for (path, format, more, events) in searches() {
        let sent = head("text/event-stream") + &events.iter().map(event).collect::<String>();
        let upstream = Upstream::playing([Act::send(sent), Act::Hang]).await;
        let price = json!({"input": 0, "output": 0, "tool_calls": {"web_search": 0.01}});
        let gateway = priced(&upstream, json!(format), price).await;
        let request = Request::post(path, &ask(path, true, more)).key(&gateway.key);
        let mut http2 = Http2::open(gateway.address).await;
        let answer = bounded("a head", http2.begin(&request)).await.unwrap();
        let id = answer.headers()["x-request-id"]
            .to_str()
            .unwrap()
            .to_owned();
        leaving::read_until(answer, "the last of it").await;
        let line = gateway.access_line(|line| line["id"] == *id).await;
        assert_eq!(line["outcome"], "client_closed", "{line}");
        assert_eq!(line["cost"], "0.02", "{path}: {line}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_wait_for_a_whole_answer_pays_a_search_for_each_hosted_tool() {
    for (path, format, more, _) in searches() {
        let upstream = Upstream::playing([Act::Hang]).await;
        let price = json!({"input": 0, "output": 0, "tool_calls": {"web_search": 0.01}});
        let gateway = priced(&upstream, json!(format), price).await;
        let request = Request::post(path, &ask(path, false, more)).key(&gateway.key);
        let mut http2 = Http2::open(gateway.address).await;
        let is_sent = async || (upstream.requests() > 0).then_some(());
        tokio::select! {
            answer = http2.begin(&request) => panic!("{answer:?}"),
            () = support::eventually("the request", is_sent) => drop(http2),
        }
        let line = gateway
            .access_line(|line| line["outcome"] == "client_closed")
            .await;
        assert_eq!(line["cost"], "0.01", "{path}: {line}");
    }
}

#[tokio::test]
async fn an_estimate_has_the_price_of_the_tier_that_was_reported_or_asked_for() {
    let beginning = json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
        "model": "m", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 1000, "output_tokens": 1, "speed": "fast"}}});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let delta = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "text_delta", "text": "the last of it"}});
    let start = head("text/event-stream");
    let sent = start.clone() + &[&beginning, &block, &delta].map(event).concat();
    let none_reported = vec![Act::send(start), Act::Hang];
    let (asks, sets) = (json!({"max_tokens": 64, "speed": "fast"}), json!({}));
    let does_not_ask = json!({"max_tokens": 64});
    for (script, until, more, set) in [
        (
            vec![Act::send(sent), Act::Hang],
            Some("the last of it"),
            &asks,
            sets.clone(),
        ),
        (none_reported.clone(), None, &asks, sets),
        // The operator asks for it.
        (none_reported, None, &does_not_ask, json!({"speed": "fast"})),
    ] {
        let upstream = Upstream::playing(script).await;
        let format = json!({"name": "messages", "set": set});
        let gateway = priced(&upstream, format, of_fast_mode()).await;
        let body = ask(MESSAGES, true, more.clone());
        let request = Request::post(MESSAGES, &body).key(&gateway.key);
        let line = match until {
            Some(text) => {
                let (connection, answer) = begin(&gateway, &request, text).await;
                drop(connection);
                gateway.line_of(&answer).await
            }
            None => {
                let mut connection = gateway.connect().await;
                connection.write(&request.bytes()).await;
                support::eventually("the request", async || {
                    (upstream.requests() > 0).then_some(())
                })
                .await;
                drop(connection);
                gateway
                    .access_line(|line| line["outcome"] == "client_closed")
                    .await
            }
        };
        let (_, charged, count) = money(&line);
        assert_eq!(count, "estimated", "{line}");
        let cost: f64 = line["cost"].as_str().unwrap().parse().unwrap();
        let expected = charged as f64 * 6.0 / 1e6;
        assert!(charged > 0 && (cost - expected).abs() < 1e-9, "{line}");
    }
}

#[tokio::test]
async fn an_estimate_has_the_dearer_of_the_tiers_that_were_asked_for_and_named() {
    for (asked, named, factor) in [
        (Value::Null, "priority", 2.0),
        (Value::Null, "auto", 1.0),
        (json!("flex"), "flex", 0.5),
        (json!("flex"), "auto", 0.5),
        (json!("flex"), "default", 1.0),
        (json!("priority"), "default", 2.0),
    ] {
        let delta = json!({"content": "the last of it"});
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "service_tier": named, "choices": [choice]});
        let sent = head("text/event-stream") + &event(&chunk);
        let upstream = Upstream::playing([Act::send(sent), Act::Hang]).await;
        let price = json!({"input": 1, "output": 1, "tiers": {"priority": 2, "flex": 0.5}});
        let gateway = priced(&upstream, json!("chat"), price).await;
        let more = json!({"max_completion_tokens": 64, "service_tier": asked});
        let line = leave_after(&gateway, CHAT, &ask(CHAT, true, more), "the last of it").await;
        let (_, charged, count) = money(&line);
        assert_eq!(count, "estimated", "{line}");
        let cost: f64 = line["cost"].as_str().unwrap().parse().unwrap();
        let expected = charged as f64 * factor / 1e6;
        assert!((cost - expected).abs() < 1e-9, "{asked} {named}: {line}");
    }
}

#[tokio::test]
async fn a_crash_within_a_stream_in_fast_mode_charges_that_mode() {
    let beginning = json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
        "model": "m", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 1000, "output_tokens": 1, "speed": "fast"}}});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let delta = |text: &str| {
        event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}))
    };
    let sent = head("text/event-stream") + &[&beginning, &block].map(event).concat();
    let upstream = Upstream::playing([
        Act::send(sent + &delta("the first of it")),
        // Progress is kept every 250 ms.
        Act::Pause(Duration::from_millis(500)),
        Act::send(delta("the last of it")),
        Act::Hang,
    ])
    .await;
    let gateway = priced(&upstream, json!("messages"), of_fast_mode()).await;
    let (key, config) = (gateway.key.clone(), gateway.config());
    let body = ask(MESSAGES, true, json!({"max_tokens": 64, "speed": "fast"}));
    let request = Request::post(MESSAGES, &body).key(&key);
    let (_connection, answer) = begin(&gateway, &request, "the last of it").await;
    let id = answer.header("x-request-id").unwrap();
    let folder = gateway.killed().await;
    let gateway = Gateway::start_in(folder, config).await;
    let history = Request::get("/v1/usage/history").key(&key);
    let record = support::eventually("its record", async || {
        let page = gateway.send(&history).await.json();
        let mut records = page["data"].as_array().unwrap().iter();
        records.find(|it| it["id"] == *id).cloned()
    })
    .await;
    let charged = record["charged"].as_u64().unwrap();
    let cost: f64 = record["cost"].as_str().unwrap().parse().unwrap();
    assert!(charged > 1000, "{record}");
    assert!((cost - charged as f64 * 6.0 / 1e6).abs() < 1e-9, "{record}");
}
