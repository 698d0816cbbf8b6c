//! Recorded requests with what their providers reported, each counted by its family's rules.

use serde_json::Value;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};
use tollgate_count::{Basis, Count, Family as _, Tokenizer, count};
use tollgate_types::Format;
use tollgate_wire::{
    answer::{AnswerReport, AnswerScanner},
    stream::{StreamOptions, StreamScanner},
    usage::ReportedUsage,
};

/// A request that a provider counted, and so did we.
pub struct Case {
    pub family: Tokenizer,
    pub model: String,
    pub format: Format,
    pub body: String,
    /// Input tokens, cached ones among them.
    pub reported: u64,
    pub count: Count,
}

impl Case {
    /// The relative error of a count.
    pub fn error(&self, tokens: u64) -> f64 {
        tokens.abs_diff(self.reported) as f64 / self.reported as f64
    }

    /// Whether all that the model reads stands in the body, as text.
    pub fn is_self_contained(&self) -> bool {
        self.count.basis == Basis::Whole && self.count.media == 0
    }
}

/// Where the recordings are: `TOLLGATE_FIXTURES`, or beside the repository.
pub fn folder() -> PathBuf {
    std::env::var_os("TOLLGATE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        PathBuf::from,
    )
}

/// All distinct requests that were answered with a report of usage.
///
/// # Errors
/// A file of the folder cannot be read.
pub fn cases(folder: &Path) -> io::Result<Vec<Case>> {
    let mut seen = BTreeSet::new();
    let mut cases = Vec::new();
    // There are no recordings of Gemini.
    for format in Format::OF_CLIENTS
        .into_iter()
        .filter(|it| *it != Format::Gemini)
    {
        let text = std::fs::read_to_string(folder.join(format!("{format}.jsonl")))?;
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let read = records.filter_map(|record: Value| case(format, &record));
        cases.extend(read.filter(|case| seen.insert((case.body.clone(), case.reported))));
    }
    Ok(cases)
}

fn case(format: Format, record: &Value) -> Option<Case> {
    let reported = usage(format, record)?.plausible()?.total_input();
    let model = record.pointer("/request/model")?.as_str()?.to_owned();
    let family = Tokenizer::of_model(&model);
    let body = record.get("request")?.to_string();
    let count = count(format, body.as_bytes(), &family.rules());
    (record.get("status")? == 200 && reported > 0).then_some(Case {
        family,
        model,
        format,
        body,
        reported,
        count,
    })
}

fn usage(format: Format, record: &Value) -> Option<ReportedUsage> {
    let answer = match record.get("response")? {
        Value::String(text) => text.clone(),
        tree => tree.to_string(),
    };
    if record.get("stream")? == true {
        let mut scanner = StreamScanner::new(format, StreamOptions::default());
        let mut out = Vec::new();
        scanner.push(&answer.into_bytes().into(), &mut out);
        scanner.finish(&mut out);
        return Some(scanner.usage());
    }
    let mut scanner = AnswerScanner::new(format);
    scanner.push(answer.as_bytes());
    scanner.finish();
    Some(scanner.usage())
}

/// Whether a request is plain text to a model of OpenAI's whose vocabulary is `o200k_base`:
/// nothing in it but what the published rules speak of.
pub fn is_plain_o200k(case: &Case) -> bool {
    matches!(case.family, Tokenizer::Openai | Tokenizer::OpenaiReasoning)
        && case.is_self_contained()
        && !case.count.tools
        && !["encrypted_content\":\"", "schema", "call_id"]
            .iter()
            .any(|mark| case.body.contains(mark))
}
