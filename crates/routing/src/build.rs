//! From settings to a catalog in one step: every rule is checked, every fault is reported.
//!
//! A value that is at fault is left out and building goes on, so that one mistake
//! neither hides another nor is reported twice.

mod models;
mod names;
mod profiles;
mod provider;
mod routing;

use crate::{Catalog, CatalogSettings, Deployment, Model, ModelKind, Provider};
use std::{collections::HashMap, path::PathBuf, sync::Arc};
use tollgate_settings::{Environment, Fault, KeyPath, unknown_name};
use tollgate_types::Weights;

impl Catalog {
    /// Checks `settings` and builds the catalog. Secrets come from `environment`; `folder` returns
    /// the base folder of relative paths at a key path.
    ///
    /// # Errors
    /// Every fault there is, by key path from the top of the configuration.
    pub fn build(
        settings: &CatalogSettings,
        environment: &dyn Environment,
        folder: &dyn Fn(&KeyPath) -> PathBuf,
    ) -> Result<Self, Vec<Fault>> {
        let mut builder = Builder {
            settings,
            environment,
            folder,
            providers: HashMap::new(),
            faults: Vec::new(),
        };
        let catalog = builder.catalog();
        if builder.faults.is_empty() {
            Ok(catalog)
        } else {
            Err(builder.faults)
        }
    }
}

/// The state of building.
struct Builder<'a> {
    settings: &'a CatalogSettings,
    environment: &'a dyn Environment,
    folder: &'a dyn Fn(&KeyPath) -> PathBuf,
    /// Those without a fault.
    providers: HashMap<&'a str, Arc<Provider>>,
    faults: Vec<Fault>,
}

impl<'a> Builder<'a> {
    fn fault(&mut self, path: &KeyPath, message: impl Into<String>) {
        self.faults.push(path.fault(message));
    }

    fn catalog(&mut self) -> Catalog {
        let mut catalog = Catalog {
            affinity: self.build_affinity(),
            explain: self.settings.routing.explain,
            providers: self.build_providers(),
            groups: self.build_groups(),
            ..Catalog::default()
        };
        let models = self.build_models();
        let listed_aliases = self.build_listed_aliases(&models);
        let aliases = self.build_aliases(&models, &listed_aliases);

        let mut by_id = HashMap::new();
        for (id, model) in models {
            let Some(model) = model else { continue };
            if model.deployments.is_empty() {
                catalog.unserved.push(Arc::clone(&model.id));
                continue;
            }
            by_id.insert(id, Arc::new(with_aliases(model, &aliases)));
        }
        for (id, settings) in &self.settings.models {
            let alias = listed_aliases
                .get(id.as_str())
                .and_then(|target| by_id.get(target))
                .map(|target| alias_entry(id, settings, target));
            let Some(entry) = alias
                .map(Arc::new)
                .or_else(|| by_id.get(id.as_str()).cloned())
            else {
                continue;
            };
            match &entry.kind {
                ModelKind::Wildcard { prefix } => {
                    catalog.wildcards.push((Arc::clone(prefix), entry));
                }
                _ => catalog.listed.push(entry),
            }
        }
        // The longest prefix says most about a name.
        catalog
            .wildcards
            .sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        for (name, target) in aliases {
            if let Some(model) = by_id.get(target) {
                catalog.by_name.insert(name.into(), Arc::clone(model));
            }
        }
        self.build_profiles(&mut catalog, &by_id);
        for model in by_id.into_values() {
            if model.kind == ModelKind::Model {
                catalog.by_name.insert(Arc::clone(&model.id), model);
            }
        }
        catalog
    }

