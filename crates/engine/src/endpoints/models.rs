//! `GET /v1/models` and `GET /v1/models/{id}`: the live catalog of a key, in one body that
//! both SDK families read.

use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tollgate_routing::{Catalog, Model, ModelKind};
use tollgate_types::{ErrorCode, Identity, PublicError, ReasoningMode};
use tollgate_wire::address;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    display_name: &'a str,
    created_at: String,
    /// The SDKs of the messages format need it; a listed model is in service.
    lifecycle: &'static str,
    reasoning_mode: ReasoningMode,
    recommended: bool,
    family: &'a str,
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
    aliases: Vec<&'a str>,
}

impl<'a> Entry<'a> {
    fn of(model: &'a Model) -> Self {
        let created_at = i64::try_from(model.created)
            .ok()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .and_then(|time| time.format(&Rfc3339).ok());
        Self {
            id: &model.id,
            object: "model",
            created: model.created,
            owned_by: &model.family,
            kind: "model",
            display_name: &model.display_name,
            created_at: created_at.unwrap_or_default(),
            lifecycle: "active",
            reasoning_mode: model.reasoning,
            recommended: model.recommended,
            family: &model.family,
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            aliases: model.aliases.iter().map(AsRef::as_ref).collect(),
        }
    }
}

/// The page that a query asks for. Without `limit` everything comes at once.
#[derive(Default)]
struct Page {
    limit: Option<usize>,
    after: Option<String>,
    before: Option<String>,
}

impl Page {
    const MAX_LIMIT: usize = 1000;

    fn parse(query: &str) -> Result<Self, PublicError> {
        // No model has the empty name.
        let decoded = |id| Some(address::decode(id).unwrap_or_default());
        let mut page = Self::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "limit" => page.limit = Some(Self::limit(value)?),
                "after_id" => page.after = decoded(value),
                "before_id" => page.before = decoded(value),
                _ => {}
            }
        }
        if page.after.is_some() && page.before.is_some() {
            return Err(PublicError::invalid_request(
                "'after_id' and 'before_id' cannot be given together",
            ));
        }
        Ok(page)
    }

    fn limit(value: &str) -> Result<usize, PublicError> {
        value
            .parse()
            .ok()
            .filter(|limit| (1..=Self::MAX_LIMIT).contains(limit))
            .ok_or_else(|| {
                PublicError::invalid_request(format!(
                    "'limit' must be a whole number from 1 to {}",
                    Self::MAX_LIMIT
                ))
            })
    }

    /// The models of the page, and whether more lie beyond it in the direction asked for.
    fn cut<'m>(&self, models: &[&'m Model]) -> Result<(Vec<&'m Model>, bool), PublicError> {
        let place = |field: &str, id: &str| {
            models
                .iter()
                .position(|model| &*model.id == id)
                .ok_or_else(|| {
                    PublicError::invalid_request(format!("'{field}' names no model of this key"))
                })
        };
        let mut start = 0;
        let mut end = models.len();
        if let Some(id) = &self.after {
            start = place("after_id", id)?.saturating_add(1);
        }
        if let Some(id) = &self.before {
            end = place("before_id", id)?;
        }
        let limit = self.limit.unwrap_or(models.len());
        let has_more = end.saturating_sub(start) > limit;
        if self.before.is_some() {
            start = start.max(end.saturating_sub(limit));
        } else {
            end = end.min(start.saturating_add(limit));
        }
        Ok((
            models.get(start..end).unwrap_or_default().to_vec(),
            has_more,
        ))
    }
}

/// The body of `GET /v1/models` for a key.
///
/// # Errors
///
/// 400 `invalid_request` for a bad page.
pub fn list(catalog: &Catalog, identity: &Identity, query: &str) -> Result<Vec<u8>, PublicError> {
    let usable: Vec<&Model> = catalog
        .models()
        .iter()
        .map(AsRef::as_ref)
        .filter(|model| is_usable(catalog, model, identity))
        .collect();
    let (page, has_more) = Page::parse(query)?.cut(&usable)?;
    let list = List {
        object: "list",
        has_more,
        first_id: page.first().map(|model| &*model.id),
        last_id: page.last().map(|model| &*model.id),
        data: page.into_iter().map(Entry::of).collect(),
    };
    Ok(serde_json::to_vec(&list).unwrap_or_default())
}

/// The body of `GET /v1/models/{id}` for a key.
///
/// # Errors
///
/// 404 `invalid_model` for a model that is not in the catalog, 403 `permission_denied`
/// for one that the key may not use.
pub fn retrieve(catalog: &Catalog, identity: &Identity, id: &str) -> Result<Vec<u8>, PublicError> {
    let model = find(catalog, identity, id)?;
    let mut entry = Entry::of(model);
    if let Some(name) = name_under_pattern(model, id) {
        (entry.id, entry.display_name) = (name, name);
    }
    Ok(serde_json::to_vec(&entry).unwrap_or_default())
}

/// The name of a model that answers to every name of a pattern: that of the request.
pub(super) const fn name_under_pattern<'a>(model: &Model, asked: &'a str) -> Option<&'a str> {
    match model.kind {
        ModelKind::Wildcard { .. } => Some(asked),
        ModelKind::Model | ModelKind::Alias { .. } | ModelKind::Auto => None,
    }
}

/// The model of this name, if the key may use it.
pub(super) fn find<'c>(
    catalog: &'c Catalog,
    identity: &Identity,
    id: &str,
) -> Result<&'c Model, PublicError> {
    let model = catalog.entry(id).ok_or_else(|| {
        PublicError::new(
            ErrorCode::InvalidModel,
            "the model does not exist: GET /v1/models lists those that this key can use",
        )
    })?;
    if !is_usable(catalog, model, identity) {
        return Err(PublicError::new(
            ErrorCode::PermissionDenied,
            format!("the API key may not use the model '{}'", model.id),
        ));
    }
    Ok(model)
}

pub(super) fn is_usable(catalog: &Catalog, model: &Model, identity: &Identity) -> bool {
    catalog.is_usable(model, |model| {
        // What has no price cannot be paid in money.
        identity.groups.admits(&model.group) && (!identity.pays_money || model.is_priced(&[]))
    })
}
