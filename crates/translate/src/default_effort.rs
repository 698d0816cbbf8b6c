//! The effort of a request that needs no translation, for a model that always thinks (`reasoning: extended`).
//!
//! It decides whether such a request leaves open how to think, and where the effort stands that a translated
//! request gets. Messages requests get a budget instead (`tollgate_wire::reasoning`).

use crate::{
    document::{Document, Kind, Value},
    formats::gemini::level,
    request::reasoning::DEFAULT_EFFORT,
};
use bytes::Bytes;
use serde_json::{Value as Json, json};
use tollgate_types::{Effort, Format};
use tollgate_wire::{json::Span, splice::Splice};

/// What a model that always thinks accepts.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedEfforts<'a> {
    /// Its efforts; empty: all of the format.
    pub efforts: &'a [Effort],
    /// Gemini: it takes levels instead of budgets.
    pub thinking_levels: bool,
    /// Chat: it takes an effort beside tools.
    pub beside_tools: bool,
}

/// The spellings of a field.
type Names = &'static [&'static str];

const CONFIG: Names = &["generationConfig", "generation_config"];
const THINKING: Names = &["thinkingConfig", "thinking_config"];

/// Settings of chat providers for thinking.
const OF_CHAT: [&str; 6] = [
    "chat_template_kwargs",
    "enable_thinking",
    "include_reasoning",
    "reasoning",
    "thinking",
    "thinking_budget",
];

/// The same in `thinkingConfig`.
const OF_GEMINI: [&str; 4] = [
    "thinkingBudget",
    "thinking_budget",
    "thinkingLevel",
    "thinking_level",
];

/// The body, which a lexer has checked, with the effort of a model that always thinks. `None`: the request
/// has its own settings for this, or its format has another way.
pub fn with_default_effort(
    format: Format,
    body: &Bytes,
    accepted: AcceptedEfforts<'_>,
) -> Option<Bytes> {
    let effort = match accepted.efforts {
        [] => DEFAULT_EFFORT,
        known if known.contains(&DEFAULT_EFFORT) => DEFAULT_EFFORT,
        known => DEFAULT_EFFORT.nearest(known)?,
    };
    let document = Document::of_valid(body).ok()?;
    let top = document.root();
    let (path, value): (&[Names], Json) = match format {
        Format::Chat => {
            let has_tools = top
                .given("tools")
                .is_some_and(|it| it.elements().next().is_some());
            // The settings of Google's API, which it does not take beside an effort.
            let of_google = top.given("extra_body").and_then(|it| it.given("google"));
            let of_google = of_google.and_then(|it| any(it, THINKING));
            let has_own = of_google.is_some() || has_any(top, &OF_CHAT);
            if has_own || (has_tools && !accepted.beside_tools) {
                return None;
            }
            (&[&["reasoning_effort"]], json!(effort))
        }
        Format::Responses => {
            let reasoning = top.given("reasoning");
            if reasoning.is_some_and(|it| has_any(it, &["enabled", "max_tokens"])) {
                return None;
            }
            (&[&["reasoning"], &["effort"]], json!(effort))
        }
        Format::Gemini => {
            let thinking = any(top, CONFIG).and_then(|config| any(config, THINKING));
            if thinking.is_some_and(|it| has_any(it, &OF_GEMINI)) {
                return None;
            }
            match accepted.thinking_levels {
                true => (
                    &[CONFIG, THINKING, &["thinkingLevel", "thinking_level"]],
                    json!(level(effort, accepted.efforts)),
                ),
                false => (
                    &[CONFIG, THINKING, &["thinkingBudget", "thinking_budget"]],
                    json!(effort.thinking_budget()?),
                ),
            }
        }
        _ => return None,
    };
    let splice = put(top, path, &value.to_string())?;
    let spliced = splice.apply(std::slice::from_ref(body)).ok()?;
    Some(spliced.into_bytes())
}

fn has_any(object: Value<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| object.given(name).is_some())
}

fn any<'d>(object: Value<'d>, names: &[&str]) -> Option<Value<'d>> {
    let is_one = |name: &str| names.contains(&name);
    let mut members = object.members();
    members
        .find(|(key, _)| is_one(&key.decode()))
        .map(|(_, value)| value)
}

