//! The caller's request, as the target's.
//!
//! It decides what a request means and how the target's format says it: a reader for each
//! format makes a conversation of the body, a writer for each format makes a body of the
//! conversation. What may be lost on the way stands in the [table](crate::table).

pub(crate) mod calls;
pub(crate) mod conversation;
pub(crate) mod fields;
pub(crate) mod path;
pub(crate) mod read;
pub(crate) mod reasoning;
pub(crate) mod scope;
pub(crate) mod write;

use crate::{
    AnswerCheck, AnswerMemory, AskedSearch, CallIds, MemoryNotes, Refusal, ResponsesEcho, Target,
    TranslationNotes,
    document::{Document, Text, Value},
    formats::{ReasoningUse, rules},
    names::ToolNames,
};
use bytes::Bytes;
use conversation::{AnswerFormat, Block, Conversation, Role, TextBlock, Turn, Words};
use scope::Scope;
use std::{ops::Range, sync::Arc};
use tollgate_types::Format;

/// A request in the target's format, and what must be remembered of the caller's.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The body to send.
    pub body: Bytes,
    /// The output limit that the body gives, in tokens: the caller's own unless the target
    /// needs one or another, or its model puts out less. What a reservation must cover.
    pub output_limit: Option<u64>,
    /// The fields that were left out or weakened with notice, by their paths in the table,
    /// each once: what goes into `x-dropped-fields`.
    pub dropped: Vec<String>,
    /// The notes for the answer half.
    pub notes: TranslationNotes,
    /// Where the `input` of a responses request stands in its body.
    pub input: Option<Range<usize>>,
}

/// Bytes by which a translated body can exceed the original: quotes, names, a few fields.
const SLACK: usize = 1024;

/// Bytes of memory that the translation of a body takes at most while it is made, its result
/// included: `length` bytes, with so many keys and values.
///
/// Of a text in one piece that is what is written and what was unescaped for a look at it; a body
/// of many small values takes many times its bytes, for what is known of each. Measured over dense
/// bodies of every kind in all directions; `tests/alone/memory.rs` holds the whole program to it.
pub const fn most_memory(length: u64, values: u64) -> u64 {
    /// A node of the document, while its list grows, and its part of the conversation.
    const OF_A_VALUE: u64 = 128;
    let of_values = values.saturating_mul(OF_A_VALUE);
    length
        .saturating_mul(2)
        .saturating_add(of_values)
        .saturating_add(SLACK as u64)
}

/// Translates a whole request body into another format. A lexer must have found the body to be JSON.
/// For another body the result is arbitrary, but the function does not panic.
///
/// # Errors
/// A field cannot be carried, or its value is not one that its format knows: the refusal
/// names it. Translating within one format is refused, too, unless the target lacks tools of free text:
/// such a body passes as it is.
pub fn request(
    from: Format,
    to: Format,
    body: &[u8],
    target: &Target<'_>,
) -> Result<Translated, Refusal> {
    let document = Document::of_valid(body);
    let document = document.map_err(|fault| Refusal::new("", fault.to_string()))?;
    if from == to && (rules(to).target.has_custom_tools)(target) {
        return Err(Refusal::new(
            "",
            "the body is in the target's format already",
        ));
    }
    let mut scope = Scope::new(from, to, target)?;
    let rewrite = scope.source.rewrite;
    let rewrites = rewrite.map(|rewrite| rewrite(document.root()));
    let rewrites = rewrites.unwrap_or_default();
    let list = rewrites.document()?;
    let rewritten = rewrites.rewritten(list.as_ref());
    let read = scope.source.read;
    let mut conversation = read(document.root(), &rewritten, &mut scope)?;
    // A provider refuses more than its model can put out.
    let most = target.max_output_tokens.unwrap_or(u64::MAX);
    conversation.limit = conversation.limit.map(|limit| limit.min(most));
    instruct_json(&mut conversation, &mut scope);
    calls::settle(&mut conversation, &scope)?;
    check_last_turn(&conversation, &scope)?;
    let capacity = body
        .len()
        .saturating_add(body.len() / 8)
        .saturating_add(SLACK);
    let written = write::write(&conversation, &mut scope, capacity)?;
    let notes = notes(conversation, written.names, &scope);
    let remembered = scope.source.remembered;
    let input = remembered.and_then(|field| document.root().get(field));
    let input = input.map(Value::span);
    let mut body = written.body;
    if body.capacity().saturating_sub(body.len()) > body.len() / 4 {
        // It is kept until its provider has it: what it does not need is others'.
        body.shrink_to_fit();
    }
    Ok(Translated {
        body: body.into(),
        output_limit: written.output_limit,
        dropped: scope.into_dropped()?,
        notes,
        input,
    })
}

