//! Every recorded stream: cut anywhere it gives the same, and the usage that its provider
//! reported.

use super::*;
use serde_json::Value;
use std::{collections::BTreeSet, path::PathBuf};

/// Streams up to this size are cut at every byte.
const SHORT: usize = 4 * 1024;
const RANDOM_CHUNKINGS: u64 = 8;

/// What of a stream passes byte for byte: all but what stands in comments.
fn without_comments(stream: &str) -> String {
    let lines = stream.split_inclusive('\n');
    lines
        .map(|line| if line.starts_with(':') { ":\n" } else { line })
        .collect()
}

/// All distinct recorded streams, or `None` with a note that the test is skipped.
pub(crate) fn recorded() -> Option<Vec<(Format, String)>> {
    let folder = std::env::var_os("TOLLGATE_FIXTURES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        eprintln!("skipped: no recorded traffic in {}", folder.display());
        return None;
    }
    let mut streams = BTreeSet::new();
    // There are no recordings of Gemini.
    for format in Format::OF_CLIENTS
        .into_iter()
        .filter(|it| *it != Format::Gemini)
    {
        let text = std::fs::read_to_string(folder.join(format!("{format}.jsonl"))).unwrap();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            if record["stream"] == true && record["status"] == 200 {
                streams.insert((format, record["response"].as_str().unwrap().to_owned()));
            }
        }
    }
    assert!(streams.len() >= 30, "only {} streams", streams.len());
    Some(streams.into_iter().collect())
}

/// The data of each event, read in the plainest way.
fn data(stream: &str) -> impl Iterator<Item = Value> {
    stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str(data).ok())
}

fn is_error(event: &Value) -> bool {
    !event["error"].is_null() || event["type"] == "response.failed"
}

/// Usage by an independent reading: the last number reported for each field.
fn usage_of(format: Format, stream: &str) -> Usage {
    let mut last = serde_json::Map::new();
    for event in data(stream) {
        let usage = [
            &event["usage"],
            &event["message"]["usage"],
            &event["response"]["usage"],
            &event["x_groq"]["usage"],
        ];
        for usage in usage.into_iter().filter_map(Value::as_object) {
            last.extend(usage.clone());
        }
    }
    let usage = Value::Object(last);
    let n = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    if format == Format::Messages {
        return Usage {
            input: n("/input_tokens"),
            cache_read: n("/cache_read_input_tokens"),
            cache_write: n("/cache_creation_input_tokens"),
            output: n("/output_tokens"),
            reasoning: n("/output_tokens_details/thinking_tokens"),
        };
    }
    let (cache_read, cache_write) = match format {
        Format::Chat => (
            n("/prompt_tokens_details/cached_tokens"),
            n("/prompt_tokens_details/cache_write_tokens"),
        ),
        _ => (
            n("/input_tokens_details/cached_tokens"),
            n("/input_tokens_details/cache_write_tokens"),
        ),
    };
    Usage {
        input: n("/prompt_tokens") + n("/input_tokens") - cache_read - cache_write,
        cache_read,
        cache_write,
        output: n("/completion_tokens") + n("/output_tokens"),
        reasoning: n("/completion_tokens_details/reasoning_tokens")
            + n("/output_tokens_details/reasoning_tokens"),
    }
}

