//! The names that leave the choice to the gateway: `auto` and the further profiles.

use super::{Builder, auto_entry, keys, names};
use crate::{
    Catalog, CatalogSettings, Model,
    auto::{
        Profile, Rule,
        settings::{AutoSettings, PriceCapSettings, ProfileSettings, RuleSettings},
    },
};
use std::{collections::HashMap, sync::Arc};
use tollgate_settings::{KeyPath, unknown_name};
use tollgate_types::Money;

/// One profile of the file, and its position.
struct Section<'a> {
    name: &'a str,
    own: ProfileSettings,
    path: KeyPath,
}

/// The models of the catalog by every name.
struct Models<'a> {
    catalog: &'a Catalog,
    by_id: &'a HashMap<&'a str, Arc<Model>>,
}

impl Models<'_> {
    /// Returns `None` also for a model without a deployment: it is passed over, because providers
    /// may come and go.
    fn find(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_id
            .get(name)
            .or_else(|| self.catalog.by_name.get(name))
            .filter(|model| !model.is_auto())
    }
}

impl AutoSettings {
    /// The profile `auto`.
    fn own(&self) -> ProfileSettings {
        ProfileSettings {
            candidates: Some(self.candidates.clone()),
            rules: Some(self.rules.clone()),
            max_price: self.max_price,
        }
    }
}

impl<'a> Builder<'a> {
    /// Builds every profile, and lists those that have a model to choose.
    pub(super) fn build_profiles(
        &mut self,
        catalog: &mut Catalog,
        by_id: &HashMap<&'a str, Arc<Model>>,
    ) {
        let Some(auto) = &self.settings.auto else {
            return;
        };
        catalog.conversation_ttl = auto.conversation_ttl.get();
        let section = KeyPath::root().key("auto");
        let family = self.settings.families.get(&auto.family);
        if family.is_none() {
            let message = unknown_name("family", &auto.family, keys(&self.settings.families));
            self.fault(&section.key("family"), message);
        }
        let group = family
            .and_then(|it| it.group.as_deref())
            .unwrap_or_default();
        let main = auto.own();
        let first = Section {
            name: names::AUTO,
            own: main.clone(),
            path: section.clone(),
        };
        let further = auto.profiles.iter().map(|(name, own)| Section {
            name,
            own: own.clone(),
            path: section.key("profiles").key(name),
        });
        let further: Vec<_> = further.collect();
        for profile in &further {
            self.check_profile_name(profile);
        }
        for profile in std::iter::once(&first).chain(&further) {
            let models = Models { catalog, by_id };
            let built = self.build_profile(profile, &main, &models);
            if built.affordable().next().is_none() {
                catalog.unserved.push(profile.name.into());
                continue;
            }
            let model = Arc::new(auto_entry(profile.name, &auto.family, group));
            catalog.listed.push(Arc::clone(&model));
            catalog.by_name.insert(Arc::clone(&model.id), model);
            catalog.profiles.push(built);
        }
    }

    fn check_profile_name(&mut self, profile: &Section<'a>) {
        let name = profile.name;
        if let Err(message) = names::check_model(name) {
            self.fault(&profile.path, message);
        }
        let is_taken =
            self.settings.models.contains_key(name) || self.settings.aliases.contains_key(name);
        if is_taken {
            let message = format!("'{name}' is a model; a profile needs a name that is free");
            self.fault(&profile.path, message);
        }
    }

    fn build_profile(
        &mut self,
        profile: &Section<'a>,
        main: &ProfileSettings,
        models: &Models<'_>,
    ) -> Profile {
        let own = &profile.own;
        let named = own.candidates.as_ref().or(main.candidates.as_ref());
        let named = named.map(Vec::as_slice).unwrap_or_default();
        if own.candidates.is_some() {
            self.check_models(named, &profile.path.key("candidates"));
        }
        let mut candidates: Vec<Arc<Model>> = Vec::new();
        for model in named.iter().filter_map(|name| models.find(name)) {
            if !candidates.iter().any(|earlier| earlier.id == model.id) {
                candidates.push(Arc::clone(model));
            }
        }
        if let Some(rules) = &own.rules {
            self.check_rules(rules, named, &profile.path.key("rules"));
        }
        let rules = own.rules.as_ref().or(main.rules.as_ref());
        Profile {
            name: profile.name.into(),
            rules: build_rules(rules, &candidates, models),
            max_price: self.build_cap(profile, main, named),
            candidates,
        }
    }

