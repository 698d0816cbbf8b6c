//! How fast a key may go: requests, input and output tokens a minute, requests at once.
//!
//! Whether it can pay is decided in `balance`. Limits live in memory: a restart begins
//! them anew, which lets at most one window more through.

mod bucket;
mod headers;

pub use bucket::{Denied, Level};

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
use tollgate_types::{KeyId, Limits};

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Requests a minute.
    Requests,
    /// Input tokens a minute.
    InputTokens,
    /// Output tokens a minute.
    OutputTokens,
    /// Requests at once.
    Concurrent,
}

impl Dimension {
    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::Concurrent => "concurrent",
        }
    }
}

/// A request that is too much: 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The limit that it ran into.
    pub dimension: Dimension,
    /// What would help.
    pub denied: Denied,
}

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

/// The state of one key.
#[derive(Debug)]
struct Meter {
    limits: Limits,
    requests: Option<Bucket>,
    input: Option<Bucket>,
    output: Option<Bucket>,
    /// Shared with the meter before it, so that a change of limits forgets no request.
    running: Arc<AtomicU32>,
    /// Serialises the exchange for a meter of other limits.
    exchange: Mutex<()>,
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
        let meter = self.meter(key, limits);
        // From here on dropping the admission gives back what was taken.
        let mut admission = Admission::begin(meter, self.clone())?;
        let Admission { meter, taken, .. } = &mut admission;
        if !meter.is_paced() {
            return Ok(admission);
        }
        let now_ms = self.now_ms();
        take(
            &meter.requests,
            Dimension::Requests,
            1,
            now_ms,
            &mut taken.requests,
        )?;
        take(
            &meter.input,
            Dimension::InputTokens,
            input,
            now_ms,
            &mut taken.input,
        )?;
        take(
            &meter.output,
            Dimension::OutputTokens,
            output,
            now_ms,
            &mut taken.output,
        )?;
        Ok(admission)
    }

    /// How many requests of the key are under way.
    pub fn running(&self, key: &KeyId) -> u32 {
        let meter = self.keys.peek(key);
        meter.map_or(0, |meter| meter.running.load(Ordering::Relaxed))
    }

    /// How the key stands.
    pub fn standing(&self, key: &KeyId, limits: &Limits) -> Standing {
        self.meter(key, limits).standing(|| self.now_ms())
    }

    fn now_ms(&self) -> u64 {
        self.clock.elapsed_ms().saturating_sub(self.since_ms)
    }

    fn meter(&self, key: &KeyId, limits: &Limits) -> Arc<Meter> {
        match self.keys.get(key) {
            Some(meter) if meter.limits == *limits => meter,
            Some(old) => {
                let _exchange = old.exchange.lock();
                match self.keys.get(key) {
                    Some(meter) if meter.limits == *limits => meter,
                    _ => self.keep(key, old.with_limits(limits, self.now_ms())),
                }
            }
            None => {
                let fresh = || Ok::<_, std::convert::Infallible>(Arc::new(Meter::new(limits)));
                // Of two requests that come first, one makes the meter and both use it.
                match self.keys.get_or_insert_with(key, fresh) {
                    Ok(meter) => meter,
                    Err(never) => match never {},
                }
            }
        }
    }

    fn keep(&self, key: &KeyId, meter: Meter) -> Arc<Meter> {
        let meter = Arc::new(meter);
        self.keys.insert(key.clone(), Arc::clone(&meter));
        meter
    }
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Limiter")
    }
}

/// Takes from a bucket, where there is one, and remembers how much.
fn take(
    bucket: &Option<Bucket>,
    dimension: Dimension,
    count: u64,
    now_ms: u64,
    taken: &mut u64,
) -> Result<(), Limited> {
    if let Some(bucket) = bucket {
        bucket
            .take(count, now_ms)
            .map_err(|denied| Limited { dimension, denied })?;
        *taken = count;
    }
    Ok(())
}

impl Meter {
    fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            requests: limits.requests.map(Bucket::new),
            input: limits.input_tokens.map(Bucket::new),
            output: limits.output_tokens.map(Bucket::new),
            running: Arc::default(),
            exchange: Mutex::new(()),
        }
    }

    fn with_limits(&self, limits: &Limits, now_ms: u64) -> Self {
        let resize = |old: &Option<Bucket>, limit: Option<NonZeroU32>| {
            limit.map(|limit| match old {
                Some(old) => old.resized(limit, now_ms),
                None => Bucket::new(limit),
            })
        };
        Self {
            limits: *limits,
            requests: resize(&self.requests, limits.requests),
            input: resize(&self.input, limits.input_tokens),
            output: resize(&self.output, limits.output_tokens),
            running: Arc::clone(&self.running),
            exchange: Mutex::new(()),
        }
    }

    /// Whether anything here goes by the clock.
    const fn is_paced(&self) -> bool {
        self.requests.is_some() || self.input.is_some() || self.output.is_some()
    }

    fn standing(&self, now_ms: impl FnOnce() -> u64) -> Standing {
        if !self.is_paced() {
            return Standing::default();
        }
        let now_ms = now_ms();
        let level = |bucket: &Option<Bucket>| bucket.as_ref().map(|bucket| bucket.level(now_ms));
        Standing {
            requests: level(&self.requests),
            input_tokens: level(&self.input),
            output_tokens: level(&self.output),
        }
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

#[derive(Debug, Default)]
struct Taken {
    requests: u64,
    input: u64,
    output: u64,
}

impl Admission {
    fn begin(meter: Arc<Meter>, limiter: Limiter) -> Result<Self, Limited> {
        let most = meter.limits.concurrent.map_or(u32::MAX, NonZeroU32::get);
        let entered = meter
            .running
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
                (running < most).then(|| running.saturating_add(1))
            });
        if entered.is_err() {
            // Nobody knows when the next one ends.
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
        if !self.meter.is_paced() {
            return;
        }
        let now_ms = self.limiter.now_ms();
        let taken = std::mem::take(&mut self.taken);
        correct(&self.meter.input, taken.input, input, now_ms);
        correct(&self.meter.output, taken.output, output, now_ms);
    }

    /// How the key stands with this request counted.
    pub fn standing(&self) -> Standing {
        self.meter.standing(|| self.limiter.now_ms())
    }
}

fn correct(bucket: &Option<Bucket>, taken: u64, used: u64, now_ms: u64) {
    let Some(bucket) = bucket else { return };
    match used.checked_sub(taken) {
        Some(more) => bucket.force(more, now_ms),
        None => bucket.refund(taken.saturating_sub(used)),
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let give_back = |bucket: &Option<Bucket>, count| {
            if let (Some(bucket), 1..) = (bucket, count) {
                bucket.refund(count);
            }
        };
        give_back(&self.meter.requests, self.taken.requests);
        give_back(&self.meter.input, self.taken.input);
        give_back(&self.meter.output, self.taken.output);
        self.meter.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
