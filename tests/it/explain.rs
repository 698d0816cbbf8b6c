//! The explanation of a request is what then happens, and changes nothing.

use crate::support::{
    self, Answer, CHAT, COUNT_TOKENS, Config, Connection, EASY, FORMATS, Gateway, HARD, LONG,
    MESSAGES, Output, Provider, RESPONSES, Request, bounded, prompt, tollgate,
};
use serde_json::{Value, json};
use std::process::Stdio;
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
    let mut placed = support::provider(provider.address);
    placed["formats"] = json!([{"name": "chat", "path": "/deployments/{model}/chat"}]);
    let deployments = json!([
        {"provider": "narrow", "upstream_model": "narrow-model", "priority": 1},
        {"provider": "sim", "upstream_model": "upstream-model", "priority": 2},
    ]);
    let config = Config::of(&provider)
        .provider("narrow", chat_only)
        .model("both", deployments)
        .model("narrow-only", json!(["narrow/narrow-model"]))
        .provider("placed", placed)
        .model("placed/*", json!(["placed"]))
        .with("aliases", json!({"short": "both"}))
        .with("server.limits.body_bytes", json!("64KiB"))
        .with("families.hidden", json!({"group": "hidden"}))
        .with(
            "models.hidden",
            json!({"family": "hidden", "deployments": ["sim"]}),
        );
    (provider, gateway_of(config).await)
}

#[tokio::test]
async fn the_address_of_a_gemini_request_names_its_model() {
    let (_provider, gateway) = gateway().await;
    let request = json!({"contents": [{"parts": [{"text": "Hello!"}]}]});
    let path = "/v1beta/models/narrow%2Donly:streamGenerateContent?alt=sse";
    let reported = explain(&gateway, &gateway.key, path, &request).await;
    reported.assert_ok();
    let reported = reported.json();
    assert_eq!(reported["outcome"]["kind"], "sent", "{reported}");
    assert_eq!(reported["model"]["id"], "narrow-only", "{reported}");
    assert_eq!(reported["format"], "gemini", "{reported}");
    assert_eq!(reported["candidates"][0]["format"], "chat", "{reported}");
    let key = gateway.key.as_str();
    let here = explain_here(&gateway, &["--key", key, "--path", path], &request).await;
    let text = &here.stdout;
    assert!(text.contains("narrow-only"), "{text} {here:?}");
    let without_events = "/v1beta/models/both:streamGenerateContent";
    let reported = explain(&gateway, &gateway.key, without_events, &request).await;
    assert_eq!(
        reported.json()["outcome"]["kind"],
        "refused",
        "{reported:?}"
    );
}

#[tokio::test]
async fn a_candidate_is_shown_in_the_format_that_carries_the_request() {
    let provider = Provider::start().await;
    let mut two = support::provider(provider.address);
    two["formats"] = json!(["responses", "messages"]);
    let config = Config::of(&provider)
        .provider("two", two)
        .model("in-two", json!(["two"]));
    let gateway = gateway_of(config).await;
    for (more, format) in [(json!({}), "responses"), (json!({"top_k": 5}), "messages")] {
        let body = prompt(CHAT, "in-two", "Hello!", more);
        let reported = explain(&gateway, &gateway.key, CHAT, &body).await;
        reported.assert_ok();
        let reported = reported.json();
        assert_eq!(reported["outcome"]["kind"], "sent", "{reported}");
        let first = &reported["candidates"][0];
        assert_eq!(first["format"], format, "{reported}");
        let reason = first["reason"].as_str().unwrap();
        assert!(
            reason.ends_with(&format!("translated to {format}")),
            "{reason}"
        );
    }
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
    let reported = explain(&gateway, &gateway.key, MESSAGES, &body).await;
    reported.assert_ok();
    let reported = reported.json();
    assert_eq!(reported["outcome"]["kind"], "sent", "{reported}");
    assert_eq!(
        (&reported["endpoint"], &reported["format"]),
        (&json!(MESSAGES), &json!("messages"))
    );
    assert_eq!(
        (&reported["model"]["id"], &reported["model"]["asked"]),
        (&json!("both"), &json!("short"))
    );
    let names: Vec<_> = reported["filters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    let wanted = [
        "headers", "key", "stored", "model", "context", "limits", "quota", "errors",
    ];
    assert_eq!(names, wanted, "{reported}");
    assert_eq!(reported["bound"]["output"], 1000, "{reported}");
    assert_eq!(reported["balance"]["left"], 1_000_000_000, "{reported}");
    let candidates = reported["candidates"].as_array().unwrap();
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
    assert_eq!(here["candidates"], reported["candidates"]);
    assert_eq!(here["bound"], reported["bound"]);

    assert!(provider.received().is_empty(), "a request was sent");
    assert_eq!(gateway.spent(&gateway.key).await, 0);
    gateway
        .sample_is("tollgate_ledger_reservations_total", 0.0)
        .await;
    assert!(!reported.to_string().contains(&gateway.key), "{reported}");
}

