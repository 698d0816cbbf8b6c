//! Readers: a request in one of the formats becomes a [`Conversation`].

pub(crate) mod made;
pub(crate) mod media;
pub(crate) mod openai;
pub(crate) mod search;
pub(crate) mod shared;

use super::{conversation::Conversation, scope::Scope};
use crate::{Refusal, document::Document};
use made::Made;

/// Reads a request in the caller's format.
///
/// # Errors
/// A field is unknown, refused, of the wrong type or out of bounds.
pub(crate) fn read<'d>(
    document: &'d Document<'d>,
    made: &Made<'d>,
    scope: &mut Scope<'_>,
) -> Result<Conversation<'d>, Refusal> {
    (scope.source.read)(document.root(), made, scope)
}
