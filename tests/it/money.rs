//! Balances in money: what they admit, alone and beside tokens, and what they are charged.

use crate::support::{
    self, Act, CHAT, Config, Connection, Gateway, LONG, MESSAGES, Output, Provider, Request,
    Upstream, eventually, prompt, tollgate,
};
use futures::future::join_all;
use serde_json::{Value, json};
use tollgate_ledger::GrantTerms;
use tollgate_types::Money;

/// What a token of any kind costs, in nano-units: 1000 for a million.
const NANOS: u64 = 1_000_000;
/// What is held of the input "user" and `SAID` once it is counted (see `balances`).
const CAUTIOUS_INPUT: u64 = 63;
const SAID: &str = "sixteen letters!";

fn price() -> Value {
    json!({"input": 1000, "output": "1000"})
}

pub(crate) fn terms(tokens: u64, money: u64) -> GrantTerms {
    GrantTerms {
        tokens,
        money: Money::from_nanos(money),
        validity: LONG,
        ..GrantTerms::default()
    }
}

fn ask(key: &str, model: &str, more: Value) -> Request {
    Request::post(CHAT, &prompt(CHAT, model, SAID, more)).key(key)
}

/// One model with a price and one without.
async fn start() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", price())
        .model("unpriced", json!(["sim/upstream-model"]));
    let gateway = Gateway::start(config).await;
    (provider, gateway)
}

async fn usage(gateway: &Gateway, key: &str) -> Value {
    let page = Request::get("/v1/usage").key(key);
    gateway.send(&page).await.json()
}

/// Waits until a key has used so many tokens and so much money.
pub(crate) async fn has_used(gateway: &Gateway, key: &str, tokens: u64, nanos: u64) {
    let mut used = (0, String::new());
    let look = async || {
        let grants = gateway.keys(&["grants", key, "--json"]).await;
        let grants: Value = serde_json::from_str(&grants.stdout).unwrap();
        let grants = grants.as_array().unwrap();
        let money = grants.iter().map(|it| it["money_used"].as_str().unwrap());
        let money = money.map(|it| it.parse::<Money>().unwrap().nanos());
        let money = Money::from_nanos(money.sum());
        let spent = grants.iter().map(|it| it["used"].as_u64().unwrap()).sum();
        used = (spent, money.to_string());
        (spent == tokens && money.nanos() == nanos).then_some(())
    };
    eventually(
        &format!("{tokens} tokens and {nanos} nano-units are used"),
        look,
    )
    .await;
}

/// An answer that costs so many tokens.
fn answer_of(cost: u64) -> Vec<u8> {
    let usage = json!({"prompt_tokens": cost - 5, "completion_tokens": 5});
    let message = json!({"role": "assistant", "content": "Hi"});
    let choices = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
    let body = json!({"id": "c", "choices": choices, "usage": usage}).to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test]
async fn money_for_ten_admits_ten_of_two_hundred() {
    const CALLERS: usize = 200;
    const ADMITTED: usize = 10;
    const OUTPUT: u64 = 10;
    let body = prompt(CHAT, "m", SAID, json!({"max_completion_tokens": OUTPUT}));
    // A token a byte and the frame, and the output: exactly what is held.
    let cost = body.to_string().len() as u64 + 128 + OUTPUT;
    let script = [Act::Send(answer_of(cost)), Act::Again];
    let upstream = Upstream::playing(script).await;
    let config = Config::new()
        .with("server.threads", json!(2))
        .provider("m", support::provider(upstream.address))
        .model("m", json!(["m"]))
        .with("models.m.price", price());
    let gateway = Gateway::start(config).await;
    let connecting = (0..CALLERS).map(|_| Connection::open(gateway.address));
    let mut callers = join_all(connecting).await;
    let mut keys = Vec::new();
    let balance = cost * ADMITTED as u64;
    for (tokens, nanos) in [
        (0, balance * NANOS),
        // Ample tokens change nothing, and ample money lets tokens decide.
        (balance * 100, balance * NANOS),
        (balance, balance * 100 * NANOS),
    ]
    .repeat(10)
    {
        let key = gateway.key_of(terms(tokens, nanos));
        let request = Request::post(CHAT, &body).key(&key);
        let answers = join_all(callers.iter_mut().map(|it| it.send(&request))).await;
        let with = |status| answers.iter().filter(|it| it.status == status).count();
        let refused = with(402) + with(429);
        assert_eq!((with(200), refused), (ADMITTED, CALLERS - ADMITTED));
        let again = gateway.send(&request).await;
        again.assert_error(402, "quota_exhausted");
        keys.push((key, if tokens > 0 { balance } else { 0 }));
    }
    for (key, tokens) in &keys {
        has_used(&gateway, key, *tokens, balance * NANOS).await;
    }
    assert_eq!(upstream.requests(), keys.len() * ADMITTED);
    gateway.verify().await;
}

