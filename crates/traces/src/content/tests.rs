use super::*;
use serde_json::json;

fn writer(max_bytes: u64, redact: &[&str]) -> Writer {
    let redact: Vec<_> = redact.iter().map(|it| (*it).to_owned()).collect();
    Writer {
        redaction: Redaction::of(&redact).unwrap(),
        most: usize::try_from(max_bytes).unwrap(),
    }
}

fn prompt(body: &Value) -> (Vec<Value>, Vec<Value>) {
    let prompt = messages::prompt(body.to_string().as_bytes());
    (prompt.instructions, prompt.messages)
}

fn text(content: &str) -> Value {
    json!({"type": "text", "content": content})
}

fn call(arguments: &Value) -> Value {
    json!({"type": "tool_call", "id": "c1", "name": "find", "arguments": arguments})
}

/// One conversation in each format: instructions, a question with a picture, a call and its result.
#[test]
fn a_prompt_in_any_format_becomes_roles_and_parts() {
    let arguments = json!({"what": "sea"});
    let as_text = arguments.to_string();
    let chat = json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "Look."},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]},
        {"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": as_text}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "blue"},
    ]});
    let responses = json!({"instructions": "Be brief.", "input": [
        {"role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "image_url", "image_url": "data:image/png;base64,AAAA"},
        ]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "x"},
        {"type": "function_call", "id": "f1", "call_id": "c1", "name": "find", "arguments": as_text},
        {"type": "function_call_output", "call_id": "c1", "output": "blue"},
    ]});
    let messages = json!({"system": [{"type": "text", "text": "Be brief."}], "messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "Look."},
            {"type": "image_url", "source": {"type": "base64", "data": "AAAA"}},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "tool_use", "id": "c1", "name": "find", "input": arguments},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "blue"},
        ]},
    ]});
    let gemini = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            ]},
            {"role": "model", "parts": [
                {"text": "Hm.", "thought": true},
                {"functionCall": {"id": "c1", "name": "find", "args": arguments}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "c1", "name": "find", "response": {"result": "blue"}}},
            ]},
        ],
    });
    for body in [chat, responses, messages, gemini] {
        let (instructions, conversation) = prompt(&body);
        let mut parts: Vec<_> = instructions;
        for message in &conversation {
            let of_message = message["parts"].as_array().unwrap().iter();
            parts.extend(of_message.cloned());
        }
        let all = Value::from(parts.clone()).to_string();
        assert!(!all.contains("AAAA") && !all.contains("encrypted"), "{all}");
        let [instructions, question, picture, thought, called, result] = &parts[..] else {
            panic!("{body}: {all}");
        };
        assert_eq!(*instructions, text("Be brief."), "{body}");
        assert_eq!(*question, text("Look."), "{body}");
        assert!(picture.get("content").is_none(), "{body}: {picture}");
        assert_eq!(
            *thought,
            json!({"type": "reasoning", "content": "Hm."}),
            "{body}"
        );
        assert_eq!(*called, call(&arguments), "{body}");
        assert_eq!(result["type"], "tool_call_response", "{body}");
        assert_eq!(result["id"], "c1", "{body}");
        assert!(
            result["response"].to_string().contains("blue"),
            "{body}: {result}"
        );
        let roles = conversation.iter().map(|it| it["role"].as_str().unwrap());
        let roles: BTreeSet<_> = roles.collect();
        assert!(
            roles.contains("user") && roles.contains("assistant"),
            "{body}: {roles:?}"
        );
        assert!(!roles.contains("model"), "{body}: {roles:?}");
    }
    let (_, conversation) = prompt(&json!({"input": "Hello"}));
    assert_eq!(
        conversation,
        [json!({"role": "user", "parts": [text("Hello")]})]
    );
}

