use super::*;
use serde_json::{Value as Json, json};
use tollgate_types::{ChatCapabilities, MessagesCapabilities, ResponsesCapabilities};

/// A provider that accepts the least.
fn least() -> Capabilities {
    Capabilities {
        cache_breakpoints: false,
        refused_fields: Vec::new(),
        max_stop_sequences: Some(2),
        stream_events: Vec::new(),
        chat: ChatCapabilities {
            developer_role: false,
            system_in_the_middle: true,
            effort_with_tools: false,
            custom_tools: false,
            openai: false,
            ..ChatCapabilities::ALL
        },
        responses: ResponsesCapabilities {
            encrypted_reasoning: false,
            web_search: false,
        },
        messages: MessagesCapabilities {
            system_in_the_middle: false,
            adaptive_thinking: false,
            thinking_can_be_disabled: false,
            structured_output: false,
            web_search: false,
        },
    }
}

fn fit(format: Format, capabilities: &Capabilities, body: &str) -> Result<Fitted, Refusal> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let unknown = ModelReasoning::default();
    within_capabilities(format, body, capabilities, unknown, true, Strict(&[]))
}

/// The body that is sent, and the fields that are left out.
fn sent(format: Format, capabilities: &Capabilities, body: &Json) -> (Json, Vec<&'static str>) {
    for written in [
        serde_json::to_string(body),
        serde_json::to_string_pretty(body),
    ] {
        let fitted = fit(format, capabilities, &written.unwrap()).unwrap();
        let sent: Json = serde_json::from_slice(&fitted.body).unwrap();
        let compact = fit(format, capabilities, &body.to_string()).unwrap();
        assert_eq!(sent, serde_json::from_slice::<Json>(&compact.body).unwrap());
    }
    let fitted = fit(format, capabilities, &body.to_string()).unwrap();
    (
        serde_json::from_slice(&fitted.body).unwrap(),
        fitted.dropped,
    )
}

#[test]
fn a_body_that_fits_is_the_same_memory() {
    for (format, body) in [
        (
            Format::Chat,
            r#"{"model":"m","messages":[{"role":"user","content":"a developer, metadata and top_k"}]}"#,
        ),
        (Format::Responses, r#"{"model":"m","input":"include"}"#),
        (
            Format::Messages,
            r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":"adaptive"}]}"#,
        ),
    ] {
        let body = Bytes::from_static(body.as_bytes());
        let fitted = within_capabilities(
            format,
            body.clone(),
            &least(),
            ModelReasoning::default(),
            false,
            Strict(&[]),
        )
        .unwrap();
        assert_eq!(fitted.body.as_ptr(), body.as_ptr(), "{format}");
        assert_eq!(fitted.dropped, [""; 0]);
    }
    assert!(!lacks_any(Format::Chat, &Capabilities::default(), false));
    assert!(lacks_any(Format::Chat, &Capabilities::default(), true));
    assert!(!lacks_any(Format::Messages, &Capabilities::default(), true));
}

#[test]
fn everything_but_what_changes_stays_as_it_was_written() {
    let body = r#"{ "top_k" : 5, "messages" : [ {"role":"d\u0065veloper", "content":"a\u00e9"} ] , "temperature" : 1.0e0, "metadata":{"a":1} }"#;
    let expected =
        r#"{ "messages" : [ {"role":"system", "content":"a\u00e9"} ] , "temperature" : 1.0e0 }"#;
    let fitted = fit(Format::Chat, &least(), body).unwrap();
    assert_eq!(fitted.body, expected.as_bytes());
    assert_eq!(fitted.dropped, ["top_k", "metadata"]);
}

#[test]
fn chat_fits_what_its_provider_accepts() {
    let body = json!({
        "model": "m", "reasoning_effort": "high", "top_k": 4, "verbosity": "low",
        "safety_identifier": "u", "service_tier": "auto", "prompt_cache_key": null, "seed": 7,
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": [{"type": "text", "text": "c", "prompt_cache_breakpoint": {"mode": "explicit"}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "d"}], "tool_calls": []},
            {"role": "tool", "tool_call_id": "t", "content": [{"type": "text", "text": "e"}, {"type": "text", "text": "f"}]},
        ],
    });
    let (sent, dropped) = sent(Format::Chat, &least(), &body);
    let expected = json!({
        "model": "m", "reasoning_effort": "none", "user": "u", "seed": 7,
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [
            {"role": "system", "content": "a\n\n\nb"},
            {"role": "user", "content": [{"type": "text", "text": "c"}]},
            {"role": "assistant", "content": "d", "tool_calls": []},
            {"role": "tool", "tool_call_id": "t", "content": "e\nf"},
        ],
    });
    assert_eq!(sent, expected);
    let left_out = [
        "reasoning_effort",
        "top_k",
        "verbosity",
        "messages[].content[].prompt_cache_breakpoint",
    ];
    assert_eq!(dropped, left_out);
    let body = json!({"model": "m", "moderation": {}, "messages": []});
    let refusal = fit(Format::Chat, &least(), &body.to_string()).unwrap_err();
    assert_eq!(refusal.path, "moderation");
}

