//! The operator's side: what can be done to keys (`operations`), the same over HTTP (`api`,
//! described in `openapi`), and the listener on which it is served beside metrics and
//! health (`listener`).

#![forbid(unsafe_code)]

mod api;
mod call;
mod connections;
mod control;
mod dashboard;
mod failure;
mod health;
mod host;
mod ledger_metrics;
mod listener;
mod openapi;
pub mod operations;
mod routes;

pub use api::Api;
pub use control::{
    Ask, Cause, ConfigurationView, Control, Explainer, FailureView, HealthSource, Order,
    PreviousView, ReloadQuery, ReloadView, Serving,
};
pub use health::HealthView;
pub use listener::{Readiness, bind, serve};
pub use operations::{Offer, Operations, Refusal};
