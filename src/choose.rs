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
    let decision = decide(catalog, profile, asked, allowed)?;
    let shadow = profile
        .shadow
        .as_deref()
        .filter(|_| asked.is_answered)
        .and_then(|name| decide(catalog, profiles.profile(name)?, asked, allowed))
        .map(|other| Shadow {
            profile: other.profile,
            model: Arc::clone(&other.model.id),
        });
    // Whoever only asks what would happen has a catalog by itself.
    if asked.is_answered && catalog.fleet().is_some() {
        events::model_chosen(&decision, shadow.as_ref());
    }
    Some(Chosen {
        model: catalog.view(&decision.model)?,
        reason: decision.to_string(),
        word: decision.why.as_str(),
        shadow,
    })
}

fn decide(
    catalog: &IndexedCatalog,
    profile: &Profile,
    asked: &Asked<'_>,
    allowed: &dyn Fn(ModelView<'_>) -> bool,
) -> Option<Decision> {
    let conversations = catalog.conversations();
    let conversation = name_of(catalog, profile, asked);
    let now = Instant::now();
    let ttl = catalog.catalog().conversation_ttl();
    let before = conversation.and_then(|name| conversations.recall(name, now, ttl));
    let allowed = |model: &Model| catalog.view(model).is_some_and(allowed);
    let ask = Ask {
        facts: asked.facts,
        allowed: &allowed,
        available: &|model| is_available(catalog, model, asked.facts),
        before: before.as_deref(),
    };
    // Where nobody is available, whoever is chosen says when to try again.
    let decision = profile.choose(&ask).or_else(|| {
        profile.choose(&Ask {
            available: &|_| true,
            ..ask
        })
    })?;
    if let (Some(name), true) = (conversation, asked.is_answered) {
        conversations.remember(name, &decision.model.id, now);
    }
    Some(decision)
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
