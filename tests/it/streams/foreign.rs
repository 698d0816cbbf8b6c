//! Errors of providers in shapes that no format defines, and comments: none of their text
//! reaches a caller, whether the answer passes or is translated.

use super::*;

/// Stands in every text of the provider.
const MARK: &str = "zebra";

/// Errors that real servers send within a success.
const SHAPES: [&str; 15] = [
    r#"{"error":{"message":"zebra","type":"server_error"}}"#,
    r#"{"code":"zebra","error":"zebra"}"#,
    r#"{"type":"error","error":{"type":"overloaded_error","message":"zebra"}}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"code":502,"message":"zebra"}}"#,
    r#"{"object":"error","message":"zebra","type":"BadRequestError","param":null,"code":400}"#,
    r#"{"detail":"zebra"}"#,
    r#"{"errors":[{"code":7003,"message":"zebra"}],"success":false}"#,
    r#"{"__type":"ThrottlingException","message":"zebra"}"#,
    r#"[{"error":{"code":429,"message":"zebra","status":"RESOURCE_EXHAUSTED"}}]"#,
    r#"{"id":"c","choices":null,"base_resp":{"status_code":1004,"status_msg":"zebra"}}"#,
    r#"{"error_code":336003,"error_msg":"zebra"}"#,
    r#"{"code":500,"msg":"zebra"}"#,
    r#"{"error":true,"message":"zebra"}"#,
    r#"{"exception":"zebra"}"#,
    r#"{"choices":[{"index":0,"delta":{},"error":"zebra"}]}"#,
];

/// The beginning of a stream of each format, up to its first content.
fn beginning(path: &str) -> &'static str {
    match path {
        CHAT => {
            "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"}}]}\n\n"
        }
        MESSAGES => {
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"one\"}}\n\n"
        }
        _ => {
            "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"object\":\"response\",\"created_at\":1,\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\nevent: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"id\":\"i\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"in_progress\",\"content\":[]}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":2,\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"one\"}\n\n"
        }
    }
}

/// A gateway before a provider of this format that sends this to every request.
async fn before(format: &str, kind: &str, body: &str, capabilities: Value) -> Gateway {
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{body}");
    let upstream = Upstream::playing([Act::send(answer)]).await;
    let mut settings = provider(upstream.address);
    settings["formats"] = json!([format]);
    settings["capabilities"] = capabilities;
    let config = Config::new()
        .provider("raw", settings)
        .model("test-model", json!(["raw"]));
    Gateway::start(config).await
}

const PROVIDERS: [(&str, &str); 3] = [
    ("chat", CHAT),
    ("responses", RESPONSES),
    ("messages", MESSAGES),
];

/// A gateway before a provider of this format that sends the beginning of a stream, and this
/// error when the caller has had its head.
async fn breaking(format: &str, at: &str, error: &str) -> (Gateway, Arc<Notify>) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let seen = Arc::new(Notify::new());
    let script = [
        Act::send(format!("{head}{}", beginning(at))),
        Act::Wait(Arc::clone(&seen)),
        Act::send(format!("data: {error}\n\n")),
    ];
    let upstream = Upstream::playing(script).await;
    let mut settings = provider(upstream.address);
    settings["formats"] = json!([format]);
    let config = Config::new()
        .provider("raw", settings)
        .model("test-model", json!(["raw"]));
    (Gateway::start(config).await, seen)
}

