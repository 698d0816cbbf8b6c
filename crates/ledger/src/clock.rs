//! The ledger's time in milliseconds since 1970. It never runs backwards within a process, so that expired
//! grants stay expired if the system clock is set back. It does not follow a short jump ahead, so that a clock
//! error expires nothing; `trust` decides.

mod trust;

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
use time::{
    OffsetDateTime, format_description::BorrowedFormatItem,
    format_description::well_known::Rfc3339, macros::format_description,
};
use tollgate_types::RequestId;
use trust::Trust;

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

    /// When a request came.
    pub(crate) fn of_request(request: &RequestId) -> Self {
        let since_1970 = request.time().duration_since(UNIX_EPOCH);
        Self::from_unix_ms(0).plus(since_1970.unwrap_or_default())
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

/// RFC 3339 with milliseconds, also where they are zero: all times have one length and sort as text.
const WITH_MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i128::from(self.0).saturating_mul(1_000_000);
        let text = OffsetDateTime::from_unix_timestamp_nanos(nanos)
            .ok()
            .and_then(|moment| moment.format(WITH_MILLISECONDS).ok());
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
    /// The latest time that was ever returned.
    latest_ms: AtomicU64,
    time_source: TimeSource,
}

#[derive(Debug)]
enum TimeSource {
    /// The system clock, as far as it is trusted.
    System { begun: Instant, trust: Trust },
    /// Moved by a test.
    Manual,
    /// A system that a test simulates: its clock, and the elapsed time.
    #[cfg(test)]
    Simulated {
        wall_ms: AtomicU64,
        steady_ms: AtomicU64,
        trust: Trust,
    },
}

