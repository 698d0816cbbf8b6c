//! One limit of a key by the clock, and what a request takes of it.

use super::{Level, bucket::Bucket, share::Part};
use std::num::NonZeroU32;
use tollgate_types::{Denied, Limits};

/// One limit and its use.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Whether it holds. A bucket without a limit is one that was lifted: requests that took from
    /// it give back to it still, and what was taken flows off as before.
    pub(super) is_limited: bool,
    bucket: Option<Bucket>,
}

impl Pace {
    /// Sets a limit, a share of `whole`.
    pub(super) fn set_limit(
        &mut self,
        limit: Option<NonZeroU32>,
        whole: Option<NonZeroU32>,
        now_ms: u64,
    ) {
        self.is_limited = limit.is_some();
        if let Some(limit) = limit {
            let bucket = self.bucket.get_or_insert_with(|| Bucket::new(limit));
            bucket.resize(limit, whole.unwrap_or(limit), now_ms);
        }
    }

    /// The bucket, if the limit applies.
    const fn limited(&mut self) -> Option<&mut Bucket> {
        if self.is_limited {
            self.bucket.as_mut()
        } else {
            None
        }
    }

    pub(super) fn mirror(&mut self, limit: Option<NonZeroU32>, debt: u64, now_ms: u64) {
        self.is_limited = limit.is_some();
        if let Some(limit) = limit {
            self.bucket = Some(Bucket::with_debt(limit, debt, now_ms));
        }
    }

    /// See [`Bucket::divide`].
    pub(super) fn divide(&mut self, part: Part, now_ms: u64) -> u64 {
        let bucket = self.bucket.as_mut();
        bucket.map_or(0, |bucket| bucket.divide(part, now_ms))
    }

    /// See [`Bucket::recount`].
    pub(super) fn recount(&mut self, debt: u64, now_ms: u64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.recount(debt, now_ms);
        }
    }

    /// See [`Bucket::uncounted`].
    pub(super) fn uncounted(&mut self, now_ms: u64) -> i64 {
        let bucket = self.bucket.as_mut();
        bucket.map_or(0, |bucket| bucket.uncounted(now_ms))
    }

    /// See [`Bucket::mark_uncounted`].
    pub(super) const fn mark_uncounted(&mut self, units: i64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.mark_uncounted(units);
        }
    }

    /// Takes `count`, or nothing. Returns the taken count; `None` without a limit. A request that fits
    /// the whole limit and not the share of this process needs all of the share and owes the rest.
    pub(super) fn take(
        &mut self,
        count: u64,
        whole: Option<NonZeroU32>,
        now_ms: u64,
    ) -> Result<Option<u64>, Denied> {
        let Some(bucket) = self.limited() else {
            return Ok(None);
        };
        if whole.is_some_and(|whole| count > u64::from(whole.get())) {
            return Err(Denied::NeverFits);
        }
        let at_once = count.min(bucket.limit());
        bucket.take(at_once, now_ms)?;
        bucket.force(count.saturating_sub(at_once), now_ms);
        Ok(Some(count))
    }

    pub(super) fn give_back(&mut self, count: Option<u64>) {
        if let (Some(bucket), Some(count @ 1..)) = (&mut self.bucket, count) {
            bucket.refund(count);
        }
    }

    /// Corrects `taken` to `used`. A request that was admitted without a limit owes nothing to a
    /// limit that was set since.
    pub(super) fn correct(&mut self, taken: Option<u64>, used: u64, now_ms: u64) {
        let Some(taken) = taken else { return };
        match used.checked_sub(taken) {
            Some(more) => {
                if let Some(bucket) = self.limited() {
                    bucket.force(more, now_ms);
                }
            }
            None => self.give_back(Some(taken.saturating_sub(used))),
        }
    }

    pub(super) fn level(&self, now_ms: u64) -> Option<Level> {
        let bucket = self.bucket.as_ref().filter(|_| self.is_limited)?;
        Some(bucket.level(now_ms))
    }
}

/// So much of each limit; `None` of what was not limited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub(super) requests: Option<u64>,
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
}

/// The amounts that a request needs of each limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts {
    pub(super) requests: u64,
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Amounts {
    /// One request of so many tokens.
    pub(super) const fn request(input: u64, output: u64) -> Self {
        Self {
            requests: 1,
            input,
            output,
        }
    }

    /// Of requests, input and output tokens.
    pub(super) const fn each(self) -> [u64; 3] {
        [self.requests, self.input, self.output]
    }

    /// The part of this load that `limits` count.
    pub(super) fn under(self, limits: &Limits) -> Taken {
        Taken {
            requests: limits.requests.map(|_| self.requests),
            input: limits.input_tokens.map(|_| self.input),
            output: limits.output_tokens.map(|_| self.output),
        }
    }
}

impl Taken {
    pub(super) const fn is_nothing(&self) -> bool {
        self.requests.is_none() && self.input.is_none() && self.output.is_none()
    }
}
