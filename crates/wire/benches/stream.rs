//! What passing a stream through the scanner costs per event, and classifying an error.

#![allow(missing_docs, reason = "criterion's macros write undocumented items")]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::{hint::black_box, time::SystemTime};
use tollgate_types::Format;
use tollgate_wire::{
    answer::{AnswerReport, AnswerScanner},
    fault::{UpstreamAnswer, classify},
    stream::{StreamOptions, StreamScanner},
};

const EVENTS: usize = 1000;

/// One delta of each format as its largest provider sends it, and what comes before.
fn deltas() -> [(Format, &'static str); 3] {
    [
        (
            Format::Chat,
            "data: {\"id\":\"chatcmpl-CfBGJXqYqmL8vTnO4sPzK2wRyHd7a\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"m-2026-08-07\",\"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":{\"content\":\" hello\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"zGq0Lw\"}\n\n",
        ),
        (
            Format::Messages,
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" and then it went on to say that\"}        }\n\n",
        ),
        (
            Format::Responses,
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_68c42de022c881948db7ed1cc2529f2e0202c9ad459e0d23\",\"output_index\":0,\"content_index\":0,\"delta\":\" hello\",\"logprobs\":[],\"sequence_number\":17,\"obfuscation\":\"zGq0LwXy\"}\n\n",
        ),
    ]
}

/// One event a chunk, many events a chunk, and every event cut in two.
fn scan(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    for (format, event) in deltas() {
        let whole = Bytes::from_static(event.as_bytes());
        let packed = Bytes::from(event.repeat(16));
        let (head, tail) = (
            whole.slice(..event.len() / 2),
            whole.slice(event.len() / 2..),
        );
        group.throughput(Throughput::Elements(EVENTS as u64));
        let cases = [
            ("one a chunk", vec![whole; EVENTS]),
            ("sixteen a chunk", vec![packed; EVENTS / 16]),
            ("cut in two", vec![[head, tail]; EVENTS].concat()),
        ];
        for (name, chunks) in cases {
            group.bench_function(format!("{format}, {name}"), |b| {
                let mut out = Vec::with_capacity(4);
                b.iter(|| {
                    let mut scanner = StreamScanner::new(format, StreamOptions::default());
                    for chunk in &chunks {
                        scanner.push(chunk, &mut out);
                        black_box(&out);
                        out.clear();
                    }
                    assert!(scanner.events() + 16 > EVENTS as u64);
                });
            });
        }
    }
}

/// A large terminal event and a large answer: bytes a second.
fn large(c: &mut Criterion) {
    let mut group = c.benchmark_group("large");
    let text = "lorem ipsum dolor sit amet \\n".repeat(40_000);
    let answer = format!(
        "{{\"id\":\"r\",\"status\":\"completed\",\"output\":[{{\"content\":[{{\"text\":\"{text}\"}}]}}],\"usage\":{{\"input_tokens\":1,\"output_tokens\":2}}}}"
    );
    let event = Bytes::from(format!(
        "event: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":{answer}}}\n\n"
    ));
    group.throughput(Throughput::Bytes(event.len() as u64));
    group.bench_function("response.completed", |b| {
        b.iter(|| {
            let mut scanner = StreamScanner::new(Format::Responses, StreamOptions::default());
            let mut out = Vec::new();
            for at in (0..event.len()).step_by(16 * 1024) {
                scanner.push(&event.slice(at..event.len().min(at + 16 * 1024)), &mut out);
                out.clear();
            }
            assert!(scanner.usage().has_output);
        });
    });
    group.bench_function("answer", |b| {
        b.iter(|| {
            let mut scanner = AnswerScanner::new(Format::Responses);
            answer
                .as_bytes()
                .chunks(16 * 1024)
                .for_each(|chunk| scanner.push(chunk));
            black_box(scanner.finish())
        });
    });
}

fn faults(c: &mut Criterion) {
    let headers = http::HeaderMap::new();
    let body = "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.\",\"type\":\"invalid_request_error\",\"param\":\"messages\",\"code\":\"context_length_exceeded\"}}";
    let answer = UpstreamAnswer {
        status: 400,
        headers: &headers,
        body: body.as_bytes(),
        now: SystemTime::UNIX_EPOCH,
    };
    c.bench_function("classify", |b| {
        b.iter(|| black_box(classify(black_box(&answer)).public()))
    });
}

criterion_group!(benches, scan, large, faults);
criterion_main!(benches);