/// The system time in milliseconds since 1970.
fn wall_ms() -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Clock {
    /// The system clock. It stands still while it is behind its last value, and follows a jump ahead only
    /// after a minute.
    pub fn system() -> Self {
        let time_source = TimeSource::System {
            begun: Instant::now(),
            trust: Trust::beginning_at(wall_ms()),
        };
        Self::new(0, time_source)
    }

    /// A clock that moves only by [`Clock::advance`].
    pub fn manual(start: Timestamp) -> Self {
        Self::new(start.0, TimeSource::Manual)
    }

    fn new(latest_ms: u64, time_source: TimeSource) -> Self {
        let latest_ms = AtomicU64::new(latest_ms);
        Self(Arc::new(Source {
            latest_ms,
            time_source,
        }))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        let ms = match &self.0.time_source {
            TimeSource::System { begun, trust } => {
                let steady = millis(begun.elapsed());
                self.not_before(trust.check(wall_ms(), steady))
            }
            TimeSource::Manual => self.0.latest_ms.load(Ordering::Relaxed),
            #[cfg(test)]
            TimeSource::Simulated {
                wall_ms,
                steady_ms,
                trust,
            } => {
                let wall = wall_ms.load(Ordering::Relaxed);
                self.not_before(trust.check(wall, steady_ms.load(Ordering::Relaxed)))
            }
        };
        Timestamp::from_unix_ms(ms)
    }

    /// Milliseconds of the monotonic clock, for rates and waits.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        match &self.0.time_source {
            TimeSource::System { begun, .. } => millis(begun.elapsed()),
            TimeSource::Manual => self.0.latest_ms.load(Ordering::Relaxed),
            #[cfg(test)]
            TimeSource::Simulated { steady_ms, .. } => steady_ms.load(Ordering::Relaxed),
        }
    }

    /// Moves a manual clock; the system's clock moves by itself.
    pub fn advance(&self, span: Duration) {
        if matches!(self.0.time_source, TimeSource::Manual) {
            self.0.latest_ms.fetch_add(millis(span), Ordering::Relaxed);
        }
    }

    /// A system's clock that a test simulates.
    #[cfg(test)]
    pub(crate) fn simulated(start: Timestamp) -> Self {
        let time_source = TimeSource::Simulated {
            wall_ms: AtomicU64::new(start.0),
            steady_ms: AtomicU64::new(0),
            trust: Trust::beginning_at(start.0),
        };
        Self::new(0, time_source)
    }

    /// Advances the simulated time, then sets the simulated system clock ahead or back.
    #[cfg(test)]
    pub(crate) fn simulate(&self, passes: Duration, step_ms: i64) {
        let TimeSource::Simulated {
            wall_ms, steady_ms, ..
        } = &self.0.time_source
        else {
            panic!("not simulated");
        };
        steady_ms.fetch_add(millis(passes), Ordering::Relaxed);
        wall_ms.fetch_add(millis(passes), Ordering::Relaxed);
        let wall = wall_ms.load(Ordering::Relaxed);
        wall_ms.store(wall.saturating_add_signed(step_ms), Ordering::Relaxed);
    }

    /// The later of `ms` and the latest time returned. Reads far more often than it
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
        for text in ["2026-12-31T23:59:59.000Z", "1970-01-01T00:00:00.020Z"] {
            let time = Timestamp::parse_rfc3339(text).unwrap();
            assert_eq!(time.to_string(), text);
        }
        let whole = Timestamp::parse_rfc3339("2026-12-31T23:59:59Z").unwrap();
        assert_eq!(whole.to_string(), "2026-12-31T23:59:59.000Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
        for text in ["", "tomorrow", "2026-12-31", "1969-12-31T23:59:59Z"] {
            assert_eq!(
                Timestamp::parse_rfc3339(text),
                Err(InvalidTimestamp),
                "{text}"
            );
        }
    }

    const HOUR: i64 = 3_600_000;

    fn simulated() -> Clock {
        let clock = Clock::simulated(Timestamp::from_unix_ms(1_790_000_000_000));
        clock.now();
        clock
    }

    /// How far the time has come since the beginning of [`simulated`].
    fn since(clock: &Clock) -> u64 {
        clock.now().unix_ms() - 1_790_000_000_000
    }

    #[test]
    fn a_clock_that_steps_back_is_held_still() {
        let clock = simulated();
        clock.simulate(Duration::from_secs(1), 0);
        assert_eq!(since(&clock), 1000);
        clock.simulate(Duration::from_secs(1), -HOUR);
        assert_eq!(since(&clock), 2000, "a moment's mistake");
        for _ in 1..60 {
            clock.simulate(Duration::from_secs(60), 0);
            assert_eq!(since(&clock), 2000);
        }
        // Time itself passes all the same.
        assert_eq!(clock.elapsed_ms(), 2000 + 59 * 60_000);
        clock.simulate(Duration::from_secs(61), 0);
        assert_eq!(since(&clock), 3000, "as soon as it is where it was");
    }

    #[test]
    fn a_short_leap_ahead_is_never_shown() {
        for leap in [3_000, HOUR, 24 * HOUR, 365 * 24 * HOUR] {
            let clock = simulated();
            clock.simulate(Duration::from_secs(10), leap);
            for second in 0..50 {
                assert_eq!(since(&clock), 10_000 + second * 1000, "{leap}");
                clock.simulate(Duration::from_secs(1), 0);
            }
            clock.simulate(Duration::ZERO, -leap);
            assert_eq!(since(&clock), 60_000, "{leap}");
            // A second jump, at the time when the first would have counted.
            clock.simulate(Duration::from_secs(30), leap);
            assert_eq!(since(&clock), 90_000, "{leap}");
            clock.simulate(Duration::from_secs(5), -leap);
            assert_eq!(since(&clock), 95_000, "{leap}");
        }
    }

    #[test]
    fn a_leap_ahead_that_lasts_counts_after_a_minute() {
        // As after a machine has slept.
        let clock = simulated();
        clock.simulate(Duration::from_secs(10), HOUR);
        assert_eq!(since(&clock), 10_000);
        clock.simulate(Duration::from_secs(59), 0);
        assert_eq!(since(&clock), 69_000);
        clock.simulate(Duration::from_secs(2), 0);
        assert_eq!(since(&clock), 71_000 + HOUR.unsigned_abs());
        clock.simulate(Duration::from_secs(1), 0);
        assert_eq!(since(&clock), 72_000 + HOUR.unsigned_abs());
    }

    #[test]
    fn small_corrections_are_followed_at_once() {
        let clock = simulated();
        let mut expected = 0;
        for _ in 0..100 {
            clock.simulate(Duration::from_secs(60), 500);
            expected += 60_500;
            assert_eq!(since(&clock), expected);
        }
    }

    #[test]
    fn the_systems_clock_goes_with_the_system() {
        let clock = Clock::system();
        let begun = (Instant::now(), clock.now(), clock.elapsed_ms());
        while clock.elapsed_ms() == begun.2 {
            assert!(begun.0.elapsed() < Duration::from_secs(10));
        }
        assert!(clock.now() > begun.1);
    }
}
