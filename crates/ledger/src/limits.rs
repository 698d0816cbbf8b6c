//! How fast a key may go: requests, input and output tokens a minute, requests at once.
//!
//! Whether it can pay is decided in `balance`. Limits live in memory: a restart begins
//! them anew, which lets at most one window more through.

mod bucket;
mod headers;

pub use bucket::Level;

use crate::clock::Clock;
use bucket::Bucket;
use parking_lot::Mutex;
use quick_cache::{UnitWeighter, sync::Cache};
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tollgate_types::{AdmissionGuard, KeyId, Limits};
pub use tollgate_types::{Denied, Dimension, Limited};

/// How a key stands with each of its limits; for the headers of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Requests a minute.
    pub requests: Option<Level>,
    /// Input tokens a minute.
    pub input_tokens: Option<Level>,
    /// Output tokens a minute.
    pub output_tokens: Option<Level>,
}

/// The limits of all keys. Cheap to clone.
#[derive(Clone)]
pub struct Limiter {
    keys: Arc<Cache<KeyId, Arc<Meter>, UnitWeighter, foldhash::fast::RandomState>>,
    clock: Clock,
    /// What [`Clock::elapsed_ms`] said when it was made.
    since_ms: u64,
}

/// The state of one key. There is one of it to a key, whatever becomes of the limits: requests that
/// are under way when they change end in the same one.
#[derive(Debug, Default)]
struct Meter {
    running: AtomicU32,
    paces: Mutex<Paces>,
}

/// What goes by the clock.
#[derive(Debug, Default)]
struct Paces {
    limits: Limits,
    requests: Pace,
    input: Pace,
    output: Pace,
}

/// One limit, and what is taken of it.
#[derive(Debug, Default)]
struct Pace {
    /// Whether it holds. A bucket without a limit is one that was lifted: requests that took from
    /// it give back to it still, and what was taken flows off as before.
    is_limited: bool,
    bucket: Option<Bucket>,
}

impl Limiter {
    /// Keeps the state of at most `keys` keys; of more, the least used begin anew.
    pub fn new(keys: usize, clock: Clock) -> Self {
        const AT_START: usize = 256;
        let keys = keys.max(1);
        let cache = Cache::with(
            keys.min(AT_START),
            u64::try_from(keys).unwrap_or(u64::MAX),
            UnitWeighter,
            foldhash::fast::RandomState::default(),
            Default::default(),
        );
        Self {
            keys: Arc::new(cache),
            since_ms: clock.elapsed_ms(),
            clock,
        }
    }

    /// Lets a request of `input` tokens and at most `output` tokens through, or nothing
    /// is taken from any limit.
    ///
    /// # Errors
    /// The first limit that it runs into.
    pub fn admit(
        &self,
        key: &KeyId,
        limits: &Limits,
        input: u64,
        output: u64,
    ) -> Result<Admission, Limited> {
        let meter = self.meter(key);
        // From here on dropping the admission gives back what was taken.
        let mut admission = Admission::begin(meter, limits, self.clone())?;
        let wanted = Wanted {
            requests: 1,
            input,
            output,
        };
        admission.taken = admission.meter.take(limits, wanted, || self.now_ms())?;
        Ok(admission)
    }

    /// How many requests of the key are under way.
    pub fn running(&self, key: &KeyId) -> u32 {
        let meter = self.keys.peek(key);
        meter.map_or(0, |meter| meter.running.load(Ordering::Relaxed))
    }

    /// How the key stands.
    pub fn standing(&self, key: &KeyId, limits: &Limits) -> Standing {
        let meter = self.meter(key);
        let mut paces = meter.paces.lock();
        paces.go_by(limits, || self.now_ms());
        paces.standing(|| self.now_ms())
    }

    fn now_ms(&self) -> u64 {
        self.clock.elapsed_ms().saturating_sub(self.since_ms)
    }

    fn meter(&self, key: &KeyId) -> Arc<Meter> {
        if let Some(meter) = self.keys.get(key) {
            return meter;
        }
        let fresh = || Ok::<_, std::convert::Infallible>(Arc::default());
        // Of two requests that come first, one makes the meter and both use it.
        match self.keys.get_or_insert_with(key, fresh) {
            Ok(meter) => meter,
            Err(never) => match never {},
        }
    }
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Limiter")
    }
}

impl Meter {
    /// Takes what is wanted of each limit there is, or nothing of any.
    fn take(
        &self,
        limits: &Limits,
        wanted: Wanted,
        now_ms: impl Fn() -> u64,
    ) -> Result<Taken, Limited> {
        let mut paces = self.paces.lock();
        paces.go_by(limits, &now_ms);
        if !paces.is_paced() {
            return Ok(Taken::default());
        }
        paces.take(wanted, now_ms())
    }
}

impl Paces {
    /// Goes by these limits from now on.
    fn go_by(&mut self, limits: &Limits, now_ms: impl Fn() -> u64) {
        if self.limits == *limits {
            return;
        }
        let now_ms = now_ms();
        self.limits = *limits;
        self.requests.go_by(limits.requests, now_ms);
        self.input.go_by(limits.input_tokens, now_ms);
        self.output.go_by(limits.output_tokens, now_ms);
    }

    /// Whether anything here goes by the clock.
    const fn is_paced(&self) -> bool {
        self.requests.is_limited || self.input.is_limited || self.output.is_limited
    }

