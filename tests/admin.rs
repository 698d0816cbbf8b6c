//! The admin API: what `tollgate keys` does, over HTTP, for those who know the token.

#![cfg(test)]

mod support;

use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{
    Answer, Config, Connection, Gateway, Ports, Provider, Request, bounded, eventually, tollgate,
};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

const TOKEN: &str = "0123456789abcdef-the-token-of-the-tests";

/// A gateway with plans and an admin API.
struct Office {
    gateway: Gateway,
    _provider: Provider,
}

impl Office {
    async fn open() -> Self {
        let provider = Provider::start().await;
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        let config = Config::of(&provider)
            .with("admin.token", json!("file:token"))
            .with(
                "plans.pro",
                json!({"tokens": "10M", "validity": "30d", "groups": ["other"]}),
            );
        Self {
            gateway: Gateway::start_in(folder, config).await,
            _provider: provider,
        }
    }

    /// Sends a request to the admin listener as it is.
    async fn send(&self, request: &Request) -> Answer {
        Connection::open(self.gateway.admin)
            .await
            .send(request)
            .await
    }

    async fn get(&self, target: &str) -> Answer {
        self.send(&Request::get(target).key(TOKEN)).await
    }

    async fn post(&self, target: &str, body: &Value) -> Answer {
        self.send(&Request::post(target, body).key(TOKEN)).await
    }

    /// Makes a key: its text, and what is known of it.
    async fn create(&self, order: &Value) -> (String, Value) {
        let made = self.post("/api/v1/keys", order).await;
        assert_eq!(made.status, 201, "{made:?}");
        let made = made.json();
        let key = made["key"].as_str().unwrap().to_owned();
        (key, made["record"].clone())
    }

    /// What a caller with a key is told.
    async fn caller(&self, key: &str) -> Answer {
        self.gateway.send(&Request::get("/v1").key(key)).await
    }
}

fn id(record: &Value) -> &str {
    record["id"].as_str().unwrap()
}

#[tokio::test]
async fn without_a_token_the_api_says_how_to_set_one_and_the_rest_is_open() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    for path in ["/api/v1/keys", "/api/v1/openapi.json", "/api/v1/nothing"] {
        let refused = gateway.operator(path).await;
        refused.assert_error(403, "permission_denied");
        assert!(refused.message().contains("admin.token"), "{refused:?}");
        assert!(refused.message().contains("env:NAME"), "{refused:?}");
    }
    for path in ["/metrics", "/healthz", "/readyz"] {
        gateway.operator(path).await.assert_ok();
    }
}

#[tokio::test]
async fn nobody_gets_in_without_the_whole_token() {
    let office = Office::open().await;
    let get = || Request::get("/api/v1/keys");
    let missing = office.send(&get()).await;
    missing.assert_error(401, "missing_api_key");
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    let longer = format!("{TOKEN}x");
    for request in [
        get().key(""),
        get().key(&TOKEN[1..]),
        get().key(&TOKEN[..TOKEN.len() - 1]),
        get().key(&longer),
        get().key(&TOKEN.to_uppercase()),
        get().key(&office.gateway.key),
        get().header("authorization", TOKEN),
        get().header("authorization", &format!("Basic {TOKEN}")),
        get().key(TOKEN).key(TOKEN),
        get().key(TOKEN).key("other"),
    ] {
        let refused = office.send(&request).await;
        refused.assert_error(401, "invalid_api_key");
        assert!(!refused.text().contains(TOKEN), "{refused:?}");
    }
    let elsewhere = office.send(&Request::get("/api/v1/nothing")).await;
    elsewhere.assert_error(401, "missing_api_key");
    // Callers have no such address, and the token is no key.
    office
        .caller(TOKEN)
        .await
        .assert_error(401, "invalid_api_key");
    let outside = Request::get("/api/v1/keys").key(TOKEN);
    let outside = office.gateway.send(&outside).await;
    outside.assert_error(404, "not_found");
    for request in [
        get().key(TOKEN),
        get().header("authorization", &format!("bearer {TOKEN}")),
    ] {
        office.send(&request).await.assert_ok();
    }
}