    fn build_groups(&mut self) -> Vec<Arc<str>> {
        let families = KeyPath::root().key("families");
        let mut named = Vec::new();
        for (name, family) in &self.settings.families {
            let path = families.key(name);
            match &family.group {
                Some(group) => named.push((path.key("group"), group)),
                None => self.fault(&path, "'group' is missing"),
            }
        }
        let models = KeyPath::root().key("models");
        for (id, model) in &self.settings.models {
            named.extend(
                model
                    .group
                    .iter()
                    .map(|group| (models.key(id).key("group"), group)),
            );
        }
        let mut groups: Vec<Arc<str>> = Vec::new();
        for (path, group) in named {
            if let Err(message) = names::check_group(group) {
                self.fault(&path, message);
            } else if !groups.iter().any(|known| **known == **group) {
                groups.push(group.as_str().into());
            }
        }
        groups
    }

    /// Every further name with the identifier that it stands for.
    fn build_aliases(
        &mut self,
        models: &[(&'a str, Option<Model>)],
        listed: &HashMap<&'a str, &'a str>,
    ) -> Vec<(&'a str, &'a str)> {
        let mut aliases: Vec<_> = listed.iter().map(|(name, of)| (*name, *of)).collect();
        aliases.sort_unstable();
        let section = KeyPath::root().key("aliases");
        for (name, target) in &self.settings.aliases {
            let path = section.key(name);
            let fault = if let Err(message) = names::check_model(name) {
                Some(message)
            } else if self.settings.models.contains_key(name) {
                Some(format!(
                    "'{name}' is a model of its own; an alias must be a name that is free"
                ))
            } else {
                alias_fault(target, models)
            };
            match fault {
                Some(message) => self.faults.push(path.fault(message)),
                None => aliases.push((name, target)),
            }
        }
        aliases
    }
}

fn keys<V>(map: &indexmap::IndexMap<String, V>) -> impl Iterator<Item = &str> + Clone {
    map.keys().map(String::as_str)
}

/// The fault of `target` as the model behind an alias.
fn alias_fault(target: &str, models: &[(&str, Option<Model>)]) -> Option<String> {
    if names::is_wildcard(target) {
        return Some(format!(
            "'{target}' is a pattern; an alias stands for one model"
        ));
    }
    // An invalid model is known: its own fault is reported elsewhere.
    if models.iter().any(|(id, _)| *id == target) {
        return None;
    }
    Some(unknown_name(
        "model",
        target,
        models.iter().map(|(id, _)| *id),
    ))
}

fn with_aliases(mut model: Model, aliases: &[(&str, &str)]) -> Model {
    model.aliases = aliases
        .iter()
        .filter(|(_, target)| *target == &*model.id)
        .map(|(name, _)| Arc::from(*name))
        .collect();
    model
}

/// The listing's own entry for a listed alias: the target's properties under its name.
fn alias_entry(id: &str, settings: &crate::settings::ModelSettings, target: &Arc<Model>) -> Model {
    let display_name = settings.display_name.as_deref().unwrap_or(id);
    Model {
        id: id.into(),
        kind: ModelKind::Alias {
            of: Arc::clone(&target.id),
        },
        display_name: display_name.into(),
        recommended: settings.recommended,
        created: settings.created.unwrap_or(target.created),
        aliases: Vec::new(),
        ..Model::clone(target)
    }
}

/// The listing's own entry for a profile.
fn auto_entry(name: &str, family: &str, group: &str) -> Model {
    let display_name = match name {
        names::AUTO => "Auto",
        further => further,
    };
    Model {
        id: name.into(),
        kind: ModelKind::Auto,
        family: family.into(),
        group: group.into(),
        display_name: display_name.into(),
        reasoning: tollgate_types::ReasoningMode::None,
        recommended: false,
        created: models::DEFAULT_CREATED,
        context_window: None,
        max_output_tokens: None,
        output_rate: models::DEFAULT_OUTPUT_RATE,
        timeouts: crate::settings::ModelTimeoutSettings::default(),
        unsupported: Vec::new(),
        efforts: Vec::new(),
        sampling: true,
        thinking: None,
        tokenizer: None,
        weights: Weights::default(),
        price: None,
        aliases: Vec::new(),
        deployments: Vec::<Arc<Deployment>>::new(),
        balancing: crate::settings::RoutingSettings::default().balancing(None),
    }
}

#[cfg(test)]
mod tests;
