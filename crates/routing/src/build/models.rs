//! Models and their deployments.

use super::{Builder, keys, names};
use crate::{
    Deployment, FormatSet, Model, ModelKind, PriceList, Provider, UpstreamModel,
    settings::{
        CapabilitiesPatch, DeploymentEntry, DeploymentSettings, ModelSettings,
        ModelTimeoutSettings, PriceSettings, WeightSettings,
    },
};
use std::{collections::HashMap, sync::Arc};
use tollgate_settings::{KeyPath, TokenCount, unknown_name};
use tollgate_types::Format;

/// 2026-01-01T00:00:00Z: callers' libraries need some date.
pub(super) const DEFAULT_CREATED: u64 = 1_767_225_600;

/// Output tokens a second: what large models produce under load. Small ones produce several times
/// as many.
pub(super) const DEFAULT_OUTPUT_RATE: u32 = 60;

/// Bounds the work of a plan.
const MOST_DEPLOYMENTS: usize = 64;

/// As an upstream name: the part that the `*` of a pattern matches.
const MATCHED: &str = "*";

impl<'a> Builder<'a> {
    /// Every model that is not a listed alias; `None` for one at fault.
    pub(super) fn build_models(&mut self) -> Vec<(&'a str, Option<Model>)> {
        let families = KeyPath::root().key("families");
        for name in self.settings.families.keys() {
            if let Err(message) = names::check_plain(name, "a family") {
                self.fault(&families.key(name), message);
            }
        }
        self.check_family_deployments();
        self.check_weights();
        let section = KeyPath::root().key("models");
        let of_families = self.faults.len();
        let models = self
            .settings
            .models
            .iter()
            .filter(|(_, settings)| settings.alias_of.is_none())
            .map(|(id, settings)| {
                let model = self.build_model(id, settings, &section.key(id));
                (id.as_str(), model)
            })
            .collect();
        // An entry of a family is reported once, not once for each of its models.
        let mut of_models = self.faults.split_off(of_families);
        of_models.retain(|fault| !self.faults.iter().any(|known| known.path == fault.path));
        self.faults.append(&mut of_models);
        models
    }

    fn check_weights(&mut self) {
        let settings = self.settings;
        let families = settings.families.iter();
        let families = families.map(|(name, family)| ("families", name, &family.weights));
        let models = settings.models.iter();
        let models = models.map(|(id, model)| ("models", id, &model.weights));
        for (section, name, weights) in families.chain(models) {
            let path = KeyPath::root().key(section).key(name).key("weights");
            for (field, message) in weights.faults() {
                self.fault(&path.key(field), message);
            }
        }
    }

    /// What is wrong with them for every model.
    fn check_family_deployments(&mut self) {
        for (name, family) in &self.settings.families {
            let path = KeyPath::root().key("families").key(name).key("deployments");
            let built: Vec<_> = family
                .deployments
                .iter()
                .enumerate()
                .filter_map(|(index, entry)| {
                    let deployment =
                        self.build_deployment(entry, "*", None, None, &path.index(index))?;
                    Some((index, Arc::new(deployment)))
                })
                .collect();
            self.check_duplicates(&built, &path);
        }
    }

