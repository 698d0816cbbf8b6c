//! Everybody who can be asked, with how they are doing: one [`Place`] for each deployment of
//! each model.
//!
//! What was known in an earlier configuration is taken over by name: of a provider as long as
//! its address is the same, of a credential as long as its secret is, of a deployment as long
//! as its provider's is. Two models that are served by one upstream model at one provider
//! share what is known of it.

use super::{Breaker, BreakerPolicy, Load, PeakEwma};
use crate::{Catalog, Credential, Deployment, Model, Provider};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// How a provider is doing, whatever it is asked for.
#[derive(Debug)]
pub struct ProviderHealth {
    /// Its name.
    pub name: Arc<str>,
    host: Arc<str>,
    port: u16,
    /// Opens when it cannot be reached.
    pub breaker: Breaker,
}

/// How a credential is doing at its provider.
#[derive(Debug)]
pub struct CredentialHealth {
    credential: Option<Credential>,
    /// Opens when it is refused.
    pub breaker: Breaker,
    /// What it is used for.
    pub load: Load,
}

/// How a deployment is doing.
#[derive(Debug)]
pub struct DeploymentHealth {
    provider: Arc<ProviderHealth>,
    /// Opens when it fails.
    pub breaker: Breaker,
    /// What it is asked.
    pub load: Load,
    /// How long its first token takes, in streams.
    pub latency: PeakEwma,
}

/// How a credential is doing at one deployment.
#[derive(Debug)]
pub struct SeatHealth {
    credential: Arc<CredentialHealth>,
    /// Opens when it has asked too much.
    pub breaker: Breaker,
    pub(super) in_flight: AtomicU32,
}

/// A deployment of a model, with how it is doing.
#[derive(Debug)]
pub struct Place {
    /// The deployment.
    pub deployment: Arc<Deployment>,
    /// Its provider.
    pub provider: Arc<ProviderHealth>,
    /// The deployment itself.
    pub health: Arc<DeploymentHealth>,
    /// One for each credential; one without, where the provider asks for none. Never empty.
    pub seats: Box<[Seat]>,
}

/// A credential at a deployment.
#[derive(Debug)]
pub struct Seat {
    /// The credential; `None`: the provider asks for none.
    pub credential: Option<Credential>,
    /// How the credential is doing everywhere.
    pub account: Arc<CredentialHealth>,
    /// How it is doing here.
    pub health: Arc<SeatHealth>,
    /// Its share of the requests among seats of one priority.
    pub weight: f64,
    /// The same for the same names, wherever and whenever it is computed.
    pub hash: u64,
}

impl Seat {
    /// The credential's name; empty for none.
    pub fn name(&self) -> &str {
        self.credential.as_ref().map_or("", |it| &it.name)
    }
}

impl SeatHealth {
    /// Requests under way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Place {
    /// When breakers open here; `None`: never.
    pub fn policy(&self) -> Option<&BreakerPolicy> {
        self.deployment.provider.health.as_ref()
    }
}

type Map<K, V> = HashMap<K, Arc<V>>;

/// Everybody who can be asked, under one configuration.
#[derive(Debug, Default)]
pub struct Fleet {
    providers: Map<Arc<str>, ProviderHealth>,
    /// By provider and credential.
    credentials: Map<(Arc<str>, Arc<str>), CredentialHealth>,
    deployments: Map<Arc<str>, DeploymentHealth>,
    /// By deployment and credential.
    seats: Map<(Arc<str>, Arc<str>), SeatHealth>,
    /// By model.
    places: HashMap<Arc<str>, Arc<[Arc<Place>]>>,
}

impl Fleet {
    /// Those of a catalog; what an earlier fleet knows of them is taken over.
    pub fn new(catalog: &Catalog, earlier: Option<&Self>) -> Self {
        let mut fleet = Self::default();
        let nobody = Self::default();
        let earlier = earlier.unwrap_or(&nobody);
        for provider in catalog.providers() {
            fleet.add_provider(provider, earlier);
        }
        for model in catalog.all() {
            let places = model.deployments.iter();
            let places = places
                .map(|it| Arc::new(fleet.place(it, earlier)))
                .collect();
            fleet.places.insert(Arc::clone(&model.id), places);
        }
        fleet
    }

