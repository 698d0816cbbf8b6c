//! Any client, any model: a caller of each format at providers that speak another one.

mod clients;
mod formats;
mod gemini;
mod gemini_clients;
mod searches;

use crate::support::{
    self, CHAT, Config, FORMATS, Gateway, MESSAGES, Provider, RESPONSES, Request, bounded,
    eventually, prompt, provider,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The models that are served in one format alone, with its path.
const MODELS: [(&str, &str); 3] = [
    ("by-chat", CHAT),
    ("by-responses", RESPONSES),
    ("by-messages", MESSAGES),
];

/// A provider that is asked in one format for each model.
async fn gateway() -> (Provider, Gateway) {
    gateway_with(|config| config).await
}

async fn gateway_with(change: impl FnOnce(Config) -> Config) -> (Provider, Gateway) {
    let simulated = Provider::start().await;
    let (address, gateway) = (simulated.address, Config::new());
    let config = ["chat", "responses", "messages"]
        .into_iter()
        .fold(gateway, |config, format| {
            let mut settings = provider(address);
            settings["formats"] = json!([format]);
            config
                .provider(&format!("p-{format}"), settings)
                .model(&format!("by-{format}"), json!([format!("p-{format}")]))
        });
    (simulated, Gateway::start(change(config)).await)
}

#[tokio::test]
async fn a_request_without_a_model_is_translated_for_the_default_model() {
    for (model, at) in MODELS {
        let (provider, gateway) = gateway_with(|config| {
            let filters = json!(["headers", "key", "stored",
                {"name": "model", "default_model": model}, "quota", "errors"]);
            config.with("filters", filters)
        })
        .await;
        for path in FORMATS {
            let mut body = prompt(path, model, "Hello!", Value::Null);
            body.as_object_mut().unwrap().remove("model");
            let answer = gateway.post(path, &body).await;
            answer.assert_ok();
            assert_eq!(answer.header("x-model"), Some(model), "{path}");
            let received = provider.last();
            assert_eq!(received.uri.path(), at, "{path}");
            let sent: Value = serde_json::from_slice(&received.body).unwrap();
            assert_eq!(sent["model"], model, "{path}");
            if path != at {
                assert_eq!(answer.json()["model"], model, "{path}");
            }
        }
    }
}

/// Every way of asking for a model in a format that it does not speak.
fn directions() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    FORMATS.into_iter().flat_map(|path| {
        let others = MODELS.into_iter().filter(move |(_, at)| *at != path);
        others.map(move |(model, at)| (path, model, at))
    })
}

/// The text of a whole answer.
pub(crate) fn text(path: &str, answer: &Value) -> String {
    let text = match path {
        CHAT => &answer["choices"][0]["message"]["content"],
        RESPONSES => {
            let items = answer["output"].as_array().expect("items");
            let message = items.iter().find(|item| item["type"] == "message");
            &message.expect("a message")["content"][0]["text"]
        }
        _ => {
            let blocks = answer["content"].as_array().expect("blocks");
            let text = blocks.iter().find(|block| block["type"] == "text");
            &text.expect("a text")["text"]
        }
    };
    text.as_str().expect("text").to_owned()
}

/// The text of a stream.
pub(crate) fn streamed_text(path: &str, events: &[Value]) -> String {
    let piece = |event: &Value| match path {
        CHAT => event["choices"][0]["delta"]["content"].clone(),
        RESPONSES if event["type"] == "response.output_text.delta" => event["delta"].clone(),
        MESSAGES => event["delta"]["text"].clone(),
        _ => Value::Null,
    };
    let pieces = events.iter().map(piece);
    pieces
        .filter_map(|piece| piece.as_str().map(str::to_owned))
        .collect()
}

/// Input and output tokens, as the caller's format reports them.
fn usage(path: &str, usage: &Value) -> (u64, u64) {
    let [input, output] = match path {
        CHAT => ["prompt_tokens", "completion_tokens"],
        _ => ["input_tokens", "output_tokens"],
    };
    let count = |name: &str| usage[name].as_u64().expect(name);
    (count(input), count(output))
}

