//! What a caller can rely on, beside the right form.

use crate::{strict, support::*};
use serde_json::json;
use std::sync::Arc;
use tollgate_translate::{
    AskedReasoning, CallIds, StreamTranslator, TranslationNotes,
    seal::{self, Backend, ReasoningForm},
};
use tollgate_types::Format;
use tollgate_wire::stream::{Phase, StreamEnd};

/// Feeds events one by one and says for each whether something left.
fn leaves(notes: TranslationNotes, events: &[&str]) -> Vec<bool> {
    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    let feed = |event: &&str| {
        let mut out = Vec::new();
        translator.push(format!("data: {event}\n\n").as_bytes(), &mut out);
        !out.concat().is_empty()
    };
    events.iter().map(feed).collect()
}

#[test]
fn a_delta_leaves_in_the_push_in_which_it_came() {
    let chat = [
        r#"{"id":"1","choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"content":"b"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"one","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a\":1}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"two","arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}}]}"#,
    ];
    for caller in others(Format::Chat) {
        let mut expected = [true; 9];
        expected[0] = false;
        if caller == Format::Gemini {
            // Its calls come whole: the first one once the second begins.
            expected[4..].copy_from_slice(&[false, false, false, true, false]);
        }
        assert_eq!(
            leaves(notes(caller, Format::Chat), &chat),
            expected,
            "{caller}"
        );
    }
    let responses = [
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"r"}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"m"}}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"a"}"#,
    ];
    for caller in others(Format::Responses) {
        let seen = leaves(notes(caller, Format::Responses), &responses);
        assert_eq!(seen, [false, true, false, true], "{caller}");
    }
}

#[test]
fn nothing_but_comments_leaves_before_the_first_content() {
    let before = ": wait\n\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\ndata: {\"type\":\"response.in_progress\",\"response\":{}}\n\n";
    for caller in others(Format::Responses) {
        let seen = translate(&notes(caller, Format::Responses), [before.as_bytes()]);
        let alive = match caller {
            // Google's SDKs take comments for broken events.
            Format::Gemini => "\n",
            _ => ": ping\n\n",
        };
        assert_eq!(seen.out, alive);
        assert_eq!((seen.end, seen.phase), (StreamEnd::Cut, Phase::Preamble));
    }
}

