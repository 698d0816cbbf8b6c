//! The catalog: every model, and the names by which each is found.

use crate::settings::ExplainSetting;
use crate::{Model, ModelKind, Profile, Provider};
use http::HeaderName;
use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

/// Everything that can answer, as one immutable snapshot.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// In the order of the file: models, listed aliases, then the profiles.
    pub(crate) listed: Vec<Arc<Model>>,
    /// Every name that resolves, but for dotted forms and wildcards.
    pub(crate) by_name: HashMap<Arc<str>, Arc<Model>, foldhash::fast::RandomState>,
    /// Longest prefix first.
    pub(crate) wildcards: Vec<(Arc<str>, Arc<Model>)>,
    /// `auto` and the further names that leave the choice to the gateway.
    pub(crate) profiles: Vec<Profile>,
    pub(crate) conversation_ttl: Duration,
    pub(crate) affinity: Affinity,
    pub(crate) explain: ExplainSetting,
    pub(crate) providers: Vec<Arc<Provider>>,
    pub(crate) groups: Vec<Arc<str>>,
    pub(crate) unserved: Vec<Arc<str>>,
}

/// How conversations are identified.
#[derive(Clone, Debug, Default)]
pub struct Affinity {
    /// Whether conversations are kept together.
    pub enabled: bool,
    /// The first of these that a request has names its conversation.
    pub headers: Vec<HeaderName>,
    /// The bytes that a request must have to be known by its beginning.
    pub min_bytes: u64,
}

impl Catalog {
    /// Names longer than this are unknown without a look.
    const MAX_NAME_BYTES: usize = 256;

    /// The model that answers to `name`: by its exact identifier or an alias, then by
    /// the dotted form of one of them (`alpha-opus-4.8` for `alpha-opus-4-8`), then by a
    /// wildcard. An exact name allocates nothing.
    pub fn resolve(&self, name: &str) -> Option<&Arc<Model>> {
        if name.len() > Self::MAX_NAME_BYTES {
            return None;
        }
        self.exact(name).or_else(|| self.wildcard(name))
    }

    fn exact(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_name
            .get(name)
            .or_else(|| self.by_name.get(undotted(name)?.as_str()))
    }

    /// The model of the longest prefix that fits. OpenRouter reads switches in names: a suffix (`:nitro`) serves
    /// the same model in another way, and `@preset/` names settings with models of their own. Neither avoids the
    /// group and the weights of an exact name. A pattern names no model: it would be sent to the provider.
    fn wildcard(&self, name: &str) -> Option<&Arc<Model>> {
        if name.contains('*') {
            return None;
        }
        let mut wildcards = self.wildcards.iter();
        let (prefix, model) = wildcards.find(|(prefix, _)| name.starts_with(&**prefix))?;
        let matched = name.get(prefix.len()..)?;
        let mut deployments = model.deployments.iter();
        if deployments.any(|deployment| deployment.upstream_model(name).is_empty()) {
            return None;
        }
        let mut suffixes = name.match_indices(':').map(|(at, _)| at);
        let is_variant = suffixes.any(|at| {
            let base = name.get(..at).filter(|_| at >= prefix.len());
            base.is_some_and(|base| self.exact(base).is_some())
        });
        let is_switched = is_variant || matched.contains("@preset/");
        (!is_switched).then_some(model)
    }

    /// The model with this identifier in a usage record, where a pattern stands for its names.
    pub fn served(&self, id: &str) -> Option<&Arc<Model>> {
        let mut wildcards = self.wildcards.iter().map(|(_, model)| model);
        self.resolve(id)
            .or_else(|| wildcards.find(|model| &*model.id == id))
    }

    /// The list of `GET /v1/models`: every model that has a deployment, the listed
    /// aliases and the profiles, in the order of the file.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.listed
    }

    /// Every model that [`Catalog::resolve`] can return: the listed ones and the wildcards.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.listed
            .iter()
            .chain(self.wildcards.iter().map(|(_, model)| model))
    }

    /// The entry of the listing for `name`: unlike [`Catalog::resolve`] it gives a listed
    /// alias its own entry.
    pub fn entry(&self, name: &str) -> Option<&Arc<Model>> {
        self.listed
            .iter()
            .find(|model| &*model.id == name)
            .or_else(|| self.resolve(name))
    }

    /// Whether a key may use `model`, if it is allowed the models that `allowed` accepts:
    /// profiles and listed aliases stand for others.
    pub fn is_usable(&self, model: &Model, allowed: impl Fn(&Model) -> bool) -> bool {
        match &model.kind {
            ModelKind::Auto => self
                .profile(&model.id)
                .is_some_and(|profile| profile.affordable().any(|it| allowed(it))),
            ModelKind::Alias { of } => self.by_name.get(of).is_some_and(|target| allowed(target)),
            ModelKind::Model | ModelKind::Wildcard { .. } => allowed(model),
        }
    }

    /// By what a conversation is known.
    pub const fn affinity(&self) -> &Affinity {
        &self.affinity
    }

    /// Whether callers may ask why a candidate was asked.
    pub fn explains(&self) -> bool {
        self.explain == ExplainSetting::OnRequest
    }

    /// How long a conversation without requests keeps its model.
    pub const fn conversation_ttl(&self) -> Duration {
        self.conversation_ttl
    }

    /// The providers, in the order of the file.
    pub fn providers(&self) -> &[Arc<Provider>] {
        &self.providers
    }

    /// The model groups, in the order of the file.
    pub fn groups(&self) -> &[Arc<str>] {
        &self.groups
    }

    /// Identifiers in the configuration that no provider serves: unknown to callers.
    pub fn unserved(&self) -> &[Arc<str>] {
        &self.unserved
    }
}

/// The name with each dot between two digits replaced by a hyphen. `None` if it has no such dot.
fn undotted(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let is_digit = |index: Option<usize>| {
        index
            .and_then(|index| bytes.get(index))
            .is_some_and(u8::is_ascii_digit)
    };
    let plain: Cow<'_, str> = name
        .char_indices()
        .filter(|(index, c)| {
            *c == '.' && is_digit(index.checked_sub(1)) && is_digit(index.checked_add(1))
        })
        .fold(Cow::Borrowed(name), |mut plain, (index, _)| {
            plain
                .to_mut()
                .replace_range(index..index.saturating_add(1), "-");
            plain
        });
    match plain {
        Cow::Owned(plain) => Some(plain),
        Cow::Borrowed(_) => None,
    }
}
