//! A request to a provider is within its reservation, however its limit comes about: no
//! way of adding thinking, raising a limit or asking another candidate spends more than that.

use crate::support::{
    self, Answer, CHAT, Config, Connection, FORMATS, Gateway, LONG, MESSAGES, Provider, RESPONSES,
    Request, limit_field, prompt,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const TOKEN: &str = "0123456789abcdef-admin";
const SAID: &str = "sixteen letters!";

/// Providers of each format, of messages also such as know budgets alone; models of each mode at
/// each of them, with and without a limit of their own, and one whose first provider fails.
async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let mut config = Config::of(&provider);
    let with = |formats: Value, capabilities: Value| {
        let mut settings = support::provider(provider.address);
        settings["formats"] = formats;
        settings["capabilities"] = capabilities;
        settings["health"] = json!({"enabled": false});
        settings
    };
    let budgets = json!({"messages": {"adaptive_thinking": false}});
    for (name, settings) in [
        ("chat", with(json!(["chat"]), json!({}))),
        ("responses", with(json!(["responses"]), json!({}))),
        ("messages", with(json!(["messages"]), json!({}))),
        ("budgets", with(json!(["messages"]), budgets)),
    ] {
        config = config.provider(name, settings);
        for mode in ["adaptive", "extended", "none"] {
            for most in [None, Some(8000)] {
                let id = format!("{name}-{mode}-{}", most.map_or("any", |_| "8k"));
                config = config.model(&id, json!([name]));
                config = config.with(&format!("models.{id}.reasoning"), json!(mode));
                if let Some(most) = most {
                    let path = format!("models.{id}.max_output_tokens");
                    config = config.with(&path, json!(most));
                }
            }
        }
    }
    let mut failing = support::provider(provider.address);
    failing["formats"] = json!(["chat"]);
    failing["headers"] = json!({"x-sim": "status-500"});
    failing["health"] = json!({"enabled": false});
    let in_turn = json!(["failing", {"provider": "budgets", "priority": 1}]);
    config = config
        .provider("failing", failing)
        .model("in-turn", in_turn)
        .with("models.in-turn.reasoning", json!("extended"));
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let config = config.with("admin.token", json!("file:token"));
    (provider, Gateway::start_in(folder, config).await)
}

async fn explain(gateway: &Gateway, key: &str, path: &str, request: &Value) -> Value {
    let order = json!({"key": key, "path": path, "request": request});
    let order = Request::post("/api/v1/explain", &order).key(TOKEN);
    let reported = Connection::open(gateway.admin).await.send(&order).await;
    reported.assert_ok();
    reported.json()
}

/// The path and the body of the request that the provider got last.
fn sent(provider: &Provider) -> Value {
    serde_json::from_slice(&provider.last().body).unwrap()
}

/// The output limit that was sent, in whatever format.
fn limit_of(sent: &Value) -> Option<u64> {
    let fields = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
    fields.iter().find_map(|field| sent[field].as_u64())
}

fn reported_limit(answer: &Answer) -> Option<u64> {
    let reported = answer.header("x-output-limit")?;
    Some(reported.parse().unwrap())
}

/// Requests with an effort, with a limit, with both and with neither.
fn requests(path: &str) -> Vec<Value> {
    let mut all = Vec::new();
    // The least limit that responses take.
    let least = if path == RESPONSES { 16 } else { 1 };
    for limit in [None, Some(least), Some(100), Some(1366), Some(3000)] {
        for effort in [None, Some("high")] {
            let mut more = json!({});
            if let Some(limit) = limit {
                more[limit_field(path)] = json!(limit);
            }
            match (path, effort) {
                (_, None) => {}
                (CHAT, Some(effort)) => more["reasoning_effort"] = json!(effort),
                (RESPONSES, Some(effort)) => more["reasoning"] = json!({"effort": effort}),
                (_, Some(effort)) => more["output_config"] = json!({"effort": effort}),
            }
            all.push(more);
        }
    }
    all
}