#[test]
fn reasoning_comes_back_to_its_provider_alone() {
    let stream = concat!(
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm.\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"Eu\\/sB\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"+==\"}}\n\n",
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    for caller in others(Format::Messages) {
        let seen = translate(&notes(caller, Format::Messages), [stream.as_bytes()]);
        let summary = strict::stream(caller, &seen.out).unwrap();
        let [sealed] = summary.state.as_slice() else {
            panic!("{summary:?}");
        };
        let native = seal::open(Backend::new("north"), sealed).unwrap();
        assert_eq!(
            (native.form, native.payload.as_str()),
            (ReasoningForm::Signature, "Eu/sB+==")
        );
        assert_eq!(seal::open(Backend::new("south"), sealed), None);
    }
}

#[test]
fn reasoning_without_a_signature_is_sealed_for_its_provider() {
    let gemini = json!({"responseId": "r", "candidates": [{"index": 0, "finishReason": "STOP", "content": {
        "role": "model", "parts": [{"text": "Hm.", "thought": true}, {"text": "Yes."}]}}]});
    let converse = json!({"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1},
        "output": {"message": {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "Yes."}]}}});
    let responses = json!({"id": "resp_1", "object": "response", "status": "completed", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}]});
    let messages = json!({"id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}]});
    for (provider, answer) in [
        (Format::Gemini, gemini),
        (Format::Converse, converse),
        (Format::Responses, responses),
        (Format::Messages, messages),
    ] {
        for caller in others(provider) {
            let answer = translate_body(&notes(caller, provider), &answer.to_string(), 100);
            let summary = strict::body(caller, &answer.unwrap()).unwrap();
            assert_eq!(summary.thinking, "Hm.", "{provider} to {caller}");
            let [sealed] = summary.state.as_slice() else {
                panic!("{provider} to {caller}: {summary:?}");
            };
            let native = seal::open(Backend::new("north"), sealed).unwrap();
            assert_eq!(native.form, ReasoningForm::Shown, "{provider} to {caller}");
        }
    }
}

#[test]
fn reasoning_is_shown_and_handed_out_as_far_as_it_was_asked_for() {
    let stream = concat!(
        "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs_1\"}}\n\n",
        "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,\"summary_index\":0,\"delta\":\"Hm.\"}\n\n",
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs_1\",\"encrypted_content\":\"gAAA\"}}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
    );
    for caller in others(Format::Responses) {
        for (text, state) in [(true, true), (true, false), (false, true), (false, false)] {
            let notes = TranslationNotes {
                reasoning: AskedReasoning {
                    text,
                    state,
                    hidden: state,
                },
                ..notes(caller, Format::Responses)
            };
            let seen = translate(&notes, [stream.as_bytes()]);
            let summary = strict::stream(caller, &seen.out).unwrap();
            assert_eq!(summary.thinking, if text { "Hm." } else { "" }, "{caller}");
            assert_eq!(summary.state.len(), usize::from(state), "{caller}");
            assert!(text || state || !seen.out.contains("thinking_delta"));
        }
    }
}

#[test]
fn a_caller_that_asked_for_no_usage_gets_no_chunk_of_it() {
    let stream = concat!(
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    let notes = TranslationNotes {
        include_usage: false,
        ..notes(Format::Chat, Format::Messages)
    };
    let seen = translate(&notes, [stream.as_bytes()]);
    assert!(!seen.out.contains("usage"), "{}", seen.out);
    assert!(seen.out.ends_with("data: [DONE]\n\n"));
    assert_eq!(seen.usage.usage.total(), 5);
}

#[test]
fn text_goes_through_as_it_was_escaped() {
    const WRITTEN: &str = r#"\u00e9\ud83d\ude00 é😀 \" \\ \/ \b\f\n\r\t  <&>"#;
    let stream = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{WRITTEN}\"}}}}]}}\n\ndata: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n"
    );
    for caller in others(Format::Chat) {
        let seen = translate(&notes(caller, Format::Chat), [stream.as_bytes()]);
        assert!(seen.out.contains(&format!("\"{WRITTEN}\"")), "{}", seen.out);
    }
}

#[test]
fn the_halves_of_a_pair_leave_together() {
    for field in ["content", "reasoning_content", "refusal"] {
        let delta = |text: &str| {
            format!("data: {{\"choices\":[{{\"delta\":{{\"{field}\":\"{text}\"}}}}]}}\n\n")
        };
        let pieces = [r"a\ud83d", "", r"\ude00b", r"c\ud83d"].map(delta).concat();
        let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        let stream = pieces + end;
        for caller in others(Format::Chat) {
            let seen = translate(&notes(caller, Format::Chat), [stream.as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Finished, "{caller}: {}", seen.out);
            for piece in ["a", r"\ud83d\ude00b", "c", r"\ud83d"] {
                let is_there = seen.out.contains(&format!("\"{piece}\""));
                assert!(is_there, "{piece} for {caller}: {}", seen.out);
            }
        }
    }
}

#[test]
fn long_thinking_that_is_not_shown_gives_signs_of_life() {
    let piece = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
    let notes = TranslationNotes {
        reasoning: AskedReasoning {
            text: false,
            state: true,
            hidden: true,
        },
        ..notes(Format::Messages, Format::Chat)
    };
    let seen = translate(&notes, [piece.repeat(100).as_bytes()]);
    assert_eq!(seen.out, ": ping\n\n".repeat(3));
    assert_eq!(seen.phase, Phase::Content);
}

#[test]
fn a_call_gets_no_id_that_the_conversation_has() {
    let whole = json!({"id": "c2", "object": "chat.completion", "choices": [{"index": 0,
        "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [
            {"id": "look:0", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "look:1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}}]});
    for (caller, earlier, expected) in [
        (Format::Messages, "look_0", ["toolu_c2_0", "look_1"]),
        (Format::Responses, "look:0", ["call_c2_0", "look:1"]),
        (Format::Gemini, "look:1", ["look:0", "call_c2_1"]),
    ] {
        let notes = TranslationNotes {
            call_ids: CallIds::new([earlier]),
            ..notes(caller, Format::Chat)
        };
        let answer = translate_body(&notes, &whole.to_string(), 100).unwrap();
        for id in expected {
            assert!(answer.contains(&format!("\"{id}\"")), "{id}: {answer}");
        }
    }
}

#[test]
fn a_text_of_white_space_is_no_block_of_messages() {
    let stream = |content: &str| {
        let chunk = |delta: &str| {
            format!("data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
        };
        let call =
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{}"}}]}"#;
        let text = |text: &str| chunk(&format!("{{\"content\":\"{text}\"}}"));
        [text(r"\n"), text(r"\u0020"), text(content), chunk(call)].concat()
            + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
    };
    let whole = |content: &str| {
        format!(
            r#"{{"id":"c","object":"chat.completion","choices":[{{"index":0,"finish_reason":"tool_calls","message":{{"role":"assistant","content":"\n {content}","tool_calls":[{{"id":"a","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}]}}}}]}}"#
        )
    };
    let notes = notes(Format::Messages, Format::Chat);
    for (content, text) in [(r"\n", ""), ("Hm.", "\n Hm.")] {
        let seen = translate(&notes, [stream(content).as_bytes()]);
        let summary = strict::stream(Format::Messages, &seen.out).unwrap();
        assert_eq!((summary.text.as_str(), summary.calls.len()), (text, 1));
        let blocks = seen.out.matches("event: content_block_start").count();
        assert_eq!(blocks, 1 + usize::from(!text.is_empty()), "{}", seen.out);
        let answer = translate_body(&notes, &whole(content), 100).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let found = answer["content"][0]["text"].as_str();
        assert_eq!(found.unwrap_or_default(), text, "{answer}");
    }
}
