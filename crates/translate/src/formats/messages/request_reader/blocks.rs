//! Reads the content blocks of a messages request.

use super::{search, tools};
use crate::request::read::{
    media::{self, address, check_image},
    search::NAME,
    shared::{made_block, take_effort, take_mark, take_word, text_block},
};
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::messages::request_fields as table,
    request::{
        conversation::{
            Block, Call, CallResult, Conversation, File, Image, Input, Source, TextBlock, Thought,
            Tool, Words,
        },
        fields::Fields,
        path::Path,
        scope::{Scope, must_be, refuse},
    },
    table::Kinds,
};
use search::Searches;
use std::{borrow::Cow, collections::HashMap};

/// The blocks of a list in which the kinds of `kinds` may stand.
pub(crate) fn blocks_of<'d>(
    scope: &mut Scope<'_>,
    content: Value<'d>,
    kinds: &'static Kinds,
    path: &Path<'_>,
) -> Result<Vec<Block<'d>>, Refusal> {
    if content.kind() != Kind::Array {
        return Err(must_be(path, "a string or an array of blocks", content));
    }
    let mut blocks = Vec::new();
    let mut searches = Searches::new();
    for (at, block) in content.elements().enumerate() {
        let path = path.index(at);
        if let Some(kind) = scope.kind(block, kinds, &path)? {
            read_block(scope, block, kind, &path, &mut blocks, &mut searches)?;
        }
    }
    Ok(blocks)
}

fn read_block<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    kind: &str,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
    searches: &mut Searches<'d>,
) -> Result<(), Refusal> {
    let read = match kind {
        "text" => text(scope, block, path)?,
        "image" => image(scope, block, path)?,
        "document" => return document(scope, block, path, blocks),
        "search_result" => return search_result(scope, block, path, blocks),
        "thinking" => thinking(scope, block, path)?,
        "redacted_thinking" => redacted(scope, block, path)?,
        "tool_use" => tool_use(scope, block, path)?,
        "tool_result" => tool_result(scope, block, path)?,
        "server_tool_use" => {
            return search::server_tool_use(scope, block, path, blocks, searches);
        }
        "web_search_tool_result" => {
            return search::search_tool_result(scope, block, path, blocks, searches);
        }
        _ => tool_reference(scope, block, path)?,
    };
    blocks.push(read);
    Ok(())
}

fn text<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(block, &table::TEXT, path)?;
    let text = fields.require_text("text")?;
    let cache = take_mark(scope, &mut fields, "cache_control", &table::CACHE_CONTROL)?;
    let cited = fields.array("citations")?;
    fields.close()?;
    Ok(Block::Text(TextBlock {
        cache,
        cited: cited.filter(|cited| cited.elements().next().is_some()),
        ..TextBlock::of(Words::Asked(text))
    }))
}

fn image<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(block, &table::IMAGE, path)?;
    let source = fields.require("source")?;
    fields.close()?;
    let path = path.field("source");
    let Some(kind) = scope.kind(source, &table::IMAGE_SOURCES, &path)? else {
        return Ok(made_block(String::new()));
    };
    let source = link(scope, source, kind, &path)?;
    if let Source::Data { media_type, .. } = &source {
        check_image(scope, media_type, &path.field("media_type"))?;
    }
    Ok(Block::Image(Image {
        source,
        detail: None,
    }))
}

/// A source that is data or an address.
fn link<'d>(
    scope: &mut Scope<'_>,
    source: Value<'d>,
    kind: &str,
    path: &Path<'_>,
) -> Result<Source<'d>, Refusal> {
    if kind == "url" {
        let mut fields = scope.open(source, &table::URL, path)?;
        let url = address(fields.require_text("url")?, &path.field("url"))?;
        fields.close()?;
        return Ok(Source::Url(url));
    }
    let mut fields = scope.open(source, &table::BASE64, path)?;
    let media_type = fields.require_text("media_type")?.decode();
    let data = fields.require_text("data")?;
    fields.close()?;
    media::data(media_type, data, &path.field("data"))
}

