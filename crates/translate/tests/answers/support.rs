//! Translating in tests, and the recorded traffic.

use bytes::Bytes;
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};
use tollgate_translate::{
    AnswerCheck, AnswerContext, AnswerTranslator, AskedReasoning, CallIds, StreamTranslator,
    TranslationNotes, names::ToolNames,
};
use tollgate_types::{ErrorCode, Format, PublicError, RequestId};
use tollgate_wire::{
    answer::AnswerReport,
    fault::UpstreamFault,
    stream::{Phase, StreamEnd},
    usage::ReportedUsage,
};

/// Notes of a request from a caller that wants to see everything.
pub fn notes(caller: Format, provider: Format) -> TranslationNotes {
    TranslationNotes {
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
        stop: Arc::default(),
        backend: "north".into(),
        search: None,
        memory: None,
    }
}

pub fn context() -> AnswerContext {
    AnswerContext {
        request: RequestId::from_parts(1_790_000_000_000, 7),
        created: 1_790_000_000,
        input_tokens: 11,
    }
}

/// The formats of clients other than this one.
pub fn others(format: Format) -> impl Iterator<Item = Format> {
    Format::OF_CLIENTS
        .into_iter()
        .filter(move |other| *other != format)
}

/// Everything that the gateway sees of a translated stream.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub out: String,
    pub end: StreamEnd,
    pub phase: Phase,
    pub usage: ReportedUsage,
    pub failure: String,
}

pub fn translate<'a>(notes: &TranslationNotes, chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut translator = StreamTranslator::new(Arc::new(notes.clone()), context());
    let mut out: Vec<Bytes> = Vec::new();
    for chunk in chunks {
        translator.push(chunk, &mut out);
    }
    let end = translator.finish(&mut out);
    let error = PublicError::new(ErrorCode::ServiceUnavailable, "gone");
    let failure = translator.failure_event(&error, &context().request);
    Seen {
        out: String::from_utf8(out.concat()).unwrap(),
        end,
        phase: translator.phase().clone(),
        usage: translator.scanner().usage(),
        failure: String::from_utf8(failure.to_vec()).unwrap(),
    }
}

/// A whole answer, in chunks of this size.
pub fn translate_body(
    notes: &TranslationNotes,
    body: &str,
    size: usize,
) -> Result<String, UpstreamFault> {
    let mut translator = AnswerTranslator::new(Arc::new(notes.clone()), context());
    for chunk in body.as_bytes().chunks(size) {
        translator.push(chunk);
    }
    let answer = translator.finish()?;
    Ok(String::from_utf8(answer.to_vec()).unwrap())
}

/// The events of a stream in the plainest reading: name and data.
pub fn events(stream: &str) -> Vec<(Option<String>, String)> {
    let stream = stream.replace("\r\n", "\n");
    let mut events = Vec::new();
    for block in stream.split("\n\n") {
        let (mut name, mut data) = (None, Vec::new());
        for line in block.lines() {
            if let Some(value) = line.strip_prefix("event:") {
                name = Some(value.trim().to_owned());
            }
            if let Some(value) = line.strip_prefix("data:") {
                data.push(value.strip_prefix(' ').unwrap_or(value));
            }
        }
        if !data.is_empty() {
            events.push((name, data.join("\n")));
        }
    }
    events
}

/// A recorded exchange.
pub struct Record {
    pub format: Format,
    pub line: usize,
    pub is_stream: bool,
    pub status: u64,
    pub response: String,
}

/// All recorded exchanges, or nothing with a note that the test is skipped.
pub fn recorded() -> Vec<Record> {
    let folder = std::env::var_os("TOLLGATE_FIXTURES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        eprintln!("skipped: no recorded traffic in {}", folder.display());
        return Vec::new();
    }
    let mut records = Vec::new();
    for format in Format::OF_CLIENTS {
        let file = folder.join(format!("{format}.jsonl"));
        // There are no recordings of Gemini.
        let text = match format {
            Format::Gemini => String::new(),
            _ => std::fs::read_to_string(file).unwrap(),
        };
        for (line, text) in text.lines().enumerate() {
            let record: Value = serde_json::from_str(text).unwrap();
            records.push(Record {
                format,
                line,
                is_stream: record["stream"] == true,
                status: record["status"].as_u64().unwrap(),
                response: match &record["response"] {
                    Value::String(text) => text.clone(),
                    body => body.to_string(),
                },
            });
        }
    }
    assert!(records.len() >= 500, "only {} records", records.len());
    records
}

/// Cuts bytes into chunks of 1 to `2^n`, the same ones for the same seed.
pub fn random_chunks(stream: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let longest = 1 << random(11);
    let (mut chunks, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let size = usize::try_from(random(longest) + 1).unwrap();
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}
