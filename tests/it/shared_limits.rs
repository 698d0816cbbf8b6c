//! Limits of keys that several gateways share.

use crate::support::{
    Answer, Authority, CHAT, Config, Gateway, LONG, Output, Postgres, Provider, Redis, Request,
    eventually, in_front_of, prompt, tollgate,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Two gateways on one database, and a provider.
struct Pair {
    database: Postgres,
    provider: Provider,
    gateways: [Gateway; 2],
}

impl Pair {
    /// Gateways with this section `limits`. `None` if PostgreSQL is not installed.
    async fn with(limits: Value) -> Option<Self> {
        let database = Postgres::start()?;
        let provider = Provider::start().await;
        let url = database.url(Postgres::PASSWORD, "tollgate");
        let start = async |is_first: bool| {
            let folder = TempDir::new().unwrap();
            std::fs::write(folder.path().join("url"), &url).unwrap();
            let store = json!({
                "path": "ledger",
                "postgres": {"url": "file:url", "ca": database.ca(), "lease_term": "6s"},
            });
            let config = Config::of(&provider)
                .with("store", store)
                .with("limits", limits.clone());
            if is_first {
                let done = run(&config, &["ledger", "migrate"], &folder).await;
                assert!(done.status.success(), "{done:?}");
            }
            Gateway::start_in(folder, config).await
        };
        let gateways = [start(true).await, start(false).await];
        Some(Self {
            database,
            provider,
            gateways,
        })
    }

    async fn through(redis: &Redis) -> Option<Self> {
        let url = redis.url(Redis::PASSWORD);
        let pair = Self::with(json!({"shared": {"url": url, "timeout": "500ms"}})).await?;
        pair.are_shared(1.0).await;
        Some(pair)
    }

    async fn are_shared(&self, value: f64) {
        for gateway in &self.gateways {
            gateway.sample_is("tollgate_limits_shared", value).await;
        }
    }

    async fn key(&self, limits: &[&str]) -> String {
        let key = self.gateways[0].create_key(&[]).await;
        let arguments = [&["set-limits", &key], limits].concat();
        let output = self.gateways[0].keys(&arguments).await;
        assert!(output.status.success(), "{output:?}");
        key
    }

    /// So many requests by turns; how many were let through.
    async fn admitted(&self, key: &str, requests: usize) -> usize {
        let mut admitted = 0;
        for place in 0..requests {
            let answer = ask(&self.gateways[place % 2], key).await;
            match answer.status {
                200 => admitted += 1,
                429 => {}
                other => panic!("{other}: {answer:?}"),
            }
        }
        admitted
    }
}

async fn run(config: &Config, arguments: &[&str], folder: &TempDir) -> Output {
    let file = folder.path().join("command.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    Output::of(tollgate().args(arguments).arg("--config").arg(file)).await
}

async fn ask(gateway: &Gateway, key: &str) -> Answer {
    let body = prompt(CHAT, "test-model", "Hi", json!({"max_tokens": 20}));
    gateway.send(&Request::post(CHAT, &body).key(key)).await
}

#[tokio::test]
async fn two_gateways_share_a_limit_and_show_what_both_have_used() {
    let Some(redis) = Redis::start() else { return };
    let Some(pair) = Pair::through(&redis).await else {
        return;
    };
    let key = pair.key(&["--requests", "5"]).await;
    let mut left = Vec::new();
    for place in 0..5 {
        let answer = ask(&pair.gateways[place % 2], &key).await;
        answer.assert_ok();
        left.push(
            answer
                .header("x-ratelimit-remaining-requests")
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(left, ["4", "3", "2", "1", "0"]);
    for gateway in &pair.gateways {
        let refused = ask(gateway, &key).await;
        refused.assert_error(429, "rate_limit_exceeded");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
    }
}

#[tokio::test]
async fn the_server_goes_and_comes_back_and_requests_go_on() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let Some(pair) = Pair::through(&redis).await else {
        return;
    };
    redis.kill();
    let key = pair.key(&["--requests", "10"]).await;
    // A half of the limit for each.
    assert_eq!(pair.admitted(&key, 20).await, 10);
    pair.are_shared(0.0).await;
    for gateway in &pair.gateways {
        gateway.log_line("limits are not shared").await;
    }
    redis.restart();
    pair.are_shared(1.0).await;
    let key = pair.key(&["--requests", "7"]).await;
    assert_eq!(pair.admitted(&key, 20).await, 7);
    let fallbacks = pair.gateways[0]
        .sample("tollgate_limits_fallbacks_total")
        .await;
    assert_eq!(fallbacks, Some(1.0));
}

#[tokio::test]
async fn a_gateway_that_is_killed_leaves_its_slots() {
    let Some(redis) = Redis::start() else { return };
    let Some(pair) = Pair::through(&redis).await else {
        return;
    };
    let key = pair.key(&["--concurrent", "1"]).await;
    let [one, two] = pair.gateways;
    let body = prompt(CHAT, "test-model", "Hi", json!({"max_tokens": 20}));
    let slow = Request::post(CHAT, &body).key(&key).orders("delay-60000ms");
    let mut connection = one.connect().await;
    connection.write(&slow.bytes()).await;
    eventually("the slot is taken", async || {
        (ask(&two, &key).await.status == 429).then_some(())
    })
    .await;
    let _folder = one.killed().await;
    let begun = Instant::now();
    eventually("the slot is free", async || {
        (ask(&two, &key).await.status == 200).then_some(())
    })
    .await;
    // The lease of a gateway.
    assert!(
        begun.elapsed() < Duration::from_secs(11),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn without_a_server_each_gateway_has_its_share_unless_it_has_everything() {
    for (limits, sum) in [(json!({}), 10), (json!({"per_node": true}), 20)] {
        let Some(pair) = Pair::with(limits).await else {
            return;
        };
        let key = pair.key(&["--requests", "10"]).await;
        // The first one sees the second one within a second.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(pair.admitted(&key, 30).await, sum);
        assert_eq!(
            pair.gateways[0].sample("tollgate_limits_shared").await,
            None
        );
        drop(pair.database);
        drop(pair.provider);
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_server_is_said_in_one_line_without_its_password() {
    let Some(redis) = Redis::start() else { return };
    let (folder, provider) = (TempDir::new().unwrap(), Provider::start().await);
    let shared = |url: &str| Config::of(&provider).with("limits", json!({"shared": {"url": url}}));
    let check = async |config: &Config| run(config, &["check", "--online"], &folder).await;
    let expect = |output: Output, words: &str| {
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains(words), "{words}: {output:?}");
        assert!(!output.stderr.contains(Redis::PASSWORD), "{output:?}");
        assert_eq!(output.stderr.trim().lines().count(), 1, "{output:?}");
    };
    let right = redis.url(Redis::PASSWORD);
    let good = check(&shared(&right)).await;
    assert!(good.status.success(), "{good:?}");
    expect(
        check(&shared(&redis.url("wrong"))).await,
        "user or the password",
    );
    expect(
        check(&shared("redis://127.0.0.1:1")).await,
        "cannot be reached",
    );
    let encrypted = right.replace("redis:", "rediss:");
    expect(check(&shared(&encrypted)).await, "does not support TLS");
    expect(check(&shared("http://127.0.0.1")).await, "redis://USER");
    let both = shared(&right).with("limits.per_node", json!(true));
    expect(check(&both).await, "leave out one of the two");
    // The other way round, and an authority that is not named.
    let authority = Authority::new();
    let to = ([127, 0, 0, 1], redis.port).into();
    let front = in_front_of(to, &authority.issue("localhost")).await.port();
    let url = |scheme: &str| format!("{scheme}://:{}@localhost:{front}", Redis::PASSWORD);
    expect(check(&shared(&url("rediss"))).await, "limits.shared.ca");
    expect(check(&shared(&url("redis"))).await, "rediss://");
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let trusted = shared(&url("rediss")).with("limits.shared.ca", json!("ca.pem"));
    let good = check(&trusted).await;
    assert!(good.status.success(), "{good:?}");
    // A gateway starts all the same, and says why it shares nothing.
    let gateway = Gateway::start(shared(&redis.url("wrong"))).await;
    let line = gateway.log_line("limits are not shared").await;
    assert!(
        line.contains("user or the password") && !line.contains("wrong@"),
        "{line}"
    );
    let key = gateway.key_with(1_000_000, LONG);
    ask(&gateway, &key).await.assert_ok();
}
