//! What would happen to a request is told as it then happens, and telling changes nothing.

#![cfg(test)]

mod support;

use serde_json::{Value, json};
use std::process::Stdio;
use support::{
    Answer, CHAT, COUNT_TOKENS, Config, Connection, EASY, FORMATS, Gateway, HARD, LONG, MESSAGES,
    Output, Provider, RESPONSES, Request, bounded, prompt, tollgate,
};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

const TOKEN: &str = "0123456789abcdef-admin";

/// A gateway that operators can ask.
async fn gateway_of(config: Config) -> Gateway {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    Gateway::start_in(folder, config.with("admin.token", json!("file:token"))).await
}

/// Two providers: one speaks chat alone, the other everything, and comes second.
async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let mut chat_only = support::provider(provider.address);
    chat_only["formats"] = json!(["chat"]);
    let deployments = json!([
        {"provider": "narrow", "upstream_model": "narrow-model", "priority": 1},
        {"provider": "sim", "upstream_model": "upstream-model", "priority": 2},
    ]);
    let config = Config::of(&provider)
        .provider("narrow", chat_only)
        .model("both", deployments)
        .model("narrow-only", json!(["narrow/narrow-model"]))
        .with("aliases", json!({"short": "both"}))
        .with("families.hidden", json!({"group": "hidden"}))
        .with(
            "models.hidden",
            json!({"family": "hidden", "deployments": ["sim"]}),
        );
    (provider, gateway_of(config).await)
}

async fn explain(gateway: &Gateway, key: &str, path: &str, request: &Value) -> Answer {
    explain_order(
        gateway,
        json!({"key": key, "path": path, "request": request}),
    )
    .await
}

async fn explain_order(gateway: &Gateway, order: Value) -> Answer {
    let order = Request::post("/api/v1/explain", &order).key(TOKEN);
    Connection::open(gateway.admin).await.send(&order).await
}