    fn build_model(
        &mut self,
        id: &str,
        settings: &'a ModelSettings,
        path: &KeyPath,
    ) -> Option<Model> {
        let prefix = id.strip_suffix('*');
        if let Err(message) = names::check_model(prefix.unwrap_or(id)) {
            self.fault(path, message);
        }
        let Some(family_name) = &settings.family else {
            self.fault(path, "'family' is missing");
            return None;
        };
        let Some(family) = self.settings.families.get(family_name) else {
            let message = unknown_name("family", family_name, keys(&self.settings.families));
            self.fault(&path.key("family"), message);
            return None;
        };
        self.check_limits(settings, path);
        let upstream_model = settings.upstream_model.as_deref();
        self.check_upstream(upstream_model, &path.key("upstream_model"));
        let kind = match prefix {
            Some(prefix) => ModelKind::Wildcard {
                prefix: prefix.into(),
            },
            None => ModelKind::Model,
        };
        Some(Model {
            id: id.into(),
            kind,
            family: family_name.as_str().into(),
            group: settings
                .group
                .as_deref()
                .or(family.group.as_deref())
                .unwrap_or_default()
                .into(),
            display_name: settings.display_name.as_deref().unwrap_or(id).into(),
            reasoning: settings.reasoning.unwrap_or_default(),
            recommended: settings.recommended,
            created: settings.created.unwrap_or(DEFAULT_CREATED),
            context_window: settings.context_window.map(|tokens| tokens.get()),
            max_output_tokens: settings.max_output_tokens.map(|tokens| tokens.get()),
            output_rate: settings.output_rate.unwrap_or(DEFAULT_OUTPUT_RATE),
            efforts: settings.efforts.clone(),
            sampling: settings.sampling.unwrap_or(true),
            thinking: settings.thinking,
            tokenizer: settings.tokenizer,
            weights: settings.weights.over(&family.weights),
            timeouts: settings.timeouts,
            unsupported: settings.unsupported.clone(),
            price: self.build_price(settings.price.as_deref(), path),
            aliases: Vec::new(),
            deployments: match &settings.deployments {
                Some(own) => self.build_deployments(id, settings, own, path),
                None => {
                    let path = KeyPath::root().key("families").key(family_name);
                    self.build_deployments(id, settings, &family.deployments, &path)
                }
            },
            balancing: self.settings.routing.balancing(settings.balance),
        })
    }

    fn build_price(
        &mut self,
        settings: Option<&PriceSettings>,
        path: &KeyPath,
    ) -> Option<PriceList> {
        let list = PriceList::from(settings?);
        if let Some(index) = list.misplaced() {
            let path = path.key("price").key("changes").index(index);
            self.fault(
                &path.key("from"),
                "expected a later date than the one before",
            );
        }
        Some(list)
    }

    fn check_limits(&mut self, settings: &ModelSettings, path: &KeyPath) {
        let tokens = |count: Option<TokenCount>| count.map(TokenCount::get);
        let given = [
            ("context_window", tokens(settings.context_window)),
            ("max_output_tokens", tokens(settings.max_output_tokens)),
        ];
        for (name, _) in given.into_iter().filter(|(_, it)| *it == Some(0)) {
            self.fault(&path.key(name), "must be at least 1");
        }
        if let (Some(window), Some(output)) = (settings.context_window, settings.max_output_tokens)
            && output > window
        {
            let message = format!("{output} tokens do not fit into the context window of {window}");
            self.fault(&path.key("max_output_tokens"), message);
        }
    }

