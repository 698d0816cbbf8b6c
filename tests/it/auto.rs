//! The gateway chooses the model: what clients, records and operators see of it.

use crate::support::{
    Answer, CHAT, COUNT_TOKENS, Config, EASY, FORMATS, Gateway, HARD, MESSAGES, Provider, Request,
    eventually, prompt, provider, provider_at,
};
use serde_json::{Value, json};

fn config(provider: &Provider) -> Config {
    Config::of(provider).auto()
}

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(config(&provider)).await;
    (provider, gateway)
}

async fn say(gateway: &Gateway, path: &str, model: &str, text: &str) -> Answer {
    let body = prompt(path, model, text, Value::Null);
    gateway.post(path, &body).await
}

fn route(answer: &Answer) -> (&str, &str) {
    answer.assert_ok();
    let header = |name| {
        answer
            .header(name)
            .unwrap_or_else(|| panic!("{name}: {answer:?}"))
    };
    (header("x-model"), header("x-route-reason"))
}

/// The model that the provider was asked for last.
fn asked(provider: &Provider) -> String {
    let body: Value = serde_json::from_slice(&provider.last().body).unwrap();
    body["model"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn rules_decide_in_every_format_and_are_named() {
    let (provider, gateway) = gateway().await;
    let long = "Tell me a story. ".repeat(200);
    for (number, path) in FORMATS.into_iter().enumerate() {
        for (text, expected, rule) in [
            (EASY, "light", "auto: rule 2"),
            (HARD, "strong", "auto: rule code"),
            (&*long, "middle", "auto: default"),
        ] {
            // Each is a conversation of its own.
            let text = format!("{number} {text}");
            let answer = say(&gateway, path, "auto", &text).await;
            assert_eq!(route(&answer), (expected, rule), "{path}");
            assert_eq!(asked(&provider), expected, "{path}");
        }
    }
}

#[tokio::test]
async fn profiles_are_listed_for_keys_that_may_use_one_of_their_models() {
    let (_provider, gateway) = gateway().await;
    let list = gateway.get("/v1/models").await.json();
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].clone())
        .collect();
    assert_eq!(ids, ["light", "middle", "strong", "auto", "auto-cheap"]);
    // The model of the rule is above the cap of this profile.
    let answer = say(&gateway, CHAT, "auto-cheap", HARD).await;
    let reason = "auto-cheap: default, passed over strong (price)";
    assert_eq!(route(&answer), ("middle", reason));

    let key = gateway.create_key(&["--group", "large"]).await;
    let list = gateway
        .send(&Request::get("/v1/models").key(&key))
        .await
        .json();
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].clone())
        .collect();
    assert_eq!(ids, ["strong", "auto"]);
    let ask = |model: &str| Request::post(CHAT, &prompt(CHAT, model, EASY, Value::Null)).key(&key);
    let answer = gateway.send(&ask("auto")).await;
    // The model of the rule is not this key's, and is not named.
    assert_eq!(route(&answer), ("strong", "auto: default"));
    let refused = gateway.send(&ask("auto-cheap")).await;
    refused.assert_error(404, "invalid_model");
    assert!(
        refused.message().contains("no model that this key may use"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_conversation_keeps_its_model_until_that_cannot_answer() {
    let (_provider, gateway) = gateway().await;
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = json!({"role": "assistant", "content": "Done."});
    let ask = async |messages: Value| {
        let body = json!({"model": "auto", "messages": messages});
        gateway.post(CHAT, &body).await
    };
    let first = user(EASY);
    let answer = ask(json!([first])).await;
    assert_eq!(route(&answer).0, "light");
    let answer = ask(json!([first, assistant, user("And hello?")])).await;
    let (model, reason) = route(&answer);
    assert_eq!(model, "light");
    assert!(
        reason.ends_with("stays with the conversation's model"),
        "{reason}"
    );

    // The light model takes no images.
    let picture = json!({"role": "user", "content": [
        {"type": "text", "text": "What colour is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]});
    let answer = ask(json!([first, assistant, picture])).await;
    let (model, reason) = route(&answer);
    assert_eq!(model, "middle", "{reason}");
    assert!(
        reason.ends_with("moved from light (images), default"),
        "{reason}"
    );

    // No rule moves it.
    let hard = user(HARD);
    for messages in [
        json!([first, assistant, hard]),
        json!([first, assistant, hard, assistant, user("Thanks!")]),
    ] {
        let answer = ask(messages).await;
        assert_eq!(route(&answer).0, "middle", "{answer:?}");
    }

    // Another conversation begins anew, and so does the same one with another key.
    let answer = ask(json!([user("Hello, translate this."), assistant])).await;
    assert_eq!(route(&answer).0, "light", "{answer:?}");
    let key = gateway.create_key(&[]).await;
    let body = json!({"model": "auto", "messages": [first]});
    let answer = gateway.send(&Request::post(CHAT, &body).key(&key)).await;
    assert_eq!(route(&answer).0, "light", "{answer:?}");
}

#[tokio::test]
async fn a_model_in_cooldown_is_passed_over() {
    let (sim, other) = (Provider::start().await, Provider::start().await);
    let health = json!({"consecutive_failures": 1, "cooldown": "1m"});
    let config = config(&sim)
        .provider("other", provider(other.address))
        .with("models.light.deployments", json!(["other"]))
        .with("routing.health", health);
    let gateway = Gateway::start(config).await;
    assert_eq!(route(&say(&gateway, CHAT, "auto", EASY).await).0, "light");
    let failed = gateway.ask(CHAT, "light", "status-500", json!({})).await;
    assert!(failed.status >= 500, "{failed:?}");
    let answer = say(&gateway, CHAT, "auto", "Hello! What is your name?").await;
    let reason = "auto: default, passed over light (unavailable)";
    assert_eq!(route(&answer), ("middle", reason));
    // A conversation that had the model moves.
    let answer = say(&gateway, CHAT, "auto", EASY).await;
    let reason = "auto: moved from light (unavailable), default";
    assert_eq!(route(&answer), ("middle", reason));
}

#[tokio::test]
async fn a_model_whose_provider_has_no_address_is_passed_over() {
    let sim = Provider::start().await;
    let config = config(&sim)
        .provider("nowhere", provider_at("http://nowhere.invalid:81"))
        .with("models.light.deployments", json!(["nowhere"]))
        .with(
            "auto.profiles.auto-light",
            json!({"candidates": ["light"], "rules": []}),
        );
    let gateway = Gateway::start(config).await;
    let answer = say(&gateway, CHAT, "auto", EASY).await;
    answer.assert_ok();
    let reason = "auto: default, passed over light (unavailable)";
    assert_eq!(route(&answer), ("middle", reason));
    // If there is no other, its error is the answer.
    let answer = say(&gateway, CHAT, "auto-light", EASY).await;
    answer.assert_error(503, "service_unavailable");
}

#[tokio::test]
async fn a_session_of_an_agent_is_one_conversation_whatever_it_begins_with() {
    let (_provider, gateway) = gateway().await;
    let tools = json!({"tools": [{"name": "run", "input_schema": {"type": "object"}}]});
    let ask = async |text: &str, session: &str, more: Value| {
        let body = prompt(MESSAGES, "auto", text, more);
        let request = Request::post(MESSAGES, &body)
            .key(&gateway.key)
            .header("x-claude-code-session-id", session);
        let answer = gateway.send(&request).await;
        route(&answer).0.to_owned()
    };
    assert_eq!(ask(HARD, "one", tools.clone()).await, "strong");
    assert_eq!(ask(EASY, "one", tools.clone()).await, "strong");
    assert_eq!(ask(EASY, "two", tools.clone()).await, "light");
    // A side request of the agent is a conversation of its own.
    assert_eq!(
        ask("Suggest a short title.", "one", Value::Null).await,
        "light"
    );
}

#[tokio::test]
async fn a_count_of_tokens_is_that_of_the_next_answer_and_moves_nothing() {
    let (_provider, gateway) = gateway().await;
    let count = async |text: &str| {
        let body = prompt(COUNT_TOKENS, "auto", text, Value::Null);
        let request = Request::post(COUNT_TOKENS, &body)
            .key(&gateway.key)
            .header("session-id", "s");
        route(&gateway.send(&request).await).0.to_owned()
    };
    assert_eq!(count(HARD).await, "strong");
    let body = prompt(MESSAGES, "auto", EASY, Value::Null);
    let ask = Request::post(MESSAGES, &body)
        .key(&gateway.key)
        .header("session-id", "s");
    assert_eq!(route(&gateway.send(&ask).await).0, "light");
    assert_eq!(count(EASY).await, "light");
}

#[tokio::test]
async fn the_chosen_model_is_what_is_charged_and_recorded() {
    let (_provider, gateway) = gateway().await;
    for (text, model, weight) in [(EASY, "light", 1), (HARD, "strong", 5)] {
        let answer = say(&gateway, CHAT, "auto", text).await;
        let (_, reason) = route(&answer);
        let written = async || {
            let page = gateway.get("/v1/usage/history?limit=1").await.json();
            let record = page["data"][0].clone();
            (record["model_served"] == model).then_some(record)
        };
        let record = eventually("the record", written).await;
        assert_eq!(record["model_asked"], "auto", "{record}");
        assert_eq!(record["route_reason"], reason, "{record}");
        let tokens = |kind: &str| record["usage"][kind].as_u64().unwrap_or(0);
        let used = tokens("input") + tokens("output");
        assert!(used > 0, "{record}");
        assert_eq!(record["charged"], json!(used * weight), "{record}");
    }
}

#[tokio::test]
async fn operators_see_which_rule_chose_which_model() {
    let (_provider, gateway) = gateway().await;
    say(&gateway, CHAT, "auto", HARD).await.assert_ok();
    let line = gateway
        .access_line(|line| line["model_asked"] == "auto")
        .await;
    assert_eq!(line["model"], "strong", "{line}");
    assert_eq!(line["route_reason"], "auto: rule code", "{line}");
    let sample = r#"tollgate_auto_choices_total{model="strong",profile="auto",why="rule code"}"#;
    assert_eq!(gateway.sample(sample).await, Some(1.0));
    // Requests that name a model have no reason.
    say(&gateway, CHAT, "middle", HARD).await.assert_ok();
    let line = gateway
        .access_line(|line| line["model_asked"] == "middle")
        .await;
    assert!(line.get("route_reason").is_none(), "{line}");
}

#[tokio::test]
async fn conversations_outlive_a_reload() {
    let (provider, gateway) = gateway().await;
    let say_again = async || {
        let answer = say(&gateway, CHAT, "auto", EASY).await;
        let (model, reason) = route(&answer);
        (model.to_owned(), reason.to_owned())
    };
    assert_eq!(say_again().await.0, "light");
    // A conversation that begins after the reload gets the strong model.
    let changed = config(&provider)
        .with("auto.rules", json!([]))
        .with("auto.candidates", json!(["strong", "light"]));
    gateway.rewrite(changed);
    gateway.signal("HUP").await;
    // Each request begins a conversation of its own.
    let fresh = async || {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let answer = say(&gateway, CHAT, "auto", &format!("Hello, {number}!")).await;
        (route(&answer).0 == "strong").then_some(())
    };
    eventually("the new configuration", fresh).await;
    let (model, reason) = say_again().await;
    assert_eq!(model, "light", "{reason}");
}