fn document<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(block, &table::DOCUMENT, path)?;
    let source = fields.require("source")?;
    let title = fields.text("title")?;
    let context = fields.text("context")?;
    citations(scope, &mut fields)?;
    fields.close()?;
    if let Some(context) = context.filter(|context| !context.is_empty()) {
        blocks.push(text_block(context, None));
    }
    let path = path.field("source");
    let Some(kind) = scope.kind(source, &table::DOCUMENT_SOURCES, &path)? else {
        return Ok(());
    };
    if matches!(kind, "base64" | "url") {
        let source = link(scope, source, kind, &path)?;
        blocks.push(Block::Document(File {
            source,
            name: title,
        }));
        return Ok(());
    }
    if let Some(title) = title.filter(|title| !title.is_empty()) {
        blocks.push(text_block(title, None));
    }
    if kind == "text" {
        let mut fields = scope.open(source, &table::PLAIN, &path)?;
        blocks.push(text_block(fields.require_text("data")?, None));
        return fields.close();
    }
    let mut fields = scope.open(source, &table::CONTENT_SOURCE, &path)?;
    let content = fields.require("content")?;
    fields.close()?;
    let path = path.field("content");
    inner_content(scope, content, &table::SOURCE_BLOCKS, &path, blocks)
}

/// Text, or a list of blocks of some kinds, within a block.
fn inner_content<'d>(
    scope: &mut Scope<'_>,
    content: Value<'d>,
    kinds: &'static Kinds,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    match content.text() {
        Some(text) => blocks.push(text_block(text, None)),
        None => blocks.extend(blocks_of(scope, content, kinds, path)?),
    }
    Ok(())
}

fn citations(scope: &mut Scope<'_>, fields: &mut Fields<'_, '_>) -> Result<(), Refusal> {
    let path = fields.path.field("citations");
    match fields.take("citations") {
        Some(value) => scope.open(value, &table::CITATIONS, &path)?.close(),
        None => Ok(()),
    }
}

fn search_result<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(block, &table::SEARCH_RESULT, path)?;
    let title = fields.require_text("title")?;
    let source = fields.require_text("source")?;
    let content = fields.require("content")?;
    let mark = take_mark(scope, &mut fields, "cache_control", &table::CACHE_CONTROL)?;
    citations(scope, &mut fields)?;
    fields.close()?;
    blocks.push(made_block(format!(
        "{}\n{}",
        title.decode(),
        source.decode()
    )));
    let path = path.field("content");
    inner_content(scope, content, &table::FOUND_BLOCKS, &path, blocks)?;
    if let (Some(mark), Some(Block::Text(last))) = (mark, blocks.last_mut()) {
        last.cache = Some(mark);
    }
    Ok(())
}

fn thinking<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(block, &table::THINKING, path)?;
    let text = fields.text("thinking")?;
    let state = fields.text("signature")?;
    fields.close()?;
    Ok(Block::Thought(Thought {
        text: text.into_iter().filter(|text| !text.is_empty()).collect(),
        state: state.filter(|state| !state.is_empty()),
        paths: &["messages[].content[].thinking"],
    }))
}

fn redacted<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(block, &table::REDACTED, path)?;
    let state = fields.require_text("data")?;
    fields.close()?;
    Ok(Block::Thought(Thought {
        text: Vec::new(),
        state: Some(state),
        paths: &["messages[].content[].redacted_thinking"],
    }))
}

fn tool_use<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(block, &table::TOOL_USE, path)?;
    let id = fields.require_text("id")?;
    let name = fields.require_text("name")?;
    let input = fields.object("input")?;
    let input = input.ok_or_else(|| refuse(&path.field("input"), "is missing"))?;
    fields.close()?;
    Ok(Block::Call(Call {
        id,
        name,
        namespace: None,
        input: Input::Object(input),
    }))
}

fn tool_result<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(block, &table::TOOL_RESULT, path)?;
    let id = fields.require_text("tool_use_id")?;
    let is_error = fields.bool("is_error")?.unwrap_or_default();
    let mut content = Vec::new();
    if let Some(value) = fields.take("content") {
        let path = path.field("content");
        inner_content(scope, value, &table::RESULT_BLOCKS, &path, &mut content)?;
    }
    fields.close()?;
    Ok(Block::Result(CallResult {
        id,
        content,
        is_error,
    }))
}

