//! The names that let the service choose: `auto` and the further profiles.

use super::{Builder, auto_entry, keys, names};
use crate::{
    Catalog, Model,
    auto::{
        Profile, Tiers, Weights,
        settings::{
            AutoSettings, PriceCapSettings, ProfileSettings, ThresholdSettings, WeightsSettings,
        },
    },
};
use std::{collections::HashMap, sync::Arc};
use tollgate_settings::{KeyPath, unknown_name};

/// Scores from which on the middle and the strong tier are wanted.
const MIDDLE: f64 = 0.15;
const STRONG: f64 = 0.4;
const DOUBT: f64 = 0.02;
const HYSTERESIS: f64 = 0.1;

/// One profile as the file has it, and where.
struct Section<'a> {
    name: &'a str,
    own: ProfileSettings,
    path: KeyPath,
}

impl AutoSettings {
    /// What `auto` says of itself.
    fn own(&self) -> ProfileSettings {
        ProfileSettings {
            candidates: Some(self.candidates.clone()),
            best: self.best.clone(),
            weights: self.weights,
            thresholds: self.thresholds,
            max_price: self.max_price,
            shadow: self.shadow.clone(),
        }
    }
}

impl<'a> Builder<'a> {
    /// Builds every profile, and lists those that have someone to choose.
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
        let further = auto.profiles.iter().map(|(name, own)| Section {
            name,
            own: own.clone(),
            path: section.key("profiles").key(name),
        });
        let first = Section {
            name: names::AUTO,
            own: auto.own(),
            path: section.clone(),
        };
        let sections: Vec<_> = std::iter::once(first).chain(further).collect();
        let family = self.settings.families.get(&auto.family);
        if family.is_none() {
            let message = unknown_name("family", &auto.family, keys(&self.settings.families));
            self.fault(&section.key("family"), message);
        }
        let group = family
            .and_then(|it| it.group.as_deref())
            .unwrap_or_default();
        for profile in &sections {
            self.check_profile(profile, &sections);
            let built = self.build_profile(profile, &sections, catalog, by_id);
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

    /// The rules for the name and for what is said of other profiles.
    fn check_profile(&mut self, profile: &Section<'a>, all: &[Section<'a>]) {
        let name = profile.name;
        let is_further = profile.path != KeyPath::root().key("auto");
        if is_further {
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
        if let Some(shadow) = &profile.own.shadow {
            let path = profile.path.key("shadow");
            if shadow == name {
                self.fault(&path, "a profile is no shadow of itself");
            } else if !all.iter().any(|it| it.name == shadow) {
                let known = all.iter().map(|it| it.name);
                let message = unknown_name("profile", shadow, known);
                self.fault(&path, message);
            }
        }
        for (key, value) in numbers(&profile.own) {
            if !value.is_finite() {
                self.fault(&profile.path.key(key), "expected a number");
            }
        }
    }

    fn build_profile(
        &mut self,
        profile: &Section<'a>,
        all: &[Section<'a>],
        catalog: &Catalog,
        by_id: &HashMap<&'a str, Arc<Model>>,
    ) -> Profile {
        let main = all.first().map(|it| &it.own);
        let own = &profile.own;
        let inherited = main.and_then(|it| it.candidates.as_ref());
        let named = own.candidates.as_ref().or(inherited);
        let named = named.map(Vec::as_slice).unwrap_or_default();
        // What `auto` has wrong is told there.
        let path = own
            .candidates
            .is_some()
            .then(|| profile.path.key("candidates"));
        let candidates = self.build_candidates(named, path.as_ref(), catalog, by_id);
        let cap = |read: fn(&PriceCapSettings) -> Option<f64>| {
            read(&own.max_price).or_else(|| main.and_then(|it| read(&it.max_price)))
        };
        let max_price = (cap(|it| it.input), cap(|it| it.output));
        let is_own = own.candidates.is_some() || own.max_price != PriceCapSettings::default();
        if max_price != (None, None) && is_own {
            self.check_prices(profile, named);
        }
        Profile {
            name: profile.name.into(),
            shadow: own.shadow.as_deref().map(Arc::from),
            tiers: self.build_tiers(profile, main, named, &candidates),
            max_price,
            candidates,
        }
    }

    fn build_candidates(
        &mut self,
        named: &[String],
        path: Option<&KeyPath>,
        catalog: &Catalog,
        by_id: &HashMap<&'a str, Arc<Model>>,
    ) -> Vec<Arc<Model>> {
        let mut candidates: Vec<Arc<Model>> = Vec::new();
        for (place, name) in named.iter().enumerate() {
            let known =
                self.settings.models.contains_key(name) || self.settings.aliases.contains_key(name);
            if let (false, Some(path)) = (known, path) {
                let message = unknown_name("model", name, keys(&self.settings.models));
                self.fault(&path.index(place), message);
            }
            // One that nobody serves is passed over: which providers there are may change.
            let model = by_id
                .get(name.as_str())
                .or_else(|| catalog.by_name.get(&**name))
                .filter(|model| !model.is_auto());
            if let Some(model) = model
                && !candidates.iter().any(|earlier| earlier.id == model.id)
            {
                candidates.push(Arc::clone(model));
            }
        }
        candidates
    }

    /// Under a cap every candidate has a price: else nobody could say whether it is over it.
    fn check_prices(&mut self, profile: &Section<'a>, named: &[String]) {
        let unpriced = named.iter().find(|name| {
            let settings = self.settings.models.get(name.as_str());
            settings.is_some_and(|it| it.alias_of.is_none() && it.price.is_none())
        });
        if let Some(name) = unpriced {
            let message = format!(
                "the candidate '{name}' has no price: give it one under `models`, or nobody can say whether it is over the cap"
            );
            self.fault(&profile.path.key("max_price"), message);
        }
    }

    fn build_tiers(
        &mut self,
        profile: &Section<'a>,
        main: Option<&ProfileSettings>,
        named: &[String],
        candidates: &[Arc<Model>],
    ) -> Option<Tiers> {
        let own = &profile.own;
        if !candidates.iter().any(|it| it.tier.is_some()) {
            self.check_set_for_nothing(profile, named);
            return None;
        }
        if let Some(untold) = candidates.iter().find(|it| it.tier.is_none())
            && own.candidates.is_some()
        {
            let message = format!(
                "'{}' has no tier, and other candidates have: give it one under `models`",
                untold.id
            );
            self.fault(&profile.path.key("candidates"), message);
        }
        let threshold = |read: fn(&ThresholdSettings) -> Option<f64>, usual: f64| {
            read(&own.thresholds)
                .or_else(|| main.and_then(|it| read(&it.thresholds)))
                .unwrap_or(usual)
        };
        let (middle, strong) = (
            threshold(|it| it.middle, MIDDLE),
            threshold(|it| it.strong, STRONG),
        );
        if middle > strong {
            let message = format!("'middle' is {middle} and above 'strong', which is {strong}");
            self.fault(&profile.path.key("thresholds"), message);
        }
        Some(Tiers {
            best: self.build_best(profile, main, named, candidates),
            weights: Weights::of(&[Some(&own.weights), main.map(|it| &it.weights)]),
            middle,
            strong,
            doubt: threshold(|it| it.doubt, DOUBT),
            hysteresis: threshold(|it| it.hysteresis, HYSTERESIS),
        })
    }

    /// Where the best single model stands among the candidates.
    fn build_best(
        &mut self,
        profile: &Section<'a>,
        main: Option<&ProfileSettings>,
        named: &[String],
        candidates: &[Arc<Model>],
    ) -> usize {
        let place = |best: &String| {
            let id = self.settings.aliases.get(best).unwrap_or(best);
            candidates.iter().position(|it| *it.id == **id)
        };
        if let Some(best) = &profile.own.best {
            // One that nobody serves is passed over like any other.
            let place = place(best);
            if place.is_none() && !named.contains(best) {
                let message = format!("'{best}' is no candidate of this profile");
                self.fault(&profile.path.key("best"), message);
            }
            return place.unwrap_or(0);
        }
        let inherited = main.and_then(|it| it.best.as_ref());
        inherited.and_then(place).unwrap_or(0)
    }

    /// Without tiers there is no score.
    fn check_set_for_nothing(&mut self, profile: &Section<'a>, named: &[String]) {
        // Whoever nobody serves may have a tier.
        let has_tier = named.iter().any(|name| {
            let settings = self.settings.models.get(name.as_str());
            settings.is_some_and(|it| it.tier.is_some())
        });
        if has_tier {
            return;
        }
        let own = &profile.own;
        let set = [
            ("best", own.best.is_some()),
            ("weights", own.weights != WeightsSettings::default()),
            ("thresholds", own.thresholds != ThresholdSettings::default()),
        ];
        for (key, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
            let message = "no candidate has a tier, so this would do nothing";
            self.fault(&profile.path.key(key), message);
        }
    }
}

/// Every number of a profile, under the key that it stands below.
fn numbers(own: &ProfileSettings) -> impl Iterator<Item = (&'static str, f64)> {
    let thresholds = &own.thresholds;
    let weights = crate::Signal::ALL.map(|signal| ("weights", own.weights.of(signal)));
    let others = [
        ("weights", own.weights.base),
        ("thresholds", thresholds.middle),
        ("thresholds", thresholds.strong),
        ("thresholds", thresholds.doubt),
        ("thresholds", thresholds.hysteresis),
        ("max_price", own.max_price.input),
        ("max_price", own.max_price.output),
    ];
    let all = weights.into_iter().chain(others);
    all.filter_map(|(key, value)| Some((key, value?)))
}
