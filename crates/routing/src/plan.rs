//! Orders the candidates of a request: a pure function of the request and the health at one moment.
//!
//! A candidate is a [`CredentialHandle`]: a credential at a deployment, because a prompt cache belongs to
//! both. The order is:
//!
//! 1. Priority.
//! 2. Deployments that use the client's format before those that need a translation.
//! 3. The balancing, or the conversation (see `order`).
//! 4. Last resorts: candidates in cooldown, in the order in which their cooldowns end. A request that fails
//!    upstream is no worse than one that the gateway refuses.
//!
//! Full candidates, those whose provider asked to wait with a 429, and those without a token to log in with
//! are never candidates.

mod order;
#[cfg(test)]
mod tests;

use crate::health::{BreakerScope, CredentialHandle, DeploymentHandle, Full, Standing};
use crate::settings::Balance;
use order::Entry;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tollgate_providers::Lack;
use tollgate_types::Format;

/// How requests are spread over candidates of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balancing {
    /// The order among candidates of one rank.
    pub balance: Balance,
    /// How many times its share of the requests in flight a candidate may have before conversations move on.
    pub load_factor: f64,
    /// Requests in flight that a candidate may always have.
    pub slack: u32,
}

/// The facts about a request for the plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The client's format.
    pub format: Format,
    /// Whether the request counts tokens. Providers count only in the client's format.
    pub counts_tokens: bool,
    /// The provider and the credential that store what the request names. No other candidate is possible.
    pub stored_at: Option<(&'a str, &'a str)>,
    /// The hash of its conversation.
    pub conversation: Option<u64>,
    /// An estimate of its tokens.
    pub tokens: u64,
    /// The time in milliseconds, by the clock of the breakers.
    pub now: u64,
    /// The seed of the draw: the same seed gives the same order.
    pub random: u64,
}

/// The reason for the position of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is the only one of its rank.
    Only,
    /// Drawn by weight.
    Weight,
    /// It has the fewest requests in flight for its weight.
    Load,
    /// It has the shortest time to the first token.
    Latency,
    /// The conversation belongs to it.
    Conversation,
    /// The candidate of the conversation has more than its share in flight.
    Overflow,
    /// It follows another one of its rank.
    Next,
    /// It is in cooldown.
    LastResort,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Only => "only one of its rank",
            Self::Weight => "by weight",
            Self::Load => "least in flight",
            Self::Latency => "soonest first token",
            Self::Conversation => "conversation",
            Self::Overflow => "conversation, overflow",
            Self::Next => "next",
            Self::LastResort => "last resort",
        })
    }
}

/// A candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The index of its deployment among those of the model.
    pub deployment: usize,
    /// The index of its credential at the deployment.
    pub credential: usize,
    /// The format of the request to it.
    pub format: Format,
    /// The reason for its position.
    pub why: Why,
}

/// Why a credential at a deployment is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its provider cannot count tokens in the format.
    CannotCount,
    /// It has neither the format nor one into which the request can be translated.
    OtherFormat,
    /// Another provider or credential stores what the request names.
    StoredElsewhere,
    /// There is no token to log in with.
    NoToken(Lack),
    /// A breaker is open, or half-open with its one attempt in flight.
    Open {
        /// The scope of the breaker.
        scope: BreakerScope,
        /// The end of the cooldown in milliseconds.
        until: u64,
    },
    /// Its provider has asked to wait.
    Resting {
        /// The end of the cooldown in milliseconds.
        until: u64,
    },
    /// Its limit is reached.
    Full(Full),
}

impl Obstacle {
    /// The text in route reasons.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CannotCount => "does not count tokens",
            Self::OtherFormat => "other format",
            Self::StoredElsewhere => "stored elsewhere",
            Self::NoToken(_) => "without a token",
            Self::Open { .. } => "in cooldown",
            Self::Resting { .. } => "asked to wait",
            Self::Full(_) => "full",
        }
    }
}

/// A credential at a deployment that is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The index of its deployment among those of the model.
    pub deployment: usize,
    /// The index of its credential at the deployment.
    pub credential: usize,
    /// Why it is no candidate.
    pub obstacle: Obstacle,
}

/// All that are no candidates. Allocates nothing while it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOuts(pub Vec<LeftOut>);

impl LeftOuts {
    fn push(&mut self, deployment: usize, credential: usize, obstacle: Obstacle) {
        self.0.push(LeftOut {
            deployment,
            credential,
            obstacle,
        });
    }

    /// The shortest wait until a limit or a wait of a provider ends. `None`: there is neither.
    pub fn wait(&self, now: u64) -> Option<Full> {
        let waits = self.0.iter().filter_map(|it| match it.obstacle {
            Obstacle::Full(full) => Some(full),
            Obstacle::Resting { until } => Some(Full {
                wait: Some(Duration::from_millis(until.saturating_sub(now))),
            }),
            _ => None,
        });
        // `None` is the shortest: a request in flight can end at any moment.
        waits.min_by_key(|full| full.wait)
    }

