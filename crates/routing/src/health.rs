//! The health of providers, deployments and credentials, kept over requests and over configurations.
//!
//! Four things fail independently, so each has a breaker:
//!
//! | Breaker | Opens when |
//! |---|---|
//! | provider | it cannot be reached |
//! | deployment | its answers are errors, broken or late |
//! | credential | the provider refuses it, or its account is empty |
//! | credential at a deployment | the provider limits its rate there, or does not allow the model |
//!
//! The gateway decides what a failure counts against and reports it as a [`Blame`]. [`crate::plan`]
//! orders the candidates.

mod breaker;
mod bucket;
mod fleet;
mod latency;
mod load;
mod ticket;

pub use breaker::{Breaker, BreakerPolicy, Change, LastFailure, Pass, Severity, Standing};
pub use fleet::{
    CredentialHandle, CredentialHealth, DeploymentCredentialHealth, DeploymentHandle,
    DeploymentHealth, Fleet, ProviderHealth,
};
pub use latency::PeakEwma;
pub use load::{Full, Limits, Load};
pub use ticket::{BreakerScope, Refusal, Ticket, Transition};

/// The part that a failed attempt counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request itself: no breaker opens for it.
    None,
    /// The provider as a whole: it could not be reached.
    Provider,
    /// The deployment: it failed independently of the request and the credential.
    Deployment,
    /// The deployment, and opens its breaker at once: the provider does not know its model.
    Model,
    /// The credential, at every deployment of its provider: the provider refuses it, or its account is
    /// empty.
    Credential,
    /// The credential at this deployment: its rate is limited, or it may not use the model.
    DeploymentCredential,
    /// The same, but the cause can be the request alone: one such failure does not open the breaker.
    DeploymentCredentialInDoubt,
}
