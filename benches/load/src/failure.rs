//! Why a comparison could not be made.

use std::io;
use std::time::Duration;

/// A short-hand for results that fail with [`Failure`].
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Whatever ends a measurement. A slow proxy is a figure; a wrong answer is a failure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The operating system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried, as a verb phrase.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of `/proc` did not look as proc(5) says.
    #[error("{path} has an unknown form")]
    Unreadable {
        /// The file.
        path: String,
    },
    /// A response that is not the HTTP/1.1 that the harness understands.
    #[error("malformed response: {0}")]
    Malformed(&'static str),
    /// A well-formed response that is not the one asked for.
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    /// Something took longer than its bound.
    #[error("{what} took more than {} s", limit.as_secs_f32())]
    TooSlow {
        /// What was awaited.
        what: String,
        /// The bound.
        limit: Duration,
    },
    /// A process under test ended by itself.
    #[error("{name} ended early ({status}){output}")]
    Ended {
        /// The contender.
        name: String,
        /// Its exit status.
        status: String,
        /// The tail of what it printed, after a line break; may be empty.
        output: String,
    },
    /// The command line asks for something impossible.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    /// An I/O error met while doing `doing`.
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io {
            doing: doing.into(),
            source,
        }
    }

    /// A file of `/proc` that could not be understood.
    pub(crate) fn unreadable(path: &str) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
        }
    }
}
