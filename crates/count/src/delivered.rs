//! How many tokens an answer has whose provider has reported none, by a sample of its text.

use crate::{Rules, round};

/// The tokens of a text of `bytes` bytes of which this is a sample: the rest of it is taken to be
/// like the sample, and four bytes a token if that is empty.
///
/// Takes as long as counting the sample.
pub fn tokens_of_sample(sample: &str, bytes: u64, rules: &Rules) -> u64 {
    const BYTES_PER_TOKEN: f64 = 4.0;
    let factor = f64::from(rules.text_factor);
    let known = sample.len() as u64;
    if known == 0 {
        return round::up(bytes as f64 / BYTES_PER_TOKEN * factor);
    }
    let samples = bytes.max(known) as f64 / known as f64;
    round::nearest(rules.vocabulary.count(sample) as f64 * factor * samples)
}

#[cfg(test)]
mod tests;