#[tokio::test]
async fn a_key_lives_its_whole_life_over_http() {
    let office = Office::open().await;
    let order = json!({"name": "Zoë's laptop", "plan": "pro", "expires_after": "7d"});
    let made = office.post("/api/v1/keys", &order).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let (key, record) = (made.json()["key"].clone(), made.json()["record"].clone());
    let key = key.as_str().unwrap();
    assert_eq!(record["groups"], json!(["other"]), "{record}");
    assert_eq!(record["state"], "active");
    office.caller(key).await.assert_ok();

    // By id, by its beginning, and as the command line shows it.
    let at = |rest: &str| format!("/api/v1/keys/{}{rest}", id(&record));
    let shown = office.get(&at("")).await.json();
    assert_eq!(shown, record);
    assert_eq!(
        office
            .get(&format!("/api/v1/keys/{}", &key[..11]))
            .await
            .json(),
        record
    );
    let printed = office.gateway.keys(&["show", id(&record), "--json"]).await;
    assert_eq!(
        serde_json::from_str::<Value>(&printed.stdout).unwrap(),
        record
    );

    let limits = json!({"requests": 60, "output_tokens": 20000});
    let put = Request::post(&at("/limits"), &limits).key(TOKEN);
    let put = Request {
        method: "PUT".to_owned(),
        ..put
    };
    let limited = office.send(&put).await.json();
    assert_eq!(
        limited["limits"],
        json!({"requests": 60, "input_tokens": null, "output_tokens": 20000, "concurrent": null})
    );

    let grant = json!({"tokens": "2M", "validity": "12h"});
    let grant = office.post(&at("/grants"), &grant).await;
    assert_eq!(grant.status, 201, "{grant:?}");
    let grants = office.get(&at("/grants")).await.json();
    let tokens = |number: usize| grants["data"][number]["tokens"].as_u64().unwrap();
    assert_eq!((tokens(0), tokens(1)), (10_000_000, 2_000_000), "{grants}");
    assert_eq!(grants["data"][1], grant.json());
    assert_eq!(grants["data"][1]["validity_seconds"], 12 * 3600);

    let extended = office.post(&at("/extend"), &json!({"by": "30d"})).await;
    extended.assert_ok();
    assert!(
        extended.json()["expires_at"].as_str() > record["expires_at"].as_str(),
        "{extended:?}"
    );

    let revoke = Request::new("POST", &at("/revoke")).key(TOKEN);
    let revoked = office.send(&revoke).await;
    revoked.assert_ok();
    assert_eq!(revoked.json()["state"], "revoked");
    let since = Instant::now();
    let refused = async || (office.caller(key).await.status == 401).then_some(());
    eventually("the key is refused", refused).await;
    assert!(
        since.elapsed() < Duration::from_secs(1),
        "{:?}",
        since.elapsed()
    );
    let again = office.send(&revoke).await;
    assert_eq!(again.json()["revoked_at"], revoked.json()["revoked_at"]);

    let log = office.gateway.log_line("admin API: revokeKey done").await;
    assert!(
        log.contains(revoked.header("x-request-id").unwrap()),
        "{log}"
    );
    assert!(!office.gateway.output().contains(key));
    assert!(!office.gateway.output().contains(TOKEN));
}

