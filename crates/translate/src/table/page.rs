//! `docs/reference/translation.md`, written from the table.

use super::{Fate, Row, field_path, kinds, shapes};
use crate::{features::Feature, formats::rules};
use std::fmt::Write as _;
use tollgate_types::Format;

/// What stands before the table of losses.
const INTRODUCTION: &str = "\
# Translation

<!-- Made from the table by `TOLLGATE_BLESS=1 cargo test -p tollgate-translate`; edit that. -->

Clients can use any model through any of the four formats. This page lists what the gateway does with each request field when
the provider uses another format. It is written from the tables that the gateway itself reads: the fields of each format, and what
each format does with each feature (`request_fields` and `features` in `crates/translate/src/formats`). Tests fail if a field of the official SDKs, or a place that the gateway reads, is
not here.

| Fate | Meaning |
|---|---|
| carried | It says the same there, under the same name or another. |
| mapped | It is said in another way, as described. |
| implied | The translation says the same by itself, so nothing is lost without it. |
| dropped | Left out because the target has no word for it. |
| refused | It cannot be said there: 400 `invalid_request` with its name. An operator may list the field by its path in `translation.lossy` (a kind of object by its place and type: `input[].file_search_call`); it is then dropped with notice. |

`x-dropped-fields` names what was dropped, and what is mapped \"with notice\": an enforced stop sequence, a closed schema.
`null` always passes, and so do the values after \"unless\", however they are written.

## What you lose

Everything that is not in this table is carried. A feature that is carried can still have limits: see the fields below.
";

/// What stands between the table of losses and the tables of fields.
const DETAILS: &str = "
## Fields that are not in the table

| Where | What happens |
|---|---|
| At the top level | Refused by name: such a field may change what the request means. |
| In an item, message, part, tool or setting | Dropped with notice. Clients keep records of their own in the history, such as `provider_specific_fields`. |
| A `type` that is not in the table | Refused by name. |

`x-dropped-fields` names the first 16 unknown fields of a request one by one. For the others, and for names with characters that
a header cannot hold, it has the place and a star: `input[].*`. It never has their values, and neither has the provider's request.

An operator can list any path in `translation.strict`: a request from which that field would be dropped is refused instead.
`input[].*` stands for every unknown field of an item, `messages[].*` for every one of a message, and so on.

## Web search

Messages and responses each have a web search that the provider runs. The gateway carries it from one to the other if the
provider is configured to have it (`capabilities.responses.web_search`, `capabilities.messages.web_search`; it costs extra there).
Otherwise the gateway takes the tool out with notice, unless `tool_choice` demands it or no other tool is offered.

- Limits on a search are kept: lists of domains and the number of searches are carried. A request with both lists is refused.
  Messages searches live only, so the tool is taken out if `external_web_access` is `false`.
- The client sees the searches, their pages and the citations in its own format as they arrive, and the number of searches in the
  usage. A page that a responses provider opens or looks through appears as a search for its address or for the text it looked
  for. Responses providers report no page titles (the address stands there) and quote nothing (`cited_text` is empty).
- The parts of a search that only the provider can read are sealed, as reasoning is: in `encrypted_content` and
  `encrypted_index` of messages; in responses in a reasoning item behind the search or the message, if `include` asks for
  `reasoning.encrypted_content`. When the history comes back, that provider gets its own items or blocks byte for byte. Another
  provider gets the text without the search and its citations, with notice.
- If a messages provider pauses between its searches, a responses client gets an `incomplete` answer with the reason
  `max_output_tokens`: the format has no other word for an answer that would go on. The client can send its items back with a user
  message such as `Go on.`, and the searches are included.
- Chat has no such tool: it is taken out with notice, and `web_search_options` is refused. `googleSearch` of Gemini's clients is taken
  out with notice, too, as all tools that Google runs. A streamed answer lists the citations of
  all its texts in one chunk before the last, as OpenAI does.

## Stop sequences

Responses has no stop sequences. If the provider of the model uses that format, the gateway enforces `stop` and `stop_sequences`
itself, and names the field in `x-dropped-fields`: at most 16 sequences of at most 1,024 bytes each.

- The answer ends before the first sequence that stands whole in a text of the model, in one event or across several. Text that
  may be the beginning of a sequence is held until the next event decides. Reasoning and tool calls are not searched.
