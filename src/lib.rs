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

use tollgate_admin as admin;
use tollgate_config as config;
use tollgate_engine::{
    accounts, candidate, catalog, client, conversation, counts, endpoints, keys, model_request,
    open_path, owned, pipeline,
};
use tollgate_explain as explain;
use tollgate_telemetry::{access_log, clock, events, recent};
