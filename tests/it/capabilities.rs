//! What a provider accepts decides what it is sent, from clients of its own format, too.

use crate::support::{CHAT, Config, Gateway, MESSAGES, Provider, RESPONSES, Request, prompt};
use serde_json::{Value, json};

/// A provider of one format with these capabilities.
async fn start(format: &str, capabilities: Value) -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("providers.sim.formats", json!([format]))
        .with("providers.sim.capabilities", capabilities);
    let gateway = Gateway::start(config).await;
    (provider, gateway)
}

fn sent(provider: &Provider) -> Value {
    serde_json::from_slice(&provider.last().body).unwrap()
}

#[tokio::test]
async fn roles_and_fields_of_chat_are_those_that_the_provider_accepts() {
    let least = json!({"cache_breakpoints": false, "chat": {
        "developer_role": false, "effort_with_tools": false, "openai": false}});
    let (provider, gateway) = start("chat", least).await;
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let marked =
        json!([{"type": "text", "text": "c", "prompt_cache_breakpoint": {"mode": "explicit"}}]);
    for stream in [false, true] {
        let body = json!({
            "model": "test-model", "stream": stream, "top_k": 5, "temperature": 0.5,
            "metadata": {"a": "b"}, "verbosity": "low", "prompt_cache_key": "k",
            "safety_identifier": "someone", "reasoning_effort": "high",
            "tools": [{"type": "function", "function": {"name": "look"}}],
            "messages": [{"role": "developer", "content": parts}, {"role": "user", "content": marked}],
        });
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        let dropped = answer.header("x-dropped-fields").unwrap();
        for field in [
            "top_k",
            "metadata",
            "verbosity",
            "prompt_cache_key",
            "reasoning_effort",
        ] {
            assert!(dropped.contains(field), "{field}: {dropped}");
        }
        assert!(dropped.contains("prompt_cache_breakpoint"), "{dropped}");
        let mut sent = sent(&provider);
        sent.as_object_mut().unwrap().remove("stream_options");
        let expected = json!({
            "model": "upstream-model", "stream": stream, "temperature": 0.5,
            "user": "someone", "reasoning_effort": "none",
            "tools": [{"type": "function", "function": {"name": "look"}}],
            "messages": [
                {"role": "system", "content": "a\n\nb"},
                {"role": "user", "content": [{"type": "text", "text": "c"}]},
            ],
        });
        assert_eq!(sent, expected);
    }
}

#[tokio::test]
async fn refused_fields_and_stop_sequences_are_obeyed_for_clients_of_every_format() {
    let can = json!({"refused_fields": ["seed", "user"], "max_stop_sequences": 2});
    let (provider, gateway) = start("chat", can).await;
    let stops = ["a", "b", "c"];
    for (path, field, more) in [
        (
            CHAT,
            "stop",
            json!({"seed": 7, "user": "u", "stop": stops[..2]}),
        ),
        (
            MESSAGES,
            "stop_sequences",
            json!({"max_tokens": 9, "metadata": {"user_id": "u"}, "stop_sequences": stops[..2]}),
        ),
    ] {
        let mut body = prompt(path, "test-model", "Hello!", more);
        let answer = gateway.post(path, &body).await;
        answer.assert_ok();
        let sent = sent(&provider);
        assert_eq!(
            (&sent["seed"], &sent["user"], &sent["stop"]),
            (&Value::Null, &Value::Null, &json!(["a", "b"])),
            "{path}"
        );
        let dropped = answer.header("x-dropped-fields").unwrap_or_default();
        assert_eq!(dropped.contains("seed"), path == CHAT, "{dropped}");
        let before = provider.received().len();
        body[field] = json!(stops);
        let answer = gateway.post(path, &body).await;
        answer.assert_error(400, "invalid_request");
        assert!(answer.message().contains(field), "{answer:?}");
        assert_eq!(provider.received().len(), before);
    }
}

