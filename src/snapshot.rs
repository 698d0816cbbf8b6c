//! One configuration, ready to serve: catalog, filters, providers and limits together.
//!
//! A request takes the snapshot that is current when it begins and keeps it to its end;
//! a new one replaces the old in one step.

use crate::cors::Cors;
use crate::limits::Limits;
use crate::upstreams::{Authorities, Pool, Upstreams};
use arc_swap::ArcSwap;
use std::collections::HashSet;
use std::sync::Arc;
use tollgate_config::{
    Config, CountingSettings, DrainSettings, FailoverSettings, Faults, Support, TranslationSettings,
};
use tollgate_count::Vocabulary;
use tollgate_engine::accounts::{Accounts, NoAccounts, Remembering};
use tollgate_engine::catalog::IndexedCatalog;
use tollgate_engine::client::TrustedProxies;
use tollgate_engine::counts::{CatalogCounts, CountCache, CountingPool};
use tollgate_engine::endpoints::Usage;
use tollgate_engine::owned::Owned;
use tollgate_engine::pipeline::Pipeline;
use tollgate_filter::{ModelHandle, Services};
use tollgate_routing::Conversations;
use tollgate_routing::health::{DeploymentHandle, Fleet};

/// Everything that a request needs of the configuration.
pub struct Snapshot {
    /// The models.
    pub catalog: Arc<IndexedCatalog>,
    /// The filters.
    pub pipeline: Pipeline,
    /// The providers' connections.
    pub upstreams: Upstreams,
    /// The deployments with their health.
    pub fleet: Arc<Fleet>,
    /// The deployments and their connections, by the index of a model.
    served: Vec<Served>,
    /// The limits of requests.
    pub limits: Limits,
    /// The proxies whose `x-forwarded-for` or PROXY header is trusted.
    pub trusted_proxies: TrustedProxies,
    /// The web pages that may read answers.
    pub cors: Cors,
    /// How often and how long a request is tried.
    pub failover: FailoverSettings,
    /// The limits of draining an answer after its client has disconnected.
    pub drain: DrainSettings,
    /// The fields that may be lost in translation.
    pub translation: TranslationSettings,
    /// The store of translated answers; `None`: none are remembered.
    pub memory: Option<Remembering>,
    /// The owners of stored items.
    pub owned: Arc<Owned>,
    /// The usage of keys.
    pub usage: Usage,
    /// The plans whose keys are the last to be refused.
    pub priority_plans: HashSet<String>,
    /// How tokens are counted.
    pub counts: Arc<CatalogCounts>,
    /// How providers' counters are used.
    pub counting: CountingSettings,
    /// Cached counts of providers, under this configuration.
    pub count_cache: CountCache,
}

/// The deployments of a model.
pub struct Served {
    /// In the order of its deployments.
    pub handles: Arc<[Arc<DeploymentHandle>]>,
    /// The connections of each.
    pub pools: Box<[Arc<Pool>]>,
    /// Whether there is more than one candidate.
    pub has_choice: bool,
}

/// The deployments of each model, by its index.
fn served(catalog: &IndexedCatalog, fleet: &Fleet, upstreams: &Upstreams) -> Vec<Served> {
    let models = catalog.in_order().map(|model| {
        let handles = fleet.handles(model);
        let pool =
            |handle: &Arc<DeploymentHandle>| upstreams.pool(&handle.deployment.provider.name);
        Served {
            pools: handles.iter().filter_map(pool).cloned().collect(),
            has_choice: handles.iter().map(|it| it.credentials.len()).sum::<usize>() > 1,
            handles,
        }
    });
    models.collect()
}

/// The current snapshot.
pub type Current = ArcSwap<Snapshot>;

impl Snapshot {
    /// Reports faults that show only when the parts are built together. `authorities` were read with `config`.
    ///
    /// # Errors
    ///
    /// The faults, each with its place in the file.
    pub fn check(config: &Config, authorities: &Authorities) -> Result<(), Faults> {
        let (catalog, fleet) = catalog(config, Arc::default(), None);
        let services = NoAccounts::services(&catalog, config.plans.keys().cloned().collect());
        parts(config, &catalog, &fleet, authorities, &services).map(drop)
    }

    /// Builds a snapshot. The health of providers is taken over from the previous snapshot.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn build(
        config: &Config,
        authorities: &Authorities,
        accounts: &Accounts,
        earlier: Option<&Self>,
    ) -> Result<Self, Faults> {
        let earlier = earlier.map(|it| &*it.fleet);
        let (catalog, fleet) = catalog(config, accounts.conversations(), earlier);
        if config.counting.preload {
            CountingPool::load(Vocabulary::default());
        }
        let counts = Arc::new(CatalogCounts::new(accounts.counting_pool(), &catalog));
        let services = accounts.services(config, &catalog, &counts);
        let (upstreams, pipeline) = parts(config, &catalog, &fleet, authorities, &services)?;
        Ok(Self {
            served: served(&catalog, &fleet, &upstreams),
            catalog,
            pipeline,
            upstreams,
            fleet,
            limits: Limits::of(&config.server.limits),
            trusted_proxies: TrustedProxies::new(config.server.trusted_proxies.clone()),
            cors: Cors::new(&config.server.cors),
            failover: config.failover,
            drain: config.settlement.drain,
            translation: config.translation.clone(),
            memory: accounts.remembering(config),
            owned: accounts.owned(),
            usage: accounts.usage(config),
            priority_plans: priority_plans(config),
            counts,
            counting: config.counting.clone(),
            count_cache: CountCache::default(),
        })
    }

    /// The deployments of a model.
    pub fn served(&self, model: ModelHandle) -> Option<&Served> {
        self.served.get(usize::try_from(model.0).ok()?)
    }
}

fn catalog(
    config: &Config,
    conversations: Arc<Conversations>,
    earlier: Option<&Fleet>,
) -> (Arc<IndexedCatalog>, Arc<Fleet>) {
    let catalog = IndexedCatalog::new(config.catalog.clone());
    let fleet = Arc::new(Fleet::new(catalog.catalog(), earlier));
    let catalog = catalog.with_conversations(conversations);
    (Arc::new(catalog.with_fleet(Arc::clone(&fleet))), fleet)
}

/// Builds the two parts that can have faults, and reports the faults of both.
fn parts(
    config: &Config,
    catalog: &IndexedCatalog,
    fleet: &Fleet,
    authorities: &Authorities,
    services: &Services,
) -> Result<(Upstreams, Pipeline), Faults> {
    let upstreams = Upstreams::new(catalog.catalog().providers(), authorities, fleet);
    match (upstreams, Pipeline::build(&config.filters, services)) {
        (Ok(upstreams), Ok(pipeline)) => Ok((upstreams, pipeline)),
        (upstreams, pipeline) => {
            let found = [upstreams.err(), pipeline.err()];
            Err(config.locate(found.into_iter().flatten().flatten()))
        }
    }
}

fn priority_plans(config: &Config) -> HashSet<String> {
    let plans = config.plans.iter();
    let priority = plans.filter(|(_, plan)| plan.support == Support::Priority);
    priority.map(|(name, _)| name.clone()).collect()
}
