//! Both halves together: a provider's answer goes to a caller of another format, the caller
//! sends it back with the next turn, and the provider finds its own words again.

use crate::support::{context, others, translate_body};
use serde_json::{Value, json};
use tollgate_translate::{Target, Translated, request};
use tollgate_types::Format;

/// A request of a caller that offers a tool and wants its reasoning back.
fn ask(caller: Format, turns: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    match caller {
        Format::Chat => json!({
            "model": "m", "messages": turns, "reasoning_effort": "high",
            "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": schema}}],
        }),
        Format::Responses => json!({
            "model": "m", "input": turns, "store": false,
            "reasoning": {"effort": "high", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "get_weather", "parameters": schema, "strict": false}],
        }),
        Format::Messages => json!({
            "model": "m", "messages": turns, "max_tokens": 20000,
            "thinking": {"type": "enabled", "budget_tokens": 4096},
            "tools": [{"name": "get_weather", "input_schema": schema}],
        }),
        Format::Gemini => {
            let content = |turn: &Value| match turn["content"].as_str() {
                Some(text) => json!({"role": "user", "parts": [{"text": text}]}),
                None => turn.clone(),
            };
            let turns: Vec<_> = turns.as_array().unwrap().iter().map(content).collect();
            json!({
                "contents": turns,
                "generationConfig": {"maxOutputTokens": 20000, "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 9000}},
                "tools": [{"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": schema}]}],
            })
        }
        Format::Converse => panic!("no client speaks it"),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// What the caller sends next: the question, the answer as it came, and the tool's result.
fn next_turns(caller: Format, answer: &Value) -> Value {
    let question = json!({"role": "user", "content": "The weather in Paris?"});
    match caller {
        Format::Chat => {
            let message = answer["choices"][0]["message"].clone();
            let id = &message["tool_calls"][0]["id"];
            json!([question, message, {"role": "tool", "tool_call_id": id, "content": "21 degrees"}])
        }
        Format::Responses => {
            let output = answer["output"].as_array().unwrap();
            let call = output
                .iter()
                .find(|item| item["type"] == "function_call")
                .unwrap();
            let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "21 degrees"});
            let mut turns = vec![question];
            turns.extend(output.iter().cloned());
            turns.push(result);
            json!(turns)
        }
        Format::Messages => {
            let content = answer["content"].as_array().unwrap();
            let call = content
                .iter()
                .find(|block| block["type"] == "tool_use")
                .unwrap();
            let result =
                json!({"type": "tool_result", "tool_use_id": call["id"], "content": "21 degrees"});
            json!([question, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}])
        }
        Format::Gemini => {
            let content = &answer["candidates"][0]["content"];
            // As Google's command line does, which keeps no thoughts.
            let parts = content["parts"].as_array().unwrap().iter();
            let parts: Vec<_> = parts.filter(|part| part["thought"] != true).collect();
            let call = parts.iter().find_map(|part| part.get("functionCall"));
            let result = json!({"functionResponse": {
                "id": call.unwrap()["id"], "name": "get_weather", "response": {"output": "21 degrees"},
            }});
            json!([question, {"role": "model", "parts": parts}, {"role": "user", "parts": [result]}])
        }
        Format::Converse => panic!("no client speaks it"),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// A provider's answer that thinks, speaks and calls.
