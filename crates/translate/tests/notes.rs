//! What a translation remembers for its answer, and reasoning that comes back with the next
//! request.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tollgate_translate::{
    AnswerCheck, Target, Translated,
    names::{ToolKind, ToolName},
    request,
    seal::{Backend, ReasoningForm, seal},
};
use tollgate_types::{
    ChatCapabilities, Effort, Format, MessagesCapabilities, ReasoningMode, RequestFacts,
    ResponsesCapabilities,
};

fn translate(from: Format, to: Format, body: &Value) -> Translated {
    let body = serde_json::to_vec(body).unwrap();
    request(from, to, &body, &Target::new("upstream-model", "backend")).unwrap()
}

fn body(translated: &Translated) -> Value {
    serde_json::from_slice(&translated.body).unwrap()
}

fn sealed(backend: &str, form: ReasoningForm, item_id: &str, payload: &str) -> String {
    seal(Backend::new(backend), form, item_id, payload).unwrap()
}

/// A responses request whose history holds sealed reasoning before a call.
fn responses_with(sealed: &str) -> Value {
    json!({"model": "m", "input": [
        {"role": "user", "content": "Go."},
        {"type": "reasoning", "id": "rs_1", "summary": [
            {"type": "summary_text", "text": "First\n"},
            {"type": "summary_text", "text": "then."},
        ], "encrypted_content": sealed},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Seen."},
    ], "tools": [{"type": "function", "name": "look", "parameters": null, "strict": null}]})
}

#[test]
fn a_thinking_block_returns_to_the_backend_that_signed_it() {
    let seal = sealed("backend", ReasoningForm::Signature, "", "sig/+nature==");
    let translated = translate(Format::Responses, Format::Messages, &responses_with(&seal));
    assert_eq!(
        body(&translated).pointer("/messages/1/content/0"),
        Some(
            &json!({"type": "thinking", "thinking": "First\nthen.", "signature": "sig/+nature=="})
        )
    );
    assert_eq!(translated.dropped, Vec::<String>::new());
}

#[test]
fn thinking_is_enabled_only_if_the_turn_that_goes_on_begins_with_a_thought() {
    let target = Target {
        messages: MessagesCapabilities {
            adaptive_thinking: false,
            ..MessagesCapabilities::ALL
        },
        ..Target::new("upstream-model", "backend")
    };
    for (form, expected) in [
        (ReasoningForm::Signature, Some("enabled")),
        (ReasoningForm::Redacted, Some("enabled")),
        // It has no signature, and is left out.
        (ReasoningForm::Shown, None),
    ] {
        let mut asked = responses_with(&sealed("backend", form, "", "x"));
        asked["reasoning"] = json!({"effort": "low"});
        let asked = serde_json::to_vec(&asked).unwrap();
        let sent = request(Format::Responses, Format::Messages, &asked, &target).unwrap();
        let sent = body(&sent);
        let thinking = sent.pointer("/thinking/type").and_then(Value::as_str);
        assert_eq!(thinking, expected, "{form:?}: {sent}");
    }
}