#[tokio::test]
async fn each_caller_reaches_each_model_and_is_answered_in_its_own_format() {
    let (simulated, gateway) = gateway().await;
    for (path, model, at) in directions() {
        let answer = gateway.ask(path, model, "", json!({})).await;
        answer.assert_ok();
        assert_eq!(simulated.last().uri.path(), at, "{path} {model}");
        let body = answer.json();
        assert_eq!(text(path, &body), "You said: Say something nice.");
        assert_eq!(body["model"], model, "{path}");
        assert!(usage(path, &body["usage"]).1 > 0);
        assert_eq!(answer.header("x-model"), Some(model));
        let line = gateway
            .access_line(|line| line["path"] == path && line["model"] == model)
            .await;
        assert_eq!(line["outcome"], "completed", "{line}");
        assert!(line["charged"].as_u64().unwrap() > 0, "{line}");
        assert_eq!(line["count"], "reported", "{line}");
    }
}

#[tokio::test]
async fn an_answer_of_usual_length_is_sent_together_with_its_head() {
    /// Two sends may arrive as one, but not again and again.
    const TIMES: usize = 50;
    let (_simulated, gateway) = gateway().await;
    let mut wire = TcpStream::connect(gateway.address).await.unwrap();
    for model in ["by-chat", "by-messages"] {
        let body = prompt(CHAT, model, "Go on.", json!({}));
        let request = Request::post(CHAT, &body).key(&gateway.key);
        let request = request.orders("tokens-300").bytes();
        for _ in 0..TIMES {
            wire.write_all(&request).await.unwrap();
            let mut answer = vec![0; 64 * 1024];
            let read = bounded("an answer", wire.read(&mut answer)).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..read]);
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 200"), "{model}: {answer}");
            assert!(
                (1500..3500).contains(&read),
                "{model}: {read} bytes: {answer}"
            );
            let length = format!("content-length: {}", body.len());
            let head = head.to_ascii_lowercase();
            assert!(head.contains(&length), "{model}: {answer}");
        }
    }
}

#[tokio::test]
async fn streams_arrive_in_the_callers_format_with_the_usage_that_was_reported() {
    let (simulated, gateway) = gateway().await;
    for (path, model, at) in directions() {
        let mut more = json!({"stream": true});
        if path == CHAT {
            more["stream_options"] = json!({"include_usage": true});
        }
        let whole = gateway.ask(path, model, "", json!({})).await.json();
        let answer = gateway.ask(path, model, "chunks-7", more).await;
        answer.assert_ok();
        assert_eq!(simulated.last().uri.path(), at, "{path} {model}");
        let events = answer.events();
        assert_eq!(
            streamed_text(path, &events),
            text(path, &whole),
            "{path} {model}"
        );
        let reported = match path {
            CHAT => &events
                .iter()
                .rev()
                .find(|it| it["usage"].is_object())
                .unwrap()["usage"],
            RESPONSES => &events.last().unwrap()["response"]["usage"],
            _ => &events
                .iter()
                .find(|it| it["type"] == "message_delta")
                .unwrap()["usage"],
        };
        assert_eq!(
            usage(path, reported),
            usage(path, &whole["usage"]),
            "{path} {model}"
        );
        let ended = match path {
            CHAT => answer.text().ends_with("data: [DONE]\n\n"),
            RESPONSES => events.last().unwrap()["type"] == "response.completed",
            _ => events.last().unwrap()["type"] == "message_stop",
        };
        assert!(ended, "{path} {model}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_break_before_the_content_is_an_error_and_after_it_an_error_event() {
    let (_simulated, gateway) = gateway().await;
    for (path, model, _) in directions() {
        let stream = json!({"stream": true});
        let refused = gateway.ask(path, model, "status-429", stream.clone()).await;
        refused.assert_error(429, "rate_limit_exceeded");
        let first = gateway
            .ask(path, model, "error-first", stream.clone())
            .await;
        assert!(first.error().0 >= 500, "{path} {model}: {first:?}");
        let answer = gateway
            .ask(path, model, "tokens-200, cut-9000", stream)
            .await;
        answer.assert_ok();
        let events = answer.events();
        let last = events.last().expect("an event");
        let error = match path {
            CHAT => &last["error"],
            RESPONSES => &last["response"]["error"],
            _ => &last["error"],
        };
        assert!(error["message"].is_string(), "{path} {model}: {last}");
        assert!(!answer.text().contains("[DONE]"), "{path} {model}");
    }
}

#[tokio::test]
async fn a_field_that_the_target_cannot_carry_is_refused_by_its_name_or_dropped_with_notice() {
    let (simulated, gateway) = gateway().await;
    let answer = gateway
        .ask(
            CHAT,
            "by-messages",
            "",
            json!({"logit_bias": {"50256": -100}}),
        )
        .await;
    answer.assert_error(400, "invalid_request");
    assert!(answer.message().contains("logit_bias"), "{answer:?}");
    assert_eq!(simulated.handle.counters().requests, 0);

    let answer = gateway
        .ask(CHAT, "by-messages", "", json!({"seed": 7}))
        .await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), Some("seed"));

    // The operator may allow it.
    let lossy = gateway
        .config()
        .with("translation.lossy", json!(["logit_bias"]));
    gateway.rewrite(lossy);
    gateway.signal("HUP").await;
    gateway.log_line("was reloaded").await;
    let answer = gateway
        .ask(
            CHAT,
            "by-messages",
            "",
            json!({"logit_bias": {"50256": -100}}),
        )
        .await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), Some("logit_bias"));
}

