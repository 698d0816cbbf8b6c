//! Tollgate: an edge gateway to language models.
//!
//! The library behind the `tollgate` program. Its parts, and how they stand to each
//! other, are described in `docs/architecture.md`.

mod accounts;
mod admin;
mod allocator;
mod candidate;
mod catalog;
mod choose;
pub mod cli;
mod client;
mod conversation;
mod cors;
mod counts;
mod endpoints;
mod explain;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod keys;
mod limits;
mod machine;
mod owned;
mod pipeline;
mod server;
mod snapshot;
mod upstreams;

use tollgate_config as config;
use tollgate_telemetry::{access_log, clock, events};