/// The result of a search among tools names them; they are all offered from the start.
fn tool_reference<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(block, &table::TOOL_REFERENCE, path)?;
    let name = fields.require_text("tool_name")?;
    fields.close()?;
    Ok(made_block(format!("Loaded the tool {}.", name.decode())))
}

/// Names of removed tools, each with the number of tools that were offered before the last removal.
pub(crate) type Removed<'d> = HashMap<Cow<'d, str>, usize>;

/// Drops the removed tools that are not offered again.
pub(crate) fn remove(tools: &mut Vec<Tool<'_>>, removed: &Removed<'_>) {
    if removed.is_empty() {
        return;
    }
    let mut places = 0_usize..;
    tools.retain(|tool| {
        let until = removed.get(&tool.name.decode()).copied();
        let place = places.next().unwrap_or_default();
        place >= until.unwrap_or_default()
    });
}

/// A message of the role `system`. `is_over`: the user has spoken after it.
pub(crate) fn system_message<'d>(
    scope: &mut Scope<'_>,
    message: Value<'d>,
    is_over: bool,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
    removed: &mut Removed<'d>,
) -> Result<Vec<Block<'d>>, Refusal> {
    let mut fields = scope.open(message, &table::SYSTEM, path)?;
    let clear = take_word(&mut fields, "clear_at", &["never", "next_user_message"])?;
    if let Some(config) = fields.take("output_config") {
        let path = path.field("output_config");
        let mut config = scope.open(config, &table::TURN_OUTPUT_CONFIG, &path)?;
        let effort = take_effort(&mut config, "effort")?;
        if effort.is_some() {
            conversation.reasoning.effort = effort;
            conversation.reasoning.effort_field = "messages[].output_config.effort";
        }
        config.close()?;
    }
    let content = fields.take("content");
    fields.close()?;
    let path = path.field("content");
    let mut blocks = Vec::new();
    if let Some(text) = content.and_then(Value::text) {
        blocks.push(text_block(text, None));
    } else if let Some(content) = content {
        system_blocks(scope, content, &path, conversation, removed, &mut blocks)?;
    }
    if is_over && clear == Some("next_user_message") {
        blocks.clear();
    }
    Ok(blocks)
}

fn system_blocks<'d>(
    scope: &mut Scope<'_>,
    content: Value<'d>,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
    removed: &mut Removed<'d>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    if content.kind() != Kind::Array {
        return Err(must_be(path, "a string or an array of blocks", content));
    }
    for (at, block) in content.elements().enumerate() {
        let path = path.index(at);
        match scope.kind(block, &table::MESSAGE_SYSTEM_BLOCKS, &path)? {
            Some("text") => blocks.push(text(scope, block, &path)?),
            Some(kind) => tool_change(scope, block, kind, &path, conversation, removed)?,
            None => {}
        }
    }
    Ok(())
}

/// The list of tools changes within the conversation: what is offered in the end counts.
fn tool_change<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    kind: &str,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
    removed: &mut Removed<'d>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(block, &table::TOOL_CHANGE, path)?;
    let tool = fields.require("tool")?;
    fields.close()?;
    let path = path.field("tool");
    match scope.kind(tool, &table::TOOL_CHANGES, &path)? {
        Some("tool_definition") => {
            let mut fields = scope.open(tool, &table::CHANGED_DEFINITION, &path)?;
            let definition = fields.require("definition")?;
            fields.close()?;
            let path = path.field("definition");
            tools::tool(scope, definition, &path, conversation)
        }
        Some(_) => {
            let mut fields = scope.open(tool, &table::CHANGED_TOOL, &path)?;
            let name: Text<'d> = fields.require_text("name")?;
            fields.close()?;
            if kind == "tool_removal" {
                removed.insert(name.decode(), conversation.tools.len());
                conversation.search.take_if(|_| name.is(NAME));
            }
            Ok(())
        }
        None => Ok(()),
    }
}