#[tokio::test]
async fn the_explained_refusal_is_the_one_that_the_caller_gets() {
    let (_provider, gateway) = gateway().await;
    let limited = gateway.create_key(&["--group", "other"]).await;
    let poor = gateway.key_with(10, LONG);
    let plenty = gateway.key.clone();
    let mut cases = Vec::new();
    for path in FORMATS {
        cases.push((&plenty, path, prompt(path, "nothing", "Hello!", json!({}))));
        cases.push((&limited, path, prompt(path, "hidden", "Hello!", json!({}))));
        cases.push((&poor, path, prompt(path, "test-model", "Hello!", json!({}))));
        // A step of a path, in the place of the model.
        let step = prompt(path, "placed/../admin", "Hello!", json!({}));
        cases.push((&plenty, path, step));
        cases.push((&plenty, path, json!({"messages": []})));
        cases.push((&plenty, path, json!([])));
        let long = prompt(path, "test-model", &"x".repeat(64 << 10), json!({}));
        cases.push((&plenty, path, long));
    }
    let stored = json!({"previous_response_id": "resp_unknown"});
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
        let reported = explain(&gateway, key, path, &body).await;
        reported.assert_ok();
        let reported = reported.json();
        let outcome = &reported["outcome"];
        let (status, code) = real.error();
        assert_eq!(
            (&outcome["status"], &outcome["code"], &outcome["message"]),
            (&json!(status), &json!(code), &json!(real.message())),
            "{path} {body}: {reported} instead of {real:?}"
        );
    }
}

#[tokio::test]
async fn an_output_limit_that_the_balance_sets_is_explained() {
    let (_provider, gateway) = gateway().await;
    let key = gateway.key_with(600, LONG);
    let body = prompt(MESSAGES, "test-model", "Hello!", json!({}));
    let reported = explain(&gateway, &key, MESSAGES, &body).await.json();
    let real = gateway
        .send(&Request::post(MESSAGES, &body).key(&key))
        .await;
    real.assert_ok();
    let limit = reported["balance"]["output_limit"].to_string();
    assert_eq!(real.header("x-output-limit"), Some(&*limit), "{reported}");
}

#[tokio::test]
async fn limits_are_explained_with_their_remaining_values() {
    let (_provider, gateway) = gateway().await;
    let key = gateway.create_key(&["--requests", "2"]).await;
    let body = prompt(CHAT, "test-model", "Hello!", json!({}));
    for left in [2, 1, 0] {
        let reported = explain(&gateway, &key, CHAT, &body).await.json();
        let limit = &reported["limits"][0];
        assert_eq!(
            (&limit["limit"], &limit["remaining"]),
            (&json!(2), &json!(left)),
            "{reported}"
        );
        let status = &reported["outcome"]["status"];
        assert_eq!(*status == 429, left == 0, "{reported}");
        let real = gateway.send(&Request::post(CHAT, &body).key(&key)).await;
        assert_eq!(real.status == 429, left == 0, "{real:?}");
    }
}

#[tokio::test]
async fn endpoints_without_a_model_and_invalid_keys_are_explained_too() {
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
    let body = prompt(RESPONSES, "test-model", "Hello!", json!({}));
    let counted = explain(&gateway, &gateway.key, "/v1/responses/input_tokens", &body);
    let counted = counted.await.json();
    assert_eq!(counted["outcome"]["kind"], "answered_here", "{counted}");

    gateway.keys(&["revoke", &gateway.key]).await;
    let revoked = explain(&gateway, &gateway.key, CHAT, &body).await.json();
    assert_eq!(revoked["outcome"]["status"], 401, "{revoked}");
    assert_eq!(revoked["key"]["state"], "revoked");

    let unknown = explain(&gateway, "sk-zzzzzzzz", CHAT, &body).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let nowhere = explain(&gateway, &gateway.key, "/v1/nowhere", &body).await;
    nowhere.assert_error(400, "invalid_request");
}

