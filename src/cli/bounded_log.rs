//! The log, with a bound on the lines that clients without a key can cause: Pingora logs each failed
//! handshake, and every client that reaches the port can cause one per connection.
//!
//! Ten such lines are logged in ten seconds, and then the number of the suppressed ones. All are counted.

use log::{Log, Metadata, Record};
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tollgate_telemetry::events;

/// How many lines of a kind are logged in each [`WHILE`].
const MOST: u32 = 10;
/// After how long the count begins anew.
const WHILE: Duration = Duration::from_secs(10);

/// A log that Pingora cannot fill.
pub(super) struct Bounded<L> {
    log: L,
    handshakes: Mutex<Allowance>,
    others: Mutex<Allowance>,
}

/// Lines of one kind.
#[derive(Default)]
struct Allowance {
    began: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Suppress,
    /// It is logged, after so many that were suppressed.
    Log(u64),
}

impl Allowance {
    fn take(&mut self, now: Instant) -> Fate {
        let is_over = |began: Instant| now.saturating_duration_since(began) >= WHILE;
        if self.began.is_none_or(is_over) {
            self.began = Some(now);
            self.logged = 0;
        }
        if self.logged >= MOST {
            self.suppressed = self.suppressed.saturating_add(1);
            return Fate::Suppress;
        }
        self.logged = self.logged.saturating_add(1);
        Fate::Log(std::mem::take(&mut self.suppressed))
    }
}

impl<L: Log> Bounded<L> {
    pub(super) fn new(log: L) -> Self {
        Self {
            log,
            handshakes: Mutex::default(),
            others: Mutex::default(),
        }
    }

    /// Whether a line that Pingora writes is logged.
    fn may_tell(&self, record: &Record<'_>) -> bool {
        let is_handshake = is_handshake(record);
        let allowance = match is_handshake {
            true => &self.handshakes,
            false => &self.others,
        };
        let fate = allowance.lock().take(Instant::now());
        match fate {
            Fate::Suppress => false,
            Fate::Log(0) => true,
            Fate::Log(suppressed) => {
                let what = match is_handshake {
                    true => "handshakes that failed",
                    false => "lines of the proxy",
                };
                log::warn!("{suppressed} {what} were not logged one by one");
                true
            }
        }
    }
}

/// Whether it is a line of Pingora's.
fn is_pingoras(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("pingora")
}

/// Whether it reports a failed handshake of a caller.
fn is_handshake(record: &Record<'_>) -> bool {
    // Nothing else gives Pingora's lines a kind.
    let is_listener = record.target().ends_with("listening");
    is_listener
        && record
            .args()
            .to_string()
            .starts_with("Downstream handshake")
}

impl<L: Log> Log for Bounded<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_pingoras(metadata) || self.log.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if is_pingoras(record.metadata()) {
            if is_handshake(record) {
                events::handshake_failed();
            }
            // A line that is not logged anyway takes no place.
            if !self.log.enabled(record.metadata()) || !self.may_tell(record) {
                return;
            }
        }
        self.log.log(record);
    }

    fn flush(&self) {
        self.log.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lines_are_logged_in_each_period_and_then_the_number_of_the_others() {
        let mut allowance = Allowance::default();
        let now = Instant::now();
        for _ in 0..MOST {
            assert_eq!(allowance.take(now), Fate::Log(0));
        }
        for _ in 0..100 {
            assert_eq!(allowance.take(now + WHILE / 2), Fate::Suppress);
        }
        assert_eq!(allowance.take(now + WHILE), Fate::Log(100));
        assert_eq!(allowance.take(now + WHILE), Fate::Log(0));
    }
}
