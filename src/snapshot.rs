//! One configuration, ready to serve: catalog, filters, providers and limits together.
//!
//! A request takes the snapshot that is current when it begins and keeps it to its end;
//! a new one replaces the old in one step.

use crate::accounts::{Accounts, NoAccounts};
use crate::choose::choose;
use crate::client::TrustedProxies;
use crate::config::{
    Config, CountingSettings, DrainSettings, FailoverSettings, Faults, LimitSettings, Support,
    TranslationSettings,
};
use crate::counts::{CatalogCounts, CountCache, Desk};
use crate::endpoints::Usage;
use crate::gateway::{BodyLimits, Cors, DrainLimits, LoadLimits, Remembering};
use crate::machine;
use crate::owned::Owned;
use crate::pipeline::Pipeline;
use crate::upstreams::{Authorities, Pool, Upstreams};
use arc_swap::ArcSwap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tollgate_count::Vocabulary;
use tollgate_filter::{Asked, Chosen, ModelHandle, ModelView};
use tollgate_routing::health::{Fleet, Place};
use tollgate_routing::{Catalog, Conversations, Model};
use tollgate_types::Format;

/// Everything that a request needs of the configuration.
pub struct Snapshot {
    /// Who answers.
    pub catalog: Arc<IndexedCatalog>,
    /// What requests pass through.
    pub pipeline: Pipeline,
    /// The providers' connections.
    pub upstreams: Upstreams,
    /// Who can be asked, and how they are doing.
    pub fleet: Arc<Fleet>,
    /// By the number of a model.
    served: Vec<Served>,
    /// What a request may cost the gateway.
    pub limits: Limits,
    /// The proxies that say whose a connection or a request is.
    pub trusted_proxies: TrustedProxies,
    /// Which web pages may read answers.
    pub cors: Cors,
    /// How often and how long a request is tried.
    pub failover: Failover,
    /// How far an answer is read on after its caller has disconnected.
    pub drain: DrainLimits,
    /// Which fields may be lost in translation.
    pub translation: TranslationSettings,
    /// Where translated answers are remembered; `None`: nowhere.
    pub memory: Option<Remembering>,
    /// Whose is what providers have stored; `None` in a configuration that is only checked.
    pub owned: Option<Arc<Owned>>,
    /// What keys have used; `None` in a configuration that is only checked.
    pub usage: Option<Usage>,
    /// The plans whose keys are the last to be refused.
    pub priority_plans: HashSet<String>,
    /// How tokens are counted; `None` in a configuration that is only checked.
    pub counts: Option<Arc<CatalogCounts>>,
    /// How providers' counters are used.
    pub counting: CountingSettings,
    /// What they answered a moment ago, under this configuration.
    pub count_cache: CountCache,
}

/// What a request may cost the gateway.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// The body's size and time.
    pub body: BodyLimits,
    /// How long an unused connection of a caller is kept.
    pub keepalive: Duration,
    /// How long a caller may take to accept a piece of an answer.
    pub write: Duration,
    /// Bytes a second that a caller must take of what is there for it.
    pub min_send_rate: Option<u64>,
    /// How long a head may take.
    pub head_timeout: Duration,
    /// Connections at one time.
    pub connections: u32,
    /// Connections at one time from one address.
    pub connections_per_address: Option<u32>,
    /// Requests at one time over one connection of HTTP/2.
    pub http2_streams: u32,
    /// What is refused when there is too much.
    pub load: LoadLimits,
}

/// How often and how long a request is tried.
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// Attempts of one request.
    pub attempts: usize,
    /// From its head to its end.
    pub total: Duration,
    /// How often an only candidate is asked again.
    pub again: usize,
    /// The first pause before that.
    pub pause: Duration,
    /// Attempts beyond the first, for every hundred requests of the last seconds.
    pub percent: u64,
    /// And for each second.
    pub per_second: u64,
}

/// Where a model is served.
pub struct Served {
    /// In the order of its deployments.
    pub places: Arc<[Arc<Place>]>,
    /// The connections of each.
    pub pools: Box<[Arc<Pool>]>,
    /// Whether there is more than one way to ask for it.
    pub has_choice: bool,
}