#[tokio::test]
async fn a_request_that_fits_is_sent_as_the_client_wrote_it() {
    let least = json!({"chat": {"developer_role": false, "openai": false}});
    let (provider, gateway) = start("chat", least).await;
    let text = "caf\\u00e9 developer ".repeat(20_000);
    for text in ["a developer's metadata", &text] {
        let rest = format!(
            r#" , "messages":[ {{"role":"user","content":"{text}"}} ], "temperature": 1.0e0 }}"#
        );
        let request = Request::post(CHAT, &json!({})).key(&gateway.key);
        let body = format!(r#"{{ "model": "test-model"{rest}"#);
        let answer = gateway.send(&request.body(body)).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-dropped-fields"), None);
        let expected = format!(r#"{{ "model": "upstream-model"{rest}"#);
        assert!(
            provider.last().body == expected.as_bytes(),
            "{:?}",
            provider.last()
        );
    }
}

#[tokio::test]
async fn instructions_in_the_middle_become_reminders() {
    let advice = |role: &str| {
        json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": role, "content": "Be brief."}, {"role": "user", "content": "c"}])
    };
    let reminder =
        json!({"role": "user", "content": "<system-reminder>\nBe brief.\n</system-reminder>"});
    for (format, path, role) in [
        ("chat", CHAT, "system"),
        ("chat", CHAT, "developer"),
        ("messages", MESSAGES, "system"),
    ] {
        let lacks = json!({format: {"system_in_the_middle": false}});
        let (provider, gateway) = start(format, lacks).await;
        let mut body = prompt(path, "test-model", "", json!({}));
        body["messages"] = advice(role);
        gateway.post(path, &body).await.assert_ok();
        assert_eq!(sent(&provider)["messages"][2], reminder, "{format} {role}");
    }
}

/// Only a translation can give the client back the kind of call that it offered.
#[tokio::test]
async fn tools_of_free_text_are_sent_as_functions_and_called_as_they_were_offered() {
    let (provider, gateway) = start("chat", json!({"chat": {"custom_tools": false}})).await;
    let tool = json!({"type": "custom", "custom": {"name": "look", "description": "Looks."}});
    for stream in [false, true] {
        let more = json!({"tools": [tool], "stream": stream});
        let answer = gateway
            .post(
                CHAT,
                &prompt(CHAT, "test-model", "Use the look tool.", more),
            )
            .await;
        answer.assert_ok();
        let sent = sent(&provider);
        assert_eq!(sent["tools"][0]["type"], "function", "{sent}");
        assert_eq!(sent["tools"][0]["function"]["name"], "look", "{sent}");
        let call = match stream {
            true => answer
                .events()
                .iter()
                .map(|event| event["choices"][0]["delta"]["tool_calls"][0].clone())
                .find(|call| call["type"].is_string())
                .unwrap_or_else(|| panic!("{answer:?}")),
            false => answer.json()["choices"][0]["message"]["tool_calls"][0].clone(),
        };
        assert_eq!(call["type"], "custom", "{answer:?}");
        assert_eq!(call["custom"]["name"], "look", "{answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["outcome"], &line["count"]),
            (&json!("completed"), &json!("reported"))
        );
    }
    // Other requests pass as they are.
    let tool = json!({"type": "function", "function": {"name": "look", "x-own": 1}});
    let body = prompt(CHAT, "test-model", "custom", json!({"tools": [tool]}));
    gateway.post(CHAT, &body).await.assert_ok();
    assert_eq!(sent(&provider)["tools"], body["tools"]);
}

#[tokio::test]
async fn marks_and_encrypted_reasoning_of_responses_are_left_out() {
    let lacks = json!({"cache_breakpoints": false, "responses": {"encrypted_reasoning": false}});
    let (provider, gateway) = start("responses", lacks).await;
    let mark = json!({"mode": "explicit"});
    let body = json!({
        "model": "test-model", "store": false, "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": [
            {"type": "input_text", "text": "a", "prompt_cache_breakpoint": mark}]}],
    });
    let answer = gateway.post(RESPONSES, &body).await;
    answer.assert_ok();
    let dropped = answer.header("x-dropped-fields").unwrap();
    assert!(dropped.contains("include"), "{dropped}");
    let sent = sent(&provider);
    assert_eq!(sent["include"], json!([]), "{sent}");
    let content = json!([{"type": "input_text", "text": "a"}]);
    assert_eq!(sent["input"][0]["content"], content, "{sent}");
}

