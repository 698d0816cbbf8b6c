//! `headers`: finds the one credential of a request and decides which headers pass.
//!
//! `key` looks the credential up. Hop-by-hop and forwarding headers need no rule: the gateway builds
//! every head that it sends from an allow-list, and copies none.

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use tollgate_filter::{
    Built, Endpoint, Filter, FilterKind, Head, Phases, RequestContext, Secret, Services,
    SettingsFault, Verdict, settings,
};
use tollgate_types::{ErrorCode, Format, PublicError};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "headers",
    summary: "Finds the credential of a request and decides which headers pass.",
    phases: Phases {
        answer: true,
        ..Phases::HEAD
    },
    after: &[],
    required: true,
    build,
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
const OPENAI_BETA: HeaderName = HeaderName::from_static("openai-beta");

/// The version that a messages provider gets if the client sends none (specification, section 9).
const DEFAULT_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// The settings of an entry in the configuration.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Request headers that the provider gets as the client sent them.
    pass_to_provider: Vec<String>,
    /// Answer headers that the client gets as the provider sent them.
    pass_to_caller: Vec<String>,
    /// The values of `anthropic-beta` that providers get. Absent: all of them.
    anthropic_beta: Option<Vec<String>>,
}

struct Headers {
    to_provider: Vec<HeaderName>,
    to_caller: Vec<HeaderName>,
    betas: Option<Vec<String>>,
}

/// Headers that carry a credential or an identity, or that belong to one connection. No setting lets
/// them pass.
const NEVER: &[&str] = &[
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "set-cookie",
    "proxy-authorization",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "content-length",
    "content-encoding",
    "accept-encoding",
    "upgrade",
    "expect",
    "openai-organization",
    "openai-project",
    "anthropic-organization-id",
    "x-request-id",
    "request-id",
];

/// Answer headers that the gateway sets.
const OF_ANSWERS: &[&str] = &[
    "content-type",
    "retry-after",
    "retry-after-ms",
    "vary",
    "x-attempts",
    "x-cost",
    "x-dropped-fields",
    "x-model",
    "x-output-limit",
    "x-route-reason",
    "x-should-retry",
];

/// The beginnings of further ones.
const OF_ANSWERS_BEGIN: &[&str] = &[
    "access-control-",
    "anthropic-ratelimit-input-",
    "anthropic-ratelimit-output-",
    "anthropic-ratelimit-requests-",
    "anthropic-ratelimit-tokens-",
    "x-ratelimit-",
    "x-token-count-",
];

fn build(value: &Value, _: &Services) -> Built {
    let settings: Settings = settings(value)?;
    let mut faults = Vec::new();
    // They pass in any case.
    let passes = |name: &HeaderName| [VERSION, OPENAI_BETA].contains(name);
    let to_provider = names(
        "pass_to_provider",
        &settings.pass_to_provider,
        passes,
        &mut faults,
    );
    let is_set = |name: &HeaderName| {
        let name = name.as_str();
        OF_ANSWERS.contains(&name) || OF_ANSWERS_BEGIN.iter().any(|it| name.starts_with(*it))
    };
    let to_caller = names(
        "pass_to_caller",
        &settings.pass_to_caller,
        is_set,
        &mut faults,
    );
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(Headers {
        to_provider,
        to_caller,
        betas: settings.anthropic_beta,
    }
    .into())
}

/// The headers of a setting. `is_own`: the gateway decides on the header without it.
fn names(
    setting: &str,
    texts: &[String],
    is_own: impl Fn(&HeaderName) -> bool,
    faults: &mut Vec<SettingsFault>,
) -> Vec<HeaderName> {
    let mut names = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let fault = match text.parse::<HeaderName>() {
            Ok(name) if NEVER.contains(&name.as_str()) => format!(
                "{name} cannot pass: it carries a credential or an identity, or belongs to one connection"
            ),
            Ok(name) if is_own(&name) => {
                format!("the gateway sets {name} without this setting: leave it out")
            }
            Ok(name) => {
                names.push(name);
                continue;
            }
            Err(_) => format!("{text:?} is not a header name"),
        };
        faults.push(SettingsFault {
            path: format!("{setting}[{index}]"),
            message: fault,
        });
    }
    names
}

