//! A standby takes over that lacks the last commits of its primary.

use super::{SMALL, Site, ask, charge, committed, history, is_known, run, until, usage};
use crate::support::{Answer, Gateway, Postgres, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A gateway that uses the server that takes writes.
async fn gateway(site: &Site, standby: &Postgres) -> Gateway {
    let folder = TempDir::new().unwrap();
    let postgres = json!({"url": "file:url", "tls": false, "lease_term": "30s"});
    let config = site.config(&folder).with("store.postgres", postgres);
    let primary = site.server.url_through(site.server.address());
    let primary = primary.strip_suffix("/tollgate").unwrap();
    let url = format!("{primary},{}/tollgate", standby.address());
    std::fs::write(folder.path().join("url"), url).unwrap();
    Gateway::start_in(folder, config).await
}

/// The next keys, grants and processes that a server numbers follow this one, as if as many had been made.
fn number_from(server: &Postgres, number: u64) {
    for table in ["keys", "grants", "processes"] {
        let sequence = format!("pg_get_serial_sequence('{table}', 'number')");
        server.sql_in("tollgate", &format!("SELECT setval({sequence}, {number})"));
    }
}

fn id(answer: &Answer) -> String {
    answer.header("x-request-id").unwrap().to_owned()
}

async fn requests(gateway: &Gateway, key: &str) -> Vec<String> {
    let recorded = history(gateway, key).await;
    recorded.into_iter().map(|(id, _)| id).collect()
}

#[tokio::test]
async fn a_standby_that_lacks_the_last_commits_takes_over_and_nothing_else_is_lost() {
    /// More than any number that was given.
    const NUMBER: u64 = 1000;
    let Some(mut site) = Site::new().await else {
        return;
    };
    let standby = site.server.standby();
    let mut one = gateway(&site, &standby).await;
    // It leases nothing yet.
    let idle = gateway(&site, &standby).await;
    let key = one.create_key(&["--plan", "small"]).await;
    is_known(&one, &key).await;
    let before = ask(&one, &key, 20).await;
    committed(&one).await;
    let records = "SELECT count(*) FROM usage";
    let all = site.server.sql_in("tollgate", records);
    eventually("the standby has all", async || {
        (standby.sql_in("tollgate", records) == all).then_some(())
    })
    .await;
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
    standby.sql("SELECT pg_reload_conf()");
    eventually("the end of replication", async || {
        let streams = "SELECT count(*) FROM pg_stat_replication";
        (site.server.sql(streams) == "0").then_some(())
    })
    .await;
    // The standby has nothing of this.
    number_from(&site.server, NUMBER);
    let gone = one.create_key(&["--plan", "small"]).await;
    let mut newer = gateway(&site, &standby).await;
    is_known(&one, &gone).await;
    let lost = ask(&one, &key, 20).await;
    ask(&newer, &newer.key, 20).await.assert_ok();
    for gateway in [&one, &newer] {
        committed(gateway).await;
    }
    assert!(requests(&one, &key).await.contains(&id(&lost)));
    site.server.stop();
    // These are in the settlement file.
    let (kept, of_gone) = (ask(&one, &key, 20).await, ask(&one, &gone, 20).await);
    kept.assert_ok();
    of_gone.assert_ok();
    for gateway in [&one, &newer, &idle] {
        gateway.signal("STOP").await;
    }
    standby.sql("SELECT pg_promote()");
    // The same numbers are given again.
    number_from(&standby, NUMBER);
    let config = one.config();
    let made = run(
        &config,
        &["keys", "create", "later", "--plan", "small", "--json"],
        &one.folder,
    )
    .await;
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let later = made["key"].as_str().unwrap();
    let fourth = gateway(&site, &standby).await;
    let own = charge(&fourth, &ask(&fourth, later, 20).await).await;
    for gateway in [&one, &newer, &idle] {
        gateway.signal("CONT").await;
    }
    // Gateways that have lost commits end.
    for gateway in [&mut one, &mut newer] {
        gateway.log_line("lacks a commit").await;
        assert_eq!(gateway.ended().await.code(), Some(1));
    }
    let one = Gateway::start_in(one.folder, config).await;
    for gateway in [&one, &idle, &fourth] {
        until(gateway, &key, 200).await;
        until(gateway, &gone, 401).await;
        committed(gateway).await;
        assert_eq!(gateway.sample("tollgate_ledger_fenced").await, Some(0.0));
    }
    let recorded = requests(&one, &key).await;
    assert!(recorded.contains(&id(&before)) && recorded.contains(&id(&kept)));
    assert!(!recorded.contains(&id(&lost)));
    // The new key pays for its own request alone.
    assert_eq!(requests(&one, later).await.len(), 1);
    eventually("the charges", async || {
        let tokens = &usage(&one, later).await["tokens"];
        (tokens["used"] == own && tokens["granted"] == SMALL).then_some(())
    })
    .await;
    // The request of the key that is gone is kept for the operator.
    let verified = run(
        &fourth.config(),
        &["ledger", "verify", "--json"],
        &fourth.folder,
    )
    .await;
    let found: Value = serde_json::from_str(&verified.stdout).unwrap();
    let faults = found["faults"].as_array().unwrap();
    let [fault] = &faults[..] else {
        panic!("{faults:#?}");
    };
    let fault = fault.as_str().unwrap();
    assert!(fault.contains("could not be entered"), "{fault}");
}
