//! Short fingerprints of texts: by which a text is known again, and never read.

use sha2::{Digest as _, Sha256};

/// A fingerprint of a text that comes in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: &str) {
        self.0.update(piece.as_bytes());
    }

    /// The fingerprint, in hexadecimal digits: 32 of them, which every target takes.
    pub(crate) fn finish(self) -> String {
        const BYTES: usize = 16;
        let digest = self.0.finalize();
        let nibbles = digest
            .iter()
            .take(BYTES)
            .flat_map(|byte| [byte >> 4, byte & 15]);
        let mut text = String::with_capacity(2 * BYTES);
        text.extend(nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)));
        text
    }
}

/// The fingerprint of a whole text.
pub(crate) fn fingerprint(text: &str) -> String {
    let mut fingerprint = Fingerprint::default();
    fingerprint.push(text);
    fingerprint.finish()
}
