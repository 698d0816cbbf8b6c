//! The share of an attempt in its deployment and credential, from its start to the end of the answer.

use super::breaker::{Change, LastFailure, Pass, Severity, Standing};
use super::{Blame, Breaker, CredentialHandle, DeploymentHandle, Full};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why an attempt cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A breaker is open.
    Open,
    /// A limit is reached.
    Full(Full),
}

tollgate_types::named! {
    /// The scope of a breaker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BreakerScope {
        /// A provider.
        Provider = "provider",
        /// A deployment.
        Deployment = "deployment",
        /// A credential, at all deployments of its provider.
        Credential = "credential",
        /// A credential at a deployment.
        DeploymentCredential = "deployment_credential",
    }
}

/// A breaker has opened or closed.
#[derive(Debug)]
pub struct Transition<'a> {
    /// The scope of the breaker.
    pub scope: BreakerScope,
    /// The deployment of the attempt.
    pub handle: &'a DeploymentHandle,
    /// The credential of the attempt.
    pub credential: &'a CredentialHandle,
    /// Whether the breaker opened or closed.
    pub change: Change,
}

/// An attempt in flight. Dropping it releases what it took and reports no outcome to the breakers.
#[derive(Debug)]
pub struct Ticket {
    handle: Arc<DeploymentHandle>,
    credential: usize,
    /// In the order of [`BreakerScope::ALL`].
    passes: [Pass; 4],
    /// Tokens taken from the limits.
    tokens: u64,
    has_content: bool,
}

impl DeploymentHandle {
    /// The breaker of a scope.
    pub fn breaker<'a>(
        &'a self,
        scope: BreakerScope,
        credential: &'a CredentialHandle,
    ) -> &'a Breaker {
        match scope {
            BreakerScope::Provider => &self.provider.breaker,
            BreakerScope::Deployment => &self.health.breaker,
            BreakerScope::Credential => &credential.account.breaker,
            BreakerScope::DeploymentCredential => &credential.health.breaker,
        }
    }

    /// Whether all breakers are closed.
    pub fn is_closed(&self, credential: &CredentialHandle, now: u64) -> bool {
        let closed = |scope| self.breaker(scope, credential).standing(now) == Standing::Closed;
        BreakerScope::ALL.into_iter().all(closed)
    }

    /// Whether the limits admit a request of this many tokens.
    ///
    /// # Errors
    ///
    /// A limit is reached.
    pub fn room(&self, credential: &CredentialHandle, tokens: u64, now: u64) -> Result<(), Full> {
        self.health
            .load
            .room(&self.deployment.limits, tokens, now)?;
        match &credential.configured {
            Some(it) => credential.account.load.room(&it.limits, tokens, now),
            None => Ok(()),
        }
    }

    /// Begins an attempt with a credential, for a request of this many tokens. A last resort passes
    /// open breakers. It passes neither limits nor a wait that the provider asked for.
    ///
    /// # Errors
    ///
    /// A breaker is open, there is no token, or a limit is reached.
    pub fn enter(
        self: &Arc<Self>,
        credential: usize,
        tokens: u64,
        now: u64,
        is_last_resort: bool,
    ) -> Result<Ticket, Refusal> {
        let of = self.credentials.get(credential).ok_or(Refusal::Open)?;
        // The token can end after the plan was made.
        if of.lack(now).is_some() {
            return Err(Refusal::Open);
        }
        if let Some(until) = of.health.breaker.rests_until(now) {
            let wait = Some(Duration::from_millis(until.saturating_sub(now)));
            return Err(Refusal::Full(Full { wait }));
        }
        let mut passes: [Option<Pass>; 4] = [None; 4];
        for (scope, pass) in BreakerScope::ALL.into_iter().zip(&mut passes) {
            let breaker = self.breaker(scope, of);
            let forced = || is_last_resort.then(|| breaker.force());
            *pass = breaker.enter(now).or_else(forced);
        }
        let [Some(a), Some(b), Some(c), Some(d)] = passes else {
            self.abandon(of, &mut passes);
            return Err(Refusal::Open);
        };
        if let Err(full) = self.take_room(of, tokens, now) {
            self.abandon(of, &mut passes);
            return Err(Refusal::Full(full));
        }
        of.health.in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(Ticket {
            handle: Arc::clone(self),
            credential,
            passes: [a, b, c, d],
            tokens,
            has_content: false,
        })
    }

    fn take_room(&self, credential: &CredentialHandle, tokens: u64, now: u64) -> Result<(), Full> {
        let limits = &self.deployment.limits;
        self.health.load.enter(limits, tokens, now)?;
        let of_credential = credential.configured.as_ref().map(|it| it.limits);
        let of_credential = of_credential.unwrap_or_default();
        let taken = credential.account.load.enter(&of_credential, tokens, now);
        if taken.is_err() {
            self.health.load.give_back(limits, tokens, now);
            self.health.load.leave();
        }
        taken
    }

    fn abandon(&self, credential: &CredentialHandle, passes: &mut [Option<Pass>; 4]) {
        for (scope, pass) in BreakerScope::ALL.into_iter().zip(passes) {
            if let Some(pass) = pass {
                self.breaker(scope, credential).abandoned(pass);
            }
        }
    }
}

