//! The open paths of a provider.

use crate::build::Builder;
use crate::passthrough::{Passthrough, PassthroughRule, is_plain};
use crate::provider::Endpoint;
use crate::settings::{PassthroughMethod, PassthroughSettings, ProviderSettings};
use crate::{MODEL, Purpose};
use http::{HeaderName, Method};
use std::sync::Arc;
use tollgate_settings::KeyPath;
use tollgate_types::{MAX_MODEL_NAME_BYTES, PerFormat, Tariff};

/// Headers of an answer that the gateway decides, besides those that no head may name.
const OF_ANSWERS: &[&str] = &["set-cookie", "x-request-id", "request-id", "retry-after"];

impl Builder<'_> {
    pub(super) fn build_passthrough(
        &mut self,
        name: &str,
        settings: &ProviderSettings,
        prefix: &str,
        endpoints: &PerFormat<Option<Endpoint>>,
        path: &KeyPath,
    ) -> Option<Passthrough> {
        let path = path.key("passthrough");
        let rules = settings.passthrough.iter().zip(0_usize..);
        let rules = rules.map(|(entry, index)| {
            let at = path.index(index);
            let rule = self.build_rule(name, entry, &at);
            self.check_formats(&rule, prefix, endpoints, &at);
            Arc::new(rule)
        });
        let rules: Vec<_> = rules.collect();
        (!rules.is_empty()).then(|| Passthrough {
            prefix: prefix.into(),
            balancing: self.settings.routing.balancing(None),
            rules,
        })
    }

    fn build_rule(
        &mut self,
        provider: &str,
        settings: &PassthroughSettings,
        at: &KeyPath,
    ) -> PassthroughRule {
        let below = settings.path.strip_suffix("/*");
        let path = below.unwrap_or(&settings.path);
        if !is_plain(path) || path.contains('*') {
            self.fault(
                &at.key("path"),
                "expected a path such as /v1/files, or /v1/files/* with all below it",
            );
        }
        let name = format!("{provider}{}", settings.path);
        if name.len() > MAX_MODEL_NAME_BYTES {
            let message = format!(
                "the path has at most {MAX_MODEL_NAME_BYTES} bytes together with the name of its provider"
            );
            self.fault(&at.key("path"), message);
        }
        if settings.methods.is_empty() {
            self.fault(&at.key("methods"), "name at least one method");
        }
        let names = |builder: &mut Self, key: &str, names: &[String]| -> Vec<HeaderName> {
            let at = at.key(key);
            let names = names.iter().zip(0_usize..);
            names
                .filter_map(|(name, index)| builder.header_name(name, &at.index(index)))
                .collect()
        };
        let answer_headers = names(self, "answer_headers", &settings.answer_headers);
        for name in &answer_headers {
            if OF_ANSWERS.contains(&name.as_str()) {
                let message = format!("'{name}' is set by the gateway alone");
                self.fault(&at.key("answer_headers"), message);
            }
        }
        let tariff = Tariff::fixed(settings.charge.get(), settings.price);
        if tariff.is_none() {
            self.fault(at, "`charge` is 4294967 at most, and `price` 18446");
        }
        PassthroughRule {
            name: name.into(),
            path: path.into(),
            has_below: below.is_some(),
            methods: settings.methods.iter().map(|it| method(*it)).collect(),
            tariff: tariff.unwrap_or_default(),
            body: settings.body.get(),
            pass_headers: names(self, "pass_headers", &settings.pass_headers),
            answer_headers,
            plans: settings.plans.clone(),
        }
    }

    /// Refuses to open a path at which the provider serves a format: a fixed charge ignores what the requests use.
    /// Paths below it are refused too: they return stored answers, and an open path checks no owner.
    fn check_formats(
        &mut self,
        rule: &PassthroughRule,
        prefix: &str,
        endpoints: &PerFormat<Option<Endpoint>>,
        at: &KeyPath,
    ) {
        let has_post = rule.methods.contains(&Method::POST);
        for (format, endpoint) in endpoints.iter() {
            let targets = Purpose::ALL.into_iter();
            let mut targets = targets.filter_map(|purpose| endpoint.as_ref()?.target(purpose));
            let is_open = targets.any(|target| {
                let path = target.path.split('?').next().unwrap_or_default();
                let path = path.strip_prefix(prefix).unwrap_or(path);
                has_post && rule.may_match(path) || rule.may_match(&format!("{path}/id"))
            });
            if is_open {
                let message = format!(
                    "the provider serves the format {format} there: clients use that at the \
                     gateway's own endpoint, which charges what they use"
                );
                return self.fault(&at.key("path"), message);
            }
        }
    }
}

impl PassthroughRule {
    /// Whether it matches a path in which [`MODEL`] stands for any name.
    fn may_match(&self, path: &str) -> bool {
        match path.split_once(MODEL) {
            None => self.matches(path),
            Some((before, _)) => {
                self.path.starts_with(before)
                    || (self.has_below && before.starts_with(&format!("{}/", self.path)))
            }
        }
    }
}

const fn method(method: PassthroughMethod) -> Method {
    match method {
        PassthroughMethod::Get => Method::GET,
        PassthroughMethod::Post => Method::POST,
        PassthroughMethod::Put => Method::PUT,
        PassthroughMethod::Patch => Method::PATCH,
        PassthroughMethod::Delete => Method::DELETE,
    }
}