#[tokio::test]
async fn a_candidate_of_another_format_takes_over_unseen() {
    let simulated = Provider::start().await;
    let config = ["chat", "messages"]
        .into_iter()
        .fold(Config::new(), |config, format| {
            let mut settings = provider(simulated.address);
            settings["formats"] = json!([format]);
            config.provider(format, settings)
        });
    let deployments = json!([
        {"provider": "messages", "upstream_model": "sim-status-529"},
        {"provider": "chat", "upstream_model": "upstream", "priority": 1},
    ]);
    let config = config
        .model("m", deployments)
        // The first one is to fail every time.
        .with("routing.health", json!({"enabled": false}));
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        for stream in [false, true] {
            let answer = gateway.ask(path, "m", "", json!({"stream": stream})).await;
            answer.assert_ok();
            assert_eq!(answer.header("x-attempts"), Some("2"));
            let said = match stream {
                true => streamed_text(path, &answer.events()),
                false => text(path, &answer.json()),
            };
            assert_eq!(said, "You said: Say something nice.", "{path}");
        }
    }
}

#[tokio::test]
async fn reasoning_goes_back_to_its_provider_alone() {
    let (simulated, gateway) = gateway().await;
    let more = json!({
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": false,
    });
    let answer = gateway
        .ask(RESPONSES, "by-messages", "", more.clone())
        .await;
    answer.assert_ok();
    let output = answer.json()["output"].clone();
    let sealed = output[0]["encrypted_content"]
        .as_str()
        .expect("sealed")
        .to_owned();
    let mut input = vec![json!({"role": "user", "content": "Say something nice."})];
    input.extend(output.as_array().unwrap().clone());
    input.push(json!({"role": "user", "content": "Go on."}));
    let mut body = prompt(RESPONSES, "by-messages", "", more);
    body["input"] = json!(input);
    gateway.post(RESPONSES, &body).await.assert_ok();
    let sent: Value = serde_json::from_slice(&simulated.last().body).unwrap();
    let thought = &sent["messages"][1]["content"][0];
    assert_eq!(thought["type"], "thinking", "{sent}");
    let signature = thought["signature"].as_str().unwrap();
    assert!(
        !signature.is_empty() && !signature.contains(&sealed),
        "{thought}"
    );

    // Another provider gets neither the seal nor the thought.
    body["model"] = json!("by-chat");
    let answer = gateway.post(RESPONSES, &body).await;
    answer.assert_ok();
    let sent = String::from_utf8(simulated.last().body.to_vec()).unwrap();
    assert!(
        !sent.contains(&sealed) && !sent.contains(signature),
        "{sent}"
    );
    assert!(
        !sent.contains(thought["thinking"].as_str().unwrap()),
        "{sent}"
    );
}

/// As the loops of the SDKs do it: whatever came is sent again.
#[tokio::test]
async fn a_summary_that_a_translated_answer_gave_can_be_sent_again() {
    let (_simulated, gateway) = gateway().await;
    let more = json!({"reasoning": {"effort": "high", "summary": "auto"}});
    for model in ["by-messages", "by-chat"] {
        let answer = gateway.ask(RESPONSES, model, "", more.clone()).await;
        answer.assert_ok();
        let output = answer.json()["output"].as_array().unwrap().clone();
        let thought = output.iter().find(|item| item["type"] == "reasoning");
        if let Some(thought) = thought {
            assert!(thought["encrypted_content"].is_null(), "{thought}");
            assert!(thought["summary"][0]["text"].is_string(), "{thought}");
        }
        assert!(thought.is_some() || model == "by-chat", "{output:?}");
        let mut input = vec![json!({"role": "user", "content": "Say something nice."})];
        input.extend(output);
        input.push(json!({"role": "user", "content": "Go on."}));
        let mut body = prompt(RESPONSES, model, "", more.clone());
        body["input"] = json!(input);
        gateway.post(RESPONSES, &body).await.assert_ok();
    }
}

