//! Amazon Bedrock's runtime: requests that are signed, answers in binary frames. The stand-in verifies each
//! signature as the real service does.

use crate::support::aws::{Answered, Asked, Aws, ID, SECRET};
use crate::support::{
    Answer, CHAT, Config, FORMATS, Gateway, MESSAGES, RESPONSES, Request, prompt, provider,
};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

const FRAMES: &str = "application/vnd.amazon.eventstream";

/// A frame with these headers, as Amazon's own crate writes it.
fn frame(headers: &[(&str, &str)], payload: &Value) -> Vec<u8> {
    let mut message = Message::new(payload.to_string().into_bytes());
    for (name, value) in headers {
        let value = HeaderValue::String((*value).to_owned().into());
        message = message.add_header(Header::new((*name).to_owned(), value));
    }
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).unwrap();
    bytes
}

fn event(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [
        (":event-type", name),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    frame(&headers, payload)
}

fn exception(name: &str, message: &str) -> Vec<u8> {
    let headers = [
        (":exception-type", name),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    ];
    frame(&headers, &json!({ "message": message }))
}

fn chunk(data: &Value) -> Vec<u8> {
    let bytes = BASE64_STANDARD.encode(data.to_string());
    event("chunk", &json!({"bytes": bytes, "p": "abcdefghijklm"}))
}

fn in_frames(frames: &[Vec<u8>]) -> Answered {
    Answered {
        status: 200,
        headers: vec![("content-type", FRAMES)],
        body: frames.concat(),
        rest: Vec::new(),
    }
}

fn in_json(status: u16, body: &Value) -> Answered {
    Answered {
        status,
        headers: vec![("content-type", "application/json")],
        body: body.to_string().into_bytes(),
        rest: Vec::new(),
    }
}

/// An error as Bedrock sends it: its name is in a header.
fn refused(status: u16, name: &'static str, message: &str) -> Answered {
    let mut answered = in_json(status, &json!({ "message": message }));
    answered.headers.push(("x-amzn-errortype", name));
    answered
}

/// The frames of a stream of Claude's events.
fn stream_of_claude() -> Vec<Vec<u8>> {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}});
    let text = |text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        text("Hel"),
        text("lo!"),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"input_tokens": 10, "output_tokens": 3}}),
        json!({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 10, "outputTokenCount": 3}}),
    ];
    events.iter().map(chunk).collect()
}

/// What Claude answers through InvokeModel depends on the name of the model.
fn claude(asked: &Asked) -> Answered {
    let (model, method) = asked
        .target
        .trim_start_matches("/model/")
        .split_once('/')
        .unwrap();
    let behind_first = |rest| {
        let mut frames = stream_of_claude();
        frames.truncate(3);
        Answered {
            rest,
            ..in_frames(&frames)
        }
    };
    let broken = |at: usize| {
        let mut frame = stream_of_claude().swap_remove(at);
        *frame.last_mut().unwrap() ^= 1;
        frame
    };
    match (model, method) {
        ("claude%3Afine", "invoke-with-response-stream") => in_frames(&stream_of_claude()),
        ("claude%3Afine", "invoke") => in_json(
            200,
            &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [{"type": "text", "text": "Hello!"}], "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 3}}),
        ),
        ("throttled", _) => in_frames(&[exception(
            "throttlingException",
            "Too many tokens, please wait.",
        )]),
        ("invalid", _) => in_frames(&[exception(
            "validationException",
            "Input is too long for requested model.",
        )]),
        ("late-throttled", _) => behind_first(exception(
            "throttlingException",
            "Too many tokens, please wait.",
        )),
        ("late-failed", _) => behind_first(exception("modelStreamErrorException", "It failed.")),
        ("late-broken", _) => behind_first(broken(3)),
        ("late-cut", _) => {
            let whole = stream_of_claude().swap_remove(3);
            behind_first(whole[..whole.len() / 2].to_vec())
        }
        ("late-huge", _) => behind_first(u32::MAX.to_be_bytes().to_vec()),
        ("broken", _) => in_frames(&[broken(0)]),
        ("huge", _) => in_frames(&[(16_u32 << 20).to_be_bytes().to_vec()]),
        ("denied", _) => refused(
            403,
            "AccessDeniedException",
            "You don't have access to the model with the specified model ID.",
        ),
        ("long", _) => refused(
            400,
            "ValidationException",
            "Input is too long for requested model.",
        ),
        ("failed", _) => refused(424, "ModelErrorException", "The model failed."),
        ("late", _) => refused(
            408,
            "ModelTimeoutException",
            "The model did not answer in time.",
        ),
        ("full", _) => refused(
            429,
            "ThrottlingException",
            "Too many requests, please wait before trying again.",
        ),
        ("unready", _) => refused(429, "ModelNotReadyException", "The model is not ready."),
        other => panic!("no such model or method: {other:?}"),
    }
}