#[tokio::test]
async fn a_sent_request_is_within_its_reservation() {
    let (provider, gateway) = gateway().await;
    let models = [
        "in-turn",
        "chat-adaptive-any",
        "chat-extended-8k",
        "responses-adaptive-any",
        "responses-extended-8k",
        "messages-adaptive-8k",
        "messages-extended-any",
        "budgets-adaptive-8k",
        "budgets-extended-any",
        "budgets-extended-8k",
        "budgets-none-any",
    ];
    let mut answered = 0;
    for path in FORMATS {
        for model in models {
            for (number, more) in requests(path).into_iter().enumerate() {
                // All that is asked for, and as much as leaves some of it out.
                let balance = [u64::MAX, 62 + 40, 62 + 700, u64::MAX, 62 + 1200][number % 5];
                let key = match balance {
                    u64::MAX => gateway.key.clone(),
                    balance => gateway.key_with(balance, LONG),
                };
                let body = prompt(path, model, SAID, more);
                let reported = explain(&gateway, &key, path, &body).await;
                let request = Request::post(path, &body).key(&key).orders("tokens-9000");
                let answer = gateway.send(&request).await;
                let what = format!("{path} {body} on {balance}: {answer:?}");
                if answer.status == 402 {
                    assert_eq!(reported["outcome"]["status"], 402, "{what}: {reported}");
                    continue;
                }
                answer.assert_ok();
                answered += 1;
                let (sent, limit) = (sent(&provider), limit_field(path));
                let most = reported["bound"]["output"].as_u64().unwrap();
                if let Some(sent) = limit_of(&sent) {
                    assert!(sent <= most, "{sent} of {most}: {what}: {reported}");
                    let asked = body[limit].as_u64();
                    let is_reported = reported_limit(&answer) == Some(sent);
                    let is_other = asked.is_some_and(|asked| asked < sent);
                    assert!(is_reported || !is_other, "{sent}: {what}");
                    // A caller's limit is raised for thinking alone, and by the least there is.
                    if let (Some(asked @ 16..), true) = (asked, is_other) {
                        assert_eq!(sent, asked + 1024, "{what}");
                    }
                }
                let thinks = sent["thinking"]["budget_tokens"].as_u64();
                assert!(
                    thinks < limit_of(&sent).or(Some(u64::MAX)),
                    "{what}: {sent}"
                );
                let line = gateway.line_of(&answer).await;
                let charged = line["charged"].as_u64().unwrap();
                assert!(charged <= balance, "{what}: {line}");
            }
        }
    }
    assert!(answered > 250, "{answered}");
    let output = gateway.output();
    assert!(!output.contains("beyond the balance"), "{output}");
}

/// What the caller wrote, and what its provider is sent, at a model that thinks unasked.
async fn at_one_that_thinks(more: Value) -> (Answer, Value) {
    let (provider, gateway) = gateway().await;
    let body = prompt(MESSAGES, "messages-extended-8k", SAID, more);
    let answer = gateway.post(MESSAGES, &body).await;
    answer.assert_ok();
    (answer, sent(&provider))
}

#[tokio::test]
async fn a_model_that_thinks_unasked_answers_what_excludes_thinking() {
    let tools = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    let said = json!({"role": "user", "content": "Look."});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "Seen."});
    let loops = json!([
        said,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]);
    for (more, dropped, thinks) in [
        (
            json!({"temperature": 0.5, "top_k": 7}),
            "temperature, top_k",
            true,
        ),
        (json!({"top_p": 0.5}), "top_p", true),
        (
            json!({"tools": tools, "tool_choice": {"type": "any"}}),
            "thinking",
            false,
        ),
        (
            json!({"tools": tools, "messages": loops}),
            "thinking",
            false,
        ),
    ] {
        let what = more.to_string();
        let mut more = more;
        more["max_tokens"] = json!(4000);
        let (answer, sent) = at_one_that_thinks(more).await;
        assert_eq!(answer.header("x-dropped-fields"), Some(dropped), "{what}");
        assert_eq!(
            sent["thinking"]["type"] == "enabled",
            thinks,
            "{what}: {sent}"
        );
        assert_eq!(sent["max_tokens"], 4000, "{what}: {sent}");
        for field in ["temperature", "top_p", "top_k"] {
            assert!(sent.get(field).is_none(), "{what}: {sent}");
        }
    }
}

