//! Reads the provider's search of the web in a messages request: the offer, and searches of
//! earlier answers.

use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::messages::request_fields as table,
    request::{
        conversation::{Block, Search, WebSearch},
        path::Path,
        read::search::{NAME, check_domains, domains, location},
        scope::{Scope, must_be},
    },
    seal::is_sealed,
};
use std::{borrow::Cow, collections::HashMap};

/// Reads the tool.
pub(crate) fn offer<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<WebSearch<'d>>, Refusal> {
    let mut fields = scope.open(tool, &table::WEB_SEARCH, path)?;
    let search = WebSearch {
        offer: None,
        allowed: domains(&mut fields, "allowed_domains")?,
        blocked: domains(&mut fields, "blocked_domains")?,
        location: location(scope, &mut fields, &table::USER_LOCATION)?,
        max_uses: fields.integer("max_uses", 1)?,
    };
    fields.close()?;
    check_domains(&search, path)?;
    Ok(Some(search))
}

/// The paths of an earlier search and its result.
const BLOCK_PATHS: &[&str] = &[
    "messages[].content[].server_tool_use",
    "messages[].content[].web_search_tool_result",
];

/// For each id, the index of its last search among the blocks of a message.
pub(crate) type Searches<'d> = HashMap<Cow<'d, str>, usize>;

/// Reads the call of a hosted tool. Refuses tools other than web search, unless the operator allows dropping them.
pub(crate) fn server_tool_use<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
    searches: &mut Searches<'d>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(block, &table::SERVER_TOOL_USE, path)?;
    let id = fields.require_text("id")?;
    let name = fields.require_text("name")?;
    fields.close()?;
    if !name.is(NAME) {
        let why = "it is about a tool of another provider";
        return scope.refuse_kind(&table::BLOCKS, "server_tool_use", why, path);
    }
    searches.insert(id.decode(), blocks.len());
    blocks.push(search(None));
    Ok(())
}

const fn search(state: Option<Text<'_>>) -> Block<'_> {
    Block::Search(Search {
        state,
        paths: BLOCK_PATHS,
    })
}

/// Reads the result of a search, into the block that made it.
pub(crate) fn search_tool_result<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
    searches: &mut Searches<'d>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(block, &table::SEARCH_TOOL_RESULT, path)?;
    let id = fields.require_text("tool_use_id")?;
    let content = fields.require("content")?;
    fields.close()?;
    if !matches!(content.kind(), Kind::Array | Kind::Object) {
        let path = path.field("content");
        return Err(must_be(&path, "an array of results or an error", content));
    }
    let state = content.elements().find_map(sealed_content);
    let end = blocks.len();
    let place = *searches.entry(id.decode()).or_insert(end);
    match blocks.get_mut(place) {
        Some(call) => *call = search(state),
        None => blocks.push(search(state)),
    }
    Ok(())
}

/// The seal of a search, in the first of its results.
fn sealed_content(result: Value<'_>) -> Option<Text<'_>> {
    let content = result.get("encrypted_content").and_then(Value::text)?;
    is_sealed(&content.decode()).then_some(content)
}
