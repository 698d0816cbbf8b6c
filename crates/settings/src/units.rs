//! Durations, sizes and token counts as people write them: `200ms`, `32MiB`, `10M`.
//!
//! Each is one number and one unit. The text form is checked by the same pattern in
//! the JSON Schema and here, so that an editor and the gateway agree.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, num::NonZeroU32, str::FromStr};

/// The reason why a text is no duration, size or token count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct UnitError(&'static str);

/// Splits `200ms` into 200 and `ms`. At most nine digits, no sign, no leading zero.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    if digits.len() > 9 || digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, unit))
}

/// The largest of `units` (largest first) that divides `value`, where the number before
/// it is short enough to be read back.
fn largest_unit(value: u64, units: &[(&'static str, u64)]) -> Option<(u64, &'static str)> {
    units
        .iter()
        .find(|(_, size)| value.is_multiple_of(*size))
        .and_then(|(name, size)| Some((value.checked_div(*size)?, *name)))
        .filter(|(number, _)| (1..1_000_000_000).contains(number))
}

fn scale(text: &str, units: &[(&'static str, u64)]) -> Option<u64> {
    let (number, unit) = split(text)?;
    let (_, size) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*size)
}

/// A span of time: a whole number with `ms`, `s`, `m`, `h` or `d`. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(std::time::Duration);

impl Duration {
    const EXPECTED: &'static str = "a duration such as 200ms, 5s, 10m, 2h or 1d";
    const UNITS: [(&'static str, u64); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];

    /// This many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(std::time::Duration::from_millis(millis))
    }

    /// This many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(std::time::Duration::from_secs(secs))
    }

    /// The span as the standard library has it.
    pub const fn get(self) -> std::time::Duration {
        self.0
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        scale(text, &Self::UNITS)
            .map(Self::from_millis)
            .ok_or(UnitError(Self::EXPECTED))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        match largest_unit(millis, &Self::UNITS) {
            Some((number, unit)) => write!(f, "{number}{unit}"),
            None => write!(f, "{millis}ms"),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'_, str>::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "duration",
            "description": "A whole number with a unit: ms, s, m, h or d.",
            "type": "string",
            "pattern": "^[1-9][0-9]{0,8}(ms|s|m|h|d)$",
            "x-expected": Self::EXPECTED,
        })
    }
}

/// A number that may stand in a file as itself or as a text with a unit.
struct NumberOrText {
    parse: fn(&str) -> Option<u64>,
    expected: &'static str,
}

impl de::Visitor<'_> for NumberOrText {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        (self.parse)(text).ok_or_else(|| E::custom(UnitError(self.expected)))
    }
}

macro_rules! counted {
    ($(#[$doc:meta])* $name:ident, $title:literal, $expected:literal, $pattern:literal, $about:literal, [$($unit:literal = $size:expr),*]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            const EXPECTED: &'static str = $expected;
            /// Largest first.
            const UNITS: &'static [(&'static str, u64)] = &[$(($unit, $size)),*];

            /// Wraps a plain number.
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The plain number.
            pub const fn get(self) -> u64 {
                self.0
            }

            fn parse_text(text: &str) -> Option<u64> {
                scale(text, Self::UNITS)
            }
        }

        impl FromStr for $name {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                Self::parse_text(text).map(Self).ok_or(UnitError(Self::EXPECTED))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match largest_unit(self.0, Self::UNITS) {
                    Some((number, unit)) => write!(f, "{number}{unit}"),
                    _ => write!(f, "{}", self.0),
                }
            }
        }

        impl Serialize for $name {
            /// As text where a unit fits, otherwise as a number: what the schema accepts back.
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text = self.to_string();
                if text.ends_with(|c: char| c.is_ascii_digit()) {
                    return serializer.serialize_u64(self.0);
                }
                serializer.serialize_str(&text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let visitor = NumberOrText { parse: Self::parse_text, expected: Self::EXPECTED };
                deserializer.deserialize_any(visitor).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "title": $title,
                    "description": $about,
                    "type": ["integer", "string"],
                    "minimum": 0,
                    "maximum": u64::MAX,
                    "pattern": $pattern,
                    "x-expected": Self::EXPECTED,
                })
            }
        }
    };
}