#[test]
fn thinking_stays_enabled_through_calls_that_the_model_does_not_think_between() {
    let target = Target {
        messages: MessagesCapabilities {
            adaptive_thinking: false,
            ..MessagesCapabilities::ALL
        },
        ..Target::new("upstream-model", "backend")
    };
    for (backend, more, expected) in [
        ("backend", json!([]), Some("enabled")),
        (
            "backend",
            json!([{"role": "user", "content": "And then?"}]),
            None,
        ),
        ("another", json!([]), None),
    ] {
        let mut asked = responses_with(&sealed(backend, ReasoningForm::Signature, "", "x"));
        asked["reasoning"] = json!({"effort": "low"});
        let items = asked["input"].as_array_mut().unwrap();
        items.extend(more.as_array().unwrap().clone());
        items.extend([
            json!({"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "c2", "output": "Seen."}),
        ]);
        let asked = serde_json::to_vec(&asked).unwrap();
        let sent = request(Format::Responses, Format::Messages, &asked, &target).unwrap();
        let sent = body(&sent);
        let thinking = sent.pointer("/thinking/type").and_then(Value::as_str);
        assert_eq!(thinking, expected, "{backend}: {sent}");
    }
}

#[test]
fn redacted_thinking_returns_as_what_it_was() {
    let seal = sealed("backend", ReasoningForm::Redacted, "", "opaque");
    let translated = translate(Format::Responses, Format::Messages, &responses_with(&seal));
    assert_eq!(
        body(&translated).pointer("/messages/1/content/0"),
        Some(&json!({"type": "redacted_thinking", "data": "opaque"}))
    );
}

#[test]
fn reasoning_of_another_provider_is_left_out_with_notice() {
    for strange in [
        sealed("another", ReasoningForm::Signature, "", "signature"),
        "gAAAAABo-not-sealed-here".to_owned(),
    ] {
        let translated = translate(
            Format::Responses,
            Format::Messages,
            &responses_with(&strange),
        );
        let sent = String::from_utf8(translated.body.to_vec()).unwrap();
        assert!(
            !sent.contains("then.") && !sent.contains(&strange),
            "{sent}"
        );
        assert_eq!(translated.dropped, ["input[].reasoning"]);
    }
}

#[test]
fn a_reasoning_item_returns_with_its_id_and_before_what_it_led_to() {
    let seal = sealed("backend", ReasoningForm::Encrypted, "rs_77", "gAAAA==");
    let request = json!({"model": "m", "max_tokens": 99, "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I look.", "signature": seal},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Seen."}]},
    ], "tools": [{"name": "look", "input_schema": {"type": "object"}}]});
    let translated = translate(Format::Messages, Format::Responses, &request);
    let sent = body(&translated);
    assert_eq!(
        sent.pointer("/input/1"),
        Some(&json!({
            "type": "reasoning",
            "id": "rs_77",
            "summary": [{"type": "summary_text", "text": "I look."}],
            "encrypted_content": "gAAAA==",
        }))
    );
    assert_eq!(sent.pointer("/input/2/type"), Some(&json!("function_call")));
}

#[test]
fn results_of_calls_with_one_id_name_the_functions_that_were_called() {
    let call = |name| {
        json!({"role": "assistant", "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": name, "arguments": "{}"}},
        ]})
    };
    let result = json!({"role": "tool", "tool_call_id": "call_0", "content": "Done."});
    let tool = |name| json!({"type": "function", "function": {"name": name}});
    let request = json!({"model": "m", "tools": [tool("look"), tool("jump")], "messages": [
        {"role": "user", "content": "Go."}, call("look"), result, call("jump"), result,
    ]});
    let sent = body(&translate(Format::Chat, Format::Gemini, &request));
    let names = [2, 4].map(|content| {
        let name = format!("/contents/{content}/parts/0/functionResponse/name");
        sent.pointer(&name).cloned()
    });
    assert_eq!(names, [Some(json!("look")), Some(json!("jump"))], "{sent}");
}

#[test]
fn reasoning_that_led_to_nothing_is_left_out() {
    let seal = sealed("backend", ReasoningForm::Encrypted, "rs_77", "gAAAA==");
    let request = json!({"model": "m", "max_tokens": 99, "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "…", "signature": seal}]},
        {"role": "user", "content": "Well?"},
    ]});
    let translated = translate(Format::Messages, Format::Responses, &request);
    assert_eq!(translated.dropped, ["messages[].content[].thinking"]);
    assert!(
        !String::from_utf8(translated.body.to_vec())
            .unwrap()
            .contains("rs_77")
    );
}

