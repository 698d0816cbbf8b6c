//! Stop sequences that the gateway enforces, because responses has none.

use crate::{strict, support::*};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate_translate::{StreamTranslator, TranslationNotes};
use tollgate_types::Format;
use tollgate_wire::stream::{Phase, StreamEnd};

fn stopping(caller: Format, sequences: &[&str]) -> TranslationNotes {
    TranslationNotes {
        stop: sequences.iter().map(|it| (*it).to_owned()).collect(),
        ..notes(caller, Format::Responses)
    }
}

/// The events of a message that says these pieces, without its end.
fn message(pieces: &[&str]) -> Vec<String> {
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}),
    ];
    events.extend(pieces.iter().map(|piece| {
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece})
    }));
    events.iter().map(|it| format!("data: {it}\n\n")).collect()
}

/// What the caller reads of a stream: its text, why it ended, and the sequence.
fn summary(caller: Format, stream: &str) -> (String, Value, Value) {
    let (mut text, mut reason, mut sequence) = (String::new(), Value::Null, Value::Null);
    for (_, data) in events(stream) {
        let Ok(event) = serde_json::from_str::<Value>(&data) else {
            continue;
        };
        let (piece, why) = match caller {
            Format::Messages => ("/delta/text", "/delta/stop_reason"),
            _ => ("/choices/0/delta/content", "/choices/0/finish_reason"),
        };
        if let Some(piece) = event.pointer(piece).and_then(Value::as_str) {
            text.push_str(piece);
        }
        if let Some(why) = event.pointer(why).filter(|why| !why.is_null()) {
            reason = why.clone();
        }
        if let Some(found) = event.pointer("/delta/stop_sequence") {
            sequence = found.clone();
        }
    }
    (text, reason, sequence)
}

#[test]
fn a_stream_ends_at_the_sequence_and_its_provider_is_let_go() {
    for (caller, expected) in [
        (Format::Chat, ("ab", json!("stop"), Value::Null)),
        (
            Format::Messages,
            ("ab", json!("stop_sequence"), json!("<end>")),
        ),
    ] {
        let notes = stopping(caller, &["\n\n", "<end>"]);
        let mut translator = StreamTranslator::new(Arc::new(notes), context());
        let mut left = Vec::new();
        let mut out = Vec::new();
        for event in message(&["a", "b<", "en", "d>c"]) {
            assert!(!translator.is_cut_short());
            translator.push(event.as_bytes(), &mut out);
            left.push(out.drain(..).fold(String::new(), |all, piece| {
                all + std::str::from_utf8(&piece).unwrap()
            }));
        }
        assert!(translator.is_cut_short(), "the provider has not ended");
        assert_eq!(*translator.phase(), Phase::Terminal);
        assert_eq!(left[4], "", "it is held back");
        let stream = left.concat();
        strict::stream(caller, &stream).unwrap();
        let (text, reason, sequence) = summary(caller, &stream);
        assert_eq!((text.as_str(), reason, sequence), expected);
        translator.push(message(&["more"])[2].as_bytes(), &mut out);
        assert_eq!(translator.finish(&mut out), StreamEnd::Finished);
        assert!(out.is_empty(), "nothing follows the end");
    }
}

#[test]
fn held_text_leaves_with_the_end_of_its_text() {
    for caller in [Format::Chat, Format::Messages] {
        let mut stream = message(&["a<", "en"]).concat();
        stream.push_str("data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"a<en\"}]}}\n\n");
        stream.push_str("data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\n\n");
        let seen = translate(&stopping(caller, &["<end>"]), [stream.as_bytes()]);
        let (text, reason, sequence) = summary(caller, &seen.out);
        assert_eq!((text.as_str(), sequence), ("a<en", Value::Null));
        let whole = ["stop", "end_turn"];
        assert!(whole.contains(&reason.as_str().unwrap()), "{reason}");
    }
}

#[test]
fn a_whole_answer_ends_at_the_sequence_and_reports_what_its_provider_did() {
    let body = json!({
        "id": "resp_1", "object": "response", "status": "completed", "model": "m",
        "output": [
            {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "one END two", "annotations": []}]},
            {"type": "function_call", "id": "f", "call_id": "c", "name": "now", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 9, "total_tokens": 12},
    });
    let ask = |caller| {
        let answer = translate_body(&stopping(caller, &["END"]), &body.to_string(), 7).unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    let chat = ask(Format::Chat);
    assert_eq!(chat["choices"][0]["message"]["content"], "one ", "{chat}");
    assert_eq!(chat["choices"][0]["message"].get("tool_calls"), None);
    assert_eq!(chat["choices"][0]["finish_reason"], "stop");
    assert_eq!(chat["usage"]["completion_tokens"], 9);
    let messages = ask(Format::Messages);
    assert_eq!(messages["content"][0]["text"], "one ", "{messages}");
    assert_eq!(messages["content"].as_array().unwrap().len(), 1);
    assert_eq!(messages["stop_reason"], "stop_sequence");
    assert_eq!(messages["stop_sequence"], "END");
}

