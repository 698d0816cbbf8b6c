//! The shape of conversations, tools and settings: what no provider accepts is refused by name,
//! and what one of them may know passes.

use super::*;

/// A whole body of the format around a conversation.
fn around(format: Format, conversation: &str) -> String {
    match format {
        Format::Chat => format!(r#"{{"model":"m","messages":{conversation}}}"#),
        Format::Responses | Format::Embeddings => {
            format!(r#"{{"model":"m","input":{conversation}}}"#)
        }
        Format::Rerank => format!(r#"{{"model":"m","query":"q","documents":{conversation}}}"#),
        Format::Gemini => format!(r#"{{"contents":{conversation}}}"#),
        Format::Converse => format!(r#"{{"messages":{conversation}}}"#),
        Format::Messages => {
            format!(r#"{{"model":"m","max_tokens":9,"messages":{conversation}}}"#)
        }
    }
}

/// A whole body of the format with another member.
fn with(format: Format, member: &str) -> String {
    let body = around(format, r#"[{"role":"user","content":"Hi."}]"#);
    format!("{},{member}}}", body.strip_suffix('}').unwrap())
}

const ALL: [Format; 3] = [Format::Chat, Format::Responses, Format::Messages];

#[track_caller]
fn assert_names(format: Format, body: &str, param: &str, part: &str) {
    let error = refusal(peek(format, body));
    assert_eq!(error.status, 400, "{body}");
    assert_eq!(error.param.as_deref(), Some(param), "{body}: {error}");
    let named = format!("'{param}'");
    assert!(
        error.message.contains(&named) && error.message.contains(part),
        "{body}: {error}"
    );
}

#[track_caller]
fn assert_passes(format: Format, body: &str) {
    if let Err(error) = peek(format, body) {
        panic!("{format:?} {body}: {error}");
    }
}

#[test]
fn a_conversation_without_an_entry_is_refused() {
    assert_names(
        Format::Chat,
        &around(Format::Chat, "[]"),
        "messages",
        "at least one",
    );
    let messages = around(Format::Messages, "[ ]");
    assert_names(Format::Messages, &messages, "messages", "at least one");
    let responses = around(Format::Responses, "[]");
    assert_names(Format::Responses, &responses, "input", "at least one");
    for stored in [r#""previous_response_id":"r""#, r#""prompt":{"id":"p"}"#] {
        let body = format!(r#"{{"model":"m","input":[],{stored}}}"#);
        assert_passes(Format::Responses, &body);
    }
}

#[test]
fn an_entry_that_is_no_object_is_named_by_its_place() {
    for format in ALL {
        let list = match format {
            Format::Responses => "input",
            _ => "messages",
        };
        for entry in ["\"Hi.\"", "7", "null", "true", "[]"] {
            let list_of = format!(r#"[{{"role":"user","content":"Hi."}},{entry}]"#);
            let param = format!("{list}[1]");
            assert_names(format, &around(format, &list_of), &param, "an object");
        }
    }
}

#[test]
fn a_message_without_a_role_or_with_another_type_of_it_is_named() {
    for format in [Format::Chat, Format::Messages] {
        let body = around(
            format,
            r#"[{"role":"user","content":"a"},{"content":"Hi."}]"#,
        );
        assert_names(format, &body, "messages[1].role", "required");
        for role in ["7", "null", "[]", "{}", "\"\""] {
            let body = around(format, &format!(r#"[{{"content":"Hi.","role":{role}}}]"#));
            assert_names(format, &body, "messages[0].role", "string");
        }
    }
    let body = around(Format::Messages, r#"[{"role":"tool","content":"Hi."}]"#);
    assert_names(Format::Messages, &body, "messages[0].role", "'assistant'");
    let body = around(Format::Responses, r#"[{"role":7,"content":"Hi."}]"#);
    assert_names(Format::Responses, &body, "input[0].role", "string");
    let body = around(Format::Responses, r#"[{"content":"Hi."}]"#);
    assert_names(Format::Responses, &body, "input[0]", "'type' or a 'role'");
    let body = around(Format::Responses, r#"[{"type":7,"content":"Hi."}]"#);
    assert_names(Format::Responses, &body, "input[0].type", "string");
}

#[test]
fn content_of_another_type_is_named() {
    for format in ALL {
        let list = match format {
            Format::Responses => "input",
            _ => "messages",
        };
        for content in ["7", "true"] {
            let entry = format!(r#"[{{"role":"user","content":{content}}}]"#);
            let param = format!("{list}[0].content");
            assert_names(format, &around(format, &entry), &param, "string");
        }
    }
    let object = r#"[{"role":"user","content":{"type":"text"}}]"#;
    for format in [Format::Chat, Format::Messages] {
        assert_names(
            format,
            &around(format, object),
            "messages[0].content",
            "array",
        );
    }
    let null = around(Format::Messages, r#"[{"role":"user","content":null}]"#);
    assert_names(Format::Messages, &null, "messages[0].content", "string");
    let absent = around(Format::Messages, r#"[{"role":"user"}]"#);
    assert_names(Format::Messages, &absent, "messages[0].content", "required");
}

#[test]
fn settings_are_named_with_their_range() {
    let chat = [Format::Chat].as_slice();
    let openai = [Format::Chat, Format::Responses].as_slice();
    for (formats, field, bad, part) in [
        (&ALL[..], "temperature", "2.01", "from 0 to 2"),
        (&ALL, "temperature", "-0.1", "from 0 to 2"),
        (&ALL, "temperature", "1e9", "from 0 to 2"),
        (&ALL, "temperature", "\"0.5\"", "from 0 to 2"),
        (&ALL, "temperature", "[1]", "from 0 to 2"),
        (&ALL, "top_p", "1.5", "from 0 to 1"),
        (&ALL, "top_p", "{}", "from 0 to 1"),
        (chat, "presence_penalty", "3", "from -2 to 2"),
        (chat, "frequency_penalty", "-2.5", "from -2 to 2"),
        (chat, "stop", "7", "string"),
        (openai, "parallel_tool_calls", "\"no\"", "true or false"),
        (openai, "tool_choice", "true", "string or an object"),
        (&[Format::Messages], "tool_choice", "\"auto\"", "an object"),
        (&[Format::Messages], "stop_sequences", "\"x\"", "array"),
        (&ALL, "tools", "{}", "array"),
        (&ALL, "tools", "\"all\"", "array"),
    ] {
        for format in formats {
            let body = with(*format, &format!("\"{field}\":{bad}"));
            assert_names(*format, &body, field, part);
        }
    }
    for good in [
        r#""temperature":0"#,
        r#""temperature":2.0"#,
        r#""temperature":-0"#,
        r#""temperature":1e0"#,
        r#""temperature":null"#,
        r#""top_p":1"#,
        r#""top_p":0.000000000000000000000000000000000000000000000000000000000000000001"#,
        r#""tools":null"#,
        r#""tools":[]"#,
        r#""tool_choice":null"#,
    ] {
        for format in ALL {
            assert_passes(format, &with(format, good));
        }
    }
    assert_passes(Format::Chat, &with(Format::Chat, r#""stop":null"#));
    let nested = r#""extra_body":{"temperature":"high"},"metadata":{"temperature":9}"#;
    assert_passes(Format::Chat, &with(Format::Chat, nested));
}

#[test]
fn a_tool_without_its_function_or_name_is_named() {
    let tools = |format, tools: &str| with(format, &format!("\"tools\":[{tools}]"));
    for (format, tool, param) in [
        (Format::Chat, r#"{"type":"function"}"#, "tools[1].function"),
        (
            Format::Chat,
            r#"{"type":"function","name":"f"}"#,
            "tools[1].function",
        ),
        (
            Format::Chat,
            r#"{"type":"function","function":"f"}"#,
            "tools[1].function",
        ),
        (
            Format::Chat,
            r#"{"type":"function","function":{}}"#,
            "tools[1].function.name",
        ),
        (
            Format::Chat,
            r#"{"function":{"name":7},"type":"function"}"#,
            "tools[1].function.name",
        ),
        (Format::Responses, r#"{"type":"function"}"#, "tools[1].name"),
        (
            Format::Messages,
            r#"{"description":"d","input_schema":{"name":"x"}}"#,
            "tools[1].name",
        ),
        (
            Format::Messages,
            r#"{"type":"custom","name":""}"#,
            "tools[1].name",
        ),
        (Format::Chat, "\"f\"", "tools[1]"),
        (Format::Responses, "null", "tools[1]"),
        (Format::Messages, "[]", "tools[1]"),
    ] {
        let first = match format {
            Format::Chat => r#"{"type":"function","function":{"name":"f"}}"#,
            Format::Responses => r#"{"type":"function","name":"f"}"#,
            _ => r#"{"name":"f","input_schema":{}}"#,
        };
        let body = tools(format, &format!("{first},{tool}"));
        assert_names(format, &body, param, "");
    }
}

#[test]
fn unknown_fields_pass() {
    for (format, conversation) in [
        (Format::Chat, r#"[{"role":"developer","content":"a"}]"#),
        (Format::Chat, r#"[{"role":"critic","content":"a"}]"#),
        (Format::Chat, r#"[{"role":"assistant","tool_calls":[]}]"#),
        (Format::Chat, r#"[{"role":"assistant","content":null}]"#),
        (Format::Chat, r#"[{"role":"user","content":["a"]}]"#),
        (Format::Messages, r#"[{"role":"system","content":"a"}]"#),
        (Format::Messages, r#"[{"role":"user","content":[]}]"#),
        (Format::Responses, r#"[{"id":"msg_1"}]"#),
        (Format::Responses, r#"[{"type":null,"id":"msg_1"}]"#),
        (Format::Responses, r#"[{"type":"new_item","content":{}}]"#),
        (Format::Responses, r#""""#),
    ] {
        assert_passes(format, &around(format, conversation));
    }
    for (format, tool) in [
        (Format::Chat, r#"{"type":"openrouter:web_search"}"#),
        (Format::Chat, r#"{"googleSearch":{}}"#),
        (Format::Chat, r#"{"function":{"name":"f"}}"#),
        (Format::Chat, r#"{"type":"custom","custom":{"name":"f"}}"#),
        (
            Format::Responses,
            r#"{"type":"function","function":{"name":"f"}}"#,
        ),
        (Format::Responses, r#"{"type":"web_search"}"#),
        (Format::Responses, r#"{"type":"namespace","tools":[]}"#),
        (
            Format::Messages,
            r#"{"type":"mcp_toolset","mcp_server_name":"s"}"#,
        ),
    ] {
        let member = format!("\"tools\":[{tool}]");
        assert_passes(format, &with(format, &member));
    }
    let older = r#""functions":[{"name":"f"}],"function_call":"auto""#;
    assert_passes(Format::Chat, &with(Format::Chat, older));
}
