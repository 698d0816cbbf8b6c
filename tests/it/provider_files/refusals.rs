//! What each provider refuses by its documentation: other paths and credentials, and fields and roles that
//! it does not know.

use super::table::format_of;
use super::{BEARER, Documented, NONE};
use crate::support::{PROVIDER_KEY, Seen};
use serde_json::Value;

/// The fields of a request in Gemini's format.
const OF_GEMINI: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "labels",
];

/// The fields of a request in Converse.
const OF_CONVERSE: &[&str] = &[
    "messages",
    "system",
    "inferenceConfig",
    "toolConfig",
    "outputConfig",
    "additionalModelRequestFields",
];

/// The status and the reason for which a provider refuses a request.
pub fn refused(file: &Documented, seen: &Seen) -> Option<(u16, String)> {
    let path = seen.target.split('?').next().unwrap();
    let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    let upstream = file.model.1;
    if !is_served(file, path) {
        return Some((404, format!("nothing is at {path}")));
    }
    if !is_logged_in(file, seen) {
        return Some((401, format!("the credential is not in '{}'", file.header)));
    }
    if body["model"] != upstream && !path.contains(upstream) {
        return Some((404, format!("no model {}", body["model"])));
    }
    let reason = match format_of(path) {
        "chat" => of_chat(file.file, &body),
        "messages" if !is_count(path) => of_messages(file.file, path, seen, &body),
        "gemini" => unknown_field(OF_GEMINI, &body),
        "converse" => unknown_field(OF_CONVERSE, &body),
        _ => None,
    };
    reason.map(|reason| (400, reason))
}

/// Whether tokens are counted at a path.
pub fn is_count(path: &str) -> bool {
    path.ends_with("count_tokens") || path.ends_with("count-tokens:rawPredict")
}

fn unknown_field(known: &[&str], body: &Value) -> Option<String> {
    let mut fields = body.as_object().unwrap().keys();
    fields
        .find(|field| !known.contains(&field.as_str()))
        .map(|field| format!("the field {field} is unknown"))
}

fn is_served(file: &Documented, path: &str) -> bool {
    file.paths.iter().any(|known| {
        let streamed = known
            .replace("/invoke", "/invoke-with-response-stream")
            .replace("/converse", "/converse-stream")
            .replace(":rawPredict", ":streamRawPredict")
            .replace(":generateContent", ":streamGenerateContent");
        let count = format!("{known}/count_tokens");
        let counts = match file.file {
            // https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai
            "vertex" => path == "/models/count-tokens:rawPredict",
            _ => known.ends_with("/messages") && path == count,
        };
        path == *known || path == streamed || counts
    })
}

fn is_logged_in(file: &Documented, seen: &Seen) -> bool {
    let sent = seen.header(file.header);
    match file.header {
        NONE => seen.header(BEARER).is_none(),
        BEARER => sent
            .and_then(|it| it.strip_prefix("Bearer "))
            .is_some_and(|it| it == PROVIDER_KEY.1 || it.starts_with("issued-token-")),
        _ => sent == Some(PROVIDER_KEY.1),
    }
}

fn of_chat(file: &str, body: &Value) -> Option<String> {
    let unknown: &[&str] = match file {
        // Models that reason take the newer name alone.
        "openai" | "azure-openai" => &["max_tokens"],
        "mistral" => &["max_completion_tokens", "stream_options"],
        _ => &[],
    };
    let has = |field: &&&str| !body[**field].is_null();
    if let Some(field) = unknown.iter().find(has) {
        return Some(format!("the field {field} is unknown"));
    }
    if !body["stream_options"].is_null() && body["stream"] != true {
        return Some("stream_options without a stream".to_owned());
    }
    let mut messages = body["messages"].as_array().unwrap().iter();
    let knows_developer = !matches!(file, "mistral" | "deepseek" | "fireworks" | "together");
    let is_unknown = messages.any(|it| it["role"] == "developer") && !knows_developer;
    is_unknown.then(|| "the role developer is unknown".to_owned())
}

fn of_messages(file: &str, path: &str, seen: &Seen, body: &Value) -> Option<String> {
    let is_of_cloud = path.contains("/invoke") || path.contains("awPredict");
    let version = match is_of_cloud {
        true => body["anthropic_version"].as_str(),
        false => seen.header("anthropic-version"),
    };
    let expected = match file {
        "anthropic" | "bedrock" => Some("2023-06-01"),
        "bedrock-runtime" => Some("bedrock-2023-05-31"),
        "vertex" => Some("vertex-2023-10-16"),
        _ => None,
    };
    let has_extra =
        !body["model"].is_null() || (file == "bedrock-runtime" && !body["stream"].is_null());
    match () {
        () if !body["max_tokens"].is_u64() => Some("max_tokens is missing".to_owned()),
        () if expected.is_some() && version != expected => {
            Some(format!("the version is {version:?}"))
        }
        () if is_of_cloud && has_extra => Some("model or stream is in the body".to_owned()),
        () => None,
    }
}
