//! The choice among several candidates: the faster one, the one with room, and the reason.

use crate::health::failing_after;
use crate::support::{
    Answer, CHAT, Config, Connection, Gateway, Provider, Request, bounded, eventually, prompt,
    provider, provider_at,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::Notify;

async fn ask(gateway: &Gateway, model: &str) -> Answer {
    gateway.ask(CHAT, model, "", json!({})).await
}

#[tokio::test]
async fn balancing_by_latency_finds_the_faster_one() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config =
        Config::side_by_side(a.address, b.address).with("routing.balance", json!("latency"));
    let gateway = Gateway::start(config).await;
    for _ in 0..20 {
        let more = json!({"stream": true});
        let orders = "delay-2000ms";
        gateway.ask(CHAT, "m", orders, more).await.assert_ok();
    }
    let [slow, fast] = [&a, &b].map(|it| it.handle.counters().requests);
    assert!(slow <= 2 && fast >= 18, "{slow} {fast}");
    let sample = r#"tollgate_deployment_first_token_seconds{provider="a",deployment="a/m"}"#;
    let seconds = gateway.sample(sample).await.expect("it was measured");
    assert!(seconds > 1.0, "{seconds}");
}

#[tokio::test]
async fn limits_of_a_deployment_are_kept_and_if_all_are_full_the_client_gets_the_wait() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let limits = |limits: Value, name: &str, priority: u8| json!({"provider": name, "priority": priority, "limits": limits});
    let config = Config::first_and_second(a.address, b.address).model(
        "m",
        json!([
            limits(json!({"in_flight": 1}), "a", 0),
            limits(json!({"requests_per_minute": 2}), "b", 1),
        ]),
    );
    let gateway = Arc::new(Gateway::start(config).await);
    let hanging = {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { gateway.ask(CHAT, "m", "hang", json!({})).await })
    };
    a.when("a request hangs", |it| it.requests == 1).await;
    for _ in 0..2 {
        ask(&gateway, "m").await.assert_ok();
    }
    assert_eq!(a.handle.counters().requests, 1);
    let answer = ask(&gateway, "m").await;
    answer.assert_error(503, "service_unavailable");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    gateway
        .sample_is(
            r#"tollgate_deployment_in_flight{provider="a",deployment="a/m"}"#,
            1.0,
        )
        .await;
    hanging.abort();
    let served = async || {
        let answer = ask(&gateway, "m").await;
        (answer.status == 200).then_some(())
    };
    eventually("the place of the caller that left is free", served).await;
    assert_eq!(b.handle.counters().requests, 2, "b stays full");
}

/// The second candidate has filled up since the plan was made.
#[tokio::test]
async fn a_candidate_that_was_full_at_its_turn_was_not_asked() {
    let go = Arc::new(Notify::new());
    let first = failing_after(&go).await;
    let second = Provider::start().await;
    let limited =
        json!({"provider": "b", "upstream_model": "x", "priority": 1, "limits": {"in_flight": 1}});
    let config = Config::first_and_second(first.address, second.address)
        // With the header that makes a request hang.
        .provider("b", provider(second.address))
        .model("alone", json!([limited]))
        .model("m", json!(["a", limited]));
    let gateway = Arc::new(Gateway::start(config).await);
    let send = |request: Request| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { gateway.send(&request).await })
    };
    let body = prompt(CHAT, "m", "Hello!", Value::Null);
    let explained = Request::post(CHAT, &body).key(&gateway.key);
    let asked = send(explained.header("x-explain", "1"));
    let come = async || (!first.seen().is_empty()).then_some(());
    eventually("the first attempt", come).await;
    let body = prompt(CHAT, "alone", "Hello!", Value::Null);
    let hanging = send(Request::post(CHAT, &body).key(&gateway.key).orders("hang"));
    second.when("a request hangs", |it| it.requests == 1).await;
    go.notify_one();
    let answer = bounded("the answer", asked).await.unwrap();
    answer.assert_error(502, "upstream_error");
    let reason = answer.header("x-route-reason").unwrap();
    assert!(reason.starts_with("deployment 1 "), "{reason}");
    let line = gateway.access_line(|line| line["model"] == "m").await;
    assert_eq!(
        (&line["provider"], &line["attempts"]),
        (&json!("a"), &json!(1))
    );
    hanging.abort();
}