#[test]
fn ids_of_calls_are_shortened_where_the_provider_takes_short_ones_alone() {
    let can = Capabilities {
        chat: ChatCapabilities {
            short_call_ids: true,
            ..ChatCapabilities::ALL
        },
        ..Capabilities::default()
    };
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "Seen."});
    let body = |ids: [&str; 3]| {
        json!({"model": "m", "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "tool_calls": ids.map(call), "content": null},
            result(ids[2]), result(ids[0]), result(ids[1]),
        ]})
    };
    let own = ["D681PevKs", "012345678", "abcdefghi"];
    assert_eq!(sent(Format::Chat, &can, &body(own)), (body(own), vec![]));
    let (found, dropped) = sent(
        Format::Chat,
        &can,
        &body(["call_PTLP8xhu3uwZk4l3nlnrrJha", "D681PevKs", "call_\u{e9}"]),
    );
    let id = |at: usize| {
        found["messages"][1]["tool_calls"][at]["id"]
            .as_str()
            .unwrap()
    };
    let ids = [id(0), id(1), id(2)];
    for id in ids {
        let is_short = id.len() == 9 && id.bytes().all(|it| it.is_ascii_alphanumeric());
        assert!(is_short, "{found}");
    }
    assert_ne!(ids[0], ids[2]);
    assert_eq!((&found, ids[1], dropped), (&body(ids), "D681PevKs", vec![]));
}

/// Some models refuse tools if they may reason.
#[test]
fn a_model_that_reasons_gets_no_effort_beside_tools() {
    use ReasoningMode::{Adaptive, ProviderDefault};
    let can = Capabilities {
        chat: ChatCapabilities {
            effort_with_tools: false,
            ..ChatCapabilities::ALL
        },
        ..Capabilities::default()
    };
    let absent = json!({});
    let none = json!({"reasoning_effort": "none"});
    let high = json!({"reasoning_effort": "high"});
    let null = json!({"reasoning_effort": null});
    let without_none: &[Effort] = &[Effort::Low, Effort::High];
    let with_none: &[Effort] = &[Effort::None, Effort::High];
    for (mode, efforts, asked, sent, is_dropped) in [
        (ProviderDefault, &[] as &[Effort], &absent, &absent, false),
        (ProviderDefault, &[], &high, &none, true),
        (ProviderDefault, with_none, &absent, &absent, false),
        (ProviderDefault, with_none, &high, &none, true),
        (ProviderDefault, without_none, &absent, &absent, false),
        (ProviderDefault, without_none, &high, &absent, true),
        (ProviderDefault, without_none, &none, &absent, true),
        (Adaptive, &[], &absent, &none, false),
        (Adaptive, &[], &null, &none, false),
        (Adaptive, &[], &none, &none, false),
    ] {
        let with = |effort: &Json, tools: Json| {
            let mut body = json!({"model": "m", "tools": tools, "messages": []});
            let members = effort.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(members);
            body
        };
        let reasoning = ModelReasoning { mode, efforts };
        let fit = |body: &Json| {
            let body = Bytes::from(body.to_string());
            within_capabilities(Format::Chat, body, &can, reasoning, false, Strict(&[])).unwrap()
        };
        let case = format!("{mode:?} {efforts:?} {asked}");
        let tool = json!([{"type": "function", "function": {"name": "f"}}]);
        let fitted = fit(&with(asked, tool.clone()));
        let found: Json = serde_json::from_slice(&fitted.body).unwrap();
        assert_eq!(found, with(sent, tool), "{case}");
        assert_eq!(fitted.dropped.len(), usize::from(is_dropped), "{case}");
        let without = with(asked, json!([]));
        assert_eq!(fit(&without).body, without.to_string(), "{case}");
    }
}