/// The names of the tests whose requests are signed in each way of asking.
pub(crate) fn signed() -> [&'static str; 2] {
    [
        std::any::type_name_of_val(&claude_answers_clients_of_each_format_whole_and_streamed),
        std::any::type_name_of_val(
            &converse_serves_clients_of_each_format_with_tools_thoughts_and_usage,
        ),
    ]
}

/// A gateway with Claude at Bedrock, under these names.
async fn with_claude(aws: &Aws, models: &[&str]) -> Gateway {
    let formats = json!([{
        "name": "messages",
        "path": "/model/{model}/invoke",
        "stream_path": "/model/{model}/invoke-with-response-stream",
        "set": {"anthropic_version": "bedrock-2023-05-31"},
        "remove": ["model", "stream"],
    }]);
    at_bedrock(aws, &formats, models).await
}

async fn at_bedrock(aws: &Aws, formats: &Value, models: &[&str]) -> Gateway {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("id"), ID).unwrap();
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let keys = json!({"region": "us-east-1", "access_key": "file:id", "secret_key": "file:secret"});
    let mut settings = provider(aws.address);
    settings["formats"] = formats.clone();
    settings["credentials"] = json!([{ "aws": keys }]);
    let config = Config::new().provider("bedrock", settings);
    let config = models.iter().fold(config, |config, model| {
        let name = model.replace(':', "-");
        config.model(
            &name,
            json!([{"provider": "bedrock", "upstream_model": model}]),
        )
    });
    Gateway::start_in(folder, config).await
}

fn streamed(path: &str) -> Value {
    match path {
        CHAT => json!({"stream": true, "stream_options": {"include_usage": true}}),
        _ => json!({"stream": true}),
    }
}

/// The text of a stream or of a whole answer, and the tokens that it reports.
fn said(path: &str, answer: &Answer) -> (String, u64) {
    let is_stream = answer.header("content-type") == Some("text/event-stream");
    let text = match is_stream {
        true => crate::translation::streamed_text(path, &answer.events()),
        false => crate::translation::text(path, &answer.json()),
    };
    (text, answer.reported())
}

#[tokio::test]
async fn claude_answers_clients_of_each_format_whole_and_streamed() {
    let aws = Aws::with_answers(claude).await;
    let gateway = with_claude(&aws, &["claude:fine"]).await;
    for path in FORMATS {
        for (more, method) in [
            (json!({}), "invoke"),
            (streamed(path), "invoke-with-response-stream"),
        ] {
            let answer = gateway.ask(path, "claude-fine", "", more).await;
            answer.assert_ok();
            assert_eq!(said(path, &answer), ("Hello!".to_owned(), 13), "{path}");
            let asked = aws.last();
            assert_eq!(asked.target, format!("/model/claude%3Afine/{method}"));
            assert_eq!(asked.body["anthropic_version"], "bedrock-2023-05-31");
            assert!(asked.body["max_tokens"].is_u64(), "{asked:?}");
            for field in ["model", "stream"] {
                assert_eq!(asked.body.get(field), None, "{asked:?}");
            }
            let accepted = asked.headers["accept"].to_str().unwrap();
            let is_right = match method {
                "invoke" => accepted == "application/json",
                _ => accepted.contains(FRAMES),
            };
            assert!(is_right, "{accepted}");
            let is_streamed = method != "invoke";
            let line = gateway
                .access_line(|line| line["path"] == path && line["stream"] == is_streamed)
                .await;
            assert_eq!(line["charged"], 13, "{line}");
            assert!(line["first_byte_ms"].is_number(), "{line}");
        }
    }
    assert_eq!(aws.verified(), 6);
}

#[tokio::test]
async fn an_exception_before_the_first_event_is_an_error_and_another_provider_can_answer() {
    let aws = Aws::with_answers(claude).await;
    let models = ["throttled", "invalid", "broken", "huge", "claude:fine"];
    let gateway = with_claude(&aws, &models).await;
    for path in FORMATS {
        let ask = async |model| gateway.ask(path, model, "", json!({"stream": true})).await;
        ask("throttled")
            .await
            .assert_error(429, "rate_limit_exceeded");
        ask("invalid")
            .await
            .assert_error(400, "context_length_exceeded");
        ask("broken").await.assert_error(502, "upstream_error");
        ask("huge").await.assert_error(502, "upstream_error");
    }
    let both = json!([
        {"provider": "bedrock", "upstream_model": "throttled"},
        {"provider": "bedrock", "upstream_model": "claude:fine", "priority": 1},
    ]);
    gateway.rewrite(gateway.config().model("both", both));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    let answer = gateway
        .ask(MESSAGES, "both", "", json!({"stream": true}))
        .await;
    answer.assert_ok();
    assert_eq!(said(MESSAGES, &answer).0, "Hello!");
}

