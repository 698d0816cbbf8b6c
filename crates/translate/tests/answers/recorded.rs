//! Every recorded answer in both other formats: nothing of it is lost, and the strictest reader
//! of the format takes it.

use crate::{strict, summary, support::*};
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use tollgate_translate::AskedSearch;
use tollgate_types::{Format, Usage};
use tollgate_wire::{
    answer::{AnswerKind, AnswerReport, AnswerScanner, StopReason},
    stream::{Phase, StreamEnd, StreamOptions, StreamScanner},
};

/// Streams up to this size are cut at every byte.
const SHORT: usize = 6 * 1024;

fn streams() -> Vec<(String, Format, String)> {
    let mut streams: BTreeMap<(Format, String), String> = BTreeMap::new();
    for record in recorded() {
        if record.is_stream && record.status == 200 {
            let name = format!("{}.jsonl:{}", record.format, record.line + 1);
            streams
                .entry((record.format, record.response))
                .or_insert(name);
        }
    }
    let named = streams.into_iter();
    named
        .map(|((format, stream), name)| (name, format, stream))
        .collect()
}

fn is_error(stream: &str) -> bool {
    stream.contains("event: error")
}

fn scan(format: Format, stream: &str) -> StreamScanner {
    let mut scanner = StreamScanner::new(format, StreamOptions::default());
    scanner.push(&Bytes::copy_from_slice(stream.as_bytes()), &mut Vec::new());
    assert_eq!(
        scanner.finish(&mut Vec::new()),
        StreamEnd::Finished,
        "{stream}"
    );
    scanner
}

/// Letters and digits alone: paragraphs are set differently.
fn letters(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn a_recorded_stream_keeps_its_meaning_and_the_order_of_the_callers_format() {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, format, stream) in streams() {
        for caller in others(format) {
            let direction = format!("{format} -> {caller}");
            let seen = translate(&notes(caller, format), [stream.as_bytes()]);
            if is_error(&stream) {
                assert_eq!(seen.end, StreamEnd::Failed, "{name}");
                assert!(matches!(seen.phase, Phase::Failed(_)));
                *counts.entry(format!("{direction}, failed")).or_default() += 1;
                continue;
            }
            assert_eq!(
                seen.end,
                StreamEnd::Finished,
                "{name} for {caller}: {}",
                seen.out
            );
            let found = strict::stream(caller, &seen.out).unwrap_or_else(|complaint| {
                panic!("{name} for {caller}: {complaint}\n{}", seen.out)
            });
            let expected = summary::of_stream(format, &events(&stream));
            compare(&name, caller, &found, &expected);
            let (source, target) = (scan(format, &stream), scan(caller, &seen.out));
            assert_eq!(
                target.usage().usage,
                usage_for(caller, source.usage().usage),
                "{name}"
            );
            assert_eq!(target.usage().plausible(), seen.usage.plausible(), "{name}");
            // A stream of Gemini ends with the connection.
            if caller != Format::Gemini {
                assert_eq!(*target.phase(), Phase::Terminal);
            }
            let (found, expected) = (target.facts().stop, source.facts().stop);
            assert_eq!(comparable(found), comparable(expected), "{name}");
            *counts.entry(direction).or_default() += 1;
        }
    }
    eprintln!("recorded streams: {counts:#?}");
}

/// The usage as a caller's format reports it: Gemini does not tell what was written to a cache from
/// other input.
fn usage_for(caller: Format, usage: Usage) -> Usage {
    match caller {
        Format::Gemini => Usage {
            input: usage.input + usage.cache_write,
            cache_write: 0,
            ..usage
        },
        // Clients of messages get the gateway's count of the notes.
        Format::Messages if usage.total_input() == 0 => Usage { input: 11, ..usage },
        _ => usage,
    }
}

/// Compares the contents of an answer with those of its translation.
fn compare(name: &str, caller: Format, found: &summary::Summary, expected: &summary::Summary) {
    // Gemini has no refusals.
    let (text, refusal) = match caller {
        Format::Gemini => (expected.text.clone() + &expected.refusal, String::new()),
        _ => (expected.text.clone(), expected.refusal.clone()),
    };
    assert_eq!(found.text, text, "{name} for {caller}");
    assert_eq!(
        letters(&found.thinking),
        letters(&expected.thinking),
        "{name}"
    );
    assert_eq!(found.refusal, refusal, "{name}");
    assert_eq!(found.calls.len(), expected.calls.len(), "{name}");
    for (found, expected) in found.calls.iter().zip(&expected.calls) {
        assert_eq!(found.name, expected.name, "{name}");
        assert_eq!(found.arguments(), expected.arguments(), "{name}");
        // Where a provider gave none, one is made up.
        assert!(found.id == expected.id || expected.id.is_empty(), "{name}");
    }
    // Thoughts without a signature are sealed as their provider's own.
    let sealed = usize::from(!expected.thinking.is_empty());
    assert_eq!(
        found.state.len(),
        expected.state.len().max(sealed),
        "{name} for {caller}"
    );
    if !matches!(caller, Format::Messages | Format::Gemini) {
        assert_eq!(found.pages, expected.pages, "{name} for {caller}");
    }
}

/// Responses do not distinguish calls from text; a reason that no format knows becomes `done`.
fn comparable(stop: Option<StopReason>) -> StopReason {
    match stop {
        Some(StopReason::ToolCalls | StopReason::Other) | None => StopReason::Done,
        Some(stop) => stop,
    }
}