#[test]
fn more_stop_sequences_than_the_provider_accepts_are_refused_by_name() {
    let can = Capabilities {
        max_stop_sequences: Some(2),
        ..Capabilities::default()
    };
    for (format, path, body) in [
        (Format::Chat, "stop", json!({"stop": ["a", "b", "c"]})),
        (
            Format::Messages,
            "stop_sequences",
            json!({"stop_sequences": ["a", "b", "c"]}),
        ),
        (
            Format::Gemini,
            "generationConfig.stopSequences",
            json!({"generationConfig": {"stopSequences": ["a", "b", "c"]}}),
        ),
        (
            Format::Gemini,
            "generationConfig.stopSequences",
            json!({"generation_config": {"stop_sequences": ["a", "b", "c"]}}),
        ),
    ] {
        let refusal = fit(format, &can, &body.to_string()).unwrap_err();
        assert_eq!(refusal.path, path);
        assert!(refusal.message.contains("at most 2"), "{refusal}");
        let fewer = body.to_string().replace(r#","c""#, "");
        assert_eq!(fit(format, &can, &fewer).unwrap().body, fewer);
        assert!(fit(format, &Capabilities::default(), &body.to_string()).is_ok());
    }
    let one = json!({"stop": "a"}).to_string();
    assert!(fit(Format::Chat, &can, &one).is_ok());
    let none = Capabilities {
        max_stop_sequences: Some(0),
        ..can
    };
    let refusal = fit(Format::Chat, &none, &one).unwrap_err();
    assert!(refusal.message.contains("leave it out"), "{refusal}");
    for without in [json!({"stop": null}), json!({"stop": []})] {
        assert!(fit(Format::Chat, &none, &without.to_string()).is_ok());
    }
}

#[test]
fn fields_that_the_provider_refuses_are_left_out_with_notice() {
    let refused = ["seed", "user", "logprobs"].map(str::to_owned);
    let body = r#"{"seed":7,"user":null,"model":"m","messages":[{"user":"seed"}]}"#;
    let without = |body: &str, strict: &[String]| {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let (rest, dropped) = without_refused(body, &refused, Strict(strict))?;
        let dropped: Vec<_> = dropped.into_iter().map(str::to_owned).collect();
        Ok::<_, Refusal>((String::from_utf8(rest.to_vec()).unwrap(), dropped))
    };
    let (rest, dropped) = without(body, &[]).unwrap();
    assert_eq!(rest, r#"{"model":"m","messages":[{"user":"seed"}]}"#);
    assert_eq!(dropped, ["seed"]);
    assert_eq!(without(&rest, &[]).unwrap(), (rest.clone(), Vec::new()));
    let refusal = without(body, &["seed".to_owned()]).unwrap_err();
    assert_eq!(refusal.path, "seed");
}

#[test]
fn a_later_instruction_becomes_a_reminder_of_the_user() {
    let mut can = Capabilities::default();
    can.chat.system_in_the_middle = false;
    let body = json!({"messages": [
        {"role": "system", "content": "a"}, {"role": "developer", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "d\""},
        {"role": "developer", "content": [{"type": "text", "text": "e"}, {"type": "text", "text": "f"}]},
    ]});
    let (sent, dropped) = sent(Format::Chat, &can, &body);
    let expected = json!({"messages": [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": "c"},
        {"role": "user", "content": "<system-reminder>\nd\"\n</system-reminder>"},
        {"role": "user", "content": "<system-reminder>\ne\n\nf\n</system-reminder>"},
    ]});
    assert_eq!((sent, dropped), (expected, vec![]));
}

#[test]
fn the_first_instructions_become_one_message() {
    let mut can = Capabilities::default();
    can.chat.system_in_the_middle = false;
    let text = |text: &str| json!({"type": "text", "text": text});
    let marked =
        json!({"type": "text", "text": "c", "prompt_cache_breakpoint": {"mode": "explicit"}});
    let go = json!({"role": "user", "content": "Go."});
    let one = json!({"role": "developer", "content": [text("a"), text("b")]});
    let two = json!({"role": "developer", "name": "n", "content": [marked, text("")]});
    let body = json!({"messages": [one, two, go]});
    let (fitted, dropped) = sent(Format::Chat, &can, &body);
    let joined = json!({"role": "developer", "content": "a\n\nb\n\nc"});
    assert_eq!(fitted, json!({"messages": [joined, go]}));
    let left_out = [
        "messages[].name",
        "messages[].content[].prompt_cache_breakpoint",
    ];
    assert_eq!(dropped, left_out);
    can.chat.developer_role = false;
    let body = json!({"messages": [one, {"role": "system", "content": "\n"}]});
    let (fitted, _) = sent(Format::Chat, &can, &body);
    let joined = json!({"role": "system", "content": "a\n\nb"});
    assert_eq!(fitted, json!({"messages": [joined]}));
    // Such a message is not joined.
    let image =
        json!({"role": "system", "content": [{"type": "image_url", "image_url": {"url": "u"}}]});
    let body = json!({"messages": [{"role": "system", "content": "a"}, image, go]});
    assert_eq!(sent(Format::Chat, &can, &body).0, body);
}

#[test]
fn texts_of_an_answer_are_pieces_of_one() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let pieces = json!([text("The capital is "), text("Par"), text("is.")]);
    let body = json!({"messages": [{"role": "assistant", "content": pieces}]});
    let (fitted, _) = sent(Format::Chat, &least(), &body);
    let answer = json!({"role": "assistant", "content": "The capital is Paris."});
    assert_eq!(fitted, json!({"messages": [answer]}));
}

#[test]
fn responses_fits_what_its_provider_accepts() {
    let mark = json!({"mode": "explicit"});
    let body = json!({"model": "m", "include": ["a", "reasoning.encrypted_content"], "input": [
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"role": "user", "content": [{"type": "input_text", "text": "b", "prompt_cache_breakpoint": mark}]},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"prompt_cache_breakpoint": mark, "type": "input_text", "text": "d"}]},
    ]});
    let (sent, dropped) = sent(Format::Responses, &least(), &body);
    let expected = json!({"model": "m", "include": ["a"], "input": [
        {"type": "reasoning", "summary": []},
        {"role": "user", "content": [{"type": "input_text", "text": "b"}]},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "d"}]},
    ]});
    assert_eq!(sent, expected);
    let left_out = [
        "include",
        "input[].encrypted_content",
        "input[].content[].prompt_cache_breakpoint",
        "input[].output[].prompt_cache_breakpoint",
    ];
    assert_eq!(dropped, left_out);
}

