//! The order of tests by which an upstream's failure gets its class: first hit wins.
//!
//! Codes come before phrases, phrases before statuses, since providers agree least on
//! statuses. The same tables serve an error event in the middle of a stream, which has none.
//!
//! A phrase that would keep others from a key, a model or a provider counts only under a
//! status that cannot mean the request, or as the whole of a documented message (see `forms`):
//! providers repeat the caller's words, and what a request says is no evidence.

use super::{
    FaultClass, MAX_ERROR_BODY_BYTES, MAX_ERROR_IN_SUCCESS_BYTES, ProviderWords, UpstreamFault,
    body::ErrorFields,
    forms,
    text::{context_numbers, wait, wait_in_text},
};
use http::HeaderMap;
use std::time::{Duration, SystemTime};

/// An upstream's answer that is not a success.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamAnswer<'a> {
    /// Its HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body, or the first [`MAX_ERROR_BODY_BYTES`] of it.
    pub body: &'a [u8],
    /// When it came: dates in `retry-after` count from here.
    pub now: SystemTime,
}

/// Classifies an answer that is not a success.
pub fn classify(answer: &UpstreamAnswer<'_>) -> UpstreamFault {
    use FaultClass as C;
    let mut fields = ErrorFields::read(capped(answer.body, MAX_ERROR_BODY_BYTES));
    let amazon = answer.headers.get("x-amzn-errortype");
    if let Some(name) = amazon.and_then(|name| name.to_str().ok()) {
        fields.add_name(name);
    }
    let class = match class_of(&fields, Some(answer.status)) {
        C::Forbidden | C::Blocked if has_no_requests_left(answer) => rate(&fields),
        class => class,
    };
    UpstreamFault {
        class,
        status: Some(answer.status),
        reported_status: None,
        retry_after: wait(answer.headers, answer.now).or_else(|| stated_wait(class, &fields)),
        words: words(class, &fields),
        clock_ahead: clock_ahead(class, answer),
        provider_code: fields.code,
    }
}

/// Classifies an error object that came with a success: as an event of a stream, or as the
/// body of a 200. It can repeat the whole request.
pub fn classify_body(body: &[u8]) -> UpstreamFault {
    of_success(ErrorFields::read(capped(body, MAX_ERROR_IN_SUCCESS_BYTES)))
}

/// Classifies an exception of this name in an event stream of Amazon.
pub fn classify_exception(name: &str, payload: &[u8]) -> UpstreamFault {
    let mut fields = ErrorFields::read(capped(payload, MAX_ERROR_BODY_BYTES));
    fields.add_name(name);
    of_success(fields)
}

fn of_success(fields: ErrorFields) -> UpstreamFault {
    let status = fields.status.or_else(|| status_of_type(&fields.names));
    let class = class_of(&fields, status);
    UpstreamFault {
        class,
        status: None,
        reported_status: status,
        retry_after: stated_wait(class, &fields),
        words: words(class, &fields),
        clock_ahead: None,
        provider_code: fields.code,
    }
}

/// Whether a 403 reports an exceeded rate limit, as GitHub documents it.
fn has_no_requests_left(answer: &UpstreamAnswer<'_>) -> bool {
    let left = answer.headers.get("x-ratelimit-remaining");
    answer.status == 403 && left.is_some_and(|left| left == "0")
}

/// How far the clocks are apart, if that can be why the credential is refused.
fn clock_ahead(class: FaultClass, answer: &UpstreamAnswer<'_>) -> Option<i64> {
    /// Answers take seconds; AWS and Google accept five minutes.
    const LEAST_SECONDS: i64 = 60;
    if class != FaultClass::Credential {
        return None;
    }
    let date = answer.headers.get(http::header::DATE)?.to_str().ok()?;
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    let theirs = seconds(httpdate::parse_http_date(date).ok()?)?;
    let ahead = seconds(answer.now)?.saturating_sub(theirs);
    (ahead.saturating_abs() >= LEAST_SECONDS).then_some(ahead)
}

/// What is kept of the provider's words: only what helps to mend a refused request.
fn words(class: FaultClass, fields: &ErrorFields) -> Option<Box<ProviderWords>> {
    let is_refused = class == FaultClass::InvalidRequest && !fields.message.is_empty();
    let words = || ProviderWords::new(&fields.own_message, fields.param.as_deref());
    is_refused.then(words).map(Box::new)
}

/// The wait that a message asks for. It counts under pressure only: elsewhere the message may repeat
/// the caller's words.
fn stated_wait(class: FaultClass, fields: &ErrorFields) -> Option<Duration> {
    use FaultClass as C;
    match class {
        C::RateLimit | C::RequestOverRateLimit | C::Busy | C::Quota => {
            fields.wait.or_else(|| wait_in_text(&fields.text))
        }
        _ => None,
    }
}

