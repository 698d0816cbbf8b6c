//! What translating an answer costs: a delta of a stream, and a whole answer.

#![allow(missing_docs, reason = "criterion's macros write undocumented items")]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::{hint::black_box, sync::Arc};
use tollgate_translate::{
    AnswerCheck, AnswerContext, AnswerTranslator, AskedReasoning, CallIds, StreamTranslator,
    TranslationNotes, names::ToolNames,
};
use tollgate_types::{Format, RequestId};

const EVENTS: usize = 1000;

fn notes(caller: Format, provider: Format) -> Arc<TranslationNotes> {
    Arc::new(TranslationNotes {
        from: caller,
        to: provider,
        model: "the-model".into(),
        include_usage: true,
        tools: ToolNames::default(),
        reasoning: AskedReasoning {
            text: true,
            state: true,
            hidden: true,
        },
        call_ids: CallIds::default(),
        check: AnswerCheck::None,
        compacts: false,
        echo: None,
        search: None,
        stop: Arc::default(),
        memory: None,
        backend: "north".into(),
    })
}

fn context() -> AnswerContext {
    AnswerContext {
        request: RequestId::from_parts(1_790_000_000_000, 7),
        created: 1_790_000_000,
        input_tokens: 11,
    }
}

/// What begins a block of each format, and one delta as its largest provider sends it: of
/// text, and of a tool's arguments.
fn deltas() -> [(&'static str, Format, &'static str, &'static str); 6] {
    [
        (
            "text",
            Format::Chat,
            "",
            "data: {\"id\":\"chatcmpl-CfBGJXqYqmL8vTnO4sPzK2wRyHd7a\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"m-2026-08-07\",\"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":{\"content\":\" hello\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"zGq0Lw\"}\n\n",
        ),
        (
            "text",
            Format::Messages,
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" and then it went on to say that\"}        }\n\n",
        ),
        (
            "text",
            Format::Responses,
            "",
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_68c42de022c881948db7ed1cc2529f2e0202c9ad459e0d23\",\"output_index\":0,\"content_index\":0,\"delta\":\" hello\",\"logprobs\":[],\"sequence_number\":17,\"obfuscation\":\"zGq0LwXy\"}\n\n",
        ),
        (
            "arguments",
            Format::Chat,
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",\"type\":\"function\",\"function\":{\"name\":\"write\",\"arguments\":\"{\\\"a\\\":\\\"\"}}]}}]}\n\n",
            "data: {\"id\":\"chatcmpl-CfBGJXqYqmL8vTnO4sPzK2wRyHd7a\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"m-2026-08-07\",\"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"li\\\\n \"}}]},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"zGq0Lw\"}\n\n",
        ),
        (
            "arguments",
            Format::Messages,
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_a\",\"name\":\"write\",\"input\":{}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\\\"\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"and then it\\\\n went\"}        }\n\n",
        ),
        (
            "arguments",
            Format::Responses,
            "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"id\":\"fc\",\"call_id\":\"call_a\",\"name\":\"write\",\"arguments\":\"\"}}\n\ndata: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{\\\"a\\\":\\\"\"}\n\n",
            "event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",\"item_id\":\"fc_68c42de022c881948db7ed1cc2529f2e0202c9ad459e0d23\",\"output_index\":0,\"delta\":\"li\\\\n \",\"sequence_number\":17,\"obfuscation\":\"zGq0LwXy\"}\n\n",
        ),
    ]
}

fn stream(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for (kind, provider, begin, delta) in deltas() {
        for caller in Format::OF_CLIENTS.into_iter().filter(|it| *it != provider) {
            let notes = notes(caller, provider);
            group.bench_function(format!("{kind}, {provider} to {caller}"), |b| {
                let mut out: Vec<Bytes> = Vec::with_capacity(4);
                b.iter(|| {
                    let mut translator = StreamTranslator::new(Arc::clone(&notes), context());
                    translator.push(begin.as_bytes(), &mut out);
                    for _ in 0..EVENTS {
                        translator.push(delta.as_bytes(), &mut out);
                        black_box(&out);
                        out.clear();
                    }
                    assert!(translator.scanner().events() >= EVENTS as u64);
                });
            });
        }
    }
}

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("whole");
    let text = "lorem ipsum dolor sit amet \\n".repeat(350);
    let answers = [
        (
            Format::Chat,
            format!(
                "{{\"id\":\"c\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":2}}}}"
            ),
        ),
        (
            Format::Messages,
            format!(
                "{{\"id\":\"m\",\"type\":\"message\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"stop_reason\":\"end_turn\",\"usage\":{{\"input_tokens\":1,\"output_tokens\":2}}}}"
            ),
        ),
        (
            Format::Responses,
            format!(
                "{{\"id\":\"r\",\"status\":\"completed\",\"output\":[{{\"type\":\"message\",\"content\":[{{\"type\":\"output_text\",\"text\":\"{text}\"}}]}}],\"usage\":{{\"input_tokens\":1,\"output_tokens\":2}}}}"
            ),
        ),
    ];
    for (provider, answer) in &answers {
        group.throughput(Throughput::Bytes(answer.len() as u64));
        for caller in Format::OF_CLIENTS.into_iter().filter(|it| it != provider) {
            let notes = notes(caller, *provider);
            group.bench_function(format!("10 KB, {provider} to {caller}"), |b| {
                b.iter(|| {
                    let mut translator = AnswerTranslator::new(Arc::clone(&notes), context());
                    translator.push(answer.as_bytes());
                    black_box(translator.finish().is_ok())
                });
            });
        }
    }
}

criterion_group!(benches, stream, whole);
criterion_main!(benches);
