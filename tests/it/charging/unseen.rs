//! Input that the gateway cannot measure: a provider's report of it is charged up to what the
//! model can process, and a balance that it can use up serves one request at a time.

use super::*;
use crate::support::Service;
use futures::future::join_all;
use std::time::Duration;

/// More than any body of these tests can hold.
const REPORTED: u64 = 500_000;
const BALANCE: u64 = 200_000;

/// A whole answer of chat that reports so much input.
pub(super) fn answer_with(input: u64) -> Vec<u8> {
    let choices = json!([{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "Hello"}}]);
    let usage = json!({"prompt_tokens": input, "completion_tokens": 3});
    let body = json!({"id": "c", "choices": choices, "usage": usage}).to_string();
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

fn with_tools(tools: &Value) -> Value {
    ask(
        CHAT,
        false,
        json!({"max_completion_tokens": 100, "tools": tools}),
    )
}

#[tokio::test]
async fn input_of_a_hosted_tool_is_charged_and_overspends_a_balance_once() {
    let gateway = before(answer_with(REPORTED)).await;
    let key = gateway.key_with(BALANCE, LONG);
    let body = with_tools(&json!([{"type": "web_search"}]));
    let request = Request::post(CHAT, &body).key(&key);
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    let expected = ("completed", REPORTED + 3, "reported");
    assert_eq!(money(&line), expected, "{line}");
    let beyond = REPORTED + 3 - BALANCE;
    let id = answer.header("x-request-id").unwrap();
    let words = format!("{id}: {beyond} tokens beyond the balance");
    gateway.log_line(&words).await;
    for _ in 0..3 {
        let refused = gateway.send(&request).await;
        refused.assert_error(402, "quota_exhausted");
    }
    gateway.has_spent(&key, BALANCE).await;
    gateway.verify().await;
}

/// A gateway before a provider that reports so much input, with a model that reads `window`.
async fn with_window(input: u64, window: Option<u64>) -> (Upstream, Gateway) {
    let upstream = Upstream::playing([Act::Send(answer_with(input))]).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]))
        .with("models.test-model.context_window", json!(window));
    (upstream, Gateway::start(config).await)
}

/// Fields that pass to a provider of the same format, where a chat template can read them.
#[tokio::test]
async fn a_report_is_charged_whatever_field_the_input_stood_in() {
    const LEFT: u64 = 10_000;
    const REPORTED: u64 = 150_000;
    let function = json!({"name": "look", "parameters": {"type": "object"}});
    let link = json!({"url": "https://example.test/x"});
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": link}]}]);
    for more in [
        json!({"documents": [{"title": "a", "text": "one two three"}]}),
        json!({"chat_template": "{{ 'word ' * 100000 }}"}),
        json!({"no_such_field": "one two three"}),
        json!({"tools": [{"type": "function", "function": function}]}),
        json!({"functions": [function]}),
        json!({"messages": image}),
    ] {
        let (_upstream, gateway) = with_window(REPORTED, Some(200_000)).await;
        let mut body = json!({"max_completion_tokens": 16});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let body = ask(CHAT, false, body);
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        let expected = ("completed", REPORTED + 3, "reported");
        assert_eq!(money(&line), expected, "{body}: {line}");

        // The first request that overspends is the last.
        let poor = gateway.key_with(LEFT, LONG);
        let request = Request::post(CHAT, &body).key(&poor);
        let answer = gateway.send(&request).await;
        answer.assert_ok();
        let id = answer.header("x-request-id").unwrap();
        let beyond = REPORTED + 3 - LEFT;
        gateway
            .log_line(&format!("{id}: {beyond} tokens beyond the balance"))
            .await;
        for _ in 0..3 {
            let refused = gateway.send(&request).await;
            refused.assert_error(402, "quota_exhausted");
        }
        gateway.has_spent(&poor, LEFT).await;
        gateway.verify().await;
    }
}

