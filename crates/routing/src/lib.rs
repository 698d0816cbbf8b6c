//! The choice of the deployment that answers: the catalog of models, the names by which they are known, and the
//! deployments that can serve one of them, in the order in which to try them.
//!
//! Routing owns the sections `providers`, `families`, `models`, `aliases` and `auto` of
//! the configuration, and turns them into one immutable [`Catalog`]. It takes values and
//! knows neither requests on a socket nor a store: access to a model is checked by the
//! caller, and sending is left to the gateway.

#![forbid(unsafe_code)]

mod auto;
mod build;
mod catalog;
mod formats;
pub mod health;
mod model;
mod passthrough;
pub mod plan;
mod price;
mod provider;
pub mod settings;

pub use auto::{ChoiceRequest, Conversations, Decision, Obstacle, Profile, Why};
pub use catalog::{Affinity, Catalog};
pub use formats::FormatSet;
pub use model::{Model, ModelFeature, ModelKind};
pub use passthrough::{Passthrough, PassthroughRule};
pub use price::PriceList;
pub use provider::{
    AnswerTimeouts, BodyPatch, Check, Credential, Deployment, Endpoint, Http2, MODEL, Provider,
    Purpose, Target, Timeouts, UpstreamModel, UpstreamTls,
};
pub use settings::CatalogSettings;
