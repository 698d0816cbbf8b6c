//! Which paths, methods and keys are open.

use super::{FILES, IMAGES, config, draw, gateway, plain, send};
use crate::support::{CHAT, Config, Connection, Gateway, Request, Service, provider};
use serde_json::json;

#[tokio::test]
async fn nothing_is_open_unless_the_configuration_opens_it() {
    let service = Service::answering(plain).await;
    let closed = Config::new()
        .provider("sim", provider(service.address))
        .model("test-model", json!(["sim"]));
    let closed = Gateway::start(closed).await;
    for target in [
        IMAGES,
        FILES,
        "/passthrough/sim/v1/models",
        "/passthrough",
        "/passthrough/",
    ] {
        send(&closed, "GET", target)
            .await
            .assert_error(404, "not_found");
    }
    let listed = closed.get("/v1").await.text();
    assert!(!listed.contains("/passthrough"), "{listed}");
    assert!(service.seen().is_empty());
}

#[tokio::test]
async fn only_the_listed_paths_and_methods_reach_the_provider_in_whatever_spelling() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    for path in [
        "sim/v1/chat/completions",
        "sim/v1/images",
        "sim/v1/images/generations/x",
        "sim/v1/filesx",
        "sim/v1/files/",
        "sim/v1/files//x",
        "sim//v1/files",
        "other/v1/files",
        "sim/v1/files/../batches",
        "sim/v1/files/..",
        "sim/v1/files/./x",
        "sim/v1/files/%2e%2e/batches",
        "sim/v1/files/%2E%2e",
        "sim/v1/files/..%2fbatches",
        "sim/v1/files/a%5cb",
        "sim/v1/files/..;/batches",
        "sim/v1/files/%00",
        "sim/v1/files/%252e%252e",
        "sim/v1/files/%c0%ae%c0%ae/batches",
        "sim/../sim/v1/files",
        "%73im/v1/files",
        "sim/v1/file%73",
        "SIM/v1/files",
        "sim",
        "sim/",
        "/v1/files",
    ] {
        let answer = send(&gateway, "GET", &format!("/passthrough/{path}")).await;
        answer.assert_error(404, "not_found");
    }
    assert!(service.seen().is_empty(), "{:?}", service.seen());
    for (method, target, allowed) in [
        ("GET", IMAGES, "POST"),
        ("PUT", FILES, "GET, POST, DELETE"),
        ("HEAD", FILES, "GET, POST, DELETE"),
    ] {
        let answer = send(&gateway, method, target).await;
        assert_eq!(answer.status, 405, "{answer:?}");
        assert_eq!(answer.header("allow"), Some(allowed));
    }
    gateway
        .send(&draw())
        .await
        .assert_error(401, "missing_api_key");
    gateway
        .send(&draw().key("sk-wrong"))
        .await
        .assert_error(401, "invalid_api_key");
    assert!(service.seen().is_empty());
    for target in [
        FILES.to_owned(),
        format!("{FILES}/file-1/content"),
        format!("{FILES}/a%20b"),
    ] {
        send(&gateway, "GET", &target).await.assert_ok();
        assert_eq!(
            service.last().target,
            target.replace("/passthrough/sim", "")
        );
    }
}

#[tokio::test]
async fn a_path_is_for_the_keys_whose_plan_and_endpoints_have_it() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    let other = gateway.create_key(&["--plan", "other"]).await;
    let chat_alone = gateway.create_key(&["--endpoint", CHAT]).await;
    let open = gateway
        .create_key(&[
            "--endpoint",
            "/passthrough/{provider}/{path}",
            "--endpoint",
            "/v1",
        ])
        .await;
    let batches = Request::get("/passthrough/sim/v1/batches");
    for (key, status) in [
        (&gateway.key, 200),
        (&other, 403),
        (&chat_alone, 403),
        (&open, 200),
    ] {
        let answer = gateway.send(&batches.clone().key(key)).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let rows = async |key: &str| {
        let listed = gateway.send(&Request::get("/v1").key(key)).await.json();
        let rows = listed["endpoints"].as_array().unwrap().iter();
        let rows = rows.map(|row| format!("{} {}", row["method"], row["path"]).replace('"', ""));
        let open = rows.filter(|row| row.contains("passthrough"));
        open.collect::<Vec<_>>()
    };
    let mut expected = vec![
        "POST /passthrough/sim/v1/images/generations",
        "GET /passthrough/sim/v1/files/*",
        "POST /passthrough/sim/v1/files/*",
        "DELETE /passthrough/sim/v1/files/*",
        "GET /passthrough/sim/v1/batches",
    ];
    assert_eq!(rows(&open).await, expected);
    expected.pop();
    assert_eq!(rows(&other).await, expected);
}

#[tokio::test]
async fn an_explanation_names_the_charge_and_the_credentials() {
    const TOKEN: &str = "0123456789abcdef-admin";
    let service = Service::answering(plain).await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("admin.token"), TOKEN).unwrap();
    let config = config(&service).with("admin.token", json!("file:admin.token"));
    let gateway = Gateway::start_in(folder, config).await;
    let order = json!({"key": gateway.key, "path": IMAGES, "request": null});
    let order = Request::post("/api/v1/explain", &order).key(TOKEN);
    let mut operator = Connection::open(gateway.admin).await;
    let answer = operator.send(&order).await;
    answer.assert_ok();
    let shown = answer.json();
    assert_eq!(
        shown["outcome"],
        json!({"kind": "sent", "provider": "sim"}),
        "{shown}"
    );
    assert_eq!(shown["bound"]["output"], 1, "{shown}");
    assert_eq!(shown["bound"]["tokens"], 4000, "{shown}");
    assert_eq!(shown["bound"]["cost"], "0.04", "{shown}");
    assert_eq!(
        shown["candidates"][0]["credential"], "TEST_PROVIDER_KEY",
        "{shown}"
    );
    assert!(service.seen().is_empty());
}
