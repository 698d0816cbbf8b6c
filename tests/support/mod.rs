//! The harness of the end-to-end tests: a gateway as its operator starts it, providers
//! behind it, and clients that show what is on the wire.
//!
//! Every wait here is bounded by [`PATIENCE`]; a test that has to wait longer has failed.

#![allow(
    dead_code,
    unused_imports,
    reason = "each file of tests takes what it needs"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a test reads better with json!(…) than with &json!(…)"
)]

mod accounts;
mod answer;
mod auto;
#[path = "../../crates/providers/tests/support/aws.rs"]
pub mod aws;
mod caller;
pub mod collector;
mod config;
mod doorman;
pub mod flooder;
pub mod frames;
mod gateway;
pub mod hosted;
mod http1;
mod http2;
#[path = "../../crates/providers/tests/support/issuer.rs"]
pub mod issuer;
mod missing;
mod mounts;
mod nginx;
mod page;
mod postgres;
mod provider;
mod redis;
mod request;
mod service;
pub mod slow;
mod slow_link;
mod tls;
mod upstream;

pub use accounts::{LONG, store_in};
pub use answer::{Answer, Ending};
pub use auto::{EASY, HARD};
pub use caller::{Caller, Way};
pub use config::{Config, PROVIDER_KEY, Ports, provider, provider_at};
pub use doorman::{Doorman, json_answer};
pub use frames::Frames;
pub use gateway::{Gateway, Output, breaker, tollgate};
pub use http1::Connection;
pub use http2::Http2;
pub use missing::{is_missing, skip_without};
pub use mounts::{Mounts, seen_by};
pub use nginx::Nginx;
pub use page::{Network, Page, root};
pub use postgres::Postgres;
pub use provider::Provider;
pub use redis::Redis;
pub use request::{Request, prompt};
pub use service::{Seen, Service};
pub use slow::Crowd;
pub use slow_link::SlowLink;
pub use tls::{Authority, Front, Identity, in_front_of};
pub use upstream::{Act, Upstream, closed_port};

use std::time::{Duration, Instant};

/// How long a test waits for anything: long, for other load can keep the machine busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long it takes at most until a test sees what the gateway does at once. Much more than it takes
/// on an idle machine, and less than any time-out that would do the same later.
pub const AT_ONCE: Duration = Duration::from_secs(5);

pub const CHAT: &str = "/v1/chat/completions";
pub const RESPONSES: &str = "/v1/responses";
pub const MESSAGES: &str = "/v1/messages";
pub const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
/// The endpoints where models answer, one for each format.
pub const FORMATS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// The field of an endpoint's requests that limits the tokens of an answer.
pub fn limit_field(path: &str) -> &'static str {
    match path {
        CHAT => "max_completion_tokens",
        RESPONSES => "max_output_tokens",
        _ => "max_tokens",
    }
}

/// Waits for `what`, and no longer than there is patience.
pub async fn bounded<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(value) => value,
        Err(_) => panic!("timed out after {PATIENCE:?}: {what}"),
    }
}

/// Looks again and again until `look` finds `what`.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    const LOOK_AGAIN: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "timed out: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
