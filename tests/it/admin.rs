//! The admin API: what `tollgate keys` does, over HTTP, with the token.

mod access;
mod keys;
mod reach;
mod words;

use crate::support::{
    self, Answer, Config, Connection, Gateway, Ports, Provider, Request, bounded, eventually,
    tollgate,
};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
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

    /// The answer to a caller with a key.
    async fn caller(&self, key: &str) -> Answer {
        self.gateway.send(&Request::get("/v1").key(key)).await
    }
}

fn id(record: &Value) -> &str {
    record["id"].as_str().unwrap()
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

    /// Changes the ledger file behind the gateway's back.
    fn sql(&self, sql: &str) {
        let file = self.gateway.folder.path().join("tollgate.db");
        let file = rusqlite::Connection::open(file).unwrap();
        file.execute_batch(sql).unwrap();
    }
}

#[tokio::test]
async fn a_file_locked_by_another_writer_holds_up_no_health_check() {
    let office = Office::open().await;
    let file = office.gateway.folder.path().join("tollgate.db");
    let other = rusqlite::Connection::open(file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let order = Request::post("/api/v1/keys", &json!({"name": "waits"})).key(TOKEN);
    let mut waiting = Connection::open(office.gateway.admin).await;
    waiting.write(&order.bytes()).await;
    let since = Instant::now();
    for _ in 0..5 {
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
    // Of the grant, of the key, and that no commit has done it.
    assert_eq!(faults.len(), 3, "{found}");
    let by_hand = faults[2].as_str().unwrap();
    assert!(by_hand.contains("not as it was committed"), "{found}");
    for (fault, spent) in faults.iter().zip(["7 spent", "7 and 0 spent"]) {
        assert!(fault.as_str().unwrap().contains(spent), "{found}");
    }
}
