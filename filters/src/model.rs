//! `model`: decides which model answers, and whether the key may use it.
//!
//! The gateway chooses a deployment of the model for each attempt, after the filters.

use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use tollgate_filter::{
    AutoRequest, Built, Catalog, Filter, FilterKind, Head, ModelView, Phases, RequestContext,
    Route, Services, SettingsFault, Verdict, settings,
};
use tollgate_types::{
    AskedTier, ErrorCode, Format, Identity, PublicError, ReasoningMode, RequestFacts, StoredAt,
    Unsupported,
};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "model",
    summary: "Decides which model answers, and whether the key may use it.",
    phases: Phases::BODY,
    after: &["key"],
    required: true,
    build,
};

/// The settings of an entry in the configuration.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// The model of a request that names none. Absent: such a request is refused.
    default_model: Option<String>,
}

struct Model {
    catalog: Arc<dyn Catalog>,
    default_model: Option<Arc<str>>,
}

fn build(value: &Value, services: &Services) -> Built {
    let settings: Settings = settings(value)?;
    let catalog = Arc::clone(&services.catalog);
    if let Some(name) = &settings.default_model
        && let Some(message) = default_fault(name, &*catalog)
    {
        return Err(vec![SettingsFault {
            path: "default_model".to_owned(),
            message,
        }]);
    }
    Ok(Model {
        catalog,
        default_model: settings.default_model.map(Into::into),
    }
    .into())
}

fn default_fault(name: &str, catalog: &dyn Catalog) -> Option<String> {
    if name.ends_with('*') {
        return Some(format!("{name:?} is a pattern: name one model"));
    }
    let is_known = catalog.is_auto(name) || catalog.resolve(name).is_some();
    (!is_known).then(|| format!("{name:?} is not a model of the catalog"))
}

impl Filter for Model {
    async fn on_request(
        &self,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        request.route = Some(self.decide(head, request)?);
        Ok(Verdict::Continue)
    }
}

impl Model {
    fn decide(&self, head: Head<'_>, request: &RequestContext) -> Result<Route, PublicError> {
        let (facts, identity) = (request.facts()?, request.identity()?);
        refuse_what_is_not_served(facts)?;
        self.refuse_other_advisers(facts, identity)?;
        refuse_places_without_price(facts, identity)?;
        let own = facts.model.as_deref();
        let default = self.default_model.as_ref().filter(|_| own.is_none());
        let name = own.or(default.map(|name| &**name)).ok_or_else(|| {
            PublicError::new(ErrorCode::InvalidModel, "the field 'model' is missing")
                .with_status(400)
        })?;
        let needs = Needs {
            format: request.format(),
            stored_at: request.stored_at.as_ref(),
            is_answered: !request.endpoint.is_count(),
            tiers: &facts.tiers,
        };
        let route = if self.catalog.is_auto(name) {
            let asked = AutoRequest {
                name,
                facts,
                key: &identity.key,
                headers: head.headers,
                is_answered: needs.is_answered,
                needs_price: needs.is_answered && identity.pays_money,
            };
            self.choose(&asked, identity, needs)
        } else {
            self.named(name, facts, identity, needs)
        }?;
        Ok(Route {
            default_name: default.cloned(),
            ..route
        })
    }

    /// Refuses an adviser that is a model which the key may not use.
    fn refuse_other_advisers(
        &self,
        facts: &RequestFacts,
        identity: &Identity,
    ) -> Result<(), PublicError> {
        let admits = |name: &String| {
            let model = self.catalog.resolve(name);
            model.is_some_and(|model| identity.groups.admits(model.group))
        };
        if facts.adviser && identity.pays_money {
            return Err(PublicError::invalid_request(
                "'tools[].type' of an adviser is not supported with a key that pays in money, because what \
                 an adviser costs is not reported: leave the tool out",
            )
            .with_param("tools"));
        }
        if facts.adviser && !facts.tool_models.iter().all(admits) {
            return Err(PublicError::invalid_request(
                "'tools[].type' of an adviser is not supported with a 'model' that this key may \
                 not use: leave the tool out, or name one of those that GET /v1/models lists",
            )
            .with_param("tools"));
        }
        Ok(())
    }

