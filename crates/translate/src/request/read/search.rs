//! Reads the provider's search of the web: as it is offered, and as an earlier answer made it.
//!
//! It decides what of an offer the target can keep to. A limit on what may be searched is kept,
//! or the tool is not offered at all: it never vanishes from under a search that is made.

use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::{messages::request_fields as messages, responses::request_fields as responses},
    request::{
        conversation::{Block, Conversation, Location, Search, WebSearch},
        fields::{Fields, text},
        path::Path,
        scope::{Scope, member, must_be, refuse},
    },
    seal::is_sealed,
    table::Shape,
};
use tollgate_types::Format;

/// The name by which messages knows the tool.
pub(crate) const NAME: &str = "web_search";

/// Reads the offer of a search. `kind` is its `type`.
pub(crate) fn offered<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    kind: &str,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let read = match (scope.has_search(), scope.from) {
        (false, _) => None,
        (true, Format::Messages) => Some(of_messages(scope, tool, path)?),
        (true, _) => of_responses(scope, tool, kind, path)?,
    };
    let Some(search) = read else {
        scope.note_dropped(format!("tools[].{kind}"));
        conversation.lost_tools = true;
        return Ok(());
    };
    match conversation.search.and_then(|before| before.offer) {
        Some(before) if before.raw() != tool.raw() => Err(refuse(
            path,
            "offers the search of the web once more, and in another way",
        )),
        _ => {
            conversation.search = Some(WebSearch {
                offer: Some(tool),
                ..search
            });
            Ok(())
        }
    }
}

fn of_messages<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    path: &Path<'_>,
) -> Result<WebSearch<'d>, Refusal> {
    let mut fields = scope.open(tool, &messages::WEB_SEARCH, path)?;
    let search = WebSearch {
        offer: None,
        allowed: domains(&mut fields, "allowed_domains")?,
        blocked: domains(&mut fields, "blocked_domains")?,
        location: location(scope, &mut fields, &messages::USER_LOCATION)?,
        max_uses: fields.integer("max_uses", 1)?,
    };
    fields.close()?;
    check_domains(&search, path)?;
    Ok(search)
}

/// `None`: it may not search live, and the target does nothing else.
fn of_responses<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    kind: &str,
    path: &Path<'_>,
) -> Result<Option<WebSearch<'d>>, Refusal> {
    let is_first = kind.starts_with("web_search_preview");
    let shape = match is_first {
        true => &responses::WEB_SEARCH_PREVIEW,
        false => &responses::WEB_SEARCH,
    };
    let mut fields = scope.open(tool, shape, path)?;
    let mut search = WebSearch {
        location: location(scope, &mut fields, &responses::USER_LOCATION)?,
        ..WebSearch::default()
    };
    let mut is_live = true;
    if !is_first {
        is_live = fields.bool("external_web_access")?.unwrap_or(true);
        if let Some(filters) = fields.take("filters") {
            let path = path.field("filters");
            let mut filters = scope.open(filters, &responses::SEARCH_FILTERS, &path)?;
            search.allowed = domains(&mut filters, "allowed_domains")?;
            search.blocked = domains(&mut filters, "blocked_domains")?;
            filters.close()?;
            check_domains(&search, &path)?;
        }
    }
    fields.close()?;
    Ok(is_live.then_some(search))
}

/// Where both lists stand, messages refuses them, and responses passes over the second.
fn check_domains(search: &WebSearch<'_>, path: &Path<'_>) -> Result<(), Refusal> {
    if search.allowed.is_some() && search.blocked.is_some() {
        let message = "stands beside 'allowed_domains': only one of the two lists can be kept to";
        return Err(refuse(&path.field("blocked_domains"), message));
    }
    Ok(())
}

/// A list of domains; an empty one says nothing.
fn domains<'d>(fields: &mut Fields<'d, '_>, name: &str) -> Result<Option<Value<'d>>, Refusal> {
    let path = fields.path.field(name);
    let list = fields.array(name)?;
    for (at, domain) in list.into_iter().flat_map(Value::elements).enumerate() {
        text(domain, &path.index(at))?;
    }
    Ok(list.filter(|list| list.elements().next().is_some()))
}

fn location<'d>(
    scope: &mut Scope<'_>,
    fields: &mut Fields<'d, '_>,
    shape: &'static Shape,
) -> Result<Option<Location<'d>>, Refusal> {
    let Some(value) = fields.take("user_location") else {
        return Ok(None);
    };
    let path = fields.path.field("user_location");
    let mut fields = scope.open(value, shape, &path)?;
    let location = Location {
        city: fields.text("city")?,
        country: fields.text("country")?,
        region: fields.text("region")?,
        timezone: fields.text("timezone")?,
    };
    fields.close()?;
    Ok(Some(location))
}

/// What messages calls a search of the past, and its result.
const BLOCK_PATHS: &[&str] = &[
    "messages[].content[].server_tool_use",
    "messages[].content[].web_search_tool_result",
];

/// Reads the call of a tool of the provider's; `None`: the operator lets it be dropped.
pub(crate) fn server_tool_use<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<Block<'d>>, Refusal> {
    let mut fields = scope.open(block, &messages::SERVER_TOOL_USE, path)?;
    let id = fields.require_text("id")?;
    let name = fields.require_text("name")?;
    fields.close()?;
    if !name.is(NAME) {
        let why = "it is about a tool of another provider";
        scope.refuse_kind(&messages::BLOCKS, "server_tool_use", why, path)?;
        return Ok(None);
    }
    Ok(Some(Block::Search(Search {
        id: Some(id),
        state: None,
        paths: BLOCK_PATHS,
    })))
}

/// Reads the result of a search, into the block that made it.
pub(crate) fn search_tool_result<'d>(
    scope: &mut Scope<'_>,
    block: Value<'d>,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    let mut fields = scope.open(block, &messages::SEARCH_TOOL_RESULT, path)?;
    let id = fields.require_text("tool_use_id")?;
    let content = fields.require("content")?;
    fields.close()?;
    if !matches!(content.kind(), Kind::Array | Kind::Object) {
        let path = path.field("content");
        return Err(must_be(&path, "an array of results or an error", content));
    }
    let state = content.elements().find_map(sealed_content);
    let call = blocks.iter_mut().rev().find_map(|block| match block {
        Block::Search(search) if search.id.is_some_and(|it| it.is_same(id)) => Some(search),
        _ => None,
    });
    match call {
        Some(search) => search.state = state,
        None => blocks.push(Block::Search(Search {
            id: Some(id),
            state,
            paths: BLOCK_PATHS,
        })),
    }
    Ok(())
}

/// The seal of a search, in the first of its results.
fn sealed_content(result: Value<'_>) -> Option<Text<'_>> {
    let content = member(result, "encrypted_content").and_then(Value::text)?;
    is_sealed(&content.decode()).then_some(content)
}

/// Reads an item that tells of a search.
pub(crate) fn search_call<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    scope.open(item, &responses::SEARCH_CALL, path)?.close()?;
    Ok(Block::Search(Search {
        id: None,
        state: None,
        paths: &["input[].web_search_call"],
    }))
}
