//! What tests ask of a running server: how much it has seen, and what exactly.

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::watch;

/// What a server has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests whose head was read. In canned mode they are added up when their
    /// connection ends.
    pub requests: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u64,
    /// Requests that are being answered now.
    pub open_answers: u64,
    /// Answers that the peer did not wait for: it left while the answer was awaited or
    /// flowing.
    pub left_early: u64,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers, in the order in which they came.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Counts, and remembers requests where it was asked to.
#[derive(Debug)]
pub(crate) struct Observer {
    counters: watch::Sender<Counters>,
    received: Mutex<VecDeque<Received>>,
    /// How many requests to remember; the oldest go first.
    remember: usize,
}

impl Observer {
    pub(crate) fn new(remember: usize) -> Arc<Self> {
        let (counters, _) = watch::channel(Counters::default());
        Arc::new(Self {
            counters,
            received: Mutex::default(),
            remember,
        })
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.counters.send_modify(change);
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.counters.borrow()
    }

    pub(crate) async fn when(&self, reached: impl FnMut(&Counters) -> bool) -> Counters {
        let mut counters = self.counters.subscribe();
        let mut reached = reached;
        // The sender lives as long as `self`, so waiting cannot fail.
        counters
            .wait_for(|now| reached(now))
            .await
            .map_or_else(|_| self.counters(), |now| *now)
    }

    pub(crate) fn remembers(&self) -> bool {
        self.remember > 0
    }

    pub(crate) fn remember(&self, request: Received) {
        let mut received = self.received.lock();
        if received.len() >= self.remember {
            received.pop_front();
        }
        received.push_back(request);
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().iter().cloned().collect()
    }
}

/// One answer on its way. Dropped before [`Underway::finish`], it counts as left early.
#[derive(Debug)]
pub(crate) struct Underway {
    observer: Arc<Observer>,
    finished: bool,
}

impl Underway {
    /// Counts a request and the answer that begins with it; gives the request's number.
    pub(crate) fn start(observer: &Arc<Observer>) -> (u64, Self) {
        let mut number = 0;
        observer.count(|counters| {
            counters.requests += 1;
            counters.open_answers += 1;
            number = counters.requests;
        });
        (
            number,
            Self {
                observer: Arc::clone(observer),
                finished: false,
            },
        )
    }

    /// The answer ended as it was meant to.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.observer.count(|counters| {
            counters.open_answers -= 1;
            counters.left_early += u64::from(!self.finished);
        });
    }
}