#[test]
fn a_chat_caller_hands_a_signature_back_in_its_details() {
    let seal = sealed("backend", ReasoningForm::Signature, "", "signature");
    let request = json!({"model": "m", "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "Done.", "reasoning_content": "I did.",
         "reasoning_details": [{"type": "reasoning.encrypted", "data": seal, "index": 0}]},
        {"role": "user", "content": "Good."},
    ]});
    let translated = translate(Format::Chat, Format::Messages, &request);
    assert_eq!(
        body(&translated).pointer("/messages/1/content/0"),
        Some(&json!({"type": "thinking", "thinking": "I did.", "signature": "signature"}))
    );
}

#[test]
fn a_chat_providers_signed_details_return_whole() {
    let entry = r#"{"type":"reasoning.text","signature":"sig","format":"v1","index":0}"#;
    let seal = sealed("backend", ReasoningForm::Details, "", entry);
    let request = json!({"model": "m", "max_tokens": 99, "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I \"look\".", "signature": seal},
            {"type": "text", "text": "Done."},
        ]},
        {"role": "user", "content": "Good."},
    ]});
    let translated = translate(Format::Messages, Format::Chat, &request);
    assert_eq!(
        body(&translated).pointer("/messages/1/reasoning_details"),
        Some(
            &json!([{"type": "reasoning.text", "signature": "sig", "format": "v1", "index": 0, "text": "I \"look\"."}])
        )
    );
    assert_eq!(translated.dropped, Vec::<String>::new());
}

#[test]
fn a_signature_of_googles_chat_returns_beside_its_call() {
    let signed = |backend| sealed(backend, ReasoningForm::CallSignature, "", "sig/+==");
    let request = |seal: String| {
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
        let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
        json!({"model": "m", "max_tokens": 99, "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": seal},
                {"type": "text", "text": "Looking."}, call("a"), call("b"),
            ]},
            {"role": "user", "content": [result("a"), result("b")]},
        ]})
    };
    let translated = translate(Format::Messages, Format::Chat, &request(signed("backend")));
    let calls = &body(&translated)["messages"][1]["tool_calls"];
    let extra = json!({"google": {"thought_signature": "sig/+=="}});
    assert_eq!(calls[0]["extra_content"], extra);
    assert_eq!(calls[1].get("extra_content"), None);
    assert_eq!(translated.dropped, Vec::<String>::new());
    let translated = translate(Format::Messages, Format::Chat, &request(signed("other")));
    let calls = &body(&translated)["messages"][1]["tool_calls"];
    assert_eq!(calls[0].get("extra_content"), None);
    assert_eq!(translated.dropped, ["messages[].content[].thinking"]);

    let mut late = request(signed("backend"));
    late["messages"][1]["content"]
        .as_array_mut()
        .unwrap()
        .rotate_left(1);
    let translated = translate(Format::Messages, Format::Chat, &late);
    let calls = &body(&translated)["messages"][1]["tool_calls"];
    assert_eq!(calls[1].get("extra_content"), None);
    assert_eq!(translated.dropped, ["messages[].content[].thinking"]);
}

