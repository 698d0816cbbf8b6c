//! A set of wire formats, small enough to copy.

use std::fmt;
use tollgate_types::Format;

/// The wire formats that a provider, a deployment or a model speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatSet(u8);

const _: () = assert!(Format::COUNT <= 8, "a set holds 8 formats");

impl FormatSet {
    /// No format.
    pub const EMPTY: Self = Self(0);

    const fn bit(format: Format) -> u8 {
        1 << format as u8
    }

    /// Whether `format` is in the set.
    pub const fn contains(self, format: Format) -> bool {
        self.0 & Self::bit(format) != 0
    }

    /// Whether the set holds nothing.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set with `format` in it.
    #[must_use]
    pub const fn with(self, format: Format) -> Self {
        Self(self.0 | Self::bit(format))
    }

    /// The formats of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The formats in it, in the order of [`Format::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Format> {
        Format::ALL
            .into_iter()
            .filter(move |format| self.contains(*format))
    }
}

impl FromIterator<Format> for FormatSet {
    fn from_iter<I: IntoIterator<Item = Format>>(formats: I) -> Self {
        formats.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for FormatSet {
    /// The names, as a message to a caller lists them: `chat, responses`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, format) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(format.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_lists_it_in_one_order() {
        let set: FormatSet = [Format::Messages, Format::Chat].into_iter().collect();
        assert!(set.contains(Format::Chat) && !set.contains(Format::Responses));
        assert_eq!(set.to_string(), "chat, messages");
        assert_eq!(FormatSet::EMPTY.to_string(), "");
    }
}
