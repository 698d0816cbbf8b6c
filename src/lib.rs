//! Tollgate: an edge gateway for language models.
//!
//! The library behind the `tollgate` program: the edge. [`cli::run`] builds a gateway with filters of
//! your own (`examples/own-filter`). `docs/internals/architecture.md` describes the crates.

mod allocator;
pub mod cli;
mod cors;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod limits;
mod machine;
mod server;
mod snapshot;
mod upstreams;
