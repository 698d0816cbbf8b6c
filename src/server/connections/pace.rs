//! How slowly a caller may take what it is sent: by rate, so that a stall now and then is
//! forgiven and a provider's own slowness is nobody's fault but its.
//!
//! Only time in which the caller's side is full counts. It becomes a debt, and what the
//! caller takes pays it off; a debt beyond the patience ends the connection.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep_until};

/// The account of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes a second that pay a second; `None`: nothing is counted.
    rate: Option<u64>,
    patience: Duration,
    debt: Duration,
    full_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// The caller takes too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSlow;

impl Pace {
    /// Without debt.
    pub(super) const fn new(rate: Option<u64>, patience: Duration) -> Self {
        Self {
            rate,
            patience,
            debt: Duration::ZERO,
            full_since: None,
            timer: None,
        }
    }

    /// The caller has taken `bytes`.
    pub(super) fn taken(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        if let Some(since) = self.full_since.take() {
            let stalled = now().saturating_duration_since(since);
            self.debt = self.debt.saturating_add(stalled);
            self.timer = None;
        }
        if self.debt.is_zero() {
            return;
        }
        let rate = self.rate.unwrap_or(u64::MAX).max(1);
        let paid = (bytes as u64).saturating_mul(1_000_000).div_euclid(rate);
        self.debt = self.debt.saturating_sub(Duration::from_micros(paid));
    }

    /// The caller's side is full. Wakes whoever waits once that has been so for too long.
    pub(super) fn is_full(&mut self, context: &mut Context<'_>) -> Result<(), TooSlow> {
        if self.rate.is_none() {
            return Ok(());
        }
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

    /// Lets a reader stall for `stall` before it takes `bytes`, again and again; how often
    /// it may do so.
    fn rounds(stall: Duration, bytes: usize) -> usize {
        let mut now = Instant::now();
        let mut pace = Pace::new(Some(1000), PATIENCE);
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
        let second = Duration::from_secs(1);
        assert_eq!(rounds(second, 1000), 1000, "as slow as it may be");
        assert_eq!(rounds(59 * second, 60_000), 1000, "long stalls, well paid");
        assert_eq!(rounds(61 * second, 1 << 20), 0, "one stall too long");
        assert_eq!(rounds(59 * second, 1), 1, "a byte is no payment");
        assert_eq!(
            rounds(second, 500),
            118,
            "half the rate: twice the patience"
        );
    }
}
