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

/// How the program is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// After the requests under way, within the configured grace.
    Drain,
    /// The same within moments: somebody waits at a keyboard.
    Interrupt,
}

/// Waits until Pingora has ended, or until the program can end without it.
pub(super) fn wait_for_the_end(
    end: &mpsc::Receiver<()>,
    stopping: &watch::Receiver<Option<Stop>>,
    grace: Duration,
) {
    /// How often requests under way are counted while the program ends.
    const LOOK: Duration = Duration::from_millis(20);
    let mut deadline = None;
    loop {
        match end.recv_timeout(LOOK) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        let Some(stop) = *stopping.borrow() else {
            continue;
        };
        let grace = if stop == Stop::Drain {
            grace
        } else {
            grace.min(INTERRUPT_GRACE)
        };
        let deadline = *deadline.get_or_insert_with(|| Instant::now() + grace);
        let under_way = InFlight::count();
        if under_way == 0 {
            return;
        }
        if Instant::now() >= deadline {
            return log::warn!("{under_way} requests were cut: the grace period is over");
        }
    }
}

/// Tells Pingora to stop taking requests, once it is known how this program is to end.
pub(super) struct Stopping(pub(super) watch::Receiver<Option<Stop>>);

#[async_trait]
impl ShutdownSignalWatch for Stopping {
    async fn recv(&self) -> ShutdownSignal {
        // The sender has gone only when the program is ending already.
        let _ = self.0.clone().wait_for(Option::is_some).await;
        ShutdownSignal::GracefulTerminate
    }
}

/// The signals that end the program. From the moment this exists they end it in good order.
pub(super) struct EndSignals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
}

impl EndSignals {
    pub(super) fn take() -> io::Result<Self> {
        // Whoever reloads listens later; until then a reload must not kill.
        let _: Signal = signal(SignalKind::hangup())?;
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn recv(mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::Drain,
            _ = self.quit.recv() => Stop::Drain,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }
}
