//! How many tokens a text is to a published vocabulary, in time linear in its length.
//!
//! Two vocabularies are built in. Each is unpacked at its first use, which takes a while
//! (docs/reference/token-counts.md has the figures): [`Vocabulary::load`] is for a program that would
//! rather do it before requests come.

use crate::round;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a text that are counted in one go. A cut costs one token at most.
pub(crate) const BLOCK: usize = 4096;

/// A published byte-pair vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Vocabulary {
    /// `o200k_base`: OpenAI's models since gpt-4o.
    #[default]
    O200k,
    /// `cl100k_base`: OpenAI's gpt-4 and gpt-3.5.
    Cl100k,
}

impl Vocabulary {
    /// Unpacks the vocabulary, if it is not yet.
    pub fn load(self) {
        self.count("");
    }

    /// Whether it is unpacked, so that a short text is counted in microseconds.
    pub fn is_loaded(self) -> bool {
        self.loaded().load(Ordering::Acquire)
    }

    const fn loaded(self) -> &'static AtomicBool {
        static O200K: AtomicBool = AtomicBool::new(false);
        static CL100K: AtomicBool = AtomicBool::new(false);
        match self {
            Self::O200k => &O200K,
            Self::Cl100k => &CL100K,
        }
    }

    /// The tokens of a text: as many as the vocabulary's own tokenizer makes of it, special
    /// tokens read as plain text. The time is linear in the length, whatever the text.
    pub fn count(self, text: &str) -> u64 {
        let tokenizer = match self {
            Self::O200k => bpe_openai::o200k_base(),
            Self::Cl100k => bpe_openai::cl100k_base(),
        };
        if !self.is_loaded() {
            self.loaded().store(true, Ordering::Release);
        }
        tokenizer.count(text) as u64
    }

    /// The tokens of many texts. Up to `exact_bytes` in all, every byte is counted; beyond it,
    /// blocks spread evenly over the whole, and the rest is taken to be like them.
    pub(crate) fn count_all<'t>(
        self,
        texts: impl Iterator<Item = &'t str> + Clone,
        exact_bytes: u64,
    ) -> Sum {
        let total: u64 = texts.clone().map(|text| text.len() as u64).sum();
        if total <= exact_bytes {
            let tokens = texts.map(|text| self.count(text)).sum();
            return Sum { tokens, error: 0.0 };
        }
        let mut sample = Sample::new(exact_bytes.max(BLOCK as u64), total);
        for block in texts.flat_map(blocks) {
            if sample.wants(block.len()) {
                sample.add(block.len(), self.count(block));
            }
        }
        sample.sum()
    }
}

/// Tokens of many texts, and by how much that may be wrong: 95 times of 100 by less than
/// this part of it, for text that was not made to deceive a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    pub(crate) tokens: u64,
    pub(crate) error: f64,
}

/// Some of the blocks of a text, evenly spread.
struct Sample {
    budget: u64,
    total: u64,
    /// How far the blocks taken are behind the budget's share of the blocks seen.
    credit: u64,
    bytes: f64,
    tokens: f64,
    /// For the spread of tokens per byte: blocks, and the sum of squares of both.
    blocks: f64,
    tokens_squared: f64,
    product: f64,
    bytes_squared: f64,
}

impl Sample {
    const fn new(budget: u64, total: u64) -> Self {
        Self {
            budget,
            total,
            credit: 0,
            bytes: 0.0,
            tokens: 0.0,
            blocks: 0.0,
            tokens_squared: 0.0,
            product: 0.0,
            bytes_squared: 0.0,
        }
    }

    /// Whether the next block is one of the sample.
    const fn wants(&mut self, bytes: usize) -> bool {
        let share = (bytes as u64).saturating_mul(self.budget);
        self.credit = self.credit.saturating_add(share);
        let cost = (bytes as u64).saturating_mul(self.total);
        if self.credit < cost {
            return false;
        }
        self.credit -= cost;
        true
    }

    fn add(&mut self, bytes: usize, tokens: u64) {
        let (bytes, tokens) = (bytes as f64, tokens as f64);
        self.bytes += bytes;
        self.tokens += tokens;
        self.blocks += 1.0;
        self.tokens_squared += tokens * tokens;
        self.product += tokens * bytes;
        self.bytes_squared += bytes * bytes;
    }

    /// The ratio estimate over the whole, and twice its standard error.
    fn sum(&self) -> Sum {
        if self.tokens <= 0.0 {
            let tokens = self.total / 4;
            return Sum { tokens, error: 1.0 };
        }
        let ratio = self.tokens / self.bytes;
        let residual = ratio.mul_add(
            ratio.mul_add(self.bytes_squared, -2.0 * self.product),
            self.tokens_squared,
        );
        let unseen = 1.0 - (self.bytes / self.total as f64).min(1.0);
        let error = 2.0 * (residual.max(0.0) * unseen).sqrt() / self.tokens;
        Sum {
            tokens: round::nearest(ratio * self.total as f64),
            error: error.min(1.0),
        }
    }
}

/// A text in blocks that end between characters.
pub(crate) fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = (0..=BLOCK.min(rest.len()))
            .rev()
            .find(|at| rest.is_char_boundary(*at))?;
        let (block, after) = rest.split_at(end);
        rest = after;
        Some(block)
    })
}

#[cfg(test)]
mod tests;
