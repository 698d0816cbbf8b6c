//! What becomes of each field of an answer: `docs/translation-answers.md` is written from
//! this table, and tests walk the official SDKs' types and the recorded traffic for fields
//! that it does not know.
//!
//! The readers are not driven by it: an answer is the provider's, who adds to it at will, and
//! what the caller's format has no word for is left out rather than refused.

pub(crate) mod rows;

use crate::formats;
use std::fmt::Write as _;
use tollgate_types::Format;

/// What becomes of a field in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFate {
    /// It says the same there, under the same or another name.
    Carried,
    /// It is said in another way: how.
    Mapped(&'static str),
    /// The caller's format says it by itself, or it says nothing there: why.
    Implied(&'static str),
    /// The caller's format has no word for it: why it is not missed, or what is.
    LeftOut(&'static str),
    /// The answer ends in an upstream error.
    Fails(&'static str),
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub struct AnswerRow {
    /// Its place, with the `type` of the objects on the way: `output[]<message>.content`. A
    /// stream's event is `event:` and its name.
    pub path: &'static str,
    /// What becomes of it in the two other formats, in the order of [`Format::ALL`].
    pub fates: [AnswerFate; 2],
    /// The row speaks for everything below as well.
    pub whole: bool,
    /// It is known from providers and not from the official SDKs.
    pub extra: bool,
}

/// The rows of a provider's format.
pub const fn rows(provider: Format) -> &'static [AnswerRow] {
    match provider {
        Format::Chat => formats::chat::answer_fields::ROWS,
        Format::Responses => formats::responses::answer_fields::ROWS,
        Format::Messages => formats::messages::answer_fields::ROWS,
    }
}

/// The row that speaks for a place: its own, or the nearest whole one above.
pub fn row(provider: Format, path: &str) -> Option<&'static AnswerRow> {
    let fitting = rows(provider).iter().filter(|row| row.covers(path));
    fitting.max_by_key(|row| row.path.len())
}

impl AnswerRow {
    /// Whether the row speaks for a place.
    pub fn covers(&self, path: &str) -> bool {
        match path.strip_prefix(self.path) {
            Some("") => true,
            Some(below) => self.whole && below.starts_with(['.', '[', '<']),
            None => false,
        }
    }
}

const INTRODUCTION: &str = "\
# Translation of answers

What becomes of every field of a provider's answer, streamed or whole, on its way to a caller of another format. Requests
stand in [translation.md](translation.md). This page is written from `crates/translate/src/answer/table` by
`cargo test -p tollgate-translate`; a test walks the types of the official SDKs and the recorded traffic, and fails on a
field that is not here.

| Fate | Meaning |
|---|---|
| carried | It says the same there, under the same name or another. |
| mapped | It is said in another way, as described. |
| implied | The caller's format says it by itself, or it says nothing there. |
| left out | The caller's format has no word for it. |
| fails | The answer ends in an upstream error. |

Texts go through as they were escaped, in the push in which they came. A field that is not in the table is left out. Any
error of a provider's becomes the gateway's own error in the caller's form; no word of the provider's passes.
";

/// The whole page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for provider in Format::ALL {
        let mut callers = Format::ALL.into_iter().filter(|it| *it != provider);
        let (first, second) = (callers.next(), callers.next());
        if let (Some(first), Some(second)) = (first, second) {
            let _ = write!(
                page,
                "\n## From a provider of {provider}\n\n| Field | to {first} | to {second} |\n|---|---|---|\n"
            );
        }
        for row in rows(provider) {
            let [first, second] = row.fates.map(cell);
            let below = if row.whole { " and below" } else { "" };
            let _ = writeln!(page, "| `{}`{below} | {first} | {second} |", row.path);
        }
    }
    page
}

fn cell(fate: AnswerFate) -> String {
    let (word, reason) = match fate {
        AnswerFate::Carried => return "carried".to_owned(),
        AnswerFate::Mapped(how) => ("mapped", how),
        AnswerFate::Implied(why) => ("implied", why),
        AnswerFate::LeftOut(why) => ("left out", why),
        AnswerFate::Fails(why) => ("fails", why),
    };
    format!("{word}: {reason}")
}
