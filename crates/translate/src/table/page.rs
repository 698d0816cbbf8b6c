//! `docs/translation.md`, written from the table.

use super::{Fate, Row, field_path, kinds, shapes};
use std::fmt::Write as _;
use tollgate_types::Format;

const INTRODUCTION: &str = "\
# Translation

<!-- Made from the table by `TOLLGATE_BLESS=1 cargo test -p tollgate-translate`; edit that. -->

A caller in any of the three formats reaches any model, whatever its provider speaks. This page says what becomes of every
field of a request on its way into another format. It is written from the table that the gateway itself reads
(`crates/translate/src/table`), by `cargo test -p tollgate-translate`; a test walks the types of the official SDKs and fails
on a field that is not here.

| Fate | Meaning |
|---|---|
| carried | It says the same there, under the same name or another. |
| mapped | It is said in another way, as described. |
| implied | It says nothing that the translation does not say by itself, so that leaving it out loses nothing. |
| dropped | A hint that the target has no word for: left out, and named in `x-dropped-fields`. |
| refused | It cannot be said there: 400 `invalid_request` with its name. Under `lossy: allow` an operator may list the field by its path (a kind of object by its place and type: `input[].file_search_call`); it is then dropped with notice. |

A field that is not in the table is refused, too. `null` always passes, and so do the values after \"unless\", however they are written.

## Web search

Messages and responses both have a search of the web that the provider makes by itself. It is carried from one to the other where
the provider is said to have it (`abilities.responses.web_search`, `abilities.messages.web_search`; it costs extra there), and
taken out with notice where it has not, unless `tool_choice` demands it or nothing else is offered.

- A limit on what is searched is kept, or there is no search: lists of domains and the number of searches are carried. Both lists
  at once are refused; where `external_web_access` is `false` the tool is taken out, since messages only searches live.
- The caller sees the searches, their pages and the citations of the text in its own format, as they come, and how many there were
  in the usage. A page that a provider of responses opens or looks through is told as a search for its address or for what was
  looked for. Providers of responses tell no titles of pages (the address stands there) and quote nothing (`cited_text` is empty).
- What only the provider can read of a search goes out sealed, as reasoning does: in `encrypted_content` and `encrypted_index`
  of messages; for callers of responses in a reasoning item behind the search or the message, where `include` asks for
  `reasoning.encrypted_content`. When the history comes back, that provider gets its own items or blocks byte for byte. Any other
  gets what was said, without the search and its citations, with notice.
- A turn that a provider of messages pauses among its searches ends for callers of responses as `incomplete`, with the reason
  `max_output_tokens`. The format has no other word for an answer that would go on and has nothing wrong with it: `completed`
  would hide that something is missing, and an error would take away what was said and paid for. Whoever sends its items back
  with a word of the user's, such as `Go on.`, has the searches with them.
- Chat has no such tool: it is taken out with notice, and `web_search_options` is refused.

## What a provider of messages cannot be told

- **JSON without a schema** (`json_object`) is refused. Messages keeps to a schema alone, and to none that allows any object; an
  instruction to answer in JSON would be a wish where the caller was promised JSON. Whoever asks for it has to say so in the
  conversation anyway, so an operator for whom that is enough lists `response_format.json_object` and `text.format.json_object`
  under `lossy: allow`.
- **Instructions alone.** A request must hold something that is said. Where nobody but the system or the developer speaks, the
  last of these messages is sent as what the user's side says, marked as the system's (`<system-reminder>`), and those before it
  as `system`. `instructions` of responses without any input are refused.
- **An output limit too small to think under.** Models that think with a budget take 1,024 tokens of it at least, and want the
  limit to be larger. Where the caller's limit leaves no room, the effort is left out with notice: the limit is not raised, since
  that much is reserved of the balance and no more. For models that think unasked (`reasoning: extended`) room is reserved, and
  the limit is raised within that. Responses takes no limit below 16 tokens: a smaller one becomes 16, which `x-output-limit` tells.
";

/// The whole page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for format in Format::ALL {
        let [first, second] = others(format);
        let _ = write!(
            page,
            "\n## From {format}\n\n| Field | to {first} | to {second} |\n|---|---|---|\n"
        );
        for shape in shapes(format) {
            let label = match shape.tags {
                [] => String::new(),
                tags => format!(" ({})", tags.join(", ")),
            };
            for row in shape.rows {
                let path = field_path(shape.path(), row.name);
                write_row(&mut page, &format!("`{path}`{label}"), row, format);
            }
        }
        for kinds in kinds(format) {
            for row in kinds.rows {
                let label = format!("`{}` of type `{}`", kinds.path(), row.name);
                write_row(&mut page, &label, row, format);
            }
        }
    }
    page
}

fn others(format: Format) -> [Format; 2] {
    match format {
        Format::Chat => [Format::Responses, Format::Messages],
        Format::Responses => [Format::Chat, Format::Messages],
        Format::Messages => [Format::Chat, Format::Responses],
    }
}

fn write_row(page: &mut String, label: &str, row: &Row, from: Format) {
    let [first, second] = others(from).map(|to| cell(row, row.fate(from, to)));
    let _ = writeln!(page, "| {label} | {first} | {second} |");
}

fn cell(row: &Row, fate: Fate) -> String {
    let mut cell = fate.word().to_owned();
    if !fate.reason().is_empty() {
        let _ = write!(cell, ": {}", fate.reason());
    }
    if matches!(fate, Fate::Refused(_) | Fate::Dropped(_)) && !row.neutral.is_empty() {
        let _ = write!(cell, " (unless `{}`)", row.neutral.join("`, `"));
    }
    cell
}
