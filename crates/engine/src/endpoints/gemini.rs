//! The paths of Gemini, and its list of models.

use super::{Matched, models};
use serde::Serialize;
use tollgate_filter::Endpoint;
use tollgate_routing::{Catalog, Model};
use tollgate_types::{ErrorCode, Format, Identity, PublicError};

const PREFIX: &str = "/v1beta/models/";
const METHODS: [(&str, Endpoint); 3] = [
    (":generateContent", Endpoint::GenerateContent),
    (":streamGenerateContent", Endpoint::StreamGenerateContent),
    (":countTokens", Endpoint::GeminiCountTokens),
];

/// A path with a model and perhaps a method. The name of a model may contain `/` and `:`.
pub(super) fn match_path(path: &str) -> Option<Matched<'_>> {
    let name = path.strip_prefix(PREFIX)?;
    let with_method = METHODS.into_iter().find_map(|(method, endpoint)| {
        let id = name.strip_suffix(method)?;
        Some((endpoint, id))
    });
    let (endpoint, id) = with_method.unwrap_or((Endpoint::GeminiModel, name));
    let has_empty_part = id.split('/').any(str::is_empty);
    (!has_empty_part).then_some(Matched {
        endpoint,
        id: Some(id),
    })
}

#[derive(Serialize)]
struct List<'a> {
    models: Vec<Entry<'a>>,
    #[serde(rename = "nextPageToken", skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    name: String,
    base_model_id: &'a str,
    version: &'static str,
    display_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_token_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_token_limit: Option<u64>,
    supported_generation_methods: [&'static str; 3],
}

impl<'a> Entry<'a> {
    fn of(model: &'a Model) -> Self {
        Self {
            name: format!("models/{}", model.id),
            base_model_id: &model.id,
            version: "",
            display_name: &model.display_name,
            input_token_limit: model.context_window,
            output_token_limit: model.max_output_tokens,
            supported_generation_methods: [
                "generateContent",
                "streamGenerateContent",
                "countTokens",
            ],
        }
    }
}

/// The body of `GET /v1beta/models` for a key: the models with a provider that speaks Gemini.
///
/// # Errors
///
/// 400 `invalid_request` for a bad page.
pub fn list(catalog: &Catalog, identity: &Identity, query: &str) -> Result<Vec<u8>, PublicError> {
    /// What Google returns at most.
    const MOST: usize = 1000;
    let usable = catalog
        .models()
        .iter()
        .filter(|model| speaks_gemini(model) && models::is_usable(catalog, model, identity));
    let number = |name: &str, default: usize| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let given = pairs.find(|(given, value)| *given == name && !value.is_empty());
        let number = given.map_or(Ok(default), |(_, value)| value.parse());
        number.map_err(|_| PublicError::invalid_request(format!("'{name}' must be a whole number")))
    };
    let size = match number("pageSize", MOST)? {
        0 => MOST,
        size => size.min(MOST),
    };
    let start = number("pageToken", 0)?;
    let mut rest = usable.skip(start);
    let models: Vec<_> = rest.by_ref().take(size).map(|it| Entry::of(it)).collect();
    let next = start.saturating_add(models.len());
    let list = List {
        models,
        next_page_token: rest.next().map(|_| next.to_string()),
    };
    Ok(serde_json::to_vec(&list).unwrap_or_default())
}

/// The body of `GET /v1beta/models/{id}` for a key.
///
/// # Errors
///
/// 404 `invalid_model` for a model that is not in the catalog or has no provider that speaks
/// Gemini, 403 `permission_denied` for one that the key may not use.
pub fn retrieve(catalog: &Catalog, identity: &Identity, id: &str) -> Result<Vec<u8>, PublicError> {
    let model = models::find(catalog, identity, id)?;
    if !speaks_gemini(model) {
        return Err(PublicError::new(
            ErrorCode::InvalidModel,
            "the model has no provider that speaks Gemini: GET /v1beta/models lists those that have",
        ));
    }
    Ok(serde_json::to_vec(&Entry::of(model)).unwrap_or_default())
}

fn speaks_gemini(model: &Model) -> bool {
    model.formats().contains(Format::Gemini)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_keeps_its_slashes_and_colons() {
        let of = |name: &str| {
            let path = format!("{PREFIX}{name}");
            let matched = match_path(&path)?;
            Some((matched.endpoint, matched.id?.to_owned()))
        };
        for (path, endpoint, id) in [
            (
                "a/b:8b:generateContent",
                Endpoint::GenerateContent,
                "a/b:8b",
            ),
            ("a%2Fb:countTokens", Endpoint::GeminiCountTokens, "a%2Fb"),
            (
                "a:streamGenerateContent",
                Endpoint::StreamGenerateContent,
                "a",
            ),
            ("a/b", Endpoint::GeminiModel, "a/b"),
        ] {
            assert_eq!(of(path), Some((endpoint, id.to_owned())));
        }
        for path in ["", "/", "a//b", "a/", ":generateContent", "a/:countTokens"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
