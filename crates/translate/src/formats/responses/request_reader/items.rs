//! Reads the items of a responses request.
//!
//! It decides which items make one turn: what the assistant thinks, says and calls in a row,
//! and what tools answer to it.

use super::{compaction, search, tool_search, tools};
use crate::request::read::{
    media,
    shared::{answer_call, array, assistant_says, say, take_mark, text_block, user_says},
};
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::responses::request_fields as table,
    request::{
        conversation::{
            Block, Call, CallResult, Conversation, File, Image, Input, Role, Source, TextBlock,
            Thought, Turn, Words,
        },
        fields::Fields,
        path::Path,
        scope::{Scope, must_be, refuse, shown},
    },
    table::Kinds,
};

pub(crate) fn read_items<'d>(
    scope: &mut Scope<'_>,
    input: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("input");
    if input.kind() != Kind::Array {
        return Err(must_be(&path, "a string or an array of items", input));
    }
    for (at, item) in input.elements().enumerate() {
        let path = path.index(at);
        if conversation.compacts {
            return Err(refuse(&path, "must not follow a compaction_trigger"));
        }
        if let Some(kind) = kind_of_item(scope, item, &path)? {
            read_item(scope, item, kind, at, &path, conversation)?;
        }
    }
    Ok(())
}

/// The kind of an item; a message may leave the word out.
fn kind_of_item(
    scope: &mut Scope<'_>,
    item: Value<'_>,
    path: &Path<'_>,
) -> Result<Option<&'static str>, Refusal> {
    if item.get("type").is_none() && item.get("role").is_some() {
        return Ok(Some("message"));
    }
    scope.kind(item, &table::ITEMS, path)
}

fn read_item<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    kind: &str,
    at: usize,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let turns = &mut conversation.turns;
    match kind {
        "message" => return message(scope, item, at, path, turns),
        "additional_tools" => {
            let mut fields = scope.open(item, &table::ADDITIONAL_TOOLS, path)?;
            let offered = fields.require("tools")?;
            fields.close()?;
            let path = path.field("tools");
            let offered = array(offered, &path)?;
            return tools::tools(scope, offered, &path, None, conversation);
        }
        "function_call_output" => {
            let fields = scope.open(item, &table::FUNCTION_OUTPUT, path)?;
            answer_call(turns, call_output(scope, fields)?, at);
        }
        "custom_tool_call_output" => {
            let fields = scope.open(item, &table::CUSTOM_OUTPUT, path)?;
            answer_call(turns, call_output(scope, fields)?, at);
        }
        "function_call" => {
            let mut fields = scope.open(item, &table::FUNCTION_CALL, path)?;
            let input = Input::Json(fields.require_text("arguments")?);
            assistant_says(turns, [call(fields, input)?], at);
        }
        "custom_tool_call" => {
            let mut fields = scope.open(item, &table::CUSTOM_CALL, path)?;
            let input = Input::Free(fields.require_text("input")?);
            assistant_says(turns, [call(fields, input)?], at);
        }
        "compaction_trigger" => {
            user_says(turns, [compaction::trigger(scope, item, path)?], at);
            conversation.compacts = true;
        }
        "compaction" => {
            if let Some(summary) = compaction::summary(scope, item, path)? {
                user_says(turns, [summary], at);
            }
        }
        "tool_search_call" => {
            if let Some(call) = tool_search::call(scope, item, path)? {
                assistant_says(turns, [call], at);
            }
        }
        "tool_search_output" => {
            if let Some(found) = tool_search::output(scope, item, path, conversation)? {
                answer_call(&mut conversation.turns, found, at);
            }
        }
        "web_search_call" => {
            let search = search::search_call(scope, item, path)?;
            assistant_says(turns, [search], at);
        }
        _ => {
            let thought = thought(scope, item, path)?;
            assistant_says(turns, [thought], at);
        }
    }
    Ok(())
}

fn message<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    at: usize,
    path: &Path<'_>,
    turns: &mut Vec<Turn<'d>>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(item, &table::MESSAGE, path)?;
    let role = fields.require_text("role")?;
    let role = match role {
        _ if role.is("user") => Role::User,
        _ if role.is("assistant") => Role::Assistant,
        _ if role.is("system") => Role::System,
        _ if role.is("developer") => Role::Developer,
        _ => {
            let message = format!(
                "is '{}'; expected one of: user, assistant, system, developer",
                shown(role)
            );
            return Err(refuse(&path.field("role"), message));
        }
    };
    let content = fields.require("content")?;
    fields.close()?;
    let path = path.field("content");
    let blocks = match content.text() {
        Some(text) => vec![text_block(text, None)],
        None => parts(scope, content, &table::PARTS, &path)?,
    };
    if role != Role::Assistant || !blocks.is_empty() {
        say(turns, role, blocks, at);
    }
    Ok(())
}

