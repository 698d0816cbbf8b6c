//! What mainstream clients send that no other format has: records in the history, and JSON mode.

use super::{gateway, text};
use crate::support::{Act, CHAT, Config, Gateway, RESPONSES, Upstream, provider};
use serde_json::{Value, json};

#[tokio::test]
async fn records_that_clients_keep_in_the_history_are_dropped_with_notice_unless_the_operator_refuses_it()
 {
    let (simulated, gateway) = gateway().await;
    let cases = [
        (
            RESPONSES,
            "input",
            json!([{"type": "message", "role": "user", "content": "Hi.",
                "internal_chat_message_metadata_passthrough": {"note": "hidden words"}}]),
            "input[].internal_chat_message_metadata_passthrough",
        ),
        (
            CHAT,
            "messages",
            json!([{"role": "user", "content": "Hi.", "provider_specific_fields": {"note": "hidden words"}}]),
            "messages[].provider_specific_fields",
        ),
        (
            CHAT,
            "messages",
            json!([{"role": "user", "content": [{"type": "text", "text": "Hi.", "role": "hidden words"}]}]),
            "messages[].content[].role",
        ),
        (
            CHAT,
            "messages",
            json!([{"role": "user", "content": "Hi.", "name": "hidden words"}]),
            "messages[].name",
        ),
    ];
    for (path, list, history, dropped) in &cases {
        let answer = gateway
            .ask(path, "by-messages", "", json!({*list: history}))
            .await;
        answer.assert_ok();
        assert_eq!(answer.header("x-dropped-fields"), Some(*dropped));
        let sent = String::from_utf8_lossy(&simulated.last().body).into_owned();
        assert!(!sent.contains("hidden words"), "{sent}");
    }
    let answer = gateway
        .ask(RESPONSES, "by-messages", "", json!({"truncation": "auto"}))
        .await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), Some("truncation"));

    let listed: Vec<_> = cases.iter().map(|(_, _, _, dropped)| *dropped).collect();
    let strict = gateway.config().with("translation.strict", json!(listed));
    gateway.rewrite(strict);
    gateway.signal("HUP").await;
    gateway.log_line("was reloaded").await;
    let before = simulated.handle.counters().requests;
    for (path, list, history, dropped) in &cases {
        let answer = gateway
            .ask(path, "by-messages", "", json!({*list: history}))
            .await;
        answer.assert_error(400, "invalid_request");
        assert!(answer.message().contains(dropped), "{answer:?}");
    }
    assert_eq!(simulated.handle.counters().requests, before);
}

#[tokio::test]
async fn json_without_a_schema_is_an_instruction_to_messages_and_prose_is_an_error() {
    let (simulated, gateway) = gateway().await;
    for (path, more, _) in json_without_schema() {
        for stream in [false, true] {
            let mut more = more.clone();
            more["stream"] = json!(stream);
            // The provider answers in prose, despite the instruction.
            let answer = gateway.ask(path, "by-messages", "", more).await;
            assert!(answer.error().0 >= 500, "{path} {stream}: {answer:?}");
            let sent = String::from_utf8_lossy(&simulated.last().body).into_owned();
            assert!(sent.contains("exactly one JSON object"), "{sent}");
        }
    }
}

#[tokio::test]
async fn prose_instead_of_json_is_charged_and_neither_tried_elsewhere_nor_blamed_on_the_provider() {
    /// More consecutive failures than open the breaker of a provider.
    const REQUESTS: u64 = 7;
    const REPORTED: u64 = 9 + 5;
    let body = |text: &str| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 5}})
        .to_string()
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let sent = |body: String| format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let prose = Upstream::playing([Act::send(sent(body("I would rather not.")))]).await;
    let careful = Upstream::playing([Act::send(sent(body("{\"colour\": \"red\"}")))]).await;
    let of = |address| {
        let mut settings = provider(address);
        settings["formats"] = json!(["messages"]);
        settings
    };
    let config = Config::new()
        .provider("prose", of(prose.address))
        .provider("careful", of(careful.address))
        .model(
            "test-model",
            json!(["prose", {"provider": "careful", "priority": 1}]),
        )
        .model("careful-model", json!(["careful"]));
    let gateway = Gateway::start(config).await;
    let (path, more, notice) = json_without_schema().into_iter().next().expect("a case");
    for _ in 0..REQUESTS {
        let answer = gateway.ask(path, "test-model", "", more.clone()).await;
        answer.assert_error(502, "upstream_error");
    }
    assert_eq!(careful.requests(), 0);
    gateway.has_spent(&gateway.key, REQUESTS * REPORTED).await;
    let answer = gateway.ask(path, "careful-model", "", more).await;
    answer.assert_ok();
    assert_eq!(text(path, &answer.json()), "{\"colour\": \"red\"}");
    assert_eq!(answer.header("x-dropped-fields"), Some(notice));
}

#[tokio::test]
async fn a_request_for_compaction_is_answered_with_an_item_that_any_model_goes_on_from() {
    let (simulated, gateway) = gateway().await;
    let trigger = json!([{"role": "user", "content": "Say something nice."},
        {"type": "compaction_trigger"}]);
    let more = json!({"input": trigger, "stream": true, "store": false});
    let answer = gateway.ask(RESPONSES, "by-messages", "", more).await;
    answer.assert_ok();
    let events = answer.events();
    let output = &events.last().expect("an event")["response"]["output"];
    let [item] = output.as_array().expect("items").as_slice() else {
        panic!("{output}");
    };
    assert_eq!(item["type"], "compaction", "{item}");

    for model in ["by-chat", "by-messages", "by-responses"] {
        let history = json!([item, {"role": "user", "content": "Go on."}]);
        let answer = gateway
            .ask(
                RESPONSES,
                model,
                "",
                json!({"input": history, "store": false}),
            )
            .await;
        answer.assert_ok();
        let sent = String::from_utf8_lossy(&simulated.last().body).into_owned();
        assert!(
            sent.contains("Summary of the conversation so far"),
            "{sent}"
        );
        assert!(!sent.contains("tg1."), "{sent}");
    }
}

/// What a caller of each format asks for, and the notice that it gets.
fn json_without_schema() -> [(&'static str, Value, &'static str); 2] {
    let format = json!({"type": "json_object"});
    [
        (
            CHAT,
            json!({"response_format": format}),
            "response_format.json_object",
        ),
        (
            RESPONSES,
            json!({"text": {"format": format}}),
            "text.format.json_object",
        ),
    ]
}