    fn named(
        &self,
        name: &str,
        facts: &RequestFacts,
        identity: &Identity,
        needs: Needs<'_>,
    ) -> Result<Route, PublicError> {
        let model = self.catalog.resolve(name).ok_or_else(|| {
            PublicError::new(
                ErrorCode::InvalidModel,
                format!("the model '{}' does not exist: GET /v1/models lists those that this key can use", crate::Shown(name)),
            )
        })?;
        if !identity.groups.admits(model.group) {
            return Err(PublicError::new(
                ErrorCode::PermissionDenied,
                format!("the API key may not use the model '{}'", model.id),
            ));
        }
        self.check_payable(model, identity, needs)?;
        needs.served_by(model)?;
        refuse_thinking_without_reason(model, facts)?;
        Ok(Route {
            model: model.handle,
            model_id: Arc::clone(model.id),
            reason: None,
            default_name: None,
        })
    }

    /// Whether the key can pay for the request: one without a price cannot be paid in money.
    fn check_payable(
        &self,
        model: ModelView<'_>,
        identity: &Identity,
        needs: Needs<'_>,
    ) -> Result<(), PublicError> {
        if !identity.pays_money || !needs.is_answered {
            return Ok(());
        }
        let is_priced = |tiers: &[AskedTier]| self.catalog.is_priced(model.handle, tiers);
        if !is_priced(&[]) {
            return Err(PublicError::new(
                ErrorCode::PermissionDenied,
                format!(
                    "the API key pays in money, and the model '{}' has no price: name one that has",
                    model.id
                ),
            ));
        }
        let mut tiers = needs.tiers.iter();
        match tiers.find(|it| !is_priced(std::slice::from_ref(it))) {
            Some(AskedTier { field, value, .. }) => Err(PublicError::invalid_request(format!(
                "'{field}' cannot be '{value}': the API key pays in money, and the model '{}' has no price for \
                 this tier: leave '{field}' out",
                model.id
            ))
            .with_param(*field)),
            None => Ok(()),
        }
    }

    fn choose(
        &self,
        asked: &AutoRequest<'_>,
        identity: &Identity,
        needs: Needs<'_>,
    ) -> Result<Route, PublicError> {
        let allowed = |model: ModelView<'_>| {
            identity.groups.admits(model.group)
                && self.check_payable(model, identity, needs).is_ok()
                && needs.served_by(model).is_ok()
        };
        let chosen = self.catalog.choose(asked, &allowed).ok_or_else(|| {
            PublicError::new(
                ErrorCode::InvalidModel,
                format!(
                    "'{}' found no model that this key may use and that can answer this request",
                    crate::Shown(asked.name)
                ),
            )
        })?;
        Ok(Route {
            model: chosen.model.handle,
            model_id: Arc::clone(chosen.model.id),
            reason: Some(chosen.reason),
            default_name: None,
        })
    }
}

/// The requirements of the request.
#[derive(Clone, Copy)]
struct Needs<'a> {
    /// The format of the request.
    format: Option<Format>,
    /// The provider and credential that store the items that the request names.
    stored_at: Option<&'a StoredAt>,
    /// Whether the model answers. `false` for a request that only counts tokens, which is free.
    is_answered: bool,
    /// The tiers that the request asks for.
    tiers: &'a [AskedTier],
}

impl Needs<'_> {
    /// Whether a model can answer, in this format or by a translation.
    fn served_by(self, model: ModelView<'_>) -> Result<(), PublicError> {
        if let Some(format) = self.format.filter(|it| !model.serves.contains(it)) {
            return Err(PublicError::new(
                ErrorCode::InvalidModel,
                format!(
                    "the model '{}' is not served in the format {format}: name one that is",
                    model.id
                ),
            ));
        }
        if let Some(at) = self.stored_at
            && !model.providers.contains(&at.provider)
        {
            return Err(PublicError::invalid_request(format!(
                "the model '{}' is not served by the provider that stores the items named in the request",
                model.id
            )));
        }
        Ok(())
    }
}

/// Regions, and the providers behind another gateway, have prices of their own. A price list has no factor for them.
fn refuse_places_without_price(
    facts: &RequestFacts,
    identity: &Identity,
) -> Result<(), PublicError> {
    match facts.place.filter(|_| identity.pays_money) {
        Some(field) => Err(PublicError::invalid_request(format!(
            "'{field}' has no price here, and this key pays in money: leave it out"
        ))
        .with_param(field)),
        None => Ok(()),
    }
}