fn capped(body: &[u8], most: usize) -> &[u8] {
    body.get(..most).unwrap_or(body)
}

/// The status that an error type has where it comes as an answer of its own.
fn status_of_type(names: &[String]) -> Option<u16> {
    names.iter().find_map(|name| match name.as_str() {
        "invalidrequesterror" | "invalidvalue" | "badrequesterror" => Some(400),
        "permissionerror" => Some(403),
        "notfounderror" => Some(404),
        "requesttoolarge" => Some(413),
        "apierror" | "servererror" | "internalservererror" => Some(500),
        "timeouterror" => Some(504),
        // Amazon.
        "validationexception" => Some(400),
        "modeltimeoutexception" => Some(408),
        "internalserverexception" => Some(500),
        _ => None,
    })
}

/// The class; `status` is `None` if the answer has none.
fn class_of(fields: &ErrorFields, status: Option<u16>) -> FaultClass {
    by_name(fields, status)
        .or_else(|| by_quota_phrase(fields, status))
        .or_else(|| by_pressure(fields, status))
        .or_else(|| by_context_phrase(fields, status))
        .or_else(|| by_content_phrase(fields, status))
        .or_else(|| by_request_form(fields, status))
        .or_else(|| by_key_form(fields, status))
        .or_else(|| by_model_form(fields, status))
        .or_else(|| by_reasoning_phrase(fields, status))
        .unwrap_or(match status {
            Some(401) => FaultClass::Credential,
            Some(403) if fields.tells_nothing() => FaultClass::Blocked,
            Some(403) => FaultClass::Forbidden,
            // 501: the server lacks what the request needs, such as embeddings, and serves others.
            Some(400..=499 | 501) => FaultClass::InvalidRequest,
            _ => FaultClass::ServerError,
        })
}

/// What a code or type says by itself. Folded names; the second table holds prefixes.
fn by_name(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    let class = fields.names.iter().find_map(|name| named(name))?;
    Some(match class {
        // A tool's model, or one of several, is the caller's choice.
        FaultClass::InvalidModel if is_about_another_field(fields) => FaultClass::InvalidRequest,
        FaultClass::Forbidden if status == Some(401) => FaultClass::Credential,
        FaultClass::RateLimit => by_quota_phrase(fields, Some(429)).unwrap_or(rate(fields)),
        FaultClass::ContextLength(_) => FaultClass::ContextLength(context_numbers(&fields.text)),
        other => other,
    })
}

fn named(name: &str) -> Option<FaultClass> {
    Some(match name {
        "contextlengthexceeded" | "exceedcontextsizeerror" => {
            FaultClass::ContextLength(Default::default())
        }
        "insufficientquota" | "arrearage" | "billingerror" | "billingdisabled" => FaultClass::Quota,
        "modelnotfound" | "deploymentnotfound" | "invalidmodel" => FaultClass::InvalidModel,
        // Amazon: the model is unknown in this region, retired, or closed to this account.
        "resourcenotfoundexception" => FaultClass::InvalidModel,
        "contentfilter"
        | "contentpolicyviolation"
        | "imagecontentpolicyviolation"
        | "responsibleaipolicyviolation"
        | "datainspectionfailed"
        | "moderationblocked"
        | "invalidprompt"
        | "cyberpolicy"
        | "biopolicy" => FaultClass::ContentPolicy,
        "ratelimitexceeded" | "ratelimitreached" | "ratelimiterror" | "ramplimitexceeded"
        | "slowdown" | "limitrequests" => FaultClass::RateLimit,
        "overloadederror" | "serverisoverloaded" => FaultClass::Busy,
        "invalidapikey"
        | "apikeyinvalid"
        | "consumersuspended"
        | "authenticationerror"
        | "organizationonhold" => FaultClass::Credential,
        "invalidencryptedcontent" => FaultClass::UnreadableReasoning,
        _ if name.ends_with("spendlimitreached") => FaultClass::Quota,
        _ if name.starts_with("throttling") => FaultClass::RateLimit,
        _ if name.starts_with("serviceunavailable") || name.starts_with("modelnotready") => {
            FaultClass::Busy
        }
        // Amazon, whose status for them is 400 or 403.
        _ if [
            "unrecognizedclient",
            "invalidsignature",
            "incompletesignature",
            "missingauthenticationtoken",
            "invalidclienttokenid",
            "expiredtoken",
            "requestexpired",
            "requesttimetooskewed",
            "signaturedoesnotmatch",
        ]
        .iter()
        .any(|of_amazon| name.starts_with(of_amazon)) =>
        {
            FaultClass::Credential
        }
        _ if name.starts_with("accessdenied") => FaultClass::Forbidden,
        // Amazon, whose status for them is 424 and 400.
        "modelerrorexception" | "modelstreamerrorexception" => FaultClass::ServerError,
        _ if name.starts_with("servicequotaexceeded") => FaultClass::Quota,
        _ => return None,
    })
}

