//! Fetches the tokens that credentials log in with, beside the requests. `tollgate_providers` knows how and
//! when.

use super::reload::RESOLVE_LIMIT;
use crate::snapshot::Current;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_config::Answering;
use tollgate_providers::{Refresher, Report};
use tollgate_routing::health::{CredentialHealth, Fleet};
use tollgate_telemetry::{clock, events};

/// How often the gateway looks for tokens that are due.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Fetches tokens.
#[derive(Clone)]
pub(super) struct Tokens(Refresher);

impl Tokens {
    pub(super) fn new() -> Self {
        let clock = || clock::steady_ms(Instant::now());
        Self(Refresher::new(Arc::new(Answering), clock))
    }

    /// Fetches the tokens of a fleet that were never fetched, within the time limit of resolving names, so that a
    /// new configuration has them for its first request.
    pub(super) async fn fetch_first(&self, fleet: &Fleet) {
        let mut under_way = JoinSet::new();
        self.begin(fleet, &mut under_way);
        let all = async { while report_next(&mut under_way).await {} };
        // Dropped attempts are due again.
        let _ = timeout(RESOLVE_LIMIT, all).await;
    }

    /// Refreshes tokens before they expire, until the process ends: on a thread of its own, so that neither requests
    /// nor the admin listener delay it.
    ///
    /// # Errors
    ///
    /// The system gives no thread or runtime.
    pub(super) fn keep_fresh(self, current: Arc<Current>) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new()
            .name("tokens".to_owned())
            .spawn(move || runtime.block_on(self.refresh(&current)))?;
        Ok(())
    }

    async fn refresh(&self, current: &Current) {
        let mut under_way = JoinSet::new();
        loop {
            self.begin(&current.load().fleet, &mut under_way);
            // A slow refresh delays no other one.
            let ended = async {
                while report_next(&mut under_way).await {}
                std::future::pending::<()>().await;
            };
            let _ = timeout(LOOK_EVERY, ended).await;
        }
    }

    /// Begins to fetch the tokens that are due.
    fn begin(&self, fleet: &Fleet, under_way: &mut JoinSet<(Arc<CredentialHealth>, Report)>) {
        for (_, credential) in fleet.credentials() {
            let token = credential.token.as_ref();
            if let Some(fetching) = token.and_then(|token| self.0.begin(token)) {
                let credential = Arc::clone(credential);
                under_way.spawn(async move { (credential, fetching.await) });
            }
        }
    }
}

/// Waits for the next attempt to end, and reports it. `false`: none is under way.
async fn report_next(under_way: &mut JoinSet<(Arc<CredentialHealth>, Report)>) -> bool {
    let Some(ended) = under_way.join_next().await else {
        return false;
    };
    if let Ok((credential, report)) = ended {
        events::token_refreshed(&report);
        if report.was_refused && report.failure.is_none() {
            // The refused token is not sent any more.
            let now = clock::steady_ms(Instant::now());
            credential.breaker.release(now);
        }
    }
    true
}
