//! A deployment and a credential that can be asked.

use crate::upstreams::Pool;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tollgate_providers::Proof;
use tollgate_routing::health::{Blame, CredentialHandle, DeploymentHandle, Refusal, Ticket};
use tollgate_routing::plan::{Choice, Why};
use tollgate_telemetry::clock;
use tollgate_types::{Format, Prices};

/// A deployment and a credential that can be asked.
#[derive(Clone)]
pub struct Candidate {
    /// The deployment and its health.
    pub handle: Arc<DeploymentHandle>,
    /// The index of its credential.
    pub credential: usize,
    /// The reason for its position in the order.
    pub why: Why,
    /// The connections to its provider.
    pub pool: Arc<Pool>,
    /// The format of the request to it: the client's, or the one that the request is translated to. Final
    /// once the request is prepared.
    pub format: Format,
    /// Whether an attempt with it was started.
    pub was_asked: bool,
}

/// A candidate gives access to its deployment.
impl Deref for Candidate {
    type Target = DeploymentHandle;

    fn deref(&self) -> &DeploymentHandle {
        &self.handle
    }
}

impl Candidate {
    /// A choice of the plan, which was not asked yet.
    pub fn new(choice: &Choice, handle: &Arc<DeploymentHandle>, pool: &Arc<Pool>) -> Self {
        Self {
            handle: Arc::clone(handle),
            credential: choice.credential,
            why: choice.why,
            pool: Arc::clone(pool),
            format: choice.format,
            was_asked: false,
        }
    }

    /// Its credential.
    pub fn credential(&self) -> Option<&CredentialHandle> {
        self.handle.credentials.get(self.credential)
    }

    /// Begins an attempt, for a request of this many tokens. `None`: a free request has no ticket.
    pub(super) fn enter(
        &self,
        tokens: u64,
        is_unbilled: bool,
        began: Instant,
    ) -> Result<Option<(Ticket, Instant)>, Refusal> {
        let now = clock::steady_ms(began);
        if is_unbilled {
            return self.can_serve_unbilled(now).map(|()| None);
        }
        let is_last_resort = self.why == Why::LastResort;
        let ticket = self
            .handle
            .enter(self.credential, tokens, now, is_last_resort)?;
        Ok(Some((ticket, began)))
    }

    /// Whether it can serve a free request, which takes nothing from its limits and does not count for its
    /// health.
    fn can_serve_unbilled(&self, now: u64) -> Result<(), Refusal> {
        let has_token = self.credential().is_some_and(|it| it.lack(now).is_none());
        let is_closed = |credential| self.handle.is_closed(credential, now);
        let passes = self.why == Why::LastResort || self.credential().is_some_and(is_closed);
        match has_token && passes {
            true => Ok(()),
            false => Err(Refusal::Open),
        }
    }

    /// The prices of its deployment now.
    pub fn prices(&self) -> Option<&Prices> {
        let list = self.handle.deployment.price.as_ref()?;
        Some(list.at(SystemTime::now()))
    }

    /// How to log in for a request of its format. `None`: there is no token yet.
    pub fn log_in(&self) -> Option<LogIn> {
        let credential = self.credential()?;
        let Some(configured) = &credential.configured else {
            return Some(LogIn {
                name: "".into(),
                proof: None,
            });
        };
        Some(LogIn {
            name: Arc::clone(&configured.name),
            proof: Some(credential.proof(self.format)?),
        })
    }

    /// The provider has refused the credential: a token is fetched anew.
    pub fn refused(&self, sent: u64, now: u64) {
        let token = self.credential().and_then(|it| it.account.token.as_ref());
        if let Some(token) = token {
            token.refused(sent, now);
        }
    }

    /// Whether a failure of this candidate also concerns the other one.
    pub(super) fn shares(&self, other: &Self, blame: Blame) -> bool {
        let provider = Arc::ptr_eq(&self.provider, &other.provider);
        let deployment = Arc::ptr_eq(&self.health, &other.health);
        let account = || {
            let accounts = self.credential().zip(other.credential());
            accounts.is_some_and(|(one, another)| Arc::ptr_eq(&one.account, &another.account))
        };
        match blame {
            Blame::None => false,
            Blame::Provider => provider,
            Blame::Deployment | Blame::Model => deployment,
            Blame::Credential => account(),
            Blame::DeploymentCredential | Blame::DeploymentCredentialInDoubt => {
                deployment && account()
            }
        }
    }
}

/// How the gateway logs in to a provider.
pub struct LogIn {
    /// The credential's name; empty for none.
    pub name: Arc<str>,
    /// Its proof. `None`: the provider needs no credential.
    pub proof: Option<Proof>,
}
