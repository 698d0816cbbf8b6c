//! The health of all providers, deployments and credentials: one [`DeploymentHandle`] for each
//! deployment of each model.
//!
//! A new configuration takes over the health of the earlier one by name: of a provider if its
//! address is the same, of a credential if its secret is the same, of a deployment if the
//! health of its provider is taken over. Two models with the same upstream model at one
//! provider share its health.

use super::{Breaker, BreakerPolicy, Load, PeakEwma};
use crate::plan::hash_of;
use crate::{Catalog, Credential, Deployment, Model, PassthroughRule, Provider};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tollgate_providers::{Lack, Proof, Token};
use tollgate_types::Format;

/// The health of a provider, over all its deployments.
#[derive(Debug)]
pub struct ProviderHealth {
    /// Its name.
    pub name: Arc<str>,
    host: Arc<str>,
    port: u16,
    /// Opens when the provider cannot be reached.
    pub breaker: Breaker,
    has_address: AtomicBool,
}

impl ProviderHealth {
    /// Whether the name of its host has an address. `true` before the first look-up.
    pub fn has_address(&self) -> bool {
        self.has_address.load(Ordering::Relaxed)
    }

    /// Notes the result of a look-up.
    pub fn note_address(&self, has_address: bool) {
        self.has_address.store(has_address, Ordering::Relaxed);
    }
}

/// The health of a credential, over all deployments of its provider.
#[derive(Debug)]
pub struct CredentialHealth {
    credential: Option<Credential>,
    /// The token that it logs in with, if it logs in with tokens.
    pub token: Option<Arc<Token>>,
    /// Opens when the provider refuses the credential.
    pub breaker: Breaker,
    /// Its requests and tokens under its limits.
    pub load: Load,
}

/// The health of a deployment.
#[derive(Debug)]
pub struct DeploymentHealth {
    provider: Arc<ProviderHealth>,
    /// Opens when the deployment fails.
    pub breaker: Breaker,
    /// Its requests and tokens under its limits.
    pub load: Load,
    /// The time to the first token of its streams.
    pub latency: PeakEwma,
}

/// The health of a credential at one deployment.
#[derive(Debug)]
pub struct DeploymentCredentialHealth {
    credential: Arc<CredentialHealth>,
    /// Opens when the provider limits the rate of the credential at this deployment.
    pub breaker: Breaker,
    pub(super) in_flight: AtomicU32,
}

/// A deployment of a model, with its health and its credentials.
#[derive(Debug)]
pub struct DeploymentHandle {
    /// The deployment.
    pub deployment: Arc<Deployment>,
    /// The health of its provider.
    pub provider: Arc<ProviderHealth>,
    /// The health of the deployment itself.
    pub health: Arc<DeploymentHealth>,
    /// One for each credential; a single one without credential if the provider needs none. Never empty.
    pub credentials: Box<[CredentialHandle]>,
    /// A hash of its name, equal in every process.
    pub hash: u64,
}

/// A credential at a deployment, or none if the provider needs none, with its health.
#[derive(Debug)]
pub struct CredentialHandle {
    /// The credential of the configuration. `None`: the provider needs none.
    pub configured: Option<Credential>,
    /// The health of the credential at all deployments.
    pub account: Arc<CredentialHealth>,
    /// The health of the credential at this deployment.
    pub health: Arc<DeploymentCredentialHealth>,
    /// Its share of the requests among credentials of one priority.
    pub weight: f64,
    /// A hash of its name and that of the deployment, equal in every process.
    pub hash: u64,
}

impl CredentialHandle {
    /// The credential's name; empty for none.
    pub fn name(&self) -> &str {
        self.configured.as_ref().map_or("", |it| &it.name)
    }

    /// The proof that logs in a request of `format`. `None`: the provider needs none, or there is no token yet.
    pub fn proof(&self, format: Format) -> Option<Proof> {
        match &self.account.token {
            Some(token) => token.proof(),
            None => self.configured.as_ref()?.proof(format),
        }
    }

    /// Why no request can be sent with it, as far as it needs a token.
    pub fn lack(&self, now: u64) -> Option<Lack> {
        self.account.token.as_ref()?.lack(now)
    }
}

