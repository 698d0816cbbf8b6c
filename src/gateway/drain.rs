//! Reads the end of an answer after the client has disconnected, so that the request is charged what its
//! provider reports.
//!
//! Pingora closes the provider's stream as soon as it sees that the client is gone. During a drain, the
//! client's connection hides that: it drops what is written, and its reads stay pending
//! (`server/connections/wire.rs` calls [`Drain::begin`]). Only HTTP/1.1 can do that. Over HTTP/2, Pingora
//! asks the stream of the h2 library.

use super::exchange::Exchange;
use super::{load, settlement};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tollgate_config::DrainSettings;
use tollgate_types::{KeyShares, Resource, Share, leaves_room};

/// Current drains of the process.
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);

/// The state of a disconnect, shared by a client's connection and its request.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    /// The limits and the key of the request that has allowed a drain last.
    allowed: Mutex<Option<(DrainSettings, KeyShares)>>,
}

/// A disconnect is reported at once.
const REPORT: u8 = 0;
/// A disconnect begins a drain.
const ALLOWED: u8 = 1;
/// The caller has disconnected.
const DRAINING: u8 = 2;

impl Drain {
    /// Lets a disconnect begin a drain from here on.
    fn allow(&self, limits: DrainSettings, key: KeyShares) {
        *self.0.allowed.lock() = Some((limits, key));
        self.change(REPORT, ALLOWED);
    }

    /// Lets a disconnect be reported at once again: the request is over, or its answer is not about to end.
    pub fn forbid(&self) {
        self.change(ALLOWED, REPORT);
    }

    /// Begins a drain, because the client has disconnected. Returns how long the connection may hide that,
    /// and the guard that counts the drain. `None`: it is reported at once.
    pub fn begin(&self) -> Option<(Duration, Draining)> {
        if self.0.phase.load(Ordering::Acquire) != ALLOWED {
            return None;
        }
        let (limits, key) = self.0.allowed.lock().take()?;
        let counted = Draining::within(limits.requests.into(), &key)?;
        self.change(ALLOWED, DRAINING)
            .then_some((limits.time.get(), counted))
    }

    /// Whether the client has disconnected and the answer is drained.
    pub fn is_under_way(&self) -> bool {
        self.0.phase.load(Ordering::Acquire) == DRAINING
    }

    fn change(&self, from: u8, to: u8) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let changed = self.0.phase.compare_exchange(from, to, order.0, order.1);
        changed.is_ok()
    }
}

/// One of the drains of this process and of its key, until it is dropped.
#[derive(Debug)]
pub struct Draining(#[expect(dead_code, reason = "counts until it is dropped")] Share);

impl Draining {
    fn within(most: u64, key: &KeyShares) -> Option<Self> {
        let of_key = key.take_one(Resource::Drains);
        let own = of_key.of_others();
        let take = |all: u64| {
            let all = all.saturating_add(1);
            (all <= most && leaves_room(own, most, all)).then_some(all)
        };
        let taken = UNDER_WAY.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.is_ok().then(|| Self(of_key))
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The state of a client's disconnect, for its request.
#[derive(Default)]
pub struct CallerWatch {
    /// Shared with the client's connection. `None` if that cannot hide a disconnect.
    drain: Option<Drain>,
    is_allowed: bool,
    /// Bytes since the disconnect.
    drained: u64,
}

impl CallerWatch {
    /// The watch over a client's connection for a new attempt.
    pub fn over(drain: Option<Drain>) -> Self {
        Self {
            drain,
            ..Self::default()
        }
    }

    /// Forbids a drain that the answer of this attempt has allowed: the attempt is over.
    pub fn forbid_drain(&mut self) {
        if let Some(drain) = &self.drain {
            drain.forbid();
        }
        self.is_allowed = false;
    }

    /// Whether the client has disconnected and the answer is drained.
    pub fn is_draining(&self) -> bool {
        self.drain.as_ref().is_some_and(Drain::is_under_way)
    }

    /// Notes bytes from the provider. `false`: they are too many for a drain.
    pub fn note_bytes(&mut self, bytes: usize, limits: &DrainSettings) -> bool {
        if !self.is_draining() {
            return true;
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.drained = self.drained.saturating_add(bytes);
        self.drained <= limits.bytes.get()
    }
}

/// Allows a drain if the usage has not come and the answer is about to end or its input or output is of unknown
/// size, and forbids it otherwise.
pub fn look(exchange: &mut Exchange) {
    let Some(drain) = &exchange.caller.drain else {
        return;
    };
    let admitted = exchange.stage.admitted();
    let is_one = admitted.is_none_or(|it| it.facts().choices <= 1);
    let is_unknown = admitted.is_some_and(|it| settlement::has_unknown_input(it.facts()))
        || settlement::has_media(exchange);
    let is_reported = || settlement::reported(exchange).is_some_and(|usage| usage.output > 0);
    let is_due = (is_unknown || is_one && exchange.answer.is_about_to_end()) && !is_reported();
    if is_due == exchange.caller.is_allowed {
        return;
    }
    match load::shares(exchange).filter(|_| is_due) {
        Some(key) => drain.allow(exchange.snapshot.drain, key.clone()),
        None => drain.forbid(),
    }
    exchange.caller.is_allowed = is_due;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because drains are counted per process.
    #[test]
    fn a_disconnect_begins_a_drain_once_it_is_allowed_and_within_the_bounds_of_process_and_key() {
        let limits = |requests| DrainSettings {
            time: tollgate_settings::Duration::from_secs(2),
            bytes: tollgate_settings::ByteSize::new(100),
            requests,
        };
        let allowed = |key: &KeyShares, requests| {
            let drain = Drain::default();
            drain.allow(limits(requests), key.clone());
            drain
        };
        let (key, other) = (KeyShares::default(), KeyShares::default());
        assert!(Drain::default().begin().is_none(), "not allowed yet");
        let (first, second) = (allowed(&key, 1), allowed(&other, 1));
        let mut caller = CallerWatch::over(None);
        caller.drain = Some(second.clone());
        assert!(caller.note_bytes(1000, &limits(1)), "before the disconnect");
        let (time, counted) = first.begin().unwrap();
        assert_eq!(time, limits(1).time.get());
        assert!(first.is_under_way());
        assert!(first.begin().is_none(), "it has begun");
        assert!(second.begin().is_none(), "the process has one");
        assert!(!second.is_under_way());
        assert!(allowed(&key, 2).begin().is_none(), "half is for other keys");
        second.allow(limits(2), other);
        let begun = second.begin();
        assert!(begun.is_some());
        assert!(caller.note_bytes(100, &limits(2)));
        assert!(!caller.note_bytes(1, &limits(2)));
        drop((counted, begun));
        assert!(allowed(&key, 1).begin().is_some(), "all were given back");
        let third = allowed(&key, 1);
        CallerWatch::over(Some(third.clone())).forbid_drain();
        assert!(third.begin().is_none(), "another attempt");
    }
}
