//! How the program ends: which signals end it, and when nobody needs to be waited for.

use crate::events::InFlight;
use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How long requests may take to end after an interrupt from the keyboard.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// How long requests that are cut may take to settle and to tell of themselves.
const CUT_PATIENCE: Duration = Duration::from_secs(2);

/// When the program ends at the latest; `None` while nothing ends it.
pub(super) type Deadline = Option<Instant>;

/// Waits until nobody needs this program any more, and cuts who still does at the deadline.
///
/// # Errors
///
/// When Pingora has ended by itself, which it never should.
pub(super) fn wait_for_the_end(
    pingora: &mpsc::Receiver<()>,
    deadline: &watch::Receiver<Deadline>,
    cut: &watch::Sender<bool>,
) -> io::Result<()> {
    /// How often requests under way are counted while the program ends.
    const LOOK: Duration = Duration::from_millis(20);
    loop {
        let look = pingora.recv_timeout(LOOK);
        let Some(deadline) = *deadline.borrow() else {
            match look {
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                _ => return Err(io::Error::other("the proxy has ended by itself")),
            }
        };
        let under_way = InFlight::count();
        if under_way == 0 {
            return Ok(());
        }
        let late = Instant::now().checked_duration_since(deadline);
        if late.is_some() && !cut.send_replace(true) {
            log::warn!("{under_way} requests were cut: the grace period is over");
        }
        if late.is_some_and(|late| late >= CUT_PATIENCE) {
            log::warn!("{under_way} of them do not end: what they cost is not settled");
            return Ok(());
        }
    }
}

/// Tells Pingora to stop taking requests, once it is known how this program is to end.
pub(super) struct Stopping(pub(super) watch::Receiver<Deadline>);

#[async_trait]
impl ShutdownSignalWatch for Stopping {
    async fn recv(&self) -> ShutdownSignal {
        // The sender has gone only when the program is ending already.
        let _ = self.0.clone().wait_for(Option::is_some).await;
        ShutdownSignal::GracefulTerminate
    }
}

/// The signals that the program hears. From the moment this exists none of them kills it.
pub(super) struct Signals {
    pub(super) end: EndSignals,
    /// Asks for a reload.
    pub(super) hangup: Signal,
}

/// The signals that end the program, in good order.
pub(super) struct EndSignals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn take() -> io::Result<Self> {
        Ok(Self {
            end: EndSignals {
                terminate: signal(SignalKind::terminate())?,
                quit: signal(SignalKind::quit())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

impl EndSignals {
    /// How long requests may take to end after the next signal, where `grace` is the
    /// configured time: somebody at a keyboard waits for moments only.
    pub(super) async fn recv(&mut self, grace: Duration) -> Duration {
        tokio::select! {
            _ = self.terminate.recv() => grace,
            _ = self.quit.recv() => grace,
            _ = self.interrupt.recv() => grace.min(INTERRUPT_GRACE),
        }
    }
}
