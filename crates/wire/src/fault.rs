//! The class of an upstream's failure, and the error that the caller gets.
//!
//! Decides the class of a failure (an error answer, an error event in a stream, a broken
//! connection) and the public error that stands for it. Leaves to others: what is done about
//! it (routing reads the predicates) and how the public error is written (`render`).
//! No text of a provider reaches a caller: out of an answer it keeps a class, integers and a
//! waiting time, and for the operator's log the provider's error code and, of a request that was
//! refused as invalid, its message without what must not be logged.

mod body;
mod classify;
mod forms;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::time::Duration;
use tollgate_types::{ErrorCode, Format, PublicError};

pub use classify::{UpstreamAnswer, classify, classify_body, classify_exception};
pub use tollgate_types::ContextNumbers;
pub use words::{ProviderWords, redacted, shortened};

/// How many bytes of an error answer [`classify`] looks at; a caller need not read more.
pub const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// An error within a success is read up to this size, in bytes; of a larger one nothing is known
/// but that it is an error.
pub(crate) const MAX_ERROR_IN_SUCCESS_BYTES: usize = 1024 * 1024;

/// The kind of an upstream's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// The input, or the input and the output asked for, do not fit the model's context.
    ContextLength(ContextNumbers),
    /// Blocked by the provider's content policy.
    ContentPolicy,
    /// The provider does not know the model, or does not serve it to this credential.
    InvalidModel,
    /// The gateway's account at the provider has no credit left.
    Quota,
    /// Too many requests or tokens a minute for the gateway's credential.
    RateLimit,
    /// This one request is larger than the credential's tokens a minute, or than its account
    /// may send at once: waiting cannot help.
    RequestOverRateLimit,
    /// The provider is overloaded or starting up.
    Busy,
    /// The provider refuses the gateway's own credential.
    Credential,
    /// The credential may not do what was asked of it: perhaps it may not use the model.
    Forbidden,
    /// Something before the provider's API forbids it and does not say why, such as a firewall that
    /// dislikes the words of this one request.
    Blocked,
    /// The request carries reasoning that this provider cannot verify (encrypted content or a
    /// signature made elsewhere): it can succeed once without it.
    UnreadableReasoning,
    /// Any other 4xx: the request must change.
    InvalidRequest,
    /// Any other 5xx, or an error without a telling code in a stream.
    ServerError,
    /// No connection: refused, timed out, no address, or no TLS session.
    Unreachable,
    /// No provider was asked: the gateway itself had no descriptor left for a connection.
    OutOfFiles,
    /// The gateway itself had no memory left to take the answer in.
    OutOfMemory,
    /// The connection broke before the answer was complete.
    ConnectionBroken,
    /// The gateway's own response time-out fired.
    ResponseTimeout,
    /// The answer is not in the provider's format.
    BrokenAnswer,
    /// The model answered in another form than the request asks for (not with a JSON object). The
    /// caller's words can cause it, so that no provider is to blame and the answer is charged.
    UnfitAnswer,
}

impl FaultClass {
    /// Every class; the numbers of a context error are unknown. Metrics start at 0 for each.
    pub const ALL: [Self; 20] = [
        Self::ContextLength(ContextNumbers {
            input: None,
            output: None,
            limit: None,
        }),
        Self::ContentPolicy,
        Self::InvalidModel,
        Self::Quota,
        Self::RateLimit,
        Self::RequestOverRateLimit,
        Self::Busy,
        Self::Credential,
        Self::Forbidden,
        Self::Blocked,
        Self::UnreadableReasoning,
        Self::InvalidRequest,
        Self::ServerError,
        Self::Unreachable,
        Self::OutOfFiles,
        Self::OutOfMemory,
        Self::ConnectionBroken,
        Self::ResponseTimeout,
        Self::BrokenAnswer,
        Self::UnfitAnswer,
    ];

    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContextLength(_) => "context_length",
            Self::ContentPolicy => "content_policy",
            Self::InvalidModel => "invalid_model",
            Self::Quota => "quota",
            Self::RateLimit => "rate_limit",
            Self::RequestOverRateLimit => "request_over_rate_limit",
            Self::Busy => "busy",
            Self::Credential => "credential",
            Self::Forbidden => "forbidden",
            Self::Blocked => "blocked",
            Self::UnreadableReasoning => "unreadable_reasoning",
            Self::InvalidRequest => "invalid_request",
            Self::ServerError => "server_error",
            Self::Unreachable => "unreachable",
            Self::OutOfFiles => "out_of_files",
            Self::OutOfMemory => "out_of_memory",
            Self::ConnectionBroken => "connection_broken",
            Self::ResponseTimeout => "response_timeout",
            Self::BrokenAnswer => "broken_answer",
            Self::UnfitAnswer => "unfit_answer",
        }
    }
}