/// Clients send an effort by default, so it can be left out; a budget is deliberate.
fn refuse_thinking_without_reason(
    model: ModelView<'_>,
    facts: &RequestFacts,
) -> Result<(), PublicError> {
    if model.reasoning == ReasoningMode::None && facts.thinking_budget.is_some() {
        return Err(PublicError::invalid_request(format!(
            "the model '{}' does not support thinking: leave 'thinking.budget_tokens' out",
            model.id
        ))
        .with_param("thinking.budget_tokens"));
    }
    Ok(())
}

/// Requests that no model endpoint serves, for any model.
fn refuse_what_is_not_served(facts: &RequestFacts) -> Result<(), PublicError> {
    if let Some(field) = facts.background {
        return Err(PublicError::invalid_request(format!(
            "'{field}' is not supported: send it as false, and 'stream' as true for a long answer",
        ))
        .with_param(field));
    }
    if let Some(field) = facts.further_models {
        // The key's groups and the weights would not apply to the models that it names.
        return Err(PublicError::invalid_request(format!(
            "'{field}' is not supported, because it requests further models: leave it out and name one model \
             in 'model'; if one of its providers fails, the gateway tries the next"
        ))
        .with_param(field));
    }
    if facts.thread {
        // The provider stores a thread, and the gateway does not know which key owns it. After this error the
        // SDKs send the whole conversation instead.
        return Err(PublicError::invalid_request(
            "'thread' is not supported: send the whole conversation in 'messages'",
        )
        .with_param("thread")
        .with_unsupported(Unsupported {
            error_code: "thread_unsupported_request",
            field: "thread",
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, faults, identity, refusal};
    use tollgate_filter::Endpoint;
    use tollgate_types::{Allowance, ServiceTier};

    fn scene(endpoint: Endpoint, model: Option<&str>) -> Scene {
        let mut scene = Scene::new(endpoint, &[]);
        scene.request.identity = Some(Arc::new(identity(Allowance::Only(vec!["opus".to_owned()]))));
        scene.request.set_facts(RequestFacts {
            model: model.map(str::to_owned),
            ..RequestFacts::default()
        });
        scene
    }

    #[test]
    fn a_model_of_the_keys_groups_is_chosen() {
        let mut scene = scene(Endpoint::Messages, Some("opus-1"));
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        assert_eq!(
            scene
                .request
                .route
                .map(|route| route.model_id.to_string())
                .as_deref(),
            Some("opus-1")
        );
    }

    #[test]
    fn an_adviser_is_a_model_that_the_key_may_use() {
        for (adviser, models, passes) in [
            (true, &["opus-1"][..], true),
            (true, &[], true),
            (true, &["codex-1"], false),
            (true, &["opus-1", "missing"], false),
            (true, &[""], false),
            (false, &["missing"], true),
        ] {
            let mut scene = scene(Endpoint::Messages, Some("opus-1"));
            scene.change_facts(|facts| {
                facts.adviser = adviser;
                facts.tool_models = models.iter().map(|it| (*it).to_owned()).collect();
            });
            let verdict = scene.run(&KIND, "{}");
            if passes {
                assert!(matches!(verdict, Ok(Verdict::Continue)), "{models:?}");
                continue;
            }
            let error = refusal(verdict);
            assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
            assert!(error.message.contains("'tools[].type'"), "{error}");
        }
    }

    #[test]
    fn an_adviser_is_not_for_keys_that_pay_in_money() {
        let mut scene = scene(Endpoint::Messages, Some("opus-1"));
        scene.change_facts(|facts| facts.adviser = true);
        let identity = scene.request.identity.as_mut().expect("an identity");
        std::sync::Arc::make_mut(identity).pays_money = true;
        let error = refusal(scene.run(&KIND, "{}"));
        assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
        assert!(error.message.contains("pays in money"), "{error}");
    }

    #[test]
    fn a_place_without_a_price_is_not_for_keys_that_pay_in_money() {
        let mut scene = scene(Endpoint::Messages, Some("opus-1"));
        scene.change_facts(|facts| facts.place = Some("inference_geo"));
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        let identity = scene.request.identity.as_mut().expect("an identity");
        std::sync::Arc::make_mut(identity).pays_money = true;
        let error = refusal(scene.run(&KIND, "{}"));
        assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
        assert!(error.message.contains("'inference_geo'"), "{error}");
    }

    #[test]
    fn a_tier_without_a_price_is_not_for_keys_that_pay_in_money() {
        let mut scene = scene(Endpoint::Messages, Some("opus-1"));
        let set_tier = |scene: &mut Scene, field, tier| {
            let value = "fastest";
            let asked = AskedTier { field, value, tier };
            scene.change_facts(|facts| facts.tiers = vec![asked]);
        };
        set_tier(&mut scene, "speed", ServiceTier::Fast);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        let identity = scene.request.identity.as_mut().expect("an identity");
        std::sync::Arc::make_mut(identity).pays_money = true;
        let error = refusal(scene.run(&KIND, "{}"));
        assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
        assert_eq!(error.param.as_deref(), Some("speed"));
        set_tier(&mut scene, "serviceTier", ServiceTier::Priority);
        let error = refusal(scene.run(&KIND, "{}"));
        assert_eq!(error.param.as_deref(), Some("serviceTier"));
        let said = "'serviceTier' cannot be 'fastest'";
        assert!(error.message.starts_with(said), "{error}");
        set_tier(&mut scene, "service_tier", ServiceTier::Flex);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
    }

    #[test]
    fn auto_chooses_among_what_the_key_may_use_and_says_why() {
        let mut scene = scene(Endpoint::Messages, Some("auto"));
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        let route = scene.request.route.expect("a route");
        assert_eq!(
            (&*route.model_id, route.reason.as_deref()),
            ("opus-1", Some("auto: default"))
        );
    }

    #[test]
    fn each_way_of_not_getting_a_model_has_its_code() {
        for (endpoint, model, code, status, word) in [
            (
                Endpoint::Messages,
                None,
                ErrorCode::InvalidModel,
                400,
                "'model' is missing",
            ),
            (
                Endpoint::Messages,
                Some("x\n1"),
                ErrorCode::InvalidModel,
                404,
                "x\\n1",
            ),
            (
                Endpoint::Messages,
                Some("codex-1"),
                ErrorCode::PermissionDenied,
                403,
                "codex-1",
            ),
        ] {
            let error = refusal(scene(endpoint, model).run(&KIND, "{}"));
            assert_eq!((error.code, error.status), (code, status), "{error}");
            assert!(error.message.contains(word), "{error}");
        }
    }

    #[test]
    fn a_default_model_serves_requests_that_name_none_and_must_exist() {
        let mut scene = scene(Endpoint::Messages, None);
        let settings = r#"{"default_model": "opus-1"}"#;
        assert!(matches!(scene.run(&KIND, settings), Ok(Verdict::Continue)));
        let faults = faults(&KIND, r#"{"default_model": "nothing"}"#);
        assert_eq!(faults[0].path, "default_model");
    }

    #[test]
    fn the_route_has_the_name_of_a_default_model_and_the_name_is_no_pattern() {
        for (asked, name) in [(None, Some("opus-1")), (Some("opus-1"), None)] {
            let mut scene = scene(Endpoint::Messages, asked);
            let decision = scene.run(&KIND, r#"{"default_model": "opus-1"}"#);
            assert!(matches!(decision, Ok(Verdict::Continue)), "{decision:?}");
            let route = scene.request.route.as_ref().unwrap();
            assert_eq!(route.default_name.as_deref(), name, "{asked:?}");
            assert_eq!(scene.request.model_asked(), asked.or(name));
        }
        let faults = faults(&KIND, r#"{"default_model": "opus-*"}"#);
        assert!(faults[0].message.contains("pattern"), "{faults:?}");
    }

    #[test]
    fn a_thread_is_refused_in_the_way_that_clients_fall_back_on() {
        let mut scene = scene(Endpoint::Messages, Some("opus-1"));
        scene.change_facts(|facts| facts.thread = true);
        let error = refusal(scene.run(&KIND, "{}"));
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert_eq!(error.unsupported.map(|it| it.field), Some("thread"));
    }
}
