//! What it costs to look into a request body: the lexer alone, the whole peek and the
//! splice, with serde_json beside them in the same run.
//!
//! `serde_json (skip)` checks the grammar and nothing else; `serde_json (fields)` finds
//! the top-level fields as a borrowed struct does. Neither distinguishes text from media, finds
//! duplicate keys or takes chunks.

#![expect(
    clippy::expect_used,
    reason = "a bench that cannot go on has nothing else to say"
)]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;
use std::{borrow::Cow, hint::black_box, time::Duration};
use tollgate_types::Format;
use tollgate_wire::{
    body::BodyEdits,
    json::{JsonError, Lexer, Sink},
    peek::{PeekLimits, Peeked, Peeker},
};

/// How a body arrives: what one read from a socket brings.
const READ: usize = 64 * 1024;

/// A sink that needs nothing.
struct Nothing;

impl Sink for Nothing {
    type Error = JsonError;
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "what is measured is the reading")]
struct Fields<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    stream: Option<bool>,
    max_tokens: Option<u64>,
    n: Option<u64>,
    messages: IgnoredAny,
    tools: Option<IgnoredAny>,
}

fn chat(messages: &serde_json::Value) -> String {
    json!({"model": "alpha-opus-4-8", "messages": messages, "max_tokens": 1024, "stream": true})
        .to_string()
}

/// English-like text with a line break in every sixty bytes or so.
fn prose(len: usize) -> String {
    let line = "The quick brown fox jumps over the lazy dog, and then it rests.\n";
    line.chars().cycle().take(len).collect()
}

fn small() -> String {
    chat(&json!([
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": prose(820)},
    ]))
}

fn long_prompt() -> String {
    chat(&json!([{"role": "user", "content": prose(100_000)}]))
}

/// Code as it is pasted: a quote, line break or tab in every 25 bytes or so.
fn code_prompt() -> String {
    let lines = "Read \"src/lib.rs\" and say why `fn poll(&mut self)` never wakes: the waker \
        is cloned once.\n\tif let Some(waker) = self.waker.take() {}\n";
    let text: String = lines.chars().cycle().take(100_000).collect();
    chat(&json!([{"role": "user", "content": text}]))
}

fn chinese_prompt() -> String {
    let text: String = "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。\n"
        .chars()
        .cycle()
        .take(34_000)
        .collect();
    chat(&json!([{"role": "user", "content": text}]))
}

fn image() -> String {
    let url = format!(
        "data:image/png;base64,{}",
        "iVBORw0KGgoA".repeat(4 * 1024 * 1024 / 12)
    );
    chat(&json!([{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]}]))
}

fn tool(number: usize) -> serde_json::Value {
    let property = |n: usize| {
        json!({
            "type": if n == 3 { "integer" } else { "string" },
            "description": format!("The {n}th argument of the tool."),
            "enum": ["one", "two", "three"],
            "minimum": 0,
        })
    };
    let properties: serde_json::Map<_, _> = (0..8)
        .map(|n| (format!("argument_{n}"), property(n)))
        .collect();
    json!({"type": "function", "function": {
        "name": format!("tool_{number}"),
        "description": "Reads a file and says what is in it. Use it before you edit.",
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": ["argument_0", "argument_1"],
            "additionalProperties": false,
        },
    }})
}

/// What a coding agent sends: a long system prompt, tools, a history of calls.
fn agent() -> String {
    let mut messages = vec![json!({"role": "system", "content": prose(9_000)})];
    for turn in 0..20 {
        let id = format!("call_{turn:024}");
        messages.push(
            json!({"role": "assistant", "content": null, "tool_calls": [{
                "id": id, "type": "function",
                "function": {"name": "tool_3", "arguments": "{\"argument_0\":\"src/main.rs\"}"},
            }]}),
        );
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": prose(600)}));
    }
    let tools: Vec<_> = (0..20).map(tool).collect();
    json!({"model": "alpha-opus-4-8", "messages": messages, "tools": tools,
        "max_tokens": 32000, "stream": true})
    .to_string()
}

/// Nothing but tool schemas: as dense as requests become.
fn dense() -> String {
    let tools: Vec<_> = (0..60).map(tool).collect();
    json!({"model": "m", "messages": [{"role": "user", "content": ""}], "tools": tools}).to_string()
}

fn bodies() -> Vec<(&'static str, String)> {
    vec![
        ("1 KB", small()),
        ("100 KB prose", long_prompt()),
        ("100 KB code", code_prompt()),
        ("100 KB chinese", chinese_prompt()),
        ("50 KB agent", agent()),
        ("dense schemas", dense()),
        ("4 MB image", image()),
    ]
}

fn peek(body: &str) -> Peeked {
    let mut peeker = Peeker::new(Format::Chat, &PeekLimits::default());
    for chunk in body.as_bytes().chunks(READ) {
        peeker.push(chunk).expect("the body is sound");
    }
    peeker.finish().expect("the body is sound")
}

fn reading(criterion: &mut Criterion) {
    for (name, body) in bodies() {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(body.len() as u64));
        let mut lexer = Lexer::new();
        group.bench_function("lexer", |bencher| {
            bencher.iter(|| {
                lexer.reset();
                for chunk in black_box(&body).as_bytes().chunks(READ) {
                    lexer.feed(chunk, &mut Nothing).expect("the body is sound");
                }
                lexer.finish(&mut Nothing).expect("the body is sound");
            });
        });
        group.bench_function("peek", |bencher| bencher.iter(|| peek(black_box(&body))));
        group.bench_function("serde_json (skip)", |bencher| {
            bencher.iter(|| serde_json::from_str::<IgnoredAny>(black_box(&body)).is_ok());
        });
        group.bench_function("serde_json (fields)", |bencher| {
            bencher.iter(|| serde_json::from_str::<Fields<'_>>(black_box(&body)).is_ok());
        });
        group.finish();
    }
}

fn splicing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("splice");
    for (name, body) in [("1 KB", small()), ("4 MB image", image())] {
        let peeked = peek(&body);
        let chunks: Vec<Bytes> = body
            .as_bytes()
            .chunks(READ)
            .map(Bytes::copy_from_slice)
            .collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut edits = BodyEdits::new(Format::Chat, black_box(&peeked));
                edits.set_model("upstream-model");
                edits.ask_for_usage();
                edits.into_splice().apply(black_box(&chunks))
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = reading, splicing
}
criterion_main!(benches);