impl Filter for Headers {
    async fn on_request(
        &self,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        // A path of a provider may be for clients of any format.
        let is_gemini = match request.endpoint {
            Endpoint::Passthrough => head.headers.contains_key(&GOOGLE_KEY),
            endpoint => endpoint.format() == Some(Format::Gemini),
        };
        let own = if is_gemini { &GOOGLE_KEY } else { &API_KEY };
        request.credential = credential(head.headers, own)?;
        self.collect_for_provider(head.headers, request);
        Ok(Verdict::Continue)
    }

    fn on_answer(&self, _: &RequestContext, upstream: Option<&HeaderMap>, answer: &mut HeaderMap) {
        let Some(upstream) = upstream else { return };
        if let Some(kind) = upstream.get(CONTENT_TYPE).and_then(media_type) {
            answer.insert(CONTENT_TYPE, kind);
        }
        for name in &self.to_caller {
            for value in upstream.get_all(name) {
                answer.append(name.clone(), value.clone());
            }
        }
    }
}

/// The media type, with the character set only if it is UTF-8: other parameters could reveal which
/// provider has answered.
fn media_type(kind: &HeaderValue) -> Option<HeaderValue> {
    let text = kind.to_str().ok()?;
    let Some((media, parameters)) = text.split_once(';') else {
        return Some(kind.clone());
    };
    let is_usual = parameters.trim().eq_ignore_ascii_case("charset=utf-8");
    match is_usual {
        true => Some(kind.clone()),
        false => HeaderValue::from_str(media.trim()).ok(),
    }
}

impl Headers {
    fn collect_for_provider(&self, headers: &HeaderMap, request: &mut RequestContext) {
        let upstream = &mut request.upstream_headers;
        match request.endpoint.format() {
            Some(Format::Messages) => {
                let version = headers.get(&VERSION).cloned().unwrap_or(DEFAULT_VERSION);
                upstream.push((VERSION, version));
                for value in headers.get_all(&BETA) {
                    if let Some(value) = self.allowed_betas(value) {
                        upstream.push((BETA, value));
                    }
                }
            }
            Some(Format::Chat | Format::Responses) => {
                for value in headers.get_all(&OPENAI_BETA) {
                    upstream.push((OPENAI_BETA, value.clone()));
                }
            }
            _ => {}
        }
        let is_messages = request.endpoint.format() == Some(Format::Messages);
        for name in &self.to_provider {
            for value in headers.get_all(name) {
                let value = match *name == BETA {
                    // The match above has added it.
                    true if is_messages => None,
                    true => self.allowed_betas(value),
                    false => Some(value.clone()),
                };
                upstream.extend(value.map(|value| (name.clone(), value)));
            }
        }
    }

    /// The values of one `anthropic-beta` header that the configuration allows.
    fn allowed_betas(&self, value: &HeaderValue) -> Option<HeaderValue> {
        let Some(allowed) = &self.betas else {
            return Some(value.clone());
        };
        let passing: Vec<&str> = value
            .to_str()
            .ok()?
            .split(',')
            .map(str::trim)
            .filter(|beta| allowed.iter().any(|allowed| allowed == beta))
            .collect();
        if passing.is_empty() {
            None
        } else {
            HeaderValue::from_str(&passing.join(",")).ok()
        }
    }
}

