//! Who is asked when somebody fails: health, balancing and conversations over real sockets.

#![cfg(test)]

mod support;

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use support::{
    Answer, CHAT, Config, FORMATS, Gateway, MESSAGES, Provider, RESPONSES, Request, bounded,
    closed_port, eventually, prompt, provider, provider_at,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A provider that decides on the head of each request what it answers.
struct Doorman {
    address: SocketAddr,
    heads: Arc<parking::Heads>,
}

/// What has come, for the test to look at.
mod parking {
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    pub struct Heads {
        pub refused: AtomicUsize,
        pub served: AtomicUsize,
    }

    impl Heads {
        pub fn counts(&self) -> (usize, usize) {
            let [refused, served] = [&self.refused, &self.served];
            let load = |it: &AtomicUsize| it.load(Ordering::SeqCst);
            (load(refused), load(served))
        }
    }
}

impl Doorman {
    /// Answers `refusal` to every head that `refuses`, and a chat completion to all others.
    async fn start(
        refuses: impl Fn(&str) -> bool + Send + Sync + 'static,
        refusal: &'static str,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<parking::Heads>::default();
        let (refuses, told) = (Arc::new(refuses), Arc::clone(&heads));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (refuses, told) = (Arc::clone(&refuses), Arc::clone(&told));
                tokio::spawn(async move {
                    serve(stream, &*refuses, refusal, &told).await;
                });
            }
        });
        Self { address, heads }
    }

    /// How many were refused, and how many served.
    fn counts(&self) -> (usize, usize) {
        self.heads.counts()
    }
}

async fn serve(
    mut stream: TcpStream,
    refuses: &(dyn Fn(&str) -> bool + Send + Sync),
    refusal: &str,
    heads: &parking::Heads,
) {
    use std::sync::atomic::Ordering;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |it| it.trim().parse().unwrap())];
        stream.read_exact(&mut body).await.unwrap();
        let (counter, answer) = match refuses(&head) {
            true => (&heads.refused, refusal.to_owned()),
            false => (&heads.served, completion()),
        };
        counter.fetch_add(1, Ordering::SeqCst);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn completion() -> String {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Hello", "refusal": null},
        }],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
    .to_string();
    answer("200 OK", "", &body)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}\
         content-length: {length}\r\n\r\n{body}"
    )
}

const REFUSED_KEY: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\n\
    content-length: 97\r\n\r\n{\"error\":{\"message\":\"Incorrect API key\",\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\"}}";

async fn ask(gateway: &Gateway, model: &str) -> Answer {
    gateway.ask(CHAT, model, "", json!({})).await
}

/// The breaker of a deployment, a provider or a credential, on the page of metrics.
fn breaker(whose: &str, provider: &str, deployment: &str, credential: &str) -> String {
    format!(
        "tollgate_breaker_state{{whose=\"{whose}\",provider=\"{provider}\",\
         deployment=\"{deployment}\",credential=\"{credential}\"}}"
    )
}

#[tokio::test]
async fn a_bad_key_benches_the_key_and_not_the_provider() {
    let doorman = Doorman::start(
        |head| head.contains("bearer credential-of-the-provider"),
        REFUSED_KEY,
    );
    let doorman = doorman.await;
    let keys = json!(["env:TEST_PROVIDER_KEY", "env:TEST_OTHER_KEY"]);
    let config = Config::new()
        .provider("door", provider(doorman.address))
        .with("providers.door.credentials", keys)
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
    let line = gateway.log_line("benched").await;
    assert!(line.contains("credential 'TEST_PROVIDER_KEY'"), "{line}");
    assert!(!gateway.output().contains("credential-of-the-provider"));
}

#[tokio::test]
async fn a_bad_request_benches_nobody() {
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
    let page = gateway.operator("/metrics").await.text();
    assert!(!page.contains("tollgate_benched_total{"), "{page}");
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
}

#[tokio::test]
async fn names_that_are_made_up_under_a_wildcard_bench_nobody_and_are_not_kept() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider).model("vendor/*", json!(["sim"]))).await;
    for nonsense in ["vendor/a", "vendor/b"] {
        let answer = gateway.ask(CHAT, nonsense, "status-404", json!({})).await;
        answer.assert_error(404, "invalid_model");
    }
    let page = gateway.operator("/metrics").await.text();
    let open = |line: &&str| line.starts_with("tollgate_breaker_state") && !line.ends_with(" 0");
    assert_eq!(page.lines().find(open), None);
    ask(&gateway, "vendor/real").await.assert_ok();
    let usage = gateway.get("/v1/usage").await.json();
    let of = |it: &Value| it["model"].as_str().unwrap().to_owned();
    let models: Vec<_> = usage["models"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(models, ["vendor/*", "vendor/real"]);
}

