//! The paths of providers that the configuration opens: which provider and entry a request falls under.

use crate::endpoints;
use http::Method;
use std::sync::Arc;
use tollgate_filter::{Endpoint, FixedCharge};
use tollgate_routing::plan::PlanRequest;
use tollgate_routing::{Catalog, Passthrough, PassthroughRule, Provider};
use tollgate_types::{ErrorCode, Format, Identity, PublicError};

/// An open path of a provider.
#[derive(Clone, Debug)]
pub struct OpenPath {
    /// The provider.
    pub provider: Arc<Provider>,
    path: Box<str>,
}

impl OpenPath {
    /// The open path that a request names. `rest` follows `/passthrough/`.
    ///
    /// # Errors
    ///
    /// 404: the configuration does not open it.
    pub fn find(catalog: &Catalog, rest: &str) -> Result<Self, PublicError> {
        let found = rest.find('/').and_then(|end| {
            let (name, path) = rest.split_at_checked(end)?;
            let mut providers = catalog.providers().iter();
            let provider = providers.find(|it| *it.name == *name)?;
            let open = provider.passthrough.as_ref()?;
            open.rules_for(path).next()?;
            Some(Self {
                provider: Arc::clone(provider),
                path: path.into(),
            })
        });
        found.ok_or_else(endpoints::unknown_path)
    }

    fn rules(&self) -> impl Iterator<Item = &Arc<PassthroughRule>> {
        let open = self.provider.passthrough.iter();
        open.flat_map(move |open| open.rules_for(&self.path))
    }

    /// The methods that are allowed.
    pub fn methods(&self) -> Vec<Method> {
        let mut methods = Vec::new();
        for method in self.rules().flat_map(|rule| &rule.methods) {
            if !methods.contains(method) {
                methods.push(method.clone());
            }
        }
        methods
    }

    /// The entry for a method and a key.
    ///
    /// # Errors
    ///
    /// The plan of the key may not use the path.
    pub fn rule(
        &self,
        method: &Method,
        identity: &Identity,
    ) -> Result<&Arc<PassthroughRule>, PublicError> {
        let mut rules = self.rules().filter(|rule| rule.methods.contains(method));
        let rule = rules.find(|rule| rule.admits(identity.plan.as_deref()));
        rule.ok_or_else(|| {
            PublicError::new(
                ErrorCode::PermissionDenied,
                "the plan of this API key may not use this path: GET /v1 lists the endpoints",
            )
        })
    }

    /// Path and query at the provider.
    pub fn target(&self, query: &str) -> Option<String> {
        Some(self.open()?.target(&self.path, query))
    }

    /// The open paths of the provider.
    pub fn open(&self) -> Option<&Passthrough> {
        self.provider.passthrough.as_ref()
    }

    /// The facts about the request for the plan. The provider's first format decides how to log in.
    pub fn asked(&self, now: u64, random: u64) -> PlanRequest<'static> {
        PlanRequest {
            format: self
                .provider
                .formats()
                .iter()
                .next()
                .unwrap_or(Format::Chat),
            counts_tokens: false,
            stored_at: None,
            conversation: None,
            tokens: 0,
            now,
            random,
        }
    }
}

/// The charge of a request under an entry.
pub fn charge(rule: &PassthroughRule) -> FixedCharge {
    FixedCharge {
        name: Arc::clone(&rule.name),
        tariff: rule.tariff,
    }
}

/// The entries that a key may use, with their providers.
pub fn usable<'a>(
    catalog: &'a Catalog,
    identity: &'a Identity,
) -> impl Iterator<Item = &'a PassthroughRule> {
    let is_admitted = identity.endpoints.admits(Endpoint::Passthrough.path());
    let open = catalog
        .providers()
        .iter()
        .filter_map(|it| it.passthrough.as_ref());
    let rules = open.flat_map(|open| &open.rules).map(|rule| &**rule);
    let is_payable =
        move |rule: &PassthroughRule| !identity.pays_money || rule.tariff.prices.is_some();
    rules.filter(move |rule| {
        is_admitted && rule.admits(identity.plan.as_deref()) && is_payable(rule)
    })
}
