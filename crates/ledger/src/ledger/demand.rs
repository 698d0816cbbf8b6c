//! How much of a key's balance a process leases, by its own use of the key. Pure: no clock, no lock.
//!
//! A process on a server leases what its requests reserve at once, and a margin: what they spend in [`SPAN`],
//! or as much again as they reserve if that is more. It leases more when half of this margin is spent. If it
//! leases more than twice the sum, it gives the excess back.

use crate::{balance::Holdings, clock::Timestamp};
use std::time::Duration;

/// For how long the margin lasts.
const SPAN: Duration = Duration::from_secs(10);
/// Before this time, the pace of a span is unknown.
const LEAST_MEASURED: Duration = Duration::from_secs(2);

/// The use of a key in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    /// The sum of the charges.
    spent: u64,
    /// The most that requests reserved at once.
    reserved: u64,
    /// The most that one request needed.
    largest: u64,
}

/// The needs of a key in this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// When the current span began.
    since: Timestamp,
    present: Use,
    last: Use,
}

/// The amounts to lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeaseTarget {
    /// For reservations of concurrent requests.
    held: u64,
    /// For charges until more is leased.
    margin: u64,
}

impl LeaseTarget {
    fn all(self) -> u64 {
        self.held.saturating_add(self.margin)
    }
}

impl Demand {
    /// Notes that a request needs `amount`.
    pub(super) fn note_need(&mut self, amount: u64, now: Timestamp) {
        self.advance(now);
        self.present.largest = self.present.largest.max(amount);
    }

    /// Notes that requests reserve `amount` together.
    pub(super) fn note_reserved(&mut self, amount: u64) {
        self.present.reserved = self.present.reserved.max(amount);
    }

    /// Notes that a request was charged `amount`.
    pub(super) fn note_spent(&mut self, amount: u64, now: Timestamp) {
        self.advance(now);
        self.present.spent = self.present.spent.saturating_add(amount);
    }

    /// How much to lease in addition, for waiting requests that need `waiting` together.
    pub(super) fn missing(&mut self, leased: Holdings, waiting: u64, now: Timestamp) -> u64 {
        let target = self.target(leased.reserved.saturating_add(waiting), now);
        target.all().saturating_sub(leased.all())
    }

    /// Whether it is time to lease more.
    pub(super) fn runs_low(&mut self, leased: Holdings, now: Timestamp) -> bool {
        let LeaseTarget { held, margin } = self.target(leased.reserved, now);
        leased.all() < held.saturating_add(margin / 2)
    }

    /// How much of the free tokens to keep. `None`: they are not too many.
    pub(super) fn amount_to_keep(&mut self, leased: Holdings, now: Timestamp) -> Option<u64> {
        let target = self.target(leased.reserved, now).all();
        let is_too_much = leased.all() > target.saturating_mul(2);
        is_too_much.then(|| target.saturating_sub(leased.reserved))
    }

    fn target(&mut self, reserved: u64, now: Timestamp) -> LeaseTarget {
        self.advance(now);
        let Self { present, last, .. } = self;
        let held = [
            reserved,
            present.reserved,
            last.reserved,
            present.largest,
            last.largest,
        ];
        let held = held.into_iter().max().unwrap_or(0);
        let spent = at_this_pace(present.spent, between(self.since, now)).max(last.spent);
        LeaseTarget {
            held,
            margin: spent.max(held),
        }
    }

    /// Begins a new span if the current one is over.
    fn advance(&mut self, now: Timestamp) {
        let elapsed = between(self.since, now);
        if elapsed < SPAN {
            return;
        }
        let is_recent = elapsed < SPAN.saturating_mul(2);
        let ended = std::mem::take(&mut self.present);
        // An idle key keeps the needs of one request.
        let largest = match ended.largest {
            0 => self.last.largest,
            largest => largest,
        };
        let ended = if is_recent { ended } else { Use::default() };
        self.last = Use { largest, ..ended };
        self.since = now;
    }
}

fn between(since: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(now.unix_ms().saturating_sub(since.unix_ms()))
}

/// The spending of a full span, if `spent` was spent in the elapsed part.
fn at_this_pace(spent: u64, elapsed: Duration) -> u64 {
    let elapsed = elapsed.clamp(LEAST_MEASURED, SPAN).as_millis();
    let whole = u128::from(spent).saturating_mul(SPAN.as_millis());
    let whole = whole.checked_div(elapsed).unwrap_or(0);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
