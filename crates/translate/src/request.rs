//! The caller's request, as the target's.
//!
//! It decides what a request means and how the target's format says it: a reader for each
//! format makes a conversation of the body, a writer for each format makes a body of the
//! conversation. What may be lost on the way stands in the [table](crate::table).

use crate::{Refusal, Target, TranslationNotes};
use bytes::Bytes;
use tollgate_types::Format;

/// A request in the target's format, and what must be remembered of the caller's.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The body to send.
    pub body: Bytes,
    /// The fields that were left out with notice, by their paths in the table, each once.
    pub dropped: Vec<String>,
    /// What the answer half must know.
    pub notes: TranslationNotes,
}

/// Translates a whole request body.
///
/// # Errors
/// A field cannot be carried, or its value is not one that its format knows: the refusal
/// names it.
pub fn request(
    from: Format,
    to: Format,
    body: &[u8],
    target: &Target<'_>,
) -> Result<Translated, Refusal> {
    let _ = (body, target);
    Err(Refusal::new(
        "",
        format!("requests are not translated from {from} to {to} yet"),
    ))
}
