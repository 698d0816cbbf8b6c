//! The table of answers, against the types of the official SDKs and against recorded answers.

use super::{page, row, rows};
use crate::support::recorded;
use serde_json::Value;
use std::{collections::BTreeSet, path::Path};
use tollgate_types::Format;

fn sdk_fields(format: Format) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/answers.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let fields = all[format.as_str()].as_array().unwrap();
    let fields = fields
        .iter()
        .map(|field| field.as_str().unwrap().to_owned());
    fields.collect()
}

#[test]
fn every_field_of_the_official_sdks_is_in_the_table_of_answers() {
    for format in Format::OF_CLIENTS {
        let fields = sdk_fields(format);
        assert!(fields.len() > 50, "{format}: {}", fields.len());
        let unknown: Vec<_> = fields
            .iter()
            .filter(|field| row(format, field).is_none())
            .collect();
        assert!(unknown.is_empty(), "{format}: {unknown:#?}");
    }
}

#[test]
fn every_row_of_the_table_of_answers_is_about_a_field_that_exists() {
    for format in Format::OF_CLIENTS {
        let fields = sdk_fields(format);
        let mut known = BTreeSet::new();
        for row in rows(format) {
            assert!(known.insert(row.path), "{format}: {} twice", row.path);
            let exists = fields.iter().any(|field| row.covers(field));
            assert_ne!(exists, row.extra, "{format}: {}", row.path);
        }
    }
}

/// The places in a value.
fn places(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let kind = members.get("type").and_then(Value::as_str);
            let here = match (path, kind) {
                ("", _) | (_, None) => path.to_owned(),
                (path, Some(kind)) => format!("{path}<{kind}>"),
            };
            for (name, member) in members {
                let separator = if here.is_empty() { "" } else { "." };
                places(member, &format!("{here}{separator}{name}"), found);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                places(element, &format!("{path}[]"), found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// What providers add to their answers that no client reads.
const ADDED: &[&str] = &[
    "billing",
    "content_filters",
    "contentType",
    "cost",
    "frequency_penalty",
    "kv_transfer_params",
    "method",
    "metrics",
    "output_text",
    "pathname",
    "presence_penalty",
    "prompt_filter_results",
    "prompt_logprobs",
    "prompt_text",
    "prompt_token_ids",
    "provider",
    "request_id",
    "status_details",
    "store",
    "time_info",
    "tool_calls",
    "total_tokens",
    "usage_breakdown",
    "x_groq",
];

#[test]
fn every_recorded_field_that_says_something_is_in_the_table_of_answers() {
    let mut unknown = BTreeSet::new();
    for record in recorded() {
        if record.is_stream || record.status != 200 {
            continue;
        }
        let body: Value = serde_json::from_str(&record.response).unwrap_or_default();
        let mut found = BTreeSet::new();
        if body.is_object() {
            places(&body, "", &mut found);
        }
        for place in found {
            let top = place.split(['.', '[', '<']).next().unwrap_or_default();
            // Of the usage object and of choices, providers' own counts and marks.
            let is_added = ADDED.contains(&top)
                || place.starts_with("usage.")
                || place.starts_with("choices[].") && !place.starts_with("choices[].message.");
            if row(record.format, &place).is_none() && !is_added {
                unknown.insert(format!("{}: {place}", record.format));
            }
        }
    }
    let expected = [
        "chat: choices[].message.executed_tools",
        "chat: choices[].message.extra_content",
        "chat: choices[].message.thought_signature",
    ];
    unknown.retain(|place| !expected.iter().any(|known| place.starts_with(known)));
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn the_page_about_answers_is_written_from_the_table() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/translation-answers.md");
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
        return;
    }
    assert!(
        written == page(),
        "TOLLGATE_BLESS=1 writes {} anew",
        path.display()
    );
}
