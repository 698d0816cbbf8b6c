//! What providers fail at or refuse, and what the gateway itself cuts: free before any content, paid as far as it
//! was delivered.

use super::*;

#[tokio::test]
async fn a_failure_before_any_content_is_free() {
    let (_provider, gateway) = start().await;
    for path in FORMATS {
        for stream in [false, true] {
            for orders in [
                "status-500",
                "status-429",
                "error-first",
                "reset",
                "cut-20",
                "not-json,empty",
            ] {
                let request = Request::post(path, &ask(path, stream, json!({})))
                    .key(&gateway.key)
                    .orders(orders);
                let answer = gateway.send(&request).await;
                assert!(answer.status >= 429, "{orders}: {answer:?}");
                let line = gateway.line_of(&answer).await;
                assert_eq!(money(&line), ("upstream_failed", 0, "none"), "{line}");
            }
        }
    }
    gateway.has_spent(&gateway.key, 0).await;
}

#[tokio::test]
async fn a_request_that_its_provider_refuses_is_free() {
    let (_provider, gateway) = start().await;
    for path in FORMATS {
        for orders in [
            "vendor-anthropic-context",
            "vendor-openai-content",
            "status-422",
        ] {
            let request = Request::post(path, &ask(path, true, json!({})))
                .key(&gateway.key)
                .orders(orders);
            let answer = gateway.send(&request).await;
            assert_eq!(answer.status / 100, 4, "{orders}: {answer:?}");
            let line = gateway.line_of(&answer).await;
            assert_eq!(money(&line), ("rejected", 0, "none"), "{line}");
        }
    }
    gateway.has_spent(&gateway.key, 0).await;
}

#[tokio::test]
async fn a_failure_within_the_content_costs_the_delivered_tokens() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let streamed = direct(&provider, path, &ask(path, true, json!({}))).await;
        let events = streamed.events();
        let deltas = |event: &Value| match path {
            CHAT => event["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned),
            RESPONSES if event["type"] != "response.output_text.delta" => None,
            RESPONSES => event["delta"].as_str().map(str::to_owned),
            _ => event["delta"]["text"].as_str().map(str::to_owned),
        };
        let delivered: String = events.iter().take(12).filter_map(deltas).collect();
        let bytes: usize = streamed
            .text()
            .split_inclusive("\n\n")
            .take(12)
            .map(str::len)
            .sum();
        let cost = estimated(path, &whole, &delivered);
        for orders in ["error-after-12".to_owned(), format!("cut-{}", bytes + 10)] {
            let request = Request::post(path, &ask(path, true, json!({})))
                .key(&gateway.key)
                .orders(&orders);
            let answer = gateway.send(&request).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                money(&line),
                ("upstream_failed", cost, "estimated"),
                "{orders}: {line}"
            );
            spent += cost;
        }
    }
    gateway.has_spent(&gateway.key, spent).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_failover_is_one_charge() {
    let provider = Provider::start().await;
    let deployments = json!([
        "sim/sim-error-first",
        {"provider": "sim", "upstream_model": "sim-status-503", "priority": 1},
        {"provider": "sim", "upstream_model": "upstream-model", "priority": 2},
    ]);
    let gateway = Gateway::start(Config::of(&provider).model("test-model", deployments)).await;
    let mut spent = 0;
    for path in FORMATS {
        let body = ask(path, true, json!({}));
        let cost = direct(&provider, path, &body).await.reported();
        let answer = gateway.post(path, &body).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("3"));
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line), ("completed", cost, "reported"), "{line}");
        spent += cost;
    }
    gateway.has_spent(&gateway.key, spent).await;
}

#[tokio::test]
async fn requests_cut_by_the_end_of_the_grace_period_are_settled_and_logged() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.shutdown.grace", json!("300ms"));
    let mut gateway = Gateway::start(config).await;
    let mut spent = 0;
    let (mut streams, mut costs) = (Vec::new(), Vec::new());
    for path in FORMATS {
        let cost = cost_unreported(&provider, path).await;
        let (orders, last) = all_but_the_usage(&provider, path).await;
        let request = Request::post(path, &ask(path, true, json!({})))
            .key(&gateway.key)
            .orders(&orders);
        let (connection, answer) = begin(&gateway, &request, last).await;
        let id = answer.header("x-request-id").unwrap().to_owned();
        let mut http2 = Http2::open(gateway.address).await;
        let head = bounded("a head", http2.begin(&request)).await.unwrap();
        let id_of_http2 = head.headers()["x-request-id"].to_str().unwrap().to_owned();
        let mut body = head.into_body();
        let mut read = String::new();
        while !read.contains(last) {
            let frame = bounded(last, body.frame()).await.expect(last).unwrap();
            read.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap()));
        }
        costs.extend([(id, cost), (id_of_http2, cost)]);
        spent += 2 * cost;
        streams.push((connection, http2, body));
    }
    // One of which nothing has come yet, and one that is still being sent.
    let mut waiting = gateway.connect().await;
    let request = Request::post(CHAT, &ask(CHAT, true, json!({}))).key(&gateway.key);
    let asked = provider.handle.counters().requests;
    waiting.write(&request.clone().orders("hang").bytes()).await;
    provider
        .when("it is asked", |it| it.requests == asked + 1)
        .await;
    let mut sending = gateway.connect().await;
    let bytes = request.bytes();
    sending.write(&bytes[..bytes.len() - 1]).await;
    gateway.sample_is("tollgate_requests_in_flight", 8.0).await;

    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    gateway.log_line("8 requests were cut").await;
    for (id, cost) in costs {
        let line = gateway.access_line(|line| line["id"] == *id).await;
        assert_eq!(
            money(&line),
            ("upstream_failed", cost, "estimated"),
            "{line}"
        );
        assert_eq!(line["code"], "service_unavailable", "{line}");
    }
    let line = gateway
        .access_line(|line| line["status"] == 503 && line["attempts"] == 1)
        .await;
    assert_eq!(money(&line), ("upstream_failed", 0, "none"), "{line}");
    let line = gateway
        .access_line(|line| line["status"] == 503 && line["attempts"] == 0)
        .await;
    assert_eq!(line["outcome"], "rejected", "{line}");
    assert_eq!(gateway.spent(&gateway.key).await, spent);
    assert!(
        !gateway.output().contains("have not been settled"),
        "{}",
        gateway.output()
    );
    gateway.verify().await;
    for (mut connection, _, mut body) in streams {
        assert_ne!(connection.rest().await.1, Ending::Complete);
        let over = bounded("the end", body.frame()).await;
        assert!(
            over.is_some_and(|frame| frame.is_err()),
            "a cut stream is reset"
        );
    }
}

