//! `tollgate status`: what a gateway reports of itself, and its readiness as the exit code.

use super::{command, gateway, json_of, refused, run};
use crate::support::{
    Act, CHAT, Gateway, Output, Request, Upstream, bounded, closed_port, eventually, json_answer,
    prompt,
};
use serde_json::json;

fn at(gateway: &Gateway) -> String {
    format!("http://{}", gateway.admin)
}

#[tokio::test]
async fn one_screen_shows_providers_breakers_ledger_and_version() {
    let (gateway, _provider) = gateway().await;
    let folder = gateway.folder.path();
    let output = run(&["status"], folder).await;
    assert!(output.status.success(), "{output:?}");
    for line in [
        &*format!("gateway        {}: ready\n", gateway.admin),
        &format!("version        {}, up ", env!("CARGO_PKG_VERSION")),
        "configuration  number 1, since 20",
        "in flight      requests 0, streams 0, connections 0\n",
        "quarantined records 0\n",
        "\nsim               0  closed\n",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output:?}");
    }
    assert!(!output.stdout.contains("WARNING"), "{output:?}");
    assert!(!output.stdout.contains('\u{1b}'), "{output:?}");

    // A provider that refuses the credential.
    for _ in 0..3 {
        let orders = "status-401";
        gateway.ask(CHAT, "test-model", orders, json!({})).await;
    }
    let status = json_of(&run(&["status", "--json"], folder).await);
    assert_eq!(status["ready"], true, "{status}");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let sim = &status["providers"][0];
    assert_eq!(sim["name"], "sim", "{status}");
    let open = &sim["open"][0];
    assert_eq!(open["breaker"]["state"], "open", "{status}");
    assert!(open["credential"].is_string(), "{status}");
    let shown = run(&["status"], folder).await.stdout;
    let reason = open["breaker"]["last_failure"]["class"].as_str().unwrap();
    let line = shown.lines().find(|line| line.contains("open since"));
    assert!(line.is_some_and(|line| line.contains(reason)), "{shown}");
}

#[tokio::test]
async fn a_token_is_needed_for_providers_and_a_wrong_one_is_an_error() {
    let (gateway, _provider) = gateway().await;
    // No configuration is read here.
    let elsewhere = tempfile::TempDir::new().unwrap();
    let status = ["status", "--at", &at(&gateway)];
    let output = run(&status, elsewhere.path()).await;
    assert!(output.status.success(), "{output:?}");
    let warning = "the admin token is expected in TOLLGATE_ADMIN_TOKEN";
    assert!(output.stdout.contains(warning), "{output:?}");
    assert!(!output.stdout.contains("PROVIDER"), "{output:?}");

    let mut right = command(&status, elsewhere.path());
    let output = Output::of(right.env("TOLLGATE_ADMIN_TOKEN", super::TOKEN)).await;
    assert!(output.stdout.contains("PROVIDER"), "{output:?}");

    let mut wrong = command(&status, elsewhere.path());
    let output = Output::of(wrong.env("TOLLGATE_ADMIN_TOKEN", "a-wrong-token-of-the-test")).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let wanted = "answers 401: the admin token is not valid";
    assert!(output.stderr.contains(wanted), "{output:?}");
    assert!(!output.stderr.contains("a-wrong-token"), "{output:?}");

    // Another port of the gateway is not sent the token.
    let callers = format!("http://{}", gateway.address);
    let mut other = command(&["status", "--at", &callers], elsewhere.path());
    let output = Output::of(other.env("TOLLGATE_ADMIN_TOKEN", super::TOKEN)).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let wanted = "serves no metrics of Tollgate: give the address of a gateway's operator port";
    assert!(output.stderr.contains(wanted), "{output:?}");

    // Another server does not get the token, either.
    let server = Upstream::playing([Act::send(json_answer("200 OK", "", "{}"))]).await;
    let server = format!("http://{}", server.address);
    let file = gateway.folder.path().join("tollgate.yaml");
    let file = file.to_str().unwrap();
    for arguments in [
        &["status", "--at", &server][..],
        &["check", file, "--against", &server],
    ] {
        let mut other = command(arguments, elsewhere.path());
        let output = Output::of(other.env("TOLLGATE_ADMIN_TOKEN", super::TOKEN)).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr.contains(wanted), "{output:?}");
    }

    // The variables of the service need not be set in the operator's shell.
    let mut bare = command(&["status"], gateway.folder.path());
    bare.env_remove("TOLLGATE_PEPPER")
        .env_remove("TEST_PROVIDER_KEY");
    let output = Output::of(&mut bare).await;
    assert!(output.status.success(), "{output:?}");

    // A variable that is set to nothing hides no token.
    let mut empty = command(&["status"], gateway.folder.path());
    let output = Output::of(empty.env("TOLLGATE_ADMIN_TOKEN", "")).await;
    assert!(output.stdout.contains("PROVIDER"), "{output:?}");
}

#[tokio::test]
async fn where_no_gateway_answers_it_says_so() {
    let folder = tempfile::TempDir::new().unwrap();
    let (closed, _socket) = closed_port();
    let address = format!("http://{closed}");
    let wanted = format!("{closed} cannot be reached: Connection refused");
    refused(&["status", "--at", &address], folder.path(), &wanted).await;
    refused(
        &["status", "--at", "https://127.0.0.1:9080"],
        folder.path(),
        "has no TLS",
    )
    .await;
    for wrong in [
        "127.0.0.1:1/x",
        "127.0.0.1:1?a",
        "",
        "admin:secret@127.0.0.1:1",
    ] {
        refused(
            &["status", "--at", &format!("http://{wrong}")],
            folder.path(),
            "expected only the host and port",
        )
        .await;
    }
    refused(
        &["status", "--at", "localhost"],
        folder.path(),
        "expected an address such as http://127.0.0.1:9080, not 'localhost'",
    )
    .await;
    refused(
        &["status"],
        folder.path(),
        "or name the gateway with --at URL",
    )
    .await;
}

#[tokio::test]
async fn a_gateway_that_is_ending_is_not_ready() {
    let (gateway, provider) = gateway().await;
    let body = prompt(CHAT, "test-model", "Hello.", json!({}));
    let request = Request::post(CHAT, &body).key(&gateway.key).orders("hang");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    provider
        .when("a request", |counters| counters.requests > 0)
        .await;
    gateway.signal("TERM").await;
    let output = eventually("a gateway that is not ready", async || {
        let output = run(&["status"], gateway.folder.path()).await;
        (!output.status.success()).then_some(output)
    })
    .await;
    let wanted = format!("{} is not ready", gateway.admin);
    assert!(output.stderr.contains(&wanted), "{output:?}");
    assert!(output.stdout.contains("requests 1,"), "{output:?}");

    // The exit code does not depend on whether the output can be written.
    let unwritten = command(&["status"], gateway.folder.path())
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let unwritten = bounded("its end", unwritten.wait_with_output())
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&unwritten.stderr);
    assert!(stderr.contains(&wanted), "{stderr}");
}