impl Ticket {
    /// The deployment of the attempt.
    pub const fn handle(&self) -> &Arc<DeploymentHandle> {
        &self.handle
    }

    /// Reports the first content: a success for all four breakers. `took`: the time to the first token of
    /// a stream; `None` for an answer in one piece.
    pub fn first_content(
        &mut self,
        took: Option<Duration>,
        now: u64,
        report: &mut dyn FnMut(&Transition<'_>),
    ) {
        self.has_content = true;
        if let Some(took) = took {
            self.handle.health.latency.observe(took, now);
        }
        self.succeeded(&BreakerScope::ALL, now, report);
    }

    /// Reports a failure of this `class`. `retry_after`: how long the provider asks to wait; `random`
    /// spreads the cooldowns. An attempt that fails before its first content has used no tokens.
    pub fn failed(
        &mut self,
        blame: Blame,
        class: &'static str,
        retry_after: Option<Duration>,
        now: u64,
        random: u64,
        report: &mut dyn FnMut(&Transition<'_>),
    ) {
        if !self.has_content {
            self.used(0, now);
        }
        let Some((scope, severity, healthy)) = verdict(blame, retry_after) else {
            // A refusal of the request shows that provider, deployment and credential work.
            return self.succeeded(&BreakerScope::ALL, now, report);
        };
        self.succeeded(healthy, now, report);
        let handle = &self.handle;
        let Some(credential) = handle.credentials.get(self.credential) else {
            return;
        };
        let breaker = handle.breaker(scope, credential);
        breaker.note(LastFailure { class, at: now });
        let Some(policy) = handle.policy() else {
            return;
        };
        let mut passes = BreakerScope::ALL.into_iter().zip(&mut self.passes);
        let Some((_, pass)) = passes.find(|(it, _)| *it == scope) else {
            return;
        };
        if let Some(change) = breaker.failed(pass, severity, policy, now, random) {
            report(&Transition {
                scope,
                handle,
                credential,
                change,
            });
        }
    }

    fn succeeded(
        &mut self,
        scopes: &[BreakerScope],
        now: u64,
        report: &mut dyn FnMut(&Transition<'_>),
    ) {
        let handle = &self.handle;
        let Some(credential) = handle.credentials.get(self.credential) else {
            return;
        };
        for (scope, pass) in BreakerScope::ALL.into_iter().zip(&mut self.passes) {
            if !scopes.contains(&scope) {
                continue;
            }
            if let Some(change) = handle.breaker(scope, credential).succeeded(pass, now) {
                report(&Transition {
                    scope,
                    handle,
                    credential,
                    change,
                });
            }
        }
    }

    /// Corrects the tokens taken from the limits to those that the attempt has used.
    pub fn used(&mut self, tokens: u64, now: u64) {
        let taken = std::mem::replace(&mut self.tokens, tokens);
        let Some(credential) = self.handle.credentials.get(self.credential) else {
            return;
        };
        let limits = &self.handle.deployment.limits;
        self.handle.health.load.correct(limits, taken, tokens, now);
        if let Some(configured) = &credential.configured {
            let limits = &configured.limits;
            credential.account.load.correct(limits, taken, tokens, now);
        }
    }

    /// Gives back what was taken from the limits, including the request: it was not sent.
    pub fn not_sent(&mut self, now: u64) {
        let taken = std::mem::take(&mut self.tokens);
        let Some(credential) = self.handle.credentials.get(self.credential) else {
            return;
        };
        let limits = &self.handle.deployment.limits;
        self.handle.health.load.give_back(limits, taken, now);
        if let Some(configured) = &credential.configured {
            let limits = &configured.limits;
            credential.account.load.give_back(limits, taken, now);
        }
    }
}

/// The breaker that a failure concerns, how bad it is, and the breakers whose scopes it shows to work. `None`:
/// it concerns none.
const fn verdict(
    blame: Blame,
    retry_after: Option<Duration>,
) -> Option<(BreakerScope, Severity, &'static [BreakerScope])> {
    const PROVIDER: &[BreakerScope] = &[BreakerScope::Provider];
    let (counts, opens) = match retry_after {
        Some(wait) if !wait.is_zero() => (Severity::Rests(wait), Severity::Rests(wait)),
        _ => (Severity::Counts, Severity::Opens),
    };
    Some(match blame {
        Blame::None => return None,
        Blame::Provider => (BreakerScope::Provider, counts, &[]),
        Blame::Deployment => (BreakerScope::Deployment, counts, PROVIDER),
        Blame::Model => (BreakerScope::Deployment, opens, PROVIDER),
        Blame::Credential => (BreakerScope::Credential, opens, PROVIDER),
        Blame::DeploymentCredential => (BreakerScope::DeploymentCredential, opens, PROVIDER),
        // The wait of the provider can concern this request alone.
        Blame::DeploymentCredentialInDoubt => (
            BreakerScope::DeploymentCredential,
            Severity::Counts,
            PROVIDER,
        ),
    })
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(credential) = self.handle.credentials.get(self.credential) else {
            return;
        };
        let mut passes = self.passes.map(Some);
        self.handle.abandon(credential, &mut passes);
        credential.health.in_flight.fetch_sub(1, Ordering::Relaxed);
        credential.account.load.leave();
        self.handle.health.load.leave();
    }
}
