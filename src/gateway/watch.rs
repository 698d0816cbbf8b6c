//! Ends an attempt whose provider is silent for too long.
//!
//! Pingora calls no hook while nothing arrives, and its only time-out restarts with every read. So a thread
//! checks the deadlines of all attempts every [`TICK`], and shuts down the connection of a late one. The
//! current read then fails as on a broken connection, and [`Watch::has_fired`] shows that it was the
//! clock. `deadlines.rs` decides the deadlines.
//!
//! A connection carries one attempt at a time, also over HTTP/2 (`upstreams` does not allow more), so no
//! other request is affected.

mod socket;

use super::guarded::Backlog;
use once_cell::sync::Lazy;
use parking_lot::{Condvar, Mutex};
pub use socket::Socket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the deadlines are checked.
const TICK: Duration = Duration::from_millis(50);

/// How long bytes that have arrived over HTTP/2 can stay unread, in milliseconds: at the end of a silence,
/// and after a slow caller reads again.
const CATCHING_UP: u64 = 1000;

/// One attempt under watch, until it is dropped.
pub struct Watch(Arc<Watched>);

struct Watched {
    /// Milliseconds since [`START`] at which its silence is too long.
    silence_ends: AtomicU64,
    /// The same at which the request times out.
    request_ends: u64,
    is_over: AtomicBool,
    has_fired: AtomicBool,
    socket: Mutex<Option<Socket>>,
    /// The bytes that the client has not read yet; the socket shows only those that have arrived.
    backlog: Option<Backlog>,
    /// Its caller did not read at the last check.
    was_held_up: AtomicBool,
    /// Its caller did not read at the last two checks.
    is_stuck: AtomicBool,
    /// Whether its connection is read even while its caller reads nothing, as over HTTP/2.
    is_always_read: bool,
}

impl Watch {
    /// Watches the attempt that this socket carries. While its caller has not read `backlog`, the provider
    /// does not count as silent. `None` if the watching thread could not be started.
    pub fn begin(
        socket: Socket,
        is_http2: bool,
        backlog: Option<Backlog>,
        silence_ends: Instant,
        request_ends: Instant,
    ) -> Option<Self> {
        let watched = Arc::new(Watched {
            silence_ends: AtomicU64::new(full_millis(silence_ends)),
            request_ends: full_millis(request_ends),
            is_over: AtomicBool::new(false),
            has_fired: AtomicBool::new(false),
            socket: Mutex::new(Some(socket)),
            backlog,
            was_held_up: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_always_read: is_http2,
        });
        let deadlines = (*DEADLINE_THREAD)?;
        deadlines.arriving.lock().push(Arc::clone(&watched));
        deadlines.wake.notify_one();
        Some(Self(watched))
    }

    /// Sets the time at which the silence is too long.
    pub fn set(&self, silence_ends: Instant) {
        let silence_ends = full_millis(silence_ends);
        self.0.silence_ends.store(silence_ends, Ordering::Relaxed);
    }

    /// The answer comes in small pieces, and nothing goes the other way.
    pub fn expect_events(&self) {
        if let Some(socket) = self.0.socket.lock().as_ref() {
            socket.acknowledge_in_pairs();
        }
    }

    /// Shuts the connection down before its time.
    pub fn shut_down(&self) {
        if let Some(socket) = self.0.socket.lock().take() {
            socket.shut_down();
        }
    }

    /// Whether the clock has ended the attempt.
    pub fn has_fired(&self) -> bool {
        self.0.has_fired.load(Ordering::Acquire)
    }

    /// Whether the request has timed out while its caller did not read.
    pub fn was_the_callers(&self) -> bool {
        let is_late = full_millis(Instant::now()) >= self.0.request_ends;
        is_late && self.0.is_stuck.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        // Waits for a current shutdown: after this, another request has the connection.
        drop(self.0.socket.lock().take());
    }
}

impl Watched {
    /// Shuts the connection down if its time is over. Returns whether to check again.
    fn check(&self, now: u64) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let silence_ends = self.silence_ends.load(Ordering::Relaxed);
        let is_silent = now >= silence_ends;
        let is_late = now >= self.request_ends;
        let is_held = self.backlog.as_ref().is_some_and(Backlog::is_pending);
        let was_held = self.was_held_up.swap(is_held, Ordering::Relaxed);
        let is_held_up = is_held || was_held;
        // A client that reads has a backlog for moments only.
        self.is_stuck.store(is_held && was_held, Ordering::Relaxed);
        if !is_silent && !is_late {
            return true;
        }
        let mut socket = self.socket.lock();
        // Unread bytes wait for the caller, not for the provider. But on a connection that is always read,
        // they wait for the provider, which does not read the replies to its own frames.
        let may_lie_unread = !self.is_always_read || now < silence_ends.saturating_add(CATCHING_UP);
        let lies_unread = || may_lie_unread && socket.as_ref().is_some_and(Socket::has_more);
        if !is_late && (lies_unread() || is_held_up) {
            if !is_held && was_held {
                let again = now.saturating_add(CATCHING_UP);
                self.silence_ends.fetch_max(again, Ordering::Relaxed);
            }
            return true;
        }
        if let Some(socket) = socket.take() {
            self.has_fired.store(true, Ordering::Release);
            socket.shut_down();
        }
        false
    }
}

/// The thread that checks the deadlines.
#[derive(Default)]
struct DeadlineThread {
    /// Attempts that were not checked yet.
    arriving: Mutex<Vec<Arc<Watched>>>,
    wake: Condvar,
}

static START: Lazy<Instant> = Lazy::new(Instant::now);

static DEADLINE_THREAD: Lazy<Option<&'static DeadlineThread>> = Lazy::new(|| {
    let deadlines: &'static DeadlineThread = Box::leak(Box::default());
    let thread = std::thread::Builder::new().name("deadlines".to_owned());
    match thread.spawn(|| deadlines.run()) {
        Ok(_) => Some(deadlines),
        Err(cause) => {
            log::error!("no thread for the deadlines of attempts: {cause}");
            None
        }
    }
});

impl DeadlineThread {
    fn run(&self) {
        let mut watched: Vec<Arc<Watched>> = Vec::new();
        loop {
            let mut arriving = self.arriving.lock();
            if watched.is_empty() && arriving.is_empty() {
                self.wake.wait(&mut arriving);
            }
            watched.append(&mut arriving);
            drop(arriving);
            let now = millis(Instant::now());
            watched.retain(|it| it.check(now));
            // An attempt that arrives meanwhile is checked with the others.
            self.rest();
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a thread of its own that serves no request and blocks none"
    )]
    fn rest(&self) {
        std::thread::sleep(TICK);
    }
}

/// The first full millisecond after an instant.
fn full_millis(instant: Instant) -> u64 {
    millis(instant).saturating_add(1)
}

fn millis(instant: Instant) -> u64 {
    let since = instant.saturating_duration_since(*START);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