/// `prompt_cache_key` is a name as good as the one in the header.
#[tokio::test]
async fn a_conversation_with_a_cache_key_is_explained_with_its_home() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::side_by_side(a.address, b.address);
    let gateway = gateway_of(config).await;
    let mut homes = [0, 0];
    for conversation in 0..16 {
        let name = json!({"prompt_cache_key": format!("conversation-{conversation}")});
        let body = prompt(CHAT, "m", "Hello!", name);
        let reported = explain(&gateway, &gateway.key, CHAT, &body).await.json();
        let reported = reported["candidates"][0]["provider"]
            .as_str()
            .unwrap()
            .to_owned();
        let before = a.handle.counters().requests;
        gateway.post(CHAT, &body).await.assert_ok();
        let asked = usize::from(a.handle.counters().requests == before);
        assert_eq!(reported, ["a", "b"][asked], "{conversation}");
        homes[asked] += 1;
    }
    assert!(homes.iter().all(|it| *it > 0), "{homes:?}");
}

#[tokio::test]
async fn staying_with_a_model_is_explained_and_the_explanation_changes_nothing() {
    let provider = Provider::start().await;
    let gateway = gateway_of(Config::of(&provider).auto()).await;
    let explain = async |session: &str, text: &str| {
        let request = prompt(CHAT, "auto", text, Value::Null);
        let order = json!({"key": gateway.key, "session": session, "request": request});
        let reported = explain_order(&gateway, order).await;
        reported.assert_ok();
        reported.json()["model"].clone()
    };
    // Telling what would be chosen for a hard beginning is not choosing it.
    for _ in 0..2 {
        let reported = explain("one", HARD).await;
        assert_eq!(reported["id"], "strong", "{reported}");
        let begins = json!({"model": null, "anew": null});
        assert_eq!(reported["conversation"], begins, "{reported}");
    }
    let reported = explain("one", EASY).await;
    assert_eq!(reported["id"], "light", "{reported}");

    let body = prompt(CHAT, "auto", HARD, Value::Null);
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .header("session-id", "one");
    let answer = gateway.send(&request).await;
    assert_eq!(answer.header("x-model"), Some("strong"), "{answer:?}");
    let reported = explain("one", EASY).await;
    assert_eq!(reported["id"], "strong", "{reported}");
    let reason = reported["reason"].as_str().unwrap();
    assert!(
        reason.ends_with("stays with the conversation's model"),
        "{reported}"
    );
    let conversation = &reported["conversation"];
    assert_eq!(conversation["model"], "strong", "{reported}");
    assert_eq!(conversation["anew"]["model"], "light", "{reported}");
    assert_eq!(conversation["anew"]["reason"], "auto: rule 2", "{reported}");
    assert_eq!(explain("two", EASY).await["id"], "light");

    // A request that names a model has none; the command line cannot know.
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

/// What a real request came to, in the words of an explanation.
async fn reality(gateway: &Gateway, providers: &[(&str, &Provider)], request: &Request) -> Value {
    let asked = |provider: &Provider| provider.handle.counters().requests;
    let before: Vec<_> = providers.iter().map(|(_, it)| asked(it)).collect();
    let answer = gateway.send(request).await;
    if answer.status >= 400 {
        let (status, code) = answer.error();
        let message = answer.message();
        return json!({"status": status, "code": code, "message": message});
    }
    let mut all = providers.iter().zip(before);
    let first = all.find(|((_, it), before)| asked(it) > *before);
    let dropped = answer.header("x-dropped-fields").unwrap_or_default();
    let dropped = dropped
        .split(',')
        .map(str::trim)
        .filter(|it| !it.is_empty());
    json!({
        "provider": first.map(|((name, _), _)| name),
        "model": answer.header("x-model"),
        "dropped": dropped.collect::<Vec<_>>(),
    })
}

/// The same of an explanation.
fn said(reported: &Value) -> Value {
    let outcome = &reported["outcome"];
    match outcome["kind"].as_str() {
        Some("refused") => json!({
            "status": outcome["status"],
            "code": outcome["code"],
            "message": outcome["message"],
        }),
        Some("sent") => json!({
            "provider": outcome["provider"],
            "model": reported["model"]["id"],
            "dropped": reported["candidates"][0]["dropped"],
        }),
        _ => json!({"provider": null, "model": reported["model"]["id"], "dropped": []}),
    }
}

/// Requests in every format, some of which lose something on their way.
fn requests() -> Vec<(&'static str, Value)> {
    let mut requests = Vec::new();
    for path in FORMATS {
        for model in [
            "both",
            "short",
            "wide",
            "thinks-never",
            "narrow-only",
            "nothing",
        ] {
            requests.push((path, prompt(path, model, "Hello!", json!({}))));
        }
    }
    let with = |path, model, more| (path, prompt(path, model, "Hello!", more));
    requests.push(with(MESSAGES, "both", json!({"top_k": 5})));
    requests.push(with(MESSAGES, "wide", json!({"top_k": 5})));
    requests.push(with(
        MESSAGES,
        "thinks-never",
        json!({"output_config": {"effort": "high"}}),
    ));
    requests.push(with(
        CHAT,
        "thinks-never",
        json!({"reasoning_effort": "high"}),
    ));
    requests.push(with(RESPONSES, "both", json!({"background": true})));
    // Reasoning that another provider has sealed, by way of a translation.
    let sealed = json!({"model": "wide", "max_tokens": 100, "messages": [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": SEAL},
            {"type": "text", "text": "Hi."},
        ]},
        {"role": "user", "content": "And now?"},
    ]});
    requests.push((MESSAGES, sealed));
    requests
}