fn native(provider: Format) -> Value {
    match provider {
        Format::Chat => {
            json!({"id": "c", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Let me look.", "reasoning_content": "Hm.",
            "tool_calls": [{"id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}}],
        }}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
        }
        Format::Responses => json!({"id": "resp_1", "status": "completed", "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAA_-=="},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "get_weather", "arguments": "{\"city\":\"Paris\"}", "status": "completed"},
        ], "usage": {"input_tokens": 3, "output_tokens": 2}}),
        Format::Messages => {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "EusB+/=="},
            {"type": "redacted_thinking", "data": "RW5j"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {"city": "Paris"}},
        ], "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2}})
        }
        Format::Converse => {
            json!({"output": {"message": {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "EusB+/=="}}},
            {"reasoningContent": {"redactedContent": "RW5j"}},
            {"text": "Let me look."},
            {"toolUse": {"toolUseId": "tooluse_a", "name": "get_weather", "input": {"city": "Paris"}}},
        ]}}, "stopReason": "tool_use", "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}})
        }
        Format::Gemini => {
            json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "Hm.", "thought": true},
            {"text": "Let me look."},
            {"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}, "thoughtSignature": "EusB+/=="},
        ]}}], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}})
        }
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// `backend`: the provider's name, or `provider/model`.
fn send(caller: Format, provider: Format, backend: &str, body: &Value) -> Translated {
    let usual = (backend, "upstream-model");
    let (backend, model) = backend.split_once('/').unwrap_or(usual);
    let mut target = Target::new(model, backend);
    // As some providers want it.
    target.chat.reasoning_content = true;
    match request(caller, provider, body.to_string().as_bytes(), &target) {
        Ok(translated) => translated,
        Err(refusal) => panic!("{caller} to {provider}: {refusal}\n{body}"),
    }
}

/// What the provider gets of its own answer, `again` being another provider's name or its own.
fn round(caller: Format, provider: Format, again: &str) -> Value {
    round_of(caller, provider, again, &native(provider))
}

fn round_of(caller: Format, provider: Format, again: &str, native: &Value) -> Value {
    let first = json!([{"role": "user", "content": "The weather in Paris?"}]);
    let notes = send(caller, provider, "north", &ask(caller, &first)).notes;
    let answer = translate_body(&notes, &native.to_string(), 100).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(context().created, 1_790_000_000);
    let next = ask(caller, &next_turns(caller, &answer));
    let sent = send(caller, provider, again, &next);
    serde_json::from_slice(&sent.body).unwrap()
}

#[test]
fn a_provider_finds_its_own_reasoning_and_calls_again() {
    for caller in others(Format::Messages) {
        let body = round(caller, Format::Messages, "north");
        let turns = body["messages"].as_array().unwrap();
        let own = &turns[1]["content"];
        let call = json!({"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {"city": "Paris"}});
        if caller != Format::Chat {
            let expected = json!([
                {"type": "thinking", "thinking": "Hm.", "signature": "EusB+/=="},
                {"type": "redacted_thinking", "data": "RW5j"},
                {"type": "text", "text": "Let me look."},
                call,
            ]);
            assert_eq!(*own, expected, "{body}");
        } else {
            // Chat hands out no state, so that none can come back.
            assert_eq!(
                *own,
                json!([{"type": "text", "text": "Let me look."}, call]),
                "{body}"
            );
        }
        assert_eq!(turns[2]["content"][0]["tool_use_id"], "toolu_a");
    }
    let body = round(Format::Messages, Format::Responses, "north");
    let input = body["input"].as_array().unwrap();
    let reasoning = input
        .iter()
        .find(|item| item["type"] == "reasoning")
        .unwrap();
    let expected = json!({
        "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA_-==",
        "summary": [{"type": "summary_text", "text": "Hm."}],
    });
    assert_eq!(*reasoning, expected, "{body}");
    let call = input
        .iter()
        .find(|item| item["type"] == "function_call")
        .unwrap();
    assert_eq!(
        (&call["call_id"], &call["name"]),
        (&json!("call_a"), &json!("get_weather"))
    );
}

#[test]
fn another_provider_gets_neither_the_reasoning_nor_a_word_of_it() {
    for provider in Format::OF_CONVERSATIONS {
        for caller in others(provider) {
            let body = round(caller, provider, "south").to_string();
            for word in ["Hm.", "EusB", "RW5j", "gAAA", "tg1."] {
                assert!(
                    !body.contains(word),
                    "{caller} to {provider}: {word} in {body}"
                );
            }
            assert!(body.contains("Let me look."), "{body}");
        }
    }
}

#[test]
fn a_model_of_converse_finds_its_own_reasoning_again() {
    for caller in others(Format::Converse) {
        for again in ["north", "north/another-model", "south"] {
            let body = round(caller, Format::Converse, again);
            let [_, answer, results] = &*body["messages"].as_array().unwrap().clone() else {
                panic!("{caller}: {body}");
            };
            let text = json!({"text": "Let me look."});
            let call = json!({"toolUse": {"toolUseId": "tooluse_a", "name": "get_weather", "input": {"city": "Paris"}}});
            let signed = json!({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "EusB+/=="}}});
            let redacted = json!({"reasoningContent": {"redactedContent": "RW5j"}});
            // Chat clients have no place for seals.
            let expected = match caller != Format::Chat && again == "north" {
                true => json!([signed, redacted, text, call]),
                false => json!([text, call]),
            };
            assert_eq!(answer["content"], expected, "{caller}: {body}");
            let result = json!([{"toolResult": {"toolUseId": "tooluse_a", "content": [{"text": "21 degrees"}]}}]);
            assert_eq!(results["content"], result, "{caller}: {body}");
        }
    }
}

