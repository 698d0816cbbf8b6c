//! Access to models: the catalog as a key sees it, the names of models, and the life of a
//! key.

use crate::support::{
    self, AT_ONCE, Answer, CHAT, COUNT_TOKENS, Config, FORMATS, Gateway, MESSAGES, Provider,
    RESPONSES, Request, eventually, prompt,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollgate_ledger::NewKey;

/// A small catalog with everything that names can do.
async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let chat_only = json!({
        "address": format!("http://{}", provider.address),
        "formats": ["chat", "responses"],
        "credentials": ["env:TEST_PROVIDER_KEY"],
    });
    let config = Config::new()
        .provider("sim", support::provider(provider.address))
        .provider("chat-only", chat_only)
        .with(
            "families",
            json!({
                "alpha-opus": {"group": "opus", "deployments": ["sim"]},
                "beta": {"group": "codex", "deployments": ["chat-only"]},
                "other": {"group": "other", "deployments": ["sim"]},
            }),
        )
        .with("aliases", json!({"newest": "alpha-opus-4-8"}))
        .with(
            "auto",
            json!({"candidates": ["beta-5.5", "alpha-opus-4-8", "alpha-opus-4-5"]}),
        );
    let models = json!({
        "alpha-opus-4-8": {"family": "alpha-opus", "reasoning": "adaptive", "recommended": true,
                           "context_window": "200k", "max_output_tokens": "32k"},
        "alpha-opus-4-5": {"family": "alpha-opus"},
        "beta-5.5": {"family": "beta", "upstream_model": "beta-upstream", "unsupported": ["images"]},
        "any-*": {"family": "other"},
    });
    let gateway = Gateway::start(config.with("models", models)).await;
    (provider, gateway)
}