impl DeploymentCredentialHealth {
    /// Requests under way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl DeploymentHandle {
    /// When breakers open at this deployment. `None`: never.
    pub fn policy(&self) -> Option<&BreakerPolicy> {
        self.deployment.provider.health.as_ref()
    }
}

type Map<K, V> = HashMap<K, Arc<V>>;

/// The handles of all deployments under one configuration.
#[derive(Debug, Default)]
pub struct Fleet {
    providers: Map<Arc<str>, ProviderHealth>,
    /// By provider and credential.
    credentials: Map<(Arc<str>, Arc<str>), CredentialHealth>,
    deployments: Map<Arc<str>, DeploymentHealth>,
    /// By deployment and credential.
    deployment_credentials: Map<(Arc<str>, Arc<str>), DeploymentCredentialHealth>,
    /// By model.
    handles: HashMap<Arc<str>, Arc<[Arc<DeploymentHandle>]>>,
    /// By their name: those of open paths, which have no model.
    open: Map<Arc<str>, DeploymentHandle>,
}

impl Fleet {
    /// The handles of a catalog. The health in an earlier fleet is taken over.
    pub fn new(catalog: &Catalog, earlier: Option<&Self>) -> Self {
        let mut fleet = Self::default();
        let empty = Self::default();
        let earlier = earlier.unwrap_or(&empty);
        for provider in catalog.providers() {
            fleet.add_provider(provider, earlier);
        }
        for provider in catalog.providers() {
            let rules = provider.passthrough.iter().flat_map(|open| &open.rules);
            for rule in rules {
                let deployment = Arc::new(Deployment::of_open_path(provider, rule));
                if let Some(handle) = fleet.handle(&deployment, earlier) {
                    fleet.open.insert(Arc::clone(&rule.name), handle);
                }
            }
        }
        for model in catalog.all() {
            let handles = model.deployments.iter();
            let handles = handles.filter_map(|it| fleet.handle(it, earlier)).collect();
            fleet.handles.insert(Arc::clone(&model.id), handles);
        }
        fleet
    }

    /// The handles of a model, in the order of its deployments.
    pub fn handles(&self, model: &Model) -> Arc<[Arc<DeploymentHandle>]> {
        self.handles.get(&model.id).cloned().unwrap_or_default()
    }

    /// The handle for an open path.
    pub fn open_path(&self, rule: &PassthroughRule) -> Option<&Arc<DeploymentHandle>> {
        self.open.get(&rule.name)
    }

    /// Every handle, those of open paths last; listed aliases repeat those of their model.
    pub fn all(&self) -> impl Iterator<Item = &Arc<DeploymentHandle>> {
        let of_models = self.handles.values().flat_map(|handles| handles.iter());
        of_models.chain(self.open.values())
    }

    /// Every model with its handles; listed aliases repeat those of their model.
    pub fn by_model(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<[Arc<DeploymentHandle>]>)> {
        self.handles.iter()
    }

    /// Every provider.
    pub fn providers(&self) -> impl Iterator<Item = &Arc<ProviderHealth>> {
        self.providers.values()
    }

    /// Every credential, with its provider's name and its own (empty for none).
    pub fn credentials(&self) -> impl Iterator<Item = ([&str; 2], &Arc<CredentialHealth>)> {
        let all = self.credentials.iter();
        all.map(|((provider, name), health)| ([&**provider, &**name], health))
    }

    /// The health of a provider.
    pub fn provider(&self, name: &str) -> Option<&Arc<ProviderHealth>> {
        self.providers.get(name)
    }

    /// Closes the open breakers of providers with `health: { enabled: false }`. An earlier configuration
    /// opened them, or a request that began under one. The gateway calls this when it serves the new
    /// configuration, and again while such a request can be in flight.
    pub fn release(&self, now: u64) {
        for handle in self.all().filter(|handle| handle.policy().is_none()) {
            let breakers = handle.credentials.iter();
            let breakers = breakers.flat_map(|it| [&it.account.breaker, &it.health.breaker]);
            for breaker in breakers.chain([&handle.provider.breaker, &handle.health.breaker]) {
                breaker.release(now);
            }
        }
    }

