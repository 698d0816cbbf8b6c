//! What requests cost in money: for the caller, in the history, in the access log and in the metrics.

use crate::support::{
    self, Act, Answer, CHAT, Config, FORMATS, Gateway, LONG, MESSAGES, Provider, RESPONSES,
    Request, Upstream, json_answer, prompt,
};
use serde_json::{Value, json};
use tollgate_ledger::GrantTerms;
use tollgate_types::Money;

/// Models with a price of their own, with another one at their deployment, and without any.
fn config(provider: &Provider) -> Config {
    let price = json!({
        "input": "3", "cache_read": "0.30", "cache_write": 3.75, "output": 15,
        "changes": [{"from": "2999-01-01", "input": 300, "output": 1500}],
    });
    let dearer = json!([
        {"provider": "sim", "upstream_model": "gpt-4o", "price": {"input": "0.0001", "output": "0.0375"}},
    ]);
    Config::of(provider)
        .model("priced", json!(["sim/gpt-4o"]))
        .with("models.priced.price", price.clone())
        .model("elsewhere", dearer)
        .with("models.elsewhere.price", price)
        .model("free", json!(["sim/gpt-4o"]))
}

fn ask(gateway: &Gateway, path: &str, model: &str, more: Value) -> Request {
    Request::post(path, &prompt(path, model, "Say something nice.", more)).key(&gateway.key)
}

/// Nano-units for the usage of an access line, at prices in nano-units per thousand tokens.
fn nanos(line: &Value, input: u64, output: u64) -> u64 {
    let tokens = |kind: &str| line["usage"][kind].as_u64().unwrap();
    assert_eq!((tokens("cache_read"), tokens("cache_write")), (0, 0));
    (tokens("input") * input + tokens("output") * output + 500) / 1000
}

/// An amount as it is written, in nano-units.
fn read(amount: &Value) -> u64 {
    let text = amount.as_str().unwrap_or_else(|| panic!("{amount}"));
    let (units, part) = text.split_once('.').unwrap_or((text, ""));
    assert!(!part.ends_with('0'), "{text}");
    format!("{units}{part:0<9}").parse().unwrap()
}

async fn history(gateway: &Gateway, id: &str) -> Value {
    let newest = Request::get("/v1/usage/history?limit=500").key(&gateway.key);
    crate::support::eventually("its record", async || {
        let page = gateway.send(&newest).await.json();
        let records = page["data"].as_array().unwrap();
        records.iter().find(|record| record["id"] == *id).cloned()
    })
    .await
}

fn id(answer: &Answer) -> String {
    answer.header("x-request-id").unwrap().to_owned()
}

#[tokio::test]
async fn the_cost_of_a_request_is_everywhere_the_same_exact_amount() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(config(&provider)).await;
    let mut all = 0;
    for (model, input, output) in [
        ("priced", 3_000_000, 15_000_000),
        ("elsewhere", 100, 37_500),
    ] {
        let mut sum = 0;
        for path in FORMATS {
            let answer = gateway.send(&ask(&gateway, path, model, Value::Null)).await;
            answer.assert_ok();
            let line = gateway.line_of(&answer).await;
            let cost = nanos(&line, input, output);
            assert!(cost > 0, "{line}");
            assert_eq!(read(&line["cost"]), cost, "{line}");
            assert_eq!(answer.header("x-cost"), line["cost"].as_str(), "{answer:?}");
            let record = history(&gateway, &id(&answer)).await;
            assert_eq!(record["cost"], line["cost"]);
            // The head of a stream leaves before its cost is known.
            let answer = gateway
                .send(&ask(&gateway, path, model, json!({"stream": true})))
                .await;
            answer.assert_ok();
            assert_eq!(answer.header("x-cost"), None);
            let line = gateway.line_of(&answer).await;
            assert_eq!(read(&line["cost"]), nanos(&line, input, output), "{line}");
            sum += cost + read(&line["cost"]);
            history(&gateway, &id(&answer)).await;
        }
        let usage = gateway
            .send(&Request::get("/v1/usage").key(&gateway.key))
            .await
            .json();
        let models = usage["models"].as_array().unwrap();
        let total = models.iter().find(|it| it["model"] == model).unwrap();
        assert_eq!(read(&total["cost"]), sum, "{total}");
        all += sum;
    }
    let counted = gateway.total("tollgate_cost_total").await * 1e9;
    #[expect(clippy::cast_precision_loss, reason = "so few digits are exact")]
    let all = all as f64;
    assert!((counted - all).abs() < 1.0, "{counted} {all}");
}

