//! How far a stream has come and how it ended.

use crate::fault::UpstreamFault;

/// How a stream is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Removes the event with usage and without content, because the gateway asked for it and not
    /// the client.
    pub strip_usage: bool,
    /// An incomplete event that the format defines is held up to this size, in bytes; then it
    /// passes piece by piece.
    pub max_event_bytes: usize,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            strip_usage: false,
            max_event_bytes: 64 * 1024,
        }
    }
}

/// How far a stream has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No content yet: another provider can still answer instead.
    #[default]
    Preamble,
    /// Content has come.
    Content,
    /// The event that ends an answer of the format has come.
    Terminal,
    /// An error has come. Nothing more passes.
    Failed(UpstreamFault),
}

/// How a stream ended when its provider closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The answer is complete.
    Finished,
    /// The answer is incomplete: the client gets an error.
    Cut,
    /// An error came: the client gets it.
    Failed,
}
