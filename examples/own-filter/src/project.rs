use serde::Deserialize;
use serde_json::Value;
use tollgate_filter::{
    Built, Filter, FilterKind, Head, Phases, RequestContext, Services, Verdict, settings,
};
use tollgate_types::{ErrorCode, PublicError};

pub const KIND: FilterKind = FilterKind {
    name: "project",
    summary: "Refuses requests that name no known project in x-project.",
    phases: Phases::HEAD,
    after: &["key"],
    required: false,
    build,
};

/// The settings of its entry under `filters`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    known: Vec<String>,
    /// Keys of these plans need no project.
    #[serde(default)]
    exempt_plans: Vec<String>,
}

fn build(value: &Value, services: &Services) -> Built {
    let filter: Project = settings(value)?;
    services.check_plans("exempt_plans", &filter.exempt_plans)?;
    Ok(filter.into())
}

impl Filter for Project {
    async fn on_request(
        &self,
        head: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        let is_exempt = request
            .identity()?
            .plan
            .as_ref()
            .is_some_and(|plan| self.exempt_plans.contains(plan));
        let named = head.headers.get("x-project");
        if is_exempt || named.is_some_and(|name| self.known.iter().any(|known| name == known)) {
            return Ok(Verdict::Continue);
        }
        let message = "x-project must name a project that this gateway serves";
        Err(PublicError::new(ErrorCode::PermissionDenied, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use http::{HeaderMap, HeaderValue, Method};
    use serde_json::json;
    use std::sync::Arc;
    use tollgate_filter::Endpoint;
    use tollgate_types::{Allowance, Identity, KeyId, RequestId};

    /// Runs the filter on a request of a key with this plan.
    fn run(plan: &str, project: &'static str) -> Result<Verdict, PublicError> {
        let value = json!({ "known": ["apollo"], "exempt_plans": ["internal"] });
        let filter: Project = settings(&value).unwrap();
        let id = RequestId::from_parts(0, 0);
        let mut request = RequestContext::new(id, Endpoint::Messages, None);
        request.identity = Some(Arc::new(Identity {
            key: KeyId::new("key_1"),
            name: "a test".to_owned(),
            plan: Some(plan.to_owned()),
            groups: Allowance::All,
            endpoints: Allowance::All,
            limits: Default::default(),
            pays_money: false,
            shares: Default::default(),
        }));
        let headers = [("x-project", project)]
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        let headers = HeaderMap::from_iter(headers);
        let head = Head {
            method: &Method::POST,
            path: "/v1/messages",
            headers: &headers,
        };
        block_on(filter.on_request(head, &mut request))
    }

    #[test]
    fn only_exempt_plans_need_no_project() {
        assert_eq!(run("pro", "apollo"), Ok(Verdict::Continue));
        assert_eq!(run("internal", ""), Ok(Verdict::Continue));
        assert_eq!(run("pro", "gemini").unwrap_err().status, 403);
    }
}
