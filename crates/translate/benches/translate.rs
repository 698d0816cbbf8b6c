//! What a request costs on its way into another format, in time per request and bytes per
//! second: a short one, and one of 100 KB as agents send them, with tools, marks for caching
//! and a history of calls.

#![expect(clippy::expect_used, reason = "a benchmark fails by panicking")]
#![allow(
    missing_docs,
    reason = "criterion's macros write undocumented functions"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use std::hint::black_box;
use tollgate_translate::{Target, document::Document, request};
use tollgate_types::Format;

const TEXT: &str = "The quick brown fox jumps over the lazy dog, and says:\n\"Nothing is lost.\"\n";

fn text(bytes: usize) -> String {
    TEXT.chars().cycle().take(bytes).collect()
}

fn short() -> Value {
    json!({
        "model": "alpha-opus",
        "max_tokens": 1024,
        "stream": true,
        "system": "You are helpful.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": text(800)}]}],
    })
}

fn tool(number: usize) -> Value {
    json!({
        "name": format!("tool_{number}"),
        "description": text(600),
        "input_schema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": text(80)},
                "offset": {"type": "integer", "minimum": 0},
                "limit": {"type": ["integer", "null"], "description": text(80)},
            },
            "required": ["path"],
            "additionalProperties": false,
        },
    })
}

fn step(number: usize) -> [Value; 2] {
    let id = format!("toolu_{number:024}");
    [
        json!({"role": "assistant", "content": [
            {"type": "text", "text": text(120)},
            {"type": "tool_use", "id": id, "name": "tool_1", "input": {"path": "/src/main.rs", "offset": number}},
        ]}),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": text(2500)}]},
        ]}),
    ]
}

fn long() -> Value {
    let mut messages = vec![json!({"role": "user", "content": text(2000)})];
    messages.extend((0..25).flat_map(step));
    json!({
        "model": "alpha-opus",
        "max_tokens": 32_000,
        "stream": true,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "system": [
            {"type": "text", "text": text(60)},
            {"type": "text", "text": text(8000), "cache_control": {"type": "ephemeral"}},
        ],
        "messages": messages,
        "tools": (0..20).map(tool).collect::<Vec<_>>(),
        "metadata": {"user_id": text(150)},
    })
}

fn bench(criterion: &mut Criterion) {
    let target = Target::new("upstream", "backend");
    for (size, body) in [("1k", short()), ("100k", long())] {
        let mut group = criterion.benchmark_group(size);
        let body = serde_json::to_vec(&body).expect("a body");
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function("read", |bench| {
            bench.iter(|| Document::parse(black_box(&body)).expect("JSON"));
        });
        for to in [Format::Chat, Format::Responses] {
            group.bench_function(format!("messages to {to}"), |bench| {
                bench.iter(|| request(Format::Messages, to, black_box(&body), &target));
            });
            let there = request(Format::Messages, to, &body, &target).expect("a request");
            group.bench_function(format!("{to} to messages"), |bench| {
                bench.iter(|| request(to, Format::Messages, black_box(&there.body), &target));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