async fn explain_here(gateway: &Gateway, arguments: &[&str], request: &Value) -> Output {
    let mut command = tollgate();
    command
        .args(["explain", "--config"])
        .arg(gateway.folder.path().join("tollgate.yaml"));
    let command = command.args(arguments).stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(request.to_string().as_bytes())
        .await
        .unwrap();
    drop(stdin);
    let output = bounded("an explanation", child.wait_with_output())
        .await
        .unwrap();
    Output {
        status: output.status,
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test]
async fn an_explanation_names_model_filters_costs_and_candidates_and_nothing_happens() {
    let (provider, gateway) = gateway().await;
    let body = prompt(MESSAGES, "short", "Hello!", json!({"top_k": 5}));
    let told = explain(&gateway, &gateway.key, MESSAGES, &body).await;
    told.assert_ok();
    let told = told.json();
    assert_eq!(told["outcome"]["kind"], "sent", "{told}");
    assert_eq!(
        (&told["endpoint"], &told["format"]),
        (&json!(MESSAGES), &json!("messages"))
    );
    assert_eq!(
        (&told["model"]["id"], &told["model"]["asked"]),
        (&json!("both"), &json!("short"))
    );
    let names: Vec<_> = told["filters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    let wanted = [
        "headers", "key", "stored", "model", "context", "limits", "quota", "errors",
    ];
    assert_eq!(names, wanted, "{told}");
    assert_eq!(told["bound"]["output"], 1000, "{told}");
    assert_eq!(told["balance"]["left"], 1_000_000_000, "{told}");
    let candidates = told["candidates"].as_array().unwrap();
    let first = &candidates[0];
    assert_eq!(
        (&first["provider"], &first["model"]),
        (&json!("narrow"), &json!("narrow-model"))
    );
    assert_eq!(
        (&first["translated"], &first["format"]),
        (&json!(true), &json!("chat"))
    );
    assert_eq!(candidates[1]["provider"], "sim");
    assert_eq!(candidates[1]["translated"], false);

    // On the command line the same, by the beginning of the key, without the gateway.
    let arguments = ["--key", &gateway.key[..11], "--path", MESSAGES];
    let table = explain_here(&gateway, &arguments, &body).await;
    assert!(table.status.success(), "{table:?}");
    for words in [
        "sent to narrow",
        "asked for as short",
        "1.  narrow/narrow-model",
        "2.  sim/",
    ] {
        assert!(table.stdout.contains(words), "{words}: {}", table.stdout);
    }
    let arguments = [&arguments[..], &["--json"]].concat();
    let here = explain_here(&gateway, &arguments, &body).await;
    let here: Value = serde_json::from_str(&here.stdout).unwrap();
    assert_eq!(here["candidates"], told["candidates"]);
    assert_eq!(here["bound"], told["bound"]);

    assert!(provider.received().is_empty(), "a request was sent");
    assert_eq!(gateway.spent(&gateway.key).await, 0);
    gateway
        .sample_is("tollgate_ledger_reservations_total", 0.0)
        .await;
    assert!(!told.to_string().contains(&gateway.key), "{told}");
}

#[tokio::test]
async fn what_is_told_of_a_refusal_is_what_the_caller_gets() {
    let (_provider, gateway) = gateway().await;
    let limited = gateway.create_key(&["--group", "other"]).await;
    let poor = gateway.key_with(10, LONG);
    let plenty = gateway.key.clone();
    let mut cases = Vec::new();
    for path in FORMATS {
        cases.push((&plenty, path, prompt(path, "nothing", "Hello!", json!({}))));
        cases.push((&limited, path, prompt(path, "hidden", "Hello!", json!({}))));
        cases.push((&poor, path, prompt(path, "test-model", "Hello!", json!({}))));
        cases.push((&plenty, path, json!({"messages": []})));
        cases.push((&plenty, path, json!([])));
    }
    let stored = json!({"previous_response_id": "resp_of_nobody"});
    cases.push((
        &plenty,
        RESPONSES,
        prompt(RESPONSES, "test-model", "Hello!", stored),
    ));
    let background = json!({"background": true});
    cases.push((
        &plenty,
        RESPONSES,
        prompt(RESPONSES, "test-model", "Hello!", background),
    ));
    // What chat cannot carry.
    let document = json!([{"role": "user", "content": [{"type": "document", "source":
        {"type": "url", "url": "https://example.com/a.pdf"}}]}]);
    let body = json!({"model": "narrow-only", "max_tokens": 10, "messages": document});
    cases.push((&plenty, MESSAGES, body));
    for (key, path, body) in cases {
        let real = gateway.send(&Request::post(path, &body).key(key)).await;
        let told = explain(&gateway, key, path, &body).await;
        told.assert_ok();
        let told = told.json();
        let outcome = &told["outcome"];
        let (status, code) = real.error();
        assert_eq!(
            (&outcome["status"], &outcome["code"], &outcome["message"]),
            (&json!(status), &json!(code), &json!(real.message())),
            "{path} {body}: {told} instead of {real:?}"
        );
    }
}

#[tokio::test]
async fn an_output_limit_that_the_balance_sets_is_told_before() {
    let (_provider, gateway) = gateway().await;
    let key = gateway.key_with(600, LONG);
    let body = prompt(MESSAGES, "test-model", "Hello!", json!({}));
    let told = explain(&gateway, &key, MESSAGES, &body).await.json();
    let real = gateway
        .send(&Request::post(MESSAGES, &body).key(&key))
        .await;
    real.assert_ok();
    let limit = told["balance"]["output_limit"].to_string();
    assert_eq!(real.header("x-output-limit"), Some(&*limit), "{told}");
}

#[tokio::test]
async fn limits_are_told_with_what_is_left_of_them() {
    let (_provider, gateway) = gateway().await;
    let key = gateway.create_key(&["--requests", "2"]).await;
    let body = prompt(CHAT, "test-model", "Hello!", json!({}));
    for left in [2, 1, 0] {
        let told = explain(&gateway, &key, CHAT, &body).await.json();
        let limit = &told["limits"][0];
        assert_eq!(
            (&limit["limit"], &limit["remaining"]),
            (&json!(2), &json!(left)),
            "{told}"
        );
        let status = &told["outcome"]["status"];
        assert_eq!(*status == 429, left == 0, "{told}");
        let real = gateway.send(&Request::post(CHAT, &body).key(&key)).await;
        assert_eq!(real.status == 429, left == 0, "{real:?}");
    }
}

#[tokio::test]
async fn endpoints_without_a_model_and_keys_that_do_not_work_are_told_too() {
    let (_provider, gateway) = gateway().await;
    let models = explain(&gateway, &gateway.key, "/v1/models", &Value::Null)
        .await
        .json();
    assert_eq!(models["outcome"]["kind"], "answered_here", "{models}");
    let body = prompt(COUNT_TOKENS, "test-model", "Hello!", json!({}));
    let counted = explain(&gateway, &gateway.key, COUNT_TOKENS, &body)
        .await
        .json();
    assert_eq!(counted["outcome"]["provider"], "sim", "{counted}");
    assert_eq!(counted["bound"], Value::Null);

    gateway.keys(&["revoke", &gateway.key]).await;
    let revoked = explain(&gateway, &gateway.key, CHAT, &body).await.json();
    assert_eq!(revoked["outcome"]["status"], 401, "{revoked}");
    assert_eq!(revoked["key"]["state"], "revoked");

    let unknown = explain(&gateway, "sk-zzzzzzzz", CHAT, &body).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let nowhere = explain(&gateway, &gateway.key, "/v1/nowhere", &body).await;
    nowhere.assert_error(400, "invalid_request");
}

#[tokio::test]
async fn what_staying_with_its_model_does_for_a_conversation_is_told_and_changes_nothing() {
    let provider = Provider::start().await;
    let gateway = gateway_of(Config::of(&provider).tiers()).await;
    let explain = async |session: &str, text: &str| {
        let request = prompt(CHAT, "auto", text, Value::Null);
        let order = json!({"key": gateway.key, "session": session, "request": request});
        let told = explain_order(&gateway, order).await;
        told.assert_ok();
        told.json()["model"].clone()
    };
    // Telling what would be chosen for a hard beginning is not choosing it.
    for _ in 0..2 {
        let told = explain("one", HARD).await;
        assert_eq!(told["id"], "strong", "{told}");
        let begins = json!({"model": null, "anew": null});
        assert_eq!(told["conversation"], begins, "{told}");
    }
    let told = explain("one", EASY).await;
    assert_eq!(told["id"], "light", "{told}");

    let body = prompt(CHAT, "auto", HARD, Value::Null);
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .header("session-id", "one");
    let answer = gateway.send(&request).await;
    assert_eq!(answer.header("x-model"), Some("strong"), "{answer:?}");
    let told = explain("one", EASY).await;
    assert_eq!(told["id"], "strong", "{told}");
    let reason = told["reason"].as_str().unwrap();
    assert!(
        reason.ends_with("stays with the conversation's model"),
        "{told}"
    );
    let conversation = &told["conversation"];
    assert_eq!(conversation["model"], "strong", "{told}");
    assert_eq!(conversation["anew"]["model"], "light", "{told}");
    assert!(
        conversation["anew"]["reason"]
            .as_str()
            .unwrap()
            .ends_with("light"),
        "{told}"
    );
    assert_eq!(explain("two", EASY).await["id"], "light");

    // Who names a model has none; the command line cannot know.
    let named = explain_order(
        &gateway,
        json!({"key": gateway.key, "request": prompt(CHAT, "light", EASY, Value::Null)}),
    )
    .await;
    assert_eq!(named.json()["model"]["conversation"], Value::Null);
    let body = prompt(CHAT, "auto", EASY, Value::Null);
    let here = explain_here(&gateway, &["--key", &gateway.key], &body).await;
    assert!(here.stdout.contains("so far      unknown here"), "{here:?}");
}
