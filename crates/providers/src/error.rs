//! Why a token could not be fetched.

use std::fmt;

/// The kind of a failure, as in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFault {
    /// The service cannot be reached.
    Unreachable,
    /// It has not answered in time.
    Timeout,
    /// It refuses.
    Refused,
    /// Its answer is not what is documented.
    Answer,
    /// A file cannot be read, or a program cannot be run.
    Local,
}

impl FetchFault {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Unreachable,
        Self::Timeout,
        Self::Refused,
        Self::Answer,
        Self::Local,
    ];

    /// The name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Answer => "answer",
            Self::Local => "local",
        }
    }
}

/// Why a token could not be fetched. Its text is for operators and holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// The kind.
    pub fault: FetchFault,
    message: Box<str>,
}

impl FetchError {
    pub(crate) fn new(fault: FetchFault, message: impl fmt::Display) -> Self {
        Self {
            fault,
            message: message.to_string().into(),
        }
    }

    /// An answer that is not what is documented. `wanted` says what is.
    pub(crate) fn answer(from: &str, wanted: &str) -> Self {
        let message = format_args!("{from} answers without {wanted}");
        Self::new(FetchFault::Answer, message)
    }
}
