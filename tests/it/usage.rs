//! What a key sees of itself: its balance, its limits, and its requests one by one.

use crate::support::{
    Answer, CHAT, Config, FORMATS, Gateway, MESSAGES, Provider, Request, eventually, prompt,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const USAGE: &str = "/v1/usage";
const HISTORY: &str = "/v1/usage/history";

/// A gateway, and a key of a small plan.
struct Shop {
    provider: Provider,
    gateway: Gateway,
    key: String,
}

impl Shop {
    async fn open() -> Self {
        let provider = Provider::start().await;
        let limits = json!({
            "requests_per_minute": 100,
            "output_tokens_per_minute": "1M",
            "concurrent_requests": 50,
        });
        let config = Config::of(&provider)
            .model("other-model", json!(["sim/upstream-model"]))
            .with(
                "plans.small",
                json!({"tokens": "1M", "validity": "30d", "limits": limits}),
            )
            .with("plans.crumb", json!({"tokens": 100, "validity": "30d"}))
            .with("plans.moment", json!({"tokens": "1M", "validity": "1s"}));
        let gateway = Gateway::start(config).await;
        let key = gateway.create_key(&["--plan", "small"]).await;
        Self {
            provider,
            gateway,
            key,
        }
    }

    async fn get(&self, target: &str) -> Answer {
        self.of(&self.key, target).await
    }

    /// What a page says to another key.
    async fn of(&self, key: &str, target: &str) -> Answer {
        self.gateway.send(&Request::get(target).key(key)).await
    }

    async fn ask(&self, path: &str, model: &str, orders: &str) -> Answer {
        let body = prompt(path, model, "Say something nice.", Value::Null);
        let mut request = Request::post(path, &body).key(&self.key);
        if !orders.is_empty() {
            request = request.orders(orders);
        }
        self.gateway.send(&request).await
    }

    /// The records of a page, and where it begins and ends.
    async fn page(&self, query: &str) -> Value {
        self.with_last_charges(&format!("{HISTORY}?{query}")).await
    }

    /// A page with the charges of all answered requests: it waits 500 ms for their commits, then it can lack some.
    async fn with_last_charges(&self, target: &str) -> Value {
        const CATCH_UP: Duration = Duration::from_millis(500);
        let begun = Instant::now();
        let mut page = self.get(target).await;
        if begun.elapsed() >= CATCH_UP {
            self.gateway
                .sample_is("tollgate_ledger_open_requests", 0.0)
                .await;
            page = self.get(target).await;
        }
        page.assert_ok();
        page.json()
    }
}

fn ids(page: &Value) -> Vec<String> {
    let records = page["data"].as_array().unwrap().iter();
    records
        .map(|it| it["id"].as_str().unwrap().to_owned())
        .collect()
}

fn tokens(usage: &Value) -> [u64; 4] {
    ["granted", "used", "reserved", "remaining"].map(|name| {
        usage["tokens"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("{usage}"))
    })
}

#[tokio::test]
async fn a_key_sees_its_plan_its_balance_its_limits_and_its_totals() {
    let shop = Shop::open().await;
    let before = shop.get(USAGE).await;
    before.assert_ok();
    let before = before.json();
    assert_eq!(before["object"], "usage");
    assert_eq!(before["plan"], "small");
    assert_eq!(before["valid_from"], Value::Null);
    assert_eq!(tokens(&before), [1_000_000, 0, 0, 1_000_000]);
    assert_eq!(before["models"], json!([]));
    assert_eq!(
        before["limits"],
        json!({
            "requests_per_minute": {"limit": 100, "remaining": 100, "reset_after_ms": 0},
            "input_tokens_per_minute": null,
            "output_tokens_per_minute": {"limit": 1_000_000, "remaining": 1_000_000, "reset_after_ms": 0},
            "concurrent_requests": {"limit": 50, "remaining": 50},
        })
    );

    // What was answered is in it at once.
    let (begun, mut spent) = (Instant::now(), 0);
    for round in 1..=3 {
        let answer = shop.ask(CHAT, "test-model", "").await.json();
        spent += answer["usage"]["total_tokens"].as_u64().unwrap();
        let after = shop.with_last_charges(USAGE).await;
        assert_eq!(tokens(&after), [1_000_000, spent, 0, 1_000_000 - spent]);
        assert_eq!(after["models"][0]["requests"], round, "{after}");
    }
    shop.ask(MESSAGES, "other-model", "").await.assert_ok();
    let after = shop.with_last_charges(USAGE).await;
    let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap();
    let models = after["models"].as_array().unwrap();
    let charged: u64 = models
        .iter()
        .map(|it| it["charged"].as_u64().unwrap())
        .sum();
    assert_eq!(tokens(&after)[1], charged, "{after}");
    let names: Vec<_> = models.iter().map(|it| &it["model"]).collect();
    assert_eq!(names, ["other-model", "test-model"]);
    let requests = &after["limits"]["requests_per_minute"];
    // Of a hundred a minute, one flows back in 600 ms.
    let most = 97 + elapsed_ms / 600;
    assert!(requests["remaining"].as_u64().unwrap() <= most, "{after}");
    let is_reset = requests["reset_after_ms"] == 0;
    assert!(!is_reset || elapsed_ms >= 4 * 600, "{after}");
    let (from, until) = (&after["valid_from"], &after["valid_until"]);
    assert!(from.as_str() < until.as_str(), "{after}");
    assert!(until.as_str().unwrap().ends_with('Z'), "{after}");
}

#[tokio::test]
async fn a_running_request_keeps_its_reservation() {
    let shop = Shop::open().await;
    let body = prompt(
        CHAT,
        "test-model",
        "one two three",
        json!({"stream": true, "max_tokens": 500}),
    );
    let request = Request::post(CHAT, &body)
        .key(&shop.key)
        .orders("stall-after-4");
    let mut connection = shop.gateway.connect().await;
    connection.write(&request.bytes()).await;
    connection.read_until(b"data: ").await;
    let during = shop.get(USAGE).await.json();
    let [granted, used, reserved, remaining] = tokens(&during);
    assert!(reserved >= 500, "{during}");
    assert_eq!(granted, used + reserved + remaining);
    assert_eq!(during["limits"]["concurrent_requests"]["remaining"], 49);
    drop(connection);
    let free = async || {
        let after = shop.get(USAGE).await.json();
        (tokens(&after)[2] == 0).then_some(after)
    };
    let after = eventually("nothing is reserved", free).await;
    assert_eq!(after["limits"]["concurrent_requests"]["remaining"], 50);
    assert_eq!(shop.provider.handle.counters().requests, 1);
}

#[tokio::test]
async fn a_key_with_nothing_left_still_sees_why() {
    let shop = Shop::open().await;
    let key = shop.gateway.create_key(&["--plan", "crumb"]).await;
    let body = prompt(CHAT, "test-model", "Say something nice.", Value::Null);
    let ask = Request::post(CHAT, &body).key(&key);
    let refused = async || {
        let answer = shop.gateway.send(&ask).await;
        (answer.status != 200).then_some(answer)
    };
    let refused = eventually("the balance runs out", refused).await;
    refused.assert_error(402, "quota_exhausted");
    let usage = shop.of(&key, USAGE).await;
    usage.assert_ok();
    let [granted, used, reserved, remaining] = tokens(&usage.json());
    assert_eq!((granted, reserved), (100, 0));
    assert_eq!(used + remaining, 100);
    shop.of(&key, HISTORY).await.assert_ok();
}

#[tokio::test]
async fn a_record_says_what_became_of_a_request() {
    let shop = Shop::open().await;
    let mut wanted = Vec::new();
    for path in FORMATS {
        let answer = shop.ask(path, "test-model", "").await;
        answer.assert_ok();
        let id = answer.header("x-request-id");
        wanted.push(id.unwrap_or_else(|| panic!("{answer:?}")).to_owned());
    }
    wanted.reverse();
    let page = shop.page("").await;
    assert_eq!(page["object"], "list");
    assert_eq!(page["has_more"], false);
    assert_eq!(ids(&page), wanted, "newest first");
    let chat = &page["data"][2];
    for (field, value) in [
        ("model_asked", json!("test-model")),
        ("route_reason", Value::Null),
        ("model_served", json!("test-model")),
        ("format", json!("chat")),
        ("streamed", json!(false)),
        ("status", json!(200)),
        ("error", Value::Null),
        ("state", json!("completed")),
        ("source", json!("reported")),
        ("overdraft", json!(0)),
    ] {
        assert_eq!(chat[field], value, "{field}: {chat}");
    }
    for field in ["time", "duration_ms", "first_byte_ms", "charged"] {
        assert!(!chat[field].is_null(), "{field}: {chat}");
    }
    let counts = ["input", "cache_read", "cache_write", "output", "reasoning"];
    let sum: u64 = counts[..4]
        .iter()
        .map(|it| chat["usage"][it].as_u64().unwrap())
        .sum();
    assert_eq!(chat["charged"], sum, "{chat}");
    assert!(chat["usage"]["reasoning"].is_u64(), "{chat}");
    let text = page.to_string();
    for hidden in ["upstream-model", "sim/", &shop.key] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

#[tokio::test]
async fn times_in_a_record_count_from_the_arrival_of_the_request() {
    const PAUSE: Duration = Duration::from_secs(2);
    let shop = Shop::open().await;
    let body = prompt(CHAT, "test-model", "Say something nice.", Value::Null);
    let request = Request::post(CHAT, &body).key(&shop.key);
    let mut connection = shop.gateway.connect().await;
    connection.write(&request.head()).await;
    // The client takes its time for the body.
    tokio::time::sleep(PAUSE).await;
    connection.write(&request.body).await;
    connection.answer(&request).await.assert_ok();
    let page = shop.page("").await;
    for field in ["first_byte_ms", "duration_ms"] {
        let shown = page["data"][0][field].as_u64().unwrap();
        assert!(
            u128::from(shown) >= PAUSE.as_millis() / 2,
            "{field}: {page}"
        );
    }
}

#[tokio::test]
async fn records_are_found_by_model_status_and_time() {
    let shop = Shop::open().await;
    shop.ask(CHAT, "test-model", "").await.assert_ok();
    shop.ask(CHAT, "other-model", "").await.assert_ok();
    let failed = shop.ask(CHAT, "test-model", "status-500").await;
    assert!(failed.status >= 500, "{failed:?}");
    let all = shop.page("").await;
    let all = ids(&all);
    assert_eq!(all.len(), 3);
    let [failed, other, first] = [&all[0], &all[1], &all[2]];
    for (query, wanted) in [
        ("model=other-model", vec![other]),
        ("model=test-model", vec![failed, first]),
        ("model=test-model&status=200", vec![first]),
        ("status=completed", vec![other, first]),
        ("status=upstream_failed", vec![failed]),
        ("status=404", vec![]),
        ("model=%25", vec![]),
        ("model=test_model", vec![]),
        ("model='%20OR%201=1%20--", vec![]),
        ("to=2020-01-01T00:00:00Z", vec![]),
        ("from=2020-01-01T00:00:00Z&limit=1", vec![failed]),
        ("from=9999-01-01T00:00:00Z", vec![]),
    ] {
        let found = ids(&shop.page(query).await);
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{query}");
    }
    let page = shop.page("").await;
    let time = page["data"][1]["time"].as_str().unwrap();
    // From is part of the span, to is not.
    assert!(ids(&shop.page(&format!("from={time}")).await).contains(other));
    assert!(!ids(&shop.page(&format!("to={time}")).await).contains(other));
}

#[tokio::test]
async fn cursors_lead_through_every_page_while_new_requests_come() {
    let shop = Shop::open().await;
    for _ in 0..5 {
        shop.ask(CHAT, "test-model", "").await.assert_ok();
    }
    let all = ids(&shop.page("").await);
    let first = shop.page("limit=2").await;
    assert_eq!(ids(&first), all[..2]);
    let mut seen = ids(&first);
    let mut page = first.clone();
    while page["has_more"] == true {
        shop.ask(CHAT, "other-model", "").await.assert_ok();
        let last = page["last_cursor"].as_str().unwrap();
        page = shop.page(&format!("limit=2&after={last}")).await;
        seen.extend(ids(&page));
        assert!(seen.len() < 20, "{seen:?}");
    }
    assert_eq!(seen, all, "each once, and none of the new ones");
    let newest = first["first_cursor"].as_str().unwrap();
    let newer = shop.page(&format!("before={newest}")).await;
    let newer = newer["data"].as_array().unwrap().iter();
    let newer: Vec<_> = newer.map(|record| &record["model_asked"]).collect();
    assert_eq!(newer, ["other-model", "other-model"]);

    // No cursor of another key, and no invented one.
    let other = shop.gateway.create_key(&["--plan", "small"]).await;
    let cursor = first["last_cursor"].as_str().unwrap();
    for (key, query) in [
        (&other, format!("after={cursor}")),
        (&shop.key, format!("after={}", cursor.to_uppercase())),
        (&shop.key, "before=1".to_owned()),
        (&shop.key, format!("after={}", "A".repeat(5000))),
    ] {
        let refused = shop.of(key, &format!("{HISTORY}?{query}")).await;
        refused.assert_error(400, "invalid_request");
        assert!(refused.message().contains("is not a cursor"), "{refused:?}");
    }
    let nothing = shop.of(&other, HISTORY).await.json();
    assert_eq!(
        nothing["data"],
        json!([]),
        "another key's history is not its"
    );
}

#[tokio::test]
async fn a_parameter_that_is_not_understood_is_refused_by_name() {
    let shop = Shop::open().await;
    for (query, name) in [
        ("limit=0", "'limit'"),
        ("limit=501", "'limit'"),
        ("limit=1&limit=1", "'limit'"),
        ("after=x&before=y", "'after' and 'before'"),
        ("status=fine", "'status'"),
        ("from=now", "'from'"),
        ("to=tomorrow", "'to'"),
        (
            "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
            "'from'",
        ),
        ("modle=x", "'model'"),
        ("offset=5", "'offset'"),
        ("model=", "'model'"),
        ("%ff=1", "no parameter"),
    ] {
        let refused = shop.get(&format!("{HISTORY}?{query}")).await;
        refused.assert_error(400, "invalid_request");
        assert!(refused.message().contains(name), "{query}: {refused:?}");
    }
}

#[tokio::test]
async fn usage_is_an_endpoint_like_the_others() {
    let shop = Shop::open().await;
    let only_chat = shop
        .gateway
        .create_key(&["--plan", "small", "--endpoint", CHAT])
        .await;
    for path in [USAGE, HISTORY] {
        let bare = shop.gateway.send(&Request::get(path)).await;
        bare.assert_error(401, "missing_api_key");
        let wrong = Request::new("DELETE", path).key(&shop.key);
        let wrong = shop.gateway.send(&wrong).await;
        wrong.assert_error(405, "method_not_allowed");
        assert_eq!(wrong.header("allow"), Some("GET, HEAD"));
        shop.of(&only_chat, path)
            .await
            .assert_error(403, "permission_denied");
        shop.get(&format!("{path}/"))
            .await
            .assert_error(404, "not_found");
    }
    let listed = shop.get("/v1").await.json();
    for path in [USAGE, HISTORY] {
        let rows = listed["endpoints"].as_array().unwrap();
        assert!(rows.iter().any(|row| row["path"] == path), "{listed}");
    }
}

#[tokio::test]
async fn many_concurrent_callers_are_answered_or_get_a_retry() {
    const CALLERS: usize = 400;
    let shop = Shop::open().await;
    for _ in 0..20 {
        shop.ask(CHAT, "test-model", "").await.assert_ok();
    }
    let mut asking = Vec::new();
    for _ in 0..CALLERS {
        asking.push(shop.gateway.connect().await);
    }
    let request = Request::get(HISTORY).key(&shop.key);
    for connection in &mut asking {
        connection.write(&request.bytes()).await;
    }
    let mut answered = 0;
    for connection in &mut asking {
        let answer = connection.answer(&request).await;
        if answer.status == 200 {
            answered += 1;
            assert_eq!(answer.json()["data"].as_array().unwrap().len(), 20);
        } else {
            answer.assert_error(503, "service_unavailable");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
        }
    }
    // A key has a quarter of the places.
    assert!(answered >= 64, "{answered}");
    shop.get(USAGE).await.assert_ok();
}

#[tokio::test]
async fn a_key_that_asks_all_the_time_leaves_room_for_the_others() {
    let shop = Shop::open().await;
    let other = shop.gateway.create_key(&["--plan", "small"]).await;
    let mut asking = Vec::new();
    for _ in 0..300 {
        let mut connection = shop.gateway.connect().await;
        let request = Request::get(HISTORY).key(&shop.key);
        asking.push(tokio::spawn(async move {
            for _ in 0..10 {
                connection.send(&request).await;
            }
        }));
    }
    let mut busy = 0;
    while asking.iter().any(|it| !it.is_finished()) {
        let answer = shop.of(&other, USAGE).await;
        busy += usize::from(answer.status != 200);
    }
    assert_eq!(busy, 0);
    for it in asking {
        it.await.unwrap();
    }
}

#[tokio::test]
async fn a_key_whose_grants_are_all_over_is_answered_as_an_unknown_one() {
    let mut shop = Shop::open().await;
    let unused = shop.gateway.create_key(&[]).await;
    shop.key = shop.gateway.create_key(&["--plan", "moment"]).await;
    shop.get(USAGE).await.assert_ok();
    // The first use begins the time of the grant.
    shop.ask(CHAT, "test-model", "").await.assert_ok();
    eventually("the grant to be over", async || {
        let answer = shop.get(USAGE).await;
        (answer.status != 200).then(|| answer.assert_error(401, "invalid_api_key"))
    })
    .await;
    let refused = shop.get(HISTORY).await;
    refused.assert_error(401, "invalid_api_key");
    let unknown = shop.of("sk-short", HISTORY).await;
    assert_eq!(refused.message(), unknown.message());
    for path in ["/v1", "/v1/models"] {
        eventually("everything to answer so", async || {
            let answer = shop.get(path).await;
            (answer.status != 200).then(|| answer.assert_error(401, "invalid_api_key"))
        })
        .await;
    }
    // What was never given a grant has none that is over.
    shop.of(&unused, USAGE).await.assert_ok();

    // Operators get the same.
    let gateway = &shop.gateway;
    let shown = async |arguments: &[&str]| -> Value {
        let output = gateway.keys(&[arguments, &["--json"]].concat()).await;
        assert!(output.status.success(), "{output:?}");
        serde_json::from_str(&output.stdout).unwrap()
    };
    let over = shown(&["show", &shop.key]).await;
    assert_eq!(over["state"], "expired", "{over}");
    let listed = async |state: &str| {
        let list = shown(&["list", "--state", state]).await;
        let ids = list.as_array().unwrap().iter().map(|it| it["id"].clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed("expired").await, [over["id"].clone()]);
    assert!(!listed("active").await.contains(&over["id"]));

    // A longer life brings it back.
    let longer = shown(&["extend", &shop.key, "--days", "1"]).await;
    assert_eq!(longer["state"], "active", "{longer}");
    // The key is known anew at once, its balance within the ledger's next look.
    eventually("the key to work again", async || {
        let works = shop.get("/v1").await.status == 200;
        (works && shop.ask(CHAT, "test-model", "").await.status == 200).then_some(())
    })
    .await;
}
