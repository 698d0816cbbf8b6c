//! Reads on in an answer that is about to end, after its caller has disconnected, so that the
//! request is charged what its provider reports.
//!
//! Pingora closes the provider's stream as soon as it sees that the caller is gone. So the caller's
//! connection does not show it while this is allowed: what is written to it is dropped, and what is
//! read from it is yet to come ([`Drain::begin`] is called by `server/connections/wire.rs`). Only
//! HTTP/1.1 can do that. Over HTTP/2 Pingora asks the stream itself, which belongs to a library.

use super::exchange::Exchange;
use super::settlement;
use crate::limits::DrainLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Answers in which the gateway reads on at this moment.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// What a caller's connection and the request on it know of a disconnect.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    /// Milliseconds that a drain may take.
    time: AtomicU64,
    /// Drains that this process may have.
    requests: AtomicUsize,
}

/// A disconnect is reported at once.
const REPORT: u8 = 0;
/// A disconnect begins a drain.
const ALLOWED: u8 = 1;
/// The caller has disconnected.
const DRAINING: u8 = 2;

impl Drain {
    /// From here on a disconnect begins a drain.
    fn allow(&self, limits: &DrainLimits) {
        let time = u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX);
        self.0.time.store(time, Ordering::Relaxed);
        self.0.requests.store(limits.requests, Ordering::Relaxed);
        self.change(REPORT, ALLOWED);
    }

    /// The request is over: the next one on its connection allows it anew.
    pub fn forbid(&self) {
        self.change(ALLOWED, REPORT);
    }

    /// The caller has disconnected. How long that is not to be reported, and what counts it until
    /// then; `None`: it is reported at once.
    pub fn begin(&self) -> Option<(Duration, Draining)> {
        if self.0.phase.load(Ordering::Acquire) != ALLOWED {
            return None;
        }
        let most = self.0.requests.load(Ordering::Relaxed);
        let counted = Draining::within(most)?;
        let time = Duration::from_millis(self.0.time.load(Ordering::Relaxed));
        self.change(ALLOWED, DRAINING).then_some((time, counted))
    }

    /// Whether the caller has disconnected, and the answer is read on.
    pub fn is_under_way(&self) -> bool {
        self.0.phase.load(Ordering::Acquire) == DRAINING
    }

    fn change(&self, from: u8, to: u8) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let changed = self.0.phase.compare_exchange(from, to, order.0, order.1);
        changed.is_ok()
    }
}

/// One of the drains of this process, until it is dropped.
#[derive(Debug)]
pub struct Draining(());

impl Draining {
    fn within(most: usize) -> Option<Self> {
        let take = |all: usize| (all < most).then(|| all.saturating_add(1));
        let taken = UNDER_WAY.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.is_ok().then(|| Self(()))
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a request knows of its caller's disconnect.
#[derive(Default)]
pub struct CallerWatch {
    /// Shared with the caller's connection; `None` where that cannot hold a disconnect back.
    drain: Option<Drain>,
    is_allowed: bool,
    /// Bytes that have come since the disconnect.
    drained: u64,
}

impl CallerWatch {
    /// The watch over a caller's connection, while another attempt is made for its request: the answer
    /// of an earlier one, which was about to end, is gone.
    pub fn over(drain: Option<Drain>) -> Self {
        if let Some(drain) = &drain {
            drain.forbid();
        }
        Self {
            drain,
            ..Self::default()
        }
    }

    /// Whether the caller has disconnected, and the answer is read on.
    pub fn is_draining(&self) -> bool {
        self.drain.as_ref().is_some_and(Drain::is_under_way)
    }

    /// Notes bytes that have come from the provider; `false`: they are too many for a drain.
    pub fn note_bytes(&mut self, bytes: usize, limits: &DrainLimits) -> bool {
        if !self.is_draining() {
            return true;
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.drained = self.drained.saturating_add(bytes);
        self.drained <= limits.bytes
    }
}

/// Looks at how far the answer has come: a disconnect begins a drain once the answer is about to
/// end and its usage has not come.
pub fn look(exchange: &mut Exchange) {
    let caller = &mut exchange.caller;
    let Some(drain) = &caller.drain else {
        return;
    };
    let admitted = exchange.stage.admitted();
    let is_one = admitted.is_none_or(|it| it.facts().choices <= 1);
    let answer = &exchange.answer;
    let is_reported = settlement::reported(answer).is_some_and(|usage| usage.output > 0);
    let is_due = is_one && answer.is_about_to_end() && !is_reported;
    if is_due == caller.is_allowed {
        return;
    }
    caller.is_allowed = is_due;
    if is_due {
        drain.allow(&exchange.snapshot.drain);
    } else {
        drain.forbid();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, for drains are counted once for the whole process.
    #[test]
    fn a_disconnect_begins_a_drain_once_it_is_allowed_and_within_the_bound_of_the_process() {
        let limits = DrainLimits {
            time: Duration::from_secs(2),
            bytes: 100,
            requests: 1,
        };
        let (first, second) = (Drain::default(), Drain::default());
        assert!(first.begin().is_none(), "not allowed yet");
        first.allow(&limits);
        let mut caller = CallerWatch::over(Some(second.clone()));
        second.allow(&limits);
        let (time, counted) = first.begin().unwrap();
        assert_eq!(time, limits.time);
        assert!(first.is_under_way());
        assert!(first.begin().is_none(), "it has begun");
        assert!(second.begin().is_none(), "the process has one");
        assert!(!second.is_under_way());
        drop(counted);
        assert!(caller.note_bytes(1000, &limits), "before the disconnect");
        let begun = second.begin();
        assert!(begun.is_some());
        assert!(caller.note_bytes(100, &limits));
        assert!(!caller.note_bytes(1, &limits));
        let third = Drain::default();
        third.allow(&limits);
        drop(CallerWatch::over(Some(third.clone())));
        assert!(third.begin().is_none(), "another attempt");
    }
}