#[tokio::test]
async fn no_text_of_a_providers_error_reaches_a_caller_after_the_first_content() {
    for (format, at) in PROVIDERS {
        for shape in SHAPES {
            let (gateway, seen) = breaking(format, at, shape).await;
            for path in [at, if at == CHAT { MESSAGES } else { CHAT }] {
                let request = Request::post(path, &streamed(path, "Hello!")).key(&gateway.key);
                let mut connection = gateway.connect().await;
                connection.write(&request.bytes()).await;
                let mut answer = connection.head().await;
                seen.notify_one();
                connection.read_body(&mut answer).await;
                assert_eq!(answer.status, 200, "{shape}: {}", answer.text());
                let text = answer.text();
                assert!(text.contains("one"), "{path} at {format}: {text}");
                assert!(!text.contains(MARK), "{path} at {format}, {shape}: {text}");
                let last = answer.events().last().cloned().expect("an event");
                let is_error = last["error"].is_object() || last["type"] == "response.failed";
                assert!(is_error, "{path} at {format}, {shape}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn no_text_of_a_providers_error_reaches_a_caller_as_a_whole_answer() {
    let long = format!(r#"{{"detail":"{}"}}"#, MARK.repeat(40_000));
    for (format, path) in PROVIDERS {
        for shape in SHAPES.into_iter().chain([&*long]) {
            let gateway = before(format, "application/json", shape, json!({})).await;
            let body = prompt(path, "test-model", "Hello!", json!({}));
            let answer = gateway.post(path, &body).await;
            assert!(answer.status >= 400, "{shape:.80}: {}", answer.status);
            assert!(!answer.text().contains(MARK), "{format}, {shape:.80}");
        }
    }
}

#[tokio::test]
async fn comments_and_unknown_fields_of_a_provider_do_not_pass() {
    for (format, path) in PROVIDERS {
        let events = beginning(path);
        let noise = format!(": {MARK}\n\nid: {MARK}\n{MARK}: {MARK}\n");
        let gateway = before(
            format,
            "text/event-stream",
            &format!("{noise}{events}"),
            json!({}),
        )
        .await;
        let request = Request::post(path, &streamed(path, "Hello!")).key(&gateway.key);
        let answer = gateway.send(&request).await;
        let text = answer.text();
        assert!(text.starts_with(&format!(":\n\n{events}")), "{text}");
        assert!(!text.contains(MARK), "{text}");
    }
}

#[tokio::test]
async fn an_event_that_the_operator_names_passes() {
    let event = "event: vendor.note\ndata: {\"type\":\"vendor.note\",\"text\":\"zebra\"}\n\n";
    let stream = format!("{}{event}", beginning(RESPONSES));
    for (capabilities, passes) in [
        (json!({"stream_events": ["vendor.note"]}), true),
        (json!({}), false),
    ] {
        let gateway = before("responses", "text/event-stream", &stream, capabilities).await;
        let request = Request::post(RESPONSES, &streamed(RESPONSES, "Hello!")).key(&gateway.key);
        let answer = gateway.send(&request).await;
        assert_eq!(answer.text().contains(event), passes, "{}", answer.text());
    }
}

#[tokio::test]
async fn text_behind_an_end_marker_does_not_pass() {
    let stop = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let events = format!("{}{stop}data: [DONE]", beginning(CHAT));
    for behind in [" zebra", "\ndata: zebra"] {
        let stream = format!("{events}{behind}\n\n");
        let gateway = before("chat", "text/event-stream", &stream, json!({})).await;
        let request = Request::post(CHAT, &streamed(CHAT, "Hello!")).key(&gateway.key);
        let answer = gateway.send(&request).await;
        assert_eq!(answer.text(), format!("{events}\n\n"));
    }
}

#[tokio::test]
async fn empty_lists_of_a_provider_are_errors() {
    for (format, path, body) in [
        (
            "chat",
            CHAT,
            r#"{"id":"c","choices":[],"base_resp":{"status_msg":"zebra"}}"#,
        ),
        (
            "messages",
            MESSAGES,
            r#"{"type":"message","content":[],"detail":"zebra"}"#,
        ),
        (
            "responses",
            RESPONSES,
            r#"{"object":"response","status":"failed","output":[],"x":"zebra"}"#,
        ),
    ] {
        let gateway = before(format, "application/json", body, json!({})).await;
        let answer = gateway
            .post(path, &prompt(path, "test-model", "Hello!", json!({})))
            .await;
        assert_eq!(answer.error().0, 502, "{body}");
        assert!(!answer.text().contains(MARK), "{body}");
    }
}
