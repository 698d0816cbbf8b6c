//! What becomes of each field of an answer: `docs/reference/translation-answers.md` is written from
//! this table, and tests walk the official SDKs' types and the recorded traffic for fields
//! that it does not know.
//!
//! The table does not drive the translation: providers add fields at will, and a field without a
//! counterpart in the caller's format is left out, not refused.

mod chat;
mod converse;
mod gemini;
mod messages;
mod responses;
mod rows;
mod tests;

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
    feeds: Feeds,
    /// The row speaks for everything below as well.
    pub whole: bool,
    /// It is known from providers and not from the official SDKs.
    pub extra: bool,
}

/// What a field is for.
#[derive(Clone, Copy, Debug)]
enum Feeds {
    /// A feature of the answer; the fate is that of the field where the feature is carried.
    Feature(AnswerFeature, AnswerFate),
    /// None: the same happens to the field in every other format.
    Nothing(AnswerFate),
}

/// A feature of an answer that formats treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFeature {
    Created,
    Texts,
    Refusals,
    Thoughts,
    Annotations,
    Citations,
    Calls,
    Arguments,
    CustomCalls,
    Logprobs,
    Searches,
    SearchResults,
    SearchEvents,
    SearchUsage,
}

/// The rows of a provider's format.
pub fn rows(provider: Format) -> &'static [AnswerRow] {
    match provider {
        Format::Responses => responses::ROWS,
        Format::Messages => messages::ROWS,
        Format::Gemini => gemini::ROWS,
        Format::Converse => converse::ROWS,
        Format::Chat | Format::Embeddings | Format::Rerank => chat::ROWS,
    }
}

/// What a format does with the features of an answer to its clients.
fn features(client: Format) -> &'static [(AnswerFeature, AnswerFate)] {
    match client {
        Format::Responses => responses::FEATURES,
        Format::Messages => messages::FEATURES,
        Format::Gemini => gemini::FEATURES,
        _ => chat::FEATURES,
    }
}

/// The row that speaks for a place: its own, or the nearest whole one above.
pub fn row(provider: Format, path: &str) -> Option<&'static AnswerRow> {
    let fitting = rows(provider).iter().filter(|row| row.covers(path));
    fitting.max_by_key(|row| row.path.len())
}

impl AnswerRow {
    /// What becomes of the field on its way to a client of another format.
    pub fn fate(&self, client: Format) -> AnswerFate {
        let (feature, own) = match self.feeds {
            Feeds::Feature(feature, own) => (feature, own),
            Feeds::Nothing(fate) => return fate,
        };
        let mut declared = features(client).iter();
        match declared.find(|(declared, _)| *declared == feature) {
            Some((_, AnswerFate::Carried)) => own,
            Some((_, fate)) => *fate,
            None => AnswerFate::LeftOut("the format has no word for it"),
        }
    }

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

<!-- Made from the table by `TOLLGATE_BLESS=1 cargo test -p tollgate-translate`; edit that. -->

The fate of every field of a provider's answer, streamed or whole, if the client uses another format.
[Translation](translation.md) has the fields of requests.

| Fate | Meaning |
|---|---|
| carried | sent with the same meaning, under the same or another name |
| mapped | sent in another form, as described |
| implied | the client's format has the same meaning without the field |
| left out | the client's format has no equivalent |
| fails | the answer ends with an upstream error |

Fields that are not in the table are left out. An error of a provider becomes an error of the gateway, without the provider's text.
";

/// The whole page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for provider in Format::OF_CONVERSATIONS {
        let clients: Vec<_> = Format::OF_CLIENTS
            .into_iter()
            .filter(|it| *it != provider)
            .collect();
        let columns: Vec<_> = clients.iter().map(|to| format!("to {to}")).collect();
        let columns = columns.join(" | ");
        let rule = "---|".repeat(clients.len());
        let _ = write!(
            page,
            "\n## From a provider of {provider}\n\n| Field | {columns} |\n|---|{rule}\n"
        );
        for row in rows(provider) {
            let cells: Vec<_> = clients.iter().map(|to| cell(row.fate(*to))).collect();
            let below = if row.whole { " and below" } else { "" };
            let _ = writeln!(page, "| `{}`{below} | {} |", row.path, cells.join(" | "));
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