/// What a translation has sealed for a provider that is not asked here.
const SEAL: &str = "tg1.AAAA";

#[tokio::test]
async fn the_explanation_is_what_then_happens() {
    let (narrow, wide) = (Provider::start().await, Provider::start().await);
    let mut chat_only = support::provider(narrow.address);
    chat_only["formats"] = json!(["chat"]);
    let mut config = Config::new()
        .provider("narrow", chat_only)
        .provider("wide", support::provider(wide.address))
        .model(
            "both",
            json!(["narrow", {"provider": "wide", "priority": 1}]),
        )
        .model("wide", json!(["wide"]))
        .model("narrow-only", json!(["narrow"]))
        .model("thinks-never", json!(["wide"]))
        .with("models.thinks-never.reasoning", json!("none"))
        .with("aliases", json!({"short": "both"}))
        .with("families.hidden", json!({"group": "hidden"}))
        .with(
            "models.hidden",
            json!({"family": "hidden", "deployments": ["wide"]}),
        )
        .with("failover", json!({"again": 0}));
    config.0["providers"]["narrow"]["health"] = json!({"consecutive_failures": 1});
    let gateway = gateway_of(config).await;
    let providers = [("narrow", &narrow), ("wide", &wide)];
    let poor = gateway.key_with(10, LONG);
    let few = gateway.key_with(300, LONG);
    let limited = gateway.create_key(&["--requests", "1"]).await;
    let other = gateway.create_key(&["--group", "hidden"]).await;
    let compare = async |key: &str, path: &str, body: &Value| {
        let reported = explain(&gateway, key, path, body).await;
        reported.assert_ok();
        let reported = reported.json();
        let real = reality(&gateway, &providers, &Request::post(path, body).key(key)).await;
        assert_eq!(said(&reported), real, "{path} {body}: {reported}");
        real
    };
    let mut dropped = 0;
    for is_open in [false, true] {
        if is_open {
            // From its next failure on it is not asked.
            let mut body = prompt(CHAT, "narrow-only", "Hello!", json!({}));
            body["stream"] = json!(false);
            let request = Request::post(CHAT, &body)
                .key(&gateway.key)
                .orders("status-500");
            assert_eq!(gateway.send(&request).await.status, 502);
        }
        for key in [&gateway.key, &poor, &few, &limited, &other] {
            for (path, body) in requests() {
                let real = compare(key, path, &body).await;
                dropped += real["dropped"].as_array().map_or(0, Vec::len);
            }
        }
    }
    assert!(dropped > 0, "nothing was left out of any of them");
}

#[tokio::test]
async fn the_fields_that_a_provider_refuses_are_explained() {
    let provider = Provider::start().await;
    let refused = [
        "seed",
        "user",
        "safety_identifier",
        "metadata",
        "reasoning_effort",
    ];
    let mut counter = support::provider(provider.address);
    counter["formats"] = json!([{"name": "messages", "count_tokens": COUNT_TOKENS}]);
    counter["capabilities"] = json!({"refused_fields": refused});
    let config = Config::of(&provider)
        .with("providers.sim.formats", json!(["chat"]))
        .with("providers.sim.capabilities.refused_fields", json!(refused))
        .provider("counter", counter)
        .model("counted", json!(["counter"]))
        .model("thinks-always", json!(["sim"]))
        .with("models.thinks-always.reasoning", json!("extended"));
    let of_chat = json!({"seed": 7, "user": "u"});
    let of_messages = json!({"metadata": {"user_id": "u"}});
    for strict in [json!([]), json!(["user", "safety_identifier", "metadata"])] {
        let is_strict = strict != json!([]);
        let config = config.clone().with("translation.strict", strict);
        let gateway = gateway_of(config).await;
        for (path, model, more, dropped) in [
            (CHAT, "test-model", &of_chat, json!(["seed", "user"])),
            (
                MESSAGES,
                "test-model",
                &of_messages,
                json!(["safety_identifier"]),
            ),
            (COUNT_TOKENS, "counted", &of_messages, json!(["metadata"])),
            // The gateway adds the effort.
            (
                CHAT,
                "thinks-always",
                &json!({}),
                json!(["reasoning_effort"]),
            ),
        ] {
            let body = prompt(path, model, "Hello!", more.clone());
            let reported = explain(&gateway, &gateway.key, path, &body).await.json();
            let providers = [("sim", &provider), ("counter", &provider)];
            let request = Request::post(path, &body).key(&gateway.key);
            let real = reality(&gateway, &providers, &request).await;
            let said = said(&reported);
            for field in ["dropped", "status", "message"] {
                assert_eq!(said[field], real[field], "{path} {body}: {reported}");
            }
            match is_strict && model != "thinks-always" {
                true => assert_eq!(real["status"], 400, "{path}: {real}"),
                false => assert_eq!(real["dropped"], dropped, "{path}: {real}"),
            }
        }
    }
}

