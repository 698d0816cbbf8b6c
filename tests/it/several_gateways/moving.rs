//! A ledger moves from a file to the server.

use super::{SMALL, Site, ask, charge, usage};
use crate::support::{
    Config, Gateway, LONG, Output, PATIENCE, Postgres, eventually, store_in, tollgate,
};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;
use tokio::process::Command;
use tollgate_ledger::{
    Clock, GrantTerms, Ledger, LedgerSettings, NewKey, RequestInfo, Reserve, Store, UpperBound,
};
use tollgate_types::{RequestId, Weights};

fn copy(from: &Path, to: &Path) -> Command {
    let mut command = tollgate();
    command.args(["ledger", "copy", "--from"]).arg(from);
    command.arg("--to").arg(to);
    command
}

#[tokio::test]
async fn a_ledger_moves_from_a_file_to_the_server_with_its_keys_and_its_history() {
    let Some(site) = Site::new().await else {
        return;
    };
    let small = json!({"tokens": SMALL, "validity": "1d"});
    let of_file = Config::of(&site.provider).with("plans.small", small);
    let mut file = Gateway::start(of_file).await;
    let key = file.create_key(&["--plan", "small"]).await;
    let asked = async |gateway: &Gateway| {
        let answer = ask(gateway, &key, 20).await;
        charge(gateway, &answer).await
    };
    let first = asked(&file).await;
    let folder = TempDir::new().unwrap();
    let config = site.config(&folder);
    let to = folder.path().join("server.yaml");
    std::fs::write(&to, config.0.to_string()).unwrap();
    let from = file.folder.path().join("tollgate.yaml");
    let copy = async || Output::of(&mut copy(&from, &to)).await;
    let begun = copy().await;
    assert!(!begun.status.success(), "{begun:?}");
    assert!(begun.stderr.contains("stop all gateways"), "{begun:?}");
    let second = asked(&file).await;
    file.signal("TERM").await;
    assert!(file.ended().await.success());
    let done = copy().await;
    assert!(done.status.success(), "{done:?}");
    assert!(done.stdout.contains("everything adds up"), "{done:?}");
    let gateway = Gateway::start_in(folder, config).await;
    let third = asked(&gateway).await;
    eventually("the charges", async || {
        let used = usage(&gateway, &key).await["tokens"]["used"].as_u64();
        (used == Some(first + second + third)).then_some(())
    })
    .await;
    let again = copy().await;
    assert!(again.stderr.contains("it is in use"), "{again:?}");
}

/// Enters so many requests that have failed.
async fn fill(store: &Store, requests: u64) {
    let new = NewKey {
        grant: Some(GrantTerms {
            tokens: 1_000_000,
            validity: LONG,
            ..GrantTerms::default()
        }),
        ..NewKey::named("test")
    };
    let key = store.create_key(&new).unwrap().record.id().clone();
    let ledger = Ledger::open(store, LedgerSettings::default()).unwrap();
    let bound = UpperBound {
        input: 1,
        hidden_input: 0,
        output: 1,
        useful_output: 1,
        plausible_input: u64::MAX,
        plausible_output: u64::MAX,
    };
    for number in 0..requests {
        loop {
            let request = RequestInfo {
                id: RequestId::from_parts(Clock::system().now().unix_ms(), number.into()),
                model: "m".into(),
                reason: None,
                format: None,
                streamed: false,
            };
            match ledger.reserve(&key, request, bound, Weights::default()) {
                // A request that is given up is on record.
                Reserve::Reserved(reservation) => break drop(reservation),
                Reserve::Wait(account) => account.wait().await.unwrap(),
                Reserve::Refused(shortage) => panic!("{shortage}"),
            }
        }
    }
    assert!(ledger.caught_up(PATIENCE).await);
    assert!(ledger.close(PATIENCE));
}

/// The server's part of a copy waits at this record for ever.
fn stop_at(server: &Postgres, record: u64) {
    server.sql_in(
        "tollgate",
        &format!(
            "CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN PERFORM pg_sleep(600); RETURN NEW; END$$;
             CREATE TRIGGER stop_here BEFORE INSERT ON usage FOR EACH ROW
             WHEN (NEW.number = {record}) EXECUTE FUNCTION stop_here()"
        ),
    );
}

#[tokio::test]
async fn a_copy_that_is_killed_continues_after_its_last_step() {
    const STEP: u64 = 10_000;
    const RECORDS: u64 = 2 * STEP + 5_000;
    let Some(site) = Site::new().await else {
        return;
    };
    let (source, target) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fill(&store_in(source.path()), RECORDS).await;
    let from = source.path().join("file.yaml");
    std::fs::write(&from, Config::of(&site.provider).0.to_string()).unwrap();
    let to = target.path().join("server.yaml");
    std::fs::write(&to, site.config(&target).0.to_string()).unwrap();
    stop_at(&site.server, STEP + STEP / 2);
    let mut killed = copy(&from, &to).spawn().unwrap();
    let waiting = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually("the second step", async || {
        let count = site.server.sql(&format!("SELECT count(*) {waiting}"));
        (count == "1").then_some(())
    })
    .await;
    killed.kill().await.unwrap();
    site.server
        .sql(&format!("SELECT pg_terminate_backend(pid) {waiting}"));
    site.server
        .sql_in("tollgate", "DROP FUNCTION stop_here CASCADE");
    let copied = || site.server.sql_in("tollgate", "SELECT count(*) FROM usage");
    assert_eq!(copied(), STEP.to_string());
    // The first step is not repeated.
    stop_at(&site.server, STEP);
    let done = Output::of(&mut copy(&from, &to)).await;
    assert!(done.stdout.contains("everything adds up"), "{done:?}");
    assert_eq!(copied(), RECORDS.to_string());
    let sums = async |config| {
        let mut verify = tollgate();
        verify.args(["ledger", "verify", "--json", "--config"]);
        Output::of(verify.arg(config)).await.stdout
    };
    assert_eq!(sums(&from).await, sums(&to).await);
}