#[tokio::test]
async fn thinking_and_marks_of_messages_are_those_that_the_provider_accepts() {
    let lacks = json!({"cache_breakpoints": false, "messages": {
        "adaptive_thinking": false, "thinking_can_be_disabled": false, "structured_output": false}});
    let (provider, gateway) = start("messages", lacks).await;
    let mark = json!({"type": "ephemeral"});
    let body = json!({
        "model": "test-model", "max_tokens": 20000,
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"},
        "system": [{"type": "text", "text": "s", "cache_control": mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": mark}]}],
    });
    let answer = gateway.post(MESSAGES, &body).await;
    answer.assert_ok();
    let dropped = answer.header("x-dropped-fields").unwrap();
    assert!(dropped.contains("system[].cache_control"), "{dropped}");
    let expected = json!({
        "model": "upstream-model", "max_tokens": 20000,
        "thinking": {"type": "enabled", "budget_tokens": 8192},
        "system": [{"type": "text", "text": "s"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
    });
    assert_eq!(sent(&provider), expected);

    let off = json!({"thinking": {"type": "disabled"}, "max_tokens": 64});
    let answer = gateway
        .post(MESSAGES, &prompt(MESSAGES, "test-model", "Hi.", off))
        .await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), Some("thinking"));
    assert_eq!(sent(&provider)["thinking"], Value::Null);

    let before = provider.received().len();
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    let shaped = json!({"output_config": {"format": format}, "max_tokens": 64});
    let answer = gateway
        .post(MESSAGES, &prompt(MESSAGES, "test-model", "Hi.", shaped))
        .await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.text().contains("output_config.format"), "{answer:?}");
    assert_eq!(provider.received().len(), before);
}

#[tokio::test]
async fn an_effort_that_is_changed_twice_is_named_once() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("providers.sim.formats", json!(["chat"]))
        .with(
            "providers.sim.capabilities.chat.effort_with_tools",
            json!(false),
        )
        .with("models.test-model.efforts", json!(["none", "low", "high"]));
    let gateway = Gateway::start(config).await;
    let tool = json!({"type": "function", "function": {"name": "look"}});
    let more = json!({"reasoning_effort": "max", "tools": [tool]});
    let answer = gateway
        .post(CHAT, &prompt(CHAT, "test-model", "Hi.", more))
        .await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), Some("reasoning_effort"));
    assert_eq!(sent(&provider)["reasoning_effort"], "none");
}

#[tokio::test]
async fn a_field_that_must_not_be_dropped_is_refused() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("translation.strict", json!(["top_k"]));
    let gateway = Gateway::start(config).await;
    let body = prompt(CHAT, "test-model", "Hi.", json!({"top_k": 3}));
    let answer = gateway.post(CHAT, &body).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.text().contains("top_k"), "{answer:?}");
    assert!(provider.received().is_empty());
}

#[tokio::test]
async fn a_model_and_a_deployment_can_accept_other_things_than_their_provider() {
    let provider = Provider::start().await;
    let openai = |accepts: bool| json!({"chat": {"openai": accepts}});
    let deployment =
        json!([{"provider": "sim", "upstream_model": "gpt-4o", "capabilities": openai(false)}]);
    let config = Config::of(&provider)
        .with("providers.sim.formats", json!(["chat"]))
        .with(
            "providers.sim.capabilities",
            json!({"chat": {"openai": false, "effort_with_tools": false}}),
        )
        .model("plain", json!(["sim/gpt-4o"]))
        .model("of-model", json!(["sim/gpt-4o"]))
        .with("models.of-model.capabilities", openai(true))
        .model("of-deployment", deployment)
        .with("models.of-deployment.capabilities", openai(true));
    let gateway = Gateway::start(config).await;
    for (model, verbosity) in [
        ("plain", Value::Null),
        ("of-model", json!("low")),
        ("of-deployment", Value::Null),
    ] {
        let tool = json!({"type": "function", "function": {"name": "look"}});
        for (path, more) in [
            (
                CHAT,
                json!({"verbosity": "low", "reasoning_effort": "high", "tools": [tool]}),
            ),
            (RESPONSES, json!({"text": {"verbosity": "low"}})),
        ] {
            let body = prompt(path, model, "Hello!", more);
            gateway.post(path, &body).await.assert_ok();
            let sent = sent(&provider);
            assert_eq!(sent["verbosity"], verbosity, "{model}: {sent}");
            // As the provider says.
            assert_ne!(sent["reasoning_effort"], "high", "{model}: {sent}");
        }
    }
}

