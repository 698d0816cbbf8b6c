//! The running requests at a deployment or with a credential, and their limits.

use super::bucket::Bucket;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The limits of a deployment or a credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most concurrent requests.
    pub in_flight: Option<NonZeroU32>,
    /// Most requests per minute.
    pub requests: Option<NonZeroU32>,
    /// Tokens a minute, input and output.
    pub tokens: Option<NonZeroU32>,
}

impl Limits {
    /// Whether there is none.
    pub const fn is_none(&self) -> bool {
        self.in_flight.is_none() && self.requests.is_none() && self.tokens.is_none()
    }
}

/// A limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The time until there is room. `None`: until a running request ends.
    pub wait: Option<Duration>,
}

/// The requests in flight, and those of the last minute.
#[derive(Debug, Default)]
pub struct Load {
    in_flight: AtomicU32,
    requests: Bucket,
    tokens: Bucket,
}

impl Load {
    /// Requests under way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether one more request fits, of so many tokens.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn room(&self, limits: &Limits, tokens: u64, now: u64) -> Result<(), Full> {
        if limits.is_none() {
            return Ok(());
        }
        if limits
            .in_flight
            .is_some_and(|it| self.in_flight() >= it.get())
        {
            return Err(Full { wait: None });
        }
        let requests = limits
            .requests
            .and_then(|it| self.requests.wait(1, it, now));
        let tokens = limits
            .tokens
            .and_then(|it| self.tokens.wait(tokens, it, now));
        match requests.max(tokens) {
            None => Ok(()),
            wait => Err(Full { wait }),
        }
    }

    /// Takes room for one more request, until [`Load::leave`].
    ///
    /// # Errors
    ///
    /// There is none; nothing was taken.
    pub(super) fn enter(&self, limits: &Limits, tokens: u64, now: u64) -> Result<(), Full> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if limits.is_none() {
            return Ok(());
        }
        let taken = self.take(limits, before, tokens, now);
        if taken.is_err() {
            self.leave();
        }
        taken
    }

    fn take(&self, limits: &Limits, before: u32, tokens: u64, now: u64) -> Result<(), Full> {
        let full = |wait| Full { wait: Some(wait) };
        if limits.in_flight.is_some_and(|it| before >= it.get()) {
            return Err(Full { wait: None });
        }
        if let Some(limit) = limits.requests {
            self.requests.take(1, limit, now).map_err(full)?;
        }
        if let Some(limit) = limits.tokens
            && let Err(wait) = self.tokens.take(tokens, limit, now)
        {
            self.give_back(limits, 0, now);
            return Err(full(wait));
        }
        Ok(())
    }

    /// Gives back a request that was not sent after all.
    pub(super) fn give_back(&self, limits: &Limits, tokens: u64, now: u64) {
        if let Some(limit) = limits.requests {
            self.requests.correct(1, 0, limit, now);
        }
        self.correct(limits, tokens, 0, now);
    }

    /// Corrects the tokens that were taken to those that were used.
    pub(super) fn correct(&self, limits: &Limits, taken: u64, used: u64, now: u64) {
        if let Some(limit) = limits.tokens {
            self.tokens.correct(taken, used, limit, now);
        }
    }

    pub(super) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
