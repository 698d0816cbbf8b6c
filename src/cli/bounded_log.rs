//! The log, with a bound on what strangers can write into it: Pingora tells of each handshake that
//! fails, and whoever reaches the port can have as many of them as connections.
//!
//! Of such lines a few in each while are told, and then how many were not. All are counted.

use crate::events;
use log::{Log, Metadata, Record};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How many lines of a kind are told in each [`WHILE`].
const MOST: u32 = 10;
/// How long it takes until as many are told again.
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
    told: u32,
    untold: u64,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Untold,
    /// It is told, behind so many that were not.
    Told(u64),
}

impl Allowance {
    fn take(&mut self, now: Instant) -> Fate {
        let is_over = |began: Instant| now.saturating_duration_since(began) >= WHILE;
        if self.began.is_none_or(is_over) {
            self.began = Some(now);
            self.told = 0;
        }
        if self.told >= MOST {
            self.untold = self.untold.saturating_add(1);
            return Fate::Untold;
        }
        self.told = self.told.saturating_add(1);
        Fate::Told(std::mem::take(&mut self.untold))
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

    /// Whether a line is told that Pingora writes.
    fn may_tell(&self, record: &Record<'_>) -> bool {
        let is_handshake = is_handshake(record);
        let allowance = match is_handshake {
            true => &self.handshakes,
            false => &self.others,
        };
        let fate = allowance.lock().take(Instant::now());
        match fate {
            Fate::Untold => false,
            Fate::Told(0) => true,
            Fate::Told(untold) => {
                let what = match is_handshake {
                    true => "handshakes that failed",
                    false => "lines of the proxy",
                };
                log::warn!("{untold} {what} were not told one by one");
                true
            }
        }
    }
}

/// Whether it is a line of Pingora's.
fn is_pingoras(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("pingora")
}

/// Whether it tells of a handshake of a caller that failed.
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
            // What is not told anyway takes nobody's place.
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
    fn a_few_are_told_in_each_while_and_then_how_many_were_not() {
        let mut allowance = Allowance::default();
        let now = Instant::now();
        for _ in 0..MOST {
            assert_eq!(allowance.take(now), Fate::Told(0));
        }
        for _ in 0..100 {
            assert_eq!(allowance.take(now + WHILE / 2), Fate::Untold);
        }
        assert_eq!(allowance.take(now + WHILE), Fate::Told(100));
        assert_eq!(allowance.take(now + WHILE), Fate::Told(0));
    }
}
