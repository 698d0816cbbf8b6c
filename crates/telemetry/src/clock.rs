//! The time as log lines carry it, at the price of a look at the clock.

use once_cell::sync::Lazy;
use std::cell::Cell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// A moment in the form of RFC 3339, in UTC and to the millisecond.
#[derive(Clone, Copy)]
pub struct Timestamp([u8; Timestamp::LEN]);

/// `2026-11-21T03:22:07`
type Second = [u8; Timestamp::SECOND_LEN];

impl Timestamp {
    const SECOND_LEN: usize = 19;
    const LEN: usize = Self::SECOND_LEN + 5;

    /// The moment that is so many milliseconds after the start of 1970.
    pub fn from_unix_ms(unix_ms: u64) -> Self {
        let mut text = [0; Self::LEN];
        let (second, rest) = text.split_at_mut(Self::SECOND_LEN);
        second.copy_from_slice(&second_text(unix_ms / 1000));
        let ms = unix_ms % 1000;
        let digit = |value: u64| b'0'.saturating_add(u8::try_from(value % 10).unwrap_or(0));
        rest.copy_from_slice(&[b'.', digit(ms / 100), digit(ms / 10), digit(ms), b'Z']);
        Self(text)
    }

    /// The moment as text.
    pub fn as_str(&self) -> &str {
        // Only ASCII is ever put in.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Now.
pub fn now() -> Timestamp {
    Timestamp::from_unix_ms(unix_ms())
}

/// Now, in milliseconds since the start of 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds of a clock that never goes back, since some moment before the first request.
pub fn steady_ms(at: Instant) -> u64 {
    static BEGAN: Lazy<Instant> = Lazy::new(Instant::now);
    // 0 stands for never.
    let since = at.saturating_duration_since(*BEGAN).as_millis();
    u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1)
}

/// The moment of the steady clock (as [`steady_ms`] gives them) as text.
pub fn at_steady_ms(at: u64) -> Timestamp {
    let ago = steady_ms(Instant::now()).saturating_sub(at);
    Timestamp::from_unix_ms(unix_ms().saturating_sub(ago))
}

/// The text of a second. Composing it costs more than all else in a log line, and it is
/// the same for thousands of them.
fn second_text(unix: u64) -> Second {
    thread_local! {
        static LAST: Cell<(u64, Second)> = const { Cell::new((u64::MAX, [b'?'; 19])) };
    }
    let (of, text) = LAST.get();
    if of == unix {
        return text;
    }
    let text = compose(unix);
    LAST.set((unix, text));
    text
}

fn compose(unix: u64) -> Second {
    let time = i64::try_from(unix)
        .ok()
        .and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    let Some(time) = time else {
        return [b'?'; Timestamp::SECOND_LEN];
    };
    let (date, clock) = (time.date(), time.time());
    let text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        date.year(),
        u8::from(date.month()),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    );
    text.as_bytes()
        .try_into()
        .unwrap_or([b'?'; Timestamp::SECOND_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_rfc_3339_says() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
            (1_790_000_000_120, "2026-09-21T14:13:20.120Z"),
            (u64::MAX, "???????????????????.615Z"),
        ] {
            assert_eq!(Timestamp::from_unix_ms(unix_ms).as_str(), text);
        }
    }
}
