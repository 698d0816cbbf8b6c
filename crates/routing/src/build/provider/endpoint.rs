//! The endpoint of a format at a provider: paths, and the fields that are set in bodies and removed.

use crate::{
    BodyPatch, Endpoint, FormatSet, MODEL, Target, build::Builder, settings::FormatSettings,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate_settings::{KeyPath, unknown_name};
use tollgate_types::{Capabilities, Format, PerFormat, RequestFacts, ServiceTier};
use tollgate_wire::peek::Peeker;

/// Where providers serve each format unless the configuration gives a path.
const USUAL_PATHS: PerFormat<&str> = PerFormat {
    chat: "/v1/chat/completions",
    responses: "/v1/responses",
    messages: "/v1/messages",
    gemini: "/v1beta/models/{model}:generateContent",
    converse: "/model/{model}/converse",
    embeddings: "/v1/embeddings",
    rerank: "/v1/rerank",
};

/// The same for streams, in the formats that have another path for them.
const USUAL_STREAM_PATHS: PerFormat<Option<&str>> = PerFormat {
    chat: None,
    responses: None,
    messages: None,
    gemini: Some("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
    converse: Some("/model/{model}/converse-stream"),
    embeddings: None,
    rerank: None,
};

/// The fields that the gateway writes itself in requests of every format. Without its `stream_options` a stream of
/// chat would report no usage.
const ALWAYS_SET: [&str; 3] = ["model", "stream", "stream_options"];

/// The fields of each format that decide on the reservation and the owner of a request, so that a
/// provider must receive them as they were counted.
const GATEWAY_FIELDS: PerFormat<&[&str]> = PerFormat {
    chat: &["messages", "max_tokens", "max_completion_tokens", "n"],
    responses: &[
        "input",
        "max_output_tokens",
        "background",
        "conversation",
        "previous_response_id",
        "store",
    ],
    messages: &["messages", "max_tokens", "system"],
    gemini: &[
        "contents",
        "systemInstruction",
        "system_instruction",
        "generationConfig",
        "generation_config",
    ],
    converse: &["messages", "system", "inferenceConfig"],
    embeddings: &["input"],
    rerank: &["query", "documents"],
};

const LONGEST_NAME: usize = 64;

impl Builder<'_> {
    pub(super) fn build_endpoint(
        &mut self,
        settings: &FormatSettings,
        capabilities: &Capabilities,
        prefix: &str,
        at: &KeyPath,
    ) -> Endpoint {
        let usual = match settings.api {
            Some(api) => api.usual_path(),
            None => USUAL_PATHS[settings.name],
        };
        if settings.api.is_some() && settings.name != Format::Embeddings {
            self.fault(&at.key("api"), "only the embeddings format has other APIs");
        }
        let own = [
            ("path", &settings.path),
            ("stream_path", &settings.stream_path),
            ("count_tokens", &settings.count_tokens),
        ];
        for (key, path) in own {
            let Some(path) = path else { continue };
            if let Err(message) = check_path(path, settings.name) {
                self.fault(&at.key(key), message);
            }
        }
        if settings.count_tokens.is_some()
            && !matches!(settings.name, Format::Messages | Format::Gemini)
        {
            self.fault(
                &at.key("count_tokens"),
                "only the formats messages and gemini have a token counter",
            );
        }
        self.check_own_paths(settings, at);
        let path = settings.path.as_deref().unwrap_or(usual);
        if let Some(end) = repeated(prefix, path) {
            self.fault(
                at,
                format!("the path {path} begins with {end}, which already ends the address: remove {end} from the address"),
            );
        }
        let tier = self.check_patch(settings, at);
        let usual_stream = USUAL_STREAM_PATHS[settings.name].unwrap_or(path);
        let streamed = settings.stream_path.as_deref().unwrap_or(usual_stream);
        let target = |path: &str| Target {
            path: format!("{prefix}{path}").into(),
            patch: patch(settings, capabilities, path, tier),
            api: settings.api,
        };
        Endpoint {
            whole: target(path),
            streamed: target(streamed),
            count_tokens: settings.count_tokens.as_deref().map(target),
        }
    }

    /// Fields that a provider, a model or a deployment refuses are dropped: none may be one that the gateway
    /// needs. `at`: the section with the capabilities, which may be checked for several deployments.
    pub(in crate::build) fn check_refused_fields(
        &mut self,
        names: &[String],
        formats: FormatSet,
        at: &KeyPath,
    ) {
        /// Dropping them never raises what a request costs.
        const DROPPABLE: [&str; 2] = ["background", "n"];
        let at = at.key("capabilities").key("refused_fields");
        for (index, name) in names.iter().enumerate() {
            let at = at.index(index);
            let mut of_formats = formats.iter().flat_map(|format| GATEWAY_FIELDS[format]);
            let is_needed = !DROPPABLE.contains(&&**name)
                && (ALWAYS_SET.contains(&&**name) || of_formats.any(|needed| **needed == **name));
            if is_needed && !self.faults.iter().any(|known| known.path == at) {
                let message = match &**name {
                    "stream_options" => {
                        "set `capabilities.chat.stream_options: false` instead".to_owned()
                    }
                    _ => {
                        format!("the gateway counts or routes by '{name}': it cannot be dropped")
                    }
                };
                self.fault(&at, message);
            }
        }
    }

    /// Bodies of Gemini and Converse name no model and do not ask for a stream: the paths do both.
    fn check_own_paths(&mut self, settings: &FormatSettings, at: &KeyPath) {
        let format = settings.name;
        if USUAL_STREAM_PATHS[format].is_none() {
            return;
        }
        let paths = [
            ("path", &settings.path),
            ("stream_path", &settings.stream_path),
        ];
        for (key, path) in paths {
            if path.as_deref().is_some_and(|it| !it.contains(MODEL)) {
                self.fault(
                    &at.key(key),
                    format!("requests of {format} name the model in the path: put {MODEL} into it"),
                );
            }
        }
        if settings.path.is_some() != settings.stream_path.is_some() {
            self.fault(
                at,
                format!("{format} has one path for whole answers and one for streams: give `path` and `stream_path`, or neither"),
            );
        }
    }

    /// Returns the tier that is set, if it is not the standard one.
    fn check_patch(&mut self, settings: &FormatSettings, at: &KeyPath) -> Option<ServiceTier> {
        let mut tier = None;
        let gateway_fields = GATEWAY_FIELDS[settings.name];
        let (set, remove) = (at.key("set"), at.key("remove"));
        for (name, value) in &settings.set {
            let at = set.key(name);
            if let Err(message) = check_name(name) {
                self.fault(&at, message);
            } else if gateway_fields.contains(&&**name) || ALWAYS_SET.contains(&&**name) {
                self.fault(&at, format!("'{name}' is set by the gateway alone"));
            } else if settings.remove.contains(name) {
                self.fault(&at, format!("'{name}' stands under `remove`, too"));
            } else if let Some(api) = settings.api.filter(|it| !it.fields().contains(&&**name)) {
                // It is set before the translation, which drops all others.
                let known = api.fields().iter().copied();
                self.fault(&at, unknown_name("field of this `api`", name, known));
            } else {
                match facts_of(settings.name, name, value) {
                    Ok(facts) => tier = tier.max(facts.tiers.iter().map(|it| it.tier).max()),
                    Err(message) => self.fault(&at, message),
                }
            }
        }
        let has_model =
            |path: &Option<String>| path.as_deref().is_some_and(|it| it.contains(MODEL));
        for (index, name) in settings.remove.iter().enumerate() {
            let at = remove.index(index);
            if let Err(message) = check_name(name) {
                self.fault(&at, message);
            } else if gateway_fields.contains(&&**name) {
                self.fault(&at, format!("no request can be sent without '{name}'"));
            } else if name == "model" && !has_model(&settings.path) {
                self.fault(
                    &at,
                    "without 'model' the request would name no model: put {model} into `path`",
                );
            } else if name == "stream" && settings.stream_path.is_none() {
                self.fault(
                    &at,
                    "without 'stream' no request would ask for a stream: give `stream_path`",
                );
            }
        }
        tier
    }
}

/// The end of an address with which a path begins again, such as the `/v1` of a base URL for SDKs.
fn repeated<'a>(prefix: &'a str, path: &str) -> Option<&'a str> {
    let ends = prefix.match_indices('/');
    let mut ends = ends.filter_map(|(at, _)| prefix.get(at..));
    ends.find(|end| {
        let rest = path.strip_prefix(end);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
    })
}

