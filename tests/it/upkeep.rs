//! Looking after the ledger with the program itself, while a gateway runs.

use crate::support::{
    CHAT, Config, Gateway, LONG, Output, Provider, Request, bounded, eventually, prompt, tollgate,
};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

async fn ledger(gateway: &Gateway, arguments: &[&str]) -> Output {
    let config = gateway.folder.path().join("tollgate.yaml");
    let mut command = tollgate();
    command.args(["ledger", "--config"]).arg(config);
    Output::of(command.args(arguments)).await
}

/// What `verify --json` says.
async fn verify(gateway: &Gateway) -> Value {
    let output = ledger(gateway, &["verify", "--json"]).await;
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn file(gateway: &Gateway) -> PathBuf {
    gateway.folder.path().join("tollgate.db")
}

fn sql(file: &Path, sql: &str) {
    let file = rusqlite::Connection::open(file).unwrap();
    file.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_ledger_that_adds_up_is_shown_as_a_table_or_as_json() {
    let (_provider, gateway) = gateway().await;
    for _ in 0..3 {
        gateway
            .ask(CHAT, "test-model", "", json!({}))
            .await
            .assert_ok();
    }
    let entered = async || (verify(&gateway).await["requests"] == 3).then_some(());
    eventually("three requests on record", entered).await;
    let found = verify(&gateway).await;
    assert_eq!(found["faults"], json!([]));
    assert_eq!(found["granted"], 1_000_000_000);
    assert!(found["spent"].as_u64().unwrap() > 0, "{found}");
    assert!(found["leased"].as_u64().unwrap() > 0, "{found}");

    let table = ledger(&gateway, &["verify"]).await;
    assert!(table.status.success(), "{table:?}");
    for line in ["requests on record         3", "everything adds up"] {
        assert!(table.stdout.lines().any(|it| it == line), "{table:?}");
    }
    assert_eq!(table.stderr, "");
}

#[tokio::test]
async fn a_ledger_that_does_not_add_up_is_named_and_fails_the_command() {
    let (_provider, gateway) = gateway().await;
    gateway.create_key(&["--plan", "plenty"]).await;
    sql(
        &file(&gateway),
        "UPDATE grants SET spent = 7 WHERE number = (SELECT max(number) FROM grants)",
    );
    let grant: String = rusqlite::Connection::open(file(&gateway))
        .unwrap()
        .query_row(
            "SELECT id FROM grants ORDER BY number DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    for arguments in [&["verify"][..], &["verify", "--json"]] {
        let output = ledger(&gateway, arguments).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.contains(&grant), "{output:?}");
        assert!(output.stdout.contains("0 charged, 7 spent"), "{output:?}");
        let by_model = "0 tokens and 0 of money by model, 7 and 0 spent";
        assert!(output.stdout.contains(by_model), "{output:?}");
        let by_hand = "a row of grants is not as it was committed";
        assert!(output.stdout.contains(by_hand), "{output:?}");
        assert!(
            output.stderr.contains("the ledger has 3 faults"),
            "{output:?}"
        );
    }
}

/// Ends a gateway as its operator does: what it leaves.
async fn stopped(mut gateway: Gateway) -> tempfile::TempDir {
    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    gateway.folder
}

#[tokio::test]
async fn commits_that_are_missing_keep_a_gateway_from_serving_until_the_loss_is_accepted() {
    let (_provider, gateway) = gateway().await;
    let config = gateway.config();
    let ask = async |gateway: &Gateway| {
        let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
        answer.assert_ok();
    };
    ask(&gateway).await;
    let folder = stopped(gateway).await;
    // The file alone has everything: nothing of it is in the log.
    let path = folder.path().join("tollgate.db");
    let older = std::fs::read(&path).unwrap();
    let elsewhere = folder.path().join("copy.db");
    std::fs::write(&elsewhere, &older).unwrap();
    let copied = rusqlite::Connection::open(elsewhere).unwrap();
    let requests = copied.query_row("SELECT count(*) FROM usage", [], |row| row.get(0));
    assert_eq!(requests, Ok(1));

    let gateway = Gateway::start_in(folder, config.clone()).await;
    ask(&gateway).await;
    let folder = stopped(gateway).await;
    std::fs::write(&path, &older).unwrap();
    let run = async |arguments: &[&str]| {
        let mut command = tollgate();
        command.args(arguments).arg("--config");
        Output::of(command.arg(folder.path().join("tollgate.yaml"))).await
    };
    for refused in [
        &["serve"][..],
        &["ledger", "verify"],
        &["keys", "list"],
        &["ledger", "backup", "never.db"],
    ] {
        let output = run(refused).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        for part in [
            " lacks ",
            "tollgate.db.sequence",
            "tollgate ledger accept-loss",
        ] {
            assert!(output.stderr.contains(part), "{output:?}");
        }
    }
    assert_eq!(std::fs::read(&path).unwrap(), older, "the file was changed");
    let accepted = run(&["ledger", "accept-loss"]).await;
    assert!(accepted.status.success(), "{accepted:?}");
    assert!(accepted.stderr.contains("given up: "), "{accepted:?}");
    for part in ["requests on record         1", "everything adds up"] {
        assert!(accepted.stdout.contains(part), "{accepted:?}");
    }
    let gateway = Gateway::start_in(folder, config).await;
    ask(&gateway).await;
}

#[tokio::test]
async fn a_process_that_another_one_has_closed_says_so_and_ends_when_its_requests_have() {
    let (provider, mut one) = gateway().await;
    let settlements = settlement_file(&one);
    let config = Config::of(&provider)
        .with("store.path", json!(file(&one)))
        .with("server.upgrade.socket", json!("second.sock"));
    let two = Gateway::start(config).await;
    assert_eq!(one.sample("tollgate_ledger_fenced").await, Some(0.0));
    let key = one.key_with(1_000_000, LONG);
    let body = prompt(CHAT, "test-model", "Hi", json!({"stream": true}));
    let stream = Request::post(CHAT, &body).key(&key);
    let mut connection = one.connect().await;
    let under_way = tokio::spawn(async move {
        let slow = stream.orders("tokens-200,chunk-delay-50ms");
        connection.send(&slow).await
    });
    eventually("the stream has begun", async || {
        let open = one.sample("tollgate_ledger_open_requests").await;
        (open == Some(1.0)).then_some(())
    })
    .await;

    std::fs::remove_file(settlements).unwrap();
    let reported = eventually("the process says that it is not ready", async || {
        let answer = one.operator("/readyz").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    let reported = reported.text();
    assert!(
        reported.contains("this process is fenced in the ledger"),
        "{reported}"
    );
    one.sample_is("tollgate_ledger_fenced", 1.0).await;
    assert_eq!(one.sample("tollgate_ready").await, Some(0.0));
    two.operator("/readyz").await.assert_ok();
    assert_eq!(two.sample("tollgate_ready").await, Some(1.0));
    // What remains once the other one has ended.
    two.sample_is("tollgate_ledger_recovered_processes_total", 1.0)
        .await;

    // What was under way is finished and paid, and the other one serves on.
    let answer = bounded("the stream's end", under_way).await.unwrap();
    answer.assert_ok();
    let line = one.line_of(&answer).await;
    assert_eq!(line["outcome"], "completed", "{line}");
    assert_eq!(one.ended().await.code(), Some(1));
    one.log_line("start it again").await;
    one.has_spent(&key, line["charged"].as_u64().unwrap()).await;
    let body = prompt(CHAT, "test-model", "Hi", json!({}));
    let again = Request::post(CHAT, &body).key(&key);
    two.send(&again).await.assert_ok();
    two.verify().await;
}

/// The settlement file of a gateway that is alone on its ledger.
fn settlement_file(gateway: &Gateway) -> PathBuf {
    let entries = std::fs::read_dir(gateway.folder.path()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found = paths.filter(|path| {
        let name = path.to_string_lossy();
        name.contains(".settlements-") && !name.ends_with(".synced")
    });
    let only = found.next().expect("a settlement file");
    assert_eq!(found.next(), None);
    only
}

#[tokio::test]
async fn a_backup_is_a_ledger_of_its_own_and_overwrites_nothing() {
    let (_provider, gateway) = gateway().await;
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    let entered = async || (verify(&gateway).await["requests"] == 1).then_some(());
    eventually("the request is on record", entered).await;
    let copy = gateway.folder.path().join("backup.db");
    let target = copy.to_str().unwrap();
    let output = ledger(&gateway, &["backup", target]).await;
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.contains("bytes"), "{output:?}");
    let mode = copy.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");

    let again = ledger(&gateway, &["backup", target]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(again.stderr.contains("exists already"), "{again:?}");

    // A gateway of its own serves from the copy: the same key, the same history.
    let restored = gateway.config().with("store.path", json!("backup.db"));
    let elsewhere = gateway.folder.path().join("restored.yaml");
    std::fs::write(&elsewhere, restored.0.to_string()).unwrap();
    let mut command = tollgate();
    command.args(["ledger", "verify", "--json", "--config"]);
    let found = Output::of(command.arg(&elsewhere)).await;
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["faults"], json!([]));
    assert_eq!(
        (&found["requests"], &found["leased"]),
        (&json!(1), &json!(0))
    );
    let mut command = tollgate();
    command.args(["keys", "show", &gateway.key[..11], "--config"]);
    let shown = Output::of(command.arg(&elsewhere)).await;
    assert!(shown.stdout.contains("active"), "{shown:?}");

    // The gateway has not noticed.
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
}

#[tokio::test]
async fn a_ledger_that_is_not_there_is_not_made_to_be_verified() {
    let (_provider, gateway) = gateway().await;
    let config = gateway.config().with("store.path", json!("missing.db"));
    let path = gateway.folder.path().join("other.yaml");
    std::fs::write(&path, config.0.to_string()).unwrap();
    let target = gateway.folder.path().join("backup.db");
    for arguments in [&["verify"][..], &["backup", target.to_str().unwrap()]] {
        let mut command = tollgate();
        command.arg("ledger").args(arguments).arg("--config");
        let output = Output::of(command.arg(&path)).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            output.stderr.contains("there is no ledger at"),
            "{output:?}"
        );
    }
    assert!(!gateway.folder.path().join("missing.db").exists());
    assert!(!target.exists());
}

#[tokio::test]
async fn the_ledger_has_metrics() {
    let (_provider, gateway) = gateway().await;
    for (sample, value) in [("accounts", 0.0), ("open_requests", 0.0)] {
        gateway
            .sample_is(&format!("tollgate_ledger_{sample}"), value)
            .await;
    }
    for _ in 0..3 {
        gateway
            .ask(CHAT, "test-model", "", json!({}))
            .await
            .assert_ok();
    }
    // The page waits only half a second for charges.
    gateway
        .sample_is("tollgate_ledger_open_requests", 0.0)
        .await;
    let usage = gateway.get("/v1/usage").await.json();
    let tokens = |name: &str| usage["tokens"][name].as_f64().unwrap();
    for (sample, value) in [
        ("accounts", 1.0),
        ("open_requests", 0.0),
        ("reservations_total", 3.0),
        ("settlements_total{source=\"reported\"}", 3.0),
        ("settlements_total{source=\"estimated\"}", 0.0),
        ("charged_tokens_total", tokens("used")),
        ("tokens{state=\"free\"}", tokens("remaining")),
        ("tokens{state=\"reserved\"}", 0.0),
        ("shed_total", 0.0),
        ("failed_commits_total", 0.0),
    ] {
        gateway
            .sample_is(&format!("tollgate_ledger_{sample}"), value)
            .await;
    }
    let commits = gateway.sample("tollgate_ledger_commit_seconds_count").await;
    assert!(commits > Some(0.0), "{commits:?}");
    // What another process gives is seen without a request.
    gateway
        .keys(&["top-up", &gateway.key[..11], "--tokens", "5", "--days", "1"])
        .await;
    let free = tokens("remaining") + 5.0;
    gateway
        .sample_is("tollgate_ledger_tokens{state=\"free\"}", free)
        .await;
}
