//! What the path of a request says, in formats that keep the model and the choice of a stream there.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// What an address says about its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The model.
    pub model: Option<String>,
    /// Whether the answer is a stream.
    pub stream: Option<bool>,
}

/// A path and query of the configuration with the model in place of each `{model}`, percent-encoded.
/// `None` if the name is empty or a part of it is a step of a path (`.` or `..`): a proxy that decodes
/// `%2F` before it resolves steps would leave the model's place.
pub fn with_model(template: &str, model: &str) -> Option<String> {
    let mut parts = model.split(['/', '\\']);
    let has_step = parts.any(|part| matches!(part, "." | ".."));
    let can_stand = !model.is_empty() && !has_step;
    can_stand.then(|| template.replace("{model}", &encode(model)))
}

/// Percent-encodes a value, so that it stays within its part of a path or a query.
fn encode(value: &str) -> Cow<'_, str> {
    /// All but what RFC 3986 calls unreserved.
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(value, RESERVED).into()
}

/// Decodes the percent-escapes of a part of a path. `None` if one is incomplete, or if the bytes are
/// not UTF-8.
pub fn decode(value: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'%' => {
                let (&[high, low], after) = rest.split_first_chunk::<2>()?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(high)? << 4 | digit(low)?).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::with_model;

    #[test]
    fn a_model_stays_within_its_part_of_the_path() {
        let path = |model| with_model("/d/{model}/chat?v=1&m={model}", model);
        let expected = "/d/a%2Fb%20c%3F%23%25/chat?v=1&m=a%2Fb%20c%3F%23%25";
        assert_eq!(path("a/b c?#%").as_deref(), Some(expected));
        assert_eq!(
            path("gpt-4.1_x~").as_deref(),
            Some("/d/gpt-4.1_x~/chat?v=1&m=gpt-4.1_x~")
        );
        for model in ["", ".", "..", "a/../b", "../a", "a/.", "a\\..\\b"] {
            assert_eq!(path(model), None, "{model}");
        }
        assert!(path("a..b/...").is_some());
    }
}
