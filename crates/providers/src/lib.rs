//! Authentication at providers with tokens that a service issues and that end.
//!
//! A [`Source`] is checked settings: one file for each kind. A [`Token`] is what requests are sent with, or
//! the keys that a [`Signer`] signs them with; it outlives configurations as long as its source stays the same. A [`Refresher`] fetches tokens, ahead of
//! their end, beside the requests. Which candidates of a request lack a token is decided by routing.

#![forbid(unsafe_code)]

mod aws;
mod azure;
mod client;
mod command;
mod error;
mod google;
mod jwt;
mod refresh;
mod source;
mod token;

pub use aws::{AwsLogIn, AwsSettings, Signer, Unsignable};
pub use azure::AzureSettings;
pub use command::CommandSettings;
pub use error::{FetchError, FetchFault};
pub use google::GoogleSettings;
pub use refresh::{Refresher, Report};
pub use source::{Building, Obstacle, Source};
pub use token::{Lack, Missing, Proof, QuerySecret, Token};
