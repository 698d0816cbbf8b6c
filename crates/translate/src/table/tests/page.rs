//! `docs/reference/translation.md`, written from the table.

use crate::{
    features::Feature,
    formats::rules,
    table::{Fate, Row, field_path, kinds, shapes},
};
use std::fmt::Write as _;
use tollgate_types::Format;

impl Fate {
    /// Whether something is lost.
    const fn is_loss(self) -> bool {
        matches!(self, Self::Dropped(_) | Self::Refused(_))
    }

    /// What becomes of a feature, in one word.
    const fn in_short(self) -> &'static str {
        match self {
            Self::Carried | Self::Mapped(_) => "carried",
            Self::Implied(_) | Self::Dropped(_) | Self::Refused(_) => self.word(),
        }
    }

    /// The fate in one word.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::Mapped(_) => "mapped",
            Self::Implied(_) => "implied",
            Self::Dropped(_) => "dropped",
            Self::Refused(_) => "refused",
        }
    }
}

/// What stands before the table of losses.
const INTRODUCTION: &str = "\
# Translation

<!-- Made from the table by `TOLLGATE_BLESS=1 cargo test -p tollgate-translate`; edit that. -->

Clients can use any model through any of the four formats. If the provider uses another format, the gateway translates the request.

## What you lose

