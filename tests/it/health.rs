//! Breakers: which one a failure opens, what that does to candidates, and how it closes.

use crate::support::{
    self, Act, Answer, CHAT, Config, Connection, Doorman, FORMATS, Gateway, Provider, Request,
    Service, Upstream, bounded, breaker, closed_port, eventually, json_answer, prompt, provider,
    provider_at,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;

/// Answers each request with 500, one for each notification.
pub(crate) async fn failing_after(go: &Arc<Notify>) -> Service {
    let go = Arc::clone(go);
    Service::answering(move |_| {
        let failure = json_answer("500 Internal Server Error", "", "{}");
        vec![Act::Wait(Arc::clone(&go)), Act::send(failure)]
    })
    .await
}

const REFUSED_KEY: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\n\
    content-length: 97\r\n\r\n{\"error\":{\"message\":\"Incorrect API key\",\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\"}}";

async fn ask(gateway: &Gateway, model: &str) -> Answer {
    gateway.ask(CHAT, model, "", json!({})).await
}

/// A gateway whose only provider has two credentials, of which the doorman takes one.
async fn with_two_credentials(doorman: &Doorman) -> Gateway {
    let keys = json!(["env:TEST_PROVIDER_KEY", "env:TEST_OTHER_KEY"]);
    let config = Config::new()
        .provider("door", provider(doorman.address))
        .with("providers.door.credentials", keys)
        .with("routing.health", json!({"cooldown": "1m"}))
        .model("m", json!(["door"]));
    Gateway::start(config).await
}

#[tokio::test]
async fn a_bad_key_opens_the_breaker_of_the_key_and_not_of_the_provider() {
    let doorman = Doorman::start(
        |head| head.contains("bearer credential-of-the-provider"),
        REFUSED_KEY,
    );
    let doorman = doorman.await;
    let keys = json!(["env:TEST_PROVIDER_KEY", "env:TEST_OTHER_KEY"]);
    let config = Config::new()
        .provider("door", provider(doorman.address))
        .with("providers.door.credentials", keys)
        .with("routing.health", json!({"cooldown": "1m"}))
        .model("m", json!(["door"]))
        .model("n", json!(["door"]));
    let gateway = Gateway::start(config).await;
    for _ in 0..20 {
        ask(&gateway, "m").await.assert_ok();
        ask(&gateway, "n").await.assert_ok();
    }
    assert_eq!(
        doorman.counts(),
        (1, 40),
        "one refusal is enough, for all models"
    );
    let refused = breaker("credential", "door", "", "TEST_PROVIDER_KEY");
    gateway.sample_is(&refused, 2.0).await;
    for well in [
        breaker("credential", "door", "", "TEST_OTHER_KEY"),
        breaker("provider", "door", "", ""),
        breaker("deployment", "door", "door/m", ""),
    ] {
        gateway.sample_is(&well, 0.0).await;
    }
    let line = gateway.log_line("breaker opened").await;
    assert!(line.contains("credential 'TEST_PROVIDER_KEY'"), "{line}");
    assert!(!gateway.output().contains("credential-of-the-provider"));
}

/// A credential is not let use one model; what another may is asked with that one.
#[tokio::test]
async fn a_credential_that_may_not_use_a_model_is_in_cooldown_at_that_model_alone() {
    let refusal = json_answer(
        "403 Forbidden",
        "",
        r#"{"error":{"message":"Project `p` does not have access to model `m`","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
    );
    let allowed = |head: &str| head.contains("bearer credential-of-the-provider");
    let doorman = Doorman::start(allowed, refusal.leak()).await;
    let gateway = with_two_credentials(&doorman).await;
    for _ in 0..20 {
        ask(&gateway, "m").await.assert_ok();
    }
    assert_eq!(doorman.counts(), (1, 20), "one refusal is enough");
    let refused = breaker(
        "deployment_credential",
        "door",
        "door/m",
        "TEST_PROVIDER_KEY",
    );
    gateway.sample_is(&refused, 2.0).await;
    for well in [
        breaker("deployment_credential", "door", "door/m", "TEST_OTHER_KEY"),
        breaker("credential", "door", "", "TEST_PROVIDER_KEY"),
        breaker("deployment", "door", "door/m", ""),
    ] {
        gateway.sample_is(&well, 0.0).await;
    }
}

#[tokio::test]
async fn a_request_that_a_firewall_of_the_provider_blocks_opens_no_breaker() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for path in FORMATS {
        let blocked = gateway.ask(path, "test-model", "html-403", json!({})).await;
        blocked.assert_error(502, "upstream_error");
        ask(&gateway, "test-model").await.assert_ok();
    }
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
}

#[tokio::test]
async fn a_bad_request_opens_no_breaker() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for path in FORMATS {
        for status in ["400", "413", "422"] {
            for _ in 0..6 {
                let orders = format!("status-{status}");
                let answer = gateway.ask(path, "test-model", &orders, json!({})).await;
                assert!(answer.status >= 400, "{answer:?}");
            }
        }
    }
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
}

