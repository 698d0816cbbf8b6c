//! `tollgate logs`: one request in the ledger, in the access log and in the log.

use super::{command, refused, run};
use crate::support::{CHAT, Config, Gateway, Output, Provider, eventually};
use serde_json::{Value, json};
use std::fs;

#[tokio::test]
async fn a_request_is_found_with_its_attempts() {
    let (a, b) = (Provider::start().await, Provider::start().await);
    let gateway = Gateway::start(Config::first_and_second(a.address, b.address)).await;
    let folder = gateway.folder.path();
    let answer = gateway.ask(CHAT, "m", "status-500", json!({})).await;
    answer.assert_ok();
    let id = answer.header("x-request-id").unwrap().to_owned();
    gateway.access_line(|line| line["id"] == id).await;
    gateway.log_line(&format!("{id}: provider a: ")).await;
    fs::write(folder.join("gateway.log"), gateway.output()).unwrap();

    let order = ["logs", "--request", &id, "--log", "gateway.log"];
    let found = eventually("the record in the ledger", async || {
        let output = run(&[&order[..], &["--json"]].concat(), folder).await;
        let found: Value = serde_json::from_str(&output.stdout).expect(&output.stderr);
        found["record"].is_object().then_some(found)
    })
    .await;
    let record = &found["record"];
    assert_eq!(record["id"], id, "{found:#}");
    assert_eq!(record["key_name"], "test");
    assert_eq!(record["model_served"], "m");
    assert_eq!(found["access"]["attempts"], 2, "{found:#}");
    assert_eq!(found["access"]["provider"], "b");
    let attempts = found["lines"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{found:#}");
    let failed = attempts[0].as_str().unwrap();
    assert!(failed.contains("provider a: "), "{failed}");
    assert!(failed.contains("status 500"), "{failed}");

    let output = run(&order, folder).await;
    let titles: Vec<_> = output
        .stdout
        .lines()
        .filter(|it| it.chars().all(|c| c.is_ascii_uppercase() || c == ' ') && !it.is_empty())
        .collect();
    assert_eq!(titles, ["LEDGER", "ACCESS LOG", "LOG"], "{output:?}");

    // From a pipe, as of `journalctl`.
    let mut piped = command(&["logs", "--request", &id, "--log", "-"], folder);
    let log = fs::File::open(folder.join("gateway.log")).unwrap();
    let output = Output::of(piped.stdin(log)).await;
    assert!(output.stdout.contains("ACCESS LOG"), "{output:?}");
    // Without a log the ledger alone is known.
    let output = run(&["logs", "--request", &id], folder).await;
    assert!(output.stdout.starts_with("LEDGER\n"), "{output:?}");
    assert!(!output.stdout.contains("ACCESS"), "{output:?}");
}

#[tokio::test]
async fn a_request_that_is_nowhere_is_an_error() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let folder = gateway.folder.path();
    let unknown = format!("req_{}", "0".repeat(26));
    let wanted =
        format!("the request {unknown} is not in tollgate.db; a request that cost nothing");
    refused(&["logs", "--request", &unknown], folder, &wanted).await;
    fs::write(folder.join("empty.log"), "").unwrap();
    let order = ["logs", "--request", &unknown, "--log", "empty.log"];
    refused(&order, folder, "is not in tollgate.db, empty.log\n").await;
    let order = ["logs", "--request", &unknown, "--log", "none.log"];
    refused(&order, folder, "none.log cannot be read: No such file").await;
    let output = run(&["logs", "--request", "resp_1"], folder).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let wanted = "expected the x-request-id of an answer";
    assert!(output.stderr.contains(wanted), "{output:?}");
}
