//! Reads the provider's search of the web in a responses request: the offer, and searches of
//! earlier answers.

use crate::{
    Refusal,
    document::Value,
    formats::responses::request_fields as table,
    request::{
        conversation::{Block, Search, WebSearch},
        path::Path,
        read::search::{check_domains, domains, location},
        scope::Scope,
    },
};

/// `None`: it may not search live, and the target does nothing else.
pub(crate) fn offer<'d>(
    scope: &mut Scope<'_>,
    tool: Value<'d>,
    kind: &str,
    path: &Path<'_>,
) -> Result<Option<WebSearch<'d>>, Refusal> {
    let is_first = kind.starts_with("web_search_preview");
    let shape = match is_first {
        true => &table::WEB_SEARCH_PREVIEW,
        false => &table::WEB_SEARCH,
    };
    let mut fields = scope.open(tool, shape, path)?;
    let mut search = WebSearch {
        location: location(scope, &mut fields, &table::USER_LOCATION)?,
        ..WebSearch::default()
    };
    let mut is_live = true;
    if !is_first {
        is_live = fields.bool("external_web_access")?.unwrap_or(true);
        if let Some(filters) = fields.take("filters") {
            let path = path.field("filters");
            let mut filters = scope.open(filters, &table::SEARCH_FILTERS, &path)?;
            search.allowed = domains(&mut filters, "allowed_domains")?;
            search.blocked = domains(&mut filters, "blocked_domains")?;
            filters.close()?;
            check_domains(&search, &path)?;
        }
    }
    fields.close()?;
    Ok(is_live.then_some(search))
}

/// Reads the item of an earlier search.
pub(crate) fn search_call<'d>(
    scope: &mut Scope<'_>,
    item: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    scope.open(item, &table::SEARCH_CALL, path)?.close()?;
    Ok(Block::Search(Search {
        state: None,
        paths: &["input[].web_search_call"],
    }))
}
