//! Reads a search among tools that the client of a responses request made: a call and its result.
//!
//! A search that the provider made stays with that provider.

use super::tools;
use crate::request::read::shared::{array, made_block};
use crate::{
    Refusal,
    document::{Text, Value},
    formats::responses::request_fields as table,
    request::{
        conversation::{Block, Call, CallResult, Conversation, Input, Tool},
        fields::Fields,
        path::Path,
        scope::{Scope, refuse},
    },
};

/// The name of the call in formats that have no such item.
const NAME: &str = "tool_search";

/// Reads the call. `None`: the provider searched, and the operator lets that be dropped.
pub(crate) fn call<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<Block<'d>>, Refusal> {
    let mut fields = scope.open(item, &table::TOOL_SEARCH_CALL, path)?;
    let input = fields.object("arguments")?;
    let Some(id) = client_call(&mut fields)? else {
        return refuse_search(scope, "tool_search_call", path).map(|()| None);
    };
    let input = input.ok_or_else(|| refuse(&path.field("arguments"), "is missing"))?;
    fields.close()?;
    Ok(Some(Block::Call(Call {
        id,
        name: Text::of_word(NAME),
        namespace: None,
        input: Input::Object(input),
    })))
}

/// Reads the result, and offers the tools in it. `None`: as for the call.
pub(crate) fn output<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    path: &Path<'_>,
    conversation: &mut Conversation<'d>,
) -> Result<Option<CallResult<'d>>, Refusal> {
    let mut fields = scope.open(item, &table::TOOL_SEARCH_OUTPUT, path)?;
    let tools = fields.require("tools")?;
    let Some(id) = client_call(&mut fields)? else {
        return refuse_search(scope, "tool_search_output", path).map(|()| None);
    };
    fields.close()?;
    let path = path.field("tools");
    let before = conversation.tools.len();
    tools::tools(scope, array(tools, &path)?, &path, None, conversation)?;
    let found = conversation.tools.get(before..).unwrap_or_default();
    Ok(Some(CallResult {
        id,
        content: vec![made_block(result(found))],
        is_error: false,
    }))
}

/// The id of the call, if the client made the search.
fn client_call<'d>(fields: &mut Fields<'d, '_>) -> Result<Option<Text<'d>>, Refusal> {
    let execution = fields.text("execution")?;
    if execution.is_some_and(|execution| execution.is("server")) {
        return Ok(None);
    }
    fields.require_text("call_id").map(Some)
}

fn refuse_search(scope: &mut Scope<'_>, kind: &str, path: &Path<'_>) -> Result<(), Refusal> {
    let why = "the provider made this search";
    scope.refuse_kind(&table::ITEMS, kind, why, path)
}

/// The text about the found tools for the model.
fn result(found: &[Tool<'_>]) -> String {
    let names: Vec<_> = found.iter().map(|tool| tool.name.decode()).collect();
    match names.as_slice() {
        [] => "No tool was found.".to_owned(),
        names => format!("Loaded the tools {}.", names.join(", ")),
    }
}
