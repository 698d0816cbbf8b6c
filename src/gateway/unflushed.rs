//! Remembers what was handed over to be written and perhaps was not.
//!
//! Pingora gathers a few pieces of an answer before it writes them, and drops them all when
//! the filter fails on a later one of them. A stream that ends in an error must not lose what
//! came before it.

use bytes::Bytes;
use std::collections::VecDeque;

/// The last pieces of an answer's body.
#[derive(Default)]
pub struct Unflushed {
    pieces: VecDeque<Bytes>,
    /// Where in the body, in bytes, the first of them begins.
    begin: usize,
}

impl Unflushed {
    /// A piece that is handed over.
    pub fn add(&mut self, piece: &Bytes) {
        if !piece.is_empty() {
            self.pieces.push_back(piece.clone());
        }
    }

    /// Forgets what is known to be written: so many bytes of the body.
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

    /// What is not written, where so many bytes of the body are.
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
    fn what_was_written_is_forgotten_and_the_rest_comes_back() {
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
