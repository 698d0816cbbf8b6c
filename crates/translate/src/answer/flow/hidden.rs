//! Thinking that the client does not see, until it is sealed.

use crate::{
    answer::{parts::Blob, text::RawText},
    seal::{MAX_PAYLOAD_BYTES, ReasoningForm},
};

#[derive(Debug, Default)]
pub(super) struct HiddenThinking {
    pieces: u32,
    /// The text that goes back to its provider: escaped contents. What is too long to be sealed is not kept.
    text: String,
}

impl HiddenThinking {
    /// Pieces after which the client gets a sign of life: long thinking must not look like a dead connection.
    const PIECES_A_SIGN: u32 = 32;

    pub(super) const fn is_empty(&self) -> bool {
        self.pieces == 0
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.text.len()
    }

    /// Passes over a piece, and returns whether a sign of life is due.
    pub(super) fn push(&mut self, piece: RawText<'_>, is_kept: bool) -> bool {
        if is_kept && self.text.len() <= MAX_PAYLOAD_BYTES {
            self.text.push_str(piece.as_str());
        }
        self.pieces = self.pieces.wrapping_add(1);
        self.pieces.is_multiple_of(Self::PIECES_A_SIGN)
    }

    /// The kept text, once.
    pub(super) fn take(&mut self) -> Option<Blob> {
        let text = std::mem::take(&mut self.text);
        let fits = !text.is_empty() && text.len() <= MAX_PAYLOAD_BYTES;
        let payload = fits.then(|| RawText::escaped(&text).unescape().into_owned())?;
        Some(Blob::new(ReasoningForm::Hidden, payload))
    }
}
