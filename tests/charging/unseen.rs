//! Input that no body shows: what a provider finds or has stored. It is believed, and no more
//! than once beyond a balance; what a caller's own tools find is in a body.

use super::*;

/// More than any body of these tests can hold.
const REPORTED: u64 = 500_000;
const BALANCE: u64 = 200_000;

/// A whole answer of chat that reports so much input.
fn answer_with(input: u64) -> Vec<u8> {
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
async fn what_a_hosted_tool_finds_is_believed_and_overspends_a_balance_once() {
    let gateway = before(answer_with(REPORTED)).await;
    let key = gateway.key_with(BALANCE, LONG);
    let body = with_tools(&json!([{"type": "web_search"}]));
    let request = Request::post(CHAT, &body).key(&key);
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert_eq!(money(&line), ("completed", BALANCE, "reported"), "{line}");
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

#[tokio::test]
async fn callers_own_tools_make_nothing_believed_beyond_what_was_agreed() {
    let function = json!({"name": "look", "parameters": {"type": "object"}});
    for body in [
        with_tools(&json!([{"type": "function", "function": function}])),
        ask(
            CHAT,
            false,
            json!({"max_completion_tokens": 100, "functions": [function]}),
        ),
    ] {
        // One each: what is reported teaches what texts cost.
        let gateway = before(answer_with(REPORTED)).await;
        let key = gateway.key_with(BALANCE, LONG);
        let answer = gateway.send(&Request::post(CHAT, &body).key(&key)).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        let (outcome, charged, count) = money(&line);
        assert_eq!((outcome, count), ("completed", "estimated"), "{line}");
        // A token a byte at most, the frame, and what providers put around tools.
        let most = body.to_string().len() as u64 + 1000;
        assert!(charged <= most, "{most}: {line}");
        let id = answer.header("x-request-id").unwrap();
        let words = format!("{id}: the reported usage was not believed");
        gateway.log_line(&words).await;
        gateway.has_spent(&key, charged).await;
        let output = gateway.output();
        assert!(!output.contains("beyond the balance"), "{output}");
    }
}

#[tokio::test]
async fn documents_sound_and_film_are_believed_to_be_as_long_as_is_reported() {
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
        // One each: what is reported teaches what texts cost.
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
    // Of an image it is known what it can cost.
    let gateway = before(answer_with(REPORTED)).await;
    let key = gateway.key_with(ENOUGH, LONG);
    let image = json!({"type": "image_url", "image_url": link});
    let request = Request::post(CHAT, &of(image)).key(&key);
    let line = gateway.line_of(&gateway.send(&request).await).await;
    assert_eq!(money(&line).2, "estimated", "{line}");
}