#[tokio::test]
async fn a_conversation_goes_on_at_a_provider_of_the_callers_own_format_and_back() {
    let (simulated, gateway) = gateway().await;
    let thinking = |path| match path {
        MESSAGES => {
            json!({"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000})
        }
        _ => json!({
            "reasoning": {"effort": "high", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": false,
        }),
    };
    for (path, away, home, field) in [
        (
            MESSAGES,
            "by-responses",
            "by-messages",
            "messages[].content[].thinking",
        ),
        (
            RESPONSES,
            "by-messages",
            "by-responses",
            "input[].reasoning",
        ),
    ] {
        let answer = gateway.ask(path, away, "", thinking(path)).await;
        answer.assert_ok();
        assert!(answer.text().contains("\"tg1."), "{}", answer.text());
        let mut body = prompt(path, home, "", thinking(path));
        let (list, own) = match path {
            MESSAGES => (
                "messages",
                vec![json!({"role": "assistant", "content": answer.json()["content"]})],
            ),
            _ => ("input", answer.json()["output"].as_array().unwrap().clone()),
        };
        let mut turns = vec![json!({"role": "user", "content": "Say something nice."})];
        turns.extend(own);
        turns.push(json!({"role": "user", "content": "Go on."}));
        body[list] = json!(turns);
        // The provider refuses what it has not signed.
        let answer = gateway.post(path, &body).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-dropped-fields"), Some(field));
        let sent = String::from_utf8(simulated.last().body.to_vec()).unwrap();
        assert!(!sent.contains("tg1.") && sent.contains("Go on."), "{sent}");

        // Back where it was thought, it is there again.
        body["model"] = json!(away);
        let answer = gateway.post(path, &body).await;
        answer.assert_ok();
        let sent = String::from_utf8(simulated.last().body.to_vec()).unwrap();
        let proof = if path == MESSAGES {
            "\"gAAAAAB"
        } else {
            "\"EqQB"
        };
        assert!(!sent.contains("tg1.") && sent.contains(proof), "{sent}");
    }
}

#[tokio::test]
async fn the_provider_is_asked_as_its_format_requires() {
    let (simulated, gateway) = gateway().await;
    let body = prompt(CHAT, "by-messages", "Hello!", json!({}));
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .header("openai-beta", "assistants=v2");
    gateway.send(&request).await.assert_ok();
    let headers = simulated.last().headers;
    assert_eq!(headers["anthropic-version"], "2023-06-01");
    assert!(headers.contains_key("x-api-key") && !headers.contains_key("openai-beta"));

    let body = prompt(MESSAGES, "by-chat", "Hello!", json!({}));
    let request = Request::post(MESSAGES, &body)
        .key(&gateway.key)
        .header("anthropic-version", "2023-06-01")
        .header("anthropic-beta", "context-management-2025-06-27");
    gateway.send(&request).await.assert_ok();
    let headers = simulated.last().headers;
    assert!(
        headers
            .keys()
            .all(|name| !name.as_str().starts_with("anthropic-"))
    );
    assert!(headers.contains_key("authorization") && !headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn a_caller_that_hangs_up_on_a_translated_stream_pays_for_the_delivered_part() {
    let (simulated, gateway) = gateway().await;
    for (path, model, _) in directions() {
        let body = prompt(
            path,
            model,
            "Tell me a long story.",
            json!({"stream": true}),
        );
        let request = Request::post(path, &body)
            .key(&gateway.key)
            .orders("tokens-2000, chunks-500, chunk-delay-2ms");
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        connection.head().await.assert_ok();
        connection.read_until(b"delta").await;
        drop(connection);
        let line = gateway
            .access_line(|line| line["path"] == path && line["model"] == model)
            .await;
        assert_eq!(line["outcome"], "client_closed", "{line}");
        assert!(line["charged"].as_u64().unwrap() > 0, "{line}");
    }
    eventually("the provider to be left alone", async || {
        (simulated.handle.counters().open_answers == 0).then_some(())
    })
    .await;
}
