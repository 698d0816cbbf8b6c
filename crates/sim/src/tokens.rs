//! How many tokens a text is, and what the pieces of a stream are.
//!
//! A token here is a word with the blank before it, cut every [`LONGEST`] bytes: near
//! enough to the real ones, and a stream of them adds up to the usage exactly.

use serde_json::Value;

/// The most bytes in one token.
const LONGEST: usize = 8;
/// What the framing of one message costs.
const PER_MESSAGE: u64 = 4;
/// What an image, a sound or a document costs, whatever its size.
const PER_MEDIUM: u64 = 250;
/// Fields whose strings are bytes for a decoder, never words for a model.
const OPAQUE: &[&str] = &[
    "data",
    "url",
    "image_url",
    "file_data",
    "file_url",
    "signature",
    "encrypted_content",
];

/// The tokens of a text, in order; together they are the text.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (token, left) = rest.split_at_checked(token_end(rest))?;
        rest = left;
        (!token.is_empty()).then_some(token)
    })
}

/// The start of a text, `most` bytes of it or a few less where a letter would be torn.
pub(crate) fn head(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    ends.take(4)
        .find_map(|end| text.get(..end))
        .unwrap_or_default()
}

pub(crate) fn count(text: &str) -> u64 {
    split(text).count() as u64
}

/// The first `limit` tokens of a text.
pub(crate) fn truncate(text: &str, limit: u64) -> &str {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let end = split(text).take(limit).map(str::len).sum();
    text.get(..end).unwrap_or(text)
}

fn token_end(text: &str) -> usize {
    let mut inside = false;
    for (at, letter) in text.char_indices() {
        if (inside && letter.is_whitespace()) || at >= LONGEST {
            return at;
        }
        inside |= !letter.is_whitespace();
    }
    text.len()
}

/// What a part of a request costs as input: four bytes of text a token, a fixed sum a
/// medium. An exact count would cost more than it is worth.
pub(crate) fn estimate(part: &Value) -> u64 {
    match part {
        Value::String(text) => (text.len() as u64).div_ceil(4),
        Value::Array(items) => items.iter().map(estimate).sum(),
        Value::Object(fields) => {
            let framing = if fields.contains_key("role") {
                PER_MESSAGE
            } else {
                0
            };
            let inside: u64 = fields
                .iter()
                .map(|(name, value)| estimate_field(name, value))
                .sum();
            framing + inside
        }
        Value::Number(_) => 1,
        Value::Bool(_) | Value::Null => 0,
    }
}

fn estimate_field(name: &str, value: &Value) -> u64 {
    match value {
        Value::String(_) if OPAQUE.contains(&name) => PER_MEDIUM,
        Value::String(_) if matches!(name, "type" | "role" | "id" | "cache_control") => 0,
        other => estimate(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tokens_of_a_text_are_the_text() {
        for text in [
            "",
            "a",
            " Hello  world,\nand  more ",
            "naïve-verylongwordwithoutblanks→→→→→",
            "   ",
        ] {
            assert_eq!(split(text).collect::<String>(), text);
            assert_eq!(truncate(text, count(text)), text);
        }
        assert_eq!(
            split("Hello big world").collect::<Vec<_>>(),
            ["Hello", " big", " world"]
        );
        assert_eq!(truncate("Hello big world", 2), "Hello big");
    }

    #[test]
    fn a_picture_is_not_counted_by_its_bytes() {
        let picture = json!({"type": "image_url", "image_url": {"url": "x".repeat(1 << 20)}});
        assert_eq!(estimate(&picture), PER_MEDIUM);
    }
}