#[tokio::test]
async fn a_request_without_a_price_has_no_cost_and_a_failed_one_costs_nothing() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(config(&provider)).await;
    let answer = gateway
        .send(&ask(&gateway, CHAT, "free", Value::Null))
        .await;
    answer.assert_ok();
    assert_eq!(answer.header("x-cost"), None);
    assert_eq!(gateway.line_of(&answer).await["cost"], Value::Null);
    assert_eq!(history(&gateway, &id(&answer)).await["cost"], Value::Null);
    let failed = ask(&gateway, CHAT, "priced", Value::Null).orders("status-400");
    let failed = gateway.send(&failed).await;
    assert_ne!(failed.status, 200, "{failed:?}");
    assert_eq!(gateway.line_of(&failed).await["cost"], "0");
}

#[tokio::test]
async fn without_balances_the_reported_usage_has_a_cost() {
    let provider = Provider::start().await;
    let filters = json!(["headers", "key", "stored", "model", "errors"]);
    let gateway = Gateway::start(config(&provider).with("filters", filters)).await;
    let answer = gateway
        .send(&ask(&gateway, CHAT, "priced", Value::Null))
        .await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert_eq!(
        read(&line["cost"]),
        nanos(&line, 3_000_000, 15_000_000),
        "{line}"
    );
}

#[tokio::test]
async fn another_price_counts_for_later_requests_alone() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(config(&provider)).await;
    let before = gateway
        .send(&ask(&gateway, CHAT, "priced", Value::Null))
        .await;
    let first = history(&gateway, &id(&before)).await;
    let changed = gateway.config().with(
        "models.priced.price.changes",
        json!([
            {"from": "2026-01-01", "input": 6, "output": 30},
        ]),
    );
    gateway.rewrite(changed);
    gateway.signal("HUP").await;
    crate::support::eventually("the new price", async || {
        let answer = gateway
            .send(&ask(&gateway, CHAT, "priced", Value::Null))
            .await;
        let line = gateway.line_of(&answer).await;
        (read(&line["cost"]) == nanos(&line, 6_000_000, 30_000_000)).then_some(())
    })
    .await;
    assert_eq!(history(&gateway, &id(&before)).await, first);
}

/// A provider of messages that reports this usage, and its settings.
async fn reporting(usage: &Value) -> (Upstream, Value) {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": usage,
    });
    answering("messages", &body).await
}

/// An answer of chat with this usage.
fn of_chat(usage: &Value) -> Value {
    let message = json!({"role": "assistant", "content": "ok"});
    json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    })
}

/// A provider that answers this in its own format, and its settings.
async fn answering(format: &str, body: &Value) -> (Upstream, Value) {
    let answer = json_answer("200 OK", "", &body.to_string());
    let upstream = Upstream::playing([Act::send(answer)]).await;
    let mut provider = support::provider(upstream.address);
    provider["formats"] = json!([format]);
    (upstream, provider)
}

#[tokio::test]
async fn parts_calls_of_tools_and_tiers_have_prices_of_their_own() {
    let usage = json!({
        "input_tokens": 1000, "cache_creation_input_tokens": 100, "output_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
        "server_tool_use": {"web_search_requests": 2}, "service_tier": "priority",
    });
    let (_upstream, provider) = reporting(&usage).await;
    let price = json!({
        "input": 3, "cache_write": 3.75, "cache_write_1h": 6, "output": 15,
        "tool_calls": {"web_search": 0.01}, "tiers": {"priority": 2},
    });
    let config = Config::new()
        .provider("sim", provider)
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", price);
    let gateway = Gateway::start(config).await;
    // 3000 + 60 x 3.75 + 40 x 6 + 300 millionths, twice, and two searches.
    for path in [MESSAGES, CHAT] {
        let answer = gateway
            .send(&ask(&gateway, path, "priced", Value::Null))
            .await;
        answer.assert_ok();
        assert_eq!(answer.header("x-cost"), Some("0.02753"), "{path}");
    }
    // Ten searches, which are reserved, are more than this key has.
    let searches = json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    let poor = gateway.key_of(GrantTerms {
        money: Money::from_nanos(90_000_000),
        validity: LONG,
        ..GrantTerms::default()
    });
    let body = prompt(MESSAGES, "priced", "Say something nice.", searches);
    let request = Request::post(MESSAGES, &body);
    gateway
        .send(&request.clone().key(&poor))
        .await
        .assert_error(402, "quota_exhausted");
    gateway.send(&request.key(&gateway.key)).await.assert_ok();
}