    /// The shortest wait until a token can be there. `None`: no candidate lacks one.
    pub fn token_wait(&self) -> Option<Duration> {
        let waits = self.0.iter().filter_map(|it| match it.obstacle {
            Obstacle::NoToken(lack) => Some(lack.retry_in),
            _ => None,
        });
        waits.min()
    }
}

/// Hands the candidates of a request to `take`, in order, and returns the rest.
pub fn plan(
    handles: &[Arc<DeploymentHandle>],
    balancing: &Balancing,
    asked: &PlanRequest<'_>,
    mut take: impl FnMut(Choice),
) -> LeftOuts {
    let mut left_out = LeftOuts::default();
    if let [handle] = handles
        && let [credential] = &*handle.credentials
    {
        // Most models have one deployment and one credential: there is nothing to order.
        let why = match availability(handle, credential, asked) {
            Ok(()) => Why::Only,
            Err(Obstacle::Open { .. }) => Why::LastResort,
            Err(obstacle) => {
                left_out.push(0, 0, obstacle);
                return left_out;
            }
        };
        take(choice(handle, 0, 0, asked, why));
        return left_out;
    }
    let mut ready = Vec::with_capacity(handles.len());
    let mut last_resorts: Vec<(u64, usize, usize)> = Vec::new();
    for (number, handle) in handles.iter().enumerate() {
        for (credential_number, credential) in handle.credentials.iter().enumerate() {
            match availability(handle, credential, asked) {
                Ok(()) => ready.push(Entry::new(
                    number,
                    handle,
                    credential_number,
                    credential,
                    asked,
                )),
                Err(obstacle) => {
                    left_out.push(number, credential_number, obstacle);
                    if let Obstacle::Open { until, .. } = obstacle {
                        last_resorts.push((until, number, credential_number));
                    }
                }
            }
        }
    }
    order::order(&mut ready, balancing, asked, |entry, why| {
        if let Some(handle) = handles.get(entry.deployment) {
            take(choice(
                handle,
                entry.deployment,
                entry.credential,
                asked,
                why,
            ));
        }
    });
    last_resorts.sort_unstable();
    for (_, number, credential) in last_resorts {
        if let Some(handle) = handles.get(number) {
            take(choice(handle, number, credential, asked, Why::LastResort));
        }
    }
    left_out
}

/// Whether any candidate is neither in cooldown nor full.
pub fn is_available(handles: &[Arc<DeploymentHandle>], asked: &PlanRequest<'_>) -> bool {
    let mut credentials = handles.iter().flat_map(|handle| {
        handle
            .credentials
            .iter()
            .map(move |credential| (handle, credential))
    });
    credentials.any(|(handle, credential)| availability(handle, credential, asked).is_ok())
}

fn choice(
    handle: &DeploymentHandle,
    number: usize,
    credential: usize,
    asked: &PlanRequest<'_>,
    why: Why,
) -> Choice {
    let format = match asked.counts_tokens {
        true => None,
        false => handle.deployment.format_for(asked.format),
    };
    Choice {
        deployment: number,
        credential,
        format: format.unwrap_or(asked.format),
        why,
    }
}

/// Whether a credential at a deployment is a candidate.
///
/// # Errors
///
/// Why it is none, or only as a last resort.
fn availability(
    handle: &DeploymentHandle,
    credential: &CredentialHandle,
    asked: &PlanRequest<'_>,
) -> Result<(), Obstacle> {
    if asked.counts_tokens {
        let endpoint = handle.deployment.provider.endpoint(asked.format);
        if endpoint.is_none_or(|it| it.count_tokens.is_none()) {
            return Err(Obstacle::CannotCount);
        }
    } else if handle.deployment.format_for(asked.format).is_none() {
        return Err(Obstacle::OtherFormat);
    }
    if let Some((provider, name)) = asked.stored_at
        && (*handle.deployment.provider.name != *provider || credential.name() != name)
    {
        return Err(Obstacle::StoredElsewhere);
    }
    if let Some(lack) = credential.lack(asked.now) {
        return Err(Obstacle::NoToken(lack));
    }
    if let Some(until) = credential.health.breaker.rests_until(asked.now) {
        return Err(Obstacle::Resting { until });
    }
    handle
        .room(credential, asked.tokens, asked.now)
        .map_err(Obstacle::Full)?;
    let opens = BreakerScope::ALL.into_iter().filter_map(|scope| {
        match handle.breaker(scope, credential).standing(asked.now) {
            Standing::Open { until } => Some((until, scope)),
            _ => None,
        }
    });
    match opens.max_by_key(|(until, _)| *until) {
        Some((until, scope)) => Err(Obstacle::Open { scope, until }),
        None => Ok(()),
    }
}

/// A hash that is equal in every process of this version, so that all nodes of a gateway send a conversation
/// to the same candidate. The lengths of the parts are hashed too, so that `ab, c` differs from `a, bc`.
pub fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut hasher = foldhash::quality::FixedState::with_seed(0x746f_6c6c).build_hasher();
    for part in parts {
        hasher.write(part);
        hasher.write_usize(part.len());
    }
    hasher.finish()
}
