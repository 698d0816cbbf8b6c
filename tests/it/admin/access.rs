//! Access: with the token, and from which addresses.

use super::*;

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
async fn the_admin_api_refuses_requests_without_the_whole_token() {
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
        let mut reported = String::new();
        while !reported.contains("serving") {
            let line = bounded("a line of the log", lines.next_line())
                .await
                .unwrap();
            reported += &line.expect("the gateway starts");
        }
        assert_eq!(
            reported.contains("not a loopback address"),
            warned,
            "{reported}"
        );
        bounded("the gateway's end", process.kill()).await.unwrap();
    }
}
