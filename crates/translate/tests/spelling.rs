//! What asks for nothing passes, however it is written: JSON has many spellings of one value,
//! and what a gateway hands out comes back in those of the caller's language.

use tollgate_translate::{Target, request};
use tollgate_types::Format::{self, Chat, Converse, Gemini, Messages, Responses};

/// What becomes of a body: the fields that were dropped, or the refusal.
fn outcome(from: Format, to: Format, body: &str) -> Result<Vec<String>, String> {
    match request(from, to, body.as_bytes(), &Target::new("m", "backend")) {
        Ok(translated) => Ok(translated.dropped),
        Err(refusal) => Err(refusal.to_string()),
    }
}

fn assert_passes(from: Format, to: Format, body: &str) {
    let found = outcome(from, to, body);
    assert_eq!(found, Ok(Vec::new()), "{from} to {to}: {body}");
}

/// A body with one field more than it needs.
fn with(from: Format, field: &str) -> String {
    match from {
        Converse => {
            format!(r#"{{"messages":[{{"role":"user","content":[{{"text":"Hi."}}]}}],{field}}}"#)
        }
        Gemini => format!(r#"{{"contents":[{{"parts":[{{"text":"Hi."}}]}}],{field}}}"#),
        Chat => {
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"Hi."}}],{field}}}"#)
        }
        Responses => format!(r#"{{"model":"m","input":"Hi.",{field}}}"#),
        Messages => format!(
            r#"{{"model":"m","max_tokens":50,"messages":[{{"role":"user","content":"Hi."}}],{field}}}"#
        ),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

#[test]
fn a_call_of_a_tool_comes_back_in_any_spelling() {
    let callers = [
        r#"{"type":"direct"}"#,
        r#"{"type": "direct"}"#,
        "{\n  \"type\" : \"direct\"\n}",
        r#"{"typ\u0065": "dir\u0065ct"}"#,
    ];
    for caller in callers {
        let body = format!(
            r#"{{"model":"m","max_tokens":50,"tools":[{{"name":"f","input_schema":{{"type":"object"}}}}],"messages":[
                {{"role":"user","content":"Hi."}},
                {{"role":"assistant","content":[{{"type":"tool_use","id":"c1","name":"f","input":{{}},"caller":{caller}}}]}},
                {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c1","content":"R"}}]}}]}}"#
        );
        assert_passes(Messages, Chat, &body);
        assert_passes(Messages, Responses, &body);
        let body = format!(
            r#"{{"model":"m","input":[{{"role":"user","content":"Hi."}},
                {{"type":"function_call","call_id":"c1","name":"f","arguments":"{{}}","caller":{caller}}},
                {{"type":"function_call_output","call_id":"c1","output":"R"}}]}}"#
        );
        assert_passes(Responses, Messages, &body);
        assert_passes(Responses, Chat, &body);
    }
}

#[test]
fn a_field_that_asks_for_nothing_passes_in_any_spelling() {
    let chat = [
        r#""stop":[ ]"#,
        r#""functions":[ ]"#,
        "\"logit_bias\":{\n}",
        r#""modalities":[ "text" ]"#,
        r#""modalities":["\u0074ext"]"#,
        r#""frequency_penalty":0.00"#,
        r#""frequency_penalty":-0"#,
        r#""presence_penalty":0e5"#,
        r#""n":1.0"#,
        r#""top_k":-1.0"#,
    ];
    for field in chat {
        assert_passes(Chat, Gemini, &with(Chat, field));
        assert_passes(Chat, Responses, &with(Chat, field));
        assert_passes(Chat, Messages, &with(Chat, field));
    }
    let messages = [
        r#""mcp_servers":[ ]"#,
        r#""speed":"stand\u0061rd""#,
        r#""context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type": "all"}}]}"#,
    ];
    for field in messages {
        assert_passes(Messages, Chat, &with(Messages, field));
        assert_passes(Messages, Responses, &with(Messages, field));
    }
    for field in [
        r#""truncation":"disab\u006ced""#,
        r#""context_management":[ ]"#,
    ] {
        assert_passes(Responses, Chat, &with(Responses, field));
        assert_passes(Responses, Messages, &with(Responses, field));
    }
}

#[test]
fn a_field_that_asks_for_something_is_refused_however_near_it_comes() {
    let fields = [
        r#""stop":["",""]"#,
        r#""logit_bias":{"1":0}"#,
        r#""modalities":["text","audio"]"#,
        r#""modalities":["Text"]"#,
        r#""modalities":"text""#,
        r#""frequency_penalty":0.01"#,
        r#""frequency_penalty":"0""#,
        r#""frequency_penalty":false"#,
        r#""n":2"#,
    ];
    for field in fields {
        let found = outcome(Chat, Responses, &with(Chat, field));
        let name = field.split('"').nth(1).unwrap();
        let refusal = found.expect_err(field);
        assert!(refusal.contains(name), "{field}: {refusal}");
    }
    for caller in [
        r#"{"type":"direct","type":"direct"}"#,
        r#"{"type":"direct","tool_id":"t"}"#,
        r#"{"type":"code_execution_20250825"}"#,
        "{}",
    ] {
        let call = format!(
            r#"{{"model":"m","input":[{{"role":"user","content":"Hi."}},
                {{"type":"function_call","call_id":"c1","name":"f","arguments":"{{}}","caller":{caller}}},
                {{"type":"function_call_output","call_id":"c1","output":"R"}}]}}"#
        );
        let found = outcome(Responses, Messages, &call);
        assert!(found.is_err(), "{caller}: {found:?}");
    }
}
