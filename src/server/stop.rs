//! Ends the process: the signals that end it, and how long it waits for requests.

use crate::gateway::Leaves;
use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tollgate_telemetry::events::InFlight;

/// How long requests may take to end after an interrupt from the keyboard.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// How long interrupted requests may take to settle and to be logged.
const CUT_PATIENCE: Duration = Duration::from_secs(2);

/// How the process ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The latest end.
    pub(super) deadline: Instant,
    /// Until when clients' unused connections are kept for one more request.
    pub(super) idle_until: Instant,
    /// The same as a duration; other connections are kept for as long after their last use.
    idle_for: Duration,
}

impl End {
    /// An end that begins now: running requests may take `grace`, and unused connections are kept for `idle`.
    pub(super) fn within(grace: Duration, idle: Duration) -> Self {
        let now = Instant::now();
        Self {
            deadline: now + grace,
            idle_until: now + idle.min(grace),
            idle_for: idle.min(grace),
        }
    }

    /// Until when a connection that was last used then is kept if its client was not asked to reconnect
    /// yet.
    fn idle_until_since(&self, last_used: Instant) -> Instant {
        let own = last_used.checked_add(self.idle_for).unwrap_or(last_used);
        self.idle_until.max(own.min(self.deadline))
    }

    /// The earlier of both: a later signal never postpones the end.
    fn and(self, later: Self) -> Self {
        Self {
            deadline: self.deadline.min(later.deadline),
            idle_until: self.idle_until.min(later.idle_until),
            idle_for: self.idle_for.min(later.idle_for),
        }
    }
}

/// The end of the process, once it has begun.
pub(super) type Ending = Option<End>;

/// Begins the end, or brings it forward.
pub(super) fn begin_end(ending: &watch::Sender<Ending>, end: End) {
    ending.send_modify(|known| *known = Some(known.map_or(end, |known| known.and(end))));
}

/// Whether the end has begun.
pub(super) fn begun(ending: &watch::Receiver<Ending>) -> Leaves {
    let ending = ending.clone();
    // Runs for each piece of an answer: reads an atomic, takes no lock. Without a sender, the end has begun.
    Box::new(move || ending.has_changed().unwrap_or(true))
}

/// Waits until an unused connection must be closed: for the same time after `last_used` and after the beginning of
/// the end, which its client did not know before. Waits for ever until the end begins.
pub(super) async fn idle_is_over(mut ending: watch::Receiver<Ending>, last_used: Instant) {
    loop {
        let until = ending
            .borrow_and_update()
            .map(|end| end.idle_until_since(last_used));
        let over = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => return,
            changed = ending.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Counts the open sessions of clients: HTTP/1.1 connections, used or not; HTTP/2 connections whose client does
/// not know of the end yet; and HTTP/2 streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions(Arc<AtomicUsize>);

/// One session, until it is dropped.
pub(super) struct Session(Arc<AtomicUsize>);

impl Sessions {
    pub(super) fn begin(&self) -> Session {
        self.0.fetch_add(1, Ordering::AcqRel);
        Session(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits until all requests have ended, and interrupts the rest at the deadline.
///
/// # Errors
///
/// Pingora has ended unexpectedly.
pub(super) fn wait_for_the_end(
    pingora: &mpsc::Receiver<()>,
    ending: &watch::Receiver<Ending>,
    sessions: &Sessions,
    cut: &watch::Sender<bool>,
) -> io::Result<()> {
    /// The interval at which running requests are counted during the end.
    const LOOK: Duration = Duration::from_millis(20);
    let mut last_busy = Instant::now();
    loop {
        let look = pingora.recv_timeout(LOOK);
        let Some(end) = *ending.borrow() else {
            match look {
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                _ => return Err(io::Error::other("the proxy has ended unexpectedly")),
            }
        };
        let under_way = InFlight::all();
        let now = Instant::now();
        if under_way > 0 {
            last_busy = now;
        }
        if under_way == 0 && is_left(end, sessions, last_busy, now) {
            return Ok(());
        }
        let late = now.checked_duration_since(end.deadline);
        if late.is_some() && !cut.send_replace(true) {
            log::warn!("{under_way} requests were cut: the grace period is over");
        }
        if late.is_some_and(|late| late >= CUT_PATIENCE) {
            log::warn!("{under_way} of them did not end and are not settled");
            return Ok(());
        }
    }
}

/// Whether no client uses a connection any more, if requests ran until `last_busy`.
fn is_left(end: End, sessions: &Sessions, last_busy: Instant, now: Instant) -> bool {
    /// The time to close unused connections, and for a connection that was just accepted to be counted.
    const MARGIN: Duration = Duration::from_secs(1);
    let until_idle = end.idle_until.saturating_duration_since(now);
    match sessions.count() {
        0 => until_idle.is_zero() || until_idle + MARGIN < end.idle_for,
        _ => now.saturating_duration_since(end.idle_until_since(last_busy)) >= MARGIN,
    }
}

/// Makes Pingora stop accepting requests once the end has begun.
pub(super) struct Stopping(pub(super) watch::Receiver<Ending>);

#[async_trait]
impl ShutdownSignalWatch for Stopping {
    async fn recv(&self) -> ShutdownSignal {
        // Without a sender, the process is already ending.
        let _ = self.0.clone().wait_for(Option::is_some).await;
        ShutdownSignal::GracefulTerminate
    }
}

/// The operator's runtime, which handles `SIGHUP`: once this exists, the signal does not end the process.
/// A signal that arrives before the process serves takes effect when it does.
///
/// Created first, because a signal to all processes of a service also reaches one that is starting.
pub struct Hangups {
    runtime: Runtime,
    signal: Signal,
}

impl Hangups {
    /// Takes the signal.
    ///
    /// # Errors
    ///
    /// The system gives no runtime, or not the signal.
    pub fn take() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signal = {
            let _guard = runtime.enter();
            signal(SignalKind::hangup())?
        };
        Ok(Self { runtime, signal })
    }

    /// The runtime, and the other signals with it.
    pub(super) fn and_others(self) -> io::Result<(Runtime, Signals)> {
        let Self { runtime, signal } = self;
        let signals = {
            let _guard = runtime.enter();
            Signals::take(signal)?
        };
        Ok((runtime, signals))
    }
}

/// The handled signals. Once this exists, none of them kills the process.
pub(super) struct Signals {
    pub(super) end: EndSignals,
    /// Starts a hand-over to another process.
    pub(super) quit: Signal,
    /// Starts a reload.
    pub(super) hangup: Signal,
}

/// The signals that end the process gracefully.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn take(hangup: Signal) -> io::Result<Self> {
        // Sent after the rotation of log files. The file is followed anyway, and the signal must not kill.
        drop(signal(SignalKind::user_defined1())?);
        Ok(Self {
            end: EndSignals {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
            quit: signal(SignalKind::quit())?,
            hangup,
        })
    }
}

impl EndSignals {
    /// How long requests may take to end after the next signal. `grace`: the configured time. At a keyboard it is
    /// shorter.
    pub(super) async fn recv(&mut self, grace: Duration) -> Duration {
        tokio::select! {
            _ = self.terminate.recv() => grace,
            _ = self.interrupt.recv() => grace.min(INTERRUPT_GRACE),
        }
    }
}