#[tokio::test]
async fn every_byte_of_an_unknown_field_is_reserved_for() {
    let said = "one two three four ".repeat(5_000);
    for more in [
        json!({"documents": [{"title": "a", "text": said}]}),
        json!({"chat_template": said}),
        json!({"chat_template_kwargs": {"numbers": vec![7; 40_000]}}),
        json!({"no_such_field": {&*said: [said]}}),
        json!({"messages": [{"role": "user", "content": "Hi", "no_such_field": [said]}]}),
        json!({"messages": [{"role": "user", "content": "Hi", "tool_calls":
            [{"type": "function", "function": {"name": "f", "arguments": "{}", "more": said}}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": [said]}]}]}),
        json!({"tools": [{"type": "function", "function":
            {"name": "f", "parameters": {}, "input_schema": {"description": said}}}]}),
    ] {
        let (upstream, gateway) = with_window(1, None).await;
        let mut body = ask(CHAT, false, json!({"max_completion_tokens": 16}));
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let shown: String = body.to_string().chars().take(200).collect();
        let poor = gateway.key_with(10_000, LONG);
        let refused = gateway.send(&Request::post(CHAT, &body).key(&poor)).await;
        assert_eq!(refused.status, 402, "{shown}: {refused:?}");
        assert_eq!(upstream.requests(), 0);
        gateway.post(CHAT, &body).await.assert_ok();
    }
}

#[tokio::test]
async fn a_report_beyond_what_the_model_can_process_is_cut_and_marked() {
    const WINDOW: u64 = 100_000;
    // The last one is the highest plausible report if the catalog states no window.
    for (window, most) in [(Some(WINDOW), WINDOW), (None, 2_000_000)] {
        for (reported, is_believed) in [(most, true), (most + 1, false)] {
            let (_upstream, gateway) = with_window(reported, window).await;
            let body = ask(CHAT, false, json!({"max_completion_tokens": 100}));
            let answer = gateway.post(CHAT, &body).await;
            let line = gateway.line_of(&answer).await;
            let (outcome, charged, count) = money(&line);
            assert_eq!(outcome, "completed");
            if is_believed {
                assert_eq!((charged, count), (reported + 3, "reported"), "{line}");
                continue;
            }
            assert_eq!((charged, count), (most + 3, "estimated"), "{line}");
            let id = answer.header("x-request-id").unwrap();
            let words = format!("{id}: the reported usage was implausible and was corrected");
            gateway.log_line(&words).await;
        }
    }
}

#[tokio::test]
async fn summaries_of_the_conversation_are_charged_beyond_the_window() {
    const WINDOW: u64 = 100_000;
    let summary = json!({"type": "compaction", "input_tokens": WINDOW, "output_tokens": 3000});
    let last = json!({"type": "message", "input_tokens": 20_000, "output_tokens": 10});
    let body = json!({"id": "m", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 20_000, "output_tokens": 10,
            "iterations": [summary, summary, summary, last]}})
    .to_string();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    let upstream = Upstream::playing([Act::send(head + &body)]).await;
    let mut settings = support::provider(upstream.address);
    settings["formats"] = json!(["messages"]);
    let config = Config::new()
        .provider("raw", settings)
        .model("test-model", json!(["raw"]))
        .with("models.test-model.context_window", json!(WINDOW));
    let gateway = Gateway::start(config).await;
    let compact = json!({"edits": [{"type": "compact_20260112"}]});
    let more = json!({"max_tokens": 100, "context_management": compact});
    let answer = gateway.post(MESSAGES, &ask(MESSAGES, false, more)).await;
    let line = gateway.line_of(&answer).await;
    let expected = ("completed", 3 * (WINDOW + 3000) + 20_010, "reported");
    assert_eq!(money(&line), expected, "{line}");
}

/// What the ledger says that keys have been served beyond their balances.
async fn overdraft(gateway: &Gateway) -> u64 {
    let sample = "tollgate_ledger_overdraft_tokens_total";
    let tokens = gateway.sample(sample).await.expect(sample);
    format!("{tokens:.0}").parse().unwrap()
}

/// Sends a request 200 times in parallel. Its provider reports [`HIDDEN`] tokens each time.
async fn two_hundred(gateway: &Gateway, request: &Request) -> Vec<u16> {
    let orders = format!("input-{HIDDEN},delay-100ms");
    let request = &request.clone().orders(&orders);
    let answers = join_all((0..200).map(|_| gateway.send(request))).await;
    for answer in &answers {
        if answer.status == 200 {
            gateway.line_of(answer).await;
        }
    }
    answers.iter().map(|answer| answer.status).collect()
}

/// Input tokens that a provider reports and no body shows.
const HIDDEN: u64 = 165_000;

async fn assert_one_at_a_time(gateway: &Gateway, request: &Request) {
    let statuses = two_hundred(gateway, request).await;
    let of = |status: u16| statuses.iter().filter(|it| **it == status).count();
    let overdraft = overdraft(gateway).await;
    assert!(overdraft <= HIDDEN + 16, "{overdraft} tokens: {statuses:?}");
    assert_eq!(of(200), 1, "{statuses:?}");
    assert_eq!(of(429) + of(402), 199, "{statuses:?}");
    let refused = gateway.send(request).await;
    refused.assert_error(402, "quota_exhausted");
    gateway.verify().await;
}

/// Has a response stored by a provider that reports [`HIDDEN`] tokens, and gives its id.
async fn stored(gateway: &Gateway, key: &str) -> String {
    let body = prompt(
        RESPONSES,
        "test-model",
        SAID,
        json!({"max_output_tokens": 16}),
    );
    let orders = format!("input-{HIDDEN}");
    let request = Request::post(RESPONSES, &body).key(key).orders(&orders);
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    answer.json()["id"].as_str().unwrap().to_owned()
}

fn going_on(key: &str, id: &str) -> Request {
    let more = json!({"max_output_tokens": 16, "previous_response_id": id});
    let body = prompt(RESPONSES, "test-model", SAID, more);
    Request::post(RESPONSES, &body).key(key)
}

#[tokio::test]
async fn a_balance_that_one_stored_response_can_use_up_serves_one_request_at_a_time() {
    let (_provider, gateway) = start().await;
    let key = gateway.key_with(HIDDEN + 10_000, LONG);
    let id = stored(&gateway, &key).await;
    assert_one_at_a_time(&gateway, &going_on(&key, &id)).await;
}

#[tokio::test]
async fn a_balance_that_one_search_can_use_up_serves_one_request_at_a_time() {
    let (_provider, gateway) = start().await;
    for (path, tool) in [
        (RESPONSES, json!({"type": "web_search"})),
        (
            MESSAGES,
            json!({"type": "web_search_20250305", "name": "web_search"}),
        ),
    ] {
        let before = overdraft(&gateway).await;
        let more = json!({limit_field(path): 16, "tools": [tool]});
        let body = prompt(path, "test-model", SAID, more);
        let key = gateway.key_with(10_000, LONG);
        let request = Request::post(path, &body).key(&key);
        let statuses = two_hundred(&gateway, &request).await;
        let overdraft = overdraft(&gateway).await - before;
        assert!(overdraft <= HIDDEN + 16, "{overdraft} tokens: {statuses:?}");
        let served = statuses.iter().filter(|it| **it == 200).count();
        assert_eq!(served, 1, "{statuses:?}");
        let refused = gateway.send(&request).await;
        refused.assert_error(402, "quota_exhausted");
    }
    gateway.verify().await;
}

#[tokio::test]
async fn a_balance_that_one_search_of_gemini_can_use_up_serves_one_request_at_a_time() {
    const AT_ONCE: usize = 20;
    let part = json!({"role": "model", "parts": [{"text": "Hello"}]});
    let answer = json!({
        "candidates": [{"content": part, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 5, "toolUsePromptTokenCount": HIDDEN,
            "candidatesTokenCount": 3, "totalTokenCount": HIDDEN + 8},
    });
    let answer = answer.to_string();
    let length = answer.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{answer}"
    );
    let service = Service::answering(move |_| {
        vec![
            Act::Pause(Duration::from_millis(500)),
            Act::send(answer.clone()),
        ]
    })
    .await;
    let mut gemini = support::provider(service.address);
    gemini["formats"] = json!(["gemini"]);
    let config = Config::new()
        .provider("gemini", gemini)
        .model("test-model", json!(["gemini"]));
    let gateway = Gateway::start(config).await;
    let key = gateway.key_with(10_000, LONG);
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": SAID}]}],
        "tools": [{"googleSearch": {}}],
        "generationConfig": {"maxOutputTokens": 16},
    });
    let target = "/v1beta/models/test-model:generateContent";
    let request = Request::post(target, &body).key(&key);
    let answers = join_all((0..AT_ONCE).map(|_| gateway.send(&request))).await;
    let served = answers.iter().filter(|it| it.status == 200).count();
    assert_eq!(served, 1, "{answers:?}");
    assert!(overdraft(&gateway).await <= HIDDEN + 8);
    gateway.verify().await;
}

/// What is reserved beyond the body is no more than what is known to be stored.
#[tokio::test]
async fn a_balance_for_several_stored_responses_serves_several_requests_at_a_time() {
    const AT_ONCE: u64 = 3;
    let (_provider, gateway) = start().await;
    let key = gateway.key_with((AT_ONCE + 1) * (HIDDEN + 1_000), LONG);
    let id = stored(&gateway, &key).await;
    let request = going_on(&key, &id).orders(&format!("input-{HIDDEN},delay-100ms"));
    let answers = join_all((0..AT_ONCE).map(|_| gateway.send(&request))).await;
    for answer in &answers {
        answer.assert_ok();
        assert_eq!(answer.header("x-output-limit"), None);
    }
    assert_eq!(overdraft(&gateway).await, 0);
    gateway.verify().await;
}

#[tokio::test]
async fn documents_sound_and_film_are_as_long_as_is_reported() {
    const ENOUGH: u64 = 2 * REPORTED;
    let of = |part: Value| {
        let messages = json!([{"role": "user", "content": [part]}]);
        json!({"model": "test-model", "max_completion_tokens": 100, "messages": messages})
    };
    let link = json!({"url": "https://example.test/x"});
    for part in [
        json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}}),
        json!({"type": "input_audio", "input_audio": {"format": "wav", "data": "QUJD"}}),
        json!({"type": "video_url", "video_url": link}),
    ] {
        let gateway = before(answer_with(REPORTED)).await;
        let key = gateway.key_with(ENOUGH, LONG);
        let answer = gateway
            .send(&Request::post(CHAT, &of(part)).key(&key))
            .await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            money(&line),
            ("completed", REPORTED + 3, "reported"),
            "{line}"
        );
        gateway.has_spent(&key, REPORTED + 3).await;
    }
}