    fn take(&mut self, wanted: Wanted, now_ms: u64) -> Result<Taken, Limited> {
        let mut taken = Taken::default();
        let outcome = self.take_each(wanted, now_ms, &mut taken);
        if outcome.is_err() {
            self.give_back(&taken);
        }
        outcome.map(|()| taken)
    }

    fn take_each(&mut self, wanted: Wanted, now_ms: u64, taken: &mut Taken) -> Result<(), Limited> {
        let refused = |dimension| move |denied| Limited { dimension, denied };
        let Self {
            requests,
            input,
            output,
            ..
        } = self;
        taken.requests = requests
            .take(wanted.requests, now_ms)
            .map_err(refused(Dimension::Requests))?;
        taken.input = input
            .take(wanted.input, now_ms)
            .map_err(refused(Dimension::InputTokens))?;
        taken.output = output
            .take(wanted.output, now_ms)
            .map_err(refused(Dimension::OutputTokens))?;
        Ok(())
    }

    fn give_back(&mut self, taken: &Taken) {
        self.requests.give_back(taken.requests);
        self.input.give_back(taken.input);
        self.output.give_back(taken.output);
    }

    fn standing(&self, now_ms: impl FnOnce() -> u64) -> Standing {
        if !self.is_paced() {
            return Standing::default();
        }
        let now_ms = now_ms();
        Standing {
            requests: self.requests.level(now_ms),
            input_tokens: self.input.level(now_ms),
            output_tokens: self.output.level(now_ms),
        }
    }
}

impl Pace {
    fn go_by(&mut self, limit: Option<NonZeroU32>, now_ms: u64) {
        self.is_limited = limit.is_some();
        match (&mut self.bucket, limit) {
            (Some(bucket), Some(limit)) => bucket.resize(limit, now_ms),
            (None, Some(limit)) => self.bucket = Some(Bucket::new(limit)),
            (_, None) => {}
        }
    }

    /// The bucket that holds requests up, where there is one.
    const fn limited(&mut self) -> Option<&mut Bucket> {
        if self.is_limited {
            self.bucket.as_mut()
        } else {
            None
        }
    }

    /// Takes `count`, or nothing. Returns the taken count; `None` without a limit.
    fn take(&mut self, count: u64, now_ms: u64) -> Result<Option<u64>, Denied> {
        match self.limited() {
            Some(bucket) => bucket.take(count, now_ms).map(|()| Some(count)),
            None => Ok(None),
        }
    }

    fn give_back(&mut self, count: Option<u64>) {
        if let (Some(bucket), Some(count @ 1..)) = (&mut self.bucket, count) {
            bucket.refund(count);
        }
    }

    /// Where `taken` was taken, `used` were used. A request admitted without a limit owes nothing
    /// to one that was set meanwhile.
    fn correct(&mut self, taken: Option<u64>, used: u64, now_ms: u64) {
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

    fn level(&self, now_ms: u64) -> Option<Level> {
        let bucket = self.bucket.as_ref().filter(|_| self.is_limited)?;
        Some(bucket.level(now_ms))
    }
}

/// What a request took of its key's limits. Dropped without more: everything goes back,
/// as for a request that a later check refuses.
#[derive(Debug)]
#[must_use = "dropping it gives everything back"]
pub struct Admission {
    meter: Arc<Meter>,
    limiter: Limiter,
    taken: Taken,
}

/// So much of each limit; `None` of what was not limited.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    requests: Option<u64>,
    input: Option<u64>,
    output: Option<u64>,
}

/// So much is wanted of each limit.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    requests: u64,
    input: u64,
    output: u64,
}

impl Admission {
    fn begin(meter: Arc<Meter>, limits: &Limits, limiter: Limiter) -> Result<Self, Limited> {
        let most = limits.concurrent.map_or(u32::MAX, NonZeroU32::get);
        let entered = meter
            .running
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
                (running < most).then(|| running.saturating_add(1))
            });
        if entered.is_err() {
            // The end of the next one is unknown.
            return Err(Limited {
                dimension: Dimension::Concurrent,
                denied: Denied::Wait(Duration::from_secs(1)),
            });
        }
        Ok(Self {
            meter,
            limiter,
            taken: Taken::default(),
        })
    }

    /// Ends the request, which used so many tokens: what was taken too much goes back,
    /// what was taken too little is a debt.
    pub fn finish(mut self, input: u64, output: u64) {
        let taken = std::mem::take(&mut self.taken);
        let mut paces = self.meter.paces.lock();
        // Even where the limit was lifted meanwhile, there may be something to give back.
        if !taken.is_nothing() {
            let now_ms = self.limiter.now_ms();
            paces.input.correct(taken.input, input, now_ms);
            paces.output.correct(taken.output, output, now_ms);
        }
    }

    /// How the key stands with this request counted.
    pub fn standing(&self) -> Standing {
        let paces = self.meter.paces.lock();
        paces.standing(|| self.limiter.now_ms())
    }
}

impl AdmissionGuard for Admission {
    fn finish(self: Box<Self>, input: u64, output: u64) {
        Self::finish(*self, input, output);
    }
}

impl Taken {
    const fn is_nothing(&self) -> bool {
        self.requests.is_none() && self.input.is_none() && self.output.is_none()
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.taken.is_nothing() {
            self.meter.paces.lock().give_back(&self.taken);
        }
        self.meter.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
