//! What a plugin author needs, and no more: the [`Filter`] trait, the request as
//! a filter sees it, and the verdicts that it can give.
//!
//! Nothing here knows Pingora, a store or a provider. The gateway drives the
//! filters in the order of the configuration and fills in the [`Services`].

#![forbid(unsafe_code)]

mod context;
mod dry;
mod endpoint;
mod filter;
mod kind;
mod services;

pub use context::{Head, RequestContext, Route, Secret};
pub use dry::DryReservation;
pub use endpoint::{Endpoint, EndpointInfo};
pub use filter::{DynFilter, Filter, Verdict};
pub use kind::{Built, FilterKind, SettingsFault, Wants, no_settings, settings};
pub use services::{
    Admission, Asked, Balances, Catalog, Chosen, Counting, KeyDirectory, KeyLookup, LimitHeaders,
    Limiter, Load, ModelHandle, ModelView, NotAdmitted, Reserved, Services, StoredThing,
    StoredThings,
};
pub use tollgate_types::MaybeReady;
