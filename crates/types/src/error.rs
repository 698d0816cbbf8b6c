//! The public error: everything that a client sees of a failure.
//!
//! One static table gives each code its HTTP status and `error.type`; dispatch,
//! documentation and tests read the same table.

use crate::{ContextNumbers, Format, LimitHit};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, time::Duration};

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $status:literal, $kind:ident;)*) => {
        /// The value of `error.code`. The specification defines the first ten; the gateway adds the others
        /// for faults that it leaves open.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode { $($(#[doc = $doc])* $variant,)* }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The HTTP status sent with this code unless the fault says otherwise.
            pub const fn default_status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// The `error.type` sent with this code at its default status.
            pub const fn default_type(self) -> ErrorType {
                match self { $(Self::$variant => ErrorType::$kind,)* }
            }

            /// Its meaning, for the documentation.
            #[cfg(test)]
            const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*),)* }
            }
        }
    };
}

error_codes! {
    /// The request has no credential. Send `Authorization: Bearer KEY`, `x-api-key: KEY` or, to Gemini's endpoints,
    /// `x-goog-api-key: KEY`.
    MissingApiKey = "missing_api_key", 401, AuthenticationError;
    /// The key is malformed, unknown, expired or revoked. Use another key.
    InvalidApiKey = "invalid_api_key", 401, AuthenticationError;
    /// The key may not use this model or endpoint. Ask the operator.
    PermissionDenied = "permission_denied", 403, PermissionError;
    /// The balance of the key is used up. Top the key up.
    QuotaExhausted = "quota_exhausted", 402, BillingError;
    /// A limit of the key, or of every candidate, is reached.
    RateLimitExceeded = "rate_limit_exceeded", 429, RateLimitError;
    /// The gateway or the provider is overloaded, or the provider is unreachable.
    ServiceUnavailable = "service_unavailable", 503, OverloadedError;
    /// The input is too long for the model. Shorten it.
    ContextLengthExceeded = "context_length_exceeded", 400, InvalidRequestError;
    /// A content policy blocked the request. Change it.
    ContentPolicyViolation = "content_policy_violation", 400, InvalidRequestError;
    /// The model is unknown (404), or missing or malformed (400). `GET /v1/models` lists the models.
    InvalidModel = "invalid_model", 404, NotFoundError;
    /// Any other fault of a provider: it refused the request (its own 4xx), failed (502), or took too
    /// long (504).
    UpstreamError = "upstream_error", 502, ApiError;
    /// The path does not exist, or this key owns nothing with that id.
    NotFound = "not_found", 404, NotFoundError;
    /// The path exists, but not with this method. `allow` lists the methods.
    MethodNotAllowed = "method_not_allowed", 405, InvalidRequestError;
    /// The request is malformed or impossible (400); the message names the field. Also: too slow (408),
    /// of an unsupported type or coding (415), a WebSocket (426).
    InvalidRequest = "invalid_request", 400, InvalidRequestError;
    /// The body (413) or the head (431) exceeds its limit.
    RequestTooLarge = "request_too_large", 413, InvalidRequestError;
    /// A fault of the gateway. Report it with the `x-request-id`.
    InternalError = "internal_error", 500, ApiError;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

crate::named! {
    /// The value of `error.type`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ErrorType {
        /// The credential was missing or refused.
        AuthenticationError = "authentication_error",
        /// The credential does not permit the request.
        PermissionError = "permission_error",
        /// The balance is used up.
        BillingError = "billing_error",
        /// Too many requests.
        RateLimitError = "rate_limit_error",
        /// Temporary overload.
        OverloadedError = "overloaded_error",
        /// The request must change before it can succeed.
        InvalidRequestError = "invalid_request_error",
        /// The requested item does not exist.
        NotFoundError = "not_found_error",
        /// A fault of the gateway or of a provider.
        ApiError = "api_error",
    }
}

