//! The paths of a provider that the configuration opens, and which entry a request falls under.

use crate::plan::Balancing;
use http::{HeaderName, Method};
use std::sync::Arc;
use tollgate_types::{Money, Prices};

/// The open paths of a provider.
#[derive(Clone, Debug)]
pub struct Passthrough {
    /// The path of the base address.
    pub(crate) prefix: Box<str>,
    /// How requests are spread over the provider's credentials.
    pub balancing: Balancing,
    /// In the order of the configuration.
    pub rules: Vec<Arc<PassthroughRule>>,
}

/// An open path.
#[derive(Clone, Debug)]
pub struct PassthroughRule {
    /// The provider and the path as the configuration writes it: for records, metrics and logs.
    pub name: Arc<str>,
    /// The path without `/*`.
    pub(crate) path: Box<str>,
    /// Whether the paths below it are open as well.
    pub(crate) has_below: bool,
    /// The methods that are allowed.
    pub methods: Vec<Method>,
    /// Tokens of output that a request is charged.
    pub charge: u64,
    /// What a request costs.
    pub price: Option<Money>,
    /// Bytes of the largest body.
    pub body: u64,
    /// The caller's headers that are passed on.
    pub pass_headers: Vec<HeaderName>,
    /// The provider's headers that are passed on.
    pub answer_headers: Vec<HeaderName>,
    /// The plans whose keys may use it. Empty: all keys.
    pub plans: Vec<String>,
}

impl Passthrough {
    /// The entries for a path, which must be plain. Empty: the path is not open.
    pub fn rules_for(&self, path: &str) -> impl Iterator<Item = &Arc<PassthroughRule>> {
        let is_plain = is_plain(path);
        let rules = self.rules.iter();
        rules.filter(move |rule| is_plain && rule.matches(path))
    }

    /// Path and query at the provider.
    pub fn target(&self, path: &str, query: &str) -> String {
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{path}{mark}{query}", self.prefix)
    }
}

impl PassthroughRule {
    pub(crate) fn matches(&self, path: &str) -> bool {
        match path.strip_prefix(&*self.path) {
            Some("") => true,
            Some(below) => self.has_below && below.starts_with('/'),
            None => false,
        }
    }

    /// The price of a request.
    pub fn prices(&self) -> Option<Prices> {
        self.price.map(|request| Prices {
            request,
            ..Prices::default()
        })
    }

    /// Whether keys of this plan may use it.
    pub fn admits(&self, plan: Option<&str>) -> bool {
        self.plans.is_empty() || plan.is_some_and(|plan| self.plans.iter().any(|it| it == plan))
    }
}

/// Whether every server reads a path in the same way: segments that are neither empty nor dots, without
/// percent-escapes of what separates or escapes.
pub fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.split('/').skip(1).all(is_plain_segment)
}

fn is_plain_segment(segment: &str) -> bool {
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let is_plain = match byte {
            b'%' => match rest.split_first_chunk::<2>() {
                Some((digits, after)) => {
                    rest = after;
                    let text = std::str::from_utf8(digits).ok();
                    let digits = text.filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
                    let escaped = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
                    escaped.is_some_and(|it| !it.is_ascii_control() && !b"/\\.%;".contains(&it))
                }
                None => false,
            },
            byte => byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,=".contains(&byte),
        };
        if !is_plain {
            return false;
        }
    }
    !matches!(segment, "" | "." | "..")
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn a_path_that_servers_read_differently_is_not_plain() {
        for path in [
            "/v1/files",
            "/v1/files/file-1/content",
            "/a%20b/~x:y",
            "/v1/a...b",
        ] {
            assert!(is_plain(path), "{path}");
        }
        for path in [
            "",
            "/",
            "v1",
            "/v1/",
            "//v1",
            "/v1//files",
            "/v1/./files",
            "/v1/../admin",
            "/..",
            "/v1/%2e%2e/admin",
            "/v1/%2E",
            "/v1/a%2fb",
            "/v1/a%5Cb",
            "/v1/a\\b",
            "/v1/a%00b",
            "/v1/a%252e",
            "/v1/..;/a",
            "/v1/a%3bb",
            "/v1/a%2",
            "/v1/a%zz",
            "/v1/a b",
            "/v1/a#b",
            "/v1/a?b",
            "/v1/ä",
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