/// A failure of an upstream, as the gateway knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFault {
    /// Its class.
    pub class: FaultClass,
    /// The HTTP status of the upstream's answer. `None`: there was no answer, or the failure
    /// came in the body of a success.
    pub status: Option<u16>,
    /// The status that the error has where it comes as an answer, if it came in the body of a
    /// success and its code or type implies one. For judging alone: it was not sent.
    pub reported_status: Option<u16>,
    /// How long the provider asks to wait; at most a day.
    pub retry_after: Option<Duration>,
    /// The provider's own code or type for the error: for the operator's log, never for the
    /// caller. At most 64 bytes of `[A-Za-z0-9_.-]`.
    pub provider_code: Option<Box<str>>,
    /// The provider's words about a request that it refuses as invalid.
    pub words: Option<Box<ProviderWords>>,
    /// If the provider refuses the credential and dates its answer otherwise: the seconds by which this
    /// machine's clock is ahead of the provider's (behind it, if negative). Signatures do not verify then.
    pub clock_ahead: Option<i64>,
}

impl UpstreamFault {
    /// A failure without an answer: only its class is known.
    pub const fn without_answer(class: FaultClass) -> Self {
        Self {
            class,
            status: None,
            reported_status: None,
            retry_after: None,
            provider_code: None,
            words: None,
            clock_ahead: None,
        }
    }

    /// The connection was refused, timed out, had no address or no TLS session.
    pub const fn unreachable() -> Self {
        Self::without_answer(FaultClass::Unreachable)
    }

    /// The gateway had no descriptor left for a connection.
    pub const fn out_of_files() -> Self {
        Self::without_answer(FaultClass::OutOfFiles)
    }

    /// The gateway had no memory left to take the answer in.
    pub const fn out_of_memory() -> Self {
        Self::without_answer(FaultClass::OutOfMemory)
    }

    /// The connection broke before the answer was complete.
    pub const fn connection_broken() -> Self {
        Self::without_answer(FaultClass::ConnectionBroken)
    }

    /// The gateway's own response time-out fired.
    pub const fn response_timeout() -> Self {
        Self::without_answer(FaultClass::ResponseTimeout)
    }

    /// The answer is not one: another content type, invalid JSON, an endless preamble.
    pub const fn broken_answer() -> Self {
        Self::without_answer(FaultClass::BrokenAnswer)
    }

    /// The model answered in another form than the request asks for.
    pub const fn unfit_answer() -> Self {
        Self::without_answer(FaultClass::UnfitAnswer)
    }

    /// Whether another deployment or credential may succeed with the same request.
    pub const fn try_elsewhere(&self) -> bool {
        use FaultClass as C;
        match self.class {
            // What the gateway lacks for one provider it lacks for all of them.
            C::ContextLength(_)
            | C::ContentPolicy
            | C::UnreadableReasoning
            | C::InvalidRequest
            | C::UnfitAnswer
            | C::OutOfFiles
            | C::OutOfMemory => false,
            C::InvalidModel
            | C::Quota
            | C::RateLimit
            | C::RequestOverRateLimit
            | C::Busy
            | C::Credential
            | C::Forbidden
            | C::Blocked
            | C::ServerError
            | C::Unreachable
            | C::ConnectionBroken
            | C::ResponseTimeout
            | C::BrokenAnswer => true,
        }
    }

