//! Counts for the models of one configuration: the rules of a model that filters know by its
//! handle.

use super::CountingPool;
use crate::catalog::IndexedCatalog;
use std::sync::Arc;
use tollgate_count::{Basis, Count, Family as _, Rules, Tokenizer};
use tollgate_filter::{Counting, ModelHandle, RequestContext};
use tollgate_routing::{Deployment, Model, UpstreamModel};
use tollgate_types::{Format, InputCount, MaybeReady};

/// Up to this size, a filter's count reads every byte: crafted text can mislead a sample, and the
/// filter reserves by the count. At worst half a second of a thread.
const EXACT_BYTES: u64 = 4 << 20;

/// The counting of one configuration.
pub struct CatalogCounts {
    pool: Arc<CountingPool>,
    catalog: Arc<IndexedCatalog>,
    /// The deployments of each model, by its number.
    models: Vec<Vec<Served>>,
}

/// A deployment of a model, with what is looked up once.
struct Served {
    deployment: Arc<Deployment>,
    /// `None` if it depends on the model name in the request.
    family: Option<Tokenizer>,
}

/// How a request is counted.
pub struct How {
    /// The format that frames it.
    pub format: Format,
    /// By which rules.
    pub rules: Rules,
}

impl Served {
    fn of(model: &Model, deployment: &Arc<Deployment>) -> Self {
        Self {
            family: tokenizer_of(model, deployment),
            deployment: Arc::clone(deployment),
        }
    }
}

/// The family of a model at a deployment: from the configuration, else from its name.
fn tokenizer_of(model: &Model, deployment: &Deployment) -> Option<Tokenizer> {
    let said = model.tokenizer.or(deployment.provider.tokenizer);
    match (said, &deployment.upstream_model) {
        (Some(said), _) => Some(said),
        (None, UpstreamModel::Fixed(name)) => Some(Tokenizer::of_model(name)),
        (None, UpstreamModel::AsRequested { .. }) => None,
    }
}

impl CatalogCounts {
    /// For the models of `catalog`.
    pub fn new(pool: &Arc<CountingPool>, catalog: &Arc<IndexedCatalog>) -> Self {
        let served = |model: &Arc<Model>| {
            let deployments = model.deployments.iter();
            deployments.map(|it| Served::of(model, it)).collect()
        };
        Self {
            models: catalog.in_order().map(served).collect(),
            pool: Arc::clone(pool),
            catalog: Arc::clone(catalog),
        }
    }

    /// Where bodies are counted.
    pub const fn pool(&self) -> &Arc<CountingPool> {
        &self.pool
    }

    fn served(&self, model: ModelHandle) -> Option<&[Served]> {
        let index = usize::try_from(model.0).ok()?;
        self.models.get(index).map(Vec::as_slice)
    }

    /// How a request to this deployment is counted. The client's body is counted, also if the
    /// deployment gets a translation.
    pub fn how(&self, request: &RequestContext, by: &Arc<Deployment>) -> Option<How> {
        let served = self.served(request.route.as_ref()?.model)?;
        let served = served.iter().find(|it| it.deployment.name == by.name)?;
        let family = match served.family {
            Some(family) => family,
            None => Tokenizer::of_model(request.model_asked().unwrap_or_default()),
        };
        let format = request.format()?;
        Some(How {
            format,
            rules: family.rules(),
        })
    }

    /// How a request is counted before its deployment is chosen.
    pub fn how_routed(&self, request: &RequestContext) -> Option<How> {
        let model = self.catalog.model(request.route.as_ref()?.model)?;
        let format = request.format()?;
        let rank = |it: &&Arc<Deployment>| (it.priority, !it.formats.contains(format));
        self.how(request, model.deployments.iter().min_by_key(rank)?)
    }
}

impl Counting for CatalogCounts {
    fn count(&self, request: &RequestContext) -> MaybeReady<Option<InputCount>> {
        if request.input.is_some() {
            return MaybeReady::ready(request.input);
        }
        let Some((body, how)) = request.body.clone().zip(self.how_routed(request)) else {
            return MaybeReady::ready(None);
        };
        let How { format, mut rules } = how;
        rules.exact_bytes = EXACT_BYTES;
        match self.pool.count_now(format, &body, &rules) {
            Some(count) => MaybeReady::ready(input_count(count)),
            None => match &request.identity {
                Some(identity) => {
                    let (pool, key) = (Arc::clone(&self.pool), identity.key.clone());
                    MaybeReady::pending(async move {
                        input_count(pool.count(&key, format, body, rules).await?)
                    })
                }
                None => MaybeReady::ready(None),
            },
        }
    }
}

/// A count in the form that filters use; `None` if only the length of the body is known.
fn input_count(count: Count) -> Option<InputCount> {
    (count.basis != Basis::Length).then(|| InputCount {
        tokens: count.tokens,
        at_least: count.at_least(),
        at_most: count.to_reserve(),
        error_p95: count.error_p95,
    })
}