    fn build_deployments(
        &mut self,
        id: &str,
        settings: &'a ModelSettings,
        entries: &'a [DeploymentEntry],
        path: &KeyPath,
    ) -> Vec<Arc<Deployment>> {
        let upstream_model = settings.upstream_model.as_deref();
        let patch = settings.capabilities.as_ref();
        let path = path.key("deployments");
        let mut built: Vec<(usize, Arc<Deployment>)> = entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| {
                let at = path.index(index);
                let mut deployment =
                    self.build_deployment(entry, id, upstream_model, patch, &at)?;
                let of_model = || settings.price.as_deref().map(PriceList::from);
                deployment.price = deployment.price.or_else(of_model);
                Some((index, Arc::new(deployment)))
            })
            .collect();
        self.check_duplicates(&built, &path);
        built.sort_by_key(|(_, deployment)| deployment.priority);
        built
            .into_iter()
            .map(|(_, deployment)| deployment)
            .collect()
    }

    fn check_duplicates(&mut self, built: &[(usize, Arc<Deployment>)], path: &KeyPath) {
        let mut seen = HashMap::new();
        for (index, deployment) in built {
            if seen.insert(&deployment.name, index).is_some() {
                let message = format!("'{}' is given twice", deployment.name);
                self.fault(&path.index(*index), message);
            }
        }
        if built.len() > MOST_DEPLOYMENTS {
            let message = format!("at most {MOST_DEPLOYMENTS} deployments");
            self.fault(path, message);
        }
    }

    fn build_deployment(
        &mut self,
        entry: &DeploymentEntry,
        model: &str,
        model_upstream: Option<&str>,
        of_model: Option<&CapabilitiesPatch>,
        path: &KeyPath,
    ) -> Option<Deployment> {
        let (settings, provider_path) = match entry {
            DeploymentEntry::Full(settings) => (settings.clone(), path.key("provider")),
            DeploymentEntry::Short(text) => (parse_short_form(text), path.clone()),
        };
        let Some(provider) = self.providers.get(settings.provider.as_str()) else {
            if !self.settings.providers.contains_key(&settings.provider) {
                let known = keys(&self.settings.providers);
                let message = unknown_name("provider", &settings.provider, known);
                self.fault(&provider_path, message);
            }
            return None;
        };
        let provider = Arc::clone(provider);
        let formats = self.deployment_formats(&settings, &provider, path)?;
        self.check_upstream(settings.upstream_model.as_deref(), path);
        let (name, upstream_model) =
            self.upstream_model(settings.upstream_model.as_deref(), model_upstream, model);
        self.check_embedding_model(&upstream_model, formats, &provider, path);
        let mut capabilities = provider.capabilities.clone();
        let model_path = KeyPath::root().key("models").key(model);
        for (patch, at) in [
            (of_model, &model_path),
            (settings.capabilities.as_ref(), path),
        ] {
            let Some(patch) = patch else { continue };
            capabilities = patch.over(&capabilities);
            self.check_refused_fields(&patch.refused_fields(), formats, at);
        }
        Some(Deployment {
            name: format!("{}/{name}", provider.name).into(),
            provider,
            upstream_model,
            capabilities,
            formats,
            priority: settings.priority,
            weight: settings.weight,
            cost: self.deployment_cost(&settings, path),
            price: self.build_price(settings.price.as_deref(), path),
            limits: self.build_limits(&settings.limits, path),
        })
    }

    /// Bedrock has an API for embeddings of each of two vendors. The name of the model decides, unless the
    /// provider's settings do.
    fn check_embedding_model(
        &mut self,
        model: &UpstreamModel,
        formats: FormatSet,
        provider: &Provider,
        path: &KeyPath,
    ) {
        if let UpstreamModel::Fixed(name) = model
            && formats.contains(Format::Embeddings)
            && let Some(endpoint) = provider.endpoint(Format::Embeddings)
            && endpoint
                .whole
                .api
                .is_some_and(|api| api.of_model(name).is_none())
        {
            let message = format!(
                "'{name}' names neither a model of Titan nor one of Cohere: give the provider \
                 'api: bedrock_titan' or 'api: bedrock_cohere'"
            );
            self.fault(path, message);
        }
    }

    /// What a deployment sends as the model, and what it is named after: its `own` setting, or that of its model,
    /// or the model's id. `*` stands for the part of the requested name that a pattern matches.
    fn upstream_model<'n>(
        &self,
        own: Option<&'n str>,
        of_model: Option<&'n str>,
        id: &'n str,
    ) -> (&'n str, UpstreamModel) {
        let as_requested = |name, from| (name, UpstreamModel::AsRequested { from });
        let fixed = |name: &'n str| (name, UpstreamModel::Fixed(name.into()));
        match own.or(of_model) {
            None if names::is_wildcard(id) => as_requested(id, 0),
            Some(MATCHED) if names::is_wildcard(id) => {
                as_requested(MATCHED, id.len() - MATCHED.len())
            }
            Some(MATCHED) => {
                let of_model = of_model.filter(|name| *name != MATCHED);
                fixed(of_model.unwrap_or_else(|| self.matched_part(id)))
            }
            named => fixed(named.unwrap_or(id)),
        }
    }

    /// The part of a model's name that a pattern of its family matches: a model beside a pattern differs from
    /// it in settings, not in how it is sent. Without such a pattern, the whole name.
    fn matched_part<'n>(&self, id: &'n str) -> &'n str {
        let models = &self.settings.models;
        let family = models.get(id).and_then(|model| model.family.as_ref());
        let of_family = models.iter().filter(|(_, it)| it.family.as_ref() == family);
        let prefixes = of_family.filter_map(|(pattern, _)| pattern.strip_suffix(MATCHED));
        let parts = prefixes.filter_map(|prefix| id.strip_prefix(prefix));
        let shortest = parts.filter(|it| !it.is_empty()).min_by_key(|it| it.len());
        shortest.unwrap_or(id)
    }

    fn check_upstream(&mut self, name: Option<&str>, path: &KeyPath) {
        let Some(name) = name else { return };
        if name.is_empty() || name.chars().any(char::is_control) {
            self.fault(
                path,
                "the upstream model's name is empty or holds a control character",
            );
        } else if name != MATCHED && name.contains(MATCHED) {
            let message = format!(
                "'*' in '{name}' would be sent as it is: only '*' alone stands for the part that a pattern matches"
            );
            self.fault(path, message);
        }
    }

    fn deployment_formats(
        &mut self,
        settings: &DeploymentSettings,
        provider: &Provider,
        path: &KeyPath,
    ) -> Option<FormatSet> {
        let spoken = provider.formats();
        let Some(wanted) = &settings.formats else {
            return Some(spoken);
        };
        let path = path.key("formats");
        if wanted.is_empty() {
            self.fault(&path, "a deployment without a format serves no request");
            return None;
        }
        let foreign = |(index, format): (usize, &Format)| {
            (!spoken.contains(*format)).then_some((index, *format))
        };
        if let Some((index, format)) = wanted.iter().enumerate().find_map(foreign) {
            let message = format!(
                "provider '{}' does not speak {format}, only {spoken}",
                provider.name
            );
            self.fault(&path.index(index), message);
            return None;
        }
        Some(wanted.iter().copied().collect())
    }

    /// Listed aliases with the identifier that each stands for.
    pub(super) fn build_listed_aliases(
        &mut self,
        models: &[(&str, Option<Model>)],
    ) -> HashMap<&'a str, &'a str> {
        let section = KeyPath::root().key("models");
        let mut aliases = HashMap::new();
        for (id, settings) in &self.settings.models {
            let Some(target) = &settings.alias_of else {
                continue;
            };
            let path = section.key(id);
            if let Err(message) = names::check_model(id) {
                self.fault(&path, message);
            }
            for ignored in ignored_settings(settings) {
                let message = format!("an alias has no {ignored} of its own: '{target}' gives it");
                self.fault(&path.key(ignored), message);
            }
            let fault = match target == id {
                true => Some("a model cannot be an alias of itself".to_owned()),
                false => super::alias_fault(target, models),
            };
            match fault {
                Some(message) => self.fault(&path.key("alias_of"), message),
                None => {
                    aliases.insert(id.as_str(), target.as_str());
                }
            }
        }
        aliases
    }
}

