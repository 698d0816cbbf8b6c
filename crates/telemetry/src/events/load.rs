//! The current load: requests, streams, and the memory that requests hold.

use super::METRICS;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts a request, from its head until it is dropped, and among those with which it competes.
pub struct InFlight(Stage);

/// How far a request has come, as far as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its key is not known yet.
    Arriving,
    /// It goes to a provider.
    UnderWay,
    /// The gateway answers it by itself.
    Local,
    /// It is answered; its caller may still send.
    Lingering,
}

/// Requests that are there, whatever stage they have reached.
static ALL: AtomicU64 = AtomicU64::new(0);
/// Requests that the gateway answers by itself.
static LOCAL: AtomicU64 = AtomicU64::new(0);
/// Requests that are answered and whose callers may still send.
static LINGERING: AtomicU64 = AtomicU64::new(0);

impl InFlight {
    /// One more, whose key is not known yet.
    pub fn begin() -> Self {
        ALL.fetch_add(1, Ordering::Relaxed);
        Self(Stage::Arriving)
    }

    /// Requests to providers under way.
    pub fn count() -> u64 {
        u64::try_from(METRICS.in_flight.get()).unwrap_or(0)
    }

    /// Requests under way that the gateway answers by itself.
    pub fn local() -> u64 {
        LOCAL.load(Ordering::Relaxed)
    }

    /// All requests, whatever stage they have reached.
    pub fn all() -> u64 {
        ALL.load(Ordering::Relaxed)
    }

    /// Counts it as a request to a provider.
    pub fn count_as_upstream(&mut self) {
        self.enter(Stage::UnderWay);
    }

    /// Counts it as a request that the gateway answers itself.
    pub fn count_as_local(&mut self) {
        self.enter(Stage::Local);
    }

    /// Notes that it is answered, so that it competes with no other request. `false`: so many
    /// linger already that the rest of its body is not awaited.
    pub fn linger(&mut self) -> bool {
        const MOST: u64 = 1024;
        self.enter(Stage::Lingering);
        LINGERING.load(Ordering::Relaxed) <= MOST
    }

    fn enter(&mut self, stage: Stage) {
        if self.0 == stage {
            return;
        }
        self.leave();
        self.0 = stage;
        match stage {
            Stage::Arriving => {}
            Stage::UnderWay => METRICS.in_flight.inc(),
            Stage::Local => drop(LOCAL.fetch_add(1, Ordering::Relaxed)),
            Stage::Lingering => drop(LINGERING.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn leave(&self) {
        match self.0 {
            Stage::Arriving => {}
            Stage::UnderWay => METRICS.in_flight.dec(),
            Stage::Local => drop(LOCAL.fetch_sub(1, Ordering::Relaxed)),
            Stage::Lingering => drop(LINGERING.fetch_sub(1, Ordering::Relaxed)),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.leave();
        ALL.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts an answer among those being streamed for as long as it lives.
pub struct OpenStream(());

impl OpenStream {
    /// One more.
    pub fn begin() -> Self {
        METRICS.streams.inc();
        Self(())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        METRICS.streams.dec();
    }
}

/// Bytes of memory that requests hold.
static HELD: AtomicU64 = AtomicU64::new(0);

/// Adds `bytes` to the memory that requests hold, unless `allowed` refuses the new sum. Concurrent
/// readers never see a refused amount.
///
/// # Errors
///
/// The error of `allowed`.
pub fn hold_more<E>(bytes: u64, allowed: impl Fn(u64) -> Result<(), E>) -> Result<(), E> {
    let mut held = held();
    loop {
        let all = held.saturating_add(bytes);
        allowed(all)?;
        match HELD.compare_exchange_weak(held, all, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => held = now,
        }
    }
    METRICS.bodies.add(i64::try_from(bytes).unwrap_or(i64::MAX));
    Ok(())
}

/// Subtracts `bytes` from the memory that requests hold.
pub fn hold_less(bytes: u64) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
    METRICS.bodies.sub(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// How many bytes requests hold.
pub fn held() -> u64 {
    HELD.load(Ordering::Relaxed)
}