/// Messages has no JSON without a schema: the model is instructed, and its answer checked.
fn instruct_json(conversation: &mut Conversation<'_>, scope: &mut Scope<'_>) {
    const INSTRUCTION: &str = "Answer with exactly one JSON object and nothing else: no text before or after it, and no code fence.";
    let is_asked = matches!(conversation.format, Some(AnswerFormat::JsonObject));
    if scope.rules.has_json_objects || !is_asked {
        return;
    }
    conversation.format = None;
    let may_call = !conversation.tools.is_empty() || conversation.search.is_some();
    conversation.check = match may_call {
        true => AnswerCheck::JsonObjectOrCall,
        false => AnswerCheck::JsonObject,
    };
    scope.note_dropped(scope.source.paths.json_object);
    let turns = &mut conversation.turns;
    let leading = turns.iter().take_while(|turn| turn.role.instructs());
    // If all turns are the system's, the last one is sent as the user's.
    let at = Some(leading.count()).filter(|leading| *leading < turns.len());
    let instruction = Turn {
        role: Role::System,
        blocks: vec![Block::Text(TextBlock::of(Words::Made(
            INSTRUCTION.to_owned(),
        )))],
        at: None,
    };
    turns.insert(at.unwrap_or_default(), instruction);
}

/// Messages goes on with an answer that is begun; no other format does, and newer models of
/// messages do not either. Writers leave out turns without content.
fn check_last_turn(conversation: &Conversation<'_>, scope: &Scope<'_>) -> Result<(), Refusal> {
    let prefills = [scope.from, scope.to]
        .map(rules)
        .iter()
        .any(|it| it.has_begun_answers);
    let mut turns = conversation.turns.iter().rev();
    match turns.find(|turn| turn.has_content()) {
        Some(last) if prefills && last.role == Role::Assistant => {
            let message = "begins the answer, and this model does not go on with one: end with what the user says";
            Err(calls::refuse_turn(last, scope, message.to_owned()))
        }
        _ => Ok(()),
    }
}

fn notes(
    mut conversation: Conversation<'_>,
    tools: ToolNames,
    scope: &Scope<'_>,
) -> TranslationNotes {
    let Scope {
        from,
        to,
        source,
        rules,
        target,
        ..
    } = *scope;
    // The client itself keeps a summary, in place of the answers before it.
    let is_remembered = source.remembered.is_some()
        && target.memory == AnswerMemory::Keep
        && !conversation.compacts;
    if let Some(echo) = &mut conversation.echo {
        note_memory(echo, is_remembered, target);
    }
    let used = ReasoningUse {
        is_remembered,
        is_returned: (rules.returns_reasoning)(target),
    };
    let reasoning = (source.asked_reasoning)(&conversation, used);
    let blocks = conversation.turns.iter().flat_map(|turn| &turn.blocks);
    let call_ids = CallIds::new(blocks.filter_map(calls::call_id).map(Text::decode));
    TranslationNotes {
        from,
        to,
        model: conversation.model,
        include_usage: conversation.include_usage,
        tools,
        call_ids,
        reasoning,
        check: conversation.check,
        compacts: conversation.compacts,
        echo: conversation.echo,
        search: conversation.search.map(|_| AskedSearch {
            sources: conversation.search_sources,
        }),
        stop: match rules.has_stop_sequences {
            true => Arc::default(),
            false => {
                let stop = conversation.stop.iter();
                stop.map(|stop| stop.decode().into_owned()).collect()
            }
        },
        backend: scope.backend().into_owned(),
        memory: is_remembered.then_some(MemoryNotes {
            shows_state: conversation.encrypted_reasoning,
        }),
    }
}

/// Notes the answer's fields about its own storage.
fn note_memory(echo: &mut ResponsesEcho, is_remembered: bool, target: &Target<'_>) {
    let store = if is_remembered { "true" } else { "false" };
    echo.set("store", Some(store.into()));
    echo.previous_response_id = target
        .previous_response
        .and_then(|id| serde_json::to_string(id).ok())
        .map(Into::into);
}