#[test]
fn a_recorded_answer_keeps_its_meaning_in_the_callers_format() {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for record in recorded() {
        if record.is_stream || record.status != 200 {
            continue;
        }
        let (format, body) = (record.format, &record.response);
        let name = format!("{format}.jsonl:{}", record.line + 1);
        for caller in others(format) {
            let direction = format!("{format} -> {caller}");
            let notes = notes(caller, format);
            let native: Value = serde_json::from_str(body).unwrap_or_default();
            let answer = translate_body(&notes, body, body.len().max(1));
            let is_answer = native["choices"][0]["message"].is_object()
                || native["content"].is_array()
                || native["output"].is_array() && native["status"] != "queued";
            assert_eq!(answer.is_ok(), is_answer, "{name}: {answer:?}");
            let Ok(answer) = answer else {
                *counts.entry(format!("{direction}, no answer")).or_default() += 1;
                continue;
            };
            assert_eq!(translate_body(&notes, body, 7).unwrap(), answer);
            let found = strict::body(caller, &answer)
                .unwrap_or_else(|complaint| panic!("{name} for {caller}: {complaint}\n{answer}"));
            compare(&name, caller, &found, &summary::of_body(format, &native));
            let (source, target) = (scan_body(format, body), scan_body(caller, &answer));
            let expected = usage_for(caller, source.usage().usage);
            assert_eq!(target.usage().usage, expected, "{name}");
            let (found, expected) = (target.facts().stop, source.facts().stop);
            assert_eq!(comparable(found), comparable(expected), "{name}");
            *counts.entry(direction).or_default() += 1;
        }
    }
    eprintln!("recorded answers: {counts:#?}");
}

fn scan_body(format: Format, body: &str) -> AnswerScanner {
    let mut scanner = AnswerScanner::new(format);
    scanner.push(body.as_bytes());
    assert_eq!(scanner.finish(), AnswerKind::Answer);
    scanner
}

/// How many searches of an answer have ended.
fn searches(format: Format, answer: &str) -> usize {
    let ended = match format {
        Format::Messages => "\"type\":\"web_search_tool_result\"",
        _ => "\"type\":\"response.web_search_call.searching\"",
    };
    answer.replace(": ", ":").matches(ended).count()
}

#[test]
fn a_recorded_search_appears_in_the_callers_format() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (name, format, stream) in streams() {
        let number = searches(format, &stream);
        if format == Format::Chat || number == 0 {
            continue;
        }
        let caller = others(format).find(|it| *it != Format::Chat).unwrap();
        let mut notes = notes(caller, format);
        notes.search = Some(AskedSearch { sources: true });
        let seen = translate(&notes, [stream.as_bytes()]);
        assert_eq!(translate(&notes, stream.as_bytes().chunks(1)), seen);
        assert_eq!(seen.end, StreamEnd::Finished, "{name}: {}", seen.out);
        let found = strict::stream(caller, &seen.out)
            .unwrap_or_else(|complaint| panic!("{name}: {complaint}\n{}", seen.out));
        let expected = summary::of_stream(format, &events(&stream));
        assert_eq!(
            (&found.text, &found.pages),
            (&expected.text, &expected.pages),
            "{name}"
        );
        assert_eq!(searches(caller, &seen.out), number, "{name}: {}", seen.out);
        *counts.entry(format!("{format} -> {caller}")).or_default() += number;
    }
    eprintln!("recorded searches: {counts:#?}");
}

#[test]
fn a_recorded_stream_becomes_the_same_in_any_chunks() {
    for (name, format, stream) in streams() {
        let bytes = stream.as_bytes();
        for caller in others(format) {
            let notes = notes(caller, format);
            let expected = translate(&notes, [bytes]);
            assert_eq!(
                translate(&notes, bytes.chunks(1)),
                expected,
                "{name} byte by byte"
            );
            for seed in 0..4 {
                let seen = translate(&notes, random_chunks(bytes, seed));
                assert_eq!(seen, expected, "{name}, seed {seed}");
            }
            if bytes.len() <= SHORT {
                for cut in 1..bytes.len() {
                    let (head, tail) = bytes.split_at(cut);
                    assert_eq!(
                        translate(&notes, [head, tail]),
                        expected,
                        "{name} cut at {cut}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_recorded_stream_that_breaks_off_never_looks_finished() {
    for (name, format, stream) in streams() {
        if is_error(&stream) {
            continue;
        }
        let whole = translate(
            &notes(others(format).next().unwrap(), format),
            [stream.as_bytes()],
        );
        for caller in others(format) {
            let notes = notes(caller, format);
            let ends = stream.match_indices("\n\n").map(|(at, _)| at + 2);
            let ends: Vec<_> = ends.collect();
            for at in ends.iter().step_by(1 + ends.len() / 40) {
                let seen = translate(&notes, [&stream.as_bytes()[..*at]]);
                if seen.end == StreamEnd::Finished {
                    assert_eq!(whole.end, StreamEnd::Finished);
                    strict::stream(caller, &seen.out).unwrap();
                    continue;
                }
                let ended = format!("{}{}", seen.out, seen.failure);
                assert!(
                    strict::stream(caller, &ended).is_err(),
                    "{name} cut at {at}"
                );
                let mut scanner = StreamScanner::new(caller, StreamOptions::default());
                scanner.push(&Bytes::from(ended), &mut Vec::new());
                assert!(
                    matches!(scanner.phase(), Phase::Failed(_)),
                    "{name} cut at {at}"
                );
            }
        }
    }
}
