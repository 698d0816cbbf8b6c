//! Limits that several processes share, in Redis or Valkey.
//!
//! Each admission is one call of one script (`limits.lua`), which applies the formula of `bucket` to
//! all limits of a key at once, by the clock of the server. What requests give back follows in order,
//! and nobody waits for it. A thread of its own keeps the one connection.
//!
//! If the server does not answer in time, the process stops asking it, and admits by its share until a
//! probe in the background succeeds. Whatever was admitted meanwhile is not counted afterwards, except
//! for the requests that are still under way.

mod command;
mod driver;
mod server;

pub(super) use command::Order;
pub use server::{LimitServer, LimitServerError, LimitServerTls};

use super::{
    Admission, Keys,
    meter::{Meter, Paces},
    pace::Taken,
};
use crate::{key, store::StoreError};
use command::{Command, Renewal, Settlement};
use driver::Driver;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, mpsc, oneshot};
use tollgate_types::{KeyId, Limited, Limits};

/// Commands that wait for the server, at most; more are left out.
const MOST_QUEUED: usize = 16 * 1024;

/// The server that processes share limits through. Cheap to clone. It ends with its last clone.
#[derive(Clone)]
pub struct SharedLimits {
    state: Arc<State>,
    queue: mpsc::Sender<Command>,
}

/// What is counted of the server, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLimitsStats {
    /// Whether limits are shared now; if not, this process applies its share.
    pub is_shared: bool,
    /// How often it has changed to its share.
    pub fallbacks: u64,
    /// Corrections that were lost because too many waited.
    pub lost: u64,
}

/// What request threads and the thread of the connection know.
struct State {
    place: String,
    timeout: Duration,
    is_open: AtomicBool,
    /// The number of times that the server was away, the present one included; see
    /// [`super::meter::Share::period`].
    period: AtomicU64,
    lost: AtomicU64,
    /// The last fault that was logged.
    logged: Mutex<String>,
    /// The server does not count any more: requests that wait for it go on without.
    closed: Notify,
    keys: OnceLock<Weak<Keys>>,
}

impl SharedLimits {
    /// Connects in the background.
    ///
    /// # Errors
    /// No thread can be started, or the system has no random numbers.
    pub fn start(server: LimitServer, timeout: Duration) -> Result<Self, StoreError> {
        let (queue, commands) = mpsc::channel(MOST_QUEUED);
        let mut node = String::new();
        key::push_random(&mut node, 12)?;
        let place = server.place().to_owned();
        let state = Arc::new(State {
            place: place.clone(),
            timeout,
            is_open: AtomicBool::new(false),
            period: AtomicU64::new(1),
            lost: AtomicU64::new(0),
            logged: Mutex::default(),
            closed: Notify::new(),
            keys: OnceLock::new(),
        });
        let driver = Driver::new(server, Arc::clone(&state), node, &queue, commands);
        crate::directory::spawn("shared-limits", place.as_ref(), move || driver.run())?;
        Ok(Self { state, queue })
    }

    /// The keys whose requests are counted.
    pub(super) fn serve(&self, keys: &Arc<Keys>) {
        // Another limiter with the same server would have the same keys.
        let _ = self.state.keys.set(Arc::downgrade(keys));
    }

    /// Whether the server counts.
    pub(super) fn is_open(&self) -> bool {
        self.state.is_open.load(Ordering::Acquire)
    }

    /// Which time without the server this is, or the last one.
    pub(super) fn period(&self) -> u64 {
        self.state.period.load(Ordering::Acquire)
    }

    /// The state and the counts.
    pub fn stats(&self) -> SharedLimitsStats {
        SharedLimitsStats {
            is_shared: self.is_open(),
            fallbacks: self.period().saturating_sub(1),
            lost: self.state.lost.load(Ordering::Relaxed),
        }
    }

    /// Asks the server, within the time-out. `None`: it does not count now.
    pub(super) async fn admit(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<Admission, Limited>>) -> Order,
    ) -> Option<Result<Admission, Limited>> {
        let closed = self.state.closed.notified();
        tokio::pin!(closed);
        // What closes it from here on wakes this request.
        closed.as_mut().enable();
        if !self.is_open() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        let order = order(reply);
        let sent = order.send(|command| self.queue.try_send(command).is_ok());
        if !sent {
            self.state.close("too many requests wait for it");
            return None;
        }
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = closed => None,
            () = tokio::time::sleep(self.state.timeout) => {
                let timeout = self.state.timeout.as_millis();
                self.state.close(&format!("no answer within {timeout} ms"));
                None
            }
        }
    }

    /// Sends what a request gives back or owes. `used`: input and output tokens; without them it gives
    /// back everything.
    pub(super) fn settle(
        &self,
        key: &KeyId,
        limits: &Limits,
        has_slot: bool,
        taken: &Taken,
        used: Option<(u64, u64)>,
    ) {
        let settlement = Settlement::new(key, limits, has_slot, taken, used);
        if settlement.is_needed() {
            self.send(Command::Settle(settlement));
        }
    }

    /// Corrects how many requests of this process the server counts, if that is known for certain.
    /// Must be called with the lock of the meter, whose count is sent.
    pub(super) fn renew(&self, key: &KeyId, paces: &Paces, meter: &Meter) {
        let renewal = Renewal::of(key, paces, meter);
        if let Some(renewal) = renewal.filter(|_| self.is_open()) {
            self.send(Command::Renew(renewal));
        }
    }

    fn send(&self, command: Command) {
        if self.queue.try_send(command).is_err() {
            self.state.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl State {
    /// The server counts again.
    fn open(&self) {
        self.logged.lock().clear();
        if !self.is_open.swap(true, Ordering::AcqRel) {
            log::info!("limits are shared through {}", self.place);
        }
    }

    /// The server does not count any more.
    fn close(&self, why: &str) {
        if self.is_open.swap(false, Ordering::AcqRel) {
            self.period.fetch_add(1, Ordering::AcqRel);
            self.log(why);
        }
        self.closed.notify_waiters();
    }

    /// The server still does not count.
    fn failed(&self, why: &str) {
        if *self.logged.lock() != why {
            self.log(why);
        }
    }

    fn log(&self, why: &str) {
        why.clone_into(&mut self.logged.lock());
        log::warn!(
            "limits are not shared: {}: {why}; this gateway applies its share of each limit",
            self.place
        );
    }
}

impl std::fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedLimits")
            .field(&self.state.place)
            .finish()
    }
}

#[cfg(test)]
mod tests;
