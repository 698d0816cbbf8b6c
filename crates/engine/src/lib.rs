//! Request processing without the network: the catalog, the accounts and the filters of one
//! configuration, joined. The edge drives it; explanations run it without effects.
//!
//! - [`endpoints`]: paths, and the answers that the gateway makes itself.
//! - [`pipeline`]: the filters in order.
//! - Services for filters: [`catalog`] with [`choose`], [`accounts`] with [`keys`] and [`owned`], and
//!   [`counts`].
//! - [`open_path`]: paths of providers that are not translated.
//! - [`candidate`] and [`model_request`]: requests fitted to candidates.
//! - [`conversation`]: hashes of conversations.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod candidate;
pub mod catalog;
pub mod choose;
pub mod client;
pub mod conversation;
pub mod counts;
pub mod endpoints;
pub mod keys;
pub mod model_request;
pub mod open_path;
pub mod owned;
pub mod pipeline;
