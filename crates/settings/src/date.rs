//! Dates as people write them: `2026-12-01`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use time::{Date as CivilDate, format_description::BorrowedFormatItem, macros::format_description};

const FORM: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// A day; as a time, its beginning in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(CivilDate);

impl Date {
    const EXPECTED: &'static str = "a date such as 2026-12-01";

    /// The beginning of the day in UTC, in seconds since 1970.
    pub const fn unix_seconds(self) -> i64 {
        self.0.midnight().assume_utc().unix_timestamp()
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (year, month, day) = self.0.to_calendar_date();
        let month = u8::from(month);
        serializer.collect_str(&format_args!("{year:04}-{month:02}-{day:02}"))
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        CivilDate::parse(&text, FORM)
            .map(Self)
            .map_err(|_| de::Error::custom(format_args!("expected {}", Self::EXPECTED)))
    }
}

impl JsonSchema for Date {
    fn schema_name() -> Cow<'static, str> {
        "Date".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "date",
            "description": "A day in UTC.",
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            "x-expected": Self::EXPECTED,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn a_date_begins_at_midnight_in_utc() {
        let date: Date = from_value(json!("2026-12-01")).expect("a date");
        assert_eq!(date.unix_seconds(), 1_796_083_200);
        assert_eq!(to_value(date).expect("text"), json!("2026-12-01"));
        for bad in [
            "2026-13-01",
            "2026-02-30",
            "1 December",
            "",
            "2026-12-01T00:00:00Z",
        ] {
            let read = from_value::<Date>(json!(bad));
            assert!(read.is_err(), "{bad}");
        }
    }
}
