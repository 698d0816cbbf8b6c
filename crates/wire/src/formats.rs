//! The wire formats: one folder for each, with the same files in each.
//!
//! | File | Decides |
//! |---|---|
//! | `field_locations.rs` | where a request and an answer keep what the gateway reads |
//! | `stream.rs` | which events a stream has and what each of them does to it |
//! | `usage.rs` | how reported tokens are counted |
//! | `errors.rs` | how the gateway writes an error |
//! | `headers.rs` | which headers only this format has |
//!
//! Two formats without conversations, embeddings and rerank, are a file each and have the rest from chat.
//!
//! The rest of this crate knows no format by name. It looks the [`FormatRules`] up once for a
//! body or a stream and follows them: tables of functions and plain data, all of them static.
//!
//! To add a format: add it to `tollgate_types::Format`, write its folder, name it in [`RULES`].

mod chat;
mod converse;
mod embeddings;
mod gemini;
#[cfg(feature = "made-up-format")]
mod made_up;
mod messages;
mod rerank;
mod responses;
pub(crate) mod rules;

use rules::FormatRules;
use tollgate_types::{Format, PerFormat};

static RULES: PerFormat<FormatRules> = PerFormat {
    chat: chat::RULES,
    responses: responses::RULES,
    messages: messages::RULES,
    gemini: gemini::RULES,
    converse: converse::RULES,
    embeddings: embeddings::RULES,
    rerank: rerank::RULES,
    #[cfg(feature = "made-up-format")]
    made_up: made_up::RULES,
};

/// What the shared code must know of a format.
pub(crate) fn rules(format: Format) -> &'static FormatRules {
    RULES.get(format)
}