#[test]
fn the_answer_half_learns_what_the_caller_asked_for() {
    let request = json!({"model": "beta-5", "stream": true, "input": "Hi.",
    "instructions": "Be kind.", "temperature": 0.5, "metadata": {"a": "b"},
    "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"},
    "parallel_tool_calls": false,
    "text": {"format": {"type": "json_schema", "name": "title",
        "schema": {"type": "object", "properties": {}, "additionalProperties": false}}},
    "tools": [
        {"type": "custom", "name": "patch"},
        {"type": "namespace", "name": "agents", "description": "", "tools": [
            {"type": "function", "name": "list", "parameters": null, "strict": null},
        ]},
    ]});
    let translated = translate(Format::Responses, Format::Messages, &request);
    assert_eq!(body(&translated)["stream"], true);
    let notes = translated.notes;
    assert_eq!(
        (notes.from, notes.to),
        (Format::Responses, Format::Messages)
    );
    assert_eq!(notes.model, "beta-5");
    assert!(notes.reasoning.text && notes.reasoning.state);
    let echo = notes.echo.unwrap();
    assert_eq!(echo.get("instructions"), Some("\"Be kind.\""));
    assert_eq!(echo.get("metadata"), Some(r#"{"a":"b"}"#));
    assert_eq!(echo.get("user"), None);
    let tool = |name: &str, namespace: Option<&str>, kind| ToolName {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        kind,
    };
    let list = tool("list", Some("agents"), ToolKind::Function);
    assert_eq!(notes.tools.caller_tool("agents__list"), Some(&list));
    let patch = tool("patch", None, ToolKind::Custom);
    assert_eq!(notes.tools.caller_tool("patch"), Some(&patch));
}

#[test]
fn claude_gets_no_top_p_beside_a_temperature() {
    let both = json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}],
        "temperature": 1, "top_p": 0.95});
    let mut alone = both.clone();
    alone.as_object_mut().unwrap().remove("temperature");
    for (model, asked, sent, dropped) in [
        ("claude-opus-4-5", &both, [true, false], &["top_p"][..]),
        ("claude-opus-4-5", &alone, [false, true], &[]),
        ("glm-4.7", &both, [true, true], &[]),
    ] {
        let asked = asked.to_string();
        let target = Target::new(model, "backend");
        let translated = request(Format::Chat, Format::Messages, asked.as_bytes(), &target);
        let translated = translated.unwrap();
        let body = body(&translated);
        let found = ["temperature", "top_p"].map(|name| body.get(name).is_some());
        assert_eq!(found, sent, "{model}: {asked}");
        assert_eq!(translated.dropped, dropped, "{model}: {asked}");
    }
}

#[test]
fn the_notes_have_the_ids_of_all_calls() {
    let seal = sealed("backend", ReasoningForm::Signature, "", "x");
    let notes = translate(Format::Responses, Format::Chat, &responses_with(&seal)).notes;
    assert!(notes.call_ids.contain("c1"));
    assert!(!notes.call_ids.contain("c2"));
}

#[test]
fn a_name_that_is_too_long_is_the_same_wherever_it_stands() {
    let name = "mcp__".to_owned() + &"long_".repeat(20);
    let request = json!({"model": "m", "max_tokens": 99, "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": name, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]},
    ], "tools": [{"name": name, "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": name}});
    let translated = translate(Format::Messages, Format::Chat, &request);
    let sent = body(&translated);
    let places = [
        "/messages/1/tool_calls/0/function/name",
        "/tools/0/function/name",
        "/tool_choice/function/name",
    ];
    let [called, offered, chosen] =
        places.map(|place| sent.pointer(place).unwrap().as_str().unwrap());
    assert!(
        called.len() <= 64 && called == offered && offered == chosen,
        "{sent}"
    );
    let known = translated.notes.tools.caller_tool(called).unwrap();
    assert_eq!(known.name, name);
}

#[test]
fn the_output_limit_that_is_sent_is_reported() {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}]});
    let target = Target {
        max_output_tokens: Some(32_000),
        ..Target::new("upstream-model", "backend")
    };
    let sent = serde_json::to_vec(&request).unwrap();
    let translated = tollgate_translate::request(Format::Chat, Format::Messages, &sent, &target);
    assert_eq!(translated.unwrap().output_limit, Some(32_000));
}

