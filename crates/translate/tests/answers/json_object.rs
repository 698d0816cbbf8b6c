//! Answers of a provider of messages that was asked for one JSON object by an instruction.

use crate::support::*;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate_translate::{AnswerCheck, StreamTranslator, TranslationNotes};
use tollgate_types::Format;
use tollgate_wire::fault::FaultClass;
use tollgate_wire::stream::{Phase, StreamEnd};

const CALLERS: [Format; 2] = [Format::Chat, Format::Responses];

fn asked(caller: Format, check: AnswerCheck) -> TranslationNotes {
    TranslationNotes {
        check,
        ..notes(caller, Format::Messages)
    }
}

/// A stream whose text comes in these pieces, and a call of a tool where one is named.
fn stream(pieces: &[&str], calls: bool, stop: &str) -> String {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    events.extend(pieces.iter().map(|piece| {
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
    }));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    if calls {
        events.extend([
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c1", "name": "look", "input": {}}}),
            json!({"type": "content_block_stop", "index": 1}),
        ]);
    }
    events.extend([
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]);
    let line = |event: &Value| format!("data: {event}\n\n");
    events.iter().map(line).collect()
}

fn body(text: &str, stop: &str) -> String {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": text}], "stop_reason": stop,
        "usage": {"input_tokens": 3, "output_tokens": 9}})
    .to_string()
}

#[test]
fn one_object_passes() {
    for caller in CALLERS {
        for check in [AnswerCheck::JsonObject, AnswerCheck::JsonObjectOrCall] {
            let notes = asked(caller, check);
            let sent = stream(
                &["\n{\"a\": \"\u{e9}", "\\\"\", \"b\": [1]", "}\n"],
                false,
                "end_turn",
            );
            let seen = translate(&notes, [sent.as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Finished, "{}", seen.out);
            let whole = translate_body(&notes, &body("{\"a\": 1}", "end_turn"), 7);
            assert!(whole.is_ok(), "{whole:?}");
        }
    }
}

#[test]
fn anything_else_is_an_unfit_answer() {
    let texts = [
        "Here it is: {\"a\": 1}",
        "```json\n{\"a\": 1}\n```",
        "{\"a\": 1} {\"b\": 2}",
        "{\"a\": 1} I hope that helps.",
        "{\"a\": 1",
        "[1]",
        "7",
        "",
    ];
    for caller in CALLERS {
        for text in texts {
            let notes = asked(caller, AnswerCheck::JsonObject);
            let sent = stream(&[text], false, "end_turn");
            let seen = translate(&notes, [sent.as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Failed, "{text}: {}", seen.out);
            let whole = translate_body(&notes, &body(text, "end_turn"), 7);
            let fault = whole.map_err(|fault| fault.class);
            assert_eq!(fault, Err(FaultClass::UnfitAnswer), "{text}");
        }
    }
}

#[test]
fn text_that_cannot_become_an_object_fails_before_the_answer_has_begun() {
    for caller in CALLERS {
        let notes = Arc::new(asked(caller, AnswerCheck::JsonObject));
        let mut translator = StreamTranslator::new(notes, context());
        let mut out = Vec::new();
        let sent = stream(&["Here", " it is: {}"], false, "end_turn");
        let mut phases = Vec::new();
        for event in sent.split_inclusive("\n\n") {
            translator.push(event.as_bytes(), &mut out);
            phases.push(translator.phase().clone());
        }
        assert!(out.is_empty(), "{caller}: {out:?}");
        assert!(!phases.contains(&Phase::Content), "{phases:?}");
        let last = phases.last();
        assert!(matches!(last, Some(Phase::Failed(_))), "{phases:?}");
    }
}

#[test]
fn a_call_a_refusal_and_a_limit_excuse_what_is_no_object() {
    for caller in CALLERS {
        let notes = asked(caller, AnswerCheck::JsonObjectOrCall);
        let cases = [
            stream(&["I look."], true, "tool_use"),
            stream(&["{\"a\": "], false, "max_tokens"),
            stream(&["No."], false, "refusal"),
        ];
        for sent in cases {
            let seen = translate(&notes, [sent.as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Finished, "{sent}\n{}", seen.out);
        }
        let sent = stream(&["I do not look."], false, "end_turn");
        let seen = translate(&notes, [sent.as_bytes()]);
        assert_eq!(seen.end, StreamEnd::Failed, "{}", seen.out);
    }
}