/// Puts a value at the end of a path, with the objects that are missing on it. `None`: another value is there.
fn put(object: Value<'_>, path: &[Names], value: &str) -> Option<Splice> {
    let (names, rest) = path.split_first()?;
    let inner = rest.iter().rev().fold(value.to_owned(), |inner, names| {
        let name = names.first().copied().unwrap_or_default();
        format!("{{\"{name}\":{inner}}}")
    });
    let (range, text) = match any(object, names) {
        Some(found) if found.is_null() => (found.span(), inner),
        Some(found) if found.kind() == Kind::Object => return put(found, rest, value),
        Some(_) => return None,
        None => {
            let inside = object.span().start.saturating_add(1);
            let comma = object.members().next().map_or("", |_| ",");
            let name = names.first().copied().unwrap_or_default();
            (inside..inside, format!("\"{name}\":{inner}{comma}"))
        }
    };
    let offset = |at: usize| u64::try_from(at).ok();
    let (start, end) = (offset(range.start)?, offset(range.end)?);
    let mut splice = Splice::default();
    splice.replace(Span { start, end }, text);
    Some(splice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: AcceptedEfforts<'_> = AcceptedEfforts {
        efforts: &[],
        thinking_levels: true,
        beside_tools: true,
    };

    fn sent(format: Format, body: &str, accepted: AcceptedEfforts<'_>) -> Option<String> {
        let sent = with_default_effort(format, &Bytes::copy_from_slice(body.as_bytes()), accepted);
        sent.map(|body| String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn an_effort_stands_where_its_format_has_it() {
        let budgets = AcceptedEfforts {
            thinking_levels: false,
            ..ALL
        };
        let high = AcceptedEfforts {
            efforts: &[Effort::High],
            ..ALL
        };
        for (format, accepted, body, expected) in [
            (
                Format::Chat,
                ALL,
                r#"{"a":1}"#,
                r#"{"reasoning_effort":"medium","a":1}"#,
            ),
            (Format::Chat, high, "{}", r#"{"reasoning_effort":"high"}"#),
            (
                Format::Chat,
                ALL,
                r#"{"reasoning_effort":null}"#,
                r#"{"reasoning_effort":"medium"}"#,
            ),
            (
                Format::Responses,
                ALL,
                "{}",
                r#"{"reasoning":{"effort":"medium"}}"#,
            ),
            (
                Format::Responses,
                ALL,
                r#"{"reasoning": {"summary":"auto"}}"#,
                r#"{"reasoning": {"effort":"medium","summary":"auto"}}"#,
            ),
            (
                Format::Gemini,
                ALL,
                r#"{"generation_config":{"topK":1}}"#,
                r#"{"generation_config":{"thinkingConfig":{"thinkingLevel":"MEDIUM"},"topK":1}}"#,
            ),
            (
                Format::Gemini,
                budgets,
                r#"{"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}"#,
                r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}}}"#,
            ),
        ] {
            assert_eq!(
                sent(format, body, accepted).as_deref(),
                Some(expected),
                "{body}"
            );
        }
    }

    #[test]
    fn own_settings_for_thinking_are_kept() {
        let alone = AcceptedEfforts {
            beside_tools: false,
            ..ALL
        };
        for (format, body) in [
            (Format::Chat, r#"{"reasoning_effort":"none"}"#),
            (Format::Chat, r#"{"enable_thinking":false}"#),
            (Format::Chat, r#"{"thinking":{"type":"disabled"}}"#),
            (
                Format::Chat,
                r#"{"extra_body":{"google":{"thinking_config":{"thinking_budget":0}}}}"#,
            ),
            (Format::Chat, r#"{"tools":[{"type":"function"}]}"#),
            (Format::Responses, r#"{"reasoning":{"effort":"low"}}"#),
            (Format::Responses, r#"{"reasoning":{"enabled":false}}"#),
            (
                Format::Gemini,
                r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}"#,
            ),
            (
                Format::Gemini,
                r#"{"generation_config":{"thinking_config":{"thinking_level":"LOW"}}}"#,
            ),
            (Format::Messages, r#"{"max_tokens":9}"#),
            (Format::Embeddings, r#"{"input":"a"}"#),
        ] {
            assert_eq!(sent(format, body, alone), None, "{body}");
        }
    }
}