#[test]
fn the_output_limit_is_within_what_is_reserved_for_it() {
    let efforts = [
        None,
        Some(("minimal", Effort::Minimal)),
        Some(("low", Effort::Low)),
        Some(("medium", Effort::Medium)),
        Some(("max", Effort::Max)),
    ];
    let modes = [
        ReasoningMode::Adaptive,
        ReasoningMode::Extended,
        ReasoningMode::ProviderDefault,
        ReasoningMode::None,
    ];
    for mode in modes {
        for adaptive_thinking in [true, false] {
            for effort in efforts {
                for limit in [1, 64, 1023, 1024, 1366, 2048, 4096, 40_000] {
                    let facts = RequestFacts {
                        output_limit: Some(limit),
                        effort: effort.map(|(_, effort)| effort),
                        ..RequestFacts::default()
                    };
                    let added = facts.thinking_to_add(mode);
                    let reserved = added.map_or(limit, |budget| {
                        RequestFacts::limit_with_thinking(limit, budget)
                    });
                    let target = Target {
                        reasoning: mode,
                        messages: MessagesCapabilities {
                            adaptive_thinking,
                            ..MessagesCapabilities::ALL
                        },
                        ..Target::new("upstream-model", "backend")
                    };
                    let asked = json!({
                        "model": "m",
                        "messages": [{"role": "user", "content": "Think."}],
                        "max_completion_tokens": limit,
                        "reasoning_effort": effort.map(|(name, _)| name),
                    });
                    let asked = serde_json::to_vec(&asked).unwrap();
                    let sent = request(Format::Chat, Format::Messages, &asked, &target).unwrap();
                    let what = format!("{mode:?} {effort:?} {limit}: {}", body(&sent));
                    let written = body(&sent).get("max_tokens").and_then(Value::as_u64);
                    assert_eq!(written, sent.output_limit, "{what}");
                    assert!(written.unwrap() <= reserved, "{reserved}: {what}");
                    let thinks = body(&sent).get("thinking").is_some();
                    let is_reported = sent.dropped == ["reasoning_effort"];
                    assert_eq!(effort.is_some() && !thinks, is_reported, "{what}");
                }
            }
        }
    }
}

/// A messages request with an answer that thought, searched, said nothing and called a tool.
fn messages_with(thought: &str, search: &str) -> Value {
    json!({"model": "m", "max_tokens": 1000, "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "First.", "signature": thought},
            {"type": "text", "text": ""},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
                {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": search},
            ]},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]},
    ], "tools": [
        {"name": "look", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search"},
    ]})
}

/// The items of the answer in a request that holds `messages_with`, and what was left out.
fn items_of(thought: &str, search: &str) -> (Vec<Value>, Vec<String>) {
    let target = Target {
        responses: ResponsesCapabilities {
            web_search: true,
            ..ResponsesCapabilities::ALL
        },
        ..Target::new("upstream-model", "backend")
    };
    let asked = serde_json::to_vec(&messages_with(thought, search)).unwrap();
    let sent = request(Format::Messages, Format::Responses, &asked, &target).unwrap();
    let sent_body = body(&sent);
    let items = sent_body.get("input").and_then(Value::as_array).unwrap();
    let kinds = items.iter().filter_map(|item| item.get("type").cloned());
    let kinds = kinds.collect();
    (kinds, sent.dropped)
}

#[test]
fn a_search_returns_with_the_reasoning_that_led_to_it_or_not_at_all() {
    let item = r#"{"type":"web_search_call","id":"ws_1"}"#;
    let search = sealed("backend", ReasoningForm::SearchItem, "", item);
    let thought = sealed("backend", ReasoningForm::Encrypted, "rs_1", "opaque");
    let foreign = sealed("another", ReasoningForm::Encrypted, "rs_1", "opaque");
    let all = [
        "message",
        "reasoning",
        "web_search_call",
        "function_call",
        "function_call_output",
    ];
    assert_eq!(
        items_of(&thought, &search),
        (all.map(Value::from).to_vec(), Vec::new())
    );
    let without = ["message", "function_call", "function_call_output"];
    let left_out = [
        "messages[].content[].thinking",
        "messages[].content[].server_tool_use",
        "messages[].content[].web_search_tool_result",
    ];
    assert_eq!(
        items_of(&foreign, &search),
        (
            without.map(Value::from).to_vec(),
            left_out.map(str::to_owned).to_vec()
        )
    );
}