/// The current snapshot.
pub type Current = ArcSwap<Snapshot>;

/// The catalog, with a number for each model.
pub struct IndexedCatalog {
    catalog: Catalog,
    models: Vec<Indexed>,
    handles: HashMap<Arc<str>, ModelHandle, foldhash::fast::RandomState>,
    conversations: Arc<Conversations>,
    fleet: Option<Arc<Fleet>>,
}

struct Indexed {
    model: Arc<Model>,
    providers: Vec<Arc<str>>,
    responses_for: Vec<Format>,
}

impl IndexedCatalog {
    /// Numbers the models of a catalog.
    pub fn new(catalog: Catalog) -> Self {
        let mut models: Vec<Indexed> = Vec::new();
        let mut handles = HashMap::default();
        for model in catalog.all() {
            if let Ok(place) = u32::try_from(models.len()) {
                handles.insert(Arc::clone(&model.id), ModelHandle(place));
                models.push(Indexed::new(model));
            }
        }
        Self {
            catalog,
            models,
            handles,
            conversations: Arc::default(),
            fleet: None,
        }
    }

    /// The same, with the conversations that began before it was made.
    #[must_use]
    pub fn with_conversations(mut self, conversations: Arc<Conversations>) -> Self {
        self.conversations = conversations;
        self
    }

    /// The same, with how those are doing who serve its models.
    #[must_use]
    pub fn with_fleet(mut self, fleet: Arc<Fleet>) -> Self {
        self.fleet = Some(fleet);
        self
    }

    /// How those are doing who serve the models; `None` in a catalog by itself.
    pub const fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.fleet.as_ref()
    }

    /// Which models have answered which conversations.
    pub fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// The catalog itself.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The models, in the order of their numbers.
    pub fn in_order(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.iter().map(|indexed| &indexed.model)
    }

    /// A model by its number.
    pub fn model(&self, handle: ModelHandle) -> Option<&Arc<Model>> {
        self.indexed(handle).map(|indexed| &indexed.model)
    }

    fn indexed(&self, handle: ModelHandle) -> Option<&Indexed> {
        self.models.get(usize::try_from(handle.0).ok()?)
    }

    /// Where each is served, by its number.
    fn served(&self, fleet: &Fleet, upstreams: &Upstreams) -> Vec<Served> {
        let models = self.models.iter().map(|indexed| {
            let places = fleet.places(&indexed.model);
            let pool = |place: &Arc<Place>| upstreams.pool(&place.deployment.provider.name);
            Served {
                pools: places.iter().filter_map(pool).cloned().collect(),
                has_choice: places.iter().map(|it| it.seats.len()).sum::<usize>() > 1,
                places,
            }
        });
        models.collect()
    }

    /// A model as filters see it.
    pub fn view(&self, model: &Model) -> Option<ModelView<'_>> {
        self.view_of(*self.handles.get(&model.id)?)
    }

    fn view_of(&self, handle: ModelHandle) -> Option<ModelView<'_>> {
        let indexed = self.indexed(handle)?;
        Some(ModelView {
            handle,
            id: &indexed.model.id,
            group: &indexed.model.group,
            providers: &indexed.providers,
            responses_for: &indexed.responses_for,
            reasoning: indexed.model.reasoning,
            max_output_tokens: indexed.model.max_output_tokens,
            context_window: indexed.model.context_window,
        })
    }
}

impl Indexed {
    fn new(model: &Arc<Model>) -> Self {
        Self {
            model: Arc::clone(model),
            providers: model
                .deployments
                .iter()
                .map(|deployment| Arc::clone(&deployment.provider.name))
                .collect(),
            responses_for: [Format::Chat, Format::Messages]
                .into_iter()
                .filter(|format| {
                    let mut asked = model.deployments.iter();
                    asked.any(|it| {
                        !it.formats.contains(*format) && it.formats.contains(Format::Responses)
                    })
                })
                .collect(),
        }
    }
}