#[tokio::test]
async fn a_dear_tier_costs_its_own_price_and_without_one_no_key_pays_for_it_in_money() {
    let messages = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 20, "service_tier": "standard", "speed": "fast"},
    });
    let mut chat =
        of_chat(&json!({"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}));
    chat["service_tier"] = json!("priority");
    for (format, path, body, field, tier) in [
        ("messages", MESSAGES, messages, "speed", "fast"),
        ("chat", CHAT, chat, "service_tier", "priority"),
    ] {
        let (_upstream, provider) = answering(format, &body).await;
        let price = |tiers: Value| json!({"input": 3, "output": 15, "tiers": tiers});
        let config = Config::new()
            .provider("sim", provider)
            .model("fast", json!(["sim/upstream-model"]))
            .with("models.fast.price", price(json!({tier: 2})))
            .model("slow", json!(["sim/upstream-model"]))
            .with("models.slow.price", price(json!({})));
        let gateway = Gateway::start(config).await;
        let payer = gateway.key_of(GrantTerms {
            money: Money::from_nanos(1_000_000_000),
            validity: LONG,
            ..GrantTerms::default()
        });
        let request = |model: &str, tier: &str, key: &str| {
            let more = json!({field: tier, "max_tokens": 64});
            let body = prompt(path, model, "Say something nice.", more);
            Request::post(path, &body).key(key)
        };
        // 3000 + 300 millionths, twice.
        let answer = gateway.send(&request("fast", tier, &payer)).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-cost"), Some("0.0066"));

        let refused = gateway.send(&request("slow", tier, &payer)).await;
        refused.assert_error(400, "invalid_request");
        let said = format!("'{field}' cannot be '{tier}'");
        assert!(refused.message().starts_with(&said), "{refused:?}");
        // A key that pays in tokens can use it.
        for (tier, key) in [(tier, &gateway.key), ("standard", &payer), ("flex", &payer)] {
            let request = request("slow", tier, key);
            gateway.send(&request).await.assert_ok();
        }
    }
}

#[tokio::test]
async fn iterations_that_a_provider_leaves_out_of_its_totals_are_paid_for() {
    let usage = json!({
        "input_tokens": 1000, "output_tokens": 20, "iterations": [
            {"type": "compaction", "input_tokens": 5000, "output_tokens": 200},
            {"type": "message", "input_tokens": 1000, "output_tokens": 20},
        ],
    });
    let (_upstream, provider) = reporting(&usage).await;
    let config = Config::new()
        .provider("sim", provider)
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", json!({"input": 3, "output": 15}));
    let gateway = Gateway::start(config).await;
    // 18000 + 3300 millionths.
    for path in [MESSAGES, CHAT] {
        let answer = gateway
            .send(&ask(&gateway, path, "priced", Value::Null))
            .await;
        answer.assert_ok();
        assert_eq!(answer.header("x-cost"), Some("0.0213"), "{path}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["charged"], 6220, "{line}");
    }
}

#[tokio::test]
async fn sound_images_and_tiers_have_their_prices_in_each_format_that_reports_them() {
    let mut chat = of_chat(&json!({
        "prompt_tokens": 1000, "prompt_tokens_details": {"audio_tokens": 100},
        "completion_tokens": 20, "completion_tokens_details": {"audio_tokens": 10}, "total_tokens": 1020,
    }));
    chat["service_tier"] = json!("flex");
    let part = |modality, tokens| json!({"modality": modality, "tokenCount": tokens});
    let gemini = json!({
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": 1000, "promptTokensDetails": [part("TEXT", 900), part("AUDIO", 100)],
            "candidatesTokenCount": 20, "candidatesTokensDetails": [part("IMAGE", 10)], "totalTokenCount": 1020,
        },
    });
    let mut vertex = gemini.clone();
    vertex["usageMetadata"]["cachedContentTokenCount"] = json!(600);
    vertex["usageMetadata"]["cacheTokensDetails"] = json!([part("TEXT", 560), part("AUDIO", 40)]);
    vertex["usageMetadata"]["trafficType"] = json!("ON_DEMAND_PRIORITY");
    let messages = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 20, "service_tier": "batch"},
    });
    for (format, answer, cost) in [
        // 2700 + 3200 + 150 + 640 millionths, half.
        ("chat", chat, "0.003345"),
        // 2700 + 3200 + 150 + 400.
        ("gemini", gemini, "0.00645"),
        // 340 x 3 + 60 x 32 + 560 x 0.3 + 40 x 2 + 150 + 400, twice.
        ("gemini", vertex, "0.007476"),
        // 3000 + 300, a quarter.
        ("messages", messages, "0.000825"),
    ] {
        let (_upstream, provider) = answering(format, &answer).await;
        let price = json!({
            "input": 3, "output": 15, "audio_input": 32, "audio_output": 64, "image_output": 40,
            "cache_read": 0.3, "audio_cache_read": 2, "tiers": {"flex": 0.5, "batch": 0.25, "priority": 2},
        });
        let config = Config::new()
            .provider("sim", provider)
            .model("priced", json!(["sim/upstream-model"]))
            .with("models.priced.price", price);
        let gateway = Gateway::start(config).await;
        let answer = gateway
            .send(&ask(&gateway, CHAT, "priced", Value::Null))
            .await;
        answer.assert_ok();
        assert_eq!(answer.header("x-cost"), Some(cost), "{format}");
        assert_eq!(gateway.line_of(&answer).await["cost"], cost, "{format}");
    }
}

