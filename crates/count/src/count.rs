//! The count of one request: the sum over what was read of its body, and how sure it is.

use crate::{
    Rules,
    json::{self, Json},
    read::Reading,
    round,
    vocabulary::Sum,
};
use tollgate_types::Format;

/// How many tokens the input of a request has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// The tokens, as the provider is expected to report them.
    pub tokens: u64,
    /// By how much of the reported number `tokens` is off at most, 95 times of 100. More than
    /// 1 where a few tokens could be many.
    pub error_p95: f32,
    /// Of them, the tokens of images, documents and sound.
    pub media: u64,
    /// Whether tools are offered: providers put a prompt of their own before them.
    pub tools: bool,
    /// Tokens that the input does not exceed, whatever its text, but for what the provider adds:
    /// by the vocabulary where it is the model's own, else by a bound on what any vocabulary
    /// makes of the text.
    pub most: u64,
    /// The basis of the count.
    pub basis: Basis,
}

/// The basis of a count.
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
    /// Estimates the tokens from the length of a request's text: four bytes a token.
    pub fn by_bytes(text_bytes: u64, media: u64, tools: bool) -> Self {
        const BYTES_PER_TOKEN: u64 = 4;
        let text = text_bytes.div_ceil(BYTES_PER_TOKEN).max(1);
        Self {
            tokens: text.saturating_add(media),
            error_p95: LENGTH_ERROR,
            media,
            tools,
            most: text_bytes.saturating_add(media),
            basis: Basis::Whole,
        }
    }

    /// Tokens that the input hardly exceeds.
    pub fn at_most(&self) -> u64 {
        self.tokens.saturating_add(self.margin())
    }

    /// Tokens to reserve for the input of a key that could not pay more than is reserved.
    pub fn to_reserve(&self) -> u64 {
        self.most.max(self.at_most())
    }

    /// Tokens that the input hardly falls short of: only more than a model's limit is a reason
    /// to refuse a request unasked.
    pub fn at_least(&self) -> u64 {
        self.tokens.saturating_sub(self.margin())
    }

    /// Adds the query of a rerank for each document after the first: most providers read it with each.
    fn with_query(self, body: Json<'_>, rules: &Rules) -> Self {
        let query = body.members().filter(|(key, _)| key == "query");
        let query = of_reading(&Reading::of(Format::Rerank, query, rules), rules);
        let further = body.elements_of("documents").skip(1).count() as u64;
        let repeated = |tokens: u64| {
            let tokens = tokens.saturating_sub(rules.constant.into());
            tokens.saturating_mul(further)
        };
        Self {
            tokens: self.tokens.saturating_add(repeated(query.tokens)),
            media: self
                .media
                .saturating_add(query.media.saturating_mul(further)),
            most: self.most.saturating_add(repeated(query.most)),
            ..self
        }
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
    let Ok(document) = json::parse(body) else {
        return by_length(body, rules);
    };
    let body = Json::of(&document);
    let count = of_reading(&Reading::of(format, body.members(), rules), rules);
    match format {
        Format::Rerank => count.with_query(body, rules),
        _ => count,
    }
}

fn of_reading(reading: &Reading<'_>, rules: &Rules) -> Count {
    let texts = reading.texts.iter().map(AsRef::as_ref);
    let sum = rules.vocabulary.count_all(texts, rules.exact_bytes);
    let Sum {
        tokens: tokens_of_text,
        error,
    } = sum;
    let texts = reading.texts.iter().map(AsRef::as_ref);
    let text = rules.tokens_of(texts, tokens_of_text);
    let (basis, wider) = match (error > 0.0, reading.assumed) {
        (true, _) => (Basis::Sample, round::error(error)),
        (false, true) => (Basis::Assumed, 0.0),
        (false, false) => (Basis::Whole, 0.0),
    };
    let assumed = if reading.assumed { ASSUMED_ERROR } else { 0.0 };
    let tokens = text
        .saturating_add(reading.framing)
        .saturating_add(reading.media);
    let counted = (basis != Basis::Sample).then_some(tokens_of_text);
    let texts = reading.texts.iter().map(AsRef::as_ref);
    let most = rules
        .most_of(texts, counted)
        .saturating_add(reading.framing)
        .saturating_add(reading.media)
        .saturating_add(reading.media_margin)
        .saturating_add(reading.uncounted)
        .saturating_add(error_tokens(rules, reading.tools).into());
    Count {
        tokens,
        error_p95: (expected_error(rules, tokens, reading.tools) + wider).max(assumed),
        media: reading.media,
        tools: reading.tools,
        most,
        basis,
    }
}

/// The family's error, as a part of this count.
fn expected_error(rules: &Rules, tokens: u64, tools: bool) -> f32 {
    let off = error_tokens(rules, tools);
    rules.error_p95 + round::ratio(off.into(), tokens.max(1))
}

/// By how many tokens the frame may be off, whatever stands in it.
const fn error_tokens(rules: &Rules, tools: bool) -> u32 {
    if tools {
        rules.tools_error_tokens
    } else {
        rules.error_tokens
    }
}

/// A body that is no JSON, or too dense to read: two bytes a token is what dense JSON makes.
fn by_length(body: &[u8], rules: &Rules) -> Count {
    const BYTES_PER_TOKEN: f64 = 2.0;
    let tokens = body.len() as f64 / BYTES_PER_TOKEN * f64::from(rules.text_factor);
    Count {
        tokens: round::up(tokens).saturating_add(rules.constant.into()),
        error_p95: LENGTH_ERROR,
        media: 0,
        tools: false,
        most: (body.len() as u64).saturating_add(rules.constant.into()),
        basis: Basis::Length,
    }
}

#[cfg(test)]
mod tests;