#[tokio::test]
async fn an_answer_is_limited_to_what_the_money_is_enough_for() {
    let (provider, gateway) = start().await;
    let key = gateway.key_of(terms(0, (CAUTIOUS_INPUT + 90) * NANOS + NANOS - 1));
    let request = ask(&key, "priced", json!({})).orders("tokens-10000");
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-output-limit"), Some("90"), "{answer:?}");
    let sent: Value = serde_json::from_slice(&provider.last().body).unwrap();
    assert_eq!(
        sent["max_completion_tokens"]
            .as_u64()
            .or(sent["max_tokens"].as_u64()),
        Some(90)
    );
    let line = gateway.line_of(&answer).await;
    let used = |kind: &str| line["usage"][kind].as_u64().unwrap();
    let cost = (used("input") + used("output")) * NANOS;
    let written = Money::from_nanos(cost).to_string();
    assert_eq!(answer.header("x-cost"), Some(written.as_str()));
    assert_eq!(line["charged"], 0, "the key has no tokens: {line}");
    has_used(&gateway, &key, 0, cost).await;
    let shown = usage(&gateway, &key).await;
    assert_eq!(shown["tokens"], Value::Null, "{shown}");
    assert_eq!(shown["money"]["used"], written, "{shown}");
    assert_eq!(shown["money"]["reserved"], "0", "{shown}");
    gateway.verify().await;
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_before_any_provider_is_asked() {
    let (provider, gateway) = start().await;
    let key = gateway.key_of(terms(1_000_000, 1_000_000 * NANOS));
    let refused = gateway.send(&ask(&key, "unpriced", json!({}))).await;
    refused.assert_error(403, "permission_denied");
    assert_eq!(provider.handle.counters().requests, 0);
    let models = Request::get("/v1/models").key(&key);
    let models = gateway.send(&models).await.json();
    let has = |name: &str| {
        let mut models = models["data"].as_array().unwrap().iter();
        models.any(|it| it["id"] == name)
    };
    assert!(has("priced") && !has("unpriced"), "{models}");
    gateway
        .send(&ask(&key, "priced", json!({})))
        .await
        .assert_ok();
    // A key without money does not need a price.
    let tokens = gateway.key_of(terms(1_000_000, 0));
    gateway
        .send(&ask(&tokens, "unpriced", json!({})))
        .await
        .assert_ok();
    let body = prompt(CHAT, "unpriced", SAID, json!({})).to_string();
    let explained = explain(&gateway, &key, &body).await;
    assert!(
        explained.stdout.contains("permission_denied"),
        "{explained:?}"
    );
    assert!(explained.stdout.contains("has no price"), "{explained:?}");
}

async fn explain(gateway: &Gateway, key: &str, body: &str) -> Output {
    let file = gateway.folder.path().join("request.json");
    std::fs::write(&file, body).unwrap();
    let config = gateway.folder.path().join("tollgate.yaml");
    let mut command = tollgate();
    command.arg("explain").arg("--key").arg(key);
    command.arg("--config").arg(config);
    command.stdin(std::fs::File::open(file).unwrap());
    Output::of(&mut command).await
}

#[tokio::test]
async fn candidates_without_a_price_are_left_out_and_the_dearest_is_reserved() {
    let (cheap, dear) = (Provider::start().await, Provider::start().await);
    let free = Provider::start().await;
    let deployments = json!([
        {"provider": "free", "upstream_model": "m", "priority": 1},
        {"provider": "cheap", "upstream_model": "m", "priority": 2,
         "price": {"input": 100, "output": 100}},
        {"provider": "dear", "upstream_model": "m", "priority": 3, "price": price()},
    ]);
    let config = Config::new()
        .provider("free", support::provider(free.address))
        .provider("cheap", support::provider(cheap.address))
        .provider("dear", support::provider(dear.address))
        .model("m", deployments);
    let gateway = Gateway::start(config).await;
    let key = gateway.key_of(terms(0, (CAUTIOUS_INPUT + 90) * NANOS));
    let request = ask(&key, "m", json!({})).orders("tokens-10000");
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-output-limit"), Some("90"), "{answer:?}");
    let asked = [&free, &cheap, &dear].map(|it| it.handle.counters().requests);
    assert_eq!(asked, [0, 1, 0]);
    let line = gateway.line_of(&answer).await;
    let used = |kind: &str| line["usage"][kind].as_u64().unwrap();
    // Charged at the price of the deployment that served.
    has_used(
        &gateway,
        &key,
        0,
        (used("input") + used("output")) * NANOS / 10,
    )
    .await;
    let key = gateway.key_of(terms(0, 1_000_000 * NANOS));
    let body = prompt(CHAT, "m", SAID, json!({})).to_string();
    let explained = explain(&gateway, &key, &body).await;
    assert!(
        explained
            .stdout
            .contains("it has no price, and the key pays in money"),
        "{explained:?}"
    );
}

#[tokio::test]
async fn a_top_up_of_money_lifts_a_refusal_within_a_second() {
    let (_provider, gateway) = start().await;
    let key = gateway.create_key(&["--money", "0.001"]).await;
    let request = ask(&key, "priced", json!({}));
    let refused = gateway.send(&request).await;
    refused.assert_error(402, "quota_exhausted");
    assert!(refused.text().contains("too little money"), "{refused:?}");
    // Tokens do not pay the cost.
    let top_up = ["top-up", &key, "--tokens", "1M", "--days", "1"];
    assert!(gateway.keys(&top_up).await.status.success());
    let refused = gateway.send(&request).await;
    refused.assert_error(402, "quota_exhausted");
    let top_up = ["top-up", &key, "--money", "10.00", "--days", "1", "--json"];
    let output = gateway.keys(&top_up).await;
    let made: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(made[0]["money"], "10", "{made}");
    let admitted = async || (gateway.send(&request).await.status == 200).then_some(());
    eventually("the money can be spent", admitted).await;
    let table = gateway.keys(&["grants", &key]).await.stdout;
    assert!(
        table.contains("10.00") || table.contains("money   10 "),
        "{table}"
    );
}

#[tokio::test]
async fn a_killed_gateway_charges_money_once() {
    let (_provider, gateway) = start().await;
    let key = gateway.key_of(terms(1_000_000, 1_000_000 * NANOS));
    let mut spent = 0;
    for _ in 0..5 {
        let answer = gateway.send(&ask(&key, "priced", json!({}))).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        spent += line["charged"].as_u64().unwrap();
    }
    let config = gateway.config();
    let folder = gateway.killed().await;
    let gateway = Gateway::start_in(folder, config.clone()).await;
    has_used(&gateway, &key, spent, spent * NANOS).await;
    let folder = gateway.killed().await;
    let gateway = Gateway::start_in(folder, config).await;
    has_used(&gateway, &key, spent, spent * NANOS).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_plan_gives_both_and_the_check_names_models_without_a_price() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", price())
        .model("unpriced", json!(["sim/upstream-model"]))
        .model("any/*", json!(["sim"]))
        .with(
            "plans.both",
            json!({"tokens": "10k", "money": "25.00", "validity": "30d"}),
        );
    let gateway = Gateway::start(config).await;
    let key = gateway.create_key(&["--plan", "both"]).await;
    gateway
        .send(&ask(&key, "priced", json!({})))
        .await
        .assert_ok();
    let shown = usage(&gateway, &key).await;
    assert_eq!(shown["tokens"]["granted"], 10_000, "{shown}");
    assert_eq!(shown["money"]["granted"], "25", "{shown}");
    let mut command = tollgate();
    command
        .arg("check")
        .arg(gateway.folder.path().join("tollgate.yaml"));
    let check = Output::of(&mut command).await;
    assert!(check.status.success(), "{check:?}");
    let warning = check.stdout.lines().find(|it| it.starts_with("WARNING"));
    let warning = warning.unwrap_or_else(|| panic!("{check:?}"));
    assert!(
        warning.contains("'both'") && warning.contains("unpriced"),
        "{warning}"
    );
    assert!(warning.contains("any/*"), "{warning}");
    assert!(!warning.contains(" priced"), "{warning}");
}

#[tokio::test]
async fn a_place_is_not_for_keys_that_pay_in_money() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("providers.sim.formats", json!(["messages"]))
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", price());
    let gateway = Gateway::start(config).await;
    let payer = gateway.key_of(terms(0, 1_000_000 * NANOS));
    let ask = async |geo: Value, key: &str| {
        let more = json!({"max_tokens": 64, "inference_geo": geo});
        let body = prompt(MESSAGES, "priced", SAID, more);
        gateway.send(&Request::post(MESSAGES, &body).key(key)).await
    };
    let refused = ask(json!("us"), &payer).await;
    refused.assert_error(400, "invalid_request");
    assert!(refused.message().contains("'inference_geo'"), "{refused:?}");
    let more = json!({"max_tokens": 64, "provider": {"sort": "throughput"}});
    let body = prompt(MESSAGES, "priced", SAID, more);
    let refused = gateway
        .send(&Request::post(MESSAGES, &body).key(&payer))
        .await;
    refused.assert_error(400, "invalid_request");
    assert!(refused.message().contains("'provider'"), "{refused:?}");
    // The simulated provider may not know the field: the gateway sends the request.
    for (geo, key) in [(json!("global"), &payer), (json!("us"), &gateway.key)] {
        ask(geo.clone(), key).await;
        let sent: Value = serde_json::from_slice(&provider.last().body).unwrap();
        assert_eq!(sent["inference_geo"], geo);
    }
}

