//! How far the system's clock is believed: against the time that has passed since, which a
//! steady clock shows, which cannot be set.
//!
//! What the clock says is followed while it goes with the steady one, small corrections
//! included. A leap (of an operator's, of a time service's, of a machine that has slept) is
//! believed when it has lasted for a minute; until then time goes on from where it was.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Corrections that are followed at once, in milliseconds: beyond what time services slew.
const CORRECTION_MS: u64 = 2_000;
/// How long a leap must last to be believed, in milliseconds.
const LASTS_MS: u64 = 60_000;

#[derive(Debug)]
pub(super) struct Trust {
    /// How far the believed time is ahead of the steady one.
    ahead_ms: AtomicI64,
    /// Whether there is one, to avoid the lock most of the time.
    doubts: AtomicBool,
    doubt: Mutex<Option<Doubt>>,
}

/// A leap that is not believed yet.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// How far the clock is ahead of the steady one since.
    ahead_ms: i64,
    /// When it was seen first, by the steady clock.
    since_ms: u64,
}

impl Trust {
    /// The clock says this at the beginning of the steady one; there is nothing to hold it
    /// against.
    pub(super) fn beginning_at(wall_ms: u64) -> Self {
        Self {
            ahead_ms: AtomicI64::new(signed(wall_ms)),
            doubts: AtomicBool::new(false),
            doubt: Mutex::new(None),
        }
    }

    /// The time, where the clock says `wall_ms` and the steady one `steady_ms`.
    pub(super) fn believe(&self, wall_ms: u64, steady_ms: u64) -> u64 {
        let ahead = signed(wall_ms).saturating_sub(signed(steady_ms));
        let believed = self.ahead_ms.load(Ordering::Relaxed);
        let differs_by = ahead.abs_diff(believed);
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
                "the system's clock has leapt by {} s, and is believed now that it has lasted",
                ahead.saturating_sub(believed) / 1000
            );
            self.ahead_ms.store(ahead, Ordering::Relaxed);
            return wall_ms;
        }
        steady_ms.saturating_add_signed(believed)
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
