//! Readers: a request in one of the formats becomes a [`Conversation`].

pub(crate) mod media;
pub(crate) mod search;
pub(crate) mod shared;

use super::{conversation::Conversation, scope::Scope};
use crate::{Refusal, document::Document, formats};
use tollgate_types::Format;

/// Reads a request in the caller's format.
///
/// # Errors
/// A field is unknown, refused, of the wrong type or out of bounds.
pub(crate) fn read<'d>(
    document: &'d Document<'d>,
    scope: &mut Scope<'_>,
) -> Result<Conversation<'d>, Refusal> {
    match scope.from {
        Format::Chat => formats::chat::request_reader::read(document.root(), scope),
        Format::Responses => formats::responses::request_reader::read(document.root(), scope),
        Format::Messages => formats::messages::request_reader::read(document.root(), scope),
    }
}