#[test]
fn messages_fits_what_its_provider_accepts() {
    let mark = json!({"type": "ephemeral"});
    let body = json!({"model": "m", "max_tokens": 20000, "cache_control": mark,
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"},
        "system": [{"type": "text", "text": "s", "cache_control": mark}],
        "tools": [{"name": "t", "cache_control": mark, "input_schema": {}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "cache_control": mark,
                 "content": [{"type": "text", "text": "b", "cache_control": mark}]}]},
            {"role": "system", "content": "c"},
            {"role": "system", "content": [{"type": "text", "text": "d", "cache_control": mark}]},
        ],
    });
    let (fitted, dropped) = sent(Format::Messages, &least(), &body);
    let text = |text: &str| json!({"type": "text", "text": text});
    let expected = json!({"model": "m", "max_tokens": 20000,
        "thinking": {"type": "enabled", "budget_tokens": 8192},
        "system": [text("s")], "tools": [{"name": "t", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("b")]}]},
            {"role": "user", "content": "<system-reminder>\nc\n</system-reminder>"},
            {"role": "user", "content": [text("<system-reminder>"), text("d"), text("</system-reminder>")]},
        ],
    });
    assert_eq!(fitted, expected);
    let left_out = [
        "cache_control",
        "system[].cache_control",
        "tools[].cache_control",
        "messages[].content[].content[].cache_control",
        "messages[].content[].cache_control",
    ];
    assert_eq!(dropped.len(), left_out.len(), "{dropped:?}");
    assert!(
        left_out.iter().all(|path| dropped.contains(path)),
        "{dropped:?}"
    );

    for thinking in ["disabled", "adaptive"] {
        let body = json!({"max_tokens": 100, "thinking": {"type": thinking}, "messages": []});
        let (fitted, dropped) = sent(Format::Messages, &least(), &body);
        assert_eq!(
            fitted,
            json!({"max_tokens": 100, "messages": []}),
            "{thinking}"
        );
        assert_eq!(dropped, ["thinking"]);
    }
    let body = json!({"max_tokens": 9, "output_config": {"format": {"type": "json_schema"}}, "messages": []});
    let refusal = fit(Format::Messages, &least(), &body.to_string()).unwrap_err();
    assert_eq!(refusal.path, "output_config.format");
}

