//! The dashboard: its page is open and strict, its data needs the token.

use crate::support::{
    self, CHAT, Config, Connection, Gateway, LONG, Provider, Request, bounded, eventually, prompt,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TOKEN: &str = "0123456789abcdef-the-token-of-the-tests";
const STREAM: &str = "/api/v1/dashboard/stream";
const FILES: [&str; 6] = [
    "/",
    "/dashboard/app.css",
    "/dashboard/app.js",
    "/dashboard/icon.svg",
    "/dashboard/uplot.css",
    "/dashboard/uplot.js",
];

async fn gateway() -> (Gateway, Provider) {
    gateway_with(json!({"token": "file:token"})).await
}

/// A gateway with these settings of `admin`.
async fn gateway_with(admin: Value) -> (Gateway, Provider) {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let config = Config::of(&provider).with("admin", admin);
    (Gateway::start_in(folder, config).await, provider)
}

/// An open stream of events.
struct Viewer {
    stream: TcpStream,
    text: String,
}

impl Viewer {
    async fn open(gateway: &Gateway) -> Self {
        let token = format!("authorization: Bearer {TOKEN}\r\n");
        Self::open_with(gateway, &token).await
    }

    /// Opens it with these headers.
    async fn open_with(gateway: &Gateway, headers: &str) -> Self {
        let mut stream = TcpStream::connect(gateway.admin).await.unwrap();
        let head = format!("GET {STREAM} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut this = Self {
            stream,
            text: String::new(),
        };
        this.read_to("\r\n\r\n").await;
        this
    }

    /// Reads up to this text and returns what stands before it. `None`: the stream has ended.
    async fn read_to(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some((before, after)) = self.text.split_once(end) {
                let before = before.to_owned();
                self.text = after.to_owned();
                return Some(before);
            }
            let mut buffer = vec![0; 65536];
            let read = bounded("an event", self.stream.read(&mut buffer)).await;
            match read {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.text += std::str::from_utf8(&buffer[..count]).unwrap(),
            }
        }
    }

    async fn event(&mut self) -> Option<Value> {
        self.read_to("data: ").await?;
        let event = self.read_to("\n\n").await?;
        Some(serde_json::from_str(&event).unwrap())
    }
}

#[tokio::test]
async fn the_page_is_open_and_forbids_what_it_does_not_need() {
    let (gateway, _provider) = gateway().await;
    for path in FILES {
        let file = gateway.operator(path).await;
        file.assert_ok();
        let policy = file.header("content-security-policy").unwrap();
        for wanted in ["default-src 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(wanted), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(file.header(name), Some(value), "{path}");
        }
    }
    let page = gateway.operator("/").await.text();
    for forbidden in ["http:", "https:", "<style", "style=", "onclick="] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[tokio::test]
async fn data_needs_the_token_and_a_host_that_is_allowed() {
    let (gateway, _provider) = gateway().await;
    let unknown = "/api/v1/dashboard/requests/req_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for path in [STREAM, "/api/v1/dashboard/keys", unknown] {
        let refused = gateway.operator(path).await;
        refused.assert_error(401, "missing_api_key");
        let request = Request::get(path).key("another-token-of-the-same-length-as-that");
        let mut connection = Connection::open(gateway.admin).await;
        connection
            .send(&request)
            .await
            .assert_error(401, "invalid_api_key");
        let mut connection = Connection::open(gateway.admin).await;
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: evil.example\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
        );
        connection.write(head.as_bytes()).await;
        let refused = connection.answer(&Request::get(path)).await;
        refused.assert_error(403, "permission_denied");
    }
    let mut connection = Connection::open(gateway.admin).await;
    let missing = connection.send(&Request::get(unknown).key(TOKEN)).await;
    missing.assert_error(404, "not_found");
}

