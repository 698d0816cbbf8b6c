//! Reads the error object out of a provider's body, whatever its shape.
//!
//! Decides what is the message, what are the codes; judges nothing.

use super::text::wait_of;
use serde_json::Value;
use std::time::Duration;

/// The fields of an error body that distinguish failures.
#[derive(Debug, Default)]
pub(super) struct ErrorFields {
    /// Codes and types, the most telling first, folded by [`fold`].
    pub(super) names: Vec<String>,
    /// The message as the provider wrote it.
    pub(super) own_message: String,
    /// The message; lower case, with plain apostrophes.
    pub(super) message: String,
    /// The message, and that of a provider behind the provider; the same.
    pub(super) text: String,
    /// The error is a string, not an object (xAI).
    pub(super) is_bare: bool,
    /// A numeric code in the range of HTTP statuses (OpenRouter, Google, vLLM).
    pub(super) status: Option<u16>,
    /// The code or type as the provider wrote it, cut to what is safe to log.
    pub(super) code: Option<Box<str>>,
    /// The parameter at fault.
    pub(super) param: Option<String>,
    /// The findings of a moderation stand beside the message (OpenRouter), or in its place
    /// (Gemini).
    pub(super) is_flagged: bool,
    /// The caller said which providers behind the provider may serve it (OpenRouter).
    pub(super) names_providers: bool,
    /// Whether an exceeded quota is one that waiting does not mend soon: that of a day, or one of
    /// nothing; `None` if the provider does not say which it is (Google says it).
    pub(super) is_lasting: Option<bool>,
    /// How long the provider asks to wait (Google).
    pub(super) wait: Option<Duration>,
}

impl ErrorFields {
    /// Reads a body. One that is not JSON (a proxy's page, a cut answer) has no fields.
    pub(super) fn read(body: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return Self::default();
        };
        // Google wraps the object in a list.
        let outer = value.get(0).unwrap_or(&value);
        let error = error_object(outer);
        let mut fields = Self {
            is_bare: error.is_string(),
            ..Self::default()
        };
        fields.read_text(outer, error);
        fields.read_names(outer, error);
        fields.param = string(error.get("param")).map(str::to_owned);
        let has = |place: &str| error.pointer(place).is_some_and(|value| !value.is_null());
        fields.names_providers = has("/metadata/requested_providers");
        fields.is_flagged = has("/metadata/reasons")
            || has("/metadata/flagged_input")
            || outer
                .pointer("/promptFeedback/blockReason")
                .is_some_and(Value::is_string);
        fields.read_quota(error);
        fields
    }

    /// There is nothing in it: no code, and no message.
    pub(super) const fn tells_nothing(&self) -> bool {
        self.names.is_empty() && self.message.is_empty()
    }

    /// Adds a name from outside the body (`x-amzn-ErrorType`).
    pub(super) fn add_name(&mut self, name: &str) {
        // Some write a sentence there, and sentences may repeat what was asked.
        if name.contains(char::is_whitespace) {
            return;
        }
        // Amazon's names come as `namespace#Name:address`.
        let name = name.rsplit('#').next().unwrap_or(name);
        let name = name.split(':').next().unwrap_or(name);
        let folded = fold(name);
        if folded.is_empty() {
            return;
        }
        if self.code.is_none() {
            self.code = loggable(name);
        }
        self.names.push(folded);
    }

    fn read_text(&mut self, outer: &Value, error: &Value) {
        let message = [
            error.get("message"),
            Some(error),
            outer.get("message"),
            outer.get("detail"),
        ]
        .into_iter()
        .find_map(string)
        .unwrap_or_default();
        let behind = string(error.pointer("/metadata/raw")).unwrap_or_default();
        let plain = |text: &str| text.to_lowercase().replace('\u{2019}', "'");
        self.own_message = message.trim().to_owned();
        self.message = plain(message).trim().to_owned();
        self.text = plain(&format!("{message}\n{behind}"));
    }

    /// Reads which quota was exceeded, and the wait that goes with it.
    fn read_quota(&mut self, error: &Value) {
        for detail in details(error) {
            let violations = detail.get("violations").and_then(Value::as_array);
            for violation in violations.into_iter().flatten() {
                let Some(quota) = string(violation.get("quotaId")) else {
                    continue;
                };
                let is_nothing = string(violation.get("quotaValue")) == Some("0");
                let lasts = is_nothing || quota.contains("PerDay");
                self.is_lasting = Some(lasts || self.is_lasting == Some(true));
            }
            let wait = string(detail.get("retryDelay")).and_then(wait_of);
            self.wait = self.wait.or(wait);
        }
    }

    fn read_names(&mut self, outer: &Value, error: &Value) {
        // The reason of Google says more than its status.
        let reason = details(error).find_map(|detail| detail.get("reason"));
        let places = [
            reason,
            error.pointer("/details/error_code"),
            error.pointer("/innererror/code"),
            error.get("code"),
            outer.get("code"),
            outer.get("__type"),
            error.get("type"),
            error.get("status"),
            outer.get("object"),
        ];
        for place in places.into_iter().flatten() {
            match place {
                Value::String(name) => self.add_name(name),
                Value::Number(number) if self.status.is_none() => {
                    self.status = number
                        .as_u64()
                        .and_then(|code| u16::try_from(code).ok())
                        .filter(|code| (400..600).contains(code));
                }
                _ => {}
            }
        }
    }
}

/// The innermost object (or string) that describes the error.
fn error_object(outer: &Value) -> &Value {
    [
        outer.get("error"),
        outer.pointer("/response/error"),
        outer.pointer("/choices/0/error"),
    ]
    .into_iter()
    .flatten()
    .find(|value| value.is_object() || value.is_string())
    .unwrap_or(outer)
}

/// The details of an error of Google.
fn details(error: &Value) -> impl Iterator<Item = &Value> {
    let details = error.get("details").and_then(Value::as_array);
    details.into_iter().flatten()
}

fn string(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}

/// A code without what spellings differ in: `Throttling.RateQuota` and
/// `throttling_rate_quota` are both `throttlingratequota`.
pub(super) fn fold(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// A code that may stand in a log. Some providers put a sentence there; that is no code.
fn loggable(name: &str) -> Option<Box<str>> {
    const MAX_BYTES: usize = 64;
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    (plain && name.len() <= MAX_BYTES).then(|| name.into())
}
