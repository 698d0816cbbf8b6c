//! The interface for authors of filters.
//!
//! A filter makes one decision about a request: it refuses the request, answers it, changes it, or lets
//! it continue. To write one:
//!
//! 1. Implement [`Filter`] for your type. `on_request` gets the [`Head`] of the request and the
//!    [`RequestContext`], and returns a [`Verdict`] or an error.
//! 2. Describe it with a [`FilterKind`]: its name in the configuration, the [`Phases`] in which it runs, and
//!    how it is built from its settings and the [`Services`] of the gateway.
//!
//! `docs/guides/write-a-filter.md` has a complete example. This crate depends neither on Pingora nor on
//! a store; the gateway runs the filters in the order of the configuration and implements the services.

#![forbid(unsafe_code)]

mod context;
mod dry;
mod endpoint;
mod filter;
mod kind;
mod services;

pub use context::{FixedCharge, Head, RequestContext, Route, Secret};
pub use dry::DryReservation;
pub use endpoint::{Endpoint, EndpointInfo, EndpointKind};
pub use filter::{DynFilter, Filter, Verdict};
pub use kind::{Built, FilterKind, Phases, SettingsFault, no_settings, settings};
pub use services::{
    Admission, AdmissionResult, AutoRequest, Balances, Catalog, Chosen, Counting, KeyDirectory,
    KeyLookup, LimitHeaders, Limiter, Load, ModelHandle, ModelView, NotAdmitted, ReservationResult,
    Services, StoredItem, StoredItems,
};
pub use tollgate_types::MaybeReady;

/// The guide's example is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/write-a-filter.md")]
struct Guide;
