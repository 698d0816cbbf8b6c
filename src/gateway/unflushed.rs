//! Keeps the bytes of an answer that Pingora may not have written yet.
//!
//! Pingora collects a few pieces of an answer before it writes them, and drops all of them if the body
//! filter fails on a later one. A stream that ends in an error must not lose the pieces before it.

use bytes::Bytes;
use std::collections::VecDeque;

/// The last pieces of an answer's body.
#[derive(Default)]
pub struct Unflushed {
    pieces: VecDeque<Bytes>,
    /// The offset of the first of them in the body, in bytes.
    begin: usize,
}

impl Unflushed {
    /// Adds a piece that Pingora is about to write.
    pub fn add(&mut self, piece: &Bytes) {
        if !piece.is_empty() {
            self.pieces.push_back(piece.clone());
        }
    }

    /// Drops the first `written` bytes of the body.
    pub fn forget(&mut self, written: usize) {
        while let Some(first) = self.pieces.front() {
            let end = self.begin.saturating_add(first.len());
            if end > written {
                return;
            }
            self.begin = end;
            self.pieces.pop_front();
        }
    }

    /// The bytes of the body after the first `written`.
    pub fn take(&mut self, written: usize) -> Vec<Bytes> {
        self.forget(written);
        let mut pieces: Vec<Bytes> = std::mem::take(&mut self.pieces).into();
        if let Some(first) = pieces.first_mut() {
            let done = written.saturating_sub(self.begin).min(first.len());
            *first = first.slice(done..);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_forgotten_and_the_rest_comes_back() {
        for (written, left) in [(0, "abcdef"), (3, "def"), (4, "ef"), (6, "")] {
            let mut unflushed = Unflushed::default();
            for piece in ["abc", "", "de", "f"] {
                unflushed.add(&Bytes::from_static(piece.as_bytes()));
            }
            unflushed.forget(written.min(3));
            assert_eq!(
                unflushed.take(written).concat(),
                left.as_bytes(),
                "{written}"
            );
        }
    }
}
