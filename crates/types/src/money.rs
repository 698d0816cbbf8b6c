//! Amounts of money.
//!
//! All amounts are in one currency, which the operator's prices imply.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// Decimal places of an amount.
const PLACES: usize = 9;

/// An amount of money in nano-units: billionths of the currency's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// No money.
    pub const ZERO: Self = Self(0);

    const PER_UNIT: u64 = 1_000_000_000;
    const EXPECTED: &'static str =
        "an amount from 0 to 999999999 with at most 9 decimal places, such as \"2.50\"";

    /// From nano-units.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In nano-units.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The rest beyond another amount.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Both amounts, at most the largest one.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// A text that is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMoney;

impl fmt::Display for InvalidMoney {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", Money::EXPECTED)
    }
}

impl std::error::Error for InvalidMoney {}

impl FromStr for Money {
    type Err = InvalidMoney;

    fn from_str(text: &str) -> Result<Self, InvalidMoney> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| {
            let is_number = (1..=PLACES).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().ok()).flatten()
        };
        let whole = digits(whole).ok_or(InvalidMoney)?;
        digits(part).ok_or(InvalidMoney)?;
        let part = format!("{part:0<PLACES$}").parse::<u64>();
        let nanos = part.map_err(|_| InvalidMoney)?;
        let units = whole.saturating_mul(Self::PER_UNIT);
        Ok(Self(units.saturating_add(nanos)))
    }
}

impl fmt::Display for Money {
    /// As a decimal number without trailing zeros: `0.0125`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, nanos) = (self.0 / Self::PER_UNIT, self.0 % Self::PER_UNIT);
        if nanos == 0 {
            return write!(f, "{units}");
        }
        let part = format!("{nanos:0PLACES$}");
        write!(f, "{units}.{}", part.trim_end_matches('0'))
    }
}

impl Serialize for Money {
    /// As text, because many programs lose precision in JSON numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;

        impl de::Visitor<'_> for Amount {
            type Value = Money;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Money::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Money, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Money, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Money, E> {
                self.visit_str(&number.to_string())
            }

            /// The shortest decimal number that reads as `number`: the one in the file.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Money, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Amount)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Money {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Money".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "title": "amount",
            "description": "An amount of money: a decimal number, as text or as a number.",
            "type": ["string", "number"],
            "minimum": 0,
            "maximum": 999_999_999,
            "pattern": "^[0-9]{1,9}([.][0-9]{1,9})?$",
            "x-expected": Self::EXPECTED,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    fn money(text: &str) -> Money {
        text.parse().expect("an amount")
    }

    #[test]
    fn amounts_are_read_without_loss_and_written_without_trailing_zeros() {
        for (value, nanos, written) in [
            (json!("2.50"), 2_500_000_000, "2.5"),
            (json!(2.5), 2_500_000_000, "2.5"),
            (json!(15), 15_000_000_000, "15"),
            (json!(0.0375), 37_500_000, "0.0375"),
            (json!(0.000_000_1), 100, "0.0000001"),
            (json!("0.000000001"), 1, "0.000000001"),
            (json!(0), 0, "0"),
            (json!("999999999"), 999_999_999_000_000_000, "999999999"),
        ] {
            let read: Money = from_value(value.clone()).expect("an amount");
            assert_eq!(read.nanos(), nanos, "{value}");
            assert_eq!(to_value(read).expect("text"), json!(written), "{value}");
            assert_eq!(money(written), read);
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for value in [
            json!("-1"),
            json!(-1),
            json!(-0.5),
            json!("1,5"),
            json!("1e3"),
            json!(".5"),
            json!("5."),
            json!(""),
            json!("0.0000000001"),
            json!(1e-10),
            json!("1000000000"),
            json!(1e300),
            json!(null),
        ] {
            let read = from_value::<Money>(value.clone());
            let fault = read.expect_err("no amount").to_string();
            assert!(
                fault.contains("at most 9 decimal places"),
                "{value}: {fault}"
            );
        }
    }
}