#[test]
fn an_answer_in_any_format_becomes_one_message() {
    let arguments = json!({"what": "sea"});
    let as_text = arguments.to_string();
    for body in [
        json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "reasoning_content": "Hm.", "content": "Well.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": as_text}}],
        }}]}),
        json!({"object": "response", "status": "completed", "output": [
            {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [
                {"type": "output_text", "text": "Well.", "annotations": []},
            ]},
            {"type": "function_call", "id": "f1", "call_id": "c1", "name": "find", "arguments": as_text},
        ]}),
        json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "Well."},
            {"type": "tool_use", "id": "c1", "name": "find", "input": arguments},
        ]}),
        json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "Hm.", "thought": true},
            {"text": "Well."},
            {"functionCall": {"id": "c1", "name": "find", "args": arguments}},
        ]}}]}),
    ] {
        let answer = messages::answer(body.to_string().as_bytes(), false);
        let [message] = &answer[..] else {
            panic!("{body}: {answer:?}");
        };
        let parts =
            json!([{"type": "reasoning", "content": "Hm."}, text("Well."), call(&arguments)]);
        assert_eq!(message["parts"], parts, "{body}");
        assert!(
            message["finish_reason"]
                .as_str()
                .is_some_and(|it| !it.is_empty()),
            "{body}"
        );
    }
    for body in [
        "",
        "no JSON",
        "{\"error\":{\"message\":\"secret\"}}",
        "{\"input_tokens\":3}",
    ] {
        assert_eq!(
            messages::answer(body.as_bytes(), false),
            [] as [Value; 0],
            "{body}"
        );
    }
}

#[test]
fn the_events_of_a_stream_become_one_message_also_if_its_end_is_missing() {
    let arguments = json!({"what": "sea"});
    let chat = [
        json!({"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "H"}}]}),
        json!({"choices": [{"index": 0, "delta": {"reasoning_content": "m!"}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": "We"}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": "ll!"}}]}),
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "find", "arguments": ""}}]}}]}),
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\"what\":"}}]}}]}),
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "\"sea\"}"}}]}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ];
    let responses = [
        json!({"type": "response.created", "response": {"status": "in_progress", "output": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm! Wh"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "We"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "ll! It"}),
        json!({"type": "response.output_text.done", "output_index": 1, "text": "Well! It"}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "id": "f1", "call_id": "c1", "name": "find", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": arguments.to_string()}),
    ];
    let messages = [
        json!({"type": "message_start", "message": {"role": "assistant", "content": []}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm!"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "x"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Well!"}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "c1", "name": "find", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": arguments.to_string()}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
    ];
    let gemini = [
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hm!", "thought": true}]}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "We"}]}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "ll!"}]}}]}),
        json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [{"functionCall": {"id": "c1", "name": "find", "args": arguments}}]}}]}),
    ];
    let parts = json!([{"type": "reasoning", "content": "Hm!"}, text("Well!"), call(&arguments)]);
    for events in [&chat[..], &responses, &messages, &gemini] {
        let stream: String = events
            .iter()
            .map(|it| format!("event: x\ndata: {it}\n\n"))
            .collect();
        let answer = messages::answer(stream.as_bytes(), false);
        assert_eq!(answer.len(), 1, "{stream}");
        assert_eq!(answer[0]["parts"], parts, "{stream}");
    }
    // The last event of this format repeats everything.
    let whole = json!({"type": "response.completed", "response": {"status": "completed", "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "Well!"}]},
    ]}});
    let stream = format!("data: {}\n\ndata: {whole}\n\n", responses[2]);
    let answer = messages::answer(stream.as_bytes(), false);
    assert_eq!(
        answer,
        [json!({"role": "assistant", "parts": [text("Well!")], "finish_reason": "completed"})]
    );
}

#[test]
fn a_stream_of_many_parts_is_read_in_bounded_time() {
    const MANY: usize = 200_000;
    let event = |index| json!({"choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": "stop"}]});
    let events = (0..MANY).map(|index| format!("data: {}\n\n", event(index)));
    let stream: String = events.collect();
    let begun = std::time::Instant::now();
    let answer = messages::answer(stream.as_bytes(), false);
    assert_eq!(answer.len(), MANY);
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