impl tollgate_filter::Catalog for IndexedCatalog {
    fn resolve(&self, name: &str) -> Option<ModelView<'_>> {
        self.view(self.catalog.resolve(name)?)
    }

    fn model(&self, handle: ModelHandle) -> Option<ModelView<'_>> {
        self.view_of(handle)
    }

    fn is_auto(&self, name: &str) -> bool {
        self.catalog
            .resolve(name)
            .is_some_and(|model| model.is_auto())
    }

    fn choose(
        &self,
        asked: &Asked<'_>,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<Chosen<'_>> {
        choose(self, asked, allowed)
    }
}

impl Snapshot {
    /// Makes ready to serve what a configuration says: joins the parts that know nothing of
    /// each other, and the authorities that were read with it. Without accounts it is checked and
    /// serves nobody. What the snapshot before knows of the health of providers is taken over.
    ///
    /// # Errors
    ///
    /// What shows only when the parts are joined, each fault with its place in the file.
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
            Desk::load(Vocabulary::default());
        }
        let counts = accounts.map(|it| Arc::new(CatalogCounts::new(it.desk(), &catalog)));
        let services = match accounts.zip(counts.as_ref()) {
            Some((accounts, counts)) => accounts.lend(config, &catalog, counts),
            None => NoAccounts::lend(&catalog),
        };
        let pipeline = Pipeline::build(&config.filters, &services)
            .map_err(|found| faults.extend(found))
            .ok();
        match (upstreams, pipeline) {
            (Some(upstreams), Some(pipeline)) => Ok(Self {
                served: catalog.served(&fleet, &upstreams),
                catalog,
                pipeline,
                upstreams,
                fleet,
                limits,
                trusted_proxies: TrustedProxies::new(config.server.trusted_proxies.clone()),
                cors: Cors::new(&config.server.cors),
                failover: Failover::of(&config.failover),
                drain: drain_limits(&config.settlement.drain),
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

impl Failover {
    fn of(settings: &FailoverSettings) -> Self {
        Self {
            attempts: settings.attempts.into(),
            total: settings.total.get(),
            again: settings.again.into(),
            pause: settings.pause.get(),
            percent: settings.budget.percent.into(),
            per_second: settings.budget.per_second.into(),
        }
    }
}

impl Snapshot {
    /// Where a model is served.
    pub fn served(&self, model: ModelHandle) -> Option<&Served> {
        self.served.get(usize::try_from(model.0).ok()?)
    }
}

fn drain_limits(settings: &DrainSettings) -> DrainLimits {
    DrainLimits {
        time: settings.time.get(),
        bytes: settings.bytes.get(),
        requests: usize::try_from(settings.requests).unwrap_or(usize::MAX),
    }
}

fn priority_plans(config: &Config) -> HashSet<String> {
    let plans = config.plans.iter();
    let priority = plans.filter(|(_, plan)| plan.support == Support::Priority);
    priority.map(|(name, _)| name.clone()).collect()
}

impl Limits {
    /// Headers in one request: no client sends half as many, and Pingora's parser ends at 256.
    pub const MOST_HEADERS: usize = 128;

    fn of(settings: &LimitSettings) -> Self {
        let memory = settings.memory.map(|memory| memory.get());
        let memory = memory.unwrap_or_else(machine::usual_memory);
        let load = LoadLimits {
            requests: settings.requests_in_flight,
            bodies: settings.bodies_within(memory).get(),
            largest: settings.body_bytes.get(),
            memory,
            files: machine::files_for_callers(),
            reserved: settings.reserved_for_priority,
        };
        Self {
            head_bytes: usize::try_from(settings.head_bytes.get()).unwrap_or(usize::MAX),
            body: BodyLimits {
                size: load.largest_body(),
                time: settings.body_timeout.get(),
                rate: settings
                    .min_body_rate
                    .map(|rate| rate.get())
                    .filter(|rate| *rate > 0),
            },
            keepalive: settings.keepalive_timeout.get(),
            write: settings.downstream_write_timeout.get(),
            min_send_rate: settings
                .min_send_rate
                .map(|rate| rate.get())
                .filter(|rate| *rate > 0),
            head_timeout: settings.head_timeout.get(),
            connections: settings.connections.min(machine::most_connections()),
            connections_per_address: settings.connections_per_address,
            http2_streams: settings.http2_streams,
            load,
        }
    }
}
