//! The limits of a key: requests, input tokens and output tokens per minute, and concurrent
//! requests. Whether it can pay is decided in `balance`.
//!
//! How a request is admitted depends on the [`Mode`] of that moment:
//!
//! | Mode | First condition that holds | A request is admitted |
//! |---|---|---|
//! | `Server` | the shared server answers | by its answer, or at once if its last answer left room (`shared`) |
//! | `Alone` | one process runs | by buckets in memory, which count all requests |
//! | `Leased` | the database is PostgreSQL | by buckets of the share that this process leases in it (`leases`) |
//! | `Divided` | always | by buckets of an equal share |
//!
//! Buckets outlive changes of the mode. A restart begins them anew, which lets at most one window more through.

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
use admission::AtServer;
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
    /// `None`: no other process can run.
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
    processes: Processes,
    /// If the database can divide limits.
    leases: Option<Arc<Leases>>,
}

/// The processes that share limits, and the server that can count for all of them. Cheap to clone.
#[derive(Clone)]
struct Processes {
    number: Arc<AtomicU32>,
    server: Option<SharedLimits>,
}

/// Where requests are counted now.
#[derive(Clone, Copy)]
enum Mode<'a> {
    /// In this process, the only one.
    Alone,
    /// At the server, for so many processes.
    Server(&'a SharedLimits, NonZeroU32),
    /// In each process. The database leases shares of each limit.
    Leased(&'a Leases),
    /// In each of so many processes. Each has an equal share of each limit.
    Divided(NonZeroU32),
}

impl Standing {
    /// Whether a request fits one of so many equal parts of what remains.
    fn fits(&self, amounts: Amounts, parts: NonZeroU32) -> bool {
        let fits = |level: Option<Level>, amount: u64| {
            level.is_none_or(|it| amount <= it.remaining / u64::from(parts.get()))
        };
        fits(self.requests, amounts.requests)
            && fits(self.input_tokens, amounts.input)
            && fits(self.output_tokens, amounts.output)
    }
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
        let processes = Processes {
            number: nodes,
            server: server.cloned(),
        };
        let leases = store.map(|store| Leases::start(store, &self.keys, &processes));
        self.sharing = Some(Arc::new(Sharing {
            processes,
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
        let mode = self.mode();
        let share = mode.share(limits, &paces);
        let is_first = match mode {
            Mode::Leased(leases) => leases.note((key, &meter), &mut paces, &share, amounts),
            Mode::Alone | Mode::Server(..) | Mode::Divided(_) => false,
        };
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
            at_server: self.server().map(|server| AtServer {
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
        let (server, processes) = match self.mode() {
            Mode::Server(server, processes) if *limits != Limits::default() => (server, processes),
            _ => return MaybeReady::ready(self.admit(key, limits, input, output)),
        };
        let amounts = Amounts::request(input, output);
        if let Some(admission) = self.admit_ahead((server, processes), key, limits, amounts) {
            return MaybeReady::ready(Ok(admission));
        }
        let (key, limits, limiter, server) = (key.clone(), *limits, self.clone(), server.clone());
        MaybeReady::pending(async move {
            let order = |reply| Order::new(&limiter, &key, &limits, amounts, reply);
            let answer = server.admit(order).await;
            answer.unwrap_or_else(|| limiter.admit(&key, &limits, input, output))
        })
    }

    /// Admits without waiting for the server, if what it has last answered leaves enough room.
    fn admit_ahead(
        &self,
        (server, processes): (&SharedLimits, NonZeroU32),
        key: &KeyId,
        limits: &Limits,
        amounts: Amounts,
    ) -> Option<Admission> {
        let (meter, now_ms) = (self.meter(key), self.now_ms());
        let taken = meter.take_ahead(limits, amounts, processes, server.period(), now_ms)?;
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
        let share = self.mode().share(limits, &paces);
        paces.set_share(&share, || self.now_ms());
        paces.standing(|| self.now_ms())
    }

    /// The state of what processes share limits through, if there is anything.
    pub fn shared_stats(&self) -> Option<SharedLimitsStats> {
        let Sharing { processes, leases } = self.sharing.as_deref()?;
        let server = &processes.server;
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
        self.sharing.as_ref()?.processes.server.as_ref()
    }

    fn mode(&self) -> Mode<'_> {
        let Some(Sharing { processes, leases }) = self.sharing.as_deref() else {
            return Mode::Alone;
        };
        match (processes.open_server(), processes.number(), leases) {
            (Some(server), number, _) => Mode::Server(server, number),
            (None, NonZeroU32::MIN, _) => Mode::Alone,
            (None, _, Some(leases)) => Mode::Leased(leases),
            (None, number, None) => Mode::Divided(number),
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

impl Processes {
    fn number(&self) -> NonZeroU32 {
        let number = NonZeroU32::new(self.number.load(Ordering::Relaxed));
        number.unwrap_or(NonZeroU32::MIN)
    }

    /// The server, if it counts now.
    fn open_server(&self) -> Option<&SharedLimits> {
        self.server.as_ref().filter(|server| server.is_open())
    }
}

impl Mode<'_> {
    /// The limits that this process applies to requests that it admits by itself.
    fn share(self, limits: &Limits, paces: &Paces) -> Share {
        match self {
            Self::Alone | Self::Server(..) => Share::whole(limits),
            Self::Leased(leases) => leases.share(limits, paces),
            Self::Divided(processes) => Share::equal(limits, processes),
        }
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