#[tokio::test]
async fn without_a_reported_tier_the_one_that_was_sent_is_charged() {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020});
    let set = |tier: Value| json!({"set": {"service_tier": tier}});
    let reported = |tier: &str| {
        let mut answer = of_chat(&usage);
        answer["service_tier"] = json!(tier);
        answer
    };
    // 3000 + 300 millionths, twice.
    for (answer, formats, asked, cost) in [
        (of_chat(&usage), json!({}), "priority", "0.0066"),
        (of_chat(&usage), set(json!("priority")), "auto", "0.0066"),
        (
            reported("default"),
            set(json!("priority")),
            "priority",
            "0.0033",
        ),
        // What the client asks for does not leave.
        (of_chat(&usage), set(json!("default")), "priority", "0.0033"),
        (
            of_chat(&usage),
            json!({"remove": ["service_tier"]}),
            "priority",
            "0.0033",
        ),
    ] {
        let mut chat = formats;
        chat["name"] = json!("chat");
        let (_upstream, provider) = answering("chat", &answer).await;
        let price = json!({"input": 3, "output": 15, "tiers": {"priority": 2}});
        let config = Config::new()
            .provider("sim", provider)
            .with("providers.sim.formats", json!([chat]))
            .model("priced", json!(["sim/upstream-model"]))
            .with("models.priced.price", price);
        let gateway = Gateway::start(config).await;
        let more = json!({"service_tier": asked, "messages": [{"role": "user", "content": "hi"}]});
        let answer = gateway.ask(CHAT, "priced", "", more).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-cost"), Some(cost), "{answer:?}");
    }
}

#[tokio::test]
async fn a_tier_that_a_translation_drops_is_not_charged() {
    let answer = json!({
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 20, "totalTokenCount": 1020},
    });
    let (_upstream, provider) = answering("gemini", &answer).await;
    let price = json!({"input": 3, "output": 15, "tiers": {"priority": 2}});
    let config = Config::new()
        .provider("sim", provider)
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", price);
    let gateway = Gateway::start(config).await;
    let more = json!({"service_tier": "priority"});
    let request = ask(&gateway, CHAT, "priced", more);
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), Some("service_tier"));
    assert_eq!(answer.header("x-cost"), Some("0.0033"), "{answer:?}");
}