#[test]
fn a_gemini_model_finds_its_own_signature_on_its_call_again() {
    const NONE: &str = "skip_thought_signature_validator";
    for caller in others(Format::Gemini) {
        for (again, expected) in [
            ("north", "EusB+/=="),
            ("north/another-model", NONE),
            ("south", NONE),
        ] {
            // Chat clients have no place for seals.
            let expected = match caller {
                Format::Chat => NONE,
                _ => expected,
            };
            let body = round(caller, Format::Gemini, again);
            let [_, answer, results] = &*body["contents"].as_array().unwrap().clone() else {
                panic!("{caller}: {body}");
            };
            let [text, call] = &*answer["parts"].as_array().unwrap().clone() else {
                panic!("{caller}: {body}");
            };
            assert_eq!(text["text"], "Let me look.");
            assert_eq!(call["thoughtSignature"], expected, "{caller}: {body}");
            let result = &results["parts"][0]["functionResponse"];
            assert_eq!(result["id"], call["functionCall"]["id"], "{body}");
            assert_eq!(result["name"], "get_weather", "{body}");
            assert_eq!(result["response"], json!({"output": "21 degrees"}));
        }
    }
}

#[test]
fn a_chat_provider_finds_its_own_reasoning_again() {
    for caller in others(Format::Chat) {
        let mut signed = native(Format::Chat);
        let message = &mut signed["choices"][0]["message"];
        message["reasoning_details"] = json!([
            {"type": "reasoning.text", "text": "Hm.", "format": "anthropic-claude-v1", "index": 0},
            {"type": "reasoning.text", "signature": "EusB+/==", "format": "anthropic-claude-v1", "index": 0},
        ]);
        let body = round_of(caller, Format::Chat, "north", &signed);
        let own = &body["messages"][1];
        assert_eq!(own["reasoning_content"], "Hm.", "{caller}: {body}");
        let expected = json!([{
            "type": "reasoning.text", "text": "Hm.", "signature": "EusB+/==",
            "format": "anthropic-claude-v1", "index": 0,
        }]);
        assert_eq!(own["reasoning_details"], expected, "{caller}: {body}");
    }
    for caller in others(Format::Chat) {
        let body = round(caller, Format::Chat, "north");
        assert_eq!(body["messages"][1]["reasoning_content"], "Hm.", "{body}");
    }
}

