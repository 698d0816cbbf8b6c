//! `errors`: replaces the messages of errors.
//!
//! The gateway writes every error in the client's format. The operator can replace the message of a code, for
//! example to say where to buy tokens.

use serde::Deserialize;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};
use tollgate_filter::{
    Built, Filter, FilterKind, Phases, RequestContext, Services, SettingsFault, settings,
};
use tollgate_settings::{KeyPath, unknown_name};
use tollgate_types::{ErrorCode, PublicError};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "errors",
    summary: "Replaces the messages of errors.",
    phases: Phases {
        error: true,
        ..Phases::HEAD
    },
    after: &[],
    required: true,
    build,
};

/// The settings of an entry in the configuration.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// The message of a code, instead of the gateway's.
    messages: BTreeMap<String, String>,
}

struct Errors {
    messages: BTreeMap<ErrorCode, String>,
}

/// The messages of these codes differ from request to request, and clients parse the numbers in them.
const COMPOSED: &[ErrorCode] = &[ErrorCode::ContextLengthExceeded, ErrorCode::InvalidRequest];

fn build(value: &Value, _: &Services) -> Built {
    let settings: Settings = settings(value)?;
    let mut messages = BTreeMap::new();
    let mut faults = Vec::new();
    for (name, text) in settings.messages {
        let code = ErrorCode::ALL.iter().find(|code| code.as_str() == name);
        let message = match code {
            None => unknown_name(
                "error code",
                &name,
                ErrorCode::ALL.iter().map(|it| it.as_str()),
            ),
            Some(code) if COMPOSED.contains(code) => {
                format!("the message of {code} is composed for each request and cannot be replaced")
            }
            Some(_) if text.trim().is_empty() => "a message cannot be empty".to_owned(),
            Some(code) => {
                messages.insert(*code, text);
                continue;
            }
        };
        faults.push(SettingsFault {
            path: KeyPath::root().key("messages").key(name).to_string(),
            message,
        });
    }
    if faults.is_empty() {
        Ok(Errors { messages }.into())
    } else {
        Err(faults)
    }
}

impl Filter for Errors {
    fn on_error(&self, _: &RequestContext, error: &mut PublicError) {
        if let Some(text) = self.messages.get(&error.code) {
            error.message = Cow::Owned(text.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, faults};
    use tollgate_filter::Endpoint;

    #[test]
    fn an_operators_message_replaces_the_gateways_for_its_code_only() {
        let scene = Scene::new(Endpoint::Models, &[]);
        let settings = r#"{"messages": {"quota_exhausted": "Top up at the desk."}}"#;
        let reported = |code| {
            scene
                .error(&KIND, settings, PublicError::new(code, "ours"))
                .message
        };
        assert_eq!(reported(ErrorCode::QuotaExhausted), "Top up at the desk.");
        assert_eq!(reported(ErrorCode::NotFound), "ours");
    }

    #[test]
    fn an_unknown_code_and_a_composed_message_are_faults() {
        let unknown = faults(&KIND, r#"{"messages": {"quota_exausted": "x"}}"#);
        assert_eq!(unknown[0].path, "messages.quota_exausted");
        assert_eq!(
            unknown[0].message,
            "no error code 'quota_exausted'; did you mean 'quota_exhausted'?"
        );
        let composed = faults(
            &KIND,
            r#"{"messages": {"invalid_request": "x", "not_found": " "}}"#,
        );
        let paths: Vec<&str> = composed.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["messages.invalid_request", "messages.not_found"]);
    }
}