#[tokio::test]
async fn images_of_a_hosted_tool_cost_what_images_cost() {
    let image = json!({
        "input_tokens": 500, "input_tokens_details": {"image_tokens": 300, "text_tokens": 200},
        "output_tokens": 1584, "output_tokens_details": {"image_tokens": 1584, "text_tokens": 0},
        "total_tokens": 2084,
    });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "ok", "annotations": []}],
    });
    let body = json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m",
        "output": [message], "tool_usage": {"image_gen": image, "web_search": {"num_requests": 0}},
        "usage": {"input_tokens": 1000, "output_tokens": 20, "total_tokens": 1020},
    });
    let (_upstream, provider) = answering("responses", &body).await;
    let price = json!({"input": 3, "output": 15, "image_output": 40});
    let config = Config::new()
        .provider("sim", provider)
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", price);
    let gateway = Gateway::start(config).await;
    let tools = json!({"tools": [{"type": "image_generation"}]});
    let answer = gateway
        .send(&ask(&gateway, RESPONSES, "priced", tools))
        .await;
    answer.assert_ok();
    // 4500 + 300 + 63360 millionths.
    assert_eq!(answer.header("x-cost"), Some("0.06816"));
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["charged"], 1500 + 1604, "{line}");
}

/// A gateway whose provider plays this in its own format, at a hundredth for each search.
async fn searching(format: &str, script: impl Into<Vec<Act>>) -> (Upstream, Gateway) {
    let upstream = Upstream::playing(script).await;
    let mut provider = support::provider(upstream.address);
    provider["formats"] = json!([format]);
    let price = json!({"input": 3, "output": 15, "tool_calls": {"web_search": 0.01}});
    let config = Config::new()
        .provider("sim", provider)
        .model("priced", json!(["sim/upstream-model"]))
        .with("models.priced.price", price);
    (upstream, Gateway::start(config).await)
}

/// The cost of an answer to a request in the provider's own format, at a hundredth for each search.
async fn cost_of(format: &str, request: Request, body: &Value) -> Option<String> {
    let answer = json_answer("200 OK", "", &body.to_string());
    let (_upstream, gateway) = searching(format, [Act::send(answer)]).await;
    let answer = gateway.send(&request.key(&gateway.key)).await;
    answer.assert_ok();
    answer.header("x-cost").map(str::to_owned)
}

/// A stream of these events.
fn event_stream(events: &[Value]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    head.to_owned() + &events.collect::<String>()
}

/// A streamed request of chat for searches.
fn search(key: &str) -> Request {
    let more = json!({"web_search_options": {}, "stream": true, "max_tokens": 50});
    Request::post(CHAT, &prompt(CHAT, "priced", "Who won?", more)).key(key)
}

/// An event of a stream of chat.
fn chunk(delta: &Value, reason: &Value, usage: &Value) -> Value {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [choice], "usage": usage,
    })
}

#[tokio::test]
async fn a_search_of_a_streamed_chat_is_paid_for_once() {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020});
    let events = [
        chunk(&json!({"content": "o"}), &Value::Null, &Value::Null),
        chunk(&json!({"content": "k"}), &Value::Null, &Value::Null),
        chunk(&json!({}), &json!("stop"), &usage),
    ];
    let script = event_stream(&events) + "data: [DONE]\n\n";
    let (_upstream, gateway) = searching("chat", [Act::send(script)]).await;
    let answer = gateway.send(&search(&gateway.key)).await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["cost"], "0.0133", "{line}");
    assert_eq!(history(&gateway, &id(&answer)).await["cost"], "0.0133");
}

