//! The catalog for filters, and the choice of `auto`: joins a request to the model of its
//! conversation and to the availability of models.
//!
//! `tollgate_routing` decides how a profile chooses.

use crate::catalog::IndexedCatalog;
use std::sync::Arc;
use std::time::Instant;
use tollgate_filter::{AutoRequest, Catalog, Chosen, ModelHandle, ModelView};
use tollgate_routing::health::DeploymentHandle;
use tollgate_routing::{ChoiceRequest, Decision, Model, Profile, plan};
use tollgate_telemetry::{clock, events};
use tollgate_types::{AskedTier, Format};

impl Catalog for IndexedCatalog {
    fn resolve(&self, name: &str) -> Option<ModelView<'_>> {
        self.view(self.catalog().resolve(name)?)
    }

    fn model(&self, handle: ModelHandle) -> Option<ModelView<'_>> {
        self.view_of(handle)
    }

    fn is_priced(&self, model: ModelHandle, tiers: &[AskedTier]) -> bool {
        let model = self.model(model);
        model.is_some_and(|model| model.is_priced(tiers))
    }

    fn is_auto(&self, name: &str) -> bool {
        let model = self.catalog().resolve(name);
        model.is_some_and(|model| model.is_auto())
    }

    fn choose(
        &self,
        asked: &AutoRequest<'_>,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<Chosen<'_>> {
        choose(self, asked, allowed)
    }
}

/// Chooses a model, and remembers it for the conversation.
fn choose<'a>(
    catalog: &'a IndexedCatalog,
    asked: &AutoRequest<'_>,
    allowed: &dyn Fn(ModelView<'_>) -> bool,
) -> Option<Chosen<'a>> {
    let chooser = Chooser::new(catalog, asked, allowed)?;
    let now = Instant::now();
    let (conversation, before) = chooser.conversation(now);
    let decision = chooser.decide(before.as_deref())?;
    if asked.is_answered {
        if let Some(conversation) = conversation {
            let conversations = catalog.conversations();
            conversations.remember(conversation, &decision.model.id, now);
        }
        events::model_chosen(&decision);
    }
    Some(Chosen {
        model: catalog.view(&decision.model)?,
        reason: decision.to_string().into(),
    })
}

/// The choice that would be made, and the influence of the conversation.
pub struct Preview {
    /// The choice.
    pub decision: Decision,
    /// The model that has answered the conversation so far.
    pub before: Option<Arc<str>>,
    /// The choice if the conversation began now; `None` if it does.
    pub anew: Option<Decision>,
}

/// Previews the choice. Remembers and counts nothing.
pub fn preview(
    catalog: &IndexedCatalog,
    asked: &AutoRequest<'_>,
    allowed: &dyn Fn(ModelView<'_>) -> bool,
) -> Option<Preview> {
    let chooser = Chooser::new(catalog, asked, allowed)?;
    let (_, before) = chooser.conversation(Instant::now());
    Some(Preview {
        decision: chooser.decide(before.as_deref())?,
        anew: before.as_ref().and_then(|_| chooser.decide(None)),
        before,
    })
}

/// A request and the profile that chooses for it.
struct Chooser<'a> {
    catalog: &'a IndexedCatalog,
    profile: &'a Profile,
    asked: &'a AutoRequest<'a>,
    allowed: &'a dyn Fn(ModelView<'_>) -> bool,
}

impl<'a> Chooser<'a> {
    fn new(
        catalog: &'a IndexedCatalog,
        asked: &'a AutoRequest<'a>,
        allowed: &'a dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<Self> {
        Some(Self {
            catalog,
            profile: catalog.catalog().profile(asked.name)?,
            asked,
            allowed,
        })
    }

    /// The identity of the conversation, and the model that has answered it so far.
    fn conversation(&self, now: Instant) -> (Option<u64>, Option<Arc<str>>) {
        let identity = self.identity();
        let ttl = self.catalog.catalog().conversation_ttl();
        let recall = |identity| self.catalog.conversations().recall(identity, now, ttl);
        (identity, identity.and_then(recall))
    }

    fn decide(&self, before: Option<&str>) -> Option<Decision> {
        let (catalog, facts) = (self.catalog, self.asked.facts);
        let allowed = |model: &Model| catalog.view(model).is_some_and(self.allowed);
        let request = ChoiceRequest {
            facts,
            allowed: &allowed,
            available: &|model| is_available(catalog, model, self.asked),
            before,
        };
        // If no model is available, the chosen one answers with the time to retry.
        self.profile.choose(&request).or_else(|| {
            self.profile.choose(&ChoiceRequest {
                available: &|_| true,
                ..request
            })
        })
    }

    /// The identity of the conversation, different for every key and profile.
    fn identity(&self) -> Option<u64> {
        let conversations = self.catalog.conversations();
        let facts = self.asked.facts;
        let owner = (self.asked.key.as_str(), &self.profile.name);
        let mut names = self.catalog.catalog().affinity().headers.iter();
        let session = names.find_map(|name| self.asked.headers.get(name));
        if let Some(session) = session.filter(|name| !name.is_empty()) {
            // Side requests of agents, such as for a title, offer no tools. They are a conversation
            // of their own.
            let session = session.as_bytes();
            return Some(conversations.identify((owner, session, facts.needs.tools)));
        }
        let beginning = facts.conversation.as_ref().map_or(0, |it| it.beginning);
        (beginning != 0).then(|| conversations.identify((owner, beginning)))
    }
}

/// Whether a deployment of a model has an address, and is neither in cooldown nor full.
fn is_available(catalog: &IndexedCatalog, model: &Model, asked: &AutoRequest<'_>) -> bool {
    let Some(fleet) = catalog.fleet() else {
        return true;
    };
    let handles = fleet.handles(model);
    let can_serve = |it: &&Arc<DeploymentHandle>| {
        it.provider.has_address() && (!asked.needs_price || it.deployment.price.is_some())
    };
    let handles: Vec<_> = handles.iter().filter(can_serve).cloned().collect();
    plan::is_available(
        &handles,
        &plan::PlanRequest {
            // Deployments of other formats get a translation.
            format: Format::Chat,
            counts_tokens: false,
            stored_at: None,
            conversation: None,
            tokens: asked.facts.likely_input_tokens(),
            now: clock::steady_ms(Instant::now()),
            random: 0,
        },
    )
}
