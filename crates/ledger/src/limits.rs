//! How fast a key may go: requests, input and output tokens a minute, requests at once.
//!
//! Whether it can pay is decided in `balance`. One process keeps limits in memory: a restart begins
//! them anew, which lets at most one window more through. Several processes share them through a
//! server (`shared`); without it each applies an equal share.

mod admission;
mod bucket;
mod headers;
mod meter;
mod pace;
mod shared;

pub use admission::Admission;
pub use bucket::Level;
pub use shared::{LimitServer, LimitServerError, LimitServerTls, SharedLimits, SharedLimitsStats};

use crate::clock::Clock;
use admission::Origin;
use meter::{Meter, Share};
use pace::{Taken, Wanted};
use quick_cache::{UnitWeighter, sync::Cache};
use shared::Order;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
pub use tollgate_types::{Denied, Dimension, Limited};
use tollgate_types::{KeyId, Limits, MaybeReady};

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

type Keys = Cache<KeyId, Arc<Meter>, UnitWeighter, foldhash::fast::RandomState>;

/// The limits of all keys. Cheap to clone.
#[derive(Clone)]
pub struct Limiter {
    keys: Arc<Keys>,
    clock: Clock,
    /// What [`Clock::elapsed_ms`] said when it was made.
    since_ms: u64,
    sharing: Option<Arc<Sharing>>,
}

/// How a process shares limits with others.
struct Sharing {
    /// How many processes live.
    nodes: Arc<AtomicU32>,
    server: Option<SharedLimits>,
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
            sharing: None,
        }
    }

    /// Shares the limits with the other ones of `nodes` living processes: through a server, if there is
    /// one, else each process applies an equal share.
    #[must_use]
    pub fn shared_by(mut self, nodes: Arc<AtomicU32>, server: Option<&SharedLimits>) -> Self {
        if let Some(server) = server {
            server.serve(&self.keys);
        }
        let server = server.cloned();
        self.sharing = Some(Arc::new(Sharing { nodes, server }));
        self
    }

    /// Lets a request of `input` tokens and at most `output` tokens through, or nothing
    /// is taken from any limit. By what this process knows: it asks no server.
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
        let share = self.share(limits);
        meter.enter(share.limits.concurrent)?;
        // From here on dropping the admission gives back what was taken.
        let mut admission = Admission {
            meter,
            limiter: self.clone(),
            taken: Taken::default(),
            origin: match self.server() {
                Some(server) => Origin::Share(key.clone(), server.clone()),
                None => Origin::Node,
            },
        };
        let wanted = Wanted::request(input, output);
        let now_ms = || self.now_ms();
        admission.taken = admission.meter.take(limits, &share, wanted, now_ms)?;
        Ok(admission)
    }

    /// The same by the limits that all processes share. A key without limits waits for nothing.
    pub fn admit_shared(
        &self,
        key: &KeyId,
        limits: &Limits,
        input: u64,
        output: u64,
    ) -> MaybeReady<Result<Admission, Limited>> {
        let server = self.server().filter(|server| server.is_open());
        let server = server.filter(|_| *limits != Limits::default());
        let Some(server) = server.cloned() else {
            return MaybeReady::ready(self.admit(key, limits, input, output));
        };
        let (key, limits, limiter) = (key.clone(), *limits, self.clone());
        MaybeReady::pending(async move {
            let wanted = Wanted::request(input, output);
            let order = |reply| Order::new(&limiter, &key, &limits, wanted, reply);
            match server.admit(order).await {
                Some(answer) => answer,
                None => limiter.admit(&key, &limits, input, output),
            }
        })
    }

    /// How many requests of the key are under way in this process.
    pub fn running(&self, key: &KeyId) -> u32 {
        let meter = self.keys.peek(key);
        meter.map_or(0, |meter| meter.running())
    }

    /// How the key stands, as far as this process has seen.
    pub fn standing(&self, key: &KeyId, limits: &Limits) -> Standing {
        let meter = self.meter(key);
        let share = self.share(limits);
        let mut paces = meter.paces();
        paces.go_by_share(&share, || self.now_ms());
        paces.standing(|| self.now_ms())
    }

    /// The state of the server that processes share, if there is one.
    pub fn shared_stats(&self) -> Option<SharedLimitsStats> {
        self.server().map(SharedLimits::stats)
    }

    fn server(&self) -> Option<&SharedLimits> {
        self.sharing.as_ref()?.server.as_ref()
    }

    /// What this process may use of limits when it asks no server.
    fn share(&self, limits: &Limits) -> Share {
        let Some(sharing) = &self.sharing else {
            return Share::whole(limits);
        };
        match &sharing.server {
            Some(server) if server.is_open() => Share::of(limits, 1, server.period()),
            server => {
                let nodes = sharing.nodes.load(Ordering::Relaxed);
                let period = server.as_ref().map_or(0, SharedLimits::period);
                Share::of(limits, nodes.max(1), period)
            }
        }
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

#[cfg(test)]
mod tests;