#[tokio::test]
async fn words_of_a_caller_that_its_provider_repeats_open_no_breaker() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let gateway = Gateway::start(Config::first_and_second(a.address, b.address)).await;
    let words = [
        "exceeded your current quota",
        "incorrect api key",
        "unknown model",
    ];
    for path in FORMATS {
        for words in words {
            let asked = json!({words: 1});
            let answer = gateway.ask(path, "m", "", asked).await;
            assert_eq!(answer.status, 400, "{path} {words}: {answer:?}");
            assert_eq!(answer.header("x-attempts"), None, "{path} {words}");
        }
    }
    assert_eq!(gateway.total("tollgate_breaker_opened_total").await, 0.0);
    assert_eq!((a.received().len(), b.received().len()), (9, 0));
}

#[tokio::test]
async fn made_up_names_under_a_wildcard_open_no_breaker_and_are_not_kept() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider).model("vendor/*", json!(["sim"]))).await;
    for (nonsense, fault, status, code) in [
        ("vendor/a", "status-404", 404, "invalid_model"),
        ("vendor/b", "status-404", 404, "invalid_model"),
        ("vendor/forbidden", "status-403", 502, "upstream_error"),
    ] {
        let answer = gateway.ask(CHAT, nonsense, fault, json!({})).await;
        answer.assert_error(status, code);
    }
    let page = gateway.operator("/metrics").await.text();
    let open = |line: &&str| line.starts_with("tollgate_breaker_state") && !line.ends_with(" 0");
    assert_eq!(page.lines().find(open), None);
    ask(&gateway, "vendor/real").await.assert_ok();
    let history = eventually("all records", async || {
        let history = gateway.get("/v1/usage/history").await.json();
        let records = history["data"].as_array().unwrap().len();
        (records >= 4).then_some(history)
    })
    .await;
    let usage = gateway.get("/v1/usage").await.json();
    let of = |it: &Value| it["model"].as_str().unwrap().to_owned();
    let models: Vec<_> = usage["models"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(models, ["vendor/*"]);
    // Failures and answers are named alike.
    let named: Vec<_> = history["data"].as_array().unwrap().iter().collect();
    assert_eq!(named.len(), 4, "{history}");
    for record in named {
        assert_eq!(record["model_served"], "vendor/*", "{history}");
    }
    assert_eq!(
        history["data"][0]["model_asked"], "vendor/real",
        "{history}"
    );
}

#[tokio::test]
async fn if_all_candidates_are_in_cooldown_each_is_asked_once_and_none_is_left_out() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let cooldown = |span| json!({"cooldown": span, "max_cooldown": span});
    let config = Config::first_and_second(a.address, b.address)
        .with("providers.a.health", cooldown("1m"))
        .with("providers.b.health", cooldown("1h"))
        .model("refused", json!(["a/sim-status-401", "b/sim-status-401"]));
    let gateway = Gateway::start(config).await;
    let refused = ask(&gateway, "refused").await;
    assert_eq!(refused.header("x-attempts"), Some("2"), "{refused:?}");
    let explained = async |orders| {
        let body = prompt(CHAT, "m", "Hello!", Value::Null);
        let request = Request::post(CHAT, &body).key(&gateway.key);
        let request = request.orders(orders).header("x-explain", "1");
        let answer = gateway.send(&request).await;
        answer.assert_ok();
        let header = |name| answer.header(name).map(str::to_owned);
        (header("x-attempts"), header("x-route-reason").unwrap())
    };
    // The cooldown of the first credential ends first, so it is asked first.
    let (attempts, reason) = explained("status-500").await;
    assert_eq!(attempts.as_deref(), Some("2"), "the other is well");
    assert_eq!(reason, "deployment 2 credential 1: last resort");
    assert_eq!((a.received().len(), b.received().len()), (2, 2));
}