#[tokio::test]
async fn a_deployment_that_fails_is_passed_over_and_let_back_by_one_request() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 2, "cooldown": "300ms", "max_cooldown": "300ms"});
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .with("providers.b.pass_headers", json!([]))
        .with("routing.health", health)
        .model("m", json!(["a", {"provider": "b", "priority": 1}]));
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
    gateway.log_line("deployment a/m: back again").await;
}

#[tokio::test]
async fn a_429_with_a_wait_is_obeyed_and_told() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let orders = "status-429+retry-after-30";
    let answer = gateway.ask(CHAT, "test-model", orders, json!({})).await;
    answer.assert_error(429, "rate_limit_exceeded");
    let answer = ask(&gateway, "test-model").await;
    answer.assert_error(429, "rate_limit_exceeded");
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(provider.received().len(), 1, "nothing was sent in vain");
    // Counting is not what was asked too much of, where the gateway can count by itself.
    let counted = json!({"model": "test-model", "messages": [{"role": "user", "content": "Hi"}]});
    let counted = gateway.post(support::COUNT_TOKENS, &counted).await;
    counted.assert_ok();
}

#[tokio::test]
async fn after_a_429_the_other_credential_is_asked() {
    let limited = answer(
        "429 Too Many Requests",
        "retry-after: 60\r\n",
        r#"{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#,
    );
    let refusal: &'static str = limited.leak();
    let doorman = Doorman::start(|head| head.contains("another-credential"), refusal).await;
    let keys = json!(["env:TEST_PROVIDER_KEY", "env:TEST_OTHER_KEY"]);
    let config = Config::new()
        .provider("door", provider(doorman.address))
        .with("providers.door.credentials", keys)
        .model("m", json!(["door"]));
    let gateway = Gateway::start(config).await;
    for _ in 0..20 {
        ask(&gateway, "m").await.assert_ok();
    }
    assert_eq!(doorman.counts(), (1, 20));
}

/// A body large enough to be kept where its prompt cache is.
fn turn(path: &str, conversation: usize, more: &[&str]) -> Value {
    let said = format!(
        "This is conversation {conversation}. {}",
        "word ".repeat(1000)
    );
    let mut body = prompt(path, "m", &said, Value::Null);
    let list = if path == RESPONSES {
        "input"
    } else {
        "messages"
    };
    if path == RESPONSES {
        body[list] = json!([{"role": "user", "content": said}]);
    }
    for (place, text) in more.iter().enumerate() {
        let role = if place % 2 == 0 { "assistant" } else { "user" };
        let message = json!({"role": role, "content": text});
        body[list].as_array_mut().unwrap().push(message);
    }
    body
}

/// Which of the providers got the last of `count` requests.
fn who<const N: usize>(providers: &[&Provider; N], before: &mut [u64; N]) -> usize {
    let now = providers.map(|it| it.handle.counters().requests);
    let who = (0..N)
        .find(|it| now[*it] > before[*it])
        .expect("nobody was asked");
    *before = now;
    who
}

