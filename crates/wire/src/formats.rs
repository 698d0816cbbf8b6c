//! The wire formats: one file for each, which decides where a request and an answer keep what the gateway
//! reads, what each event does to its stream, how tokens are counted, how an error is written, and which
//! headers only this format has.
//!
//! The two formats without conversations, embeddings and rerank, share most of their rules with chat.
//!
//! The rest of this crate knows no format by name. It looks the [`FormatRules`] up once for a
//! body or a stream and follows them: tables of functions and plain data, all of them static.
//!
//! To add a format: add it to `tollgate_types::Format`, write its file, name it in [`RULES`].

mod chat;
mod converse;
mod embeddings;
mod gemini;
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
};

/// What the shared code must know of a format.
pub(crate) fn rules(format: Format) -> &'static FormatRules {
    RULES.get(format)
}