#[tokio::test]
async fn a_deployment_behind_eight_credentials_is_asked() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let credentials: Vec<_> = (0..8)
        .map(|n| json!({"name": format!("k{n}"), "secret": "env:TEST_PROVIDER_KEY"}))
        .collect();
    let config = Config::first_and_second(a.address, b.address)
        .with("providers.a.credentials", json!(credentials));
    let gateway = Gateway::start(config).await;
    let answer = gateway.ask(CHAT, "m", "status-500", json!({})).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-attempts"), Some("2"), "{answer:?}");
    assert_eq!((a.received().len(), b.received().len()), (1, 1));
}

/// Another request has taken the probe, and the last candidate does not take the request.
#[tokio::test]
async fn a_candidate_whose_probe_is_taken_is_the_last_resort() {
    let go = Arc::new(Notify::new());
    let first = failing_after(&go).await;
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 1, "cooldown": "100ms", "max_cooldown": "100ms"});
    let config = Config::first_and_second(a.address, b.address)
        .with("failover", json!({"again": 0}))
        .with("providers.a.health", health)
        .with("providers.b.formats", json!(["messages"]))
        .provider("first", provider(first.address))
        .model("alone", json!(["a/x"]))
        .model(
            "m",
            json!([
                "first",
                {"provider": "a", "upstream_model": "x", "priority": 1},
                {"provider": "b", "priority": 2},
            ]),
        );
    let gateway = Arc::new(Gateway::start(config).await);
    let failed = gateway.ask(CHAT, "alone", "status-500", json!({})).await;
    failed.assert_error(502, "upstream_error");
    let state = breaker("deployment", "a", "a/x", "");
    gateway.sample_is(&state, 1.0).await;
    let asked = {
        let gateway = Arc::clone(&gateway);
        // A provider of messages gives one answer.
        tokio::spawn(async move { gateway.ask(CHAT, "m", "", json!({"n": 2})).await })
    };
    let come = async || (!first.seen().is_empty()).then_some(());
    eventually("the first attempt", come).await;
    let probe = {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { gateway.ask(CHAT, "alone", "hang", json!({})).await })
    };
    a.when("the probe", |it| it.requests == 2).await;
    go.notify_one();
    let answer = bounded("the answer", asked).await.unwrap();
    answer.assert_ok();
    assert_eq!((a.received().len(), b.received().len()), (3, 0));
    probe.abort();
}

#[tokio::test]
async fn a_callers_wait_is_no_longer_than_that_of_the_gateway() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("routing.health.max_retry_after", json!("20s"));
    let gateway = Gateway::start(config).await;
    let orders = "status-429+retry-after-50000";
    let answer = gateway.ask(CHAT, "test-model", orders, json!({})).await;
    answer.assert_error(429, "rate_limit_exceeded");
    assert_eq!(answer.header("retry-after"), Some("20"));
    let answer = ask(&gateway, "test-model").await;
    answer.assert_error(429, "rate_limit_exceeded");
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait), "{answer:?}");
}

#[tokio::test]
async fn a_callers_wait_is_no_longer_than_that_of_the_gateway_if_no_breaker_opens() {
    let provider = Provider::start().await;
    let health = json!({"enabled": false, "max_retry_after": "20s"});
    let config = Config::of(&provider).with("routing.health", health);
    let gateway = Gateway::start(config).await;
    for status in [429, 503] {
        let orders = format!("status-{status}+retry-after-50000");
        let answer = gateway.ask(CHAT, "test-model", &orders, json!({})).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("20"));
    }
}