/// A secret can be cut in two, and its first half has no pattern.
#[test]
fn the_ends_of_an_answer_that_breaks_off_are_left_out() {
    let stream = |deltas: &[Value], end: &str| {
        let event = |delta| format!("data: {}\n\n", json!({"choices": [delta]}));
        deltas.iter().map(event).collect::<String>() + end
    };
    let says = |choice: u8, name: &str, words: &str, stop: Option<&str>| json!({"index": choice, "delta": {name: words}, "finish_reason": stop});
    let parts = |stream: &str, lacks_end| {
        let answer = messages::answer(stream.as_bytes(), lacks_end);
        let parts = answer.iter().map(|message| message["parts"].clone());
        parts.collect::<Vec<_>>()
    };
    let reasoning = |content: &str| json!({"type": "reasoning", "content": content});
    let said = "Mine is 4111 1111 1111 11";
    let begun = [
        says(0, "reasoning", "Ask ada.lovelace@exam", None),
        says(0, "content", said, None),
        says(1, "content", "Call +49 (30) 1234-5", None),
    ];
    let expected = [
        json!([reasoning("Ask"), text("Mine is")]),
        json!([text("Call")]),
    ];
    let broken = stream(
        &begun,
        "data: {\"error\":{\"code\":\"upstream_error\"}}\n\n",
    );
    assert_eq!(parts(&broken, false), expected);
    assert_eq!(parts(&stream(&begun, "data: {\"cho"), true), expected);
    for (stop, expected) in [
        ("stop", said),
        ("length", "Mine is"),
        ("content_filter", "Mine is"),
    ] {
        let ended = stream(&[says(0, "content", said, Some(stop))], "data: [DONE]\n\n");
        assert_eq!(parts(&ended, false), [json!([text(expected)])], "{stop}");
        let choice = json!({"message": {"content": said}, "finish_reason": stop});
        let whole = json!({"choices": [choice]}).to_string();
        assert_eq!(parts(&whole, false), [json!([text(expected)])], "{stop}");
    }
    let arguments = json!({"partial_json": "{\"card\": \"4111 1111 11"});
    let call = [
        json!({"index": 0, "content_block": {"type": "tool_use", "id": "c1", "name": "find"}}),
        json!({"index": 0, "delta": arguments}),
    ];
    let call: String = call.iter().map(|it| format!("data: {it}\n\n")).collect();
    assert_eq!(parts(&call, false)[0][0]["arguments"], "{\"card\": \"");
}

#[test]
fn secrets_and_personal_data_are_redacted_and_other_text_is_not() {
    let redaction = writer(0, &["Project \\w+"]).redaction;
    let redacted = |text: &str| {
        let mut value = json!({"parts": [{"content": text}]});
        redaction.apply(&mut value);
        value["parts"][0]["content"].as_str().unwrap().to_owned()
    };
    for secret in [
        "ada.lovelace+x@mail.example.org",
        "jürgen@exämple.de",
        "sk-abcdefghijklmnop1234",
        "sk-proj-abc_defghijklmnop-1234",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-1234567890abcdefghijklmnopqrst",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "Bearer abcdef0123456789",
        "Basic YWRhOmxvdmVsYWNl",
        "basic dXNlcjpwYXNzd29yZA==",
        "4111 1111 1111 1111",
        "4111  1111  1111  1111",
        "4111\u{a0}1111\u{a0}1111\u{a0}1111",
        "4111.1111.1111.1111",
        "3782.822463.10005",
        "4111-1111-1111-1111",
        "DE89 3704 0044 0532 0130 00",
        "GB29NWBK60161331926819",
        "+49 (30) 1234-5678",
        "(555) 123-4567",
        "555-123-4567",
        "030 12345678",
        "0151/12345678",
        "020 7946 0958",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
        "Project Manhattan",
    ] {
        let found = redacted(&format!("before {secret} after"));
        assert_eq!(found, "before [redacted] after", "{secret}");
    }
    let address = redacted("see postgres://ada:secret-word@db.example/x");
    assert!(!address.contains("secret-word"), "{address}");
    let unended = redacted("-----BEGIN PRIVATE KEY-----\nMIIEabc");
    assert_eq!(unended, "[redacted]");
    for plain in [
        "On 2026-11-27 at 08:55:12 it cost 1,234.50 or 12 345 678.",
        "The skies are blue; ask @home about skill-building.",
        "https://example.org/path?x=1#y",
        "A basic understanding of basic JavaScript, at 192.168.100.101.",
        "123.456789 and 1 050 000 000 on 01-02-2026",
        "fn main() { println!(\"{}\", 0x1234_5678); }",
    ] {
        assert_eq!(redacted(plain), plain);
    }
    let data = redacted(&format!("data:image/png;base64,{} end", "A".repeat(5000)));
    assert_eq!(data, "[5022 bytes] end");
    let mut arguments = json!({"ada@example.org": 4_111_111_111_111_111_u64, "n": 7});
    redaction.apply(&mut arguments);
    assert_eq!(arguments, json!({"[redacted]": "[redacted]", "n": 7}));
}

