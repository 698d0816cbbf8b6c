//! The last requests of this process, for the dashboard.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tollgate_types::{ErrorCode, Format, KeyId, Money, RequestId, Usage};

/// How many requests are remembered.
pub const MOST: usize = 100;

/// A request that is over.
#[derive(Clone, Debug)]
pub struct Recent {
    /// Its identifier.
    pub id: RequestId,
    /// When it ended, in milliseconds of Unix time.
    pub at: u64,
    /// The format of the client.
    pub format: Option<Format>,
    /// The key that sent it.
    pub key: Option<KeyId>,
    /// The model that answered.
    pub model: Option<Arc<str>>,
    /// The provider of the last attempt.
    pub provider: Option<Arc<str>>,
    /// Why the router chose the model.
    pub route_reason: Option<Arc<str>>,
    /// Which candidate has answered, and which ones were left out, unless the first one of all answered.
    pub route: Option<String>,
    /// The status that the client got; 499 if it disconnected before.
    pub status: u16,
    /// The code of the error.
    pub code: Option<ErrorCode>,
    /// How it ended, as in the access log.
    pub outcome: &'static str,
    /// Attempts at providers.
    pub attempts: usize,
    /// The attempts that failed, oldest first.
    pub failed: Vec<FailedAttempt>,
    /// From the head of the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// From the head of the request to the end of the answer.
    pub duration: Duration,
    /// The tokens that the provider reported.
    pub usage: Option<Usage>,
    /// The cost, if the prices are known.
    pub cost: Option<Money>,
}

/// An attempt that failed, or a deployment whose provider has no address.
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    /// The deployment.
    pub deployment: Arc<str>,
    /// The class of the failure, as in metrics.
    pub class: &'static str,
    /// The status of the provider's answer.
    pub status: Option<u16>,
    /// From the head of the request to the failure.
    pub after: Duration,
}

static RING: Mutex<VecDeque<Recent>> = Mutex::new(VecDeque::new());

/// Remembers a request; the oldest of more than [`MOST`] is forgotten.
pub fn remember(request: Recent) {
    let mut ring = RING.lock();
    let oldest = (ring.len() >= MOST).then(|| ring.pop_front()).flatten();
    ring.push_back(request);
    drop(ring);
    // Freed outside the lock: all requests of the process take it.
    drop(oldest);
}

/// The last requests, newest first.
pub fn last() -> Vec<Recent> {
    RING.lock().iter().rev().cloned().collect()
}
