//! The count of one request: the sum over what was read of its body, and how sure it is.

use crate::{Fit, Rules, json::Json, read::Reading, round, vocabulary::Sum};
use tollgate_types::Format;

/// How many tokens the input of a request has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// The tokens, as the provider is expected to report them.
    pub tokens: u64,
    /// By how much of the reported number `tokens` is off at most, 95 times of 100. More than
    /// 1 where a few tokens could be many.
    pub error_p95: f32,
    /// The tokens that a provider's report can be fitted to: text and framing, by the rules.
    pub base: u64,
    /// The tokens of images, documents and sound: no fit changes them.
    pub media: u64,
    /// Whether tools are offered: providers put a prompt of their own before them.
    pub tools: bool,
    /// What the count stands on.
    pub basis: Basis,
}

/// What a count stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// All of it was counted, and all media have a known size.
    Whole,
    /// All of the text was counted; the size of some medium is assumed, or the provider adds to
    /// the input itself: tools that it runs, conversations that it keeps.
    Assumed,
    /// A sample of the text was counted.
    Sample,
    /// The body could not be read; its length stands for its tokens.
    Length,
}

impl Count {
    /// The same count, by what a model's provider has reported so far.
    #[must_use]
    pub fn refined(self, fit: &Fit) -> Self {
        let Some(error) = fit.error_p95() else {
            return Self {
                tokens: fit.apply(self.base, self.tools).saturating_add(self.media),
                ..self
            };
        };
        Self {
            tokens: fit.apply(self.base, self.tools).saturating_add(self.media),
            error_p95: match self.basis {
                Basis::Whole => error,
                _ => error.max(self.error_p95),
            },
            ..self
        }
    }

    /// Tokens that the input hardly exceeds: what a reservation can hold.
    pub fn at_most(&self) -> u64 {
        self.tokens.saturating_add(self.margin())
    }

    /// Tokens that the input hardly falls short of: only more than a model's limit is a reason
    /// to refuse a request unasked.
    pub fn at_least(&self) -> u64 {
        self.tokens.saturating_sub(self.margin())
    }

    fn margin(&self) -> u64 {
        round::up(self.tokens as f64 * f64::from(self.error_p95))
    }
}

/// Error of what is assumed, and of a length that stands for tokens.
const ASSUMED_ERROR: f32 = 0.5;
const LENGTH_ERROR: f32 = 1.0;

/// Counts the tokens of a request body in this format.
///
/// Never fails and takes time linear in the body, of which at most
/// [`Rules::exact_bytes`] of text are counted one by one. A megabyte of text takes some tens
/// of milliseconds: not for a thread that serves others.
pub fn count(format: Format, body: &[u8], rules: &Rules) -> Count {
    let Ok(json) = Json::parse(body) else {
        return by_length(body, rules);
    };
    let reading = Reading::of(format, &json, rules);
    let texts = reading.texts.iter().map(AsRef::as_ref);
    let Sum { tokens, error } = rules.vocabulary.count_all(texts, rules.exact_bytes);
    let text = round::nearest(tokens as f64 * f64::from(rules.text_factor));
    let base = text.saturating_add(reading.framing);
    let (basis, wider) = match (error > 0.0, reading.assumed) {
        (true, _) => (Basis::Sample, round::error(error)),
        (false, true) => (Basis::Assumed, 0.0),
        (false, false) => (Basis::Whole, 0.0),
    };
    let assumed = if reading.assumed { ASSUMED_ERROR } else { 0.0 };
    let tokens = base.saturating_add(reading.media);
    Count {
        tokens,
        error_p95: (expected_error(rules, tokens, reading.tools) + wider).max(assumed),
        base,
        media: reading.media,
        tools: reading.tools,
        basis,
    }
}

/// The family's error, as a part of this count.
fn expected_error(rules: &Rules, tokens: u64, tools: bool) -> f32 {
    let off = if tools {
        rules.tools_error_tokens
    } else {
        rules.error_tokens
    };
    rules.error_p95 + round::ratio(off.into(), tokens.max(1))
}

/// A body that is no JSON, or too dense to read: two bytes a token is what dense JSON makes.
fn by_length(body: &[u8], rules: &Rules) -> Count {
    const BYTES_PER_TOKEN: f64 = 2.0;
    let tokens = body.len() as f64 / BYTES_PER_TOKEN * f64::from(rules.text_factor);
    let base = round::up(tokens).saturating_add(rules.constant.into());
    Count {
        tokens: base,
        error_p95: LENGTH_ERROR,
        base,
        media: 0,
        tools: false,
        basis: Basis::Length,
    }
}

#[cfg(test)]
mod tests;
