//! Bounds of look-ups in the database: of all keys together, of each key, and in time.

use crate::{
    directory::Unavailable,
    keyed_semaphore::{KeyedSemaphore, TooManyCallers},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, spawn_blocking},
};
use tollgate_types::KeyId;

/// Most look-ups at once.
pub(crate) const AT_ONCE: usize = 8;
/// Most of them for one key.
const OF_A_KEY: usize = AT_ONCE / 4;
/// The longest look-up, the wait for its permit included.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// The permits of look-ups.
pub(crate) struct Lookups {
    all: Arc<Semaphore>,
    pub(crate) of_keys: KeyedSemaphore,
}

impl Default for Lookups {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            of_keys: KeyedSemaphore::new(OF_A_KEY, usize::MAX),
        }
    }
}

impl Lookups {
    /// Runs a look-up for a key, on a thread that may wait. Must be awaited on a tokio runtime.
    ///
    /// # Errors
    /// Too many look-ups are under way, or it takes too long. It then goes on without its caller.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        key: &KeyId,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let found = async {
            let of_key = self.of_keys.acquire(key).await?;
            let permit = Arc::clone(&self.all).acquire_owned().await;
            let permits = (permit.map_err(|_| Unavailable::Closed)?, of_key);
            let found = run_blocking(permits, look).await;
            found.map_err(|_| Unavailable::Closed)
        };
        let found = tokio::time::timeout(TIMEOUT, found).await;
        found.unwrap_or(Err(Unavailable::TimedOut))
    }
}

/// Runs `work` on a thread that may wait. It keeps `permits` until it ends, although its caller may have left.
fn run_blocking<T: Send + 'static>(
    permits: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn_blocking(move || {
        let _permits = permits;
        work()
    })
}

impl From<TooManyCallers> for Unavailable {
    fn from(_: TooManyCallers) -> Self {
        Self::Overloaded
    }
}
