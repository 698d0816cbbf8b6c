//! Reads the tools of a messages request: offered and chosen.

use super::search;
use crate::request::read::{
    search::{NAME, take_offer},
    shared::{take_mark, take_word},
};
use crate::{
    Refusal,
    document::{Text, Value},
    formats::messages::request_fields::{self as table, blocks::CACHE_CONTROL},
    request::{
        conversation::{Choice, Conversation, Takes, Tool},
        path::Path,
        scope::{Scope, refuse},
    },
};

/// A tool that Claude Code offers as a stand-in for those that it has not loaded yet. It can
/// not be called, and other models would try.
const PLACEHOLDER: &str = "DeferredToolPlaceholder";

pub(crate) fn tools<'d>(
    scope: &mut Scope<'_>,
    offered: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("tools");
    conversation.tools.reserve(offered.elements().count());
    for (at, offered) in offered.elements().enumerate() {
        tool(scope, offered, &path.index(at), conversation)?;
    }
    Ok(())
}

pub(crate) fn tool<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    // A tool of the caller's own has no type, or `custom`.
    if value.given("type").is_some() {
        match scope.kind(value, &table::TOOLS, path)? {
            Some("custom") => {}
            Some(kind) => {
                return take_offer(scope, value, kind, path, conversation, |scope| {
                    search::offer(scope, value, path)
                });
            }
            None => {
                conversation.lost_tools = true;
                return Ok(());
            }
        }
    }
    let mut fields = scope.open(value, &table::TOOL, path)?;
    let name = fields.require_text("name")?;
    let description = fields.text("description")?;
    let schema = fields.object("input_schema")?;
    let strict = fields.bool("strict")?;
    fields.bool("defer_loading")?;
    let cache = take_mark(scope, &mut fields, "cache_control", &CACHE_CONTROL)?;
    fields.close()?;
    if name.is(PLACEHOLDER) {
        return Ok(());
    }
    conversation.tools.push(Tool {
        name,
        namespace: None,
        namespace_description: None,
        description,
        takes: Takes::Object { schema, strict },
        cache,
    });
    Ok(())
}

pub(crate) fn choice<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("tool_choice");
    let mut fields = scope.open(value, &table::CHOICE, &path)?;
    let kind = take_word(&mut fields, "type", &["auto", "any", "tool", "none"])?;
    let kind = kind.ok_or_else(|| refuse(&path.field("type"), "is missing"))?;
    let name = fields.text("name")?;
    let is_single = fields.bool("disable_parallel_tool_use")?;
    fields.close()?;
    conversation.parallel = is_single.map(|is_single| !is_single);
    conversation.choice = Some(match (kind, name) {
        ("auto", _) => Choice::Auto,
        ("any", _) => Choice::Required,
        ("none", _) => Choice::None,
        (_, Some(name)) if conversation.search.is_some() && is_search(name, conversation) => {
            Choice::Search
        }
        (_, Some(name)) => Choice::Tool {
            name,
            namespace: None,
        },
        (_, None) => return Err(refuse(&path.field("name"), "is missing")),
    });
    Ok(())
}

/// Whether a name means the provider's search: a tool of the caller's goes before it.
fn is_search(name: Text<'_>, conversation: &Conversation<'_>) -> bool {
    let is_own = |tool: &Tool<'_>| tool.name.is(NAME);
    name.is(NAME) && !conversation.tools.iter().any(is_own)
}