#[tokio::test]
async fn the_overview_can_be_open_and_everything_else_needs_the_token() {
    let (closed, _provider) = gateway().await;
    let access = "/api/v1/dashboard/access";
    assert_eq!(closed.operator(access).await.json()["overview"], false);
    let settings = json!({"token": "file:token", "open_overview": true});
    let (gateway, provider) = gateway_with(settings).await;
    assert_eq!(gateway.operator(access).await.json()["overview"], true);
    let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
    answer.assert_ok();
    gateway.line_of(&answer).await;
    let id = answer.header("x-request-id").unwrap();
    let mut with_token = Viewer::open(&gateway).await;
    let event = with_token.event().await.unwrap();
    assert_eq!(event["requests"][0]["id"], *id, "{event}");
    let mut without = Viewer::open_with(&gateway, "").await;
    let event = without.event().await.unwrap();
    assert_eq!(event["models"][0]["name"], "test-model", "{event}");
    assert!(!event.to_string().contains("req_"), "{event}");
    assert!(!event.to_string().contains("key_"), "{event}");
    let request = format!("/api/v1/dashboard/requests/{id}");
    for path in ["/api/v1/dashboard/keys", &request, "/api/v1/keys"] {
        let refused = gateway.operator(path).await;
        refused.assert_error(401, "missing_api_key");
    }
    // A wrong token is no missing one.
    let wrong = Request::get(STREAM).key("another-token-of-the-same-length-as-that");
    let refused = Connection::open(gateway.admin).await.send(&wrong).await;
    refused.assert_error(401, "invalid_api_key");
    // It closes with the next reload.
    let config = Config::of(&provider).with("admin", json!({"token": "file:token"}));
    gateway.rewrite(config);
    gateway.signal("HUP").await;
    let ended = async || without.event().await.is_none().then_some(());
    eventually("the end of the open stream", ended).await;
    assert!(with_token.event().await.is_some());
}

#[tokio::test]
async fn a_viewer_sees_requests_as_they_end() {
    let (gateway, provider) = gateway().await;
    let mut viewer = Viewer::open(&gateway).await;
    viewer.event().await.unwrap();
    let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
    answer.assert_ok();
    let id = answer.header("x-request-id").unwrap().to_owned();
    let mut seen = Value::Null;
    for _ in 0..5 {
        let event = viewer.event().await.unwrap();
        let rows = event["requests"].as_array().unwrap();
        if let Some(row) = rows.iter().find(|row| row["id"] == *id) {
            seen = row.clone();
            let models = event["models"].as_array().unwrap();
            let model = models.iter().find(|row| row["name"] == "test-model");
            assert!(
                model.unwrap()["requests"].as_f64().unwrap() > 0.0,
                "{event}"
            );
            break;
        }
    }
    assert_eq!(seen["status"], 200, "{seen}");
    assert_eq!(seen["model"], "test-model", "{seen}");
    let path = format!("/api/v1/dashboard/requests/{id}");
    let mut connection = Connection::open(gateway.admin).await;
    let one = connection.send(&Request::get(&path).key(TOKEN)).await;
    assert_eq!(one.json()["recent"]["id"], *id);
    drop(provider);
}