/// A stream whose rest is sent after the first text has come.
async fn interrupted(aws: &Aws, gateway: &Gateway, path: &str, model: &str) -> Answer {
    let body = prompt(path, model, "Hello!", json!({"stream": true}));
    let request = Request::post(path, &body).key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let mut answer = connection.head().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let begun = connection.read_until(b"Hel").await;
    aws.go_on();
    connection.read_body_behind(begun, &mut answer).await;
    answer
}

#[tokio::test]
async fn what_fails_behind_the_first_event_ends_the_stream_as_an_error_of_the_clients_format() {
    let models = [
        "late-throttled",
        "late-failed",
        "late-broken",
        "late-cut",
        "late-huge",
    ];
    let aws = Aws::with_answers(claude).await;
    let gateway = with_claude(&aws, &models).await;
    for path in FORMATS {
        for model in models {
            let answer = interrupted(&aws, &gateway, path, model).await;
            let events = answer.events();
            assert_eq!(
                crate::translation::streamed_text(path, &events),
                "Hel",
                "{model}"
            );
            let last = events.last().unwrap();
            let is_error = match path {
                CHAT => last["error"].is_object(),
                RESPONSES => last["type"] == "response.failed",
                _ => last["type"] == "error",
            };
            assert!(is_error, "{path} {model}: {last}");
            let line = gateway
                .access_line(|line| line["path"] == path && line["model"] == model)
                .await;
            assert!(line["charged"].as_u64().unwrap() > 0, "{line}");
        }
    }
}

#[tokio::test]
async fn errors_have_their_class_by_the_name_in_the_header() {
    let aws = Aws::with_answers(claude).await;
    let expected = [
        ("denied", 502, "upstream_error"),
        ("long", 400, "context_length_exceeded"),
        ("failed", 502, "upstream_error"),
        ("late", 503, "service_unavailable"),
        ("full", 429, "rate_limit_exceeded"),
        ("unready", 503, "service_unavailable"),
    ];
    for (model, status, code) in expected {
        for more in [json!({}), json!({"stream": true})] {
            let gateway = with_claude(&aws, &[model]).await;
            let answer = gateway.ask(MESSAGES, model, "", more).await;
            answer.assert_error(status, code);
        }
    }
}

