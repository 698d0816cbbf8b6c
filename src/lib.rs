//! Tollgate: an edge gateway to language models.
//!
//! The library behind the `tollgate` program. Its parts, and how they stand to each
//! other, are described in `docs/architecture.md`.

mod access_log;
mod accounts;
mod admin;
mod allocator;
mod candidate;
mod catalog;
mod choose;
pub mod cli;
mod client;
mod clock;
pub mod config;
mod conversation;
mod cors;
mod counts;
mod endpoints;
mod events;
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