#[tokio::test]
async fn a_deployment_that_fails_is_passed_over_and_let_back_by_one_request() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 2, "cooldown": "3s", "max_cooldown": "3s"});
    let config = Config::first_and_second(a.address, b.address).with("routing.health", health);
    let gateway = Gateway::start(config).await;
    for _ in 0..2 {
        let answer = gateway.ask(CHAT, "m", "status-500", json!({})).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("2"));
    }
    let answer = ask(&gateway, "m").await;
    assert_eq!(answer.header("x-attempts"), None, "it is passed over");
    assert_eq!((a.received().len(), b.received().len()), (2, 3));
    let state = breaker("deployment", "a", "a/m", "");
    gateway.sample_is(&state, 1.0).await;
    ask(&gateway, "m").await.assert_ok();
    gateway.sample_is(&state, 0.0).await;
    assert_eq!((a.received().len(), b.received().len()), (3, 3));
    gateway.log_line("deployment a/m: breaker closed").await;
}

#[tokio::test]
async fn many_at_once_share_one_probe() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 1, "cooldown": "100ms", "max_cooldown": "100ms"});
    let config = Config::first_and_second(a.address, b.address).with("routing.health", health);
    let gateway = Gateway::start(config).await;
    gateway
        .ask(CHAT, "m", "status-500", json!({}))
        .await
        .assert_ok();
    gateway
        .sample_is(&breaker("deployment", "a", "a/m", ""), 1.0)
        .await;
    // The probe takes a while, and the others do not wait for it.
    let all = (0..12).map(|_| gateway.ask(CHAT, "m", "delay-3000ms", json!({})));
    let answers = bounded("all answers", futures::future::join_all(all)).await;
    answers.iter().for_each(Answer::assert_ok);
    assert_eq!(
        a.handle.counters().requests,
        2,
        "one failure, and one probe"
    );
}
#[tokio::test]
async fn a_429_with_a_wait_is_obeyed_and_passed_on() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let orders = "status-429+retry-after-30";
    let answer = gateway.ask(CHAT, "test-model", orders, json!({})).await;
    answer.assert_error(429, "rate_limit_exceeded");
    let answer = ask(&gateway, "test-model").await;
    answer.assert_error(429, "rate_limit_exceeded");
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(provider.received().len(), 1, "no further request was sent");
    // Counting is not what was asked too much of, where the gateway can count by itself.
    let counted = json!({"model": "test-model", "messages": [{"role": "user", "content": "Hi"}]});
    let counted = gateway.post(support::COUNT_TOKENS, &counted).await;
    counted.assert_ok();
}

#[tokio::test]
async fn a_wait_beside_a_500_or_a_403_keeps_no_other_request_away() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let fail = async |status: u16| {
        let orders = format!("status-{status}+retry-after-60");
        let answer = gateway.ask(CHAT, "test-model", &orders, json!({})).await;
        answer.assert_error(502, "upstream_error");
    };
    fail(500).await;
    let deployment = breaker("deployment", "sim", "sim/upstream-model", "");
    gateway.sample_is(&deployment, 0.0).await;
    fail(403).await;
    ask(&gateway, "test-model").await.assert_ok();
}

#[tokio::test]
async fn after_a_429_the_other_credential_is_asked() {
    let limited = json_answer(
        "429 Too Many Requests",
        "retry-after: 60\r\n",
        r#"{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#,
    );
    let refusal: &'static str = limited.leak();
    let doorman = Doorman::start(|head| head.contains("another-credential"), refusal).await;
    let gateway = with_two_credentials(&doorman).await;
    for _ in 0..20 {
        ask(&gateway, "m").await.assert_ok();
    }
    assert_eq!(doorman.counts(), (1, 20));
}

#[tokio::test]
async fn a_provider_that_has_no_address_costs_no_request() {
    let b = Provider::start().await;
    let config = Config::new()
        .provider("a", provider_at("http://nowhere.invalid:81"))
        .provider("b", provider(b.address))
        .model("m", json!(["a", {"provider": "b", "priority": 1}]))
        .model("alone", json!(["a"]));
    let gateway = Gateway::start(config).await;
    for _ in 0..8 {
        let answer = ask(&gateway, "m").await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), None);
    }
    ask(&gateway, "alone")
        .await
        .assert_error(503, "service_unavailable");
}

