//! Answers to a request for compaction: one item, which the client sends back in place of the
//! conversation.

use crate::support::*;
use serde_json::{Value, json};
use tollgate_translate::{Target, TranslationNotes, request, without_seals};
use tollgate_types::Format;
use tollgate_wire::fault::FaultClass;
use tollgate_wire::stream::StreamEnd;

const SUMMARY: &str = "The user wants \"a\\b\".\nDone: é😀.";

fn compacting(provider: Format) -> TranslationNotes {
    TranslationNotes {
        compacts: true,
        ..notes(Format::Responses, provider)
    }
}

/// A stream of messages that thinks and says the summary in two pieces.
fn stream() -> String {
    let (first, second) = SUMMARY.split_at(20);
    let piece = |text: &str| json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}});
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        piece(first),
        piece(second),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    let line = |event: &Value| format!("data: {event}\n\n");
    events.iter().map(line).collect()
}

/// The one item of a streamed answer.
fn item_of_the_stream() -> Value {
    let notes = compacting(Format::Messages);
    let sent = stream();
    let seen = translate(&notes, [sent.as_bytes()]);
    assert_eq!(seen.end, StreamEnd::Finished, "{}", seen.out);
    let events: Vec<Value> = events(&seen.out)
        .iter()
        .map(|(_, data)| serde_json::from_str(data).unwrap())
        .collect();
    let kinds: Vec<_> = events
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let item = events[3]["item"].clone();
    assert_eq!(events[4]["response"]["output"], json!([item]));
    assert_eq!(events[4]["response"]["status"], "completed");
    item
}

#[test]
fn a_summary_is_one_item_streamed_and_whole() {
    let item = item_of_the_stream();
    assert_eq!(item["type"], "compaction");
    assert!(!item.to_string().contains("The user wants"), "{item}");
    let body = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": SUMMARY}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}});
    let whole = translate_body(&compacting(Format::Chat), &body.to_string(), 11).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["output"].as_array().unwrap().len(), 1, "{whole}");
    assert_eq!(
        whole["output"][0]["encrypted_content"],
        item["encrypted_content"]
    );
}

#[test]
fn a_summary_that_comes_back_is_read_by_a_model_of_any_provider() {
    let said = format!("Summary of the conversation so far:\n\n{SUMMARY}");
    let history = json!({"model": "m", "input": [
        item_of_the_stream(), {"role": "user", "content": "Go on."}]});
    let sent = serde_json::to_vec(&history).unwrap();
    for to in [Format::Chat, Format::Messages] {
        let target = Target::new("m", "another backend");
        let translated = request(Format::Responses, to, &sent, &target).unwrap();
        let body: Value = serde_json::from_slice(&translated.body).unwrap();
        assert_eq!(
            body["messages"][0],
            json!({"role": "user", "content": said}),
            "{to}"
        );
        assert_eq!(translated.dropped, Vec::<String>::new());
    }
    let native = without_seals(Format::Responses, &sent, false).unwrap();
    let body: Value = serde_json::from_slice(&native.body).unwrap();
    assert_eq!(
        body["input"][0],
        json!({"type": "message", "role": "user", "content": said})
    );
    assert!(native.dropped.is_empty(), "{:?}", native.dropped);
}

#[test]
fn a_call_or_nothing_instead_of_a_summary_is_an_unfit_answer() {
    let call = json!({"choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}});
    let nothing = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "  "}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}});
    for body in [call, nothing] {
        let whole = translate_body(&compacting(Format::Chat), &body.to_string(), 11);
        let fault = whole.map_err(|fault| fault.class);
        assert_eq!(fault, Err(FaultClass::UnfitAnswer), "{body}");
    }
}