    fn add_provider(&mut self, provider: &Provider, earlier: &Self) {
        let known = earlier.providers.get(&provider.name);
        let known = known.filter(|it| it.host == provider.host && it.port == provider.port);
        let health = known.cloned().unwrap_or_else(|| {
            Arc::new(ProviderHealth {
                name: Arc::clone(&provider.name),
                host: Arc::clone(&provider.host),
                port: provider.port,
                breaker: Breaker::default(),
                has_address: AtomicBool::new(true),
            })
        });
        for credential in credentials_of(provider) {
            let key = (Arc::clone(&provider.name), name_of(credential));
            let same = earlier.credentials.get(&key);
            let same = same.filter(|it| match (&it.credential, credential) {
                (Some(before), Some(now)) => before.has_secret_of(now),
                (None, None) => true,
                _ => false,
            });
            let health = same.filter(|_| known.is_some()).cloned();
            let health = health.unwrap_or_else(|| {
                // Tokens are valid wherever the provider is.
                let token = same.and_then(|it| it.token.clone());
                Arc::new(CredentialHealth {
                    credential: credential.cloned(),
                    token: token.or_else(|| credential?.token(&provider.name)),
                    breaker: Breaker::default(),
                    load: Load::default(),
                })
            });
            self.credentials.insert(key, health);
        }
        self.providers.insert(Arc::clone(&provider.name), health);
    }

    /// The handle of a deployment. `None`: its provider is not in the catalog.
    fn handle(
        &mut self,
        deployment: &Arc<Deployment>,
        earlier: &Self,
    ) -> Option<Arc<DeploymentHandle>> {
        let provider = &deployment.provider;
        let of_provider = Arc::clone(self.providers.get(&provider.name)?);
        let known = earlier.deployments.get(&deployment.name);
        let known = known.filter(|it| Arc::ptr_eq(&it.provider, &of_provider));
        let entry = self.deployments.entry(Arc::clone(&deployment.name));
        let health = entry.or_insert_with(|| {
            known.cloned().unwrap_or_else(|| {
                Arc::new(DeploymentHealth {
                    provider: Arc::clone(&of_provider),
                    breaker: Breaker::default(),
                    load: Load::default(),
                    latency: PeakEwma::default(),
                })
            })
        });
        let health = Arc::clone(health);
        let weights = credentials_of(provider).map(|it| it.map_or(1.0, |it| f64::from(it.weight)));
        let all = weights.sum();
        let credentials = credentials_of(provider)
            .filter_map(|credential| self.credential_handle(deployment, credential, all, earlier))
            .collect();
        Some(Arc::new(DeploymentHandle {
            deployment: Arc::clone(deployment),
            provider: of_provider,
            health,
            credentials,
            hash: hash_of(&[deployment.name.as_bytes()]),
        }))
    }

    /// The handle of a credential at a deployment. `all`: the weights of all credentials together.
    fn credential_handle(
        &mut self,
        deployment: &Deployment,
        credential: Option<&Credential>,
        all: f64,
        earlier: &Self,
    ) -> Option<CredentialHandle> {
        let key = (Arc::clone(&deployment.provider.name), name_of(credential));
        let account = Arc::clone(self.credentials.get(&key)?);
        let (_, name) = key;
        let hash = hash_of(&[deployment.name.as_bytes(), name.as_bytes()]);
        let key = (Arc::clone(&deployment.name), name);
        let known = earlier.deployment_credentials.get(&key);
        let known = known.filter(|it| Arc::ptr_eq(&it.credential, &account));
        let health = self.deployment_credentials.entry(key).or_insert_with(|| {
            known.cloned().unwrap_or_else(|| {
                Arc::new(DeploymentCredentialHealth {
                    credential: Arc::clone(&account),
                    breaker: Breaker::default(),
                    in_flight: AtomicU32::new(0),
                })
            })
        });
        let share = credential.map_or(1.0, |it| f64::from(it.weight)) / all;
        Some(CredentialHandle {
            configured: credential.cloned(),
            account,
            health: Arc::clone(health),
            weight: f64::from(deployment.weight) * share,
            hash,
        })
    }
}

/// The credentials of a provider; a single `None` if it needs none.
fn credentials_of(provider: &Provider) -> impl Iterator<Item = Option<&Credential>> {
    let none = provider.credentials.is_empty().then_some(None);
    provider.credentials.iter().map(Some).chain(none)
}

fn name_of(credential: Option<&Credential>) -> Arc<str> {
    credential.map_or_else(|| "".into(), |it| Arc::clone(&it.name))
}
