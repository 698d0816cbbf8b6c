//! Limits that several processes share, in Redis or Valkey.
//!
//! Each admission is one call of one script (`limits.lua`), which applies the formula of `bucket` to
//! all limits of a key at once, by the clock of the server. Corrections at the end of a request follow
//! in order, and requests do not wait for them. A thread of its own keeps the one connection.
//!
//! A request does not wait for its admission, either, if the last answer leaves room for as many of its
//! kind as there are processes. One at a time: if the others have used the room since, each process exceeds
//! the limit by one request, and then waits for the server for a window.
//!
//! If the server does not answer in time, the process stops asking it and admits by its share until a
//! probe in the background succeeds. Then the server gets what each bucket has taken meanwhile, and what
//! all processes owe as far as this one knows.

mod command;
mod driver;
mod server;

pub(super) use command::{Order, Settlement};
pub use server::{LimitServer, LimitServerError};

use super::{
    Admission, Keys,
    meter::{Meter, Paces},
};
use crate::{key, store::StoreError};
use command::{Command, Renewal};
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
use tollgate_types::{KeyId, Limited};

/// Commands that wait for the server, at most. If there are more, it is too slow.
const MOST_QUEUED: usize = 16 * 1024;

/// The server that processes share limits through. Cheap to clone. It ends with its last clone.
#[derive(Clone)]
pub struct SharedLimits {
    state: Arc<State>,
    queue: mpsc::Sender<Command>,
}

/// What this process knows of the server's count of a key.
#[derive(Debug, Default)]
pub(super) struct ServerView {
    /// Admissions that the server has not answered yet.
    pub(super) unanswered: u32,
    last: Option<LastAnswer>,
    /// Until then every request waits for the server, because one was admitted beyond a limit.
    waits_until_ms: u64,
}

#[derive(Debug)]
struct LastAnswer {
    /// The [`SharedLimits::period`] in which it came.
    period: u64,
    /// Requests that run in other processes.
    others: u32,
}

/// How limits are shared, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLimitsStats {
    /// Whether the server counts now; `None`: there is none.
    pub by_server: Option<bool>,
    /// Whether the database answers, in which processes lease shares without the server; if not, the last
    /// ones hold. `None`: it is a file.
    pub by_database: Option<bool>,
    /// How often the server was lost.
    pub fallbacks: u64,
}

/// State for request threads and the thread of the connection.
struct State {
    address: String,
    timeout: Duration,
    is_open: AtomicBool,
    /// The number of times that the server was away, the present one included.
    period: AtomicU64,
    /// The last fault that was logged.
    logged: Mutex<String>,
    /// Wakes the requests that wait when the server is lost.
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
        let address = server.address().to_owned();
        let state = Arc::new(State {
            address: address.clone(),
            timeout,
            is_open: AtomicBool::new(false),
            period: AtomicU64::new(1),
            logged: Mutex::default(),
            closed: Notify::new(),
            keys: OnceLock::new(),
        });
        let driver = Driver::new(server, Arc::clone(&state), node, &queue, commands);
        crate::directory::spawn("shared-limits", address.as_ref(), move || driver.run())?;
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

    /// How often the server was lost.
    pub(super) fn fallbacks(&self) -> u64 {
        self.period().saturating_sub(1)
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
        if !self.send(Command::Admit(order(reply))) {
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

    /// Sends a request that was admitted already.
    pub(super) fn charge(&self, order: Order) {
        self.send(Command::Admit(order));
    }

    pub(super) fn settle(&self, settlement: Settlement) {
        if settlement.is_needed() {
            self.send(Command::Settle(settlement));
        }
    }

    /// Corrects how many requests of this process the server counts, if that is known for certain.
    /// Must be called with the lock of the meter, whose count is sent.
    pub(super) fn renew(&self, key: &KeyId, paces: &Paces, meter: &Meter) {
        if let Some(renewal) = Renewal::of(key, paces, meter) {
            self.send(Command::Renew(renewal));
        }
    }

    fn send(&self, command: Command) -> bool {
        let is_sent = self.queue.try_send(command).is_ok();
        if !is_sent {
            self.state.close("too many requests wait for it");
        }
        is_sent
    }
}

impl ServerView {
    /// The requests that run in other processes. `None`: a request must wait for the server, because the last
    /// answer is not of this period, another one is on its way, or a request was admitted beyond a limit.
    pub(super) fn others(&self, period: u64, now_ms: u64) -> Option<u32> {
        let last = self.last.as_ref().filter(|it| it.period == period)?;
        let is_current = self.unanswered == 0 && self.waits_until_ms <= now_ms;
        is_current.then_some(last.others)
    }
}

impl State {
    /// The server counts again.
    fn open(&self) {
        self.logged.lock().clear();
        if !self.is_open.swap(true, Ordering::AcqRel) {
            log::info!("limits are shared through {}", self.address);
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
            self.address
        );
    }
}

impl std::fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedLimits")
            .field(&self.state.address)
            .finish()
    }
}

#[cfg(test)]
pub(super) mod tests;