#[test]
fn a_model_without_effort_beside_tools_gets_none_if_it_reasons_or_was_asked_to() {
    use ReasoningMode::{Adaptive, Extended, ProviderDefault};
    let none = Some(json!("none"));
    let (all, low): (&[Effort], &[Effort]) = (&[], &[Effort::Low]);
    let with_none: &[Effort] = &[Effort::None, Effort::Low];
    let effort = "reasoning.effort";
    let cases = [
        (ProviderDefault, all, json!(null), None, ""),
        (ProviderDefault, all, json!("none"), none.clone(), ""),
        (ProviderDefault, all, json!("low"), none.clone(), effort),
        (ProviderDefault, with_none, json!(null), None, ""),
        (
            ProviderDefault,
            with_none,
            json!("low"),
            none.clone(),
            effort,
        ),
        (ProviderDefault, low, json!(null), None, ""),
        (ProviderDefault, low, json!("low"), None, effort),
        (ReasoningMode::None, all, json!("low"), None, effort),
        (Adaptive, all, json!(null), none.clone(), ""),
        (Extended, all, json!(null), none, ""),
    ];
    for (reasoning, efforts, asked, sent, dropped) in cases {
        let target = Target {
            reasoning,
            efforts,
            chat: ChatCapabilities {
                effort_with_tools: false,
                ..ChatCapabilities::ALL
            },
            ..Target::new("upstream-model", "backend")
        };
        let request = json!({"model": "m", "input": "Hi.", "reasoning": {"effort": asked},
            "tools": [{"type": "function", "name": "look", "parameters": null, "strict": null}]});
        let bytes = serde_json::to_vec(&request).unwrap();
        let translated =
            tollgate_translate::request(Format::Responses, Format::Chat, &bytes, &target).unwrap();
        let case = format!("{reasoning:?} {efforts:?} {asked}");
        assert_eq!(
            body(&translated).get("reasoning_effort"),
            sent.as_ref(),
            "{case}"
        );
        assert_eq!(translated.dropped.join(" "), dropped, "{case}");
    }
}

#[test]
fn a_provider_of_short_call_ids_gets_nine_letters_and_digits() {
    let target = Target {
        chat: ChatCapabilities {
            short_call_ids: true,
            ..ChatCapabilities::ALL
        },
        ..Target::new("upstream-model", "backend")
    };
    let own = "D681PevKs";
    for id in ["toolu_01A09q90qw90lq917835lq9", "call_0", own, "D681_evKs"] {
        let image =
            json!({"type": "image", "source": {"type": "url", "url": "https://a.example/i"}});
        let request = json!({"model": "m", "max_tokens": 99, "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": id, "name": "look", "input": {}},
                {"type": "tool_use", "id": "toolu_02", "name": "look", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": [image]},
                {"type": "tool_result", "tool_use_id": "toolu_02", "content": "Seen."}]},
        ], "tools": [{"name": "look", "input_schema": {"type": "object"}}]});
        let bytes = serde_json::to_vec(&request).unwrap();
        let translated =
            tollgate_translate::request(Format::Messages, Format::Chat, &bytes, &target).unwrap();
        let sent = body(&translated);
        let at = |pointer: &str| sent.pointer(pointer).unwrap().as_str().unwrap();
        let first = at("/messages/1/tool_calls/0/id");
        let is_short = first.len() == 9 && first.bytes().all(|it| it.is_ascii_alphanumeric());
        assert!(is_short, "{sent}");
        assert_eq!(first == id, id == own, "{sent}");
        assert_ne!(first, at("/messages/1/tool_calls/1/id"));
        assert_eq!(first, at("/messages/2/tool_call_id"));
        assert_eq!(
            at("/messages/1/tool_calls/1/id"),
            at("/messages/3/tool_call_id")
        );
        assert!(at("/messages/4/content/0/text").contains(first), "{sent}");
    }
}