#[tokio::test]
async fn a_request_refused_before_any_provider_is_asked_is_on_no_record() {
    let provider = Provider::start().await;
    let config = Config::new()
        .provider("sim", {
            let mut provider = support::provider(provider.address);
            provider["formats"] = json!(["messages"]);
            provider
        })
        .model("test-model", json!(["sim"]));
    let gateway = Gateway::start(config).await;
    // Nothing of messages says that.
    let body = ask(CHAT, false, json!({"moderation": {"model": "m"}}));
    for _ in 0..5 {
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_error(400, "invalid_request");
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line), ("rejected", 0, "none"), "{line}");
    }
    let answer = gateway.post(CHAT, &ask(CHAT, false, json!({}))).await;
    answer.assert_ok();
    gateway.has_spent(&gateway.key, answer.reported()).await;
    let history = gateway.get("/v1/usage/history").await;
    history.assert_ok();
    let records = history.json()["data"].as_array().unwrap().clone();
    assert_eq!(records.len(), 1, "{records:?}");
    let models = gateway.get("/v1/usage").await.json()["models"].clone();
    assert_eq!(models[0]["requests"], 1, "{models}");
    gateway
        .sample_is("tollgate_ledger_tokens{state=\"reserved\"}", 0.0)
        .await;
    gateway.verify().await;
}

/// A gateway before a provider that begins a chat stream with these texts, each in a piece, and then pauses.
async fn pausing(texts: &[&str], change: impl FnOnce(Config) -> Config) -> Gateway {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let piece = |text: &&str| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
        Act::send(format!("data: {chunk}\n\n"))
    };
    let pieces = texts.iter().map(piece);
    let acts: Vec<Act> = [Act::send(head)]
        .into_iter()
        .chain(pieces)
        .chain([Act::Hang])
        .collect();
    let service = support::Service::answering(move |_| acts.clone()).await;
    let mut provider = support::provider(service.address);
    provider["formats"] = json!(["chat"]);
    let config = Config::new()
        .provider("raw", provider)
        .model("test-model", json!(["raw"]))
        .with("models.test-model.reasoning", json!("none"));
    Gateway::start(change(config)).await
}

#[tokio::test]
async fn a_stream_that_pauses_after_a_burst_is_charged_for_it_after_a_kill() {
    let burst = "word ".repeat(8000);
    for (texts, least) in [(vec!["one ", &*burst], 10_000), (vec!["one ", "two "], 1)] {
        let gateway = pausing(&texts, |config| config).await;
        let config = gateway.config();
        let body = ask(CHAT, true, json!({"max_tokens": 20_000}));
        let request = Request::post(CHAT, &body).key(&gateway.key);
        let last = texts.last().unwrap();
        let end = &last[last.len() - 4..];
        let (connection, answer) = begin(&gateway, &request, end).await;
        let key = gateway.key.clone();
        let folder = gateway.killed().await;
        drop(connection);

        let gateway = Gateway::start_in(folder, config).await;
        let history = Request::get("/v1/usage/history").key(&key);
        let records = gateway.send(&history).await.json()["data"].clone();
        assert_eq!(records[0]["id"].as_str(), answer.header("x-request-id"));
        let usage = &records[0]["usage"];
        assert!(usage["input"].as_u64() > Some(10), "{records}");
        assert!(usage["output"].as_u64() >= Some(least), "{records}");
        gateway.verify().await;
    }
}

#[tokio::test]
async fn dense_input_is_charged_by_its_tokens_if_the_caller_leaves() {
    let digits: String = (0..20_000).map(|at| format!("{} ", at * 7 % 10)).collect();
    let words = "The quick brown fox jumps over the lazy dog. ".repeat(1000);
    let faces = "\u{1f9d1}\u{200d}\u{1f680}".repeat(2000);
    let gateway = pausing(&["so much "], |config| {
        config
            .with("models.test-model.tokenizer", json!("openai"))
            .with("counting.preload", json!(true))
    })
    .await;
    for text in [digits, words, faces] {
        let count = prompt(COUNT_TOKENS, "test-model", &text, json!({}));
        let counted = gateway.post(COUNT_TOKENS, &count).await.json();
        let counted = counted["input_tokens"].as_u64().unwrap();
        let body = prompt(
            CHAT,
            "test-model",
            &text,
            json!({"stream": true, "max_tokens": 50}),
        );
        let request = Request::post(CHAT, &body).key(&gateway.key);
        let (connection, answer) = begin(&gateway, &request, "so much").await;
        drop(connection);
        let line = gateway.line_of(&answer).await;
        let (outcome, charged, source) = money(&line);
        assert_eq!((outcome, source), ("client_closed", "estimated"), "{line}");
        let known = counted * 85 / 100..=counted * 115 / 100;
        assert!(known.contains(&charged), "{charged} is not of {known:?}");
    }
}