#[tokio::test]
async fn the_number_of_viewers_is_bounded_and_a_place_is_free_again() {
    const MOST: usize = 16;
    let (gateway, _provider) = gateway().await;
    let mut viewers = Vec::new();
    for _ in 0..MOST {
        viewers.push(Viewer::open(&gateway).await);
    }
    for viewer in &mut viewers {
        viewer.event().await.unwrap();
    }
    let request = Request::get(STREAM).key(TOKEN);
    let mut connection = Connection::open(gateway.admin).await;
    let refused = connection.send(&request).await;
    refused.assert_error(503, "service_unavailable");
    gateway.operator("/healthz").await.assert_ok();
    viewers.truncate(MOST - 1);
    eventually("a free place", async || {
        Viewer::open(&gateway).await.event().await.map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn viewers_without_the_token_leave_room_for_one_with_it() {
    const MOST: usize = 12;
    let settings = json!({"token": "file:token", "open_overview": true});
    let (gateway, _provider) = gateway_with(settings).await;
    let mut viewers = Vec::new();
    for _ in 0..MOST {
        viewers.push(Viewer::open_with(&gateway, "").await);
    }
    for viewer in &mut viewers {
        viewer.event().await.unwrap();
    }
    let refused = gateway.operator(STREAM).await;
    refused.assert_error(503, "service_unavailable");
    let mut with_token = Viewer::open(&gateway).await;
    with_token.event().await.expect("a stream with the token");
    drop(viewers.pop());
    eventually("room for another viewer without it", async || {
        let mut viewer = Viewer::open_with(&gateway, "").await;
        viewer.event().await.map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn the_keys_are_shown_while_the_ledger_is_verified() {
    const READERS: usize = 8;
    let (gateway, _provider) = gateway().await;
    let verify = async {
        loop {
            let request = Request::get("/api/v1/ledger/verify").key(TOKEN);
            let answer = Connection::open(gateway.admin).await.send(&request).await;
            answer.assert_ok();
        }
    };
    let read = async || {
        let request = Request::get("/api/v1/dashboard/keys").key(TOKEN);
        Connection::open(gateway.admin).await.send(&request).await
    };
    let shown = async {
        for _ in 0..5 {
            let answers = futures::future::join_all((0..READERS).map(|_| read())).await;
            for answer in answers {
                answer.assert_ok();
            }
        }
    };
    tokio::select! {
        () = verify => {}
        () = shown => {}
    }
}

/// The page in Chromium; `make test-dashboard` runs this.
#[tokio::test]
#[ignore = "needs Chromium and playwright-core"]
async fn chromium_shows_ten_thousand_keys_and_two_hundred_models() {
    // Names of models and providers are letters, digits and a few signs; those of keys are any text.
    const HOSTILE: &str = "<img src=x onerror=alert(1)>";
    let (a, b) = (Provider::start().await, Provider::start().await);
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let mut config = Config::first_and_second(a.address, b.address)
        .with("admin.token", json!("file:token"))
        .with(
            "routing.health",
            json!({"consecutive_failures": 1, "cooldown": "10m", "max_cooldown": "10m"}),
        )
        .model("failing", json!(["a"]))
        .provider("c", support::provider(b.address))
        .model("slow", json!(["c"]))
        .with("models.slow.price", json!({"input": 3, "output": 15}));
    for number in 0..200 {
        config = config.model(&format!("model-{number:03}"), json!(["b"]));
    }
    let gateway = Gateway::start_in(folder, config).await;
    let file = gateway.folder.path().join("tollgate.db");
    let file = rusqlite::Connection::open(file).unwrap();
    file.execute_batch(&format!(
        "BEGIN;
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000)
         INSERT INTO keys (id, hash, prefix, name, created_at)
         SELECT printf('key_%020d', n), randomblob(32), printf('sk-%08d', n),
                iif(n = 9999, '{HOSTILE}', printf('customer %d', n)), 1700000000000 FROM numbers;
         INSERT INTO grants (id, key, plan, tokens, spent, validity_ms, created_at)
         SELECT 'grant' || substr(id, 4), number, 'plenty', 1000000,
                100 * CAST(substr(id, 5) AS INTEGER), 86400000, 1700000000000
         FROM keys WHERE id LIKE 'key_0000%';
         COMMIT;"
    ))
    .unwrap();
    let mut first = None;
    for number in 0..200 {
        let model = format!("model-{number:03}");
        let answer = gateway.ask(CHAT, &model, "", json!({})).await;
        answer.assert_ok();
        first = first.or_else(|| answer.header("x-request-id").map(str::to_owned));
    }
    let failed_over = gateway.ask(CHAT, "m", "status-500", json!({})).await;
    failed_over.assert_ok();
    gateway.ask(CHAT, "failing", "status-503", json!({})).await;
    gateway.ask(CHAT, "no-such-model", "", json!({})).await;
    let poor = gateway.key_with(10, LONG);
    let hurried = gateway.key_with(1_000_000, LONG);
    let limits = ["set-limits", &hurried, "--requests", "1"];
    assert!(gateway.keys(&limits).await.status.success());
    let body = prompt(CHAT, "model-002", "Say something nice.", json!({}));
    for (key, status) in [(&poor, 402), (&hurried, 200), (&hurried, 429)] {
        let answer = gateway.send(&Request::post(CHAT, &body).key(key)).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let settings = json!({"token": "file:token", "open_overview": true});
    let (open, _provider) = gateway_with(settings).await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let shots = std::env::var_os("DASHBOARD_SHOTS");
    let shots = shots.map_or_else(|| folder.join("target/dashboard"), Into::into);
    let status = tokio::process::Command::new("node")
        .arg(folder.join("tests/dashboard/check.mjs"))
        .env("ADMIN", format!("http://{}", gateway.admin))
        .env("OPEN", format!("http://{}", open.admin))
        .env("GATEWAY", format!("http://{}", gateway.address))
        .env("ADMIN_TOKEN", TOKEN)
        .env("KEY", &gateway.key)
        .env("FIRST", first.unwrap())
        .env("FAILED_OVER", failed_over.header("x-request-id").unwrap())
        .env("SHOTS", shots)
        .kill_on_drop(true)
        .status()
        .await
        .unwrap();
    assert!(status.success(), "{status}");
}