#[tokio::test]
async fn a_conversation_stays_in_every_format_and_others_go_elsewhere() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .model("m", json!(["a", "b"]));
    let gateway = Gateway::start(config).await;
    let (both, mut seen) = ([&a, &b], [0, 0]);
    for path in FORMATS {
        let mut homes = [0, 0];
        for conversation in 0..12 {
            gateway
                .post(path, &turn(path, conversation, &[]))
                .await
                .assert_ok();
            let home = who(&both, &mut seen);
            homes[home] += 1;
            let more = ["Indeed.", "And then?", "Nothing.", "Go on."];
            for length in [2, 4] {
                let body = turn(path, conversation, &more[..length]);
                gateway.post(path, &body).await.assert_ok();
                assert_eq!(
                    who(&both, &mut seen),
                    home,
                    "{path} {conversation} has moved"
                );
            }
        }
        assert!(homes.iter().all(|it| *it > 0), "{homes:?}");
    }
}

#[tokio::test]
async fn a_session_that_a_client_names_stays_whatever_it_says() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .model("m", json!(["a", "b"]));
    let gateway = Gateway::start(config).await;
    let other_key = gateway.create_key(&[]).await;
    let (both, mut seen) = ([&a, &b], [0, 0]);
    let mut homes = [0, 0];
    let mut apart = 0;
    for session in 0..16 {
        let mut home = None;
        for word in ["one", "two", "three"] {
            let session = format!("session-{session}");
            let body = prompt(MESSAGES, "m", word, Value::Null);
            let request = Request::post(MESSAGES, &body)
                .key(&gateway.key)
                .header("x-claude-code-session-id", &session);
            gateway.send(&request).await.assert_ok();
            let here = who(&both, &mut seen);
            assert_eq!(*home.get_or_insert(here), here);
            let body = prompt(RESPONSES, "m", word, json!({"prompt_cache_key": session}));
            let request = Request::post(RESPONSES, &body).key(&other_key);
            gateway.send(&request).await.assert_ok();
            apart += usize::from(who(&both, &mut seen) != here);
        }
        homes[home.unwrap()] += 1;
    }
    assert!(homes.iter().all(|it| *it > 0), "{homes:?}");
    assert!(apart > 0 && apart % 3 == 0, "keys and names mix: {apart}");
}