#[test]
fn a_chat_provider_that_needs_its_reasoning_back_finds_it_for_callers_of_every_format() {
    let first = json!([{"role": "user", "content": "The weather in Paris?"}]);
    for thinking in [Value::Null, json!({"type": "disabled"})] {
        let mut question = ask(Format::Messages, &first);
        question["thinking"] = thinking;
        let notes = send(Format::Messages, Format::Chat, "north", &question).notes;
        let answer = translate_body(&notes, &native(Format::Chat).to_string(), 100).unwrap();
        assert!(!answer.contains("Hm."), "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let mut next = ask(Format::Messages, &next_turns(Format::Messages, &answer));
        next["thinking"] = question["thinking"].clone();
        let sent = send(Format::Messages, Format::Chat, "north", &next);
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        assert_eq!(body["messages"][1]["reasoning_content"], "Hm.", "{body}");
    }
    // One that does not want it back is asked for nothing.
    let mut question = ask(Format::Messages, &first);
    question["thinking"] = Value::Null;
    let target = Target::new("upstream-model", "north");
    let body = question.to_string();
    let notes = request(Format::Messages, Format::Chat, body.as_bytes(), &target);
    let answer = translate_body(
        &notes.unwrap().notes,
        &native(Format::Chat).to_string(),
        100,
    );
    let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
    assert_eq!(answer["content"][0]["type"], "text", "{answer}");
}

#[test]
fn a_chat_provider_finds_reasoning_again_that_its_caller_never_saw() {
    for caller in others(Format::Chat) {
        let first = json!([{"role": "user", "content": "The weather in Paris?"}]);
        let mut question = ask(caller, &first);
        match caller {
            Format::Responses => question["reasoning"] = json!({"effort": "high"}),
            Format::Gemini => {
                question["generationConfig"]["thinkingConfig"] = json!({"thinkingLevel": "high"});
            }
            _ => question["thinking"]["display"] = json!("omitted"),
        }
        let notes = send(caller, Format::Chat, "north", &question).notes;
        let mut native = native(Format::Chat);
        native["choices"][0]["message"]["reasoning_content"] = json!("\"Hm\",\nI say.");
        let answer = translate_body(&notes, &native.to_string(), 100).unwrap();
        assert!(!answer.contains("Hm"), "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let next = ask(caller, &next_turns(caller, &answer));
        // Another backend gets a blank, which it needs as much.
        for (backend, expected) in [("north", "\"Hm\",\nI say."), ("south", " ")] {
            let sent = send(caller, Format::Chat, backend, &next);
            let body: Value = serde_json::from_slice(&sent.body).unwrap();
            assert_eq!(body["messages"][1]["reasoning_content"], expected, "{body}");
        }
    }
}

#[test]
fn a_custom_tool_that_is_called_without_arguments_is_called_without_input() {
    let question = json!({
        "model": "m", "input": "Go on.", "store": false,
        "tools": [{"type": "custom", "name": "proceed"}],
    });
    let mut target = Target::new("upstream-model", "north");
    target.chat.custom_tools = false;
    let chat = |arguments: &str| {
        json!({"id": "c", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": null,
            "tool_calls": [{"id": "call_a", "type": "function", "function": {"name": "proceed", "arguments": arguments}}],
        }}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    };
    let messages = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_a", "name": "proceed", "input": {}},
    ], "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2}});
    for (provider, native) in [
        (Format::Chat, chat("")),
        (Format::Chat, chat("{}")),
        (Format::Chat, chat(" { } ")),
        (Format::Messages, messages),
    ] {
        let body = question.to_string();
        let sent = request(Format::Responses, provider, body.as_bytes(), &target).unwrap();
        let answer = translate_body(&sent.notes, &native.to_string(), 100).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let call = &answer["output"][0];
        assert_eq!(call["type"], "custom_tool_call", "{answer}");
        assert_eq!(
            (&call["name"], &call["input"]),
            (&json!("proceed"), &json!("")),
            "{answer}"
        );
    }
    for arguments in ["[]", "{\"text\":\"a\"}", "{"] {
        let body = question.to_string();
        let sent = request(Format::Responses, Format::Chat, body.as_bytes(), &target).unwrap();
        let answer = translate_body(&sent.notes, &chat(arguments).to_string(), 100);
        assert!(answer.is_err(), "{arguments}: {answer:?}");
    }
}
