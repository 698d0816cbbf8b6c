//! How long `auto` takes for a request that was peeked: the look at the conversation and the
//! choice, one by one, as percentiles. What is promised is that 99 of 100 take less than
//! 100 µs, whatever 100 KB are made of.
//!
//! `cargo bench -p tollgate-routing --bench auto -- TEXT RUNS` takes one text and so many runs, for
//! who counts instructions.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has nothing else to say, and what it says it prints"
)]

use bytes::Bytes;
use serde_json::json;
use std::{
    hint::black_box,
    io,
    path::Path,
    time::{Duration, Instant},
};
use tollgate_routing::{Ask, Catalog, CatalogSettings};
use tollgate_settings::Environment;
use tollgate_types::Format;
use tollgate_wire::{
    peek::{PeekLimits, Peeked, Peeker},
    sample,
};

/// Runs of each text where nobody says how many, after as many again divided by ten to warm up.
const RUNS: usize = 20_000;
/// Bytes of a text.
const SIZE: usize = 100_000;

struct NoVariables;

impl Environment for NoVariables {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn read_bytes(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn catalog() -> Catalog {
    let tiers = ["light", "middle", "strong"].into_iter().cycle();
    let names = (0..12).map(|number| format!("model-{number}"));
    let model = |tier| json!({"family": "f", "tier": tier, "price": {"input": 1, "output": 1}});
    let models: serde_json::Map<_, _> = names.clone().zip(tiers.map(model)).collect();
    let settings: CatalogSettings = serde_json::from_value(json!({
        "providers": {"p": {"address": "http://p", "formats": ["chat"]}},
        "families": {"f": {"group": "g", "deployments": ["p"]}},
        "models": models,
        "auto": {"candidates": names.collect::<Vec<_>>(), "family": "f", "max_price": {"input": 2}},
    }))
    .expect("settings");
    Catalog::build(&settings, &NoVariables, &|_| "/".into()).expect("a catalog")
}

/// A hundred kilobytes of a text, in one message or in many.
fn body(text: &str, messages: usize) -> Bytes {
    let part: String = text
        .chars()
        .cycle()
        .take(SIZE / messages / text.len() * text.chars().count())
        .collect();
    let messages: Vec<_> = (0..messages)
        .map(|_| json!({"role": "user", "content": part}))
        .collect();
    json!({"model": "auto", "messages": messages})
        .to_string()
        .into()
}

fn peek(body: &Bytes) -> Peeked {
    let mut peeker = Peeker::new(Format::Chat, &PeekLimits::default()).with_texts();
    peeker.push(body).expect("a request");
    peeker.finish().expect("a request")
}

fn measure(name: &str, runs: usize, catalog: &Catalog, body: &Bytes) {
    let peeked = peek(body);
    let texts = peeked.texts.as_ref().expect("texts");
    let chunks = [body.clone()];
    let profile = catalog.profile("auto").expect("a profile");
    let mut facts = peeked.facts.clone();
    let mut run = || {
        let begun = Instant::now();
        facts.conversation = Some(Box::new(sample::look(black_box(texts), &chunks)));
        let decision = profile.choose(&Ask {
            facts: &facts,
            allowed: &|_| true,
            available: &|_| true,
            before: None,
        });
        let reason = decision.map(|decision| decision.to_string());
        let taken = begun.elapsed();
        black_box(reason);
        taken
    };
    for _ in 0..runs / 10 {
        run();
    }
    let mut taken: Vec<Duration> = (0..runs).map(|_| run()).collect();
    taken.sort_unstable();
    let at = |share: usize| {
        taken
            .get(runs * share / 1000)
            .map_or(0.0, |it| it.as_secs_f64() * 1e6)
    };
    println!(
        "{name:<28} p50 {:>6.1} µs   p99 {:>6.1} µs   p99.9 {:>6.1} µs",
        at(500),
        at(990),
        at(999)
    );
}

fn main() {
    let catalog = catalog();
    let mut asked = std::env::args().skip(1).filter(|it| !it.starts_with("--"));
    let (only, runs) = (asked.next(), asked.next());
    let runs = runs.map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    let code = "fn take(&mut self) -> Option<usize> {\n\tlet my_value = self.next()?; // why?\n}\n";
    let agent = "Prove that $\\frac{1}{x}$ diverges. Then debug the snake_case function, please.\n";
    for (name, text, messages) in [
        (
            "prose",
            "The quick brown fox jumps over the lazy dog, and then it rests.\n",
            1,
        ),
        ("code", code, 1),
        ("mathematics and code", agent, 1),
        ("Chinese", "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。\n", 1),
        ("400 messages", agent, 400),
        ("spaces", " ", 1),
        ("one letter", "a", 1),
        ("words of two letters", "it ", 1),
        ("emoji", "🎉", 1),
        ("fences", "```\n", 1),
        ("backslashes", "\\", 1),
    ] {
        if only.as_ref().is_none_or(|only| only == name) {
            measure(name, runs, &catalog, &body(text, messages));
        }
    }
}