#[tokio::test]
async fn a_search_of_a_failed_chat_is_free() {
    for (status, body) in [
        (
            "400 Bad Request",
            json!({"error": {"message": "no", "type": "invalid_request_error"}}),
        ),
        (
            "500 Internal Server Error",
            json!({"error": {"message": "no", "type": "server_error"}}),
        ),
    ] {
        let failed = json_answer(status, "", &body.to_string());
        let (upstream, gateway) = searching("chat", [Act::send(failed)]).await;
        let answer = gateway.send(&search(&gateway.key)).await;
        assert!(answer.status >= 400, "{answer:?}");
        assert!(upstream.requests() > 0);
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["cost"], &line["charged"]),
            (&json!("0"), &json!(0)),
            "{line}"
        );
        assert_eq!(gateway.spent(&gateway.key).await, 0);
    }
}

#[tokio::test]
async fn a_search_of_a_chat_that_the_client_leaves_is_paid_for_once() {
    let events = [chunk(
        &json!({"content": "Hello"}),
        &Value::Null,
        &Value::Null,
    )];
    let script = [Act::send(event_stream(&events)), Act::Hang];
    let (_upstream, gateway) = searching("chat", script).await;
    let mut connection = gateway.connect().await;
    connection.write(&search(&gateway.key).bytes()).await;
    let answer = connection.head().await;
    answer.assert_ok();
    connection.read_until(b"Hello").await;
    drop(connection);
    let record = history(&gateway, &id(&answer)).await;
    let tokens = nanos(&record, 3_000_000, 15_000_000);
    assert!(tokens > 0, "{record}");
    assert_eq!(read(&record["cost"]), tokens + 10_000_000, "{record}");
    assert_eq!(gateway.line_of(&answer).await["cost"], record["cost"]);
}

#[tokio::test]
async fn a_search_that_several_events_of_a_stream_report_is_paid_for_once() {
    let event = |text: &str, reason: Value| {
        json!({
            "candidates": [{
                "content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason,
                "groundingMetadata": {
                    "searchEntryPoint": {"renderedContent": "<div>"},
                    "webSearchQueries": ["weather in Bern", "weather in Basel"],
                },
            }],
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 20, "totalTokenCount": 1020},
        })
    };
    let events = ["It", " is", " fine."].map(|text| event(text, Value::Null));
    let events = [&events[..], &[event("", json!("STOP"))]].concat();
    let (_upstream, gateway) = searching("gemini", [Act::send(event_stream(&events))]).await;
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": "How is the weather?"}]}],
        "tools": [{"googleSearch": {}}],
    });
    let path = "/v1beta/models/priced:streamGenerateContent?alt=sse";
    let request = Request::post(path, &body).key(&gateway.key);
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["cost"], "0.0233", "{line}");
}

#[tokio::test]
async fn searches_that_are_not_in_the_usage_are_paid_for() {
    let chat =
        of_chat(&json!({"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}));
    let options = json!({"web_search_options": {}});
    for (more, expected) in [(options, "0.0133"), (Value::Null, "0.0033")] {
        let request = Request::post(CHAT, &prompt(CHAT, "priced", "Who won?", more));
        let cost = cost_of("chat", request, &chat).await;
        assert_eq!(cost.as_deref(), Some(expected));
    }

    let gemini = json!({
        "candidates": [{
            "content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP",
            "groundingMetadata": {
                "searchEntryPoint": {"renderedContent": "<div>"},
                "webSearchQueries": ["weather in Bern", "weather in Basel"],
                "groundingChunks": [{"web": {"uri": "https://example.org", "title": "a"}}],
            },
        }],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 20, "totalTokenCount": 1020},
    });
    let mut of_two = gemini.clone();
    let mut second = gemini["candidates"][0].clone();
    second["index"] = json!(1);
    second["groundingMetadata"]["webSearchQueries"] = json!(["weather in Rome"]);
    of_two["candidates"].as_array_mut().unwrap().push(second);
    for (count, answer, expected) in [(1, gemini, "0.0233"), (2, of_two, "0.0333")] {
        let body = json!({
            "contents": [{"role": "user", "parts": [{"text": "How is the weather?"}]}],
            "tools": [{"googleSearch": {}}], "generationConfig": {"candidateCount": count},
        });
        let request = Request::post("/v1beta/models/priced:generateContent", &body);
        let cost = cost_of("gemini", request, &answer).await;
        assert_eq!(cost.as_deref(), Some(expected));
    }
}
