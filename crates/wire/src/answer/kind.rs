//! What an event does to its stream.
//!
//! `formats/*.rs` list the events of each format. The lists are allow-lists: any other
//! event fails its stream, unless the operator names it as an extension of the provider. Sources: the event types of the
//! providers' SDKs (openai 2.54, anthropic 2.11), the Open Responses specification, and
//! recorded traffic.

use std::sync::Arc;

/// Names of the events that a provider has beyond those of its format.
pub type StreamEvents = Arc<[Box<str>]>;

/// What an event does to its stream, by its name or type. In rising order: if name and type
/// disagree, the graver one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// No name says what it is.
    #[default]
    Unnamed,
    /// Comes before any content, or between.
    Preamble,
    /// Is content.
    Content,
    /// Ends the answer.
    Terminal,
    /// Has a name that the format does not define.
    Foreign,
    /// Is an error.
    Error,
}

impl EventKind {
    /// The kind of an event with a name that has the same meaning in every format. Any other name
    /// is none that the format defines.
    pub(crate) const fn of_any(name: &[u8]) -> Self {
        match name {
            b"error" => Self::Error,
            // `message` is the name of an event without one, by the specification of event
            // streams.
            b"" | b"message" => Self::Unnamed,
            b"ping" | b"keepalive" => Self::Preamble,
            _ => Self::Foreign,
        }
    }

    /// The same for a whole answer.
    pub(crate) const fn of_any_body(name: &[u8]) -> Self {
        match name {
            b"error" => Self::Error,
            b"" => Self::Unnamed,
            _ => Self::Foreign,
        }
    }
}