fn parts<'d>(
    scope: &mut Scope<'_>,
    content: Value<'d>,
    kinds: &'static Kinds,
    path: &Path<'_>,
) -> Result<Vec<Block<'d>>, Refusal> {
    if content.kind() != Kind::Array {
        return Err(must_be(path, "a string or an array of parts", content));
    }
    let mut blocks = Vec::new();
    for (at, value) in content.elements().enumerate() {
        let path = path.index(at);
        if let Some(kind) = scope.kind(value, kinds, &path)? {
            blocks.push(part(scope, value, kind, &path)?);
        }
    }
    Ok(blocks)
}

fn part<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    kind: &str,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    match kind {
        "input_text" => {
            let mut fields = scope.open(value, &table::INPUT_TEXT, path)?;
            let text = fields.require_text("text")?;
            let mark = "prompt_cache_breakpoint";
            let cache = take_mark(scope, &mut fields, mark, &table::BREAKPOINT)?;
            fields.close()?;
            Ok(text_block(text, cache))
        }
        "output_text" => {
            let mut fields = scope.open(value, &table::OUTPUT_TEXT, path)?;
            let text = fields.require_text("text")?;
            let cited = fields.array("annotations")?;
            fields.close()?;
            Ok(Block::Text(TextBlock {
                cited: cited.filter(|cited| cited.elements().next().is_some()),
                ..TextBlock::of(Words::Asked(text))
            }))
        }
        "refusal" => {
            let mut fields = scope.open(value, &table::REFUSAL, path)?;
            let text = fields.require_text("refusal")?;
            fields.close()?;
            Ok(Block::Refusal(TextBlock::of(Words::Asked(text))))
        }
        "input_image" => image(scope, value, path),
        _ => file(scope, value, path),
    }
}

fn image<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(value, &table::IMAGE, path)?;
    let url = fields.require_text("image_url")?;
    let source = media::image(scope, url, &path.field("image_url"))?;
    let detail = fields.text("detail")?;
    media_mark(scope, &mut fields);
    fields.close()?;
    Ok(Block::Image(Image { source, detail }))
}

fn file<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    // A target without names needs it for the type.
    let given = value.get("filename").and_then(Value::text);
    let mut fields = scope.open(value, &table::FILE, path)?;
    let name = fields.text("filename")?.or(given);
    let data = fields.text("file_data")?;
    let url = fields.text("file_url")?;
    media_mark(scope, &mut fields);
    fields.close()?;
    match (data, url) {
        (Some(data), _) => media::document(scope, data, name, &path.field("file_data")),
        (None, Some(url)) => {
            let source = Source::Url(media::address(url, &path.field("file_url"))?);
            Ok(Block::Document(File { source, name }))
        }
        (None, None) => Err(refuse(&path.field("file_data"), "is missing")),
    }
}

/// A mark on media: those are not marked anywhere else.
fn media_mark(scope: &mut Scope<'_>, fields: &mut Fields<'_, '_>) {
    if fields.take("prompt_cache_breakpoint").is_some() {
        scope.note_dropped(fields.path.field("prompt_cache_breakpoint").place());
    }
}

fn call<'d>(mut fields: Fields<'d, '_>, input: Input<'d>) -> Result<Block<'d>, Refusal> {
    let call = Call {
        id: fields.require_text("call_id")?,
        name: fields.require_text("name")?,
        namespace: fields.text("namespace")?,
        input,
    };
    fields.close()?;
    Ok(Block::Call(call))
}

fn call_output<'d>(
    scope: &mut Scope<'_>,
    mut fields: Fields<'d, '_>,
) -> Result<CallResult<'d>, Refusal> {
    let id = fields.require_text("call_id")?;
    let output = fields.require("output")?;
    let path = fields.path.field("output");
    let content = match output.text() {
        Some(text) => vec![text_block(text, None)],
        None => parts(scope, output, &table::OUTPUT_PARTS, &path)?,
    };
    fields.close()?;
    Ok(CallResult {
        id,
        content,
        is_error: false,
    })
}

fn thought<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(item, &table::REASONING_ITEM, path)?;
    let state = fields.text("encrypted_content")?;
    let mut text = Vec::new();
    for name in ["summary", "content"] {
        let path = path.field(name);
        let list = fields.array(name)?;
        for (at, piece) in list.into_iter().flat_map(Value::elements).enumerate() {
            text.extend(thought_text(scope, piece, &path.index(at))?);
        }
    }
    fields.close()?;
    Ok(Block::Thought(Thought {
        text,
        state: state.filter(|state| !state.is_empty()),
        paths: &["input[].reasoning"],
    }))
}

fn thought_text<'d>(
    scope: &mut Scope<'_>,
    piece: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<Text<'d>>, Refusal> {
    if scope.kind(piece, &table::SUMMARIES, path)?.is_none() {
        return Ok(None);
    }
    let mut fields = scope.open(piece, &table::THOUGHT, path)?;
    let text = fields.require_text("text")?;
    fields.close()?;
    Ok(Some(text))
}
