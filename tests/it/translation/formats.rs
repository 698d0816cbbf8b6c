//! Deployments that speak several formats, and not the caller's: which one is asked in.

use super::support::{
    Act, CHAT, Config, Gateway, MESSAGES, Provider, RESPONSES, Upstream, prompt, provider,
};
use serde_json::{Value, json};

/// A provider that is asked in two formats by the model of their names.
async fn gateway() -> (Provider, Gateway) {
    let simulated = Provider::start().await;
    let pairs = [
        ("chat", "responses"),
        ("responses", "messages"),
        ("chat", "messages"),
    ];
    let config = pairs
        .into_iter()
        .fold(Config::new(), |config, (one, other)| {
            let mut settings = provider(simulated.address);
            settings["formats"] = json!([one, other]);
            let name = format!("{one}-{other}");
            config.provider(&name, settings).model(&name, json!([name]))
        });
    (simulated, Gateway::start(config).await)
}

#[tokio::test]
async fn the_format_is_asked_in_that_carries_the_request() {
    let (simulated, gateway) = gateway().await;
    let cases = [
        (MESSAGES, "chat-responses", json!({}), RESPONSES),
        (CHAT, "responses-messages", json!({}), RESPONSES),
        (CHAT, "responses-messages", json!({"top_k": 5}), MESSAGES),
        (
            CHAT,
            "responses-messages",
            json!({"top_k": 5, "stream": true}),
            MESSAGES,
        ),
        (RESPONSES, "chat-messages", json!({}), MESSAGES),
        (
            RESPONSES,
            "chat-messages",
            json!({"text": {"format": {"type": "json_object"}}}),
            CHAT,
        ),
        (CHAT, "chat-messages", json!({"stop": "END"}), CHAT),
    ];
    for (path, model, more, at) in cases {
        let answer = gateway.ask(path, model, "", more.clone()).await;
        answer.assert_ok();
        assert_eq!(simulated.last().uri.path(), at, "{path} {model} {more}");
        assert_eq!(answer.header("x-dropped-fields"), None, "{path} {more}");
        assert_eq!(answer.header("x-attempts"), None, "{path} {more}");
    }
}

#[tokio::test]
async fn a_field_that_no_format_carries_is_refused_in_the_words_of_the_best_format() {
    let (simulated, gateway) = gateway().await;
    let more = json!({"logit_bias": {"50256": -100}});
    let refused = gateway.ask(CHAT, "responses-messages", "", more).await;
    refused.assert_error(400, "invalid_request");
    let message = refused.message();
    assert!(message.contains("'logit_bias'"), "{message}");
    assert!(message.contains("the responses format"), "{message}");
    assert_eq!(simulated.handle.counters().requests, 0);
}

#[tokio::test]
async fn a_limit_below_the_formats_minimum_is_reported_as_raised() {
    let (simulated, gateway) = gateway().await;
    let more = json!({"max_tokens": 1});
    let answer = gateway.ask(MESSAGES, "chat-responses", "", more).await;
    answer.assert_ok();
    let sent: Value = serde_json::from_slice(&simulated.last().body).unwrap();
    assert_eq!(sent["max_output_tokens"], 16, "{sent}");
    assert_eq!(answer.header("x-dropped-fields"), None);
    assert_eq!(answer.header("x-output-limit"), Some("16"));
}

#[tokio::test]
async fn a_limit_above_the_models_maximum_is_lowered_and_reported() {
    let simulated = Provider::start().await;
    let config = Config::of(&simulated)
        .with("providers.sim.formats", json!(["chat"]))
        .with("models.test-model.max_output_tokens", json!(1000));
    let gateway = Gateway::start(config).await;
    for (path, field, asked, limit, reported) in [
        (MESSAGES, "max_tokens", 128_000, 1000, Some("1000")),
        (MESSAGES, "max_tokens", 1000, 1000, None),
        (RESPONSES, "max_output_tokens", 128_000, 1000, Some("1000")),
        // In the provider's format a request stays as it is.
        (CHAT, "max_completion_tokens", 128_000, 128_000, None),
    ] {
        let more = json!({field: asked});
        let answer = gateway.ask(path, "test-model", "", more).await;
        answer.assert_ok();
        let sent: Value = serde_json::from_slice(&simulated.last().body).unwrap();
        assert_eq!(sent["max_completion_tokens"], limit, "{path}: {sent}");
        assert_eq!(answer.header("x-output-limit"), reported, "{path} {asked}");
        assert_eq!(answer.header("x-dropped-fields"), None);
    }
}

#[tokio::test]
async fn a_stream_of_messages_begins_with_its_input_tokens() {
    let (_simulated, gateway) = gateway().await;
    let body = prompt(
        MESSAGES,
        "chat-responses",
        "Hello!",
        json!({"stream": true}),
    );
    let answer = gateway.post(MESSAGES, &body).await;
    answer.assert_ok();
    let events = answer.events();
    let input = events[0]["message"]["usage"]["input_tokens"].as_u64();
    assert!(input > Some(0), "{events:?}");
    // The provider's number is charged.
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["count"], "reported", "{line}");
}

#[tokio::test]
async fn a_body_that_is_no_json_is_given_up_before_its_end() {
    let simulated = Provider::start().await;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let ping = "8\r\n: ping\n\n\r\n";
    for format in ["responses", "messages"] {
        let script = [Act::send(format!("{head}{ping}")), Act::Hang];
        let upstream = Upstream::playing(script).await;
        let mut pinging = provider(upstream.address);
        pinging["formats"] = json!([format]);
        let config = Config::of(&simulated).provider("pinging", pinging).model(
            "both",
            json!(["pinging", {"provider": "sim", "priority": 1}]),
        );
        let gateway = Gateway::start(config).await;
        let body = prompt(CHAT, "both", "Hello!", json!({}));
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("2"), "{answer:?}");
        assert_eq!(upstream.requests(), 1);
    }
}
