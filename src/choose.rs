//! `auto`, joined to what the gateway knows beside the request: which model a conversation
//! has, and what another profile would have chosen.
//!
//! How a profile chooses is decided in `tollgate_routing`.

use crate::snapshot::IndexedCatalog;
use crate::{clock, events};
use std::sync::Arc;
use std::time::Instant;
use tollgate_filter::{Asked, Chosen, ModelView, Shadow};
use tollgate_routing::{Ask, Decision, Model, Profile, plan};
use tollgate_types::{Format, RequestFacts};

/// Chooses a model, and remembers it for the conversation.
pub fn choose<'a>(
    catalog: &'a IndexedCatalog,
    asked: &Asked<'_>,
    allowed: &dyn Fn(ModelView<'_>) -> bool,
) -> Option<Chosen<'a>> {
    let profiles = catalog.catalog();
    let profile = profiles.profile(asked.name)?;
    let matter = |profile| Matter {
        catalog,
        profile,
        asked,
        allowed,
    };
    let decision = matter(profile).settle()?;
    let shadow = profile
        .shadow
        .as_deref()
        .filter(|_| asked.is_answered)
        .and_then(|name| matter(profiles.profile(name)?).settle())
        .map(|other| Shadow {
            profile: other.profile,
            model: Arc::clone(&other.model.id),
        });
    if asked.is_answered {
        events::model_chosen(&decision, shadow.as_ref());
    }
    Some(Chosen {
        model: catalog.view(&decision.model)?,
        reason: decision.to_string(),
        word: decision.why.as_str(),
        shadow,
    })
}

/// What would be chosen, and what the conversation has to do with it.
pub struct Look {
    /// What would be chosen.
    pub decision: Decision,
    /// The model that has answered the conversation so far, where one has.
    pub before: Option<Arc<str>>,
    /// What would be chosen if it began now, where it has a model.
    pub anew: Option<Decision>,
}

/// Looks what would be chosen. Remembers nothing and tells nobody.
pub fn look(
    catalog: &IndexedCatalog,
    asked: &Asked<'_>,
    allowed: &dyn Fn(ModelView<'_>) -> bool,
) -> Option<Look> {
    let matter = Matter {
        catalog,
        profile: catalog.catalog().profile(asked.name)?,
        asked,
        allowed,
    };
    let (_, before) = matter.conversation(Instant::now());
    Some(Look {
        decision: matter.decide(before.as_deref())?,
        anew: before.as_ref().and_then(|_| matter.decide(None)),
        before,
    })
}

/// A request and the profile that is to choose for it.
struct Matter<'a> {
    catalog: &'a IndexedCatalog,
    profile: &'a Profile,
    asked: &'a Asked<'a>,
    allowed: &'a dyn Fn(ModelView<'_>) -> bool,
}

impl Matter<'_> {
    /// Decides, and remembers it for the conversation.
    fn settle(&self) -> Option<Decision> {
        let now = Instant::now();
        let (conversation, before) = self.conversation(now);
        let decision = self.decide(before.as_deref())?;
        if let (Some(name), true) = (conversation, self.asked.is_answered) {
            let conversations = self.catalog.conversations();
            conversations.remember(name, &decision.model.id, now);
        }
        Some(decision)
    }

    /// The conversation's name, and the model that has answered it so far.
    fn conversation(&self, now: Instant) -> (Option<u64>, Option<Arc<str>>) {
        let name = name_of(self.catalog, self.profile, self.asked);
        let ttl = self.catalog.catalog().conversation_ttl();
        let recall = |name| self.catalog.conversations().recall(name, now, ttl);
        (name, name.and_then(recall))
    }

    fn decide(&self, before: Option<&str>) -> Option<Decision> {
        let Self {
            catalog,
            profile,
            asked,
            ..
        } = self;
        let allowed = |model: &Model| catalog.view(model).is_some_and(self.allowed);
        let ask = Ask {
            facts: asked.facts,
            allowed: &allowed,
            available: &|model| is_available(catalog, model, asked.facts),
            before,
        };
        // Where nobody is available, whoever is chosen says when to try again.
        profile.choose(&ask).or_else(|| {
            profile.choose(&Ask {
                available: &|_| true,
                ..ask
            })
        })
    }
}

/// Whether anybody who serves a model is neither benched nor full.
fn is_available(catalog: &IndexedCatalog, model: &Model, facts: &RequestFacts) -> bool {
    let Some(fleet) = catalog.fleet() else {
        return true;
    };
    plan::is_available(
        &fleet.places(model),
        &plan::Asked {
            // Who speaks another is asked in that.
            format: Format::Chat,
            counts_tokens: false,
            stored_at: None,
            conversation: None,
            tokens: facts.likely_input_tokens(),
            now: clock::steady_ms(Instant::now()),
            random: 0,
        },
    )
}

/// What a conversation is remembered by; nothing of one key is ever another's.
fn name_of(catalog: &IndexedCatalog, profile: &Profile, asked: &Asked<'_>) -> Option<u64> {
    let conversations = catalog.conversations();
    let facts = asked.facts;
    let owner = (asked.key.as_str(), &profile.name);
    let mut names = catalog.catalog().affinity().headers.iter();
    let session = names.find_map(|name| asked.headers.get(name));
    if let Some(session) = session.filter(|name| !name.is_empty()) {
        // Agents ask small things on the side, such as for a title, and offer no tools then.
        let session = session.as_bytes();
        return Some(conversations.name((owner, session, facts.needs.tools)));
    }
    let beginning = facts.conversation.as_ref().map_or(0, |it| it.beginning);
    (beginning != 0).then(|| conversations.name((owner, beginning)))
}
