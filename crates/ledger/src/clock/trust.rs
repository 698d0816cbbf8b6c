//! Checks the system clock against a monotonic one.
//!
//! The system time is used while both clocks agree, except for small corrections. A larger jump (by an operator,
//! a time service, or a machine that has slept) counts once it has lasted for a minute. Until then, the time
//! continues with the monotonic clock.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The largest correction that counts at once, in milliseconds: more than time services slew.
const CORRECTION_MS: u64 = 2_000;
/// How long a jump must last to count, in milliseconds.
const LASTS_MS: u64 = 60_000;

#[derive(Debug)]
pub(super) struct Trust {
    /// How far the time is ahead of the monotonic clock.
    ahead_ms: AtomicI64,
    /// Whether there is a doubt. Avoids the lock most of the time.
    doubts: AtomicBool,
    doubt: Mutex<Option<Doubt>>,
}

/// A jump that does not count yet.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// How far the system clock has been ahead of the monotonic one since the jump.
    ahead_ms: i64,
    /// When the jump was seen first, by the monotonic clock.
    since_ms: u64,
}

impl Trust {
    /// Trusts the system time `wall_ms` when the monotonic clock begins.
    pub(super) fn beginning_at(wall_ms: u64) -> Self {
        Self {
            ahead_ms: AtomicI64::new(signed(wall_ms)),
            doubts: AtomicBool::new(false),
            doubt: Mutex::new(None),
        }
    }

    /// The time if the system clock is at `wall_ms` and the monotonic one at `steady_ms`.
    pub(super) fn check(&self, wall_ms: u64, steady_ms: u64) -> u64 {
        let ahead = signed(wall_ms).saturating_sub(signed(steady_ms));
        let trusted = self.ahead_ms.load(Ordering::Relaxed);
        let differs_by = ahead.abs_diff(trusted);
        if differs_by <= CORRECTION_MS {
            // The two are read one after the other.
            if differs_by > 1 {
                self.ahead_ms.store(ahead, Ordering::Relaxed);
            }
            if self.doubts.load(Ordering::Relaxed) {
                let mut doubt = self.doubt.lock();
                *doubt = None;
                self.doubts.store(false, Ordering::Relaxed);
            }
            return wall_ms;
        }
        if self.has_lasted(ahead, steady_ms) {
            log::warn!(
                "the system clock jumped by {} s a minute ago; the gateway uses the new time from now on",
                ahead.saturating_sub(trusted) / 1000
            );
            self.ahead_ms.store(ahead, Ordering::Relaxed);
            return wall_ms;
        }
        steady_ms.saturating_add_signed(trusted)
    }

    fn has_lasted(&self, ahead_ms: i64, steady_ms: u64) -> bool {
        let mut doubt = self.doubt.lock();
        let is_same = |it: &Doubt| it.ahead_ms.abs_diff(ahead_ms) <= CORRECTION_MS;
        match doubt.filter(is_same) {
            Some(it) if steady_ms.saturating_sub(it.since_ms) >= LASTS_MS => {
                *doubt = None;
                true
            }
            Some(_) => false,
            None => {
                self.doubts.store(true, Ordering::Relaxed);
                *doubt = Some(Doubt {
                    ahead_ms,
                    since_ms: steady_ms,
                });
                false
            }
        }
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