#[test]
fn of_a_long_prompt_the_last_messages_are_exported_and_one_that_is_too_long_is_cut() {
    let message = |content: &str| json!({"role": "user", "parts": [text(content)]});
    let messages: Vec<_> = (0..100)
        .map(|it| message(&format!("message {it}")))
        .collect();
    let (all, is_shortened) = writer(1 << 20, &[]).fit(messages.clone());
    assert!(!is_shortened);
    assert_eq!(serde_json::from_str::<Vec<Value>>(&all).unwrap(), messages);
    let (last, is_shortened) = writer(1024, &[]).fit(messages);
    assert!(is_shortened && last.len() < 1200, "{last}");
    assert!(
        last.contains("message 99") && !last.contains("message 50"),
        "{last}"
    );
    let (cut, is_shortened) = writer(1024, &[]).fit(vec![message(&"ü \"x\" ".repeat(5000))]);
    assert!(
        is_shortened && (256..1200).contains(&cut.len()),
        "{}",
        cut.len()
    );
    serde_json::from_str::<Vec<Value>>(&cut).unwrap();
    // Nothing is cut before it is redacted.
    let secret = format!("{}ada@example.org", "word ".repeat(140));
    let (cut, _) = writer(1024, &[]).fit(vec![message(&secret.repeat(9))]);
    assert!(!cut.contains("ada"), "{cut}");
}

fn keeping() -> Keeping {
    Keeping::of(&ContentSettings {
        keys: vec!["key_1".to_owned()],
        redact: Vec::new(),
        max_bytes: tollgate_settings::ByteSize::new(1024),
    })
}

#[test]
fn kept_bodies_are_bounded_one_by_one_and_all_together() {
    let keeping = keeping();
    assert!(keeping.body("key_2").is_none());
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let mut bodies = Vec::new();
    for _ in 0..32 {
        let mut body = keeping.body("key_1").unwrap();
        (0..10).for_each(|_| body.add(&piece));
        assert!(
            body.is_incomplete && body.bytes <= MOST_OF_BODY,
            "{}",
            body.bytes
        );
        bodies.push(body);
    }
    let kept = || keeping.kept.load(Ordering::Relaxed);
    assert!(
        kept() <= MOST_OF_ALL && kept() > MOST_OF_ALL / 2,
        "{}",
        kept()
    );
    bodies[0].clear();
    drop(bodies);
    assert_eq!(kept(), 0);
}

/// The owner of a large piece gives back the memory of its request.
#[test]
fn a_kept_body_does_not_hold_the_owner_of_a_large_piece() {
    let owner = Arc::new(vec![b'x'; LONGEST_SHARED + 1]);
    let piece = Bytes::from_owner(Shared(Arc::clone(&owner)));
    let mut body = keeping().body("key_1").unwrap();
    body.add(&piece);
    drop(piece);
    assert_eq!(Arc::strong_count(&owner), 1);
    assert_eq!(body.pieces.concat(), *owner);
}

struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