/// Cuts a stream into chunks of 1 to `2^n` bytes, the same ones for the same seed.
pub(crate) fn random_chunks(stream: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let longest = 1 << random(11);
    let (mut chunks, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let size = usize::try_from(random(longest) + 1)
            .unwrap()
            .min(rest.len());
        let (chunk, after) = rest.split_at(size);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// What must not depend on the chunks. Phases run through within one chunk are not seen.
fn settled(mut seen: Seen) -> Seen {
    seen.phases.drain(..seen.phases.len() - 1);
    seen
}

#[test]
fn a_recorded_stream_passes_whole_and_scans_to_the_usage_its_provider_reported() {
    for (format, stream) in recorded().into_iter().flatten() {
        let seen = whole(format, &stream);
        if data(&stream).any(|event| is_error(&event)) {
            assert_eq!(seen.end, StreamEnd::Failed);
            let error = stream.find("event: error").unwrap();
            assert_eq!(seen.out, without_comments(&stream[..error]));
            continue;
        }
        let expected = without_comments(&stream);
        assert!(seen.out == expected, "{stream}\nbecame\n{}", seen.out);
        assert_eq!(seen.end, StreamEnd::Finished, "{stream}");
        assert_eq!(seen.usage.usage, usage_of(format, &stream), "{stream}");
        assert_eq!(seen.usage.plausible(), Some(seen.usage.usage), "{stream}");
        // Beginnings and pings only say that more will come.
        let is_reported = |event: &Value| {
            !matches!(
                event["type"].as_str().unwrap_or_default(),
                "ping"
                    | "message_start"
                    | "response.created"
                    | "response.in_progress"
                    | "response.queued"
            )
        };
        let events = data(&stream).filter(is_reported).count() as u64;
        assert_eq!(seen.events, events);
        // One provider leaves both empty.
        let named = |key: &str| {
            let places = |event: &Value| {
                [&event[key], &event["message"][key], &event["response"][key]]
                    .map(|value| value.as_str().unwrap_or_default().to_owned())
            };
            let mut names = data(&stream).flat_map(|event| places(&event));
            names.find(|name| !name.is_empty())
        };
        assert_eq!(seen.facts.id.map(String::from), named("id"), "{stream}");
        assert_eq!(seen.facts.model.map(String::from), named("model"));
        // The same provider ends chat without a finish reason.
        let is_silent = format == Format::Chat && !stream.contains("\"finish_reason\":\"");
        assert_eq!(seen.facts.stop.is_none(), is_silent, "{stream}");
    }
}

#[test]
fn a_recorded_stream_gives_the_same_in_any_chunks() {
    for (format, stream) in recorded().into_iter().flatten() {
        for options in [StreamOptions::default(), strip()] {
            let bytes = stream.as_bytes();
            let expected = settled(scan(format, options, [bytes]));
            assert_eq!(settled(bytewise(format, options, &stream)), expected);
            for seed in 0..RANDOM_CHUNKINGS {
                let seen = scan(format, options, random_chunks(bytes, seed));
                assert_eq!(settled(seen), expected, "seed {seed}");
            }
            if stream.len() <= SHORT {
                for cut in 1..stream.len() {
                    let (head, tail) = bytes.split_at(cut);
                    let seen = scan(format, options, [head, tail]);
                    assert_eq!(settled(seen), expected, "cut at {cut}");
                }
            }
        }
    }
}

#[test]
fn stripping_takes_out_of_a_recorded_stream_the_usage_chunk_and_nothing_else() {
    let mut taken_out = 0;
    for (format, stream) in recorded().into_iter().flatten() {
        if data(&stream).any(|event| is_error(&event)) {
            continue;
        }
        let is_usage_alone = |event: &str| {
            data(event).any(|event| {
                event["choices"].as_array().is_some_and(Vec::is_empty) && event["usage"].is_object()
            })
        };
        let expected: String = without_comments(&stream)
            .split_inclusive("\n\n")
            .filter(|event| !(format == Format::Chat && is_usage_alone(event)))
            .collect();
        let seen = scan(format, strip(), random_chunks(stream.as_bytes(), 3));
        assert!(seen.out == expected, "{stream}\nbecame\n{}", seen.out);
        assert_eq!(seen.usage, whole(format, &stream).usage);
        taken_out += usize::from(expected != stream);
    }
    if recorded().is_some() {
        assert!(taken_out >= 8, "only {taken_out}");
    }
}

#[test]
fn an_error_in_a_recorded_stream_never_leaves() {
    const MARK: &str = "zebra";
    for (format, stream) in recorded().into_iter().flatten() {
        let error = match format {
            Format::Chat => format!("data: {{\"error\":{{\"message\":\"{MARK}\"}}}}\n\n"),
            _ => format!(
                "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"message\":\"{MARK}\"}}}}\n\n"
            ),
        };
        let end = stream.find("event: error").unwrap_or(stream.len());
        let ends = stream[..end].match_indices("\n\n").map(|(at, _)| at + 2);
        let boundaries: Vec<_> = [0].into_iter().chain(ends).collect();
        // Of the long streams, a sample.
        for at in boundaries.iter().step_by(1 + boundaries.len() / 40) {
            let (before, after) = stream.split_at(*at);
            let broken = format!("{before}{error}{after}");
            let seen = scan(
                format,
                StreamOptions::default(),
                random_chunks(broken.as_bytes(), 5),
            );
            let expected = without_comments(before);
            assert!(seen.out == expected || after.is_empty(), "{broken}");
            assert!(!seen.out.contains(MARK) && !seen.failure.contains(MARK));
            assert!(seen.end == StreamEnd::Failed || after.is_empty());
        }
    }
}