/// The credential of a request, from either of the two headers; `own` is that of the format.
///
/// Two headers that agree are one credential. Two that disagree are refused, because the gateway cannot
/// know which one the client means.
fn credential(headers: &HeaderMap, own: &HeaderName) -> Result<Option<Secret>, PublicError> {
    let one_of = |name| one_of(headers, name).map_err(|()| two_credentials(own));
    let bearer = match one_of(&AUTHORIZATION)? {
        Some(value) => bearer_token(value)?,
        None => None,
    };
    let api_key = one_of(own)?.map(visible_text).transpose()?;
    match (bearer, api_key) {
        (Some(bearer), Some(api_key)) if bearer != api_key => Err(two_credentials(own)),
        (Some(key), _) | (None, Some(key)) => Ok(Some(Secret::new(key))),
        (None, None) => Ok(None),
    }
}

/// The value of a header; an error if there are several.
fn one_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(()),
        (first, None) => Ok(first),
    }
}

/// The token of `Bearer <token>` (RFC 6750, section 2.1), in any case. A header of another scheme carries
/// no key and counts as absent (specification, section 5).
fn bearer_token(value: &HeaderValue) -> Result<Option<&str>, PublicError> {
    let text = visible_text(value)?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    Ok(is_bearer.then(|| token.trim()))
}

fn visible_text(value: &HeaderValue) -> Result<&str, PublicError> {
    value
        .to_str()
        .map(str::trim)
        .map_err(|_| PublicError::invalid_api_key())
}

