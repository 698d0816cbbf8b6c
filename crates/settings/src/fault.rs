//! A fault in a configuration and the key path where it stands.

use std::{borrow::Cow, fmt, str::FromStr};

/// One step of a [`KeyPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// A key of a mapping.
    Key(String),
    /// A place in a list, from 0.
    Index(usize),
}

/// The way from the top of the configuration to one value, such as
/// `models.alpha-opus-5.deployments[0].provider`.
///
/// A key that itself holds a dot is quoted: `models."gamma-4.5".family`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPath(Vec<Segment>);

impl KeyPath {
    /// The top of the configuration.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// The path to `key` in the mapping at this path.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.with(Segment::Key(key.into()))
    }

    /// The path to place `index` of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    /// The path one step further.
    #[must_use]
    pub fn with(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.0.len().saturating_add(1));
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Self(segments)
    }

    /// The same path seen from further up: `prefix` comes first.
    #[must_use]
    pub fn under(&self, prefix: &Self) -> Self {
        Self(prefix.0.iter().chain(&self.0).cloned().collect())
    }

    /// The steps from the top.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// A fault at this path.
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        Fault {
            path: self.clone(),
            message: message.into(),
        }
    }
}

/// A text that is no key path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a key path such as server.listen[0].address")]
pub struct KeyPathError;

impl FromStr for KeyPath {
    type Err = KeyPathError;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, KeyPathError> {
        let mut path = Self::root();
        let mut rest = text;
        while !rest.is_empty() {
            let segment;
            (segment, rest) = if let Some(inside) = rest.strip_prefix('[') {
                let (index, rest) = inside.split_once(']').ok_or(KeyPathError)?;
                let index = index.parse().map_err(|_| KeyPathError)?;
                (Segment::Index(index), rest)
            } else if let Some(inside) = rest.strip_prefix('"') {
                let (key, rest) = inside.split_once('"').ok_or(KeyPathError)?;
                (Segment::Key(key.to_owned()), rest)
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (key, rest) = rest.split_at_checked(end).ok_or(KeyPathError)?;
                (Segment::Key(key.to_owned()), rest)
            };
            if segment == Segment::Key(String::new()) {
                return Err(KeyPathError);
            }
            path.0.push(segment);
            rest = match rest.strip_prefix('.') {
                Some("") => return Err(KeyPathError),
                Some(rest) => rest,
                None if rest.is_empty() || rest.starts_with('[') => rest,
                None => return Err(KeyPathError),
            };
        }
        Ok(path)
    }
}

impl FromIterator<Segment> for KeyPath {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        Self(segments.into_iter().collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    if place > 0 {
                        f.write_str(".")?;
                    }
                    if is_plain(key) {
                        f.write_str(key)?;
                    } else {
                        write!(f, "{key:?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    // What is escaped in quotes, invisible characters for one, would be misread without them.
    let is_visible = |c: char| c.escape_debug().len() == 1 || matches!(c, '\'' | '\\');
    !key.is_empty()
        && key
            .chars()
            .all(|c| is_visible(c) && !c.is_whitespace() && !matches!(c, '.' | '[' | ']'))
}

/// A fault of one value of a configuration. The message tells the operator the correct value and never
/// has a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it stands.
    pub path: KeyPath,
    /// The fault and its correction.
    pub message: String,
}

/// A message of serde in which the names of Rust's types are words that an operator knows.
pub fn without_rust_types(message: &str) -> Cow<'_, str> {
    let Some((given, expected)) = message.rsplit_once(", expected ") else {
        return Cow::Borrowed(message);
    };
    let end = expected.find(" at line ").unwrap_or(expected.len());
    let (expected, place) = expected.split_at(end);
    let plain = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a nonzero u8" => "a whole number from 1 to 255",
        "a nonzero u16" => "a whole number from 1 to 65535",
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        _ if expected.starts_with("a nonzero ") => "a whole number from 1",
        _ if expected.starts_with("struct ") => return format!("expected a mapping{place}").into(),
        _ => return Cow::Borrowed(message),
    };
    format!("{given}, expected {plain}{place}").into()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.segments().is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_it_would_be_typed_and_quotes_what_would_mislead() {
        let path = KeyPath::root()
            .key("models")
            .key("gamma-4.5")
            .key("deployments")
            .index(0)
            .key("provider");
        let fault = path.fault("no such provider");
        assert_eq!(
            fault.to_string(),
            r#"models."gamma-4.5".deployments[0].provider: no such provider"#
        );
    }

    #[test]
    fn a_message_names_no_type_of_rust() {
        for (message, plain) in [
            (
                "invalid type: floating point `1000.0`, expected u64",
                "invalid type: floating point `1000.0`, expected a whole number from 0",
            ),
            (
                "invalid value: integer `-1`, expected u16",
                "invalid value: integer `-1`, expected a whole number from 0 to 65535",
            ),
            (
                "invalid value: integer `0`, expected a nonzero u32 at line 1 column 9",
                "invalid value: integer `0`, expected a whole number from 1 to 4294967295 at line 1 column 9",
            ),
            (
                "invalid length 0, expected struct ExplainOrder with 4 elements at line 1 column 2",
                "expected a mapping at line 1 column 2",
            ),
            ("missing field `key`", "missing field `key`"),
            (
                "invalid type: null, expected a string",
                "invalid type: null, expected a string",
            ),
        ] {
            assert_eq!(without_rust_types(message), plain);
        }
    }

    #[test]
    fn a_path_is_read_as_it_is_written() {
        for text in [
            "",
            "a",
            "a.b",
            "a[0]",
            "a[0][12].b",
            r#"models."gamma-4.5".family"#,
        ] {
            let path: KeyPath = text.parse().unwrap();
            assert_eq!(path.to_string(), text);
        }
        for text in [".", "a.", ".a", "a..b", "a[", "a[x]", "a[0]b", "\"a"] {
            assert!(text.parse::<KeyPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_fault_of_the_whole_file_has_no_path_to_show() {
        assert_eq!(KeyPath::root().fault("empty").to_string(), "empty");
    }
}