const TOKEN: &str = "0123456789abcdef-the-token-of-the-tests";

/// A gateway with a token for operators.
async fn with_dashboard(config: Config) -> Gateway {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    Gateway::start_in(folder, config.with("admin.token", json!("file:token"))).await
}

/// What the dashboard shows of the request with this answer.
async fn shown(gateway: &Gateway, answer: &Answer) -> Value {
    let id = answer.header("x-request-id").unwrap();
    let request = Request::get(&format!("/api/v1/dashboard/requests/{id}")).key(TOKEN);
    let shown = async || {
        let answer = Connection::open(gateway.admin).await.send(&request).await;
        (answer.status == 200).then(|| answer.json()["recent"].clone())
    };
    eventually("the request in the dashboard", shown).await
}

#[tokio::test]
async fn the_dashboard_names_a_deployment_that_has_no_address() {
    let config = Config::new()
        .provider("a", provider_at("http://nowhere.invalid:81"))
        .model("m", json!(["a"]));
    let gateway = with_dashboard(config).await;
    let answer = ask(&gateway, "m").await;
    answer.assert_error(503, "service_unavailable");
    let shown = shown(&gateway, &answer).await;
    assert_eq!(shown["attempts"], 0, "{shown}");
    let failed = &shown["failed"][0];
    assert_eq!(
        (&failed["deployment"], &failed["class"]),
        (&json!("a/m"), &json!("unreachable"))
    );
}

#[tokio::test]
async fn the_dashboard_names_the_candidates_of_a_request_for_which_all_are_full() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let limited = |name: &str| json!({"provider": name, "limits": {"requests_per_minute": 1}});
    let config = Config::first_and_second(a.address, b.address)
        .model("m", json!([limited("a"), limited("b")]));
    let gateway = with_dashboard(config).await;
    let mut routes = Vec::new();
    for status in [200, 200, 429] {
        let answer = ask(&gateway, "m").await;
        assert_eq!(answer.status, status, "{answer:?}");
        routes.push(shown(&gateway, &answer).await["route"].clone());
    }
    assert_eq!(routes[0], Value::Null);
    let full = |deployment| format!("{deployment}/m credential TEST_PROVIDER_KEY (full)");
    let [a, b] = ["a", "b"].map(full);
    let one = routes[1].as_str().unwrap();
    let is_other_full = [&a, &b].map(|it| one.ends_with(&format!("; left out: {it}")));
    assert!(is_other_full.contains(&true), "{one}");
    assert_eq!(routes[2], format!("left out: {a}, {b}"));
}

#[tokio::test]
async fn a_client_that_asks_gets_the_reason_without_a_providers_name() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::new()
        .provider("first-provider", provider(a.address))
        .provider("other-provider", provider(b.address))
        .with(
            "routing.health",
            json!({"consecutive_failures": 1, "cooldown": "1m"}),
        )
        .with("providers.other-provider.pass_headers", json!([]))
        .model(
            "m",
            json!(["first-provider", {"provider": "other-provider", "priority": 1}]),
        );
    let gateway = Gateway::start(config.clone()).await;
    let body = prompt(CHAT, "m", "Hello!", Value::Null);
    let plain = Request::post(CHAT, &body).key(&gateway.key);
    let explained = plain.clone().header("x-explain", "1");
    assert_eq!(gateway.send(&plain).await.header("x-route-reason"), None);
    let reason = |answer: &Answer| answer.header("x-route-reason").map(str::to_owned);
    assert_eq!(
        reason(&gateway.send(&explained).await).as_deref(),
        Some("deployment 1 credential 1: only one of its rank")
    );
    gateway
        .send(&plain.clone().orders("status-500"))
        .await
        .assert_ok();
    assert_eq!(
        reason(&gateway.send(&explained).await).as_deref(),
        Some(
            "deployment 2 credential 1: only one of its rank; \
             left out: deployment 1 credential 1 (in cooldown)"
        )
    );
    gateway.rewrite(config.with("routing.explain", json!("never")));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    assert_eq!(reason(&gateway.send(&explained).await), None);
}