/// A failure as the client sees it. The gateway composes it, never from a provider's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicError {
    /// The value of `error.code`.
    pub code: ErrorCode,
    /// The HTTP status.
    pub status: u16,
    /// The value of `error.message`.
    pub message: Cow<'static, str>,
    /// The time after which a retry can help: sent as `retry-after` and `retry-after-ms`.
    pub retry_after: Option<Duration>,
    /// Whether the same request can succeed if it is sent again. `Some(false)` is sent as
    /// `x-should-retry: false`; `None` leaves the question to the caller's client.
    pub should_retry: Option<bool>,
    /// The limit that has refused the request.
    pub limit: Option<LimitHit>,
    /// The fallback that a client of the messages format uses when it gets this error.
    pub unsupported: Option<Unsupported>,
    /// The path of the field at fault in the caller's request: sent as `error.param`.
    pub param: Option<Box<str>>,
}

/// A feature that a request used and that can be left out of it: sent as `error.details`,
/// by which the SDKs of the messages format know that they can go on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The value of `error.details.error_code`.
    pub error_code: &'static str,
    /// The one entry of `error.details.unsupported`: the field to leave out.
    pub field: &'static str,
}

impl PublicError {
    /// How long the caller should wait if no better value is known.
    pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

    /// An error with the status, type and retry advice that its code has in the table.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let (retry_after, should_retry) = match code {
            ErrorCode::RateLimitExceeded | ErrorCode::ServiceUnavailable => {
                (Some(Self::DEFAULT_RETRY_AFTER), None)
            }
            ErrorCode::UpstreamError | ErrorCode::InternalError => (None, None),
            _ => (None, Some(false)),
        };
        Self {
            code,
            status: code.default_status(),
            message: message.into(),
            retry_after,
            should_retry,
            limit: None,
            unsupported: None,
            param: None,
        }
    }

    /// A malformed request: 400 `invalid_request`.
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// 401 for an unknown, expired or revoked key: one answer for all, so that it does not show which.
    pub fn invalid_api_key() -> Self {
        Self::new(ErrorCode::InvalidApiKey, "the API key is not valid")
    }

    /// The request does not fit the model's context, in the words of the caller's format.
    pub fn context_length(format: Option<Format>, numbers: ContextNumbers) -> Self {
        Self::new(ErrorCode::ContextLengthExceeded, numbers.message(format))
    }

    /// The same error, by the limit that has refused the request.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<LimitHit>) -> Self {
        self.limit = limit;
        self
    }

    /// The same error under another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same error, asking the caller to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same error, naming the field at fault.
    #[must_use]
    pub fn with_param(mut self, path: impl Into<Box<str>>) -> Self {
        self.param = Some(path.into());
        self
    }

    /// The same error, naming a feature that the client can leave out.
    #[must_use]
    pub fn with_unsupported(mut self, unsupported: Unsupported) -> Self {
        self.unsupported = Some(unsupported);
        self
    }

    /// The value of `error.type`: that of the code, unless the status distinguishes a 4xx from a 5xx of one
    /// code (`upstream_error`), or a malformed model name (400) from an unknown one (404).
    pub const fn error_type(&self) -> ErrorType {
        match (self.code, self.status) {
            (ErrorCode::UpstreamError, 400..=499) | (ErrorCode::InvalidModel, 400) => {
                ErrorType::InvalidRequestError
            }
            _ => self.code.default_type(),
        }
    }
}

impl fmt::Display for PublicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.code, self.message)
    }
}

impl std::error::Error for PublicError {}

#[cfg(test)]
mod page;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serde_name_of_every_code_is_the_name_on_the_wire() {
        for code in ErrorCode::ALL {
            let name = serde_json::to_string(code).unwrap();
            assert_eq!(name, format!("\"{}\"", code.as_str()));
        }
    }

    #[test]
    fn an_upstream_error_takes_its_type_from_its_status() {
        let fault = PublicError::new(ErrorCode::UpstreamError, "x");
        assert_eq!(fault.error_type(), ErrorType::ApiError);
        assert_eq!(
            fault.with_status(422).error_type(),
            ErrorType::InvalidRequestError
        );
    }

    #[test]
    fn permanent_errors_advise_against_a_retry() {
        for code in ErrorCode::ALL {
            let fault = PublicError::new(*code, "x");
            let lasting = fault.status < 500 && fault.status != 429;
            assert_eq!(fault.should_retry == Some(false), lasting, "{code}");
        }
    }
}
