//! Seals in signatures of Gemini: base64, because its SDKs decode signatures, of one line for each
//! piece of reasoning. A line has the seal and the text of the reasoning as a JSON string: clients
//! leave texts of thoughts out of the history, and some providers need them back.

use crate::seal::is_sealed;
use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use tollgate_wire::peek::{ENCODED_SEAL_TAG, SEAL_TAG};

/// Some SDKs write base64 in the alphabet of URLs, or without padding.
const EITHER: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// The longest signature that is decoded, in bytes. Decoding takes a multiple of its length in
/// memory, which is not reserved.
const LONGEST: usize = 4 * 1024 * 1024;

/// The line of a signature that seals nothing. It marks the calls of other models: a Gemini model gets a
/// signature that it accepts in its place.
pub(crate) const NOTHING: &str = SEAL_TAG;

/// A piece of reasoning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SealedThought {
    pub(crate) state: String,
    pub(crate) text: String,
}

/// Appends a piece of reasoning to those that one signature holds.
pub(crate) fn append(lines: &mut String, state: &str, text: &str) {
    lines.push_str(state);
    lines.push(' ');
    lines.push_str(&serde_json::to_string(text).unwrap_or_default());
    lines.push('\n');
}

/// The signature of some lines.
pub(crate) fn encode(lines: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(lines)
}

/// The reasoning in a signature; `None` if the gateway has not made it.
pub(crate) fn decode(signature: &str) -> Option<Vec<SealedThought>> {
    if !signature.starts_with(ENCODED_SEAL_TAG) || signature.len() > LONGEST {
        return None;
    }
    let alphabet = match signature.contains(['-', '_']) {
        true => URL_SAFE,
        false => STANDARD,
    };
    let bytes = GeneralPurpose::new(&alphabet, EITHER)
        .decode(signature)
        .ok()?;
    let lines = String::from_utf8(bytes).ok()?;
    let thought = |line: &str| {
        let (state, text) = line.split_once(' ')?;
        Some(SealedThought {
            state: is_sealed(state).then(|| state.to_owned())?,
            text: serde_json::from_str(text).ok()?,
        })
    };
    let lines = lines.lines().filter(|line| *line != NOTHING);
    lines.map(thought).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_survive_both_alphabets_and_lost_padding() {
        let mut lines = String::new();
        append(&mut lines, "tg1.AAAA", "so \"ÿÿ?\"\n and on ~~~");
        append(&mut lines, "tg1.BB", "");
        let signature = encode(&lines);
        assert!(signature.starts_with(ENCODED_SEAL_TAG));
        let thoughts = decode(&signature).expect("seals");
        assert_eq!(thoughts.len(), 2);
        assert_eq!(thoughts[0].text, "so \"ÿÿ?\"\n and on ~~~");
        assert_eq!(
            (thoughts[1].state.as_str(), thoughts[1].text.as_str()),
            ("tg1.BB", "")
        );
        let other = signature.replace('+', "-").replace('/', "_");
        let other = other.trim_end_matches('=');
        assert_eq!(decode(other), Some(thoughts));
        assert_eq!(decode(&encode(NOTHING)), Some(Vec::new()));
        for foreign in [
            "",
            "CiQB",
            "dGcx",
            "dGcx!",
            "dGcxLnh4",
            "skip_thought_signature_validator",
        ] {
            assert_eq!(decode(foreign), None, "{foreign}");
        }
    }
}
