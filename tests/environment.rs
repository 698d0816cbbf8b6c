//! Faults of what is around the gateway: a full disk, a provider without an address or with a
//! certificate that has run out, no files left. Each has its answer, and none needs a restart.

#![cfg(test)]

mod support;

use serde_json::{Value, json};
use std::net::SocketAddr;
use support::{
    Authority, CHAT, Config, FORMATS, Gateway, Identity, Output, Provider, Request, bounded,
    eventually, in_front_of, prompt, provider_at,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::process::Command;

fn ask(key: &str) -> Request {
    let body = prompt(CHAT, "test-model", "Hi", Value::Null);
    Request::post(CHAT, &body).key(key)
}

/// Bounds a resource of the running gateway, by its name in `prlimit`.
async fn bound(gateway: &Gateway, resource: &str, soft: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &gateway.id().to_string()]);
    prlimit.arg(format!("--{resource}={soft}:"));
    let output = Output::of(&mut prlimit).await;
    assert!(output.status.success(), "{output:?}");
}

/// How many files the gateway has open.
fn open_files(gateway: &Gateway) -> usize {
    let folder = format!("/proc/{}/fd", gateway.id());
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn without_files_the_gateway_waits_and_serves_again_once_there_are_some() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let mut kept = gateway.connect().await;
    kept.send(&ask(&gateway.key)).await.assert_ok();
    // As many as it has, and one to take a connection with that finds no provider.
    let used = open_files(&gateway);
    bound(&gateway, "nofile", &used.to_string()).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(
            bounded("the backlog", TcpStream::connect(gateway.address))
                .await
                .unwrap(),
        );
    }
    gateway.log_line("Too many open files").await;
    // Who has a connection is served over the provider's that is kept too.
    kept.send(&ask(&gateway.key)).await.assert_ok();
    let lines = |gateway: &Gateway| gateway.output().matches("Too many open files").count();
    let before = lines(&gateway);
    tokio::time::timeout(std::time::Duration::from_secs(2), waiting[0].read_u8())
        .await
        .expect_err("nobody is sent away");
    let spins = lines(&gateway) - before;
    assert!(spins < 20, "{spins} tries in two seconds");

    bound(&gateway, "nofile", "1024").await;
    for stream in waiting {
        let mut connection = support::Connection::over(stream);
        connection.send(&ask(&gateway.key)).await.assert_ok();
    }
}

#[tokio::test]
async fn a_provider_without_an_address_is_unavailable_until_it_has_one() {
    let provider = Provider::start().await;
    let nowhere = provider_at("http://no-such-host.invalid:80");
    let config = Config::new()
        .provider("sim", nowhere)
        .model("test-model", json!(["sim/upstream-model"]));
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        let answer = gateway.ask(path, "test-model", "", json!({})).await;
        answer.assert_error(503, "service_unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        assert!(!answer.text().contains("no-such-host"), "{answer:?}");
    }
    gateway.get("/v1").await.assert_ok();
    gateway.rewrite(Config::of(&provider));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    for path in FORMATS {
        let answer = gateway.ask(path, "test-model", "", json!({})).await;
        answer.assert_ok();
    }
}

#[tokio::test]
async fn a_certificate_that_has_run_out_is_trusted_no_more_until_it_is_renewed() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("own.pem"), authority.pem()).unwrap();
    let at =
        async |identity: &Identity| -> SocketAddr { in_front_of(provider.address, identity).await };
    let expired = at(&authority.issue_expired("provider.test")).await;
    let renewed = at(&authority.issue("provider.test")).await;
    let config = |address: SocketAddr| {
        let mut settings = provider_at(&format!("https://{address}"));
        settings["tls"] = json!({"ca": "own.pem", "server_name": "provider.test"});
        Config::new()
            .provider("sim", settings)
            .model("test-model", json!(["sim"]))
    };
    let gateway = Gateway::start_in(folder, config(expired)).await;
    for path in FORMATS {
        let answer = gateway.ask(path, "test-model", "", json!({})).await;
        answer.assert_error(503, "service_unavailable");
        assert!(!answer.text().contains("ertificate"), "{answer:?}");
    }
    assert_eq!(provider.handle.counters().requests, 0);
    gateway.rewrite(config(renewed));
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    for path in FORMATS {
        let answer = gateway.ask(path, "test-model", "", json!({})).await;
        answer.assert_ok();
    }
}

#[tokio::test]
async fn on_a_full_disk_nothing_settled_is_lost_and_the_gateway_goes_on_when_there_is_room() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    gateway.send(&ask(&gateway.key)).await.assert_ok();
    // Files do not grow any more, as on a disk that is full. The settlement file is there
    // already, and what it holds of so few requests lies within.
    bound(&gateway, "fsize", &(512 << 10).to_string()).await;
    let mut answers = Vec::new();
    let mut connection = gateway.connect().await;
    eventually("the disk is full", async || {
        answers.push(connection.send(&ask(&gateway.key)).await.status);
        let failed = gateway.sample("tollgate_ledger_failed_commits_total");
        (failed.await > Some(0.0)).then_some(())
    })
    .await;
    for _ in 0..50 {
        answers.push(connection.send(&ask(&gateway.key)).await.status);
    }
    answers.sort_unstable();
    answers.dedup();
    println!("on a full disk callers are told {answers:?}");
    assert!(
        answers.iter().all(|status| [200, 503].contains(status)),
        "{answers:?}"
    );
    gateway.get("/v1").await.assert_ok();

    bound(&gateway, "fsize", "unlimited").await;
    eventually("requests are served again", async || {
        let answer = gateway.send(&ask(&gateway.key)).await;
        (answer.status == 200).then_some(())
    })
    .await;
    gateway
        .sample_is("tollgate_ledger_open_requests", 0.0)
        .await;
    let asked = provider.handle.counters().requests;
    let history = gateway.get("/v1/usage").await;
    history.assert_ok();
    let mut verify = support::tollgate();
    verify
        .args(["ledger", "verify", "--config"])
        .arg(gateway.folder.path().join("tollgate.yaml"));
    let verified = Output::of(&mut verify).await;
    assert!(verified.status.success(), "{verified:?}");
    assert!(
        verified.stdout.contains("everything adds up"),
        "{verified:?}"
    );
    let on_record = verified
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("requests on record"))
        .and_then(|count| count.trim().parse::<u64>().ok());
    assert!(
        on_record.is_some_and(|count| count >= asked),
        "{on_record:?} of {asked}"
    );
}
