//! Limits how slowly a client may read: by rate, so that single stalls are allowed and a slow provider does not
//! count against the client.
//!
//! Time in which the client's side is full becomes a debt, which the bytes that the client reads pay off. A debt
//! beyond the patience ends the connection. Without a rate, debts do not add up, and one stall as long as the
//! patience ends it. Pingora limits only the writes of bodies; writes of heads would wait for ever.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep_until};

/// The debt of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    /// The bytes that pay off one second; `None`: any byte pays off everything.
    rate: Option<u64>,
    patience: Duration,
    debt: Duration,
    full_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// The client reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSlow;

impl Pace {
    /// A connection without debt.
    pub(super) const fn new(rate: Option<u64>, patience: Duration) -> Self {
        Self {
            rate,
            patience,
            debt: Duration::ZERO,
            full_since: None,
            timer: None,
        }
    }

    /// The client has read `bytes`.
    pub(super) fn taken(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        if let Some(since) = self.full_since.take() {
            let stalled = now().saturating_duration_since(since);
            self.debt = self.debt.saturating_add(stalled);
            self.timer = None;
        }
        let Some(rate) = self.rate else {
            self.debt = Duration::ZERO;
            return;
        };
        if self.debt.is_zero() {
            return;
        }
        let rate = rate.max(1);
        let paid = (bytes as u64).saturating_mul(1_000_000).div_euclid(rate);
        self.debt = self.debt.saturating_sub(Duration::from_micros(paid));
    }

    /// The client's side is full. Wakes the task when that has lasted too long.
    pub(super) fn is_full(&mut self, context: &mut Context<'_>) -> Result<(), TooSlow> {
        let since = *self.full_since.get_or_insert_with(Instant::now);
        let Some(left) = self.left(since, Instant::now()) else {
            return Err(TooSlow);
        };
        let timer = self.timer.get_or_insert_with(|| {
            let end = Instant::now().checked_add(left).unwrap_or(since);
            Box::pin(sleep_until(end.into()))
        });
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Err(TooSlow),
            Poll::Pending => Ok(()),
        }
    }

    /// How much longer it may be full.
    fn left(&self, since: Instant, now: Instant) -> Option<Duration> {
        let debt = self
            .debt
            .saturating_add(now.saturating_duration_since(since));
        self.patience
            .checked_sub(debt)
            .filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// How often a reader may stall for `stall` before it reads `bytes`.
    fn rounds(rate: Option<u64>, stall: Duration, bytes: usize) -> usize {
        let mut now = Instant::now();
        let mut pace = Pace::new(rate, PATIENCE);
        (0..1000)
            .take_while(|_| {
                pace.full_since = Some(now);
                now += stall;
                let goes_on = pace.left(now - stall, now).is_some();
                pace.taken(bytes, || now);
                goes_on
            })
            .count()
    }

    #[test]
    fn a_reader_is_judged_by_its_rate_and_not_by_one_stall() {
        let (rate, second) = (Some(1000), Duration::from_secs(1));
        assert_eq!(rounds(rate, second, 1000), 1000, "as slow as it may be");
        assert_eq!(
            rounds(rate, 59 * second, 60_000),
            1000,
            "long stalls, well paid"
        );
        assert_eq!(rounds(rate, 61 * second, 1 << 20), 0, "one stall too long");
        assert_eq!(rounds(rate, 59 * second, 1), 1, "a byte is no payment");
        assert_eq!(
            rounds(rate, second, 500),
            118,
            "half the rate: twice the patience"
        );
    }

    #[test]
    fn where_no_rate_is_asked_for_only_one_stall_is_judged() {
        let second = Duration::from_secs(1);
        assert_eq!(rounds(None, 59 * second, 1), 1000, "any byte pays");
        assert_eq!(rounds(None, 61 * second, 1 << 20), 0, "one stall too long");
    }
}