#[tokio::test]
async fn keys_are_listed_page_by_page_and_by_what_they_are() {
    let office = Office::open().await;
    for number in 0..5 {
        let plan = (number % 2 == 0).then_some("pro");
        let order = json!({"name": format!("desk {number}%"), "plan": plan});
        office.create(&order).await;
    }
    let names = |page: &Answer| -> Vec<String> {
        let page = page.json();
        let names = page["data"].as_array().unwrap().iter();
        names
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut found = Vec::new();
    let mut target = "/api/v1/keys?limit=2".to_owned();
    loop {
        let page = office.get(&target).await;
        page.assert_ok();
        found.extend(names(&page));
        let page = page.json();
        if page["has_more"] == false {
            break;
        }
        let last = page["last_id"].as_str().unwrap();
        target = format!("/api/v1/keys?limit=2&after={last}");
        assert!(found.len() < 20, "{found:?}");
    }
    assert_eq!(found[0], "test");
    assert_eq!(
        found[1..],
        ["desk 0%", "desk 1%", "desk 2%", "desk 3%", "desk 4%"]
    );

    let pro = office.get("/api/v1/keys?plan=pro&state=active").await;
    assert_eq!(names(&pro), ["desk 0%", "desk 2%", "desk 4%"]);
    let one = office.get("/api/v1/keys?name=k%203%25").await;
    assert_eq!(names(&one), ["desk 3%"]);
    for nothing in ["name=%25d", "name=d_sk", "plan=p%25", "state=revoked"] {
        let none = office.get(&format!("/api/v1/keys?{nothing}")).await;
        assert_eq!(none.json()["data"], json!([]), "{nothing}");
        assert_eq!(none.json()["last_id"], Value::Null);
    }
}

#[tokio::test]
async fn what_is_not_understood_is_refused_with_its_name() {
    let office = Office::open().await;
    let (key, record) = office.create(&json!({"name": "ci"})).await;
    let at = |rest: &str| format!("/api/v1/keys/{}{rest}", id(&record));
    let keys = "/api/v1/keys".to_owned();
    for (target, body, status, part) in [
        (keys.clone(), json!({}), 400, "name"),
        (keys.clone(), json!({"name": ""}), 400, "the name must have"),
        (keys.clone(), json!({"name": 5}), 400, "'name'"),
        (
            keys.clone(),
            json!({"name": "x", "plans": "pro"}),
            400,
            "plans",
        ),
        (
            keys.clone(),
            json!({"name": "x", "plan": "prp"}),
            400,
            "did you mean 'pro'",
        ),
        (
            keys.clone(),
            json!({"name": "x", "groups": ["othr"]}),
            400,
            "did you mean 'other'",
        ),
        (
            keys.clone(),
            json!({"name": "x", "groups": []}),
            400,
            "list of groups is empty",
        ),
        (
            keys.clone(),
            json!({"name": "x", "endpoints": ["/v1/x"]}),
            400,
            "no endpoint '/v1/x'",
        ),
        (
            keys.clone(),
            json!({"name": "x", "limits": {"requests": 0}}),
            400,
            "'limits.requests'",
        ),
        (
            keys.clone(),
            json!({"name": "x", "limits": {"rpm": 1}}),
            400,
            "rpm",
        ),
        (
            keys.clone(),
            json!({"name": "x", "expires_after": "7"}),
            400,
            "a duration such as",
        ),
        (
            keys.clone(),
            json!(["name"]),
            400,
            "the body: value is not of type",
        ),
        (
            keys.clone(),
            json!({"name": "x", "limits": [60]}),
            400,
            "'limits': value is not of type",
        ),
        (at("/extend"), json!({"by": "0d"}), 400, "'by'"),
        (at("/extend"), json!({"days": 5}), 400, "days"),
        (
            at("/grants"),
            json!({}),
            400,
            "either 'plan', or 'tokens' and 'validity'",
        ),
        (
            at("/grants"),
            json!({"plan": "pro", "tokens": 5}),
            400,
            "either",
        ),
        (
            at("/grants"),
            json!({"tokens": 0, "validity": "1d"}),
            400,
            "between 1 and",
        ),
        (
            at("/grants"),
            json!({"tokens": -1, "validity": "1d"}),
            400,
            "'tokens'",
        ),
        (at("/revoke"), json!({"why": "?"}), 400, "takes no body"),
        (
            "/api/v1/keys/key_%/revoke".to_owned(),
            Value::Null,
            400,
            "names no key",
        ),
        (
            "/api/v1/keys/sk-%25/extend".to_owned(),
            json!({"by": "1d"}),
            400,
            "names no key",
        ),
        (
            "/api/v1/keys/key_0123456789abcdefghij/extend".to_owned(),
            json!({"by": "1d"}),
            404,
            "no such key",
        ),
        (
            format!("/api/v1/keys/{key}/extend"),
            json!({"by": "1d"}),
            400,
            "a whole key does not belong",
        ),
        ("/api/v1/nothing".to_owned(), json!({}), 404, "openapi.json"),
    ] {
        let request = if body.is_null() {
            Request::new("POST", &target).key(TOKEN)
        } else {
            Request::post(&target, &body).key(TOKEN)
        };
        let refused = office.send(&request).await;
        assert_eq!(refused.status, status, "{target} {body}: {refused:?}");
        let message = refused.message();
        assert!(message.contains(part), "{target} {body}: {message}");
        assert!(!message.contains(&key), "{message}");
    }
    for (query, part) in [
        ("limit=0", "from 1 to 1000"),
        ("limit=1001", "from 1 to 1000"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("state=gone", "state"),
        ("after=5", "'after'"),
        ("after=key_0123456789abcdefghij", "no such key"),
        ("page=2", "page"),
    ] {
        let refused = office.get(&format!("/api/v1/keys?{query}")).await;
        let message = refused.message();
        assert!(message.contains(part), "{query}: {message}");
    }
    let strict = office.get(&at("?x=1")).await;
    strict.assert_error(400, "invalid_request");
    let kept = office.get(&at("")).await.json();
    assert_eq!(kept, record, "nothing of that changed the key");
}

#[tokio::test]
async fn a_beginning_that_two_keys_share_names_them_and_changes_none() {
    let office = Office::open().await;
    let (_, one) = office.create(&json!({"name": "one"})).await;
    let (_, two) = office.create(&json!({"name": "two"})).await;
    office.sql("UPDATE keys SET prefix = 'sk-AAAAAAAA' WHERE name IN ('one', 'two')");
    let revoke = Request::new("POST", "/api/v1/keys/sk-AAAA/revoke").key(TOKEN);
    let refused = office.send(&revoke).await;
    refused.assert_error(400, "invalid_request");
    for record in [&one, &two] {
        assert!(refused.message().contains(id(record)), "{refused:?}");
    }
    let printed = office.gateway.keys(&["revoke", "sk-AAAA"]).await;
    assert!(!printed.status.success());
    assert!(printed.stderr.contains(id(&two)), "{printed:?}");
    let active = office.get("/api/v1/keys?state=active").await.json();
    assert_eq!(active["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_request_that_is_not_http_as_it_should_be_is_told_what_is_wrong() {
    let office = Office::open().await;
    let post = || Request::post("/api/v1/keys", &json!({"name": "x"})).key(TOKEN);
    let large = json!({"name": "x".repeat(70_000)}).to_string();
    for (request, status, code) in [
        (post().without("content-type"), 415, "invalid_request"),
        (
            post()
                .without("content-type")
                .header("content-type", "text/plain"),
            415,
            "invalid_request",
        ),
        (post().body(large.clone()), 413, "request_too_large"),
        (
            post().body(large).in_chunks_of(1000),
            413,
            "request_too_large",
        ),
        (post().body("{\"name\": \"x\""), 400, "invalid_request"),
        (post().body("{\"name\": \"x\"} {}"), 400, "invalid_request"),
        (
            post().body("{\"name\": \"x\", \"name\": \"y\"}"),
            400,
            "invalid_request",
        ),
        (post().body("\u{0}"), 400, "invalid_request"),
        (post().body(""), 400, "invalid_request"),
    ] {
        let refused = office.send(&request).await;
        assert_eq!(refused.error(), (status, code.to_owned()), "{refused:?}");
    }
    let wrong = Request::new("DELETE", "/api/v1/keys").key(TOKEN);
    let wrong = office.send(&wrong).await;
    wrong.assert_error(405, "method_not_allowed");
    let allow = wrong.header("allow").unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    assert!(wrong.header("x-request-id").unwrap().starts_with("req_"));
    let only_the_first = office.get("/api/v1/keys").await.json();
    assert_eq!(only_the_first["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_the_description_says_is_what_the_api_does() {
    let office = Office::open().await;
    let description = office.get("/api/v1/openapi.json").await;
    description.assert_ok();
    let description = description.json();
    assert_eq!(description["openapi"], "3.1.0");
    let (_, record) = office.create(&json!({"name": "described"})).await;
    // There must be a configuration to go back to.
    let config = office.gateway.config();
    let next = config.model("another", json!(["sim/upstream-model"]));
    office.gateway.rewrite(next);
    let reload = Request::new("POST", "/api/v1/reload").key(TOKEN);
    office.send(&reload).await.assert_ok();

    let mut operations = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let answer = office.try_out(path, method, operation, id(&record)).await;
            let name = &operation["operationId"];
            let responses = operation["responses"].as_object().unwrap();
            let described = responses.get(&answer.status.to_string());
            let described = described.unwrap_or_else(|| panic!("{name}: {answer:?}"));
            assert_valid(&description, described, &answer);
            // As described, too: what goes wrong.
            let strange = Request::new(&method.to_uppercase(), path).key(TOKEN);
            let strange = office.send(&strange.body("?")).await;
            assert!(strange.status >= 400, "{name}: {strange:?}");
            assert_valid(
                &description,
                &description["components"]["responses"]["Error"],
                &strange,
            );
        }
    }
    assert_eq!(operations, 15, "{description}");
}

impl Office {
    /// Does an operation of the description with what it asks for.
    async fn try_out(&self, path: &str, method: &str, operation: &Value, key: &str) -> Answer {
        let target = path.replace("{key}", key);
        let bare = Request::new(&method.to_uppercase(), &target).key(TOKEN);
        let request = if operation["requestBody"].is_null() {
            bare
        } else {
            let body = match operation["operationId"].as_str().unwrap() {
                "createKey" => json!({"name": "tried out"}),
                "extendKey" => json!({"by": "1d"}),
                "setKeyLimits" => json!({"concurrent": 2}),
                "topUpKey" => json!({"plan": "pro"}),
                "explain" => json!({"key": key, "request": {"model": "test-model", "messages":
                    [{"role": "user", "content": "Hello!"}]}}),
                other => panic!("{other} is new here"),
            };
            bare.header("content-type", "application/json")
                .body(body.to_string())
        };
        self.send(&request).await
    }

    /// Changes the ledger file behind everybody's back.
    fn sql(&self, sql: &str) {
        let file = self.gateway.folder.path().join("tollgate.db");
        let file = rusqlite::Connection::open(file).unwrap();
        file.execute_batch(sql).unwrap();
    }
}

/// Whether an answer has the shape that a response of the description says, in full.
fn assert_valid(description: &Value, response: &Value, answer: &Answer) {
    let schema = &response["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{response}");
    let schema = json!({
        "allOf": [schema],
        "unevaluatedProperties": false,
        "components": description["components"],
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let body = answer.json();
    let faults: Vec<_> = validator
        .iter_errors(&body)
        .map(|it| it.to_string())
        .collect();
    assert_eq!(faults, [""; 0], "{body}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn another_token_holds_from_a_reload_on() {
    let office = Office::open().await;
    let file = office.gateway.folder.path().join("token");
    let other = "another-token-of-the-tests";
    std::fs::write(file, other).unwrap();
    office.get("/api/v1/keys").await.assert_ok();
    office.gateway.signal("HUP").await;
    office.gateway.log_line("was reloaded").await;
    office
        .get("/api/v1/keys")
        .await
        .assert_error(401, "invalid_api_key");
    let request = Request::get("/api/v1/keys").key(other);
    office.send(&request).await.assert_ok();
}

#[tokio::test]
async fn a_plan_of_a_reload_can_be_given() {
    let office = Office::open().await;
    let order = json!({"name": "x", "plan": "max"});
    let before = office.post("/api/v1/keys", &order).await;
    before.assert_error(400, "invalid_request");
    let plan = json!({"tokens": 500, "validity": "1d"});
    let config = office.gateway.config().with("plans.max", plan);
    office.gateway.rewrite(config);
    office.gateway.signal("HUP").await;
    office.gateway.log_line("was reloaded").await;
    office.create(&order).await;
}

#[tokio::test]
async fn a_token_that_can_be_guessed_is_a_fault_of_the_configuration() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), "hunter2").unwrap();
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("admin.token", json!("file:token"));
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    let output = support::Output::of(tollgate().arg("check").arg(&file)).await;
    assert!(!output.status.success(), "{output:?}");
    assert!(output.stderr.contains("admin.token"), "{output:?}");
    assert!(output.stderr.contains("16 characters"), "{output:?}");
    assert!(!output.stderr.contains("hunter2"), "{output:?}");
}

#[tokio::test]
async fn a_file_that_somebody_else_writes_holds_up_no_health_check() {
    let office = Office::open().await;
    let file = office.gateway.folder.path().join("tollgate.db");
    let other = rusqlite::Connection::open(file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let order = Request::post("/api/v1/keys", &json!({"name": "waits"})).key(TOKEN);
    let mut waiting = Connection::open(office.gateway.admin).await;
    waiting.write(&order.bytes()).await;
    let since = Instant::now();
    for _ in 0..20 {
        office.get("/healthz").await.assert_ok();
        office.get("/metrics").await.assert_ok();
    }
    assert!(since.elapsed() < Duration::from_secs(3));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(waiting.answer(&order).await.status, 201);
}

#[tokio::test]
async fn the_ledger_is_verified_over_http() {
    let office = Office::open().await;
    office.create(&json!({"name": "ci", "plan": "pro"})).await;
    let found = office.get("/api/v1/ledger/verify").await;
    found.assert_ok();
    assert_eq!(found.json()["faults"], json!([]), "{found:?}");
    office.sql("UPDATE grants SET spent = 7 WHERE plan = 'pro'");
    let found = office.get("/api/v1/ledger/verify").await.json();
    let faults = found["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 1, "{found}");
    assert!(faults[0].as_str().unwrap().contains("7 spent"), "{found}");
}

#[tokio::test]
async fn a_listener_that_others_can_reach_is_warned_about() {
    let provider = Provider::start().await;
    for (host, warned) in [("127.0.0.1", false), ("0.0.0.0", true)] {
        let folder = TempDir::new().unwrap();
        let mut ports = Ports::free();
        ports.operators.set_ip(host.parse().unwrap());
        let config = Config::of(&provider).on(ports);
        let file = folder.path().join("tollgate.yaml");
        std::fs::write(&file, config.0.to_string()).unwrap();
        let mut process = tollgate()
            .args(["serve", "--config"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut told = String::new();
        while !told.contains("serving") {
            let line = bounded("a line of the log", lines.next_line())
                .await
                .unwrap();
            told += &line.expect("the gateway starts");
        }
        assert_eq!(told.contains("not a loopback address"), warned, "{told}");
        bounded("the gateway's end", process.kill()).await.unwrap();
    }
}

#[tokio::test]
async fn an_order_with_a_name_is_carried_out_once() {
    let office = Office::open().await;
    let send = async |target: &str, order: &Value, name: &str| {
        let request = Request::post(target, order).key(TOKEN);
        office.send(&request.header("idempotency-key", name)).await
    };
    let order = json!({"name": "laptop"});
    let made = send("/api/v1/keys", &order, "new-laptop").await;
    assert_eq!(made.status, 201, "{made:?}");
    let record = made.json()["record"].clone();
    let again = send("/api/v1/keys", &order, "new-laptop").await;
    again.assert_error(409, "invalid_request");
    assert!(again.message().contains(id(&record)), "{}", again.message());
    assert_eq!(
        office.get("/api/v1/keys?name=laptop").await.json()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let grants = format!("/api/v1/keys/{}/grants", id(&record));
    let tokens = json!({"tokens": "2M", "validity": "12h"});
    let first = send(&grants, &tokens, "invoice-7").await;
    let second = send(&grants, &tokens, "invoice-7").await;
    assert_eq!((first.status, second.status), (201, 201), "{second:?}");
    assert_eq!(first.json()["id"], second.json()["id"]);
    // The same name for something else is a slip.
    let other = json!({"tokens": "3M", "validity": "12h"});
    send(&grants, &other, "invoice-7")
        .await
        .assert_error(409, "invalid_request");
    assert_eq!(send(&grants, &tokens, "invoice-8").await.status, 201);
    let given = office.get(&grants).await.json();
    assert_eq!(given["data"].as_array().unwrap().len(), 2, "{given}");
    for name in ["", "a b", &"x".repeat(256)] {
        let refused = send(&grants, &tokens, name).await;
        refused.assert_error(400, "invalid_request");
    }
    office.get("/api/v1/ledger/verify").await.assert_ok();
}
