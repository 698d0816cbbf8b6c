//! What a peek finds in requests of each format, whole and byte by byte.

mod fixtures;
mod others;
mod refusals;
mod shape;
mod unseen;

use super::*;
use proptest::prelude::*;
use tollgate_types::{Effort, MediaFacts, PublicError, RequestFacts, StoredId, Thinking};

fn peek_chunks<'a>(
    mut peeker: Peeker,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Peeked, PeekError> {
    for chunk in chunks {
        peeker.push(chunk)?;
    }
    peeker.finish()
}

/// Peeks whole and byte by byte, and checks that both are the same.
fn peek(format: Format, body: &str) -> Result<Peeked, PeekError> {
    let peeker = || Peeker::new(format, &PeekLimits::default());
    let whole = peek_chunks(peeker(), [body.as_bytes()]);
    let bytewise = peek_chunks(peeker(), body.as_bytes().chunks(1));
    assert_eq!(whole, bytewise, "{body}");
    whole
}

fn chat(members: &str) -> Result<Peeked, PeekError> {
    peek(
        Format::Chat,
        &format!(r#"{{"model":"m","messages":[{{"role":"user","content":""}}],{members}}}"#),
    )
}

fn responses(members: &str) -> Result<Peeked, PeekError> {
    peek(
        Format::Responses,
        &format!(r#"{{"model":"m","input":"",{members}}}"#),
    )
}

fn messages(members: &str) -> Result<Peeked, PeekError> {
    let body = format!(
        r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":""}}],{members}}}"#
    );
    peek(Format::Messages, &body)
}

fn refusal(result: Result<Peeked, PeekError>) -> PublicError {
    match result {
        Err(error) => error.public(),
        Ok(peeked) => panic!("let through: {peeked:?}"),
    }
}

fn slice(body: &str, span: Option<Span>) -> Option<&str> {
    span.map(|span| {
        let [start, end] = [span.start, span.end].map(|at| usize::try_from(at).unwrap());
        &body[start..end]
    })
}

fn ids(facts: &RequestFacts) -> Vec<&str> {
    facts.stored_ids.iter().map(|it| &*it.id).collect()
}

#[test]
fn the_facts_of_a_chat_request_are_found() {
    let body = r#" {"model":"alpha\u002dopus", "stream":true,"stream_options":{"include_usage":false},
        "max_tokens":10,"max_completion_tokens":20,"n":3,"reasoning_effort":"high",
        "messages":[{"role":"user","content":"ä\n"}],"response_format":{"type":"json_schema"},
        "tools":[{"type":"function","function":{"name":"f","parameters":{"a":[1,true]}}}]}"#;
    let Peeked { facts, spans, .. } = peek(Format::Chat, body).unwrap();
    assert_eq!(facts.model.as_deref(), Some("alpha-opus"));
    assert!(facts.stream);
    assert_eq!(facts.include_usage, Some(false));
    assert_eq!(facts.output_limit, Some(20));
    assert_eq!(facts.choices, 3);
    assert_eq!(facts.effort, Some(Effort::High));
    assert!(facts.needs.tools && facts.needs.schema && facts.needs.reasoning);
    assert!(!facts.needs.images && !facts.needs.documents && !facts.needs.audio);
    let text = "user".len() + "ä\n".len() + "function".len() + "f".len() + "a1true".len();
    assert_eq!(facts.text_bytes, text as u64);

    assert_eq!(
        spans.top,
        ObjectSpan {
            inside: 2,
            is_empty: false
        }
    );
    assert_eq!(slice(body, spans.model), Some(r#""alpha\u002dopus""#));
    assert_eq!(slice(body, spans.stream), Some("true"));
    assert_eq!(
        slice(body, spans.older_output_limit.map(|limit| limit.span)),
        Some("10")
    );
    assert_eq!(
        slice(body, spans.output_limit.map(|limit| limit.span)),
        Some("20")
    );
    assert_eq!(
        slice(body, spans.stream_options),
        Some(r#"{"include_usage":false}"#)
    );
    assert_eq!(slice(body, spans.include_usage), Some("false"));
    assert_eq!(slice(body, spans.effort), Some(r#""high""#));
    let inside = spans.stream_options_object.unwrap();
    assert!(body[usize::try_from(inside.inside).unwrap()..].starts_with(r#""include_usage""#));
}

const fn media(parts: u64, bytes: u64, unmeasured: u64) -> MediaFacts {
    MediaFacts {
        parts,
        bytes,
        unmeasured,
    }
}

#[test]
fn the_facts_of_a_messages_request_are_found() {
    let body = r#"{"model":"m","max_tokens":2048,"system":[{"type":"text","text":"be brief"}],
        "thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"max",
        "format":{"type":"json_schema","schema":{"k":1}}},"metadata":{"user_id":"not read"},
        "messages":[{"role":"user","content":[{"type":"text","text":"hi"},
        {"source":{"data":"QUJD","type":"base64"},"type":"image"},
        {"type":"document","source":{"data":"plain","type":"text"}},
        {"type":"document","source":{"type":"url","url":"https://x/y"}}]}]}"#;
    let Peeked { facts, spans, .. } = peek(Format::Messages, body).unwrap();
    assert_eq!(facts.output_limit, Some(2048));
    assert_eq!(facts.thinking, Some(Thinking::Enabled));
    assert_eq!(facts.thinking_budget, Some(1024));
    assert_eq!(facts.effort, Some(Effort::Max));
    assert_eq!(facts.media, media(2, 4, 1));
    assert!(facts.needs.images && facts.needs.documents && facts.needs.schema);
    assert!(facts.needs.reasoning && !facts.needs.tools);
    let words = [
        "text", "be brief", "k", "1", "user", "text", "hi", "base64", "image",
    ];
    let more = [
        "document",
        "plain",
        "text",
        "document",
        "url",
        "https://x/y",
    ];
    let text: usize = words.iter().chain(&more).map(|word| word.len()).sum();
    assert_eq!(facts.text_bytes, text as u64);
    assert_eq!(slice(body, spans.thinking_budget), Some("1024"));
    assert_eq!(slice(body, spans.effort), Some(r#""max""#));
    let thinking = r#"{"type":"enabled","budget_tokens":1024}"#;
    assert_eq!(slice(body, spans.thinking), Some(thinking));
}

#[test]
fn the_facts_of_a_responses_request_are_found() {
    let body = r#"{"model":"m","input":"Hi","instructions":"Be kind","max_output_tokens":64,
        "reasoning":{"effort":"none"},"text":{"format":{"type":"json_schema","schema":{}}},
        "background":true,"store":false,"stream_options":{}}"#;
    let Peeked { facts, spans, .. } = peek(Format::Responses, body).unwrap();
    assert_eq!(facts.output_limit, Some(64));
    assert_eq!(facts.effort, Some(Effort::None));
    assert!(!facts.needs.reasoning && facts.needs.schema);
    assert_eq!(facts.background, Some("background"));
    assert_eq!(facts.store, Some(false));
    assert_eq!(facts.text_bytes, "HiBe kind".len() as u64);
    assert_eq!(
        slice(body, spans.output_limit.map(|limit| limit.span)),
        Some("64")
    );
    assert_eq!(slice(body, spans.stream_options), Some("{}"));
    assert!(spans.stream_options_object.unwrap().is_empty);
}

#[test]
fn every_way_to_attach_a_file_is_media_and_not_text() {
    let chat = |part: &str| {
        let message = format!(r#"{{"role":"user","content":[{part}]}}"#);
        let body = format!(r#"{{"messages":[{message}],"model":"m"}}"#);
        let mut facts = peek(Format::Chat, &body).unwrap().facts;
        facts.text_bytes -= "user".len() as u64;
        facts
    };
    let found = chat(r#"{"image_url":{"url":"data:image/png;base64,QUJD","detail":"low"}}"#);
    assert_eq!(found.media, media(1, 26, 0));
    assert!(found.needs.images);
    assert_eq!(found.text_bytes, 3);
    let found = chat(r#"{"type":"image_url","image_url":{"url":"https://a/b.png"}}"#);
    assert_eq!(found.media, media(1, 0, 0));
    let found = chat(r#"{"input_audio":{"data":"QUJD","format":"wav"}}"#);
    assert_eq!(found.media, media(1, 4, 1));
    assert!(found.needs.audio && !found.needs.documents);
    let found = chat(r#"{"file":{"file_data":"QUJDRA==","filename":"a"}}"#);
    assert_eq!(found.media, media(1, 8, 1));
    assert!(found.needs.documents);
    let found = chat(r#"{"type":"video_url","video_url":{"url":"https://a/b.mp4"}}"#);
    assert_eq!(found.media, media(1, 0, 1));
    let found = chat(r#"{"file":{"file_id":"file-1"}}"#);
    assert_eq!(ids(&found), ["file-1"]);
    assert_eq!(found.text_bytes, 0);

    let responses = |item: &str| {
        let body = format!(r#"{{"model":"m","input":[{item}]}}"#);
        peek(Format::Responses, &body).unwrap().facts
    };
    let found = responses(r#"{"role":"user","content":[{"type":"input_image","file_id":"f"}]}"#);
    assert!(found.needs.images);
    assert_eq!((found.media.parts, found.stored_ids.len()), (1, 1));
    let found = responses(r#"{"result":"QUJD","type":"image_generation_call","id":"ig"}"#);
    assert_eq!(found.media, media(1, 4, 0));
    assert!(found.stored_ids.is_empty());
    let found = responses(r#"{"result":"text","type":"other_call","id":"ig"}"#);
    assert_eq!(found.media, MediaFacts::default());
    assert_eq!(found.text_bytes, "textother_callig".len() as u64);
}

#[test]
fn an_item_that_says_nothing_but_which_it_is_stands_for_what_is_stored() {
    let held = |item: &str| {
        let body = format!(r#"{{"model":"m","input":[{item}]}}"#);
        let facts = peek(Format::Responses, &body).unwrap().facts;
        assert!(facts.stored_ids.is_empty(), "{item}");
        let [item] = facts.items.as_slice() else {
            panic!("{item}: {:?}", facts.items);
        };
        assert_eq!(item.id, "x");
        item.has_contents
    };
    for nothing in [
        r#"{"type":"reasoning","id":"x","summary":[]}"#,
        r#"{"id":"x","summary":[],"content":null,"encrypted_content":"","type":"reasoning"}"#,
        r#"{"type":"web_search_call","id":"x","status":"completed"}"#,
        r#"{"type":"message","role":"assistant","id":"x","content":[ ]}"#,
    ] {
        assert!(!held(nothing), "{nothing}");
    }
    for something in [
        r#"{"type":"reasoning","id":"x","summary":[],"encrypted_content":"a"}"#,
        r#"{"type":"reasoning","id":"x","summary":[{"type":"summary_text","text":"a"}]}"#,
        r#"{"type":"function_call","id":"x","call_id":"c","name":"f","arguments":"{}"}"#,
        r#"{"type":"tool_search_call","id":"x","arguments":["a"]}"#,
        r#"{"type":"web_search_call","id":"x","action":{"type":"search"}}"#,
        r#"{"type":"file_search_call","id":"x","queries":["a"]}"#,
        r#"{"role":"assistant","id":"x","content":"a"}"#,
    ] {
        assert!(held(something), "{something}");
    }
}

#[test]
fn every_name_of_a_stored_thing_is_found_once() {
    let body = r#"{"model":"m","previous_response_id":"resp_1","conversation":{"id":"conv_1"},
        "prompt":{"id":"pmpt_1","variables":{"a":"b"}},
        "input":[{"type":"item_reference","id":"msg_1"},{"id":"msg_2"},{"id":"msg_3","type":null},
        {"type":"message","role":"user","id":"not","content":[{"type":"input_file","file_id":"file_1"}]},
        {"type":"image_generation_call","id":"ig_1"},{"type":"reasoning","id":"not"},
        {"type":"code_interpreter_call","id":"not","container_id":"cntr_0"}],
        "tools":[{"type":"code_interpreter","container":"cntr_1"},
        {"type":"code_interpreter","container":{"type":"auto","file_ids":["file_1","file_2"]}},
        {"type":"file_search","vector_store_ids":["vs_1"]},
        {"type":"shell","environment":{"skills":[{"type":"skill_reference","skill_id":"sk_1"}]}},
        {"type":"function","name":"f","parameters":{"file_id":"not"}}]}"#;
    let facts = peek(Format::Responses, body).unwrap().facts;
    let expected =
        "resp_1 conv_1 pmpt_1 msg_1 msg_2 msg_3 file_1 ig_1 cntr_0 cntr_1 file_2 vs_1 sk_1";
    assert_eq!(ids(&facts).join(" "), expected);
    let fields = facts.stored_ids.iter().map(|it| &*it.field);
    let expected = "previous_response_id conversation prompt id id id file_id id container_id container file_ids \
                    vector_store_ids skill_id";
    assert_eq!(fields.collect::<Vec<_>>().join(" "), expected);
    let items = facts.items.iter().map(|it| (&*it.id, it.has_contents));
    let expected = [("not", true), ("not", false), ("not", true)];
    assert_eq!(items.collect::<Vec<_>>(), expected);

    let body = r#""container":{"id":"cont_1","skills":[{"type":"anthropic","skill_id":"pptx"},
        {"skill_id":"skill_1","type":"custom"}]},"system":[{"type":"document",
        "source":{"type":"file","file_id":"file_3"}}]"#;
    let facts = messages(body).unwrap().facts;
    assert_eq!(ids(&facts), ["cont_1", "skill_1", "file_3"]);
    let only = |peeked: Result<Peeked, PeekError>| {
        let stored = peeked.unwrap().facts.stored_ids;
        let [StoredId { id, field }] = &stored[..] else {
            panic!("{stored:?}");
        };
        format!("{field}={id}")
    };
    let container = only(messages(r#""container":"c""#));
    assert_eq!(container, "container=c");
    let conversation = only(responses(r#""conversation":"c""#));
    assert_eq!(conversation, "conversation=c");
    let audio = only(chat(r#""prediction":[{"audio":{"id":"a"}}]"#));
    assert_eq!(audio, "audio=a");
}

#[test]
fn a_name_that_has_a_provider_search_counts_as_a_hosted_tool() {
    for (name, hosted) in [
        ("openai/gpt-5.5", 0),
        ("openai/gpt-5.5:online", 1),
        ("openai/gpt-5.5:online:nitro", 1),
        ("online", 0),
        ("a:online-b", 0),
    ] {
        let body = format!(r#"{{"model":"{name}","messages":[{{"role":"user","content":"a"}}]}}"#);
        let facts = peek(Format::Chat, &body).unwrap().facts;
        assert_eq!(facts.hosted_tools, hosted, "{name}");
        let address = Address {
            model: Some(name.to_owned()),
            stream: Some(false),
        };
        let peeker = Peeker::new(Format::Gemini, &PeekLimits::default()).with_address(address);
        let body = br#"{"contents":[{"parts":[{"text":"a"}]}]}"#;
        let facts = peek_chunks(peeker, [&body[..]]).unwrap().facts;
        assert_eq!(facts.hosted_tools, hosted, "{name} in the path");
    }
}

#[test]
fn tools_in_the_history_count_as_tools() {
    for item in [
        r#"{"role":"tool","content":"x"}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
    ] {
        let body = format!(r#"{{"model":"m","messages":[{item}]}}"#);
        assert!(
            peek(Format::Chat, &body).unwrap().facts.needs.tools,
            "{body}"
        );
    }
    for kind in [
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "additional_tools",
    ] {
        let body = format!(r#"{{"model":"m","input":[{{"type":"{kind}"}}]}}"#);
        assert!(
            peek(Format::Responses, &body).unwrap().facts.needs.tools,
            "{body}"
        );
    }
    for (members, needed) in [
        (r#""tools":[]"#, false),
        (r#""tools":[{"name":"f"}]"#, true),
        (r#""system":[{"type":"tool_use","input":{"a":"b"}}]"#, true),
        (r#""system":[{"type":"text"}]"#, false),
    ] {
        assert_eq!(
            messages(members).unwrap().facts.needs.tools,
            needed,
            "{members}"
        );
    }
    assert!(!chat(r#""tool_calls":[]"#).unwrap().facts.needs.tools);
}

#[test]
fn a_summary_of_the_conversation_is_seen() {
    let of = |result: Result<Peeked, PeekError>| result.unwrap().facts.compacts;
    let list = |kinds: &[&str]| {
        let changes = kinds
            .iter()
            .map(|kind| format!(r#"{{"type":"{kind}","a":[1]}}"#));
        changes.collect::<Vec<_>>().join(",")
    };
    for (kinds, expected) in [
        (&[][..], false),
        (&["clear_tool_uses_20250919"], false),
        (&["clear_thinking_20251015", "compact_20260112"], true),
        (&["compaction"], true),
    ] {
        let changes = list(kinds);
        let members = format!(r#""context_management":{{"edits":[{changes}],"type":"compact"}}"#);
        assert_eq!(of(messages(&members)), expected, "{members}");
        let members = format!(r#""context_management":[{changes}]"#);
        assert_eq!(of(responses(&members)), expected, "{members}");
    }
    for value in ["null", "[]", "[[{\"type\":\"compact\"}]]", "1"] {
        let members = format!(r#""context_management":{value}"#);
        assert!(
            !of(messages(&members)) && !of(responses(&members)),
            "{members}"
        );
    }
}

#[test]
fn hosted_tools_and_the_callers_own_are_distinguished() {
    let of = |result: Result<Peeked, PeekError>| result.unwrap().facts.hosted_tools > 0;
    let cached =
        r#"{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}"#;
    for (members, hosted) in [
        (r#""tools":[]"#.to_owned(), false),
        (format!(r#""tools":[{cached}]"#), false),
        (
            r#""tools":[{"type":"custom","name":"f"}]"#.to_owned(),
            false,
        ),
        (
            r#""tools":[{"type":"bash_20250124","name":"bash"}]"#.to_owned(),
            false,
        ),
        (
            r#""tools":[{"type":"computer_20251124","name":"computer"}]"#.to_owned(),
            false,
        ),
        (
            r#""tools":[{"type":"computer_toolset_20260801"},{"type":"browser_toolset_20260801"}]"#
                .to_owned(),
            false,
        ),
        (r#""tools":[{"type":"computer_fetch_1"}]"#.to_owned(), true),
        (
            format!(r#""tools":[{cached},{{"type":"web_search_20250305","name":"s"}}]"#),
            true,
        ),
        (
            r#""tools":[{"name":"s","type":"web_fetch_20250910"}]"#.to_owned(),
            true,
        ),
        (
            r#""tools":[{"type":"code_execution_20250825"}]"#.to_owned(),
            true,
        ),
        (r#""tools":[{"type":"mcp_toolset"}]"#.to_owned(), true),
        (
            r#""mcp_servers":[{"type":"url","url":"https://x"}]"#.to_owned(),
            true,
        ),
        (r#""mcp_servers":null"#.to_owned(), false),
        (
            r#""system":[{"type":"web_search_tool_result"}]"#.to_owned(),
            false,
        ),
    ] {
        assert_eq!(of(messages(&members)), hosted, "{members}");
    }
    let function = r#"{"type":"function","name":"f","parameters":{"type":"mcp"}}"#;
    for (tools, hosted) in [
        (function, false),
        (
            r#"{"type":"custom","name":"f","format":{"type":"grammar"}}"#,
            false,
        ),
        (r#"{"type":"local_shell"}"#, false),
        (
            r#"{"type":"namespace","name":"n","tools":[{"type":"function"}]}"#,
            false,
        ),
        (
            r#"{"type":"namespace","name":"n","tools":[{"type":"mcp"}]}"#,
            true,
        ),
        (r#"{"type":"web_search"}"#, true),
        (
            r#"{"type":"file_search","vector_store_ids":["vs_1"]}"#,
            true,
        ),
        (
            r#"{"type":"code_interpreter","container":{"type":"auto"}}"#,
            true,
        ),
        (r#"{"type":"computer_use_preview"}"#, false),
        (r#"{"type":"computer"}"#, false),
        (r#"{"type":"computer_farm"}"#, true),
        (r#"{"server_url":"https://x","\u0074ype":"mcp"}"#, true),
        (
            r#"{"type":"a_type_that_is_longer_than_any_that_decides_anything"}"#,
            true,
        ),
    ] {
        let members = format!(r#""tools":[{function},{tools}]"#);
        assert_eq!(of(responses(&members)), hosted, "{members}");
        // Where newer agents put them.
        let body =
            format!(r#"{{"model":"m","input":[{{"type":"additional_tools","tools":[{tools}]}}]}}"#);
        assert_eq!(of(peek(Format::Responses, &body)), hosted, "{body}");
    }
    for (members, hosted) in [
        (
            r#""tools":[{"type":"function","function":{"name":"f","type":"x"}}]"#,
            false,
        ),
        (r#""functions":[{"name":"f","parameters":{}}]"#, false),
        (r#""web_search_options":{}"#, true),
        (r#""web_search_options":null"#, false),
        (r#""tools":[{"type":"openrouter:web_search"}]"#, true),
    ] {
        assert_eq!(of(chat(members)), hosted, "{members}");
    }
}

#[test]
fn sound_that_is_asked_for_counts_as_sound() {
    for members in [
        r#""modalities":["text","audio"]"#,
        r#""audio":{"voice":"alloy"}"#,
    ] {
        assert!(chat(members).unwrap().facts.needs.audio, "{members}");
    }
    for members in [r#""modalities":["text"]"#, r#""audio":null"#] {
        assert!(!chat(members).unwrap().facts.needs.audio, "{members}");
    }
}

#[test]
fn null_is_an_absent_field_where_the_format_has_it() {
    let facts = chat(
        r#""max_tokens":null,"max_completion_tokens":null,"n":null,"stream":null,
           "stream_options":null,"reasoning_effort":null"#,
    );
    let Peeked { facts, spans, .. } = facts.unwrap();
    assert_eq!(
        (facts.output_limit, facts.choices, facts.stream),
        (None, 1, false)
    );
    assert_eq!(facts.effort, None);
    assert!(spans.older_output_limit.is_some() && spans.stream_options.is_some());
    assert!(spans.stream_options_object.is_none());
    let members = r#""max_output_tokens":null,"previous_response_id":null,"reasoning":null"#;
    assert!(responses(members).is_ok());
    assert!(
        refusal(messages(r#""stream":null"#))
            .message
            .contains("'stream'")
    );
    let body = r#"{"model":"m","messages":[{"role":"user","content":""}],"max_tokens":null}"#;
    assert!(
        refusal(peek(Format::Messages, body))
            .message
            .contains("'max_tokens'")
    );
}

#[test]
fn an_effort_that_is_not_known_is_not_refused() {
    let facts = chat(r#""reasoning_effort":"ultra""#).unwrap().facts;
    assert_eq!((facts.effort, facts.needs.reasoning), (None, true));
    assert_eq!(
        messages(r#""thinking":{"type":"new"}"#)
            .unwrap()
            .facts
            .thinking,
        Some(Thinking::Other)
    );
}

#[test]
fn only_white_space_may_follow_the_end_of_the_body() {
    let limits = PeekLimits::default();
    let mut peeker = Peeker::new(Format::Chat, &limits);
    for piece in ["{ ", "}", "\n"] {
        assert_eq!(peeker.push(piece.as_bytes()), Ok(()));
    }
    assert!(peeker.push(b"{}").is_err());
}

proptest! {
    #[test]
    fn garbage_never_panics(body in prop::collection::vec(any::<u8>(), 0..60)) {
        for format in Format::ALL {
            let peeker = Peeker::new(format, &PeekLimits::default());
            let _ = peek_chunks(peeker, body.chunks(7)).map_err(|error| error.public());
        }
    }
}

#[test]
fn seals_are_seen_where_a_format_keeps_them_and_nowhere_else() {
    let chat = |entry: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"assistant","content":"x","reasoning_details":[{entry}]}}]}}"#
        )
    };
    let responses = |item: &str| format!(r#"{{"model":"m","input":[{item}]}}"#);
    let messages = |block: &str| {
        format!(
            r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"assistant","content":[{block}]}}]}}"#
        )
    };
    let cases = [
        (
            Format::Chat,
            chat(r#"{"type":"reasoning.encrypted","data":"tg1.AA"}"#),
            true,
        ),
        (
            Format::Chat,
            chat(r#"{"type":"reasoning.encrypted","data":"abc"}"#),
            false,
        ),
        (
            Format::Responses,
            responses(r#"{"type":"reasoning","summary":[],"encrypted_content":"tg1.AA"}"#),
            true,
        ),
        (
            Format::Responses,
            responses(r#"{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#),
            false,
        ),
        (
            Format::Responses,
            responses(r#"{"role":"user","content":"tg1.AA"}"#),
            false,
        ),
        (
            Format::Messages,
            messages(r#"{"type":"thinking","thinking":"","signature":"tg1.AA"}"#),
            true,
        ),
        (
            Format::Messages,
            messages(
                r#"{"type":"web_search_tool_result","tool_use_id":"a","content":[{"type":"web_search_result","encrypted_content":"tg1.AA"}]}"#,
            ),
            true,
        ),
        (
            Format::Messages,
            messages(r#"{"type":"text","text":"","citations":[{"encrypted_index":"tg1.AA"}]}"#),
            true,
        ),
        (
            Format::Messages,
            messages(r#"{"type":"thinking","thinking":"","signature":"\u0074g1.AA"}"#),
            true,
        ),
        (
            Format::Messages,
            messages(r#"{"type":"redacted_thinking","data":"tg1.AA"}"#),
            true,
        ),
        (
            Format::Messages,
            messages(r#"{"type":"thinking","thinking":"tg1.AA","signature":"tg1"}"#),
            false,
        ),
        (
            Format::Messages,
            messages(r#"{"type":"tool_use","id":"a","name":"b","input":{"data":"tg1.AA"}}"#),
            false,
        ),
    ];
    for (format, body, expected) in cases {
        let peeked = peek(format, &body).unwrap();
        assert_eq!(peeked.has_seals, expected, "{body}");
    }
}

#[test]
fn the_beginning_of_a_conversation_and_its_name_are_found() {
    let cases = [
        (
            Format::Chat,
            r#"{"prompt_cache_key":"k-1","messages":[{"role":"system","content":"S"},
               {"content":[{"type":"text","text":"Q"}],"role":"user"},{"role":"user","content":"R"}]}"#,
            Some("{\"role\":\"system\"…\"role\":\"user\"}"),
            Some("\"k-1\""),
        ),
        (
            Format::Messages,
            r#"{"max_tokens":1,"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A"}]}"#,
            Some("{\"role\":\"user\",\"content\":\"Q\"}"),
            None,
        ),
        (
            Format::Responses,
            r#"{"input":[{"type":"message","role":"developer","content":"D"},{"role":"user","content":"Q"},
               {"role":"assistant","content":"A"}],"prompt_cache_key":null}"#,
            Some("{\"type\":\"message\"…\"content\":\"Q\"}"),
            None,
        ),
        (Format::Responses, r#"{"input":"Q"}"#, Some("\"Q\""), None),
        (
            Format::Chat,
            r#"{"messages":[{"role":"assistant","content":"A"}]}"#,
            None,
            None,
        ),
    ];
    for (format, body, beginning, name) in cases {
        let body = body.replacen('{', r#"{"model":"m","#, 1);
        let spans = peek(format, &body).unwrap().spans;
        let found = slice(&body, spans.beginning.filter(|it| !it.is_empty()));
        let found = found.map(|it| it.trim_start_matches('['));
        match beginning.map(|it| it.split_once('…').unwrap_or((it, it))) {
            None => assert_eq!(found, None),
            Some((first, last)) => {
                let found = found.unwrap();
                assert!(found.starts_with(first) && found.ends_with(last), "{found}");
            }
        }
        assert_eq!(slice(&body, spans.cache_key), name);
    }
}
