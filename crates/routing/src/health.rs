//! How those that answer are doing, kept from request to request and from one configuration
//! to the next.
//!
//! Four things fail by themselves, so each has a breaker: a provider (it cannot be reached), a
//! deployment (its answers are errors, broken or late), a credential (it is refused, or its
//! account is empty), and a seat, which is a credential at a deployment (it has asked too much
//! of it). Whom a failure counts against is told by the gateway as a [`Blame`]; in which
//! order candidates are asked is decided in [`crate::plan`].

mod breaker;
mod bucket;
mod fleet;
mod latency;
mod load;
mod ticket;

pub use breaker::{Breaker, BreakerPolicy, Change, LastFailure, Pass, Severity, Standing};
pub use fleet::{
    CredentialHealth, DeploymentHealth, Fleet, Place, ProviderHealth, Seat, SeatHealth,
};
pub use latency::PeakEwma;
pub use load::{Full, Limits, Load};
pub use ticket::{Refusal, Ticket, Transition, Whose};

/// Whom the failure of an attempt counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The caller's own request: nobody is benched for it.
    Nobody,
    /// The provider as a whole: it could not be reached.
    Provider,
    /// The deployment: it failed, whatever it was asked and with whichever credential.
    Deployment,
    /// The deployment, at once: the provider does not know its model.
    Model,
    /// The credential, at every deployment of its provider: it is refused, or its account is
    /// empty.
    Credential,
    /// The credential at this deployment: it has asked too much of it, or may not use it.
    Seat,
    /// The same, unless it was the request alone: one such failure says too little.
    SeatInDoubt,
}
