//! Text as it stands in JSON: between its quotes, escapes included.
//!
//! Decides nothing. All three formats write strings by the same rules, so that what a provider
//! wrote can be copied as it is; only names and sealed blobs are ever unescaped.

use crate::answer::json::Raw;
use serde::{Deserialize, Deserializer, de::Error};
use std::borrow::Cow;
use tollgate_wire::json;

/// The contents of a JSON string as they were written. It holds no line end, so it can stand
/// in a line of an event stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawText<'a>(&'a str);

impl<'a> RawText<'a> {
    /// The contents of a value, where it is a string.
    pub(crate) fn of(value: Raw<'a>) -> Option<Self> {
        let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
        Some(Self(inner))
    }

    /// Contents that are escaped already, or need no escape.
    pub(crate) const fn escaped(contents: &'a str) -> Self {
        Self(contents)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The contents as they were written.
    pub(crate) const fn as_str(self) -> &'a str {
        self.0
    }

    /// The unescaped contents.
    pub(crate) fn unescape(self) -> Cow<'a, str> {
        if !self.0.contains('\\') {
            return Cow::Borrowed(self.0);
        }
        Cow::Owned(json::unescape(self.0.as_bytes(), usize::MAX))
    }

    /// How many characters the contents mean.
    pub(crate) fn chars(self) -> u64 {
        let text = self.unescape();
        u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Raw::deserialize(deserializer)?;
        Self::of(value).ok_or_else(|| D::Error::custom("expected a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::json::read;
    use proptest::prelude::*;

    #[test]
    fn half_a_pair_means_the_replacement_character() {
        for (written, meant) in [
            (r"\ud83d", "\u{fffd}"),
            (r"a\ude00b", "a\u{fffd}b"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\ud83dx", "\u{fffd}x"),
        ] {
            assert_eq!(RawText::escaped(written).unescape(), meant);
        }
    }

    proptest! {
        #[test]
        fn contents_mean_what_another_reader_reads(text in ".{0,40}", ascii in any::<bool>()) {
            let mut written = serde_json::to_string(&text).unwrap();
            if ascii {
                let mut units = [0; 2];
                written = written.chars().map(|c| match c {
                    ' '..='~' => c.to_string(),
                    _ => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
                }).collect();
            }
            let raw: RawText<'_> = read(&written).unwrap();
            prop_assert_eq!(raw.unescape(), text.as_str());
            prop_assert_eq!(raw.chars(), text.chars().count() as u64);
        }
    }
}
