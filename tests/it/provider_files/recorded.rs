//! What recorded traffic of the providers shows.

use super::FILES;
use super::table::CELLS;
use crate::support::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What is known by recorded traffic of a provider, by file. All else is known by documentation alone.
const RECORDED: &[(&str, &[&str])] = &[
    (
        "anthropic",
        &["Chat", "Stream", "Tools", "Images", "Thinking", "Count"],
    ),
    ("azure-openai", &["Chat", "Thinking"]),
    ("deepseek", &["Chat", "Thinking"]),
    (
        "groq",
        &["Chat", "Stream", "Tools", "Images", "Thinking", "Errors"],
    ),
    ("mistral", &["Chat", "Tools", "Images", "Thinking"]),
    (
        "openai",
        &["Chat", "Stream", "Tools", "Images", "Thinking", "Errors"],
    ),
    ("openrouter", &["Chat", "Stream", "Tools", "Thinking"]),
];

pub fn is_recorded(file: &str, cell: &str) -> bool {
    RECORDED
        .iter()
        .any(|(name, cells)| *name == file && cells.contains(&cell))
}

/// The name of the test that compares it with the recordings.
pub fn test() -> &'static str {
    std::any::type_name_of_val(&what_the_page_of_providers_calls_recorded_is_recorded)
}

/// Whether a recorded exchange shows a cell.
fn shows(exchange: &Value, cell: &str) -> bool {
    let asked = exchange["request"].to_string();
    let said = match exchange["response"].as_str() {
        Some(text) => text.to_owned(),
        None => exchange["response"].to_string(),
    };
    let is_success = exchange["status"].as_u64().is_some_and(|it| it < 400);
    let counts = exchange["format"] == "count_tokens";
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    match cell {
        "Errors" => !is_success && !counts,
        "Count" => is_success && counts,
        _ if !is_success || counts => false,
        "Chat" => exchange["stream"] != true,
        "Stream" => exchange["stream"] == true,
        "Tools" => has(&said, &["tool_calls", "tool_use", "function_call"]),
        "Images" => has(
            &asked,
            &["\"image_url\"", "\"input_image\"", "\"type\":\"image\""],
        ),
        "Thinking" => has(
            &said,
            &["reasoning_content", "\"thinking\"", "\"reasoning\""],
        ),
        _ => panic!("{cell} is no column"),
    }
}

#[test]
fn what_the_page_of_providers_calls_recorded_is_recorded() {
    let usual = root().join("../shared/fixtures");
    let folder = std::env::var_os("TOLLGATE_FIXTURES").map_or(usual, Into::into);
    let names = ["chat", "messages", "responses", "count_tokens"];
    let mut found = BTreeMap::<String, BTreeSet<&str>>::new();
    for name in names {
        let Ok(text) = fs::read_to_string(folder.join(format!("{name}.jsonl"))) else {
            let is_ci = std::env::var_os("CI").is_some();
            assert!(
                !is_ci,
                "no recorded traffic in {}: name its folder in TOLLGATE_FIXTURES",
                folder.display()
            );
            eprintln!("skipped: no recorded traffic in {}", folder.display());
            return;
        };
        for line in text.lines() {
            let exchange: Value = serde_json::from_str(line).unwrap();
            let host = exchange["host"].as_str().unwrap().to_owned();
            let shown = CELLS.into_iter().filter(|cell| shows(&exchange, cell));
            found.entry(host).or_default().extend(shown);
        }
    }
    for (file, cells) in RECORDED {
        let file = FILES.iter().find(|it| it.file == *file).unwrap();
        let host = file.address.split('/').nth(2).unwrap();
        let suffix = host.trim_start_matches("your-resource");
        let shown: BTreeSet<_> = found
            .iter()
            .filter(|(known, _)| known.ends_with(suffix))
            .flat_map(|(_, cells)| cells.iter().copied())
            .collect();
        for cell in *cells {
            assert!(
                shown.contains(cell),
                "{}: {cell} is not recorded, but {shown:?}",
                file.file
            );
        }
    }
}
