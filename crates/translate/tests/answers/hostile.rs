//! Providers that send what no provider should: nothing panics, nothing grows without bound,
//! and what looks finished is in order.

use crate::{strict, support::*};
use std::path::Path;
use tollgate_types::Format;
use tollgate_wire::{
    fault::FaultClass,
    stream::{Phase, StreamEnd},
};

/// A stream whose only event with anything in it is this, in its format's frame.
pub fn around(format: Format, event: &str) -> String {
    match format {
        Format::Chat => format!("data: {event}\n\ndata: [DONE]\n\n"),
        Format::Gemini => {
            format!("data: {event}\n\ndata: {{\"candidates\":[{{\"finishReason\":\"STOP\"}}]}}\n\n")
        }
        Format::Converse => format!(
            "data: {{\"type\":\"messageStart\"}}\n\ndata: {event}\n\ndata: {{\"type\":\"metadata\"}}\n\n"
        ),
        Format::Messages => format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"id\":\"msg_1\"}}}}\n\ndata: {event}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
        ),
        Format::Responses => format!(
            "data: {event}\n\ndata: {{\"type\":\"response.completed\",\"response\":{{\"status\":\"completed\",\"output\":[]}}}}\n\n"
        ),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// Events that cannot be what they claim to be.
const BROKEN: &[(Format, &str)] = &[
    (
        Format::Chat,
        r#"{"choices":[{"delta":{"content":{"a":1}}}]}"#,
    ),
    (Format::Chat, r#"{"choices":[{"delta":{"content":[1]}}]}"#),
    (Format::Chat, r#"{"choices":{"delta":{"content":"a"}}}"#),
    (
        Format::Chat,
        r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"choices":[{"index":-1,"delta":{"content":"a"}}]}"#,
    ),
    (
        Format::Converse,
        r#"{"type":"contentBlockDelta","delta":{"text":1}}"#,
    ),
    (Format::Converse, r#"{"type":"contentBlockDelta"}"#),
    (
        Format::Converse,
        r#"{"type":"contentBlockStart","start":1}"#,
    ),
    (
        Format::Converse,
        r#"{"type":"contentBlockStart","start":{"toolUse":{"toolUseId":"a","name":""}}}"#,
    ),
    (
        Format::Gemini,
        r#"{"candidates":[{"content":{"parts":[{"text":1}]}}]}"#,
    ),
    (
        Format::Gemini,
        r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"a"}]}}]}"#,
    ),
    (
        Format::Gemini,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"","args":{}}}]}}]}"#,
    ),
    (
        Format::Gemini,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":[1]}}]}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1e99,"id":"a","function":{"name":"a"}}]}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"choices":[{"delta":{"content":"a","content":"b"}}]}"#,
    ),
    (
        Format::Messages,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
    ),
    (
        Format::Messages,
        r#"{"type":"content_block_start","index":0}"#,
    ),
    (
        Format::Messages,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a"}}"#,
    ),
    (
        Format::Messages,
        r#"{"type":"content_block_start","index":-1,"content_block":{"type":"text"}}"#,
    ),
    (Format::Messages, r#"{"type":"content_block_delta"}"#),
    (Format::Messages, r#"{"type":["content_block_delta"]}"#),
    (
        Format::Responses,
        r#"{"type":"response.output_text.delta","delta":"a"}"#,
    ),
    (
        Format::Responses,
        r#"{"type":"response.output_text.delta","output_index":0}"#,
    ),
    (
        Format::Responses,
        r#"{"type":"response.output_item.added","output_index":0}"#,
    ),
    (
        Format::Responses,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call"}}"#,
    ),
    (
        Format::Responses,
        r#"{"type":"response.function_call_arguments.delta","output_index":7,"delta":"{}"}"#,
    ),
    (
        Format::Responses,
        r#"{"type":"response.output_item.added","output_index":1e30,"item":{}}"#,
    ),
];

#[test]
fn an_event_that_cannot_be_ends_the_stream_with_an_error() {
    for (format, event) in BROKEN {
        for caller in others(*format) {
            let stream = around(*format, event);
            let seen = translate(&notes(caller, *format), [stream.as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Failed, "{event}: {}", seen.out);
            let Phase::Failed(fault) = seen.phase else {
                panic!("{event}: {:?}", seen.phase);
            };
            // One without a type, or without a list of choices, is not an event of the format at all.
            let is_foreign = event.contains("\"type\":[") || event.contains("\"choices\":{");
            let expected = match is_foreign {
                true => FaultClass::ServerError,
                false => FaultClass::BrokenAnswer,
            };
            assert_eq!(fault.class, expected, "{event}");
            assert!(!seen.out.contains("[DONE]"), "{event}: {}", seen.out);
        }
    }
}

#[test]
fn an_event_that_no_format_defines_ends_the_stream_with_an_error() {
    for (format, event) in [
        (Format::Messages, r#"{"type":"future_event","x":1}"#),
        (
            Format::Responses,
            r#"{"type":"response.future.event","delta":{"a":1}}"#,
        ),
    ] {
        for caller in others(format) {
            let stream = around(format, event);
            let seen = translate(&notes(caller, format), [stream.as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Failed, "{event}: {}", seen.out);
            assert!(!seen.out.contains("future"), "{event}: {}", seen.out);
        }
    }
}

#[test]
fn unknown_parts_are_passed_over() {
    for (format, event) in [
        (Format::Chat, r#"{"choices":[]}"#),
        (Format::Chat, r#"{"choices":[{}]}"#),
        (
            Format::Chat,
            r#"{"choices":[{"delta":null}],"future":{"a":[1]}}"#,
        ),
        (
            Format::Messages,
            r#"{"type":"content_block_stop","index":9}"#,
        ),
        (
            Format::Responses,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"future_call","arguments":{"a":1}}}"#,
        ),
    ] {
        for caller in others(format) {
            let mut stream = around(format, event);
            if format == Format::Chat {
                stream.insert_str(
                    0,
                    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
                );
            }
            let seen = translate(&notes(caller, format), [stream.as_bytes()]);
            assert_eq!(seen.end, StreamEnd::Finished, "{event}: {:?}", seen.phase);
            strict::stream(caller, &seen.out).unwrap();
        }
    }
}

#[test]
fn nothing_comes_after_the_end() {
    for (name, format, stream) in own_streams() {
        for caller in others(format) {
            let notes = notes(caller, format);
            let once = translate(&notes, [stream.as_bytes()]);
            if once.phase != Phase::Terminal {
                // Failed, or without the marker that ends a stream of chat.
                continue;
            }
            let twice = format!("{stream}{stream}");
            assert_eq!(
                translate(&notes, [twice.as_bytes()]).out,
                once.out,
                "{name}"
            );
            let pieces = [stream.as_bytes(), stream.as_bytes()];
            assert_eq!(translate(&notes, pieces).out, once.out, "{name}");
        }
    }
}

/// Our own small streams.
fn own_streams() -> Vec<(String, Format, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers/golden");
    let mut streams = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let [_, format, "sse"] = name.split('.').collect::<Vec<_>>()[..] else {
            continue;
        };
        let format = Format::OF_CONVERSATIONS
            .into_iter()
            .find(|it| it.as_str() == format);
        let stream = std::fs::read_to_string(&path).unwrap();
        streams.extend(format.map(|format| (name.clone(), format, stream)));
    }
    streams.sort();
    assert!(streams.len() >= 50, "only {}", streams.len());
    streams
}

/// Numbers that are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).unwrap()
    }
}

/// The stream with some of its events lost, doubled, moved, or garbled.
fn garble(stream: &str, dice: &mut Dice) -> String {
    let mut events: Vec<String> = stream.split_inclusive("\n\n").map(str::to_owned).collect();
    for _ in 0..=dice.roll(3) {
        let (a, b) = (dice.roll(events.len()), dice.roll(events.len()));
        match dice.roll(5) {
            0 if events.len() > 1 => {
                events.remove(a);
            }
            1 => events.insert(b, events[a].clone()),
            2 => events.swap(a, b),
            3 => {
                let digits = [
                    "0",
                    "1",
                    "7",
                    "-1",
                    "1e9",
                    "18446744073709551615",
                    "null",
                    "\"x\"",
                ];
                let event = events[a].clone();
                let at = event.find(":0").or(event.find(":1"));
                if let Some(at) = at {
                    let digit = digits[dice.roll(digits.len())];
                    events[a].replace_range(at + 1..at + 2, digit);
                }
            }
            _ => {
                let words = [
                    ("delta", "item"),
                    ("text", "thinking"),
                    ("tool_use", "text"),
                    ("content", "refusal"),
                    ("arguments", "name"),
                    ("message", "reasoning"),
                    ("stop", "start"),
                    ("added", "done"),
                    ("\"", ""),
                    ("{", "["),
                ];
                let (from, to) = words[dice.roll(words.len())];
                events[a] = events[a].replacen(from, to, 1 + dice.roll(2));
            }
        }
    }
    events.concat()
}

#[test]
fn a_garbled_stream_ends_in_an_error_or_in_order() {
    let rounds: u64 = std::env::var("ROUNDS").map_or(60, |text| text.parse().unwrap());
    let mut ends = [0u64; 3];
    for (name, format, stream) in own_streams() {
        for seed in 1..=rounds {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let garbled = garble(&stream, &mut dice);
            for caller in others(format) {
                let notes = notes(caller, format);
                let seen = translate(&notes, random_chunks(garbled.as_bytes(), seed));
                ends[match seen.end {
                    StreamEnd::Finished => 0,
                    StreamEnd::Cut => 1,
                    StreamEnd::Failed => 2,
                }] += 1;
                let ended = match seen.end {
                    StreamEnd::Finished => seen.out,
                    _ => format!("{}{}", seen.out, seen.failure),
                };
                let read = strict::stream(caller, &ended);
                assert_eq!(
                    read.is_ok(),
                    seen.end == StreamEnd::Finished,
                    "{name} for {caller}, seed {seed}: {read:?}\n{garbled}\nbecame\n{ended}"
                );
            }
        }
    }
    eprintln!("finished, cut, failed: {ends:?}");
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
}

#[test]
fn a_garbled_answer_is_an_error_or_in_order() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers/golden");
    let mut results = [0u64; 2];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let [_, format, "json"] = name.split('.').collect::<Vec<_>>()[..] else {
            continue;
        };
        let Some(format) = Format::OF_CONVERSATIONS
            .into_iter()
            .find(|it| it.as_str() == format)
        else {
            continue;
        };
        let answer = std::fs::read_to_string(&path).unwrap();
        for seed in 1..=300u64 {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let garbled = garble_answer(&answer, &mut dice);
            for caller in others(format) {
                let result = translate_body(&notes(caller, format), &garbled, 4096);
                results[usize::from(result.is_ok())] += 1;
                if let Ok(body) = result
                    && let Err(complaint) = strict::body(caller, &body)
                {
                    panic!(
                        "{name} for {caller}, seed {seed}: {complaint}\n{garbled}\nbecame\n{body}"
                    );
                }
            }
        }
    }
    eprintln!("refused, in order: {results:?}");
    assert!(results.iter().all(|count| *count > 0), "{results:?}");
}

/// The answer with some of its lines lost, doubled, moved, or with other values.
fn garble_answer(answer: &str, dice: &mut Dice) -> String {
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    for _ in 0..=dice.roll(2) {
        let (a, b) = (dice.roll(lines.len()), dice.roll(lines.len()));
        match dice.roll(6) {
            0 if lines.len() > 1 => {
                lines.remove(a);
            }
            1 => lines.insert(b, lines[a].clone()),
            2 => lines.swap(a, b),
            _ => {
                let values = ["null", "[]", "{}", "\"\"", "\"x\"", "-1", "1e9", "true"];
                let value = values[dice.roll(values.len())];
                let line = lines[a].clone();
                if let Some((key, rest)) = line.split_once(": ") {
                    let comma = if rest.ends_with(',') { "," } else { "" };
                    if !rest.ends_with(['{', '[']) {
                        lines[a] = format!("{key}: {value}{comma}");
                    }
                }
            }
        }
    }
    lines.join("\n")
}
