//! A disconnect of a caller of HTTP/1.1 that its connection does not report yet, because the gateway
//! reads on in the caller's answer. When that is allowed, and for how long, the gateway decides
//! (`gateway/drain.rs`).

use crate::gateway::{Drain, Draining};
use once_cell::sync::OnceCell;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep};

/// Whether the caller of a connection is gone, and whether that is to be reported.
#[derive(Default)]
pub(super) struct Departure {
    /// Shared with the request that is being answered.
    drain: OnceCell<Drain>,
    held_back: Option<HeldBack>,
}

/// A disconnect that is not reported before some time has passed.
struct HeldBack {
    until: Pin<Box<Sleep>>,
    _counted: Draining,
}

impl Departure {
    /// What the connection shares with its requests.
    pub(super) fn drain(&self) -> Drain {
        self.drain.get_or_init(Drain::default).clone()
    }

    /// Whether the caller is gone, and that was held back: nothing can reach it.
    pub(super) const fn is_held_back(&self) -> bool {
        self.held_back.is_some()
    }

    /// The caller is gone. `Pending`: that is not to be reported yet.
    pub(super) fn poll_report(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.held_back.is_none() {
            let begun = self.drain.get().and_then(Drain::begin);
            self.held_back = begun.map(|(time, counted)| HeldBack {
                until: Box::pin(sleep(time)),
                _counted: counted,
            });
        }
        match &mut self.held_back {
            Some(held_back) => held_back.until.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }

    /// The request is over.
    pub(super) fn end_request(&self) {
        if let Some(drain) = self.drain.get() {
            drain.forbid();
        }
    }
}