#[tokio::test]
async fn a_conversation_moves_when_its_place_is_down_and_comes_back_with_it() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 1, "cooldown": "200ms", "max_cooldown": "200ms"});
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .with("providers.b.pass_headers", json!([]))
        .with("routing.health", health)
        .model("m", json!(["a", "b"]));
    let gateway = Gateway::start(config).await;
    let (both, mut seen) = ([&a, &b], [0, 0]);
    let mut at_a = Vec::new();
    let mut at_b = Vec::new();
    for conversation in 0..16 {
        gateway
            .post(CHAT, &turn(CHAT, conversation, &[]))
            .await
            .assert_ok();
        match who(&both, &mut seen) {
            0 => at_a.push(conversation),
            _ => at_b.push(conversation),
        }
    }
    assert!(!at_a.is_empty() && !at_b.is_empty(), "{at_a:?} {at_b:?}");
    let state = breaker("deployment", "a", "a/m", "");
    let body = turn(CHAT, at_a[0], &[]);
    let failing = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("status-500");
    gateway.send(&failing).await.assert_ok();
    assert_eq!(gateway.sample(&state).await, Some(2.0));
    gateway
        .post(CHAT, &turn(CHAT, at_a[0], &[]))
        .await
        .assert_ok();
    seen = both.map(|it| it.handle.counters().requests);
    gateway.sample_is(&state, 1.0).await;
    for conversation in at_a {
        gateway
            .post(CHAT, &turn(CHAT, conversation, &[]))
            .await
            .assert_ok();
        assert_eq!(who(&both, &mut seen), 0, "{conversation} is not back");
    }
    for conversation in at_b {
        gateway
            .post(CHAT, &turn(CHAT, conversation, &[]))
            .await
            .assert_ok();
        assert_eq!(who(&both, &mut seen), 1, "{conversation} has moved");
    }
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
async fn a_provider_that_cannot_be_reached_is_benched_with_all_its_models() {
    let (closed, _socket) = closed_port();
    let b = Provider::start().await;
    let config = Config::new()
        .provider("a", provider(closed))
        .provider("b", provider(b.address))
        .model("m", json!(["a", {"provider": "b", "priority": 1}]))
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
async fn limits_of_a_deployment_are_kept_and_when_all_are_full_the_wait_is_told() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let limits = |limits: Value, name: &str, priority: u8| json!({"provider": name, "priority": priority, "limits": limits});
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .model(
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
    eventually("the place of who has left is free", served).await;
    assert_eq!(b.handle.counters().requests, 2, "b stays full");
}

#[tokio::test]
async fn a_single_benched_deployment_is_asked_all_the_same() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
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
async fn what_is_known_of_health_survives_a_reload() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .with("providers.b.pass_headers", json!([]))
        .with(
            "routing.health",
            json!({"consecutive_failures": 1, "cooldown": "1m"}),
        )
        .model("m", json!(["a", {"provider": "b", "priority": 1}]));
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
    gateway.log_line("provider a: benched").await;
    drop(socket);
    let back = tollgate_sim::Sim::builder();
    let rebind = async || back.clone().bind(closed).await.ok();
    let sim = eventually("the port is free", rebind).await;
    let handle = sim.handle();
    tokio::spawn(sim.serve(std::future::pending()));
    gateway.log_line("provider a: back again").await;
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
    assert_eq!(b.handle.counters().requests, 0);
}

#[tokio::test]
async fn balancing_by_latency_finds_the_faster_one() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .with("providers.b.pass_headers", json!([]))
        .with("routing.balance", json!("latency"))
        .model("m", json!(["a", "b"]));
    let gateway = Gateway::start(config).await;
    for _ in 0..20 {
        let more = json!({"stream": true});
        gateway.ask(CHAT, "m", "delay-60ms", more).await.assert_ok();
    }
    let [slow, fast] = [&a, &b].map(|it| it.handle.counters().requests);
    assert!(slow <= 2 && fast >= 18, "{slow} {fast}");
    let sample = r#"tollgate_deployment_first_token_seconds{provider="a",deployment="a/m"}"#;
    let seconds = gateway.sample(sample).await.expect("it was measured");
    assert!(seconds > 0.03, "{seconds}");
}

#[tokio::test]
async fn who_asks_is_told_why_without_a_providers_name() {
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
             left out: deployment 1 credential 1 (benched)"
        )
    );
    gateway.rewrite(config.with("routing.explain", json!("never")));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    assert_eq!(reason(&gateway.send(&explained).await), None);
}

#[tokio::test]
async fn many_at_once_share_one_probe() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let health = json!({"consecutive_failures": 1, "cooldown": "100ms", "max_cooldown": "100ms"});
    let config = Config::new()
        .provider("a", provider(a.address))
        .provider("b", provider(b.address))
        .with("providers.b.pass_headers", json!([]))
        .with("routing.health", health)
        .model("m", json!(["a", {"provider": "b", "priority": 1}]));
    let gateway = Gateway::start(config).await;
    gateway
        .ask(CHAT, "m", "status-500", json!({}))
        .await
        .assert_ok();
    gateway
        .sample_is(&breaker("deployment", "a", "a/m", ""), 1.0)
        .await;
    // The probe takes a while, and the others do not wait for it.
    let all = (0..12).map(|_| gateway.ask(CHAT, "m", "delay-300ms", json!({})));
    let answers = bounded("all answers", futures::future::join_all(all)).await;
    answers.iter().for_each(Answer::assert_ok);
    assert_eq!(
        a.handle.counters().requests,
        2,
        "one failure, and one probe"
    );
}