#[tokio::test]
async fn a_limit_is_raised_only_where_thinking_is_sent() {
    let (answer, sent) = at_one_that_thinks(json!({"max_tokens": 100})).await;
    assert_eq!(sent["thinking"]["budget_tokens"], 1024, "{sent}");
    assert_eq!(
        (&sent["max_tokens"], reported_limit(&answer)),
        (&json!(1124), Some(1124))
    );

    let (provider, gateway) = gateway().await;
    let key = gateway.key_with(62 + 500, LONG);
    let body = prompt(
        MESSAGES,
        "messages-extended-8k",
        SAID,
        json!({"max_tokens": 100}),
    );
    let answer = gateway
        .send(&Request::post(MESSAGES, &body).key(&key))
        .await;
    answer.assert_ok();
    let sent = self::sent(&provider);
    assert_eq!(
        (&sent["max_tokens"], sent.get("thinking")),
        (&json!(100), None)
    );
    assert_eq!(reported_limit(&answer), None);
    assert_eq!(answer.header("x-dropped-fields"), Some("thinking"));
}

/// As some servers let another name win, and others know the format's own alone.
#[tokio::test]
async fn a_limit_by_another_name_is_held_and_says_no_more_than_the_balance_is_enough_for() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let ask = |path: &str, key: &str, more: Value| {
        Request::post(path, &prompt(path, "test-model", SAID, more)).key(key)
    };
    let asked_for_more = |path: &str, field: &str| match field {
        "best_of" => json!({field: 4, limit_field(path): 5000}),
        _ => json!({field: 60_000, limit_field(path): 1}),
    };
    for (path, field) in [
        (CHAT, "n_predict"),
        (CHAT, "max_new_tokens"),
        (CHAT, "max_length"),
        (CHAT, "max_tokens"),
        (CHAT, "best_of"),
        (RESPONSES, "n_predict"),
        (MESSAGES, "n_predict"),
    ] {
        let key = gateway.key_with(63 + 400, LONG);
        let request = ask(path, &key, asked_for_more(path, field));
        // A strict provider refuses what is not its format's own, as this one does; it was sent.
        let answer = gateway.send(&request).await;
        let sent = sent(&provider);
        let reported = reported_limit(&answer);
        if field == "best_of" {
            assert_eq!(reported, Some(100), "{answer:?}");
            assert_eq!(
                (&sent[field], &sent[limit_field(path)]),
                (&json!(4), &json!(100))
            );
        } else {
            assert_eq!(reported, Some(400), "{answer:?}");
            assert_eq!(
                (&sent[field], &sent[limit_field(path)]),
                (&json!(400), &json!(1))
            );
        }
    }
    // None at all is what the model can do, and a provider that knows the format's own name alone is
    // given that.
    for none in [json!({"n_predict": -1}), json!({"n_predict": 9})] {
        let key = gateway.key_with(63 + 400, LONG);
        let answer = gateway.send(&ask(CHAT, &key, none.clone())).await;
        assert_eq!(reported_limit(&answer), Some(400), "{answer:?}");
        let sent = sent(&provider);
        let kept = none["n_predict"].as_i64().filter(|limit| *limit > 0);
        assert_eq!(sent["n_predict"], kept.unwrap_or(400), "{sent}");
        assert_eq!(sent["max_completion_tokens"], 400, "{sent}");
    }
}