fn two_credentials(own: &HeaderName) -> PublicError {
    PublicError::new(
        ErrorCode::InvalidApiKey,
        format!(
            "two credentials in one request: send the API key once, as \
             'Authorization: Bearer <API key>' or as '{own}: <API key>'"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, faults, refusal};
    use tollgate_filter::Endpoint;

    fn credential_of(pairs: &[(&'static str, &str)]) -> Result<Option<String>, PublicError> {
        let mut scene = Scene::new(Endpoint::Models, pairs);
        match scene.run(&KIND, "{}") {
            Ok(Verdict::Continue) => Ok(scene
                .request
                .credential
                .as_ref()
                .map(|key| key.expose().to_owned())),
            other => Err(refusal(other)),
        }
    }

    #[test]
    fn both_forms_of_credential_are_equivalent() {
        let key = Ok(Some("sk-abc".to_owned()));
        assert_eq!(credential_of(&[("authorization", "Bearer sk-abc")]), key);
        assert_eq!(credential_of(&[("authorization", "bearer   sk-abc ")]), key);
        assert_eq!(credential_of(&[("x-api-key", "sk-abc")]), key);
        assert_eq!(
            credential_of(&[("x-api-key", "sk-abc"), ("authorization", "Bearer sk-abc")]),
            key
        );
        assert_eq!(credential_of(&[]), Ok(None));
    }

    #[test]
    fn two_credentials_that_disagree_are_refused_by_name() {
        for pairs in [
            &[("x-api-key", "sk-a"), ("authorization", "Bearer sk-b")],
            &[("x-api-key", "sk-a"), ("x-api-key", "sk-a")],
            &[
                ("authorization", "Bearer sk-a"),
                ("authorization", "Bearer sk-b"),
            ],
        ] {
            let error = credential_of(pairs).expect_err("refused");
            assert_eq!(error.code, ErrorCode::InvalidApiKey);
            assert!(error.message.contains("two credentials"), "{error}");
        }
    }

    #[test]
    fn a_header_of_another_scheme_is_no_credential() {
        for other in ["Basic abc", "Basic", "sk-abc", "Digest a=b"] {
            assert_eq!(credential_of(&[("authorization", other)]), Ok(None));
            let beside = [("authorization", other), ("x-api-key", "sk-abc")];
            assert_eq!(credential_of(&beside), Ok(Some("sk-abc".to_owned())));
        }
    }

    #[test]
    fn a_messages_request_carries_version_and_betas_and_nothing_of_the_callers_identity() {
        let mut scene = Scene::new(
            Endpoint::Messages,
            &[
                ("anthropic-beta", "a-1, b-2,c-3"),
                ("cookie", "session=1"),
                ("x-forwarded-for", "10.0.0.1"),
                ("x-trace", "t1"),
            ],
        );
        let settings = r#"{"anthropic_beta": ["a-1", "c-3"], "pass_to_provider": ["x-trace"]}"#;
        assert!(matches!(scene.run(&KIND, settings), Ok(Verdict::Continue)));
        let sent: Vec<String> = scene
            .request
            .upstream_headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(
            sent,
            [
                "anthropic-version: 2023-06-01",
                "anthropic-beta: a-1,c-3",
                "x-trace: t1"
            ]
        );
    }

    #[test]
    fn a_beta_of_another_format_passes_only_if_it_is_listed() {
        for (listed, sent) in [("x-trace", &[][..]), ("anthropic-beta", &["a-1"])] {
            let mut scene =
                Scene::new(Endpoint::ChatCompletions, &[("anthropic-beta", "a-1, b-2")]);
            let settings =
                format!(r#"{{"anthropic_beta": ["a-1"], "pass_to_provider": ["{listed}"]}}"#);
            assert!(matches!(scene.run(&KIND, &settings), Ok(Verdict::Continue)));
            let headers = scene.request.upstream_headers.iter();
            let values: Vec<_> = headers.map(|(_, value)| value.to_str().unwrap()).collect();
            assert_eq!(values, sent);
        }
    }

    #[test]
    fn only_allowed_headers_of_a_provider_reach_the_client() {
        let scene = Scene::new(Endpoint::Messages, &[]);
        let mut upstream = HeaderMap::new();
        for (name, value) in [
            ("content-type", "application/json"),
            ("set-cookie", "provider=1"),
            ("openai-organization", "org-1"),
            ("x-cache", "hit"),
        ] {
            upstream.insert(name, HeaderValue::from_static(value));
        }
        let answer = scene.answer(&KIND, r#"{"pass_to_caller": ["x-cache"]}"#, Some(&upstream));
        let names: Vec<&str> = answer.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "x-cache"]);
    }

    #[test]
    fn a_content_type_is_forwarded_without_parameters_except_utf_8() {
        let scene = Scene::new(Endpoint::Messages, &[]);
        for (provider, caller) in [
            ("text/event-stream", "text/event-stream"),
            (
                "application/json; charset=utf-8",
                "application/json; charset=utf-8",
            ),
            ("application/json; region=eu-secret", "application/json"),
            ("text/event-stream;charset=UTF-8;v=1", "text/event-stream"),
        ] {
            let value = HeaderValue::from_static(provider);
            let upstream = HeaderMap::from_iter([(CONTENT_TYPE, value)]);
            let answer = scene.answer(&KIND, "{}", Some(&upstream));
            assert_eq!(answer[CONTENT_TYPE], caller);
        }
    }

    #[test]
    fn a_header_that_the_gateway_sets_cannot_come_from_the_other_side() {
        let own = [
            "x-ratelimit-limit-requests",
            "Access-Control-Allow-Origin",
            "x-output-limit",
            "x-dropped-fields",
            "content-type",
        ];
        let settings = serde_json::json!({
            "pass_to_provider": ["x-cost", "Anthropic-Version", "openai-beta"],
            "pass_to_caller": own,
        });
        let faults = faults(&KIND, &settings.to_string());
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        let of_caller: Vec<_> = (0..own.len())
            .map(|index| format!("pass_to_caller[{index}]"))
            .collect();
        assert_eq!(paths[..2], ["pass_to_provider[1]", "pass_to_provider[2]"]);
        assert_eq!(paths[2..], of_caller);
    }

    #[test]
    fn a_setting_that_would_leak_a_credential_is_a_fault() {
        let faults = faults(
            &KIND,
            r#"{"pass_to_provider": ["x-a", "Cookie"], "pass_to_caller": ["ä"]}"#,
        );
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["pass_to_provider[1]", "pass_to_caller[0]"]);
    }
}