#[test]
fn adaptive_thinking_is_not_enabled_where_an_answer_goes_on_without_its_thought() {
    let call = json!({"type": "tool_use", "id": "a", "name": "b", "input": {}});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]});
    let body = |blocks: Json| {
        json!({"max_tokens": 20000, "thinking": {"type": "adaptive"},
            "messages": [{"role": "assistant", "content": blocks}, result]})
    };
    let (fitted, dropped) = sent(Format::Messages, &least(), &body(json!([call])));
    assert_eq!(fitted.get("thinking"), None, "{fitted}");
    assert_eq!(dropped, ["thinking"]);
    let thought = json!({"type": "thinking", "thinking": "", "signature": "EqQB"});
    let (fitted, dropped) = sent(Format::Messages, &least(), &body(json!([thought, call])));
    assert_eq!(fitted["thinking"]["type"], "enabled", "{fitted}");
    assert_eq!(dropped, [""; 0]);
}

#[test]
fn a_field_that_must_not_be_dropped_is_refused() {
    let body = Bytes::from_static(br#"{"top_k":1,"messages":[]}"#);
    let strict = ["top_k".to_owned()];
    let can = Capabilities::default();
    let unknown = ModelReasoning::default();
    let fitted = within_capabilities(Format::Chat, body, &can, unknown, true, Strict(&strict));
    let refusal = fitted.unwrap_err();
    assert_eq!(refusal.path, "top_k");
    assert!(refusal.message.contains("translation.strict"), "{refusal}");
}

#[test]
fn only_tools_of_free_text_need_a_translation() {
    let needs = |body: &Json, can: &Capabilities| {
        needs_custom_tools(Format::Chat, body.to_string().as_bytes(), can)
    };
    let tool = json!({"tools": [{"type": "custom", "custom": {"name": "a"}}]});
    let call = json!({"messages": [{"role": "assistant", "tool_calls": [{"type": "custom"}]}]});
    let word = json!({"messages": [{"role": "user", "content": "custom"}]});
    assert!(needs(&tool, &least()) && needs(&call, &least()));
    assert!(!needs(&word, &least()));
    assert!(!needs(&tool, &Capabilities::default()));
}