/// What a field that is set makes a provider do. A field that limits the output or asks for several answers
/// is refused: requests are reserved and charged by what their clients ask for.
fn facts_of(format: Format, name: &str, value: &Value) -> Result<RequestFacts, String> {
    // Converse has the tier in an object.
    let inner = value.get("type").filter(|_| name == "serviceTier");
    let body = json!({name: inner.unwrap_or(value)}).to_string();
    let peeked = Peeker::peek_members(format, body.as_bytes()).map_err(|it| it.to_string())?;
    let is_limit = peeked.spans.output_limit.is_some() || !peeked.other_limits.is_empty();
    if is_limit || peeked.facts.choices > 1 {
        return Err(format!(
            "'{name}' changes how much output is paid for, which the gateway alone sets: leave it out"
        ));
    }
    Ok(peeked.facts)
}

/// The changes in the bodies that go to a path: only a path with the model makes the field `model`
/// superfluous. Fields of chat that the provider does not know are left out or renamed, also in
/// requests that clients wrote for chat.
fn patch(
    settings: &FormatSettings,
    capabilities: &Capabilities,
    path: &str,
    tier: Option<ServiceTier>,
) -> Arc<BodyPatch> {
    let removed = settings.remove.iter();
    let removed = removed.filter(|name| *name != "model" || path.contains(MODEL));
    let set = settings.set.iter();
    let lacks = |is_known: bool| settings.name == Format::Chat && !is_known;
    let unknown = lacks(capabilities.chat.stream_options).then_some("stream_options");
    let older = lacks(capabilities.chat.max_completion_tokens)
        .then_some(("max_completion_tokens", "max_tokens"));
    Arc::new(BodyPatch {
        set: set
            .map(|(name, value)| (name.as_str().into(), value.to_string().into()))
            .collect(),
        remove: removed
            .map(String::as_str)
            .chain(unknown)
            .map(Into::into)
            .collect(),
        rename: older
            .into_iter()
            .map(|(name, other)| (name.into(), other.into()))
            .collect(),
        tier,
    })
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(format!(
            "expected the name of a field, of 1 to {LONGEST_NAME} bytes"
        ));
    }
    Ok(())
}

/// Checks a path with its query.
fn check_path(path: &str, format: Format) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err("expected a path that begins with '/'".to_owned());
    }
    if path.contains('#') {
        return Err("a fragment (#) is not sent to a provider: leave it out".to_owned());
    }
    let is_sendable = |c: char| c.is_ascii_graphic() && !r#"\"<>^`|"#.contains(c);
    if let Some(other) = path.chars().find(|c| !is_sendable(*c)) {
        return Err(format!(
            "{other:?} cannot stand in an address: percent-encode it"
        ));
    }
    if path.contains(MODEL) && format == Format::Responses {
        return Err(format!(
            "{MODEL} cannot stand in a path for responses: a stored response is read without its model"
        ));
    }
    let rest = path.replace(MODEL, "");
    match rest.split_once('{') {
        Some((_, after)) => {
            let name = after.split('}').next().unwrap_or_default();
            Err(format!(
                "{{{name}}} is unknown: the only placeholder is {MODEL}"
            ))
        }
        None if rest.contains('}') => Err(format!(
            "'}}' stands alone: the only placeholder is {MODEL}"
        )),
        None => Ok(()),
    }
}