Features that are not in this table are carried. [Fates](#fates) explains the words, and the tables below list every field.
";

/// What stands between the table of losses and the tables of fields.
const DETAILS: &str = "
## Fates

| Fate | Meaning |
|---|---|
| carried | sent with the same meaning, under the same or another name |
| mapped | sent in another form, as described |
| implied | the translation has the same effect without the field |
| dropped | left out, because the target has no equivalent |
| refused | 400 `invalid_request` with the name of the field. If the operator lists its path in `translation.lossy` (`input[].file_search_call` for an object of that type), it is dropped with notice |

`x-dropped-fields` names dropped fields, and fields that are mapped \"with notice\", such as an enforced stop sequence, a closed schema, or bounds moved into descriptions.
`null` always passes, and so do the values after \"unless\".

## Fields that are not in the table

| Where | What happens |
|---|---|
| At the top level | refused |
| In an item, message, part, tool or setting | dropped with notice |
| A `type` that is not in the table | refused |

`x-dropped-fields` names the first 16 unknown fields of a request. For the others, and for names that a header cannot hold, it has
the place and a star: `input[].*`. If the operator lists a path in `translation.strict`, a request from which that field would be
dropped is refused; `input[].*` means every unknown field of an item.

## Web search

Messages and responses have a web search that the provider runs. The gateway translates it if the provider is configured to have it
(`capabilities.responses.web_search`, `capabilities.messages.web_search`). Otherwise it drops the tool with notice, or refuses the
request if `tool_choice` requires the tool or no other tool is offered.

- Lists of domains and the number of searches are carried. A request with both lists is refused. The tool is dropped for messages if
  `external_web_access` is `false`.
- The client gets the searches, their pages and the citations in its own format, and the number of searches in the usage. A page that
  a responses provider opens appears as a search. Responses providers report no page titles (the address is in their place) and no
  quotations (`cited_text` is empty).
- The opaque parts of a search are sealed, as reasoning is: in `encrypted_content` and `encrypted_index` of messages; in responses in
  a reasoning item after the search or the message, if `include` has `reasoning.encrypted_content`. The same provider gets its own
  items back byte for byte. Another provider gets the text without the search and its citations, with notice.
- If a messages provider pauses between its searches, a responses client gets an `incomplete` answer with the reason
  `max_output_tokens`. The client can send its items back with a user message such as `Go on.`
- Chat has no such tool: it is dropped with notice, and `web_search_options` is refused. `googleSearch` of Gemini's clients is dropped
  with notice. A streamed chat answer lists all citations in one chunk before the last.

## Stop sequences

Responses has no stop sequences. For providers of that format the gateway enforces `stop` and `stop_sequences` itself, and names the
field in `x-dropped-fields`: at most 16 sequences of at most 1,024 bytes each.

- The answer ends before the first sequence in a text of the model. Text that may be the beginning of a sequence is held until the
  next event. Reasoning and tool calls are not searched.
- The finish reason is `stop` in chat and `STOP` in Gemini. In messages it is `stop_sequence`, with the sequence in `stop_sequence`.
- At the end of a streamed answer the gateway closes the provider's stream ([charging](charging.md#stop-sequences)), and the
  connection of an HTTP/1.1 client. An answer that is not streamed is read to its end and cut.

## Answers that are remembered

The gateway remembers the answers that it translates for clients of responses, unless the request has `store: false`, and inserts the
conversation into a request that refers to one ([how to limit this](../guides/conversations.md)):

| In the request | Becomes |
|---|---|
| `previous_response_id` | the input and the output of that answer and of all answers before it, in front of `input` |
| `item_reference`, `{\"id\": …}`, an item that has no contents | the item |
| `reasoning` without `encrypted_content` | the item with the sealed state for its provider. If it is not remembered and has no summary, it is dropped with notice |

- The next request may use any model. The conversation counts as its input.
- An answer belongs to the key that asked for it. Ids of other keys and unknown ids get 404 `not_found` with the name of the field.
- `instructions` and `tools` are not part of the conversation: the client sends them with each request.
- `GET` and `DELETE /v1/responses/{id}` work. `GET` returns `encrypted_content` if the query has
  `include[]=reasoning.encrypted_content`. `POST …/cancel` and `GET …/input_items` do not work for these answers.
- Only an answer that ended is remembered: completed, or cut by its output limit or a content filter. Requests larger than 8 MiB are
  not remembered.
- With `translation.memory: none`, `store: true` and every reference are refused.

## What responses does differently

The reasoning of a model is returned encrypted, for the next turn, if the model is known to reason: its `reasoning` in the catalog
is `adaptive` or `extended`, it has `efforts`, or the request asks for reasoning.

## Compaction

Codex requests a summary of a long session with an item `compaction_trigger` at the end of `input`. For models of another format the
gateway asks the model for that summary, without tools, and answers with one `compaction` item, which the client sends back in place
of the conversation. Any model can continue from there: the gateway sends the summary as a user message. A `compaction` item of a
provider can only go back to that provider.

## What Gemini does differently

- **The path** has the model and selects a stream. Field names may be in camel case or in snake case.
- **Schemas.** `parameters` and `responseSchema` become JSON schemas: types in lower case, `nullable` as the type `null`, without
  `propertyOrdering`, `example` and widths of numbers. `parametersJsonSchema` and `responseJsonSchema` pass unchanged.
- **Calls without ids.** A call without an id gets one by its place in the conversation. A result without an id answers the first open
  call of its name.
- **Results.** `{\"output\": …}`, `{\"result\": …}` and `{\"error\": …}` become their contents, any other response its JSON.
- **Reasoning** is sealed with its text in `thoughtSignature` of the next part. Clients return that part, and may drop the parts with
  `thought: true`. A signature of another origin is dropped with notice.
- **Efforts.** `thinkingBudget` becomes the equivalent effort; for models without thinking it is dropped with notice.
- **Calls in streams** arrive whole, in one event. Empty lines, not comments, keep a stream alive.
- **Base64** may use the URL alphabet.
- **Files.** An http or https address in `fileData` is passed on. Files that Google stores are refused.

## What messages does differently

- **JSON without a schema** (`json_object`). The gateway adds an instruction to answer with one JSON object, and names
  `response_format.json_object` or `text.format.json_object` in `x-dropped-fields`. If the answer ends normally and is not one JSON
  object, the client gets 502, or an error event if the stream has begun. The answer is charged, and no other candidate is asked.
- **Whitespace stop sequences** are dropped with notice.
- **Malformed arguments.** A call in the history whose `arguments` are not a JSON object is sent with the text in a member
  `malformed_arguments`, with notice.
- **Schemas of any object.** The gateway sets `additionalProperties: false` on all objects of a schema for answers, with notice. An
  object whose members have no names (`additionalProperties` with a schema, `patternProperties`, no `properties`) is refused.
- **Tools with several schemas.** A tool's schema with `anyOf`, `oneOf` or `allOf` at its top becomes one object with the members of
  all, with notice; `required` has the members that each of them requires (with `allOf`, any of them). One that is a `$ref` or not an
  object is refused.
- **Instructions alone.** A request must have a user message. If it only has system and developer messages, the last of them is
  sent as a user message, marked `<system-reminder>`, and the others as `system`. A responses request with `instructions` and no
  input is refused.
- **Input tokens in streams.** `message_start` has the gateway's count or estimate, unless the provider has reported them. The totals
  are in `message_delta`.
- **Output limits.** A thinking budget needs at least 1,024 tokens and a larger limit. If the client's limit leaves no room, the effort
  is dropped with notice; for models that always think (`reasoning: extended`) the limit is raised. A limit above the model's maximum
  becomes the maximum; for responses, one below 16 tokens becomes 16. `x-output-limit` reports each change.
";

/// The whole page.
pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_owned() + &losses() + DETAILS;
    for format in Format::OF_CLIENTS {
        let others: Vec<_> = others(format).collect();
        let columns: Vec<_> = others.iter().map(|to| format!("to {to}")).collect();
        let columns = columns.join(" | ");
        let rule = "---|".repeat(others.len());
        let _ = write!(
            page,
            "\n## From {format}\n\n| Field | {columns} |\n|---|{rule}\n"
        );
        for shape in shapes(format) {
            let label = match shape.tags {
                [] => String::new(),
                tags => format!(" ({})", tags.join(", ")),
            };
            for row in shape.rows {
                let paths = shape.at.iter().map(|at| field_path(at, row.name));
                let paths: Vec<_> = paths.map(|path| format!("`{path}`")).collect();
                let label = paths.join("<br>") + &label;
                write_row(&mut page, &label, row, &others);
            }
        }
        for kinds in kinds(format) {
            for row in kinds.rows {
                let paths: Vec<_> = kinds.at.iter().map(|at| format!("`{at}`")).collect();
                let label = format!("{} of type `{}`", paths.join("<br>"), row.name);
                write_row(&mut page, &label, row, &others);
            }
        }
    }
    page
}