#[tokio::test]
async fn sampling_and_efforts_that_a_model_does_not_accept_are_left_out_of_its_own_format_too() {
    let more = json!({"temperature": 0.5, "top_p": 0.9});
    for (format, path, more) in [
        (
            "messages",
            MESSAGES,
            json!({"top_k": 5, "max_tokens": 64, "output_config": {"effort": "max"}}),
        ),
        ("chat", CHAT, json!({"reasoning_effort": "max"})),
        (
            "responses",
            RESPONSES,
            json!({"reasoning": {"effort": "max"}}),
        ),
    ]
    .map(|(format, path, own)| {
        let mut all = more.clone();
        all.as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        (format, path, all)
    }) {
        let provider = Provider::start().await;
        let config = Config::of(&provider)
            .with("providers.sim.formats", json!([format]))
            .model("picky", json!(["sim/gpt-4o"]))
            .with("models.picky.sampling", json!(false))
            .with("models.picky.efforts", json!(["low", "high"]));
        let gateway = Gateway::start(config).await;
        let answer = gateway
            .post(path, &prompt(path, "picky", "Hello!", more.clone()))
            .await;
        answer.assert_ok();
        let sent = sent(&provider);
        for field in ["temperature", "top_p", "top_k"] {
            assert_eq!(sent[field], Value::Null, "{field}: {sent}");
        }
        assert!(sent.to_string().contains("\"high\""), "{sent}");
        let dropped = answer.header("x-dropped-fields").unwrap();
        assert!(
            dropped.contains("temperature") && dropped.contains("effort"),
            "{dropped}"
        );
        // Another model gets all of it.
        gateway
            .post(path, &prompt(path, "test-model", "Hello!", more))
            .await;
        let sent: Value = serde_json::from_slice(&provider.last().body).unwrap();
        assert_eq!(sent["temperature"], 0.5, "{sent}");
    }
}

#[tokio::test]
async fn a_model_that_always_thinks_is_asked_to_by_clients_of_its_own_format_too() {
    let gemini = "/v1beta/models/keen:generateContent";
    let contents =
        json!({"contents": [{"parts": [{"text": "Hello!"}]}], "generationConfig": {"topK": 1}});
    for (format, field, effort) in [
        ("chat", "/reasoning_effort", "medium"),
        ("responses", "/reasoning/effort", "medium"),
        (
            "gemini",
            "/generationConfig/thinkingConfig/thinkingLevel",
            "MEDIUM",
        ),
    ] {
        let (provider, gateway) = {
            let provider = Provider::start().await;
            let config = Config::of(&provider)
                .with("providers.sim.formats", json!([format]))
                .model("keen", json!(["sim/m"]))
                .with("models.keen.reasoning", json!("extended"));
            let gateway = Gateway::start(config).await;
            (provider, gateway)
        };
        let more = |path| match path {
            MESSAGES => json!({"max_tokens": 64}),
            _ => json!({}),
        };
        for path in [CHAT, RESPONSES, MESSAGES, gemini] {
            let body = match path {
                path if path == gemini => contents.clone(),
                path => prompt(path, "keen", "Hello!", more(path)),
            };
            gateway.post(path, &body).await;
            let sent = sent(&provider);
            assert_eq!(
                sent.pointer(field),
                Some(&json!(effort)),
                "{path} to {format}: {sent}"
            );
        }
        let own = json!({"reasoning_effort": "low"});
        gateway.post(CHAT, &prompt(CHAT, "keen", "Hi.", own)).await;
        let sent = sent(&provider).pointer(field).cloned().unwrap_or_default();
        assert!(sent.as_str().unwrap().eq_ignore_ascii_case("low"), "{sent}");
    }
}

#[tokio::test]
async fn levels_that_a_model_of_gemini_does_not_accept_become_the_nearest() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("providers.sim.formats", json!(["gemini"]))
        .model("picky", json!(["sim/m"]))
        .with("models.picky.efforts", json!(["low", "high"]))
        .model("plain", json!(["sim/m"]))
        .with("models.plain.reasoning", json!("none"));
    let gateway = Gateway::start(config).await;
    for (model, asked, expected) in [
        ("picky", "MEDIUM", json!("LOW")),
        ("picky", "minimal", json!("LOW")),
        ("picky", "HIGH", json!("HIGH")),
        ("plain", "HIGH", Value::Null),
    ] {
        let body = json!({"contents": [{"parts": [{"text": "Hello!"}]}],
            "generationConfig": {"thinkingConfig": {"thinkingLevel": asked}}});
        let path = format!("/v1beta/models/{model}:generateContent");
        let answer = gateway.post(&path, &body).await;
        let field = "/generationConfig/thinkingConfig/thinkingLevel";
        let sent = sent(&provider);
        assert_eq!(sent.pointer(field), Some(&expected), "{model}, {asked}");
        let is_changed = expected != asked;
        let dropped = answer.header("x-dropped-fields").unwrap_or_default();
        assert_eq!(dropped.contains("thinkingLevel"), is_changed, "{dropped}");
    }
}
