//! The paths of a provider that the configuration opens, and which entry a request falls under.

use crate::plan::Balancing;
use http::{HeaderName, Method};
use std::sync::Arc;
use tollgate_types::Tariff;

/// The open paths of a provider.
#[derive(Clone, Debug)]
pub struct Passthrough {
    /// The path of the base URL.
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
    /// The rates at which a request takes from balances.
    pub tariff: Tariff,
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

    /// Whether keys of this plan may use it.
    pub fn admits(&self, plan: Option<&str>) -> bool {
        self.plans.is_empty() || plan.is_some_and(|plan| self.plans.iter().any(|it| it == plan))
    }
}

/// Whether every server reads a path in the same way: segments that are neither empty nor dots, without
/// percent-escapes of what separates or escapes, or of what is not UTF-8.
pub fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.split('/').skip(1).all(is_plain_segment)
}

fn is_plain_segment(segment: &str) -> bool {
    let (mut unescaped, mut rest) = (Vec::with_capacity(segment.len()), segment.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let plain = match byte {
            b'%' => {
                let Some((&[high, low], after)) = rest.split_first_chunk::<2>() else {
                    return false;
                };
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let byte = digit(high)
                    .zip(digit(low))
                    .map(|(high, low)| high << 4 | low);
                let byte = byte.and_then(|it| u8::try_from(it).ok());
                byte.filter(|it| !it.is_ascii_control() && !b"/\\.%;".contains(it))
            }
            byte => {
                let is_plain = byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,=".contains(&byte);
                is_plain.then_some(byte)
            }
        };
        let Some(plain) = plain else { return false };
        unescaped.push(plain);
    }
    // An overlong escape is a dot or a slash to a careless server.
    !matches!(segment, "" | "." | "..") && std::str::from_utf8(&unescaped).is_ok()
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
            "/v1/%c3%a4",
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
            "/v1/%c0%ae%c0%ae/admin",
            "/v1/%e0%80%ae",
            "/v1/%ff",
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
