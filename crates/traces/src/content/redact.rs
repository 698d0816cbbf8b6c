//! Replaces what must not leave in a text: by patterns, so that it finds no names and no meanings.

use regex::Regex;
use serde_json::Value;
use std::borrow::Cow;

const REDACTED: &str = "[redacted]";

/// Longer words are data, such as a picture, and no text.
const LONGEST_WORD: usize = 1024;

/// The patterns that are always replaced.
const PATTERNS: [&str; 16] = [
    // Private keys, also those whose end is missing.
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    // Addresses with passwords.
    r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:[^\s/@]+@",
    // E-mail addresses.
    r"[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+",
    // Tokens: JSON web tokens, bearer tokens, keys of well-known services and of this gateway.
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?",
    r"(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{12,}",
    // A name and a password in base64, which has capitals and digits within a word.
    r"(?i:\bbasic\s+)[A-Za-z0-9+/_-]*(?:[a-z][A-Z]|[A-Za-z][0-9])[A-Za-z0-9+/_-]{7,}=*",
    r"\b(?:sk|pk|rk|xox[abeprs]|glpat)-[A-Za-z0-9_-]{12,}",
    r"\b(?:sk|pk|rk|gh[opsur]|github_pat|hf|npm)_[A-Za-z0-9_-]{12,}",
    r"\b(?:(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,})",
    // Account numbers (IBAN), numbers as long as those of cards, phone numbers.
    r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
    r"\b\d(?:[ \u{a0}-]{0,2}\d){12,18}\b",
    r"\b\d{4}\.\d{4,6}\.\d{4,5}(?:\.\d{1,7})?\b",
    r"\+\d(?:[ \u{a0}().-]{0,2}\d){7,14}\b",
    // National phone numbers: an area in parentheses, three groups, or a zero in front.
    r"\(\d{2,5}\)[ \u{a0}]?\d{3,4}[ \u{a0}.-]?\d{3,4}\b",
    r"\b\d{3}[.-]\d{3}[.-]\d{4}\b",
    r"\b0[1-9]\d{1,3}[ \u{a0}/-](?:\d{3,4}[ \u{a0}-]\d{4}|\d{5,8})\b",
];

pub(super) struct Redaction(Vec<Regex>);

impl Redaction {
    /// The usual patterns and these.
    pub(super) fn of(more: &[String]) -> Result<Self, regex::Error> {
        let patterns = PATTERNS.into_iter().chain(more.iter().map(String::as_str));
        patterns.map(Regex::new).collect::<Result<_, _>>().map(Self)
    }

    /// Redacts every text in a value.
    pub(super) fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redacted(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply(value)),
            Value::Object(members) => {
                let redacted = |(name, mut value): (String, Value)| {
                    self.apply(&mut value);
                    (self.redacted(&name), value)
                };
                *members = std::mem::take(members).into_iter().map(redacted).collect();
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.redacted(&text) != text {
                    *value = Value::String(REDACTED.to_owned());
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn redacted(&self, text: &str) -> String {
        let mut text = without_data(text);
        for pattern in &self.0 {
            if let Cow::Owned(replaced) = pattern.replace_all(&text, REDACTED) {
                text = Cow::Owned(replaced);
            }
        }
        text.into_owned()
    }
}

/// Replaces words that are data by their length.
fn without_data(text: &str) -> Cow<'_, str> {
    let is_data = |word: &&str| word.len() > LONGEST_WORD && word.is_ascii();
    if !text.split_ascii_whitespace().any(|word| is_data(&word)) {
        return Cow::Borrowed(text);
    }
    let pieces = text.split_inclusive(|c: char| c.is_ascii_whitespace());
    let replaced = pieces.map(|piece| {
        let word = piece.trim_ascii_end();
        match is_data(&word) {
            true => Cow::Owned(format!(
                "[{} bytes]{}",
                word.len(),
                piece.get(word.len()..).unwrap_or_default()
            )),
            false => Cow::Borrowed(piece),
        }
    });
    Cow::Owned(replaced.collect())
}
