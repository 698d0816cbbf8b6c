//! How fast a key may go: what its answers say of it, when it has to wait, and what gives
//! back what was taken.

use crate::support::{
    Answer, CHAT, COUNT_TOKENS, Config, Connection, FORMATS, Gateway, Http2, LONG, MESSAGES,
    Provider, Request, bounded, eventually, prompt,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollgate_ledger::ApiKey;

async fn start() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

/// A key with plenty of tokens and limits of its own, as arguments of `set-limits`.
async fn limited(gateway: &Gateway, limits: &[&str]) -> String {
    let key = gateway.key_with(1_000_000_000, LONG);
    set_limits(gateway, &key, limits).await;
    key
}

async fn set_limits(gateway: &Gateway, key: &str, limits: &[&str]) {
    let arguments = [&["set-limits", key], limits].concat();
    let output = gateway.keys(&arguments).await;
    assert!(output.status.success(), "{output:?}");
}

fn ask(path: &str, key: &str, more: Value) -> Request {
    Request::post(
        path,
        &prompt(path, "test-model", "Say something nice.", more),
    )
    .key(key)
}

fn number(answer: &Answer, name: &str) -> u64 {
    let value = answer.header(name);
    let value = value.unwrap_or_else(|| panic!("no {name}: {answer:?}"));
    value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
}

/// How long a refusal says to wait. Both headers agree, the one in whole seconds.
fn wait(answer: &Answer) -> Duration {
    answer.assert_error(429, "rate_limit_exceeded");
    let millis = number(answer, "retry-after-ms");
    assert_eq!(number(answer, "retry-after"), millis.div_ceil(1000));
    assert_eq!(answer.header("x-should-retry"), None, "{answer:?}");
    Duration::from_millis(millis)
}

#[tokio::test]
async fn requests_are_counted_down_in_the_headers_of_both_families() {
    let (_provider, gateway) = start().await;
    let key = limited(&gateway, &["--requests", "3"]).await;
    let begun = Instant::now();
    for left in [2, 1, 0] {
        let answer = gateway.send(&ask(MESSAGES, &key, json!({}))).await;
        answer.assert_ok();
        assert_eq!(number(&answer, "x-ratelimit-limit-requests"), 3);
        assert_eq!(number(&answer, "x-ratelimit-remaining-requests"), left);
        assert_eq!(number(&answer, "anthropic-ratelimit-requests-limit"), 3);
        assert_eq!(
            number(&answer, "anthropic-ratelimit-requests-remaining"),
            left
        );
        let reset = answer.header("anthropic-ratelimit-requests-reset").unwrap();
        assert!(reset.ends_with('Z') && reset.contains('T'), "{reset}");
        let reset = answer.header("x-ratelimit-reset-requests").unwrap();
        assert!(reset.ends_with('s'), "{reset}");
    }
    for path in FORMATS {
        let refused = gateway.send(&ask(path, &key, json!({}))).await;
        let reported = wait(&refused);
        // One comes back every twenty seconds.
        let least = Duration::from_secs(20).saturating_sub(begun.elapsed());
        assert!(
            (least..=Duration::from_secs(20)).contains(&reported),
            "{reported:?}"
        );
        assert!(
            refused.message().contains("requests a minute"),
            "{refused:?}"
        );
        assert_eq!(number(&refused, "x-ratelimit-remaining-requests"), 0);
        assert_eq!(gateway.line_of(&refused).await["outcome"], "rejected");
    }
    // Another key has limits of its own.
    gateway
        .post(CHAT, &prompt(CHAT, "test-model", "Hi", json!({})))
        .await
        .assert_ok();
}

#[tokio::test]
async fn a_caller_that_waits_for_retry_after_gets_through() {
    let (_provider, gateway) = start().await;
    let key = limited(&gateway, &["--requests", "240"]).await;
    let request = ask(CHAT, &key, json!({}));
    let mut connection = gateway.connect().await;
    let refused = loop {
        let answer = connection.send(&request).await;
        if answer.status != 200 {
            break answer;
        }
    };
    let reported = wait(&refused);
    assert!(reported <= Duration::from_millis(250), "{reported:?}");
    // What is waited for here is time itself.
    tokio::time::sleep(reported).await;
    connection.send(&request).await.assert_ok();
}

#[tokio::test]
async fn tokens_are_taken_as_expected_and_corrected_by_what_was_used() {
    let (_provider, gateway) = start().await;
    let limits = ["--input-tokens", "60000", "--output-tokens", "6000"];
    let key = limited(&gateway, &limits).await;
    let begun = Instant::now();
    let first = gateway.send(&ask(CHAT, &key, json!({}))).await;
    first.assert_ok();
    let remaining = "anthropic-ratelimit-output-tokens-remaining";
    // While it runs, what it is expected to have is taken.
    assert_eq!(number(&first, remaining), 6000 - 1024);
    assert_eq!(
        number(&first, "x-ratelimit-limit-tokens"),
        60000,
        "the input, whichever is scarcer"
    );
    let used = first.json()["usage"]["completion_tokens"].as_u64().unwrap();
    let look = async || {
        let answer = gateway
            .send(&ask(CHAT, &key, json!({"max_completion_tokens": 16})))
            .await;
        answer.assert_ok();
        Some(number(&answer, remaining))
    };
    let left = eventually("a second one", look).await;
    let flowed = u64::try_from(begun.elapsed().as_millis()).unwrap() / 10 + 1;
    let expected = 6000 - used - 16;
    assert!(
        (expected..=expected + flowed).contains(&left),
        "{left}, {expected}"
    );
}

#[tokio::test]
async fn more_than_was_expected_is_a_debt() {
    let (_provider, gateway) = start().await;
    let key = limited(&gateway, &["--output-tokens", "2000"]).await;
    let long = ask(CHAT, &key, json!({})).orders("tokens-3000");
    gateway.send(&long).await.assert_ok();
    let refused = async || {
        let answer = gateway.send(&ask(CHAT, &key, json!({}))).await;
        (answer.status != 200).then_some(answer)
    };
    let refused = eventually("the debt", refused).await;
    // 1000 beyond the limit and 1024 more, at 2000 a minute.
    let reported = wait(&refused);
    assert!((55..=61).contains(&reported.as_secs()), "{reported:?}");
    assert!(
        refused.message().contains("output tokens a minute"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_request_that_never_fits_is_not_worth_a_retry() {
    let (provider, gateway) = start().await;
    let key = limited(&gateway, &["--input-tokens", "3"]).await;
    let refused = gateway.send(&ask(CHAT, &key, json!({}))).await;
    refused.assert_error(429, "rate_limit_exceeded");
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    assert_eq!(refused.header("retry-after"), None);
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn each_refusal_is_counted_by_its_limit() {
    let (_provider, gateway) = start().await;
    let poor = gateway.key_with(10, LONG);
    let few_requests = limited(&gateway, &["--requests", "1"]).await;
    gateway
        .send(&ask(CHAT, &few_requests, json!({})))
        .await
        .assert_ok();
    let few_tokens = limited(&gateway, &["--output-tokens", "50"]).await;
    let long = json!({"max_completion_tokens": 60});
    for (key, more, status, limit) in [
        (few_requests, json!({}), 429, "requests"),
        (few_tokens, long, 429, "output_tokens"),
        (poor, json!({}), 402, "balance_tokens"),
    ] {
        let name = format!("tollgate_limits_hit_total{{limit=\"{limit}\"}}");
        assert_eq!(gateway.sample(&name).await, Some(0.0), "{name}");
        let refused = gateway.send(&ask(CHAT, &key, more)).await;
        assert_eq!(refused.status, status, "{refused:?}");
        gateway.sample_is(&name, 1.0).await;
    }
    assert_eq!(gateway.total("tollgate_limits_hit_total").await, 3.0);
}

/// The request has no output limit, and the gateway's own guess is more than that.
#[tokio::test]
async fn a_limit_below_what_is_expected_refuses_nothing_for_a_guess() {
    let (_provider, gateway) = start().await;
    let key = limited(&gateway, &["--output-tokens", "500"]).await;
    let answer = gateway.send(&ask(CHAT, &key, json!({}))).await;
    answer.assert_ok();
    assert_eq!(number(&answer, "x-ratelimit-limit-tokens"), 500);
    // What it did not need is there again.
    let whole = async || {
        let get = Request::get("/v1/usage").key(&key);
        let usage = gateway.send(&get).await.json();
        let left = usage["limits"]["output_tokens_per_minute"]["remaining"].as_u64()?;
        (left == 500).then_some(())
    };
    eventually("the limit is whole again", whole).await;
}

/// It would have its answer of any length, and owe no more than ten minutes of it.
#[tokio::test]
async fn a_request_that_allows_itself_more_than_the_whole_limit_is_refused() {
    let (provider, gateway) = start().await;
    let key = limited(&gateway, &["--output-tokens", "100"]).await;
    for (path, more) in [
        (CHAT, json!({"max_completion_tokens": 32_000})),
        (CHAT, json!({"max_tokens": 101})),
        (MESSAGES, json!({"max_tokens": 32_000})),
    ] {
        let long = ask(path, &key, more).orders("tokens-32000");
        let refused = gateway.send(&long).await;
        refused.assert_error(429, "rate_limit_exceeded");
        assert_eq!(refused.header("x-should-retry"), Some("false"));
        let message = refused.message();
        assert!(message.contains("output tokens a minute"), "{message}");
    }
    assert_eq!(provider.handle.counters().requests, 0);
    let all = ask(CHAT, &key, json!({"max_completion_tokens": 100}));
    gateway.send(&all).await.assert_ok();
}

/// In the words of the configuration.
#[tokio::test]
async fn limits_on_tokens_are_taken_in_thousands_and_millions() {
    let (_provider, gateway) = start().await;
    let words = ["--input-tokens", "50k", "--output-tokens", "10M"];
    let key = limited(&gateway, &words).await;
    let answer = gateway.send(&ask(CHAT, &key, json!({}))).await;
    answer.assert_ok();
    let limit = |kind: &str| number(&answer, &format!("anthropic-ratelimit-{kind}-tokens-limit"));
    assert_eq!((limit("input"), limit("output")), (50_000, 10_000_000));
    let refused = gateway
        .keys(&["set-limits", &key, "--output-tokens", "5G"])
        .await;
    let reported = "'output_tokens' must be from 1 to 4294967295";
    assert!(refused.stderr.contains(reported), "{refused:?}");
}

#[tokio::test]
async fn a_request_that_a_later_check_refuses_takes_nothing() {
    let (_provider, gateway) = start().await;
    let key = gateway.key_with(1, LONG);
    set_limits(
        &gateway,
        &key,
        &["--requests", "2", "--output-tokens", "2000"],
    )
    .await;
    let request = ask(CHAT, &key, json!({}));
    for _ in 0..5 {
        let refused = gateway.send(&request).await;
        refused.assert_error(402, "quota_exhausted");
        // It does not count itself.
        assert_eq!(number(&refused, "x-ratelimit-remaining-requests"), 2);
        assert_eq!(
            number(&refused, "anthropic-ratelimit-output-tokens-remaining"),
            2000
        );
    }
    gateway.top_up(&key, 100_000);
    let admitted = async || {
        let answer = gateway.send(&request).await;
        (answer.status == 200).then_some(answer)
    };
    let answer = eventually("the top-up is seen", admitted).await;
    assert_eq!(number(&answer, "x-ratelimit-remaining-requests"), 1);
}

#[tokio::test]
async fn a_place_is_free_again_however_a_request_ends() {
    let (provider, gateway) = start().await;
    let key = limited(&gateway, &["--concurrent", "1"]).await;
    let small = ask(CHAT, &key, json!({}));
    let is_free = async |what: &str| {
        let admitted = async || (gateway.send(&small).await.status == 200).then_some(());
        eventually(what, admitted).await;
    };
    for path in FORMATS {
        for orders in ["hang", "stall-after-6"] {
            let open = provider.handle.counters().open_answers;
            let mut connection = gateway.connect().await;
            let held = ask(path, &key, json!({"stream": true})).orders(orders);
            connection.write(&held.bytes()).await;
            provider
                .when("it is asked", |it| it.open_answers == open + 1)
                .await;
            let refused = gateway.send(&small).await;
            assert!(wait(&refused) <= Duration::from_secs(1));
            assert!(refused.message().contains("at one time"), "{refused:?}");
            drop(connection);
            is_free("after a hang-up").await;
        }
        for orders in [
            "status-500",
            "error-after-6",
            "cut-600,reset",
            "vendor-anthropic-context",
        ] {
            let ended = ask(path, &key, json!({"stream": true})).orders(orders);
            gateway.send(&ended).await;
            is_free(orders).await;
        }
        // At the end of an answer at once, since it is settled before its last bytes.
        for _ in 0..20 {
            gateway
                .send(&ask(path, &key, json!({"stream": true})))
                .await
                .assert_ok();
        }
    }
    let mut http2 = Http2::open(gateway.address).await;
    let held = ask(CHAT, &key, json!({"stream": true})).orders("stall-after-6");
    let answer = bounded("a head", http2.begin(&held)).await.unwrap();
    wait(&gateway.send(&small).await);
    drop(answer);
    is_free("after a stream of HTTP/2 was cancelled").await;
}

/// Enough for one request of its kind and no second one.
#[tokio::test]
async fn free_requests_use_nothing_of_a_limit_on_tokens() {
    let (_provider, gateway) = start().await;
    let said = "word ".repeat(1200);
    for path in FORMATS {
        for (orders, stream) in [
            ("status-503", false),
            ("status-500", true),
            ("error-after-0", true),
        ] {
            let key = limited(
                &gateway,
                &["--input-tokens", "2000", "--output-tokens", "1500"],
            )
            .await;
            let body = prompt(path, "test-model", &said, json!({"stream": stream}));
            let request = Request::post(path, &body).key(&key);
            for _ in 0..2 {
                let answer = gateway.send(&request.clone().orders(orders)).await;
                assert!(answer.status >= 500, "{path} {orders}: {answer:?}");
                assert_eq!(gateway.line_of(&answer).await["charged"], 0, "{answer:?}");
            }
            gateway.send(&request).await.assert_ok();
            // What was had is used.
            wait(&gateway.send(&request).await);
        }
    }
}

#[tokio::test]
async fn a_plan_has_limits_and_a_key_may_have_others() {
    let provider = Provider::start().await;
    let plan = json!({"tokens": "1M", "validity": "1d", "limits": {"requests_per_minute": 2}});
    let gateway = Gateway::start(Config::of(&provider).with("plans.slow", plan)).await;
    let key = gateway.create_key(&["--plan", "slow"]).await;
    let request = ask(CHAT, &key, json!({}));
    for _ in 0..2 {
        gateway.send(&request).await.assert_ok();
    }
    wait(&gateway.send(&request).await);
    set_limits(&gateway, &key, &["--requests", "4"]).await;
    let admitted = async || {
        let answer = gateway.send(&request).await;
        (answer.status == 200).then_some(answer)
    };
    let answer = eventually("the key's own limit is seen", admitted).await;
    assert_eq!(number(&answer, "x-ratelimit-limit-requests"), 4);
    // A change forgets nothing: of four, two were taken before and one now. One comes back in a
    // quarter of a minute.
    assert_eq!(number(&answer, "x-ratelimit-remaining-requests"), 1);
}

#[tokio::test]
async fn counting_tokens_has_a_limit_of_its_own() {
    let provider = Provider::start().await;
    let filters = json!([
        "headers", "key", "stored", "model",
        {"name": "limits", "count_tokens_per_minute": 2},
        "quota", "errors",
    ]);
    let gateway = Gateway::start(Config::of(&provider).with("filters", filters)).await;
    let key = limited(&gateway, &["--requests", "1"]).await;
    let count = Request::post(
        COUNT_TOKENS,
        &prompt(COUNT_TOKENS, "test-model", "Hi", json!({})),
    )
    .key(&key);
    for _ in 0..2 {
        gateway.send(&count).await.assert_ok();
    }
    wait(&gateway.send(&count).await);
    gateway.send(&ask(CHAT, &key, json!({}))).await.assert_ok();
    wait(&gateway.send(&ask(CHAT, &key, json!({}))).await);
}

#[tokio::test]
async fn an_address_may_be_wrong_so_often_and_known_keys_pass_all_the_same() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("keys.failed_attempts_per_minute", json!(5));
    let gateway = Gateway::start(config).await;
    gateway.get("/v1").await.assert_ok();
    let mut wrong = 0;
    let refused = loop {
        // Each is another one, and none is malformed: guesses, as a guesser makes them.
        let stranger = ApiKey::generate().unwrap();
        let answer = gateway
            .send(&Request::get("/v1").key(stranger.expose()))
            .await;
        match answer.status {
            401 => wrong += 1,
            _ => break answer,
        }
        assert!(wrong <= 5, "{wrong}");
    };
    assert_eq!(wrong, 5);
    wait(&refused);
    let mut connection = Connection::open(gateway.address).await;
    for _ in 0..20 {
        let answer = connection
            .send(&Request::get("/v1").key(&gateway.key))
            .await;
        answer.assert_ok();
    }
    // A key that has changed has to be read again, and is no guess for that.
    set_limits(&gateway, &gateway.key, &["--requests", "77"]).await;
    eventually("the change is seen", async || {
        let answer = gateway.get("/v1/usage").await;
        answer.assert_ok();
        (answer.json()["limits"]["requests_per_minute"]["limit"] == 77).then_some(())
    })
    .await;
}
