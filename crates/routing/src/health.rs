//! How those that answer are doing: whom a failure counts against, and what an attempt
//! holds while it is under way.

use std::time::Duration;

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
    /// The credential, at every deployment of its provider: it is refused, or its account is empty.
    Credential,
    /// The credential at this deployment: it has asked too much of it.
    Rate,
}

/// An attempt under way. Dropped, it says nothing of anybody.
#[derive(Debug, Default)]
pub struct Ticket(());

impl Ticket {
    /// Its first content has come.
    pub const fn first_content(&mut self) {}

    /// It has failed; `retry_after` is how long its provider asks to wait.
    pub const fn failed(&mut self, _: Blame, _: Option<Duration>) {}
}
