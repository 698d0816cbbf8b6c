//! Bodies of ordinary sizes, and a megabyte of each kind of text, in bytes a second.

#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tollgate_count::{Family as _, Rules, Tokenizer, Vocabulary, count};
use tollgate_types::Format;

const PROSE: &str = "The gateway counts the tokens of a request before it leaves, by the same \
    rules for every caller; what the provider reports afterwards makes the next count better. ";
const CODE: &str = "    fn total(&self) -> u64 {\n        self.items.iter().map(|it| it.price * \
    u64::from(it.amount)).sum() // cents\n    }\n\n";

fn repeated(text: &str, bytes: usize) -> String {
    text.repeat(bytes.div_ceil(text.len()))
}

fn body(text: &str) -> String {
    let text = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

fn random() -> String {
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..700_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .filter(|byte| *byte >= 0x20)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn bench(criterion: &mut Criterion) {
    const MEGABYTE: usize = 1_000_000;
    let rules = Tokenizer::Openai.rules();
    Vocabulary::O200k.load();

    let mut group = criterion.benchmark_group("count");
    group.sample_size(20);
    let texts = [
        ("prose 1 KB", repeated(PROSE, 1000)),
        ("prose 35 KB", repeated(PROSE, 35_000)),
        ("code 35 KB", repeated(CODE, 35_000)),
        ("prose 1 MB", repeated(PROSE, MEGABYTE)),
        ("code 1 MB", repeated(CODE, MEGABYTE)),
        ("spaces 1 MB", repeated(" ", MEGABYTE)),
        ("one letter 1 MB", repeated("a", MEGABYTE)),
        ("emoji 1 MB", repeated("👩‍👩‍👧‍👦😀", MEGABYTE)),
        ("random bytes 1 MB", random()),
    ];
    for (name, text) in &texts {
        let body = body(text);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(BenchmarkId::new("bounded", name), |bencher| {
            bencher.iter(|| count(Format::Chat, black_box(body.as_bytes()), &rules));
        });
        let all = Rules {
            exact_bytes: u64::MAX,
            ..rules
        };
        group.bench_function(BenchmarkId::new("every byte", name), |bencher| {
            bencher.iter(|| count(Format::Chat, black_box(body.as_bytes()), &all));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
