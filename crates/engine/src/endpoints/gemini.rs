//! The paths of Gemini, and its list of models.

use super::{Matched, models};
use serde::Serialize;
use tollgate_filter::Endpoint;
use tollgate_routing::{Catalog, Model};
use tollgate_types::{ErrorCode, Format, Identity, PublicError};
use tollgate_wire::address::{self, Address};
use tollgate_wire::peek::PeekLimits;

const PREFIX: &str = "/v1beta/models/";
/// Google's SDK for Python uses this version by default. Its methods are no names of models.
const STABLE_PREFIX: &str = "/v1/models/";
const METHODS: [(&str, Endpoint); 3] = [
    (":generateContent", Endpoint::GenerateContent),
    (":streamGenerateContent", Endpoint::StreamGenerateContent),
    (":countTokens", Endpoint::GeminiCountTokens),
];

/// A path with a model and perhaps a method. The name of a model may contain `/` and `:`.
pub(super) fn match_path(path: &str) -> Option<Matched<'_>> {
    let beta = path.strip_prefix(PREFIX);
    let name = beta.or_else(|| path.strip_prefix(STABLE_PREFIX))?;
    let with_method = METHODS.into_iter().find_map(|(method, endpoint)| {
        let id = name.strip_suffix(method)?;
        Some((endpoint, id))
    });
    let alone = beta.map(|name| (Endpoint::GeminiModel, name));
    let (endpoint, id) = with_method.or(alone)?;
    let has_empty_part = id.split('/').any(str::is_empty);
    (!has_empty_part).then_some(Matched {
        endpoint,
        id: Some(id),
    })
}

/// The error for a `POST` to a model with a method that is not served. `None`: the path ends with no method.
pub(super) fn unknown_method(matched: Matched<'_>) -> Option<PublicError> {
    let is_model = matches!(matched.endpoint, Endpoint::Model | Endpoint::GeminiModel);
    let name = matched.id.filter(|_| is_model)?;
    let (_, method) = name.rsplit('/').next()?.rsplit_once(':')?;
    let message = match method {
        "embedContent" | "batchEmbedContents" => {
            "Gemini's methods for embeddings are not served: send the texts to POST /v1/embeddings"
        }
        _ => "unknown method of a model: GET /v1 lists the endpoints",
    };
    Some(PublicError::new(ErrorCode::NotFound, message))
}

/// The facts of a request in its path and query, which only Gemini has there.
///
/// # Errors
///
/// 400 `invalid_request` for a stream in another form than events, and for a bad name.
pub fn address(matched: Matched<'_>, query: Option<&str>) -> Result<Address, PublicError> {
    let Some(name) = matched.id else {
        return Ok(Address::default());
    };
    let stream = matched.endpoint == Endpoint::StreamGenerateContent;
    let mut pairs = query.unwrap_or_default().split('&');
    if stream && !pairs.any(|pair| pair == "alt=sse") {
        return Err(PublicError::invalid_request(
            "a stream is sent as server-sent events only: add '?alt=sse' to the path",
        ));
    }
    Ok(Address {
        model: Some(model_in_path(name)?),
        stream: Some(stream),
    })
}

/// The name of a model in a path, decoded.
///
/// # Errors
///
/// 400 `invalid_request` for a bad name.
pub fn model_in_path(name: &str) -> Result<String, PublicError> {
    let most = PeekLimits::default().model_bytes;
    let decoded = address::decode(name).filter(|name| name.len() <= most);
    decoded.ok_or_else(|| {
        PublicError::invalid_request(format!(
            "the name of the model in the path must be percent-encoded UTF-8 of at most {most} bytes"
        ))
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
    supported_generation_methods: &'static [&'static str],
}

impl<'a> Entry<'a> {
    fn of(catalog: &Catalog, model: &'a Model) -> Self {
        // Models for embeddings have none.
        let has_methods = catalog.is_usable(model, |model| {
            let mut deployments = model.deployments.iter();
            deployments.any(|it| it.format_for(Format::Gemini).is_some())
        });
        Self {
            name: format!("models/{}", model.id),
            base_model_id: &model.id,
            version: "",
            display_name: &model.display_name,
            input_token_limit: model.context_window,
            output_token_limit: model.max_output_tokens,
            supported_generation_methods: match has_methods {
                true => &["generateContent", "streamGenerateContent", "countTokens"],
                false => &[],
            },
        }
    }
}

/// The body of `GET /v1beta/models` for a key.
///
/// # Errors
///
/// 400 `invalid_request` for a bad page.
pub fn list(catalog: &Catalog, identity: &Identity, query: &str) -> Result<Vec<u8>, PublicError> {
    /// The most entries that Google returns.
    const MOST: usize = 1000;
    let usable = catalog
        .models()
        .iter()
        .filter(|model| models::is_usable(catalog, model, identity));
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
    let page = rest.by_ref().take(size);
    let models: Vec<_> = page.map(|it| Entry::of(catalog, it)).collect();
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
/// 404 `invalid_model` for a model that is not in the catalog, 403 `permission_denied` for one that
/// the key may not use.
pub fn retrieve(catalog: &Catalog, identity: &Identity, id: &str) -> Result<Vec<u8>, PublicError> {
    let model = models::find(catalog, identity, id)?;
    let mut entry = Entry::of(catalog, model);
    if let Some(name) = models::name_under_pattern(model, id) {
        entry.name = format!("models/{name}");
        (entry.base_model_id, entry.display_name) = (name, name);
    }
    Ok(serde_json::to_vec(&entry).unwrap_or_default())
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
        for method in ["generateContent", "streamGenerateContent", "countTokens"] {
            let path = format!("/v1/models/a%2Fb:{method}");
            let beta = path.replace("/v1/", "/v1beta/");
            let stable = match_path(&path);
            assert!(stable.is_some() && stable == match_path(&beta), "{path}");
        }
        assert_eq!(match_path("/v1/models/a:8b"), None);
        for path in ["", "/", "a//b", "a/", ":generateContent", "a/:countTokens"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