#[tokio::test]
async fn a_tier_that_the_configuration_sets_is_reserved_at_its_price() {
    let provider = Provider::start().await;
    let mut tiers = price();
    tiers["tiers"] = json!({"fast": 2});
    let sets = json!([{"name": "chat", "set": {"service_tier": "ultrafast"}}]);
    let config = Config::of(&provider)
        .with("providers.sim.formats", sets)
        .model("fast", json!(["sim/upstream-model"]))
        .with("models.fast.price", tiers)
        .model("slow", json!(["sim/upstream-model"]))
        .with("models.slow.price", price());
    let gateway = Gateway::start(config).await;
    let key = gateway.key_of(terms(0, 2 * (CAUTIOUS_INPUT + 90) * NANOS));
    let answer = gateway.send(&ask(&key, "fast", json!({}))).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-output-limit"), Some("90"), "{answer:?}");
    let asked: Value = serde_json::from_slice(&provider.last().body).unwrap();
    assert_eq!(asked["service_tier"], "ultrafast");
    // A key that pays in money cannot pay for it, one that pays in tokens can.
    let refused = gateway.send(&ask(&key, "slow", json!({}))).await;
    refused.assert_error(403, "permission_denied");
    let request = ask(&gateway.key, "slow", json!({}));
    gateway.send(&request).await.assert_ok();
}

#[tokio::test]
async fn a_tier_that_the_configuration_overwrites_or_removes_needs_no_price() {
    let provider = Provider::start().await;
    for chat in [
        json!({"name": "chat", "set": {"service_tier": "default"}}),
        json!({"name": "chat", "remove": ["service_tier"]}),
    ] {
        let config = Config::of(&provider)
            .with("providers.sim.formats", json!([chat]))
            .model("priced", json!(["sim/upstream-model"]))
            .with("models.priced.price", price());
        let gateway = Gateway::start(config).await;
        let key = gateway.key_of(terms(0, 1_000_000 * NANOS));
        let send = async |tier: Value| gateway.send(&ask(&key, "priced", tier)).await;
        send(json!({"service_tier": "priority"})).await.assert_ok();
        let sent: Value = serde_json::from_slice(&provider.last().body).unwrap();
        assert_ne!(sent["service_tier"], "priority", "{sent}");
        // A field with another name reaches the provider.
        let refused = send(json!({"serviceTier": "priority"})).await;
        refused.assert_error(400, "invalid_request");
    }
}
