//! Readers: a request in one of the formats becomes a [`Conversation`].

mod chat;
mod chat_tools;
mod compaction;
mod media;
mod messages;
mod messages_blocks;
mod messages_tools;
mod responses;
mod responses_items;
mod responses_tools;
mod search;
mod shared;
mod tool_search;

use super::{conversation::Conversation, scope::Scope};
use crate::{Refusal, document::Document};
use tollgate_types::Format;

/// Reads a request in the caller's format.
///
/// # Errors
/// A field is unknown, refused, of the wrong type or out of bounds.
pub(super) fn read<'d>(
    document: &'d Document<'d>,
    scope: &mut Scope<'_>,
) -> Result<Conversation<'d>, Refusal> {
    match scope.from {
        Format::Chat => chat::read(document.root(), scope),
        Format::Responses => responses::read(document.root(), scope),
        Format::Messages => messages::read(document.root(), scope),
    }
}
