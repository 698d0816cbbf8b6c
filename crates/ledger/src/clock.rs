//! Time as the ledger sees it: milliseconds since 1970, never running backwards
//! within one process, so that what has expired stays expired when an operator or
//! a time service steps the system's clock back.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// A point in time: milliseconds since 1970 in UTC, at most [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last millisecond of the year 9999, the last one that RFC 3339 can write.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// From milliseconds since 1970; later than [`Timestamp::MAX`] becomes that.
    pub const fn from_unix_ms(ms: u64) -> Self {
        if ms > Self::MAX.0 {
            Self::MAX
        } else {
            Self(ms)
        }
    }

    /// From RFC 3339 text such as `2026-12-31T23:59:59Z`.
    ///
    /// # Errors
    /// The text is no such time, or one before 1970.
    pub fn parse_rfc3339(text: &str) -> Result<Self, InvalidTimestamp> {
        let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| InvalidTimestamp)?;
        let ms = moment.unix_timestamp_nanos() / 1_000_000;
        u64::try_from(ms)
            .map(Self::from_unix_ms)
            .map_err(|_| InvalidTimestamp)
    }

    /// Milliseconds since 1970.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// This time and `span` more, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self::from_unix_ms(self.0.saturating_add(ms))
    }

    /// This time and `span` less, at least 1970.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(ms))
    }
}

/// Text that is no time of the form `2026-12-31T23:59:59Z`, 1970 or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time in the form 2026-12-31T23:59:59Z (RFC 3339)")]
pub struct InvalidTimestamp;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i128::from(self.0).saturating_mul(1_000_000);
        let text = OffsetDateTime::from_unix_timestamp_nanos(nanos)
            .ok()
            .and_then(|moment| moment.format(&Rfc3339).ok());
        f.write_str(text.as_deref().unwrap_or("-"))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// Where the time comes from: the system, or a test.
///
/// Clones share one clock.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
struct Source {
    /// The latest time that was ever told.
    latest_ms: AtomicU64,
    manual: bool,
    begun: Instant,
}

impl Clock {
    /// The system's clock, held still while it is behind what it told before.
    pub fn system() -> Self {
        Self(Arc::new(Source {
            latest_ms: AtomicU64::new(0),
            manual: false,
            begun: Instant::now(),
        }))
    }

    /// A clock that moves only by [`Clock::advance`].
    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Source {
            latest_ms: AtomicU64::new(start.0),
            manual: true,
            begun: Instant::now(),
        }))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        if self.0.manual {
            return Timestamp::from_unix_ms(self.0.latest_ms.load(Ordering::Relaxed));
        }
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_unix_ms(self.not_before(ms))
    }

    /// Milliseconds since some moment, for what flows with time: they pass however the
    /// system's clock is set.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        if self.0.manual {
            return self.0.latest_ms.load(Ordering::Relaxed);
        }
        u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Moves a manual clock; the system's clock moves by itself.
    pub fn advance(&self, span: Duration) {
        let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        if self.0.manual {
            self.0.latest_ms.fetch_add(ms, Ordering::Relaxed);
        }
    }

    /// The later of `ms` and the latest time told. Reads far more often than it
    /// writes: at most once a millisecond.
    fn not_before(&self, ms: u64) -> u64 {
        let latest = self.0.latest_ms.load(Ordering::Relaxed);
        if ms > latest {
            self.0.latest_ms.fetch_max(ms, Ordering::Relaxed);
        }
        ms.max(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_it_is_read() {
        for text in ["2026-12-31T23:59:59Z", "1970-01-01T00:00:00Z"] {
            let time = Timestamp::parse_rfc3339(text).unwrap();
            assert_eq!(time.to_string(), text);
        }
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
        for text in ["", "tomorrow", "2026-12-31", "1969-12-31T23:59:59Z"] {
            assert_eq!(
                Timestamp::parse_rfc3339(text),
                Err(InvalidTimestamp),
                "{text}"
            );
        }
    }

    #[test]
    fn a_clock_that_steps_back_is_held_still() {
        let clock = Clock::system();
        let ahead = clock.now().unix_ms() + 3_600_000;
        assert_eq!(clock.not_before(ahead), ahead);
        assert_eq!(clock.now().unix_ms(), ahead);
        // Time itself passes all the same.
        let begun = (Instant::now(), clock.elapsed_ms());
        while clock.elapsed_ms() == begun.1 {
            assert!(begun.0.elapsed() < Duration::from_secs(10));
        }
        assert_eq!(clock.now().unix_ms(), ahead);
    }
}