fn by_quota_phrase(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    const PHRASES: &[&str] = &[
        "credit balance is too low",
        "exceeded your current quota",
        "used all available credits",
        "monthly spending limit",
        "monthly spending cap",
        "prepayment credits are depleted",
        "doesn't have any credits",
        "requires more credits",
        "free allocated quota",
        "account is in good standing",
    ];
    let says_so = match status {
        Some(402) => true,
        // Google has the same words for a quota of a minute and one of a day.
        Some(429) if fields.is_lasting.is_some() => fields.is_lasting == Some(true),
        Some(403 | 429) => {
            let own = forms::own_words(&fields.text);
            PHRASES.iter().any(|phrase| own.contains(phrase))
        }
        None | Some(400) => forms::is_empty_account(fields),
        _ => false,
    };
    says_so.then_some(FaultClass::Quota)
}

/// Statuses of overload, not of a fault of the request.
fn by_pressure(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    match status? {
        429 => Some(rate(fields)),
        408 | 503 | 504 | 529 => Some(FaultClass::Busy),
        _ => None,
    }
}

fn rate(fields: &ErrorFields) -> FaultClass {
    // The second is of a tier that an account has or has not: shorter requests are served.
    const OVER: &[&str] = &[
        "request too large for",
        "credits are required for long context requests",
    ];
    if says(fields, OVER) {
        FaultClass::RequestOverRateLimit
    } else {
        FaultClass::RateLimit
    }
}

fn by_context_phrase(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    const PHRASES: &[&str] = &[
        "maximum context length",
        "maximum prompt length",
        "prompt is too long",
        "exceed context limit",
        "context window",
        "input is too long",
        "range of input length",
        "longer than the model's context",
        "longer than the maximum model length",
        "available context size",
        "exceeds the maximum number of tokens",
        "too many tokens: total number of tokens",
        "`inputs` tokens + `max_new_tokens` must be <=",
    ];
    let about_a_field = fields.param.as_deref() == Some("user")
        || fields.text.contains("string too long")
        || fields
            .names
            .iter()
            .any(|name| name == "stringabovemaxlength");
    let applies = matches!(status, None | Some(400 | 404 | 413 | 422)) && !about_a_field;
    (applies && says(fields, PHRASES))
        .then(|| FaultClass::ContextLength(context_numbers(&fields.text)))
}

fn by_content_phrase(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    const CONTENT: &[&str] = &[
        "usage policy",
        "content management policy",
        "content filtering policy",
        "safety system",
        "inappropriate content",
        "content violates usage guidelines",
        "your input was flagged",
    ];
    let says_so = fields.is_flagged || says(fields, CONTENT);
    (matches!(status, None | Some(400 | 403)) && says_so).then_some(FaultClass::ContentPolicy)
}

fn by_request_form(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    forms::is_about_the_request(fields, status).then_some(FaultClass::InvalidRequest)
}

fn by_key_form(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    (matches!(status, None | Some(400 | 403)) && forms::is_wrong_key(fields))
        .then_some(FaultClass::Credential)
}

fn by_model_form(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    let applies = matches!(status, None | Some(400 | 404)) && !is_about_another_field(fields);
    (applies && forms::is_unknown_model(fields)).then_some(FaultClass::InvalidModel)
}

/// About what the caller chose beside the model: another field, or the providers that may serve it.
fn is_about_another_field(fields: &ErrorFields) -> bool {
    let param = fields.param.as_deref().unwrap_or_default();
    !matches!(param, "" | "model") || fields.names_providers
}

fn by_reasoning_phrase(fields: &ErrorFields, status: Option<u16>) -> Option<FaultClass> {
    const PHRASES: &[&str] = &[
        "invalid `signature` in `thinking` block",
        "invalid signature in thinking block",
        // Google.
        "corrupted thought signature",
        "invalid thought signature",
        "thought signature is not valid",
    ];
    (matches!(status, None | Some(400)) && says(fields, PHRASES))
        .then_some(FaultClass::UnreadableReasoning)
}

fn says(fields: &ErrorFields, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| fields.text.contains(phrase))
}
