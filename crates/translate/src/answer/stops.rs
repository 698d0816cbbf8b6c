//! The caller's stop sequences, for a provider whose format has none: finds where the text ends.
//!
//! Decides how much of a text may leave. Text that may be the beginning of a sequence is held
//! until the next piece decides, so never more than the longest sequence. What follows when a
//! sequence is found is the flow's.

use crate::{answer::text::RawText, output::Output};
use std::sync::Arc;

/// Looks for stop sequences in the texts of one answer.
#[derive(Debug)]
pub(crate) struct Stops {
    sequences: Arc<[String]>,
    /// The end of the text so far, unescaped: a beginning of a sequence.
    held: String,
    /// Which sequence ended the text.
    found: Option<usize>,
}

impl Stops {
    /// A search for these sequences; none if there are none.
    pub(crate) fn new(sequences: &Arc<[String]>) -> Option<Self> {
        (!sequences.is_empty()).then(|| Self {
            sequences: Arc::clone(sequences),
            held: String::new(),
            found: None,
        })
    }

    /// The sequence that ended the text.
    pub(crate) fn found(&self) -> Option<&str> {
        self.sequences.get(self.found?).map(String::as_str)
    }

    /// Reads the next piece of a text, and appends what of it may leave to `out`, escaped.
    pub(crate) fn push(&mut self, piece: RawText<'_>, out: &mut Output) {
        if self.found.is_some() {
            return;
        }
        let meant = piece.unescape();
        let is_whole = self.held.is_empty();
        self.held.push_str(&meant);
        if let Some((start, sequence)) = self.first() {
            self.found = Some(sequence);
            out.text(self.held.get(..start).unwrap_or_default());
            self.held.clear();
            return;
        }
        let kept = self.held.len().saturating_sub(self.beginning());
        match is_whole && kept == self.held.len() {
            // As its provider wrote it.
            true => out.escaped(piece.as_str().as_bytes()),
            false => out.text(self.held.get(..kept).unwrap_or_default()),
        }
        self.held.drain(..kept);
    }

    /// The text has ended: appends what was held of it to `out`, escaped.
    pub(crate) fn end(&mut self, out: &mut Output) {
        out.text(&self.held);
        self.held.clear();
    }

    /// Where the sequence begins that is complete first, and which one it is.
    fn first(&self) -> Option<(usize, usize)> {
        let found = self.sequences.iter().enumerate();
        let found = found.filter_map(|(number, sequence)| {
            let start = self.held.find(sequence.as_str())?;
            Some((start.saturating_add(sequence.len()), start, number))
        });
        found.min().map(|(_, start, number)| (start, number))
    }

    /// Bytes at the end of the text that a sequence may begin with.
    fn beginning(&self) -> usize {
        let of_one = |sequence: &String| {
            let ends = sequence.char_indices().map(|(end, _)| end);
            let mut ends = ends.rev().filter(|end| *end > 0);
            ends.find(|end| {
                sequence
                    .get(..*end)
                    .is_some_and(|beginning| self.held.ends_with(beginning))
            })
        };
        let longest = self.sequences.iter().filter_map(of_one).max();
        longest.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What leaves of the pieces, and the sequence that was found.
    fn cut<'a>(
        sequences: &[&str],
        pieces: impl IntoIterator<Item = &'a str>,
    ) -> (Vec<String>, Option<String>) {
        let sequences: Arc<[String]> = sequences.iter().map(|it| (*it).to_owned()).collect();
        let mut stops = Stops::new(&sequences).unwrap();
        let mut left = Vec::new();
        let mut take = |out: Output| {
            let contents = String::from_utf8(out.into_bytes()).unwrap();
            left.push(RawText::escaped(&contents).unescape().into_owned());
        };
        for piece in pieces {
            let written = serde_json::to_string(piece).unwrap();
            let mut out = Output::default();
            stops.push(RawText::escaped(&written[1..written.len() - 1]), &mut out);
            take(out);
        }
        let mut out = Output::default();
        stops.end(&mut out);
        take(out);
        (left, stops.found().map(ToOwned::to_owned))
    }

    #[test]
    fn text_that_may_begin_a_sequence_is_held_until_the_next_piece_decides() {
        let (left, found) = cut(&["<end>"], ["a", "b<", "en", "x<e", "nd", ">", "c"]);
        assert_eq!(left, ["a", "b", "", "<enx", "", "", "", ""]);
        assert_eq!(found.as_deref(), Some("<end>"));
        let (left, found) = cut(&["Ö\n"], ["aÖ", "Ö", "Ö\nb"]);
        assert_eq!(left, ["a", "Ö", "Ö", ""]);
        assert_eq!(found.as_deref(), Some("Ö\n"));
        let (left, found) = cut(&["stop"], ["a", "sto"]);
        assert_eq!(left, ["a", "", "sto"]);
        assert_eq!(found, None);
    }

    #[test]
    fn the_sequence_counts_that_is_complete_first() {
        let (left, found) = cut(&["abcd", "bc"], ["xabcd"]);
        assert_eq!(
            (left.concat().as_str(), found.as_deref()),
            ("xa", Some("bc"))
        );
        let (left, found) = cut(&["bc", "abc"], ["xabc"]);
        assert_eq!(
            (left.concat().as_str(), found.as_deref()),
            ("x", Some("abc"))
        );
    }

    #[test]
    fn what_holds_no_sequence_leaves_as_it_was_written() {
        let mut stops = Stops::new(&["x".to_owned()].into()).unwrap();
        let mut out = Output::default();
        stops.push(RawText::escaped(r"a\/\u0062"), &mut out);
        assert_eq!(out.as_bytes(), br"a\/\u0062");
    }

    proptest! {
        #[test]
        fn the_same_leaves_however_the_text_is_cut(
            text in "[abö\"\\n]{0,30}",
            sequences in proptest::collection::vec("[abö\"\\n]{1,4}", 1..4),
            sizes in proptest::collection::vec(1..4_usize, 30),
        ) {
            let sequences: Vec<_> = sequences.iter().map(String::as_str).collect();
            let mut pieces: Vec<String> = Vec::new();
            let mut sizes = sizes.into_iter();
            let mut chars = text.chars().peekable();
            while chars.peek().is_some() {
                pieces.push(chars.by_ref().take(sizes.next().unwrap_or(1)).collect());
            }
            let (left, found) = cut(&sequences, pieces.iter().map(String::as_str));
            let (whole, found_whole) = cut(&sequences, [text.as_str()]);
            prop_assert_eq!(left.concat(), whole.concat());
            prop_assert_eq!(&found, &found_whole);
            let ends = sequences.iter().filter_map(|it| Some(text.find(it)? + it.len()));
            prop_assert_eq!(found.is_some(), ends.clone().min().is_some());
            if let Some(found) = found {
                prop_assert_eq!(whole.concat().len() + found.len(), ends.min().unwrap());
            } else {
                prop_assert_eq!(whole.concat(), text);
            }
        }
    }
}
