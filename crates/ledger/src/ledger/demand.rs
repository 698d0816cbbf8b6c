//! How much of a key's balance a process leases, by its own use of the key. Pure: no clock, no lock.
//!
//! A process on a server leases what its requests reserve at once, and in addition what they spend in
//! [`SPAN`], or as much again as they reserve if that is more. It leases more when half of this margin
//! is spent, and gives back what exceeds twice the whole.

use crate::{balance::Holdings, clock::Timestamp};
use std::time::Duration;

/// For how long the margin lasts.
const SPAN: Duration = Duration::from_secs(10);
/// The pace of a span is not known before.
const LEAST_MEASURED: Duration = Duration::from_secs(2);

/// What the requests of a key needed in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    /// What they were charged.
    spent: u64,
    /// The most that they reserved at once.
    reserved: u64,
    /// The most that one of them wanted.
    largest: u64,
}

/// What a key needs in this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// When the present span began.
    since: Timestamp,
    present: Use,
    last: Use,
}

/// What to lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    /// For what requests hold at once.
    held: u64,
    /// For what they spend before more is leased.
    margin: u64,
}

impl Need {
    fn all(self) -> u64 {
        self.held.saturating_add(self.margin)
    }
}

impl Demand {
    /// A request wants so much.
    pub(super) fn wants(&mut self, amount: u64, now: Timestamp) {
        self.advance(now);
        self.present.largest = self.present.largest.max(amount);
    }

    /// Requests reserve so much together.
    pub(super) fn reserves(&mut self, amount: u64) {
        self.present.reserved = self.present.reserved.max(amount);
    }

    /// A request was charged.
    pub(super) fn spends(&mut self, amount: u64, now: Timestamp) {
        self.advance(now);
        self.present.spent = self.present.spent.saturating_add(amount);
    }

    /// What to lease in addition, if requests that want `waiting` together wait for it.
    pub(super) fn missing(&mut self, leased: Holdings, waiting: u64, now: Timestamp) -> u64 {
        let need = self.need(leased.reserved.saturating_add(waiting), now);
        need.all().saturating_sub(leased.all())
    }

    /// Whether it is time to lease more.
    pub(super) fn runs_low(&mut self, leased: Holdings, now: Timestamp) -> bool {
        let Need { held, margin } = self.need(leased.reserved, now);
        leased.all() < held.saturating_add(margin / 2)
    }

    /// What to keep of what is free. `None`: it is not too much.
    pub(super) fn keeps(&mut self, leased: Holdings, now: Timestamp) -> Option<u64> {
        let need = self.need(leased.reserved, now).all();
        let is_too_much = leased.all() > need.saturating_mul(2);
        is_too_much.then(|| need.saturating_sub(leased.reserved))
    }

    fn need(&mut self, reserved: u64, now: Timestamp) -> Need {
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
        Need {
            held,
            margin: spent.max(held),
        }
    }

    /// Begins a new span if the present one is over.
    fn advance(&mut self, now: Timestamp) {
        let elapsed = between(self.since, now);
        if elapsed < SPAN {
            return;
        }
        let is_recent = elapsed < SPAN.saturating_mul(2);
        let ended = std::mem::take(&mut self.present);
        // A key that is idle keeps what one request needs.
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

/// What is spent in a whole span if so much was spent in the first part of it.
fn at_this_pace(spent: u64, elapsed: Duration) -> u64 {
    let elapsed = elapsed.clamp(LEAST_MEASURED, SPAN).as_millis();
    let whole = u128::from(spent).saturating_mul(SPAN.as_millis());
    let whole = whole.checked_div(elapsed).unwrap_or(0);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