fn ids(list: &Answer) -> Vec<String> {
    let list = list.json();
    let ids = list["data"].as_array().unwrap().iter();
    ids.map(|model| model["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The model that the provider was asked for last.
fn asked(provider: &Provider) -> String {
    let body: Value = serde_json::from_slice(&provider.last().body).unwrap();
    body["model"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_status_lists_the_endpoints() {
    let (_provider, gateway) = gateway().await;
    let answer = gateway.get("/v1").await;
    answer.assert_ok();
    let status = answer.json();
    assert_eq!(
        (&status["object"], &status["status"]),
        (&json!("gateway"), &json!("ok"))
    );
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let endpoints = status["endpoints"].as_array().unwrap();
    for path in FORMATS
        .into_iter()
        .chain([COUNT_TOKENS, "/v1/models", "/v1"])
    {
        assert!(
            endpoints.iter().any(|row| row["path"] == path),
            "{path}: {status}"
        );
    }
}

#[tokio::test]
async fn the_catalog_holds_what_the_key_may_use_in_one_body_for_all_sdks() {
    let (_provider, gateway) = gateway().await;
    let list = gateway.get("/v1/models").await;
    list.assert_ok();
    let body = list.json();
    assert_eq!(
        (&body["object"], &body["has_more"]),
        (&json!("list"), &json!(false))
    );
    let all = ids(&list);
    for id in ["alpha-opus-4-8", "alpha-opus-4-5", "beta-5.5", "auto"] {
        assert!(all.iter().any(|it| it == id), "{id}: {all:?}");
    }
    assert!(!all.iter().any(|id| id.contains('*')), "{all:?}");
    assert_eq!(body["first_id"], json!(all.first()));
    assert_eq!(body["last_id"], json!(all.last()));

    let model = gateway.get("/v1/models/alpha-opus-4-8").await.json();
    for (field, value) in [
        ("object", json!("model")),
        ("type", json!("model")),
        ("owned_by", json!("alpha-opus")),
        ("family", json!("alpha-opus")),
        ("reasoning_mode", json!("adaptive")),
        ("recommended", json!(true)),
        ("context_window", json!(200_000)),
        ("max_output_tokens", json!(32_000)),
    ] {
        assert_eq!(model[field], value, "{field}: {model}");
    }
    for field in ["display_name", "created_at"] {
        assert!(model[field].is_string(), "{field}: {model}");
    }
    assert!(model["created"].is_u64(), "{model}");

    let opus = gateway.create_key(&["--group", "opus"]).await;
    let list = gateway.send(&Request::get("/v1/models").key(&opus)).await;
    assert!(!ids(&list).contains(&"beta-5.5".to_owned()), "{list:?}");
    let refused = gateway
        .send(&Request::get("/v1/models/beta-5.5").key(&opus))
        .await;
    refused.assert_error(403, "permission_denied");
    gateway
        .get("/v1/models/nothing")
        .await
        .assert_error(404, "invalid_model");
}

#[tokio::test]
async fn the_catalog_comes_in_pages_of_any_size() {
    let (_provider, gateway) = gateway().await;
    let all = ids(&gateway.get("/v1/models").await);
    for limit in 1..=all.len() {
        let mut seen = Vec::new();
        let mut after = String::new();
        loop {
            let page = gateway
                .get(&format!("/v1/models?limit={limit}{after}"))
                .await;
            let page_ids = ids(&page);
            assert!(page_ids.len() <= limit);
            seen.extend(page_ids);
            if page.json()["has_more"] == false {
                break;
            }
            after = format!("&after_id={}", page.json()["last_id"].as_str().unwrap());
        }
        assert_eq!(seen, all, "limit {limit}");
    }
    let last = all.last().unwrap();
    let page = gateway
        .get(&format!("/v1/models?limit=1&before_id={last}"))
        .await;
    assert_eq!(ids(&page), all[all.len() - 2..all.len() - 1]);
    for query in [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=1001",
        "after_id=nothing",
        "after_id=auto&before_id=auto",
    ] {
        let answer = gateway.get(&format!("/v1/models?{query}")).await;
        answer.assert_error(400, "invalid_request");
    }
}

/// SDKs escape the slash in a name.
#[tokio::test]
async fn a_model_with_a_slash_in_its_name_is_retrieved_and_paged_over() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).model("vendor/exact", json!(["sim"]));
    let gateway = Gateway::start(config).await;
    let all = ids(&gateway.get("/v1/models").await);
    let place = all.iter().position(|id| id == "vendor/exact").unwrap();
    for name in ["vendor%2Fexact", "vendor/exact"] {
        let model = gateway.get(&format!("/v1/models/{name}")).await;
        model.assert_ok();
        assert_eq!(model.json()["id"], "vendor/exact", "{name}");
        for (field, expected) in [
            ("after_id", &all[place + 1..]),
            ("before_id", &all[..place]),
        ] {
            let page = gateway.get(&format!("/v1/models?{field}={name}")).await;
            page.assert_ok();
            assert_eq!(ids(&page), expected, "{field} {name}");
        }
    }
    for (path, status, code) in [
        ("/v1/models/vendor%2Fnothing", 404, "invalid_model"),
        ("/v1/models/vendor%2", 400, "invalid_request"),
        ("/v1/models?after_id=vendor%2", 400, "invalid_request"),
    ] {
        gateway.get(path).await.assert_error(status, code);
    }
}

#[tokio::test]
async fn a_name_under_a_pattern_is_retrieved_by_itself_and_the_pattern_is_unknown() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).model("vendor/*", json!(["sim"]));
    let gateway = Gateway::start(config).await;
    let name = "vendor/qwen3:8b";
    let model = gateway.get(&format!("/v1/models/{name}")).await.json();
    for field in ["id", "display_name"] {
        assert_eq!(model[field], name, "{model}");
    }
    let model = gateway.get(&format!("/v1beta/models/{name}")).await.json();
    assert_eq!(model["name"], format!("models/{name}"), "{model}");
    for field in ["baseModelId", "displayName"] {
        assert_eq!(model[field], name, "{model}");
    }
    assert!(!ids(&gateway.get("/v1/models").await).contains(&name.to_owned()));
    for pattern in ["vendor/*", "vendor/%2A"] {
        let answer = gateway.get(&format!("/v1/models/{pattern}")).await;
        answer.assert_error(404, "invalid_model");
    }
    let answer = gateway.ask(CHAT, "vendor/*", "echo", json!({})).await;
    answer.assert_error(404, "invalid_model");
    assert_eq!(provider.received().len(), 0);
}

#[tokio::test]
async fn every_name_of_a_model_leads_to_it() {
    let (provider, gateway) = gateway().await;
    for (name, upstream, model) in [
        ("alpha-opus-4-8", "alpha-opus-4-8", "alpha-opus-4-8"),
        ("alpha-opus-4.8", "alpha-opus-4-8", "alpha-opus-4-8"),
        ("newest", "alpha-opus-4-8", "alpha-opus-4-8"),
        ("beta-5.5", "beta-upstream", "beta-5.5"),
        ("any-thing", "any-thing", "any-*"),
    ] {
        let answer = gateway.ask(CHAT, name, "", json!({})).await;
        answer.assert_ok();
        assert_eq!(asked(&provider), upstream, "{name}");
        let said = answer.header("x-model");
        assert!(
            said == Some(model) || said == Some(name),
            "{name}: {answer:?}"
        );
    }
    let answer = gateway.ask(CHAT, "ALPHA-OPUS-4-8", "", json!({})).await;
    answer.assert_error(404, "invalid_model");
}

#[tokio::test]
async fn a_default_model_under_a_pattern_is_sent_by_its_name() {
    let provider = Provider::start().await;
    let filters = json!(["headers", "key", "stored",
        {"name": "model", "default_model": "local/small"}, "quota", "errors"]);
    let config = Config::of(&provider)
        .model(
            "local/*",
            json!([{"provider": "sim", "upstream_model": "*"}]),
        )
        .with("filters", filters);
    let gateway = Gateway::start(config).await;
    let said = json!({"messages": [{"role": "user", "content": "Hello!"}]});
    let answer = gateway.post(CHAT, &said).await;
    answer.assert_ok();
    assert_eq!(asked(&provider), "small");
    assert_eq!(answer.header("x-model"), Some("local/small"));
}

#[tokio::test]
async fn auto_says_what_it_chose_and_why() {
    let (provider, gateway) = gateway().await;
    let answer = gateway.ask(CHAT, "auto", "", json!({})).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-model"), Some("beta-5.5"));
    assert!(answer.header("x-route-reason").is_some(), "{answer:?}");
    assert_eq!(asked(&provider), "beta-upstream");

    // The first choice cannot see.
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let body = json!({"model": "auto", "messages": [{"role": "user", "content": [image]}]});
    let answer = gateway.post(CHAT, &body).await;
    assert_eq!(answer.header("x-model"), Some("alpha-opus-4-8"));
    assert_eq!(
        answer.header("x-route-reason"),
        Some("auto: default, passed over beta-5.5 (images)")
    );

    // A key that may not use it does not see it.
    let opus = gateway.create_key(&["--group", "opus"]).await;
    let body = prompt(CHAT, "auto", "Hello!", Value::Null);
    let answer = gateway.send(&Request::post(CHAT, &body).key(&opus)).await;
    assert_eq!(answer.header("x-model"), Some("alpha-opus-4-8"));
    assert!(
        !answer.header("x-route-reason").unwrap().contains("beta"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn tokens_are_counted_here_where_no_provider_counts() {
    let (provider, gateway) = gateway().await;
    let count = async |said: &str| {
        let body = prompt(COUNT_TOKENS, "beta-5.5", said, Value::Null);
        let answer = gateway.post(COUNT_TOKENS, &body).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-token-count-source"), Some("local"));
        let error = answer.header("x-token-count-error-p95").unwrap();
        assert!(
            (0.0..=1.0).contains(&error.parse::<f32>().unwrap()),
            "{error}"
        );
        answer.json()["input_tokens"].as_u64().unwrap()
    };
    let short = count("Hello!").await;
    let long = count(&"Hello! ".repeat(1000)).await;
    assert!((1..100).contains(&short), "{short}");
    assert!((2000..5000).contains(&long), "{long}");
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn tokens_are_counted_where_the_provider_counts() {
    let (provider, gateway) = gateway().await;
    let body = prompt(
        COUNT_TOKENS,
        "newest",
        "How many tokens are these?",
        Value::Null,
    );
    let request = Request::post(&format!("{COUNT_TOKENS}?beta=true"), &body).key(&gateway.key);
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    assert!(answer.json()["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(answer.header("x-token-count-source"), Some("upstream"));
    let received = provider.last();
    assert_eq!(received.uri.path(), COUNT_TOKENS);
    assert_eq!(received.headers["anthropic-version"], "2023-06-01");
    assert_eq!(asked(&provider), "alpha-opus-4-8");
    // A counter that fails is stood in for.
    let other = prompt(COUNT_TOKENS, "newest", "And these?", Value::Null);
    let request = Request::post(COUNT_TOKENS, &other).key(&gateway.key);
    let answer = gateway.send(&request.orders("status-429")).await;
    answer.assert_ok();
    assert!(answer.json()["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(answer.header("x-token-count-source"), Some("local"));
}

#[tokio::test]
async fn stored_things_have_no_owner_until_the_gateway_knows_it() {
    let (provider, gateway) = gateway().await;
    for more in [
        json!({"previous_response_id": "resp_1"}),
        json!({"conversation": "conv_1"}),
        json!({"conversation": {"id": "conv_1"}}),
        json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
        json!({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}),
        json!({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]}),
    ] {
        let answer = gateway.ask(RESPONSES, "beta-5.5", "", more.clone()).await;
        assert_eq!(answer.error(), (404, "not_found".to_owned()), "{more}");
    }
    let answer = gateway
        .ask(RESPONSES, "beta-5.5", "", json!({"background": true}))
        .await;
    answer.assert_error(400, "invalid_request");
    // It would be asked for at each candidate, because its answer is only an id.
    let answer = gateway
        .ask(CHAT, "beta-5.5", "", json!({"deferred": true}))
        .await;
    answer.assert_error(400, "invalid_request");
    assert!(answer.message().contains("'deferred'"), "{answer:?}");
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn no_identity_of_the_callers_reaches_a_provider_and_none_of_the_providers_a_caller() {
    let (provider, gateway) = gateway().await;
    for path in FORMATS {
        let body = prompt(path, "alpha-opus-4-8", "Hello!", Value::Null);
        let request = Request::post(&format!("{path}?beta=true&x=1"), &body)
            .header("x-api-key", &gateway.key)
            .header("cookie", "session=1")
            .header("x-forwarded-for", "10.1.2.3")
            .header("forwarded", "for=10.1.2.3")
            .header("user-agent", "somebody/1.0")
            .header("openai-organization", "org-of-the-caller")
            .header("x-anything", "else");
        let answer = gateway.send(&request).await;
        answer.assert_ok();
        let received = provider.last();
        let heads = format!("{:?}", received.headers);
        for word in [
            &*gateway.key,
            "session=1",
            "10.1.2.3",
            "somebody",
            "org-of",
            "x-anything",
        ] {
            assert!(!heads.contains(word), "{path}: {word}: {heads}");
        }
        assert!(heads.contains("credential-of-the-provider"), "{heads}");
        assert_eq!(received.headers["accept-encoding"], "identity");
        for (name, value) in &answer.headers {
            let foreign = [
                "openai-",
                "anthropic-",
                "x-ratelimit",
                "set-cookie",
                "server",
            ];
            assert!(
                !foreign.iter().any(|it| name.starts_with(it)),
                "{name}: {value}"
            );
        }
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_on_an_open_connection_within_a_second() {
    let (_provider, gateway) = gateway().await;
    let key = gateway.create_key(&[]).await;
    let request = Request::get("/v1").key(&key);
    let mut connection = gateway.connect().await;
    connection.send(&request).await.assert_ok();
    let revoked = gateway.keys(&["revoke", &key[..11]]).await;
    assert!(revoked.status.success(), "{revoked:?}");
    let since = Instant::now();
    let refused = async || {
        let answer = connection.send(&request).await;
        (answer.status != 200).then_some(answer)
    };
    let answer = eventually("the key is refused", refused).await;
    answer.assert_error(401, "invalid_api_key");
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
    // The gateway's key is still not sent to any other provider.
    gateway.get("/v1").await.assert_ok();
}

#[tokio::test]
async fn a_key_that_is_made_while_the_gateway_runs_works_at_once() {
    let (_provider, gateway) = gateway().await;
    for _ in 0..3 {
        let key = gateway.create_key(&[]).await;
        gateway
            .send(&Request::get("/v1").key(&key))
            .await
            .assert_ok();
    }
}

/// A key that works for a second: shorter than the command line gives one.
fn short_lived_key(gateway: &Gateway) -> String {
    let store = gateway.store();
    let expiry = store.clock().now().plus(Duration::from_millis(400));
    let created = store.create_key(&NewKey {
        expires_at: Some(expiry),
        ..NewKey::named("short")
    });
    created.unwrap().key.expose().to_owned()
}

#[tokio::test]
async fn a_key_whose_time_is_over_looks_like_one_that_never_was() {
    let (_provider, gateway) = gateway().await;
    let expired = short_lived_key(&gateway);
    let get = Request::get("/v1").key(&expired);
    let refused = async || (gateway.send(&get).await.status != 200).then_some(());
    eventually("the key's time is over", refused).await;
    let well_formed_elsewhere = format!("sk-{}", "0".repeat(49));
    let mut messages = Vec::new();
    for key in [&*expired, &well_formed_elsewhere, "sk-short", "", "x"] {
        let answer = gateway
            .send(&Request::get("/v1").header("x-api-key", key))
            .await;
        answer.assert_error(401, "invalid_api_key");
        messages.push(answer.message());
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[tokio::test]
async fn a_key_can_be_limited_to_endpoints() {
    let (_provider, gateway) = gateway().await;
    let key = gateway.create_key(&["--endpoint", CHAT]).await;
    let ask = |path: &str| {
        let body = prompt(path, "alpha-opus-4-8", "Hello!", Value::Null);
        Request::post(path, &body).key(&key)
    };
    gateway.send(&ask(CHAT)).await.assert_ok();
    gateway
        .send(&ask(MESSAGES))
        .await
        .assert_error(403, "permission_denied");

    let key = gateway
        .create_key(&["--endpoint", "/v1beta/models/{id}:generateContent"])
        .await;
    let said = json!({"contents": [{"role": "user", "parts": [{"text": "Hello!"}]}]});
    for (method, status) in [("generateContent", 200), ("countTokens", 403)] {
        let path = format!("/v1beta/models/alpha-opus-4-8:{method}");
        let answer = gateway.send(&Request::post(&path, &said).key(&key)).await;
        assert_eq!(answer.status, status, "{method}: {answer:?}");
    }
}

/// A provider that is a gateway itself would ask the models that are named besides.
#[tokio::test]
async fn a_request_that_has_other_models_asked_is_refused_and_names_the_field() {
    let (provider, gateway) = gateway().await;
    let others = json!(["vendor/expensive"]);
    for (path, more, field) in [
        (CHAT, json!({"models": others}), "'models'"),
        (
            CHAT,
            json!({"fallbacks": [{"any-model": others}]}),
            "'fallbacks'",
        ),
        (RESPONSES, json!({"models": others}), "'models'"),
        (
            MESSAGES,
            json!({"fallbacks": [{"model": "x"}]}),
            "'fallbacks'",
        ),
        (
            CHAT,
            json!({"plugins": [{"id": "fusion", "analysis_models": others}]}),
            "'plugins[].id'",
        ),
        (
            MESSAGES,
            json!({"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "x"}]}),
            "'tools[].type'",
        ),
        (CHAT, json!({"extra_body": {"model": "x"}}), "'extra_body'"),
    ] {
        let answer = gateway
            .post(path, &prompt(path, "any-model", "Hi", more))
            .await;
        answer.assert_error(400, "invalid_request");
        assert!(answer.message().contains(field), "{field}: {answer:?}");
    }
    assert_eq!(provider.handle.counters().requests, 0);
    for (path, none) in [
        (CHAT, json!({"models": null, "provider": {"order": ["x"]}})),
        (MESSAGES, json!({"fallbacks": []})),
    ] {
        // It is the provider's to say what it makes of a field that it does not know.
        let body = prompt(path, "any-model", "Hi", none);
        gateway.post(path, &body).await;
    }
    assert_eq!(provider.handle.counters().requests, 2);
}

#[tokio::test]
async fn both_forms_of_credential_are_accepted_and_must_agree() {
    let (_provider, gateway) = gateway().await;
    let key = &gateway.key;
    let get = || Request::get("/v1");
    for request in [
        get().key(key),
        get().header("x-api-key", key),
        get().key(key).header("x-api-key", key),
        get().header("authorization", &format!("bearer {key}")),
    ] {
        gateway.send(&request).await.assert_ok();
    }
    let other = gateway.create_key(&[]).await;
    for request in [
        get().key(key).header("x-api-key", &other),
        get().key(key).key(&other),
        get().key(key).key(key),
    ] {
        let answer = gateway.send(&request).await;
        answer.assert_error(401, "invalid_api_key");
        assert!(answer.message().contains("two credentials"), "{answer:?}");
    }
}

/// The body that the provider got last.
fn sent(provider: &Provider) -> Value {
    serde_json::from_slice(&provider.last().body).unwrap()
}

#[tokio::test]
async fn each_way_of_reasoning_is_behaviour() {
    let provider = Provider::start().await;
    let models = json!({
        "thinks-by-itself": {"family": "test", "deployments": ["sim"], "reasoning": "adaptive"},
        "thinks-always": {"family": "test", "deployments": ["sim"], "reasoning": "extended"},
        "as-it-comes": {"family": "test", "deployments": ["sim"], "reasoning": "provider_default"},
        "thinks-never": {"family": "test", "deployments": ["sim"], "reasoning": "none"},
    });
    let config = Config::of(&provider).with("models", models);
    let gateway = Gateway::start(config).await;
    let effort = json!({"max_tokens": 900, "output_config": {"effort": "low"}});
    for model in ["thinks-by-itself", "as-it-comes"] {
        gateway
            .ask(MESSAGES, model, "", effort.clone())
            .await
            .assert_ok();
        assert_eq!(sent(&provider)["output_config"]["effort"], "low");
        assert_eq!(sent(&provider)["thinking"], Value::Null);
    }

    let answer = gateway
        .ask(MESSAGES, "thinks-never", "", effort.clone())
        .await;
    answer.assert_ok();
    assert_eq!(
        answer.header("x-dropped-fields"),
        Some("output_config.effort")
    );
    assert_eq!(sent(&provider)["output_config"]["effort"], Value::Null);
    let budget =
        json!({"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}});
    let answer = gateway
        .ask(MESSAGES, "thinks-never", "", budget.clone())
        .await;
    answer.assert_error(400, "invalid_request");
    assert!(answer.message().contains("budget_tokens"), "{answer:?}");

    let answer = gateway.ask(MESSAGES, "thinks-always", "", effort).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), None);
    assert_eq!(answer.header("x-output-limit"), Some("1924"));
    let body = sent(&provider);
    assert_eq!(
        body["thinking"],
        json!({"type": "enabled", "budget_tokens": 1024})
    );
    assert_eq!(body["max_tokens"], 1924);
    gateway
        .ask(MESSAGES, "thinks-always", "", budget.clone())
        .await
        .assert_ok();
    assert_eq!(sent(&provider)["thinking"], budget["thinking"]);
}
