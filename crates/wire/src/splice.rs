//! Edits on a body that is a list of chunks, without copying what stays: the new
//! list shares the old one's memory, and only what is put in is new.
//!
//! It decides nothing about JSON; [`body`](crate::body) says what to edit.

use crate::json::Span;
use bytes::Bytes;

/// Edits to be made on one body, collected in any order. Offsets are those of the body
/// before any edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splice {
    edits: Vec<Edit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    span: Span,
    text: Bytes,
}

/// A body after its edits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spliced {
    /// The body's pieces in order; none is empty.
    pub chunks: Vec<Bytes>,
}

/// Edits that cannot be made. It is the fault of the code that asked for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// Two edits touch the same bytes.
    #[error("two edits overlap at byte {at}")]
    Overlap {
        /// Where the second begins.
        at: u64,
    },
    /// An edit reaches beyond the body, or ends before it begins.
    #[error("an edit of bytes {start} to {end} does not fit the body")]
    OutOfBounds {
        /// Where the edit begins.
        start: u64,
        /// Where it ends.
        end: u64,
    },
}

impl Splice {
    /// Whether there is nothing to edit.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Puts `text` in the place of the bytes of `span`.
    pub fn replace(&mut self, span: Span, text: impl Into<Bytes>) {
        let text = text.into();
        self.edits.push(Edit { span, text });
    }

    /// Puts `text` before the byte at offset `at`. Texts inserted at the same place
    /// stand in the order of the calls.
    pub fn insert(&mut self, at: u64, text: impl Into<Bytes>) {
        self.replace(Span { start: at, end: at }, text);
    }

    /// Makes the edits on a body.
    ///
    /// # Errors
    /// Two edits overlap, or one does not fit the body.
    pub fn apply(mut self, body: &[Bytes]) -> Result<Spliced, SpliceError> {
        // The sort is stable, and an insertion goes before a replacement at its place.
        self.edits
            .sort_by_key(|edit| (edit.span.start, edit.span.end));
        let mut spliced = Spliced::default();
        spliced.chunks.reserve(body.len() + 2 * self.edits.len());
        let mut rest = Rest::new(body);
        for Edit { span, text } in self.edits {
            let Span { start, end } = span;
            let Some(kept) = start.checked_sub(rest.offset) else {
                return Err(SpliceError::Overlap { at: start });
            };
            let edited = end.checked_sub(start);
            let fits = rest.take(kept, |piece| spliced.push(piece))
                && edited.is_some_and(|edited| rest.take(edited, drop));
            if !fits {
                return Err(SpliceError::OutOfBounds { start, end });
            }
            spliced.push(text);
        }
        rest.take(u64::MAX, |piece| spliced.push(piece));
        Ok(spliced)
    }
}

impl Spliced {
    /// The body in one piece. A single piece is not copied.
    pub fn into_bytes(self) -> Bytes {
        match <[Bytes; 1]>::try_from(self.chunks) {
            Ok([only]) => only,
            Err(chunks) => chunks.concat().into(),
        }
    }

    fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.chunks.push(piece);
        }
    }
}

/// The part of a body that has not been gone through.
struct Rest<'a> {
    current: Bytes,
    chunks: std::slice::Iter<'a, Bytes>,
    offset: u64,
}

impl<'a> Rest<'a> {
    fn new(body: &'a [Bytes]) -> Self {
        Self {
            current: Bytes::new(),
            chunks: body.iter(),
            offset: 0,
        }
    }

    /// Goes `len` bytes on and hands over the pieces; `false` where there are fewer.
    fn take(&mut self, mut len: u64, mut hand_over: impl FnMut(Bytes)) -> bool {
        while len > 0 {
            if self.current.is_empty() {
                match self.chunks.next() {
                    Some(chunk) => self.current = chunk.clone(),
                    None => return false,
                }
            }
            let here = usize::try_from(len).unwrap_or(usize::MAX);
            let piece = self.current.split_to(here.min(self.current.len()));
            len -= piece.len() as u64;
            self.offset = self.offset.saturating_add(piece.len() as u64);
            hand_over(piece);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunks(text: &[u8], size: usize) -> Vec<Bytes> {
        text.chunks(size).map(Bytes::copy_from_slice).collect()
    }

    fn span(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    #[test]
    fn unchanged_bytes_are_shared_and_not_copied() {
        let body = [Bytes::from_static(b"0123"), Bytes::from_static(b"4567")];
        let mut splice = Splice::default();
        splice.replace(span(3, 6), "abc");
        splice.insert(0, "<");
        splice.insert(8, ">");
        let spliced = splice.apply(&body).unwrap();
        assert_eq!(spliced.chunks.concat(), b"<012abc67>");
        assert_eq!(spliced.chunks[1].as_ptr(), body[0].as_ptr());
        assert_eq!(spliced.chunks[3].as_ptr(), body[1][2..].as_ptr());
    }

    #[test]
    fn edits_at_one_place_keep_their_order() {
        let mut splice = Splice::default();
        splice.replace(span(1, 2), "R");
        splice.insert(1, "a");
        splice.insert(1, "b");
        splice.insert(2, "c");
        let spliced = splice.apply(&chunks(b"012", 1)).unwrap();
        assert_eq!(spliced.chunks.concat(), b"0abRc2");
    }

    #[test]
    fn edits_that_overlap_or_do_not_fit_are_refused() {
        let apply = |edits: &[Span]| {
            let mut splice = Splice::default();
            edits.iter().for_each(|edit| splice.replace(*edit, "x"));
            splice.apply(&chunks(b"0123456789", 3))
        };
        assert_eq!(
            apply(&[span(4, 6), span(2, 5)]),
            Err(SpliceError::Overlap { at: 4 })
        );
        assert_eq!(
            apply(&[span(2, 5), span(3, 3)]),
            Err(SpliceError::Overlap { at: 3 })
        );
        assert!(apply(&[span(2, 5), span(5, 7), span(2, 2)]).is_ok());
        for (start, end) in [(9, 11), (11, 11), (10, 12), (5, 4), (u64::MAX, u64::MAX)] {
            assert_eq!(
                apply(&[span(start, end)]),
                Err(SpliceError::OutOfBounds { start, end })
            );
        }
        assert!(apply(&[span(10, 10), span(0, 0)]).is_ok());
    }

    proptest! {
        #[test]
        fn outside_the_edits_every_byte_stays(
            body in prop::collection::vec(any::<u8>(), 0..200),
            size in 1_usize..50,
            places in prop::collection::btree_set(0_usize..200, 0..12),
            texts in prop::collection::vec("[a-z]{0,5}", 6),
        ) {
            let places: Vec<usize> = places.into_iter().filter(|at| *at <= body.len()).collect();
            let mut splice = Splice::default();
            let mut expected = Vec::new();
            let mut from = 0;
            for (pair, text) in places.chunks_exact(2).zip(&texts) {
                splice.replace(span(pair[0] as u64, pair[1] as u64), text.clone());
                expected.extend_from_slice(&body[from..pair[0]]);
                expected.extend_from_slice(text.as_bytes());
                from = pair[1];
            }
            expected.extend_from_slice(&body[from..]);
            splice.edits.reverse();
            let spliced = splice.apply(&chunks(&body, size)).unwrap();
            prop_assert!(spliced.chunks.iter().all(|chunk| !chunk.is_empty()));
            prop_assert_eq!(spliced.chunks.concat(), expected);
        }
    }
}
