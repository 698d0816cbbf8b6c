//! How many tokens of an answer have gone out, for callers that hang up before its provider
//! reports: counted as the text comes, in constant memory.

use crate::{Rules, Vocabulary, round, vocabulary::blocks};

/// The tokens of a text that comes in pieces.
///
/// A word that a piece cuts is counted when it is whole. The count differs from that of the
/// whole text only where white space runs over a cut, or a word is longer than a few hundred
/// bytes.
#[derive(Clone, Debug)]
pub struct Delivered {
    vocabulary: Vocabulary,
    factor: f64,
    counted: u64,
    /// The beginning of a word that may go on.
    tail: String,
}

/// The longest word that is waited for.
const MAX_TAIL: usize = 256;

impl Delivered {
    /// Nothing yet, of a model with these rules.
    pub fn new(rules: &Rules) -> Self {
        Self {
            vocabulary: rules.vocabulary,
            factor: rules.text_factor.into(),
            counted: 0,
            tail: String::new(),
        }
    }

    /// The next piece of text.
    pub fn push(&mut self, text: &str) {
        blocks(text).for_each(|block| self.push_block(block));
    }

    fn push_block(&mut self, block: &str) {
        // White space goes with the word after it.
        let last = block
            .char_indices()
            .rev()
            .find(|(_, it)| it.is_whitespace());
        let (whole, rest) = block.split_at(last.map_or(0, |(at, _)| at));
        if !whole.is_empty() {
            self.tail.push_str(whole);
            self.count_tail();
        }
        self.tail.push_str(rest);
        if self.tail.len() > MAX_TAIL {
            self.count_tail();
        }
    }

    fn count_tail(&mut self) {
        self.counted = self
            .counted
            .saturating_add(self.vocabulary.count(&self.tail));
        self.tail.clear();
    }

    /// The tokens so far.
    pub fn tokens(&self) -> u64 {
        let counted = self
            .counted
            .saturating_add(self.vocabulary.count(&self.tail));
        round::nearest(counted as f64 * self.factor)
    }

    /// The tokens of a text of `bytes` bytes of which this is a sample: what is not known of
    /// it is taken to be like what is, and four bytes a token where nothing is.
    ///
    /// Takes as long as counting the sample.
    pub fn of_sample(sample: &str, bytes: u64, rules: &Rules) -> u64 {
        const BYTES_PER_TOKEN: f64 = 4.0;
        let factor = f64::from(rules.text_factor);
        let known = sample.len() as u64;
        if known == 0 {
            return round::up(bytes as f64 / BYTES_PER_TOKEN * factor);
        }
        let mut delivered = Self::new(rules);
        delivered.factor = factor * (bytes.max(known) as f64 / known as f64);
        delivered.push(sample);
        delivered.tokens()
    }
}

#[cfg(test)]
mod tests;