#[tokio::test]
async fn a_candidate_behind_eight_others_is_explained_as_never_asked() {
    let provider = Provider::start().await;
    let many: Vec<_> = (0..10)
        .map(|n| json!({"provider": "sim", "upstream_model": format!("m{n}"), "priority": n}))
        .collect();
    let gateway = gateway_of(Config::of(&provider).model("many", json!(many))).await;
    let body = prompt(CHAT, "many", "Hello!", json!({}));
    let reported = explain(&gateway, &gateway.key, CHAT, &body).await.json();
    let candidates = reported["candidates"].as_array().unwrap();
    let asked = candidates.iter().filter(|it| it["asked"] == true);
    assert_eq!((asked.count(), candidates.len()), (8, 10), "{reported}");
    assert!(
        candidates[9]["reason"]
            .as_str()
            .unwrap()
            .contains("8 others"),
        "{reported}"
    );
}

#[tokio::test]
async fn another_deployment_replaces_the_last_of_eight_credentials() {
    let provider = Provider::start().await;
    let mut eight = support::provider(provider.address);
    let credentials =
        (0..8).map(|n| json!({"name": format!("k{n}"), "secret": "env:TEST_PROVIDER_KEY"}));
    eight["credentials"] = credentials.collect();
    let config = Config::of(&provider)
        .provider("eight", eight)
        .model("m", json!(["eight", {"provider": "sim", "priority": 1}]));
    let gateway = gateway_of(config).await;
    let body = prompt(CHAT, "m", "Hello!", json!({}));
    let reported = explain(&gateway, &gateway.key, CHAT, &body).await.json();
    let candidates = reported["candidates"].as_array().unwrap();
    let asked: Vec<_> = candidates.iter().map(|it| &it["asked"]).collect();
    assert_eq!(asked[..8], [true; 8], "{reported}");
    assert_eq!(asked[8..], [false], "{reported}");
    assert_eq!(candidates[7]["provider"], "sim", "{reported}");
}

#[tokio::test]
async fn a_stored_response_is_explained_with_its_home() {
    let (one, two) = (Provider::start().await, Provider::start().await);
    let config = Config::new()
        .provider("one", support::provider(one.address))
        .provider("two", support::provider(two.address))
        .model("on-one", json!(["one"]))
        .model("on-two", json!(["two"]));
    let gateway = gateway_of(config).await;
    let providers = [("one", &one), ("two", &two)];
    let other_key = gateway.create_key(&[]).await;
    for (model, name) in [("on-one", "one"), ("on-two", "two")] {
        let made = gateway.ask(RESPONSES, model, "", json!({})).await;
        made.assert_ok();
        let id = made.json()["id"].as_str().unwrap().to_owned();
        for (target, key) in [
            (format!("{RESPONSES}/{id}"), &gateway.key),
            (format!("{RESPONSES}/{id}/input_items"), &gateway.key),
            (format!("{RESPONSES}/{id}"), &other_key),
            (format!("{RESPONSES}/resp_unknown"), &gateway.key),
        ] {
            let reported = explain(&gateway, key, &target, &Value::Null).await.json();
            let real = reality(&gateway, &providers, &Request::get(&target).key(key)).await;
            assert_eq!(said(&reported), real, "{target}: {reported}");
            if key == &gateway.key && target.contains(&id) {
                assert_eq!(real["provider"], name);
            }
        }
    }
    let here = explain_here(
        &gateway,
        &["--key", &gateway.key, "--path", "/v1/responses/resp_1"],
        &Value::Null,
    )
    .await;
    assert_eq!(here.status.code(), Some(1), "{here:?}");
    assert!(
        here.stderr.contains("only the running gateway can say"),
        "{here:?}"
    );
}