counted!(
    /// A size in bytes: a number, or one with `KiB`, `MiB`, `GiB` (powers of 1024) or
    /// `kB`, `MB`, `GB` (powers of 1000).
    ByteSize,
    "size",
    "a size in bytes such as 4096, 64KiB or 32MiB",
    "^[1-9][0-9]{0,8}(B|kB|MB|GB|KiB|MiB|GiB)$",
    "Bytes: a whole number, alone or with kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024).",
    [
        "GiB" = 1 << 30,
        "GB" = 1_000_000_000,
        "MiB" = 1 << 20,
        "MB" = 1_000_000,
        "KiB" = 1 << 10,
        "kB" = 1000,
        "B" = 1
    ]
);

counted!(
    /// A number of tokens: a number, or one with `k`, `M` or `G` (powers of 1000).
    TokenCount,
    "tokens",
    "a number of tokens such as 4096, 200k or 10M",
    "^[1-9][0-9]{0,8}(k|M|G)$",
    "Tokens: a whole number, alone or with k, M or G (powers of 1000).",
    ["G" = 1_000_000_000, "M" = 1_000_000, "k" = 1000]
);

impl TokenCount {
    /// What [`Self::a_minute`] takes.
    pub const A_MINUTE: &'static str = "must be from 1 to 4294967295; leave it out for no limit";

    /// As a limit per minute. `None`: it is zero, or beyond what a limit can be.
    pub fn a_minute(self) -> Option<NonZeroU32> {
        u32::try_from(self.0).ok().and_then(NonZeroU32::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn durations_are_read_with_each_unit_and_written_with_the_largest() {
        for (text, millis, written) in [
            ("200ms", 200, "200ms"),
            ("5s", 5000, "5s"),
            ("120s", 120_000, "2m"),
            ("90m", 5_400_000, "90m"),
            ("2h", 7_200_000, "2h"),
            ("1d", 86_400_000, "1d"),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(duration.to_string(), written, "{text}");
        }
    }

    #[test]
    fn sizes_and_counts_are_read_as_numbers_and_with_units() {
        for (value, bytes) in [
            (json!(4096), 4096),
            (json!("512B"), 512),
            (json!("64KiB"), 65_536),
            (json!("32MiB"), 33_554_432),
            (json!("2GB"), 2_000_000_000),
        ] {
            assert_eq!(from_value::<ByteSize>(value).unwrap().get(), bytes);
        }
        for (value, tokens) in [
            (json!(128), 128),
            (json!("200k"), 200_000),
            (json!("10M"), 10_000_000),
        ] {
            assert_eq!(from_value::<TokenCount>(value).unwrap().get(), tokens);
        }
    }

    #[test]
    fn a_written_value_is_read_back_as_the_same() {
        for bytes in [0, 1, 1000, 1024, 65_536, 1_000_000, 33_554_432, u64::MAX] {
            let size = ByteSize::new(bytes);
            let back: ByteSize = from_value(to_value(size).unwrap()).unwrap();
            assert_eq!(back, size);
        }
        for tokens in [0, 1, 999, 4096, 200_000, 1_000_000, 2_000_000_000] {
            let count = TokenCount::new(tokens);
            let back: TokenCount = from_value(to_value(count).unwrap()).unwrap();
            assert_eq!(back, count);
        }
    }

    #[test]
    fn values_without_one_number_and_one_unit_are_refused_with_the_right_form() {
        for text in [
            "",
            "5",
            "s",
            "0s",
            "05s",
            "-1s",
            "1.5s",
            "5 s",
            "5S",
            "1h30m",
            "5µs",
            "9999999999s",
            "١s",
        ] {
            let fault = text.parse::<Duration>().unwrap_err();
            assert_eq!(
                fault.to_string(),
                "expected a duration such as 200ms, 5s, 10m, 2h or 1d",
                "{text}"
            );
        }
        for value in [
            json!(-1),
            json!(1.5),
            json!("1.5M"),
            json!("10mb"),
            json!(true),
            json!("7"),
        ] {
            assert!(from_value::<ByteSize>(value.clone()).is_err(), "{value}");
            assert!(from_value::<TokenCount>(value.clone()).is_err(), "{value}");
        }
    }
}