    /// Where a model is served, in the order of its deployments.
    pub fn places(&self, model: &Model) -> Arc<[Arc<Place>]> {
        self.places.get(&model.id).cloned().unwrap_or_default()
    }

    /// Every place, those of listed aliases once more.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Place>> {
        self.places.values().flat_map(|places| places.iter())
    }

    /// Every model with its places, those of listed aliases once more.
    pub fn by_model(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<[Arc<Place>]>)> {
        self.places.iter()
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

    /// How a provider is doing.
    pub fn provider(&self, name: &str) -> Option<&Arc<ProviderHealth>> {
        self.providers.get(name)
    }

    /// Closes what is benched at providers whose `health` is off: an earlier configuration has benched
    /// it, or a request that began under one. So it is for when this configuration is already served,
    /// and for later again while such a request may be under way.
    pub fn release(&self, now: u64) {
        for place in self.all().filter(|place| place.policy().is_none()) {
            let seats = place.seats.iter();
            let seats = seats.flat_map(|seat| [&seat.account.breaker, &seat.health.breaker]);
            for breaker in seats.chain([&place.provider.breaker, &place.health.breaker]) {
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
            })
        });
        for credential in logins(provider) {
            let key = (Arc::clone(&provider.name), name_of(credential));
            let known = earlier.credentials.get(&key).filter(|it| {
                let same = match (&it.credential, credential) {
                    (Some(before), Some(now)) => before.has_secret_of(now),
                    (None, None) => true,
                    _ => false,
                };
                known.is_some() && same
            });
            let health = known.cloned().unwrap_or_else(|| {
                Arc::new(CredentialHealth {
                    credential: credential.cloned(),
                    breaker: Breaker::default(),
                    load: Load::default(),
                })
            });
            self.credentials.insert(key, health);
        }
        self.providers.insert(Arc::clone(&provider.name), health);
    }

    fn place(&mut self, deployment: &Arc<Deployment>, earlier: &Self) -> Place {
        let provider = &deployment.provider;
        let of_provider = self
            .providers
            .entry(Arc::clone(&provider.name))
            .or_insert_with(|| unreachable_provider(provider));
        let of_provider = Arc::clone(of_provider);
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
        let weights = logins(provider).map(|it| it.map_or(1.0, |it| f64::from(it.weight)));
        let all: f64 = weights.sum();
        let seats = logins(provider)
            .filter_map(|credential| {
                let key = (Arc::clone(&provider.name), name_of(credential));
                let account = Arc::clone(self.credentials.get(&key)?);
                let (_, name) = key;
                let hash = seat_hash(&deployment.name, &name);
                let key = (Arc::clone(&deployment.name), name);
                let known = earlier.seats.get(&key);
                let known = known.filter(|it| Arc::ptr_eq(&it.credential, &account));
                let seat = self.seats.entry(key).or_insert_with(|| {
                    known.cloned().unwrap_or_else(|| {
                        Arc::new(SeatHealth {
                            credential: Arc::clone(&account),
                            breaker: Breaker::default(),
                            in_flight: AtomicU32::new(0),
                        })
                    })
                });
                let share = credential.map_or(1.0, |it| f64::from(it.weight)) / all;
                Some(Seat {
                    credential: credential.cloned(),
                    account,
                    health: Arc::clone(seat),
                    weight: f64::from(deployment.weight) * share,
                    hash,
                })
            })
            .collect();
        Place {
            deployment: Arc::clone(deployment),
            provider: of_provider,
            health,
            seats,
        }
    }
}

/// A provider that is in a deployment and not in the catalog; there is none.
fn unreachable_provider(provider: &Provider) -> Arc<ProviderHealth> {
    Arc::new(ProviderHealth {
        name: Arc::clone(&provider.name),
        host: Arc::clone(&provider.host),
        port: provider.port,
        breaker: Breaker::default(),
    })
}

/// The ways to log in to a provider.
fn logins(provider: &Provider) -> impl Iterator<Item = Option<&Credential>> {
    let none = provider.credentials.is_empty().then_some(None);
    provider.credentials.iter().map(Some).chain(none)
}

fn name_of(credential: Option<&Credential>) -> Arc<str> {
    credential.map_or_else(|| "".into(), |it| Arc::clone(&it.name))
}

fn seat_hash(deployment: &str, credential: &str) -> u64 {
    crate::plan::hash_of(&[deployment.as_bytes(), credential.as_bytes()])
}
