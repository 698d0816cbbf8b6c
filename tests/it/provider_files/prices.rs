//! What the ready files say about prices and output limits, or why they say nothing.

use super::{FILES, folder};
use std::{collections::BTreeSet, fs};

/// The entries of a file's models, one a line, and the comment before them.
struct Priced {
    file: &'static str,
    head: String,
    models: Vec<String>,
}

fn files() -> Vec<Priced> {
    let names: BTreeSet<_> = FILES.iter().map(|it| it.file).collect();
    let read = |file: &'static str| {
        let text = fs::read_to_string(folder().join(format!("{file}.yaml"))).unwrap();
        let (before, models) = text.split_once("\nmodels:\n").unwrap();
        let head = before.lines().take_while(|line| line.starts_with('#'));
        Priced {
            file,
            head: head.collect::<Vec<_>>().join("\n"),
            models: models.lines().map(str::to_owned).collect(),
        }
    };
    names.into_iter().map(read).collect()
}

/// Whether a model makes vectors or ranks, so that it has neither a cache nor output.
fn has_no_output(model: &str) -> bool {
    model.contains("embed") || model.contains("rerank")
}

/// A pattern offers models with different limits and prices.
fn is_pattern(model: &str) -> bool {
    model.contains("*\"")
}

#[test]
fn every_priced_model_says_what_its_caches_cost_or_why_it_does_not() {
    for Priced { file, models, .. } in files() {
        for model in models.iter().filter(|it| it.contains("price: {")) {
            if has_no_output(model) {
                assert!(model.contains("output: 0"), "{file}: {model}");
                continue;
            }
            let prices: &[&str] = if model.contains("claude") {
                &[" cache_read: ", " cache_write: ", " cache_write_1h: "]
            } else {
                &[" cache_read: "]
            };
            for price in prices {
                let is_explained = model.contains("# no cache price");
                let times = model.matches(price).count();
                let changes = model.matches("from: ").count();
                assert!(is_explained != (times > 0), "{file}, {price}: {model}");
                assert!(
                    is_explained || times == 1 + changes,
                    "{file}, {price} of changes: {model}"
                );
            }
        }
    }
}

#[test]
fn every_model_has_a_price_or_says_why_not() {
    for Priced { file, head, models } in files() {
        let is_local = head.contains("on this machine");
        for model in models
            .iter()
            .filter(|it| !is_local && !it.contains("price: {"))
        {
            let is_explained = model.contains("# no price: ");
            let is_pattern = is_pattern(model) && head.contains("A pattern has no price");
            assert!(is_explained || is_pattern, "{file}: {model}");
        }
    }
}

#[test]
fn every_conversation_model_has_an_output_limit_or_says_why_not() {
    for Priced { file, models, .. } in files() {
        let all = models.iter();
        for model in all.filter(|it| !has_no_output(it) && !is_pattern(it)) {
            let is_explained = model.contains("no output limit: ");
            let has_limit = model.contains("max_output_tokens: ");
            assert!(is_explained != has_limit, "{file}: {model}");
        }
    }
}

#[test]
fn every_file_with_prices_names_their_source_and_date() {
    for Priced { file, head, models } in files() {
        if models.iter().any(|it| it.contains("price: {")) {
            let head = head.to_lowercase();
            for part in ["prices", "us dollars", "2026", "https://"] {
                assert!(head.contains(part), "{file}, {part}: {head}");
            }
        }
    }
}
