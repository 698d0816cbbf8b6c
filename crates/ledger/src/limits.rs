//! The limits of a key: requests, input tokens and output tokens per minute, and concurrent
//! requests.
//!
//! Whether it can pay is decided in `balance`. One process keeps limits in memory: a restart begins
//! them anew, which lets at most one window more through. Several processes share them through a
//! server (`shared`); without it each applies a share that it leases in the database (`leases`).

mod admission;
mod bucket;
mod headers;
mod leases;
mod meter;
mod pace;
mod share;
mod shared;

pub use admission::Admission;
pub use bucket::Level;
pub(crate) use leases::{LimitClaim, LimitLease};
pub(crate) use share::Part;
#[cfg(test)]
pub(crate) use shared::tests::redis_server;
pub use shared::{LimitServer, LimitServerError, SharedLimits, SharedLimitsStats};

use crate::{
    bounded_cache::{BoundedCache, bounded_cache},
    clock::Clock,
    store::{Store, StoreError},
};
use admission::Shared;
use leases::Leases;
use meter::{Meter, Paces};
use pace::Amounts;
use share::Share;
use shared::Order;
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
pub use tollgate_types::{Denied, Dimension, Limited};
use tollgate_types::{KeyId, Limits, MaybeReady};

/// The state of each limit of a key, for the headers of an answer.
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
    keys: Arc<Keys>,
    sharing: Option<Arc<Sharing>>,
}

struct Keys {
    meters: BoundedCache<KeyId, Arc<Meter>>,
    clock: Clock,
    /// The value of [`Clock::elapsed_ms`] when it was made.
    since_ms: u64,
}

/// How a process shares limits with others.
struct Sharing {
    /// How many processes run.
    nodes: Arc<AtomicU32>,
    server: Option<SharedLimits>,
    /// If the database can divide limits.
    leases: Option<Arc<Leases>>,
}

impl Limiter {
    /// Keeps the state of at most `keys` keys. Beyond that, the least used start again.
    pub fn new(keys: usize, clock: Clock) -> Self {
        Self {
            keys: Arc::new(Keys {
                meters: bounded_cache(keys, 256),
                since_ms: clock.elapsed_ms(),
                clock,
            }),
            sharing: None,
        }
    }

    /// Shares the limits among `nodes` running processes: through a server, if there is one, else through the
    /// database. Without either, each process applies an equal share.
    ///
    /// # Errors
    /// No thread can be started, or the system has no random numbers.
    pub fn shared_by(
        mut self,
        nodes: Arc<AtomicU32>,
        server: Option<&SharedLimits>,
        store: Option<&Store>,
    ) -> Result<Self, StoreError> {
        if let Some(server) = server {
            server.serve(&self.keys);
        }
        let leases = store.map(|store| Leases::start(store, &self.keys, &nodes, server));
        self.sharing = Some(Arc::new(Sharing {
            nodes,
            server: server.cloned(),
            leases: leases.transpose()?.flatten(),
        }));
        Ok(self)
    }

    /// Admits a request of `input` tokens and at most `output` tokens by what this process knows,
    /// without asking the server. Takes nothing if it refuses.
    ///
    /// # Errors
    /// The first limit that the request exceeds.
    pub fn admit(
        &self,
        key: &KeyId,
        limits: &Limits,
        input: u64,
        output: u64,
    ) -> Result<Admission, Limited> {
        let (meter, amounts) = (self.meter(key), Amounts::request(input, output));
        let mut paces = meter.paces();
        let share = self.share(limits, &paces);
        let is_first = self
            .leases()
            .is_some_and(|it| it.note((key, &meter), &mut paces, &share, amounts));
        let taken = meter.admit(&mut paces, &share, amounts, || self.now_ms());
        drop(paces);
        let taken = taken.map_err(|mut refused| {
            // The database is about to lease a share.
            if let (true, Denied::Wait(wait)) = (is_first, &mut refused.denied) {
                *wait = leases::PERIOD.min(*wait);
            }
            refused
        })?;
        Ok(Admission {
            taken,
            meter,
            limiter: self.clone(),
            sharing: self.server().map(|server| Shared {
                key: key.clone(),
                server: server.clone(),
                has_slot: false,
            }),
            used: None,
        })
    }