    fn check_models(&mut self, named: &[String], path: &KeyPath) {
        for (position, name) in named.iter().enumerate() {
            if names::is_wildcard(name) {
                let message = format!("'{name}' is a pattern; a candidate is one model");
                self.fault(&path.index(position), message);
            } else if !self.is_model(name) {
                let message = unknown_name("model", name, keys(&self.settings.models));
                self.fault(&path.index(position), message);
            }
        }
    }

    fn check_rules(&mut self, rules: &[RuleSettings], candidates: &[String], path: &KeyPath) {
        for (position, rule) in rules.iter().enumerate() {
            let path = path.index(position);
            if let Some(name) = &rule.name {
                let mut earlier = rules.iter().take(position);
                if let Err(message) = names::check_rule(name) {
                    self.fault(&path.key("name"), message);
                } else if earlier.any(|it| it.name.as_ref() == Some(name)) {
                    let message = format!("'{name}' is the name of an earlier rule");
                    self.fault(&path.key("name"), message);
                }
            }
            if rule.when.is_empty() {
                let message = "a rule needs a condition; `candidates` decides if no rule does";
                self.fault(&path.key("when"), message);
            }
            if let Some(what) = rule.when.contradiction() {
                let message = format!("'min_{what}' is above 'max_{what}': no request matches");
                self.fault(&path.key("when"), message);
            }
            self.check_models(&rule.models, &path.key("use"));
            for (position, name) in rule.models.iter().enumerate() {
                let is_candidate = || {
                    let id = self.model_id(name);
                    candidates.iter().any(|it| self.model_id(it) == id)
                };
                if self.is_model(name) && !is_candidate() {
                    let message = format!("'{name}' is not a candidate: add it to `candidates`");
                    self.fault(&path.key("use").index(position), message);
                }
            }
        }
    }

    fn is_model(&self, name: &str) -> bool {
        let CatalogSettings {
            models, aliases, ..
        } = self.settings;
        !names::is_wildcard(name) && (models.contains_key(name) || aliases.contains_key(name))
    }

    /// The identifier of the model that a name stands for.
    fn model_id<'n>(&'n self, name: &'n str) -> &'n str {
        let listed = self.settings.models.get(name);
        listed
            .and_then(|model| model.alias_of.as_ref())
            .or_else(|| self.settings.aliases.get(name))
            .map_or(name, String::as_str)
    }

    /// The caps on input and output. If there is one, every candidate needs a price.
    fn build_cap(
        &mut self,
        profile: &Section<'a>,
        main: &ProfileSettings,
        named: &[String],
    ) -> (Option<Money>, Option<Money>) {
        let own = &profile.own;
        let path = profile.path.key("max_price");
        let cap = (
            own.max_price.input.or(main.max_price.input),
            own.max_price.output.or(main.max_price.output),
        );
        let is_own = own.candidates.is_some() || own.max_price != PriceCapSettings::default();
        if cap == (None, None) || !is_own {
            return cap;
        }
        let unpriced = named.iter().find(|name| {
            let settings = self.settings.models.get(name.as_str());
            settings.is_some_and(|it| it.alias_of.is_none() && it.price.is_none())
        });
        if let Some(name) = unpriced {
            let message = format!(
                "the candidate '{name}' has no price to compare with the cap: set `models.{name}.price`"
            );
            self.fault(&path, message);
        }
        cap
    }
}

fn build_rules(
    rules: Option<&Vec<RuleSettings>>,
    candidates: &[Arc<Model>],
    models: &Models<'_>,
) -> Vec<Rule> {
    let is_candidate = |model: &&Arc<Model>| candidates.iter().any(|it| it.id == model.id);
    let rules = rules.into_iter().flatten().zip(1_usize..);
    rules
        .map(|(rule, position)| Rule {
            label: match &rule.name {
                Some(name) => format!("rule {name}").into(),
                None => format!("rule {position}").into(),
            },
            when: rule.when,
            models: rule
                .models
                .iter()
                .filter_map(|name| models.find(name))
                .filter(is_candidate)
                .cloned()
                .collect(),
        })
        .collect()
}
