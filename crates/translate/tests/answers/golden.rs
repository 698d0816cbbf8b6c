//! Small answers of our own, one for each feature, with what becomes of them beside each:
//! `golden/<feature>.<provider's format>.<sse|json>` and `….to_<caller's format>.<sse|json>`.
//!
//! `TOLLGATE_BLESS=1 cargo test -p tollgate-translate golden -- --nocapture` writes the results
//! anew and shows what changed; read it like code.

use crate::{strict, support::*};
use std::path::{Path, PathBuf};
use tollgate_translate::{
    AskedSearch, ResponsesEcho, TranslationNotes,
    names::{NameLimits, ToolKind, ToolName, ToolNames},
};
use tollgate_types::Format;
use tollgate_wire::stream::StreamEnd;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers/golden")
}

/// Notes of a caller that offered what its format can offer; `searches`: the provider's search
/// too.
fn golden_notes(caller: Format, provider: Format, searches: bool) -> TranslationNotes {
    let mut tools = ToolNames::default();
    if caller == Format::Responses {
        let list = ToolName {
            name: "list".into(),
            namespace: Some("agents".into()),
            kind: ToolKind::Function,
        };
        tools.target_name(&list, NameLimits::up_to(64));
    }
    if !matches!(caller, Format::Messages | Format::Gemini) {
        let patch = ToolName {
            name: "apply_patch".into(),
            namespace: None,
            kind: ToolKind::Custom,
        };
        tools.target_name(&patch, NameLimits::up_to(64));
    }
    let mut echo = ResponsesEcho::default();
    echo.set("metadata", Some("{\n \"a\": \"b\"\r\n}".into()));
    echo.set("temperature", Some("0.5".into()));
    TranslationNotes {
        tools,
        echo: (caller == Format::Responses).then(|| Box::new(echo)),
        search: (searches && !matches!(caller, Format::Chat | Format::Gemini))
            .then_some(AskedSearch { sources: true }),
        ..notes(caller, provider)
    }
}

/// What the caller of a stream gets, its last words included.
fn stream(notes: &TranslationNotes, source: &str) -> String {
    let seen = translate(notes, [source.as_bytes()]);
    assert_eq!(translate(notes, source.as_bytes().chunks(1)), seen);
    if seen.end != StreamEnd::Finished {
        return format!("{}{}", seen.out, seen.failure);
    }
    if let Err(complaint) = strict::stream(notes.from, &seen.out) {
        panic!("{complaint}\n{}", seen.out);
    }
    seen.out
}

fn whole(notes: &TranslationNotes, source: &str) -> String {
    match translate_body(notes, source, source.len()) {
        Err(fault) => format!("{}\n", fault.public()),
        Ok(answer) => {
            if let Err(complaint) = strict::body(notes.from, &answer) {
                panic!("{complaint}\n{answer}");
            }
            let value: serde_json::Value = serde_json::from_str(&answer).unwrap();
            format!("{}\n", serde_json::to_string_pretty(&value).unwrap())
        }
    }
}

/// The lines that differ, as far as they are not moved.
fn difference(old: &str, new: &str) -> String {
    let lines = |from: &str, other: &str, sign: char| -> String {
        let others: Vec<_> = other.lines().collect();
        let gone = from.lines().filter(|line| !others.contains(line));
        gone.map(|line| format!("{sign} {line}\n")).collect()
    };
    [lines(old, new, '-'), lines(new, old, '+')].concat()
}

#[test]
fn golden_answers_are_as_they_were_reviewed() {
    let renew = std::env::var_os("TOLLGATE_BLESS").is_some();
    let mut sources: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.contains(".to_"))
        .collect();
    sources.sort();
    assert!(sources.len() >= 60, "only {} sources", sources.len());
    let mut complaints = Vec::new();
    for name in sources {
        let source = std::fs::read_to_string(folder().join(&name)).unwrap();
        let (stem, kind) = name.rsplit_once('.').unwrap();
        let (_, format) = stem.rsplit_once('.').unwrap();
        let provider = Format::OF_CONVERSATIONS
            .into_iter()
            .find(|it| it.as_str() == format)
            .unwrap();
        for caller in others(provider) {
            let searches = name.contains("search") && !name.contains("unasked");
            let notes = golden_notes(caller, provider, searches);
            let result = match kind {
                "sse" => stream(&notes, &source),
                _ => whole(&notes, &source),
            };
            assert!(!result.contains("SECRET"), "{name}: {result}");
            let path = folder().join(format!("{stem}.to_{caller}.{kind}"));
            let known = std::fs::read_to_string(&path).unwrap_or_default();
            if known == result {
                continue;
            }
            let summary = format!("{}\n{}", path.display(), difference(&known, &result));
            match renew {
                true => {
                    eprintln!("renewed {summary}");
                    std::fs::write(&path, result).unwrap();
                }
                false => complaints.push(summary),
            }
        }
    }
    assert!(
        complaints.is_empty(),
        "not as reviewed (TOLLGATE_BLESS=1 writes anew):\n{}",
        complaints.join("\n")
    );
}
