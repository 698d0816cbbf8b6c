//! One configuration, ready to serve: catalog, filters, providers and limits together.
//!
//! A request takes the snapshot that is current when it begins and keeps it to its end;
//! a new one replaces the old in one step.

use crate::cors::Cors;
use crate::limits::{DrainLimits, Failover, Limits};
use crate::upstreams::{Authorities, Pool, Upstreams};
use arc_swap::ArcSwap;
use std::collections::HashSet;
use std::sync::Arc;
use tollgate_config::{Config, CountingSettings, Faults, Support, TranslationSettings};
use tollgate_count::Vocabulary;
use tollgate_engine::accounts::{Accounts, NoAccounts, Remembering};
use tollgate_engine::catalog::IndexedCatalog;
use tollgate_engine::client::TrustedProxies;
use tollgate_engine::counts::{CatalogCounts, CountCache, CountingPool};
use tollgate_engine::endpoints::Usage;
use tollgate_engine::owned::Owned;
use tollgate_engine::pipeline::Pipeline;
use tollgate_filter::ModelHandle;
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
    pub failover: Failover,
    /// The limits of draining an answer after its client has disconnected.
    pub drain: DrainLimits,
    /// The fields that may be lost in translation.
    pub translation: TranslationSettings,
    /// The store of translated answers; `None`: none are remembered.
    pub memory: Option<Remembering>,
    /// The owners of stored items; `None` in a configuration that is only checked.
    pub owned: Option<Arc<Owned>>,
    /// The usage of keys; `None` in a configuration that is only checked.
    pub usage: Option<Usage>,
    /// The plans whose keys are the last to be refused.
    pub priority_plans: HashSet<String>,
    /// How tokens are counted; `None` in a configuration that is only checked.
    pub counts: Option<Arc<CatalogCounts>>,
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
    /// Builds a snapshot of a configuration, with the authorities that were read with it. Without accounts the snapshot is only checked and cannot serve.
    /// The health of providers is taken over from the previous snapshot.
    ///
    /// # Errors
    ///
    /// Faults that only the combination of the parts shows, each with its place in the file.
    pub fn build(
        config: &Config,
        authorities: &Authorities,
        accounts: Option<&Accounts>,
        earlier: Option<&Self>,
    ) -> Result<Self, Faults> {
        let limits = Limits::of(&config.server.limits);
        let conversations = accounts.map_or_else(Arc::default, Accounts::conversations);
        let catalog = IndexedCatalog::new(config.catalog.clone());
        let fleet = Arc::new(Fleet::new(catalog.catalog(), earlier.map(|it| &*it.fleet)));
        let catalog = catalog.with_conversations(conversations);
        let catalog = Arc::new(catalog.with_fleet(Arc::clone(&fleet)));
        let mut faults = Vec::new();
        let upstreams = Upstreams::new(catalog.catalog().providers(), authorities)
            .map_err(|found| faults.extend(found))
            .ok();
        if accounts.is_some() && config.counting.preload {
            CountingPool::load(Vocabulary::default());
        }
        let counts = accounts.map(|it| Arc::new(CatalogCounts::new(it.counting_pool(), &catalog)));
        let services = match accounts.zip(counts.as_ref()) {
            Some((accounts, counts)) => accounts.services(config, &catalog, counts),
            None => NoAccounts::services(&catalog, config.plans.keys().cloned().collect()),
        };
        let pipeline = Pipeline::build(&config.filters, &services)
            .map_err(|found| faults.extend(found))
            .ok();
        match (upstreams, pipeline) {
            (Some(upstreams), Some(pipeline)) => Ok(Self {
                served: served(&catalog, &fleet, &upstreams),
                catalog,
                pipeline,
                upstreams,
                fleet,
                limits,
                trusted_proxies: TrustedProxies::new(config.server.trusted_proxies.clone()),
                cors: Cors::new(&config.server.cors),
                failover: Failover::of(&config.failover),
                drain: DrainLimits::of(&config.settlement.drain),
                translation: config.translation.clone(),
                memory: accounts.and_then(|accounts| accounts.remembering(config)),
                owned: accounts.map(Accounts::owned),
                usage: accounts.map(|accounts| accounts.usage(config)),
                priority_plans: priority_plans(config),
                counts,
                counting: config.counting.clone(),
                count_cache: CountCache::default(),
            }),
            _ => Err(config.locate(faults)),
        }
    }
}

impl Snapshot {
    /// The deployments of a model.
    pub fn served(&self, model: ModelHandle) -> Option<&Served> {
        self.served.get(usize::try_from(model.0).ok()?)
    }
}

fn priority_plans(config: &Config) -> HashSet<String> {
    let plans = config.plans.iter();
    let priority = plans.filter(|(_, plan)| plan.support == Support::Priority);
    priority.map(|(name, _)| name.clone()).collect()
}