    /// Whether the same deployment may succeed within seconds.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self.class,
            FaultClass::Busy
                | FaultClass::ServerError
                | FaultClass::Unreachable
                | FaultClass::ConnectionBroken
        )
    }

    /// Of two failures of one request, the one that helps the caller more: what it can mend
    /// itself comes first, then what passes by itself, the sooner the better, and what does
    /// not last. This one where they are alike.
    #[must_use]
    pub fn or_better(self, other: Self) -> Self {
        let key = |fault: &Self| (fault.rank(), fault.public().retry_after);
        if key(&other) < key(&self) {
            other
        } else {
            self
        }
    }

    /// The rank of a fault: a lower one helps the client more.
    const fn rank(&self) -> u8 {
        use FaultClass as C;
        match self.class {
            C::ContextLength(_)
            | C::ContentPolicy
            | C::UnreadableReasoning
            | C::InvalidRequest
            | C::UnfitAnswer => 0,
            C::RateLimit => 1,
            C::Busy | C::Unreachable | C::OutOfFiles | C::OutOfMemory | C::ConnectionBroken => 2,
            C::ServerError | C::BrokenAnswer | C::ResponseTimeout => 3,
            C::RequestOverRateLimit => 4,
            C::Quota => 5,
            C::Credential | C::Forbidden | C::Blocked => 6,
            C::InvalidModel => 7,
        }
    }

    /// Whether the status is 403: that of the answer, or the one that an error within a success implies.
    pub const fn is_403(&self) -> bool {
        matches!(
            (self.status, self.reported_status),
            (Some(403), _) | (None, Some(403))
        )
    }

    /// The error that a caller sees whose format is not known.
    pub fn public(&self) -> PublicError {
        self.public_in(None)
    }

    /// The error that a caller of this format sees when no candidate is left. Composed here, from
    /// the class and from integers; trouble of the operator's (credentials, credit) never looks
    /// like the caller's own.
    pub fn public_in(&self, format: Option<Format>) -> PublicError {
        use ErrorCode as E;
        use FaultClass as C;
        let error = match self.class {
            C::ContextLength(numbers) => PublicError::context_length(format, numbers),
            C::ContentPolicy => PublicError::new(
                E::ContentPolicyViolation,
                "the request was blocked by the content policy of the model's provider",
            ),
            C::InvalidModel => PublicError::new(
                E::InvalidModel,
                "the requested model cannot be used: its provider does not serve it",
            ),
            C::Quota => lasting(PublicError::new(
                E::ServiceUnavailable,
                "the model cannot be served for now",
            )),
            C::RateLimit => PublicError::new(
                E::RateLimitExceeded,
                "too many requests to this model: slow down and try again",
            ),
            C::RequestOverRateLimit => lasting(PublicError::new(
                E::RateLimitExceeded,
                "the request alone is larger than the token rate of this model: make it smaller",
            )),
            C::Busy => PublicError::new(
                E::ServiceUnavailable,
                "the model is overloaded; retry in a few seconds",
            ),
            C::Unreachable => PublicError::new(
                E::ServiceUnavailable,
                "the model's provider cannot be reached; retry in a few seconds",
            ),
            C::OutOfFiles | C::OutOfMemory => PublicError::new(
                E::ServiceUnavailable,
                "the gateway is overloaded; retry in a few seconds",
            ),
            C::ConnectionBroken => PublicError::new(
                E::ServiceUnavailable,
                "the connection to the model's provider broke; retry in a few seconds",
            ),
            C::Credential | C::Forbidden | C::Blocked => unmendable(PublicError::new(
                E::UpstreamError,
                "the model's provider refused to serve the gateway",
            )),
            C::UnreadableReasoning => unmendable(
                PublicError::new(
                    E::UpstreamError,
                    "the request carries reasoning that the model's provider cannot verify: \
                     leave out encrypted reasoning and signed thinking of another model",
                )
                .with_status(400),
            ),
            C::InvalidRequest => self.refused_request(),
            C::ServerError => PublicError::new(E::UpstreamError, "the model's provider failed"),
            C::BrokenAnswer => PublicError::new(
                E::UpstreamError,
                "the model's provider sent an answer that cannot be read",
            ),
            C::UnfitAnswer => PublicError::new(
                E::UpstreamError,
                "the model did not answer in the form that the request asks for",
            ),
            C::ResponseTimeout => PublicError::new(
                E::UpstreamError,
                "the model's provider did not answer in time",
            )
            .with_status(504),
        };
        match (error.retry_after, self.retry_after) {
            (Some(_), Some(wait)) => error.with_retry_after(wait),
            _ => error,
        }
    }

    /// The upstream's 4xx under its own status, its 5xx as 400. Which field is at fault stands in the
    /// provider's text alone, and that stays inside.
    fn refused_request(&self) -> PublicError {
        const CONFLICT: u16 = 409;
        const TOO_EARLY: u16 = 425;
        let status = match self.status {
            // Of the caller's own key these would say something else.
            None | Some(401 | 403) => 400,
            Some(500..) => 400,
            Some(status) => status,
        };
        let message = match status {
            404 => "the model's provider does not know what the request refers to",
            413 => "the request is too large for the model's provider",
            _ => "the model's provider refused the request as invalid",
        };
        let error = PublicError::new(ErrorCode::UpstreamError, message).with_status(status);
        match status {
            CONFLICT | TOO_EARLY => error,
            _ => unmendable(error),
        }
    }
}

/// The same error, saying that the same request fails again.
fn unmendable(mut error: PublicError) -> PublicError {
    error.should_retry = Some(false);
    error
}

/// The same error of a state that lasts: a retry is of no use.
fn lasting(error: PublicError) -> PublicError {
    const WAIT: Duration = Duration::from_secs(60);
    unmendable(error.with_retry_after(WAIT))
}
