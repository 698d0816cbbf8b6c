//! Fetches tokens that are due. Who calls decides on which runtime, and reports the outcome.

use crate::client::Client;
use crate::error::FetchError;
use crate::source::Tools;
use crate::token::Token;
use std::sync::Arc;
use std::time::Duration;
use tollgate_settings::Environment;

/// Fetches tokens.
#[derive(Clone)]
pub struct Refresher {
    tools: Arc<Tools>,
    clock: fn() -> u64,
}

/// The outcome of an attempt to fetch a token.
pub struct Report {
    /// The token.
    pub token: Arc<Token>,
    /// Why it has failed, if it has.
    pub failure: Option<FetchError>,
    /// How long the token is valid: the new one, or the old one after a failure. `None`: there is none.
    pub valid_for: Option<Duration>,
    /// How long until the next attempt.
    pub next_in: Duration,
    /// Whether the operator should read of it: a failure, the first token, or the first after a failure.
    pub is_news: bool,
    /// Whether the provider had refused the token before.
    pub was_refused: bool,
}

impl Refresher {
    /// Files come from `environment`; `clock` is the one that requests are planned by, in milliseconds.
    pub fn new(environment: Arc<dyn Environment + Send + Sync>, clock: fn() -> u64) -> Self {
        let client = Client::default();
        Self {
            tools: Arc::new(Tools {
                client,
                environment,
            }),
            clock,
        }
    }

    /// An attempt to fetch the token, if one is due. Dropping it ends the attempt.
    pub fn begin(&self, token: &Arc<Token>) -> Option<impl Future<Output = Report> + Send + use<>> {
        let began = (self.clock)();
        if !token.begin(began) {
            return None;
        }
        let attempt = Attempt(Some(Arc::clone(token)));
        let (tools, clock) = (Arc::clone(&self.tools), self.clock);
        let token = Arc::clone(token);
        Some(async move {
            let fetched = token.source().fetch(&tools).await;
            let ended = token.end(fetched, began, clock(), fastrand::f64());
            attempt.end();
            let (failure, outcome) = match ended {
                Ok(outcome) => (None, outcome),
                Err((failure, outcome)) => (Some(failure), outcome),
            };
            Report {
                token,
                failure,
                valid_for: outcome.valid_for,
                next_in: outcome.next_in,
                is_news: outcome.is_news,
                was_refused: outcome.was_refused,
            }
        })
    }
}

/// An attempt under way.
struct Attempt(Option<Arc<Token>>);

impl Attempt {
    fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(token) = &self.0 {
            token.abandon();
        }
    }
}