#[tokio::test]
async fn an_unreachable_provider_is_in_cooldown_with_all_its_models() {
    let (closed, _socket) = closed_port();
    let b = Provider::start().await;
    let config = Config::first_and_second(closed, b.address)
        .with("routing.health", json!({"cooldown": "1m"}))
        .model("n", json!(["a", {"provider": "b", "priority": 1}]));
    let gateway = Gateway::start(config).await;
    for _ in 0..5 {
        assert_eq!(ask(&gateway, "m").await.header("x-attempts"), Some("2"));
    }
    gateway
        .sample_is(&breaker("provider", "a", "", ""), 2.0)
        .await;
    let answer = ask(&gateway, "n").await;
    answer.assert_ok();
    assert_eq!(answer.header("x-attempts"), None);
}

#[tokio::test]
async fn a_single_deployment_in_cooldown_is_still_asked() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("routing.health", json!({"cooldown": "1m"}));
    let gateway = Gateway::start(config).await;
    for _ in 0..8 {
        let answer = gateway
            .ask(CHAT, "test-model", "status-500", json!({}))
            .await;
        answer.assert_error(502, "upstream_error");
    }
    gateway
        .sample_is(&breaker("deployment", "sim", "sim/upstream-model", ""), 2.0)
        .await;
    ask(&gateway, "test-model").await.assert_ok();
    gateway
        .sample_is(&breaker("deployment", "sim", "sim/upstream-model", ""), 0.0)
        .await;
}

#[tokio::test]
async fn health_survives_a_reload() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::first_and_second(a.address, b.address).with(
        "routing.health",
        json!({"consecutive_failures": 1, "cooldown": "1m"}),
    );
    let gateway = Gateway::start(config.clone()).await;
    gateway
        .ask(CHAT, "m", "status-500", json!({}))
        .await
        .assert_ok();
    gateway.rewrite(config.model("new", json!(["b"])));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    ask(&gateway, "new").await.assert_ok();
    let answer = ask(&gateway, "m").await;
    answer.assert_ok();
    assert_eq!(answer.header("x-attempts"), None, "{answer:?}");
    assert_eq!(a.received().len(), 1);
}

#[tokio::test]
async fn a_check_goes_by_the_answer_and_not_by_what_comes_before_it() {
    let said = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n";
    let upstream = Upstream::playing([Act::send(said)]).await;
    let config = Config::new()
        .provider("a", provider(upstream.address))
        .with(
            "providers.a.check",
            json!({"path": "/health", "every": "100ms"}),
        )
        .model("m", json!(["a"]));
    let gateway = Gateway::start(config).await;
    gateway
        .sample_is(&breaker("provider", "a", "", ""), 2.0)
        .await;
}

#[tokio::test]
async fn a_check_finds_a_provider_down_and_back_before_any_request_does() {
    let (closed, socket) = closed_port();
    let b = Provider::start().await;
    let config = Config::new()
        .provider("a", provider(closed))
        .with(
            "providers.a.check",
            json!({"path": "/v1/models", "every": "50ms"}),
        )
        .with(
            "routing.health",
            json!({"cooldown": "100ms", "max_cooldown": "100ms"}),
        )
        .provider("b", provider(b.address))
        .model("m", json!(["a", {"provider": "b", "priority": 1}]));
    let gateway = Gateway::start(config).await;
    gateway.log_line("provider a: breaker opened").await;
    // Cooldowns end meanwhile, and no request is spent on finding out.
    let since = std::time::Instant::now();
    while since.elapsed() < std::time::Duration::from_secs(1) {
        let answer = ask(&gateway, "m").await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), None, "{answer:?}");
    }
    let before = b.handle.counters().requests;
    drop(socket);
    let back = tollgate_sim::Sim::builder();
    let rebind = async || back.clone().bind(closed).await.ok();
    let sim = eventually("the port is free", rebind).await;
    let handle = sim.handle();
    tokio::spawn(sim.serve(std::future::pending()));
    gateway.log_line("provider a: breaker closed").await;
    let first = handle.received();
    assert!(first.iter().all(|it| it.uri.path() == "/v1/models"));
    assert!(
        first
            .iter()
            .all(|it| !it.headers.contains_key("authorization"))
    );
    gateway
        .sample_is(&breaker("provider", "a", "", ""), 0.0)
        .await;
    let answer = ask(&gateway, "m").await;
    answer.assert_ok();
    assert_eq!(answer.header("x-attempts"), None);
    assert_eq!(b.handle.counters().requests, before);
}