#[test]
fn encrypted_reasoning_is_asked_for_only_from_a_model_that_reasons() {
    let low = [Effort::None, Effort::Low];
    let cases: [(ReasoningMode, &[Effort], Value, bool); 6] = [
        (ReasoningMode::None, &[], json!({"type": "adaptive"}), false),
        (ReasoningMode::ProviderDefault, &[], json!(null), false),
        (
            ReasoningMode::ProviderDefault,
            &[],
            json!({"type": "disabled"}),
            false,
        ),
        (
            ReasoningMode::ProviderDefault,
            &[],
            json!({"type": "adaptive"}),
            true,
        ),
        (ReasoningMode::ProviderDefault, &low, json!(null), true),
        (ReasoningMode::Adaptive, &[], json!(null), true),
    ];
    for (reasoning, efforts, thinking, is_asked) in cases {
        let request = json!({"model": "m", "max_tokens": 99, "thinking": thinking,
            "messages": [{"role": "user", "content": "Hi."}]});
        let bytes = serde_json::to_vec(&request).unwrap();
        let target = Target {
            reasoning,
            efforts,
            ..Target::new("upstream-model", "backend")
        };
        let translated =
            tollgate_translate::request(Format::Messages, Format::Responses, &bytes, &target);
        let sent = body(&translated.unwrap());
        let asked = sent.get("include") == Some(&json!(["reasoning.encrypted_content"]));
        assert_eq!(
            asked, is_asked,
            "{reasoning:?} {efforts:?} {thinking}: {sent}"
        );
    }
}

#[test]
fn no_limit_exceeds_the_models_maximum() {
    for (asked, most, limit) in [
        (128_000, Some(16_384), 16_384),
        (16_384, Some(16_384), 16_384),
        (100, Some(16_384), 100),
        (128_000, None, 128_000),
    ] {
        for to in [
            Format::Chat,
            Format::Responses,
            Format::Gemini,
            Format::Converse,
        ] {
            let target = Target {
                max_output_tokens: most,
                ..Target::new("upstream-model", "backend")
            };
            let request = json!({"model": "m", "max_tokens": asked,
                "messages": [{"role": "user", "content": "Hi."}]});
            let bytes = serde_json::to_vec(&request).unwrap();
            let translated =
                tollgate_translate::request(Format::Messages, to, &bytes, &target).unwrap();
            let sent = body(&translated);
            let fields = [
                "/max_completion_tokens",
                "/max_output_tokens",
                "/generationConfig/maxOutputTokens",
                "/inferenceConfig/maxTokens",
            ];
            let found = fields.iter().find_map(|field| sent.pointer(field));
            assert_eq!(found, Some(&json!(limit)), "{to} {asked} {most:?}: {sent}");
            assert_eq!(translated.output_limit, Some(limit));
        }
    }
    // What responses accept goes before it.
    let target = Target {
        max_output_tokens: Some(8),
        ..Target::new("upstream-model", "backend")
    };
    let request = json!({"model": "m", "max_tokens": 99,
        "messages": [{"role": "user", "content": "Hi."}]});
    let bytes = serde_json::to_vec(&request).unwrap();
    let translated =
        tollgate_translate::request(Format::Messages, Format::Responses, &bytes, &target);
    assert_eq!(translated.unwrap().output_limit, Some(16));
}

#[test]
fn the_answer_half_learns_that_one_json_object_was_promised() {
    let asked = |tools: Value| {
        json!({"model": "m", "messages": [{"role": "user", "content": "JSON."}],
            "response_format": {"type": "json_object"}, "tools": tools})
    };
    let tool = json!([{"type": "function", "function": {"name": "look"}}]);
    let plain = translate(Format::Chat, Format::Messages, &asked(json!([])));
    assert_eq!(plain.notes.check, AnswerCheck::JsonObject);
    assert_eq!(plain.dropped, ["response_format.json_object"]);
    let calling = translate(Format::Chat, Format::Messages, &asked(tool));
    assert_eq!(calling.notes.check, AnswerCheck::JsonObjectOrCall);
    let native = translate(Format::Chat, Format::Responses, &asked(json!([])));
    assert_eq!(native.notes.check, AnswerCheck::None);
    assert_eq!(native.dropped, Vec::<String>::new());
}
