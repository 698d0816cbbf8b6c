//! Callers that leave pay for output in every field, and however it begins.

use super::*;

const WORDS: u64 = 3000;

/// A gateway before a provider of this format that sends these events and no end.
async fn hanging(format: &str, events: &str) -> Gateway {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let upstream = Upstream::playing([Act::send(format!("{head}{events}")), Act::Hang]).await;
    let mut settings = support::provider(upstream.address);
    settings["formats"] = json!([format]);
    let config = Config::new()
        .provider("raw", settings)
        .model("test-model", json!(["raw"]));
    Gateway::start(config).await
}

/// The charge of a caller that leaves when the last of these words has come.
async fn charged(path: &str, format: &str, event: &str, before: &str) -> u64 {
    let said = format!("{before}{}the last of it", "some more words ".repeat(1000));
    let events = format!("data: {}\n\n", event.replace("TEXT", &said));
    let gateway = hanging(format, &events).await;
    let limit = json!({limit_field(path): 20_000});
    let request = Request::post(path, &ask(path, true, limit)).key(&gateway.key);
    let (connection, answer) = begin(&gateway, &request, "the last of it").await;
    drop(connection);
    let line = gateway.line_of(&answer).await;
    assert_eq!(money(&line).0, "client_closed", "{line}");
    money(&line).1
}

#[tokio::test]
async fn output_is_charged_in_whatever_field_it_stands() {
    let chat = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    for (path, format, event) in [
        (CHAT, "chat", chat(r#"{"tool_calls":[{"index":0,"id":"t","type":"custom","custom":{"name":"n","input":"TEXT"}}]}"#)),
        (CHAT, "chat", chat(r#"{"content":[{"type":"text","text":"TEXT"}]}"#)),
        (CHAT, "chat", chat(r#"{"reasoning_details":[{"type":"reasoning.text","text":"TEXT"}]}"#)),
        (CHAT, "chat", chat(r#"{"function_call":{"name":"n","arguments":"TEXT"}}"#)),
        (CHAT, "chat", chat(r#"{"audio":{"id":"a","transcript":"TEXT"}}"#)),
        (RESPONSES, "responses", r#"{"type":"response.output_item.added","item":{"type":"message","content":[{"type":"output_text","text":"TEXT"}]}}"#.to_owned()),
        (RESPONSES, "responses", r#"{"type":"response.output_item.done","item":{"type":"custom_tool_call","input":"TEXT"}}"#.to_owned()),
        (MESSAGES, "messages", r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"TEXT"}}"#.to_owned()),
    ] {
        let charged = charged(path, format, &event, "").await;
        let expected = WORDS..WORDS * 3 / 2;
        assert!(expected.contains(&charged), "{charged}: {event}");
    }
}

/// From a small balance the input is counted, from an ample one it is not.
#[tokio::test]
async fn an_image_costs_a_caller_that_leaves_about_the_same_from_any_balance() {
    let part = json!({"role": "model", "parts": [{"text": "the last of it"}]});
    let event = json!({"candidates": [{"content": part, "index": 0}]});
    let gateway = hanging("gemini", &format!("data: {event}\n\n")).await;
    let image = json!({"mimeType": "image/jpeg", "data": "/9j/4AAQ".repeat(125_000)});
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": "What is this?"}, {"inlineData": image}]}],
        "generationConfig": {"maxOutputTokens": 16},
    });
    let target = "/v1beta/models/test-model:streamGenerateContent?alt=sse";
    for balance in [20_000, 5_000_000] {
        let key = gateway.key_with(balance, LONG);
        let request = Request::post(target, &body).key(&key);
        let (connection, answer) = begin(&gateway, &request, "the last of it").await;
        drop(connection);
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line).0, "client_closed", "{line}");
        let charged = money(&line).1;
        assert!((1000..2500).contains(&charged), "{balance}: {line}");
    }
}

#[tokio::test]
async fn an_answer_that_begins_with_spaces_is_charged_for_its_words() {
    let event = r#"{"choices":[{"index":0,"delta":{"content":"TEXT"}}]}"#;
    let charged = charged(CHAT, "chat", event, &" ".repeat(1024)).await;
    assert!(
        (WORDS * 3 / 4..WORDS * 3 / 2).contains(&charged),
        "{charged}"
    );
}
