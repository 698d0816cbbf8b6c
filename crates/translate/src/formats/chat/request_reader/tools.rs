//! Reads the tools of a chat completions request: offered, chosen and called.

use crate::request::read::{
    openai::{self, choice_word},
    shared::{keep_allowed, take_mark, take_word},
};
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::chat::request_fields as table,
    request::{
        conversation::{Block, Call, Choice, Conversation, Grammar, Input, Takes, Tool},
        path::Path,
        scope::{Scope, must_be},
    },
};

pub(crate) fn tools<'d>(
    scope: &mut Scope<'_>,
    offered: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("tools");
    conversation.tools.reserve(offered.elements().count());
    for (at, tool) in offered.elements().enumerate() {
        let path = path.index(at);
        let read = match kind_of_tool(scope, tool, &path)? {
            Some("function") => function_tool(scope, tool, &path)?,
            Some(_) => custom_tool(scope, tool, &path)?,
            None => {
                conversation.lost_tools = true;
                continue;
            }
        };
        conversation.tools.push(read);
    }
    Ok(())
}

/// The kind of a tool. Some clients leave the word out: all tools were functions once.
fn kind_of_tool(
    scope: &mut Scope<'_>,
    tool: Value<'_>,
    path: &Path<'_>,
) -> Result<Option<&'static str>, Refusal> {
    if tool.get("type").is_none() && tool.get("function").is_some() {
        return Ok(Some("function"));
    }
    scope.kind(tool, &table::TOOLS, path)
}

fn function_tool<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    path: &Path<'_>,
) -> Result<Tool<'d>, Refusal> {
    let mut fields = scope.open(tool, &table::FUNCTION_TOOL, path)?;
    let function = fields.require("function")?;
    let cache = take_mark(scope, &mut fields, "cache_control", &table::CACHE_CONTROL)?;
    fields.close()?;
    let path = path.field("function");
    let fields = scope.open(function, &table::FUNCTION, &path)?;
    let tool = openai::function(fields)?;
    Ok(Tool { cache, ..tool })
}

fn custom_tool<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    path: &Path<'_>,
) -> Result<Tool<'d>, Refusal> {
    let mut fields = scope.open(tool, &table::CUSTOM_TOOL, path)?;
    let custom = fields.require("custom")?;
    let cache = take_mark(scope, &mut fields, "cache_control", &table::CACHE_CONTROL)?;
    fields.close()?;
    let path = path.field("custom");
    let mut fields = scope.open(custom, &table::CUSTOM, &path)?;
    let name = fields.require_text("name")?;
    let description = fields.text("description")?;
    let grammar = match fields.take("format") {
        Some(format) => grammar(scope, format, &path.field("format"))?,
        None => None,
    };
    fields.close()?;
    Ok(Tool {
        name,
        namespace: None,
        namespace_description: None,
        description,
        takes: Takes::Free(grammar),
        cache,
    })
}

fn grammar<'d>(
    scope: &mut Scope<'_>,
    format: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<Grammar<'d>>, Refusal> {
    if scope.kind(format, &table::CUSTOM_FORMATS, path)? != Some("grammar") {
        scope.open(format, &table::CUSTOM_TEXT, path)?.close()?;
        return Ok(None);
    }
    let mut fields = scope.open(format, &table::CUSTOM_GRAMMAR, path)?;
    let grammar = fields.require("grammar")?;
    fields.close()?;
    let path = path.field("grammar");
    openai::grammar(scope.open(grammar, &table::GRAMMAR, &path)?).map(Some)
}

/// Reads `tool_choice`: a word or an object.
pub(crate) fn choice<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("tool_choice");
    if let Some(word) = value.text() {
        conversation.choice = Some(choice_word(word, &path)?);
        return Ok(());
    }
    let Some(kind) = scope.kind(value, &table::CHOICES, &path)? else {
        return Ok(());
    };
    if kind == "allowed_tools" {
        return allowed_tools(scope, value, conversation);
    }
    let name = chosen_name(scope, value, kind, &path)?;
    conversation.choice = Some(Choice::Tool {
        name,
        namespace: None,
    });
    Ok(())
}

fn chosen_name<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    kind: &'static str,
    path: &Path<'_>,
) -> Result<Text<'d>, Refusal> {
    let shape = match kind {
        "custom" => &table::CHOICE_CUSTOM,
        _ => &table::CHOICE_FUNCTION,
    };
    let mut fields = scope.open(value, shape, path)?;
    let named = fields.require(kind)?;
    fields.close()?;
    let path = path.field(kind);
    let mut fields = scope.open(named, &table::CHOICE_NAME, &path)?;
    let name = fields.require_text("name")?;
    fields.close()?;
    Ok(name)
}

/// Some of the tools may be called: the others are not offered.
fn allowed_tools<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("tool_choice");
    let mut fields = scope.open(value, &table::CHOICE_ALLOWED, &path)?;
    let allowed = fields.require("allowed_tools")?;
    fields.close()?;
    let path = path.field("allowed_tools");
    let mut fields = scope.open(allowed, &table::ALLOWED_TOOLS, &path)?;
    let mode = take_word(&mut fields, "mode", &["auto", "required"])?;
    let list = fields.require("tools")?;
    fields.close()?;
    let path = path.field("tools");
    if list.kind() != Kind::Array {
        return Err(must_be(&path, "an array", list));
    }
    let mut names = Vec::new();
    for (at, tool) in list.elements().enumerate() {
        let path = path.index(at);
        if let Some(kind) = scope.kind(tool, &table::ALLOWED, &path)? {
            names.push((chosen_name(scope, tool, kind, &path)?, None));
        }
    }
    keep_allowed(conversation, &names, false, mode.unwrap_or("auto"), &path)
}

/// Reads the calls of an assistant's message.
pub(crate) fn read_calls<'d>(
    scope: &mut Scope<'_>,
    calls: Value<'d>,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    for (at, call) in calls.elements().enumerate() {
        let path = path.index(at);
        let kind = match call.get("type") {
            Some(_) => scope.kind(call, &table::CALLS, &path)?,
            None => Some("function"),
        };
        let (shape, inner, body) = match kind {
            Some("function") => (&table::FUNCTION_CALL, &table::CALLED_FUNCTION, "function"),
            Some(_) => (&table::CUSTOM_CALL, &table::CALLED_CUSTOM, "custom"),
            None => continue,
        };
        let mut fields = scope.open(call, shape, &path)?;
        let id = fields.require_text("id")?;
        let called = fields.require(body)?;
        fields.close()?;
        let path = path.field(body);
        let mut fields = scope.open(called, inner, &path)?;
        let name = fields.require_text("name")?;
        let input = match body {
            "function" => Input::Json(fields.require_text("arguments")?),
            _ => Input::Free(fields.require_text("input")?),
        };
        fields.close()?;
        blocks.push(Block::Call(Call {
            id,
            name,
            namespace: None,
            input,
        }));
    }
    Ok(())
}
