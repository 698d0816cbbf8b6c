//! Cross-origin requests: the pages that may read answers, and the answers to preflights.
//!
//! A page needs an API key like every other client. Browsers send no cookies here, so answers
//! may be exposed whole (Fetch standard, section "CORS protocol").

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tollgate_config::CorsSettings;

const ANY: HeaderValue = HeaderValue::from_static("*");
/// Seconds for which a browser may remember an answer to a preflight.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The pages that may read answers.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    origins: Vec<HeaderValue>,
    headers: Allowed,
}

/// The request headers that a page may set.
#[derive(Clone, Debug, Default)]
enum Allowed {
    #[default]
    Any,
    These(Vec<HeaderName>),
}

impl Cors {
    /// From the configuration.
    pub fn new(settings: &CorsSettings) -> Self {
        let origins = settings.origins.iter();
        let headers = settings.headers.iter();
        Self {
            origins: origins
                .filter_map(|it| HeaderValue::from_str(without_usual_port(it)).ok())
                .collect(),
            headers: match settings.headers.iter().any(|name| name == "*") {
                true => Allowed::Any,
                false => Allowed::These(headers.filter_map(|it| it.parse().ok()).collect()),
            },
        }
    }

    /// The origin that may read the answer to a request: that of the request, or `*`.
    pub fn origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        if self.origins.is_empty() {
            return None;
        }
        let origin = request.get(ORIGIN)?;
        if self.origins.contains(&ANY) {
            return Some(ANY);
        }
        self.origins.contains(origin).then(|| origin.clone())
    }

    /// The headers of the answer to a preflight of an allowed origin; `None` for any other request.
    pub fn preflight(
        &self,
        method: &Method,
        request: &HeaderMap,
        methods: impl FnOnce() -> String,
    ) -> Option<HeaderMap> {
        let is_preflight =
            *method == Method::OPTIONS && request.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight || self.origin(request).is_none() {
            return None;
        }
        let mut answer = HeaderMap::new();
        if let Ok(methods) = HeaderValue::from_str(&methods()) {
            answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        }
        if let Some(headers) = self.headers.of(request) {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers);
        }
        answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        Some(answer)
    }

    /// Adds the headers that let a page read the answer.
    pub fn expose(&self, origin: Option<&HeaderValue>, answer: &mut HeaderMap) {
        if self.origins.is_empty() {
            return;
        }
        if !self.origins.contains(&ANY) {
            answer.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = origin {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ANY);
        }
    }
}

/// An origin as browsers send it: without the port that its scheme implies (WHATWG URL, "port").
fn without_usual_port(origin: &str) -> &str {
    let port = match origin.split_once("://") {
        Some(("https", _)) => ":443",
        Some(("http", _)) => ":80",
        _ => return origin,
    };
    origin.strip_suffix(port).unwrap_or(origin)
}

impl Allowed {
    /// The requested headers of a preflight that the page may set.
    fn of(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let asked = request.get(ACCESS_CONTROL_REQUEST_HEADERS)?;
        let Self::These(allowed) = self else {
            return Some(asked.clone());
        };
        let names = asked.to_str().ok()?.split(',').map(str::trim);
        let is_allowed = |name: &&str| {
            allowed
                .iter()
                .any(|it| name.eq_ignore_ascii_case(it.as_str()))
        };
        let names: Vec<&str> = names.filter(is_allowed).collect();
        HeaderValue::from_str(&names.join(", ")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_is_configured_with_the_port_of_its_scheme_is_the_one_that_browsers_send() {
        let allows = |configured: &str, sent: &'static str| {
            let cors = Cors::new(&CorsSettings {
                origins: vec![configured.to_owned()],
                ..CorsSettings::default()
            });
            let mut request = HeaderMap::new();
            request.insert(ORIGIN, HeaderValue::from_static(sent));
            cors.origin(&request).is_some()
        };
        assert!(allows("https://app.test:443", "https://app.test"));
        assert!(allows("http://[::1]:80", "http://[::1]"));
        assert!(allows("https://app.test:8443", "https://app.test:8443"));
        assert!(allows("http://app.test:443", "http://app.test:443"));
        assert!(!allows("http://app.test:443", "http://app.test"));
        assert!(!allows("https://app.test:80", "https://app.test"));
    }
}