/// `provider` or `provider/upstream-model`.
fn parse_short_form(text: &str) -> DeploymentSettings {
    let (provider, upstream_model) = match text.split_once('/') {
        Some((provider, upstream)) => (provider, Some(upstream.to_owned())),
        None => (text, None),
    };
    DeploymentSettings {
        provider: provider.to_owned(),
        upstream_model,
        weight: 1,
        ..DeploymentSettings::default()
    }
}

/// Settings of an alias that its target decides.
fn ignored_settings(settings: &ModelSettings) -> impl Iterator<Item = &'static str> {
    [
        ("family", settings.family.is_some()),
        ("group", settings.group.is_some()),
        ("reasoning", settings.reasoning.is_some()),
        ("context_window", settings.context_window.is_some()),
        ("max_output_tokens", settings.max_output_tokens.is_some()),
        ("output_rate", settings.output_rate.is_some()),
        ("efforts", !settings.efforts.is_empty()),
        ("sampling", settings.sampling.is_some()),
        ("thinking", settings.thinking.is_some()),
        ("tokenizer", settings.tokenizer.is_some()),
        ("weights", settings.weights != WeightSettings::default()),
        (
            "timeouts",
            settings.timeouts != ModelTimeoutSettings::default(),
        ),
        ("unsupported", !settings.unsupported.is_empty()),
        ("capabilities", settings.capabilities.is_some()),
        ("price", settings.price.is_some()),
        ("upstream_model", settings.upstream_model.is_some()),
        ("deployments", settings.deployments.is_some()),
        ("balance", settings.balance.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is_set)| is_set.then_some(name))
}