- The finish reason is `stop` in chat and `STOP` in Gemini. In messages it is `stop_sequence`, with the sequence in `stop_sequence`.
- When a streamed answer ends, the gateway closes the provider's stream, so that generation stops. The provider then reports no
  usage: the request is charged as if the client had disconnected at the sequence
  ([charging.md](charging.md#stop-sequences)). The connection of an HTTP/1.1 caller closes after such an answer.
- The gateway reads an unstreamed answer to its end, cuts it, and charges what the provider reports.

## Answers that are remembered

The responses format lets a client refer to an earlier answer instead of sending it again: Vercel's AI SDK does so by default. No
other format has such references. The gateway therefore remembers the answers that it translates, unless the request says
`store: false`, and puts the conversation into a request that refers to one:

| In the request | Becomes |
|---|---|
| `previous_response_id` | the input and the output of that answer and of all answers before it, in front of `input` |
| `item_reference`, `{\"id\": …}`, an item that has no contents | the item |
| `reasoning` without `encrypted_content` | the item with the sealed state that its provider needs back. If it is not remembered and has no summary, it is dropped with notice |

- The next request may go to any model, in any format. The conversation counts as its input, as if the client had sent it.
- An answer belongs to the key that asked for it. An id of another key, and one that is not remembered, is 404 `not_found`, with the
  name of the field.
- The ids are the gateway's own (`resp_` and 26 characters). `instructions` and `tools` are not part of the conversation: the client
  sends them with each request, as the format demands.
- `GET` and `DELETE /v1/responses/{id}` work. `GET` shows `encrypted_content` if the query has
  `include[]=reasoning.encrypted_content`. `POST …/cancel` and `GET …/input_items` do not work for these answers.
- Only an answer that ended is remembered: completed, or cut by its output limit or a content filter.
- A conversation goes on while all of its answers are remembered. How much is remembered, and for how long, is set under
  `translation.memory_limits`; the oldest answers go first. A request larger than 8 MiB is answered and not remembered.
- `translation.memory: none` switches this off. Then `store: true` and every reference is refused, and the client must send the whole
  history.
- Where the contents are kept, and who can read them, is described in [Keep conversations](../guides/conversations.md#privacy).

## What responses does differently

The reasoning of a model comes back encrypted, for the next turn, if the model is known to reason: its `reasoning` in the catalog
is `adaptive` or `extended`, it has `efforts`, or the request asks for reasoning. Models that do not reason refuse such a request.

## Compaction

Codex asks for a summary of a long session with an item `compaction_trigger` at the end of `input`. For models that are served in
another format the gateway asks the model for that summary, without tools, and answers with one `compaction` item. The client sends
that item back in place of the conversation. Any model can continue from there: the gateway sends the summary as a user message,
to responses providers too. A `compaction` item that a provider made can only go back to that provider.

## What Gemini does differently

- **The address** has the model and the choice of a stream. Names of fields are read in camel case and in snake case.
- **Schemas.** `parameters` and `responseSchema` are in Google's dialect and become JSON schemas: types in small letters, `nullable`
  as the type `null`, without `propertyOrdering`, `example` and widths of numbers. `parametersJsonSchema` and `responseJsonSchema` go
  through as they are.
- **Calls without ids.** A call without an id gets one by its place in the conversation, which is the same in the next request. A
  result without an id answers the first open call of its name.
- **Results.** `{\"output\": …}`, `{\"result\": …}` and `{\"error\": …}` become their contents, any other response its JSON.
- **Reasoning** is sealed, together with its text, in `thoughtSignature` of the part behind it: of the call, or of the text. Clients
  return that part, and may drop the parts with `thought: true`. A signature of another origin is dropped with notice.
- **Efforts.** `thinkingBudget` becomes the effort that thinks as much. Models that do not think ignore it, with notice.
- **Calls in streams** come whole, in one event. Instead of comments, which Google's SDKs take for broken events, an empty line keeps a
  stream alive.
- **Base64** may be in the alphabet of URLs, as Google's SDKs write it.
- **Files.** An http or https address in `fileData` is passed on, and never fetched. Files that Google stores are refused.

## What messages does differently

- **JSON without a schema** (`json_object`). The gateway adds an instruction to answer with one JSON object, and names
  `response_format.json_object` or `text.format.json_object` in `x-dropped-fields`. It checks the answer: if it ends
  normally and is not one JSON object, the client gets 502, or an error event if the stream has begun. The answer is charged, no
  other candidate is asked, and no provider is blamed, because the words of a request can cause it. An answer that calls a tool or refuses need not be an
  object, and one that reaches the output limit need not be whole.
- **Whitespace stop sequences** are dropped with notice: messages refuses them.
- **Malformed arguments.** A call in the history whose `arguments` are no JSON object is sent with the text in a member
  `malformed_arguments`, with notice, so that the model sees its own text and the error of its tool.
- **Schemas of any object.** Messages takes schemas for answers only if each object allows no members but its own. The gateway
  sets `additionalProperties: false` on the objects of a schema where the client did not, with notice. An object whose members have
  no names (`additionalProperties` with a schema, `patternProperties`, no `properties`) is refused with its place in the schema.
- **Tools with several schemas.** A tool's schema with `anyOf`, `oneOf` or `allOf` at its top becomes one object with the members of
  all, with notice; `required` lists what each of them requires (with `allOf`, any of them). A schema among them that is written
  elsewhere (`$ref`) or is no object is refused with its place.
- **Instructions alone.** A request must have a user message. If it only has system and developer messages, the last of them is
  sent as a user message, marked as the system's (`<system-reminder>`), and the others as `system`. A responses request with
  `instructions` and no input is refused.
- **An output limit too small for thinking.** Models that think with a budget need a budget of at least 1,024 tokens and a larger
  limit. If the client's limit leaves no room, the effort is dropped with notice: the limit is not raised, because the balance
  is reserved for it. For models that always think (`reasoning: extended`) room is reserved, and the limit is raised within that.
  Responses takes no limit below 16 tokens: a smaller one becomes 16, which `x-output-limit` reports.
";

/// The whole page.
pub fn page() -> String {
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