#[test]
fn half_a_pair_before_a_sequence_is_held_with_it() {
    let delta = |text: &str| {
        format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"{text}\"}}\n\n"
        )
    };
    for (pieces, expected) in [
        ([r"a<\ud83d", r"\ude00<end>"], r#""a","<😀""#),
        (["a<e", r"\ud83d"], r#""a","<e","\ud83d""#),
        ([r"a<end>\ud83d", r"\ude00"], r#""a""#),
    ] {
        let stream = message(&[]).concat()
            + &pieces.map(delta).concat()
            + "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n";
        let seen = translate(&stopping(Format::Chat, &["<end>"]), [stream.as_bytes()]);
        let pieces = seen.out.split("\"content\":").skip(1);
        let pieces = pieces.filter_map(|rest| rest.split(['}', ',']).next());
        let left: Vec<_> = pieces.filter(|piece| piece.len() > 2).collect();
        assert_eq!(left.join(","), expected, "{}", seen.out);
    }
}

#[test]
fn log_probabilities_end_with_the_text() {
    let token = |token: &str| json!({"token": token, "logprob": -0.5, "bytes": token.as_bytes(), "top_logprobs": []});
    let tokens = ["one ", "ü", "END", " two"];
    let list: Vec<_> = tokens.iter().map(|it| token(it)).collect();
    let shown = |list: &Value| -> Vec<String> {
        let entries = list.as_array().unwrap().iter();
        entries
            .map(|it| it["token"].as_str().unwrap().to_owned())
            .collect()
    };
    let body = json!({
        "id": "resp_1", "object": "response", "status": "completed", "model": "m",
        "output": [{"type": "message", "id": "m", "role": "assistant", "content": [
            {"type": "output_text", "text": tokens.concat(), "annotations": [], "logprobs": list}]}],
        "usage": {"input_tokens": 3, "output_tokens": 9, "total_tokens": 12},
    });
    let ask = |stop: &[&str]| {
        let answer = translate_body(&stopping(Format::Chat, stop), &body.to_string(), 7).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        shown(&answer["choices"][0]["logprobs"]["content"])
    };
    assert_eq!(ask(&["END"]), ["one ", "ü"]);
    assert_eq!(ask(&["no such sequence"]), tokens);
    let delta = |tokens: &[&str]| {
        let list: Vec<_> = tokens.iter().map(|it| token(it)).collect();
        let event = json!({"type": "response.output_text.delta", "output_index": 0,
            "content_index": 0, "delta": tokens.concat(), "logprobs": list});
        format!("data: {event}\n\n")
    };
    let stream = message(&[]).concat() + &delta(&["a"]) + &delta(&["b", "END", "c"]);
    let seen = translate(&stopping(Format::Chat, &["END"]), [stream.as_bytes()]);
    let found: Vec<_> = events(&seen.out)
        .iter()
        .filter_map(|(_, data)| serde_json::from_str::<Value>(data).ok())
        .filter_map(|event| event.pointer("/choices/0/logprobs/content").map(shown))
        .collect();
    assert_eq!(found.concat(), ["a", "b"], "{}", seen.out);
}

proptest! {
    #[test]
    fn the_caller_reads_the_same_text_however_the_stream_is_cut(
        pieces in proptest::collection::vec("[ab\n]{1,3}", 1..12),
        sequence in "[ab\n]{1,3}",
        seed in any::<u64>(),
    ) {
        let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
        let stream = message(&pieces).concat() + "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
        let notes = stopping(Format::Messages, &[&sequence]);
        let seen = translate(&notes, random_chunks(stream.as_bytes(), seed));
        prop_assert_eq!(seen.end, StreamEnd::Finished);
        let (text, reason, found) = summary(Format::Messages, &seen.out);
        let whole = pieces.concat();
        let (before, expected) = match whole.split_once(&sequence) {
            Some((before, _)) => (before, (json!("stop_sequence"), json!(sequence))),
            None => (whole.as_str(), (json!("end_turn"), Value::Null)),
        };
        // A text of white space alone is no block.
        let said = if before.trim().is_empty() { "" } else { before };
        prop_assert_eq!((text.as_str(), (reason, found)), (said, expected));
    }
}