/// The features that are lost in some direction.
fn losses() -> String {
    let columns = Format::OF_CONVERSATIONS
        .map(|to| format!(" to {to} |"))
        .concat();
    let rule = "---|".repeat(Format::OF_CONVERSATIONS.len());
    let mut table = format!("\n| Feature | Clients of |{columns}\n|---|---|{rule}\n");
    for feature in Feature::ALL {
        let from = Format::OF_CONVERSATIONS
            .into_iter()
            .filter(|it| feeds(*it, *feature));
        let from: Vec<_> = from.collect();
        let fates = Format::OF_CONVERSATIONS.map(|to| {
            let is_asked = from.iter().any(|it| *it != to);
            is_asked.then(|| rules(to).target.features.fate(*feature))
        });
        if !fates.iter().flatten().any(|fate| fate.is_loss()) {
            continue;
        }
        let from: Vec<_> = from.iter().map(|it| it.as_str()).collect();
        let cells = fates.map(|fate| format!(" {} |", fate.map_or("", Fate::in_short)));
        let _ = writeln!(
            table,
            "| {} | {} |{}",
            feature.label(),
            from.join(", "),
            cells.concat()
        );
    }
    table
}

/// Whether a field of a format feeds a feature.
fn feeds(format: Format, feature: Feature) -> bool {
    let fields = shapes(format).flat_map(|shape| shape.rows);
    let objects = kinds(format).flat_map(|kinds| kinds.rows);
    let mut rows = fields.chain(objects);
    rows.any(|row| row.feature() == Some(feature))
}

fn others(format: Format) -> impl Iterator<Item = Format> {
    Format::OF_CONVERSATIONS
        .into_iter()
        .filter(move |other| *other != format)
}

fn write_row(page: &mut String, label: &str, row: &Row, others: &[Format]) {
    let cells: Vec<_> = others.iter().map(|to| cell(row, row.fate(*to))).collect();
    let _ = writeln!(page, "| {label} | {} |", cells.join(" | "));
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