/// What the admin API shows of all health.
async fn health(gateway: &Gateway) -> Value {
    let request =
        Request::get("/api/v1/health").header("authorization", &format!("Bearer {TOKEN}"));
    let answer = Connection::open(gateway.admin).await.send(&request).await;
    answer.assert_ok();
    answer.json()
}

const TOKEN: &str = "the-token-of-an-operator-in-tests";

/// The one of `list` with this name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut all = list.as_array().unwrap().iter();
    let found = all.find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {list}"))
}

#[tokio::test]
async fn the_health_page_shows_open_breakers_with_time_and_cause_and_no_secret() {
    let doorman = Doorman::start(
        |head| head.contains("bearer credential-of-the-provider"),
        REFUSED_KEY,
    );
    let doorman = doorman.await;
    let (closed, _socket) = closed_port();
    let well = Provider::start().await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let keys = json!(["env:TEST_PROVIDER_KEY", "env:TEST_OTHER_KEY"]);
    let config = Config::new()
        .provider("door", provider(doorman.address))
        .with("providers.door.credentials", keys)
        .provider("gone", provider(closed))
        .provider("well", provider(well.address))
        .with("admin.token", json!("file:token"))
        .with(
            "routing.health",
            json!({"consecutive_failures": 2, "cooldown": "1m"}),
        )
        .model("m", json!(["door"]))
        .model("n", json!(["gone", {"provider": "well", "priority": 1}]))
        .model("other", json!(["well/n"]));
    let gateway = Gateway::start_in(folder, config).await;
    let fresh = health(&gateway).await;
    for list in ["providers", "deployments"] {
        for one in fresh[list].as_array().unwrap() {
            assert_eq!(one["breaker"]["state"], "closed", "{one}");
            assert_eq!(one["breaker"]["since"], Value::Null, "{one}");
            assert_eq!(one["breaker"]["last_failure"], Value::Null, "{one}");
        }
    }
    for _ in 0..8 {
        ask(&gateway, "m").await.assert_ok();
        ask(&gateway, "n").await.assert_ok();
    }
    let more = json!({"stream": true});
    gateway.ask(CHAT, "n", "delay-60ms", more).await.assert_ok();
    let mut hanging = gateway.connect().await;
    let body = prompt(CHAT, "n", "Hello!", Value::Null);
    let request = Request::post(CHAT, &body).key(&gateway.key).orders("hang");
    hanging.write(&request.bytes()).await;
    well.when("it is under way", |it| it.open_answers == 1)
        .await;

    let seen = health(&gateway).await;
    let provider = |name| named(&seen["providers"], name);
    let refused = named(&provider("door")["credentials"], "TEST_PROVIDER_KEY");
    let breaker = &refused["breaker"];
    assert_eq!(breaker["state"], "open", "{seen:#}");
    assert_eq!(breaker["last_failure"]["class"], "credential", "{seen:#}");
    assert!(breaker["since"].as_str() > fresh["at"].as_str(), "{seen:#}");
    let left = breaker["cooldown_left_ms"].as_u64().unwrap();
    assert!((30_000..=75_000).contains(&left), "{seen:#}");
    let good = named(&provider("door")["credentials"], "TEST_OTHER_KEY");
    assert_eq!(good["breaker"]["state"], "closed", "{seen:#}");
    assert_eq!(provider("gone")["breaker"]["state"], "open", "{seen:#}");
    let failure = &provider("gone")["breaker"]["last_failure"];
    assert_eq!(failure["class"], "unreachable", "{seen:#}");
    assert_eq!(provider("gone")["addresses"], json!([closed.to_string()]));
    let busy = named(&seen["deployments"], "well/n");
    assert_eq!(busy["breaker"]["state"], "closed", "{seen:#}");
    assert_eq!(
        (&busy["in_flight"], &busy["models"]),
        (&json!(1), &json!(["n", "other"]))
    );
    assert_eq!(busy["credentials"][0]["in_flight"], 1, "{seen:#}");
    assert!(busy["first_token_ms"].as_f64() > Some(30.0), "{seen:#}");
    let reported = seen.to_string();
    for secret in ["credential-of-the-provider", "another-credential", TOKEN] {
        assert!(!reported.contains(secret), "{secret}: {reported}");
    }
}
