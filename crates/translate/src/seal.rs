//! Sealed reasoning: a provider's signature or encrypted reasoning, wrapped so that it can
//! travel through a caller of another format and be known again when it returns.
//!
//! It decides how the wrapping is written and whether a wrapping belongs to a backend. Who asks
//! for it: the answer half wraps, the request half unwraps.

/// What a seal holds: the provider's own reasoning state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// Responses: the `id` of the reasoning item. Empty for the other formats.
    pub item_id: String,
    /// The provider's `signature`, `data` or `encrypted_content`, byte for byte.
    pub payload: String,
    /// Messages: it is the `data` of a `redacted_thinking` block.
    pub redacted: bool,
}

/// The wrapping itself.
#[derive(Clone, Copy, Debug)]
pub enum Seal {}

impl Seal {
    /// What `text` holds, if it is a seal made by `backend`. Anything else (a stranger's blob,
    /// another backend's seal, a broken one) is `None`: the block is left out.
    pub fn open(text: &str, backend: &str) -> Option<Native> {
        let _ = (text, backend);
        None
    }
}
