//! The search of the web in a request for a message: offered, and come back from an earlier
//! answer.

use crate::{
    fields::Fields,
    format::Fault,
    search::{self, Offer},
    seed,
};
use serde_json::Value;

/// The result of a search follows its call, and only its provider can have made it.
pub(super) fn check_search(fields: &Fields<'_>, path: &str, searched: &str) -> Result<(), Fault> {
    fields.required("tool_use_id")?;
    let id = fields.text("tool_use_id")?.unwrap_or("");
    if id != searched {
        return Err(Fault::bad_request(format!(
            "{path}: unexpected `tool_use_id` found in `web_search_tool_result` blocks: {id}. Each `web_search_tool_result` block must have a corresponding `server_tool_use` block before it."
        )));
    }
    let pages = fields.required("content")?.as_array();
    let is_own = |page: &Value| {
        let content = page.get("encrypted_content").and_then(Value::as_str);
        content.is_some_and(|content| seed::is_sealed(search::CONTENT, content))
    };
    match pages.into_iter().flatten().all(is_own) {
        true => Ok(()),
        false => Err(Fault::bad_request(format!(
            "{path}: Invalid `encrypted_content` in `search_result` block"
        ))),
    }
}

/// The citations of a text that comes back.
pub(super) fn check_citations(fields: &Fields<'_>, path: &str) -> Result<(), Fault> {
    let citations = fields.list("citations")?.into_iter().flatten();
    let mut indexes = citations.filter_map(|it| it.get("encrypted_index")?.as_str());
    match indexes.all(|index| seed::is_sealed(search::INDEX, index)) {
        true => Ok(()),
        false => Err(Fault::bad_request(format!(
            "{path}: Invalid `encrypted_index` in `citations`"
        ))),
    }
}

/// The search of the web, as it is offered.
pub(super) fn search_offer(fields: &Fields<'_>) -> Result<Option<Offer>, Fault> {
    let offered = fields.list("tools")?.into_iter().flatten();
    let is_search = |tool: &&Value| {
        let kind = tool.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.starts_with("web_search_"))
    };
    let Some(tool) = offered.into_iter().find(is_search) else {
        return Ok(None);
    };
    let offer = Offer::of(Some(tool));
    if !offer.allowed.is_empty() && !offer.blocked.is_empty() {
        return Err(Fault::bad_request(
            "tools: `allowed_domains` and `blocked_domains` cannot be used together",
        ));
    }
    Ok(Some(offer))
}