/// The frames of a stream of Converse that says "Hello!" and calls a tool.
fn stream_of_converse() -> Vec<Vec<u8>> {
    let delta = |index: u64, delta: Value| {
        let payload = json!({"contentBlockIndex": index, "delta": delta, "p": "abcdefg"});
        event("contentBlockDelta", &payload)
    };
    let call = json!({"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "f"}}});
    vec![
        event("messageStart", &json!({"p": "ab", "role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "Hm."}})),
        delta(0, json!({"reasoningContent": {"signature": "c2ln"}})),
        event("contentBlockStop", &json!({"contentBlockIndex": 0})),
        delta(1, json!({"text": "Hel"})),
        delta(1, json!({"text": "lo!"})),
        event("contentBlockStop", &json!({"contentBlockIndex": 1})),
        event("contentBlockStart", &call),
        delta(2, json!({"toolUse": {"input": "{\"a\":"}})),
        delta(2, json!({"toolUse": {"input": "1}"}})),
        event("contentBlockStop", &json!({"contentBlockIndex": 2})),
        event("messageStop", &json!({"stopReason": "tool_use"})),
        event(
            "metadata",
            &json!({"metrics": {"latencyMs": 9}, "usage": {"inputTokens": 4, "outputTokens": 3, "totalTokens": 13, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 1}}),
        ),
    ]
}

fn converse(asked: &Asked) -> Answered {
    let (model, method) = asked
        .target
        .trim_start_matches("/model/")
        .split_once('/')
        .unwrap();
    let behind = |count: usize, rest: Vec<u8>| {
        let mut frames = stream_of_converse();
        frames.truncate(count);
        Answered {
            rest,
            ..in_frames(&frames)
        }
    };
    match (model, method) {
        ("us.amazon.nova-2-lite-v1%3A0" | "anthropic.claude-fine", "converse-stream") => {
            in_frames(&stream_of_converse())
        }
        ("us.amazon.nova-2-lite-v1%3A0" | "anthropic.claude-fine", "converse") => {
            let content = json!([
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
                {"text": "Hello!"},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "f", "input": {"a": 1}}},
            ]);
            let usage = json!({"inputTokens": 4, "outputTokens": 3, "totalTokens": 13, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 1});
            in_json(
                200,
                &json!({"metrics": {"latencyMs": 9}, "output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use", "usage": usage}),
            )
        }
        ("throttled", "converse") => refused(
            429,
            "ThrottlingException",
            "Too many requests, please wait before trying again.",
        ),
        ("throttled", _) => in_frames(&[exception(
            "throttlingException",
            "Too many tokens, please wait.",
        )]),
        // With its name in the body alone.
        ("long", _) => in_json(
            400,
            &json!({"__type": "com.amazon.coral.validate#ValidationException", "message": "Input is too long for requested model."}),
        ),
        ("late", _) => behind(5, exception("serviceUnavailableException", "Try again.")),
        ("no-usage", _) => behind(12, Vec::new()),
        other => panic!("no such model or method: {other:?}"),
    }
}

#[tokio::test]
async fn converse_serves_clients_of_each_format_with_tools_thoughts_and_usage() {
    let aws = Aws::with_answers(converse).await;
    let models = ["us.amazon.nova-2-lite-v1:0", "anthropic.claude-fine"];
    let gateway = at_bedrock(&aws, &json!(["converse"]), &models).await;
    for model in models {
        let name = model.replace(':', "-");
        for path in FORMATS {
            for (more, method) in [(json!({}), "converse"), (streamed(path), "converse-stream")] {
                let answer = gateway.ask(path, &name, "", more).await;
                answer.assert_ok();
                assert_eq!(said(path, &answer), ("Hello!".to_owned(), 13), "{path}");
                assert!(answer.text().contains("tooluse_1"), "{answer:?}");
                let asked = aws.last();
                let model = model.replace(':', "%3A");
                assert_eq!(asked.target, format!("/model/{model}/{method}"));
                let last = asked.body["messages"].as_array().unwrap().last().unwrap();
                assert_eq!(last["role"], "user", "{asked:?}");
                assert!(last["content"][0]["text"].is_string(), "{asked:?}");
                for field in ["model", "stream"] {
                    assert_eq!(asked.body.get(field), None, "{asked:?}");
                }
                let line = gateway
                    .access_line(|line| line["path"] == path && line["model"] == name.as_str())
                    .await;
                let usage = json!({"input": 4, "cache_read": 5, "cache_write": 1, "output": 3, "reasoning": 0});
                assert_eq!(line["usage"], usage, "{line}");
            }
        }
    }
    assert_eq!(aws.verified(), 12);
}

#[tokio::test]
async fn what_models_of_converse_take_beyond_its_fields_is_theirs() {
    let aws = Aws::with_answers(converse).await;
    let models = ["us.amazon.nova-2-lite-v1:0", "anthropic.claude-fine"];
    let gateway = at_bedrock(&aws, &json!(["converse"]), &models).await;
    let more = json!({
        "max_completion_tokens": 9000, "stop": ["END"], "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}},
    });
    let answer = gateway
        .ask(CHAT, "anthropic.claude-fine", "", more.clone())
        .await;
    answer.assert_ok();
    let sent = aws.last().body;
    assert_eq!(
        sent["inferenceConfig"],
        json!({"maxTokens": 9000, "stopSequences": ["END"]}),
        "{sent}"
    );
    assert_eq!(sent["outputConfig"]["effort"], "low", "{sent}");
    assert_eq!(
        sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["name"], "a",
        "{sent}"
    );
    assert_eq!(
        sent["additionalModelRequestFields"]["thinking"]["type"], "adaptive",
        "{sent}"
    );
    let schema = &sent["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"];
    assert_eq!(schema["type"], "object", "{sent}");

    let answer = gateway
        .ask(CHAT, "us.amazon.nova-2-lite-v1-0", "", more)
        .await;
    answer.assert_ok();
    let sent = aws.last().body;
    let expected = json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}});
    assert_eq!(sent["additionalModelRequestFields"], expected, "{sent}");
    assert_eq!(sent["outputConfig"]["effort"], Value::Null, "{sent}");
}

#[tokio::test]
async fn errors_of_converse_have_their_class_before_and_behind_the_first_event() {
    let aws = Aws::with_answers(converse).await;
    let models = ["throttled", "long", "late", "no-usage"];
    let gateway = at_bedrock(&aws, &json!(["converse"]), &models).await;
    for more in [json!({}), json!({"stream": true})] {
        let ask = async |model| gateway.ask(MESSAGES, model, "", more.clone()).await;
        ask("throttled")
            .await
            .assert_error(429, "rate_limit_exceeded");
        ask("long")
            .await
            .assert_error(400, "context_length_exceeded");
    }
    let answer = interrupted(&aws, &gateway, CHAT, "late").await;
    let events = answer.events();
    assert!(events.last().unwrap()["error"].is_object(), "{events:?}");
    // Without its last event it has broken off.
    let answer = gateway
        .ask(CHAT, "no-usage", "", json!({"stream": true}))
        .await;
    assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
    assert!(
        answer.events().last().unwrap()["error"].is_object(),
        "{answer:?}"
    );
}
