//! The checks of balancing, affinity, health and limits.

use super::Builder;
use super::provider::is_path;
use crate::health::Limits;
use crate::settings::{CheckSettings, DeploymentSettings, HealthSettings, LimitSettings};
use crate::{Affinity, Check};
use http::HeaderName;
use tollgate_settings::{KeyPath, TokenCount};

impl<'a> Builder<'a> {
    pub(super) fn build_affinity(&mut self) -> Affinity {
        let settings = &self.settings.routing.affinity;
        let path = KeyPath::root().key("routing").key("affinity");
        if !(settings.load_factor >= 1.0 && settings.load_factor <= 100.0) {
            self.fault(&path.key("load_factor"), "expected a number from 1 to 100");
        }
        let mut headers = Vec::new();
        for (index, name) in settings.headers.iter().enumerate() {
            match HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) => headers.push(name),
                Err(_) => {
                    let at = path.key("headers").index(index);
                    self.fault(&at, "expected the name of a header");
                }
            }
        }
        let health = KeyPath::root().key("routing").key("health");
        self.check_health(&self.settings.routing.health, &health);
        Affinity {
            enabled: settings.enabled,
            headers,
            min_bytes: settings.min_bytes.get(),
        }
    }

    pub(super) fn build_health(
        &mut self,
        own: Option<&'a HealthSettings>,
        path: &KeyPath,
    ) -> &'a HealthSettings {
        if let Some(own) = own {
            self.check_health(own, &path.key("health"));
        }
        own.unwrap_or(&self.settings.routing.health)
    }

    fn check_health(&mut self, settings: &HealthSettings, path: &KeyPath) {
        let is_share = |it: f64| it > 0.0 && it <= 1.0;
        if settings.error_rate.is_some_and(|it| !is_share(it)) {
            let message = "expected a share above 0 and up to 1";
            self.fault(&path.key("error_rate"), message);
        }
        if settings.cooldown > settings.max_cooldown {
            let message = "the first cooldown is longer than the longest";
            self.fault(&path.key("cooldown"), message);
        }
    }

    pub(super) fn build_check(
        &mut self,
        settings: Option<&CheckSettings>,
        path: &KeyPath,
    ) -> Option<Check> {
        let settings = settings?;
        let path = path.key("check");
        if settings.path.as_deref().is_some_and(|it| !is_path(it)) {
            let message = "expected a path that begins with '/', without a query";
            self.fault(&path.key("path"), message);
        }
        Some(Check {
            path: settings.path.as_deref().map(Into::into),
            every: settings.every.get(),
            timeout: settings.timeout.get(),
        })
    }

    /// The limits of a deployment or a credential.
    pub(super) fn build_limits(&mut self, settings: &LimitSettings, path: &KeyPath) -> Limits {
        let tokens = settings.tokens_per_minute.map(|it| it.a_minute());
        if tokens == Some(None) {
            let path = path.key("limits").key("tokens_per_minute");
            self.fault(&path, TokenCount::A_MINUTE);
        }
        Limits {
            in_flight: settings.in_flight,
            requests: settings.requests_per_minute,
            tokens: tokens.flatten(),
        }
    }

    pub(super) fn deployment_cost(
        &mut self,
        settings: &DeploymentSettings,
        path: &KeyPath,
    ) -> Option<f64> {
        let cost = settings.cost?;
        if !(cost.is_finite() && cost >= 0.0) {
            self.fault(&path.key("cost"), "expected a number from 0");
        }
        Some(cost)
    }
}
