//! Parts that several readers share: efforts, cache marks, text blocks.

use crate::{
    Refusal,
    document::{Kind, Text, Value},
    request::{
        conversation::{
            Block, CacheMark, CallResult, Choice, Conversation, Role, TextBlock, Tool, Turn, Words,
        },
        fields::Fields,
        path::Path,
        scope::{Scope, must_be, place_of, refuse, shown},
    },
    table::Shape,
};
use std::collections::HashSet;
use tollgate_types::Effort;

/// An effort by its name.
pub(crate) fn effort(text: Text<'_>, path: &Path<'_>) -> Result<Effort, Refusal> {
    let mut efforts = Effort::ALL.into_iter();
    let found = efforts.find(|effort| text.is(effort.as_str()));
    found.ok_or_else(|| {
        let names = Effort::ALL.map(Effort::as_str).join(", ");
        let message = format!("is '{}'; expected one of: {names}", shown(text));
        refuse(path, message)
    })
}

/// Takes a field that holds an effort.
pub(crate) fn take_effort(
    fields: &mut Fields<'_, '_>,
    name: &str,
) -> Result<Option<Effort>, Refusal> {
    let path = fields.path;
    let found = fields.text(name)?;
    found
        .map(|text| effort(text, &path.field(name)))
        .transpose()
}

/// Takes the name of the model. A request that names none is for the model that the gateway found.
pub(crate) fn take_model(top: &mut Fields<'_, '_>, scope: &Scope<'_>) -> Result<String, Refusal> {
    match (top.text("model")?, scope.target.asked_model) {
        (Some(name), _) => Ok(name.decode().into_owned()),
        (None, Some(asked)) => Ok(asked.to_owned()),
        (None, None) => Err(refuse(&top.path.field("model"), "is missing")),
    }
}

/// Takes one of a few words.
pub(crate) fn take_word(
    fields: &mut Fields<'_, '_>,
    name: &str,
    words: &[&'static str],
) -> Result<Option<&'static str>, Refusal> {
    let Some(text) = fields.text(name)? else {
        return Ok(None);
    };
    match words.iter().find(|word| text.is(word)) {
        Some(word) => Ok(Some(word)),
        None => {
            let message = format!(
                "is '{}'; expected one of: {}",
                shown(text),
                words.join(", ")
            );
            Err(refuse(&fields.path.field(name), message))
        }
    }
}

/// Takes a mark for caching: `cache_control` or `prompt_cache_breakpoint`.
pub(crate) fn take_mark<'d>(
    scope: &mut Scope<'_>,
    fields: &mut Fields<'d, '_>,
    name: &str,
    shape: &'static Shape,
) -> Result<Option<CacheMark<'d>>, Refusal> {
    let Some(value) = fields.take(name) else {
        return Ok(None);
    };
    let path = fields.path.field(name);
    let mut mark = scope.open(value, shape, &path)?;
    let ttl = mark.text("ttl")?;
    mark.close()?;
    let path = place_of(shape.at, &path);
    Ok(Some(CacheMark { ttl, path }))
}

/// Adds what the assistant says at `at`: several of its messages in a row are one turn, as the
/// results of their calls are.
pub(crate) fn assistant_says<'d>(
    turns: &mut Vec<Turn<'d>>,
    blocks: impl IntoIterator<Item = Block<'d>>,
    at: usize,
) {
    match turns.last_mut() {
        Some(last) if last.role == Role::Assistant => {
            let joined = last.blocks.len();
            last.blocks.extend(blocks);
            if let Some(Block::Text(text) | Block::Refusal(text)) = last.blocks.get_mut(joined) {
                text.begins = true;
            }
        }
        _ => turns.push(Turn {
            role: Role::Assistant,
            blocks: blocks.into_iter().collect(),
            at: Some(at),
        }),
    }
}

/// A block of text as the caller wrote it.
pub(crate) fn text_block<'d>(text: Text<'d>, cache: Option<CacheMark<'d>>) -> Block<'d> {
    Block::Text(TextBlock {
        cache,
        ..TextBlock::of(Words::Asked(text))
    })
}

/// A block of text of the gateway's own making.
pub(crate) fn made_block<'d>(text: String) -> Block<'d> {
    Block::Text(TextBlock::of(Words::Made(text)))
}

/// Reads a list of stop sequences, or a single one.
pub(crate) fn stops<'d>(value: Value<'d>, path: &Path<'_>) -> Result<Vec<Text<'d>>, Refusal> {
    match value.kind() {
        Kind::String => Ok(value.text().into_iter().collect()),
        Kind::Array => value
            .elements()
            .enumerate()
            .map(|(at, stop)| {
                let path = path.index(at);
                stop.text().ok_or_else(|| must_be(&path, "a string", stop))
            })
            .collect(),
        _ => Err(must_be(path, "a string or an array of strings", value)),
    }
}

/// Keeps the tools that `allowed_tools` names, and makes its mode the choice.
pub(crate) fn keep_allowed<'d>(
    conversation: &mut Conversation<'d>,
    names: &[(Text<'d>, Option<Text<'d>>)],
    keeps_search: bool,
    mode: &str,
    path: &Path<'_>,
) -> Result<(), Refusal> {
    let allowed: HashSet<_> = names
        .iter()
        .map(|(name, namespace)| (name.decode(), namespace.map(Text::decode)))
        .collect();
    let is_allowed = |tool: &Tool<'d>| {
        let name = tool.name.decode();
        // A name alone stands for the tool wherever it is.
        allowed.contains(&(name.clone(), None))
            || allowed.contains(&(name, tool.namespace.map(Text::decode)))
    };
    conversation.tools.retain(is_allowed);
    conversation.search.take_if(|_| !keeps_search);
    let is_empty = conversation.tools.is_empty() && conversation.search.is_none();
    if is_empty && mode == "required" {
        return Err(refuse(path, "names none of the tools that are offered"));
    }
    conversation.choice = Some(match mode {
        "required" => Choice::Required,
        _ if is_empty => Choice::None,
        _ => Choice::Auto,
    });
    Ok(())
}

/// Adds the result of a call; results of one answer stand in one turn.
pub(crate) fn answer_call<'d>(turns: &mut Vec<Turn<'d>>, result: CallResult<'d>, at: usize) {
    user_says(turns, [Block::Result(result)], at);
}

/// Adds what one side says at `at`.
pub(crate) fn say<'d>(turns: &mut Vec<Turn<'d>>, role: Role, blocks: Vec<Block<'d>>, at: usize) {
    match role {
        Role::Assistant => assistant_says(turns, blocks, at),
        Role::User => user_says(turns, blocks, at),
        Role::System | Role::Developer => turns.push(Turn {
            role,
            blocks,
            at: Some(at),
        }),
    }
}

/// Adds content of the user at `at`. After results of tools it belongs to the same turn.
pub(crate) fn user_says<'d>(
    turns: &mut Vec<Turn<'d>>,
    blocks: impl IntoIterator<Item = Block<'d>>,
    at: usize,
) {
    match turns.last_mut() {
        Some(last)
            if last.role == Role::User && matches!(last.blocks.last(), Some(Block::Result(_))) =>
        {
            last.blocks.extend(blocks);
        }
        _ => turns.push(Turn {
            role: Role::User,
            blocks: blocks.into_iter().collect(),
            at: Some(at),
        }),
    }
}

/// A value that must be an array, at a path of its own.
pub(crate) fn array<'d>(value: Value<'d>, path: &Path<'_>) -> Result<Value<'d>, Refusal> {
    match value.kind() {
        crate::document::Kind::Array => Ok(value),
        _ => Err(must_be(path, "an array", value)),
    }
}