    /// The same by the limits that all processes share. Keys without limits do not ask the server.
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
        let amounts = Amounts::request(input, output);
        if let Some(admission) = self.admit_ahead(&server, key, limits, amounts) {
            return MaybeReady::ready(Ok(admission));
        }
        let (key, limits, limiter) = (key.clone(), *limits, self.clone());
        MaybeReady::pending(async move {
            let order = |reply| Order::new(&limiter, &key, &limits, amounts, reply);
            let answer = server.admit(order).await;
            answer.unwrap_or_else(|| limiter.admit(&key, &limits, input, output))
        })
    }

    /// Admits without waiting for the server, if what it has last answered leaves enough room.
    fn admit_ahead(
        &self,
        server: &SharedLimits,
        key: &KeyId,
        limits: &Limits,
        amounts: Amounts,
    ) -> Option<Admission> {
        let nodes = self.sharing.as_ref()?.nodes.load(Ordering::Relaxed);
        let nodes = NonZeroU32::new(nodes).unwrap_or(NonZeroU32::MIN);
        let (meter, now_ms) = (self.meter(key), self.now_ms());
        let taken = meter.take_ahead(limits, amounts, nodes, server.period(), now_ms)?;
        let order = Order::charge(self, key, limits, amounts);
        let admission = order.admission(taken);
        server.charge(order);
        Some(admission)
    }

    /// How many requests of the key run in this process.
    pub fn running(&self, key: &KeyId) -> u32 {
        let meter = self.keys.meters.peek(key);
        meter.map_or(0, |meter| meter.running())
    }

    /// How the key stands, as far as this process has seen.
    pub fn standing(&self, key: &KeyId, limits: &Limits) -> Standing {
        let meter = self.meter(key);
        let mut paces = meter.paces();
        let share = self.share(limits, &paces);
        paces.set_share(&share, || self.now_ms());
        paces.standing(|| self.now_ms())
    }

    /// The state of what processes share limits through, if there is anything.
    pub fn shared_stats(&self) -> Option<SharedLimitsStats> {
        let Sharing { server, leases, .. } = self.sharing.as_deref()?;
        if server.is_none() && leases.is_none() {
            return None;
        }
        Some(SharedLimitsStats {
            by_server: server.as_ref().map(SharedLimits::is_open),
            by_database: leases.as_ref().map(|it| it.is_answered()),
            fallbacks: server.as_ref().map_or(0, SharedLimits::fallbacks),
        })
    }

    fn server(&self) -> Option<&SharedLimits> {
        self.sharing.as_ref()?.server.as_ref()
    }

    /// Where shares are leased now.
    fn leases(&self) -> Option<&Leases> {
        let leases = self.sharing.as_ref()?.leases.as_deref();
        leases.filter(|it| it.is_used())
    }

    /// The share of limits that this process may use now.
    fn share(&self, limits: &Limits, paces: &Paces) -> Share {
        if let Some(leases) = self.leases() {
            return leases.share(limits, paces);
        }
        match &self.sharing {
            Some(sharing) if !self.server().is_some_and(SharedLimits::is_open) => {
                Share::equal(limits, sharing.nodes.load(Ordering::Relaxed))
            }
            _ => Share::whole(limits),
        }
    }

    fn now_ms(&self) -> u64 {
        self.keys.now_ms()
    }

    fn meter(&self, key: &KeyId) -> Arc<Meter> {
        if let Some(meter) = self.keys.meters.get(key) {
            return meter;
        }
        let fresh = || Ok::<_, std::convert::Infallible>(Arc::default());
        // Of two requests that come first, one makes the meter and both use it.
        let Ok(meter) = self.keys.meters.get_or_insert_with(key, fresh);
        meter
    }
}

impl Keys {
    fn now_ms(&self) -> u64 {
        self.clock.elapsed_ms().saturating_sub(self.since_ms)
    }
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Limiter")
    }
}

#[cfg(test)]
mod tests;
