//! The caller's stop sequences, for a provider whose format has none: finds where the text ends.
//!
//! Decides how much of a text may leave. Text that may be the beginning of a sequence is held
//! until the next piece decides, so never more than the longest sequence. What follows when a
//! sequence is found is the flow's.

use crate::{
    answer::{logprobs, text::RawText, write::keep_logprobs},
    output::Output,
};
use std::sync::Arc;

/// Looks for stop sequences in the texts of one answer.
#[derive(Debug)]
pub(crate) struct Stops {
    sequences: Arc<[String]>,
    /// The end of the text so far, unescaped: a beginning of a sequence.
    held: String,
    /// The log probabilities of the next piece.
    logprobs: String,
    /// Which sequence ended the text.
    found: Option<usize>,
}

/// The part of a text that may leave.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Contents of a JSON string.
    pub(crate) text: Output,
    pub(crate) logprobs: String,
}

impl Stops {
    /// A search for these sequences; none if there are none.
    pub(crate) fn new(sequences: &Arc<[String]>) -> Option<Self> {
        (!sequences.is_empty()).then(|| Self {
            sequences: Arc::clone(sequences),
            held: String::new(),
            logprobs: String::new(),
            found: None,
        })
    }

    /// How likely the tokens of the next piece are: entries with commas between.
    pub(crate) fn logprobs(&mut self, entries: &str) {
        keep_logprobs(&mut self.logprobs, entries);
    }

    /// The sequence that ended the text.
    pub(crate) fn found(&self) -> Option<&str> {
        self.sequences.get(self.found?).map(String::as_str)
    }

    /// Reads the next piece of a text, and returns the part that can be sent.
    pub(crate) fn push(&mut self, piece: RawText<'_>) -> Passed {
        let mut passed = Passed::default();
        if self.found.is_some() {
            return passed;
        }
        let held = self.held.len();
        passed.logprobs = std::mem::take(&mut self.logprobs);
        self.held.push_str(&piece.unescape());
        if let Some((start, sequence)) = self.first() {
            self.found = Some(sequence);
            passed.logprobs = logprobs::within(&passed.logprobs, start.saturating_sub(held));
            passed.text.text(self.held.get(..start).unwrap_or_default());
            self.held.clear();
            return passed;
        }
        let kept = self.held.len().saturating_sub(self.beginning());
        match held == 0 && kept == self.held.len() {
            // As its provider wrote it.
            true => passed.text.escaped(piece.as_str().as_bytes()),
            false => passed.text.text(self.held.get(..kept).unwrap_or_default()),
        }
        self.held.drain(..kept);
        passed
    }

    /// The text has ended: returns what was held of it.
    pub(crate) fn end(&mut self) -> Passed {
        let mut passed = Passed::default();
        passed.text.text(&self.held);
        self.held.clear();
        passed
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
mod tests;
