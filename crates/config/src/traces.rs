//! The section `traces`: where spans of requests are exported to.

use http::{HeaderName, HeaderValue, Uri};
use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tollgate_settings::{ByteSize, Duration, Environment, Fault, KeyPath, Secret, SecretSource};

/// Traces of requests, exported over OTLP. One span for each request and one for each attempt at a
/// provider.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSettings {
    /// The address of the collector, such as `http://127.0.0.1:4317`. Over HTTP with the path, such as
    /// `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: String,
    /// How spans are sent.
    #[serde(default)]
    pub protocol: TraceProtocol,
    /// Headers of each export, such as `authorization`.
    #[serde(default)]
    pub headers: IndexMap<String, SecretSource>,
    /// Which requests are exported.
    #[serde(default)]
    pub sample: SampleSettings,
    /// The keys whose prompts and answers are exported. Default: none.
    pub content: Option<ContentSettings>,
}

/// Prompts and answers in spans, for some keys. E-mail addresses, phone numbers, card and account
/// numbers, API keys, tokens and private keys in them are replaced by `[redacted]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentSettings {
    /// The ids of the API keys.
    #[schemars(length(min = 1), inner(regex(pattern = r"^key_[0-9A-Za-z]+$")))]
    pub keys: Vec<String>,
    /// Regular expressions of further texts that are replaced by `[redacted]`.
    #[serde(default)]
    pub redact: Vec<String>,
    /// Most bytes of a prompt, and of an answer, in a span: 1KiB to 512KiB. Of a longer prompt the last
    /// messages are exported, of a longer answer the beginning.
    #[serde(default = "usual_content")]
    pub max_bytes: ByteSize,
}

const fn usual_content() -> ByteSize {
    ByteSize::new(64 << 10)
}

impl ContentSettings {
    const LEAST_BYTES: u64 = 1 << 10;
    /// A collector accepts messages of 4 MiB, unless it is configured otherwise.
    const MOST_BYTES: u64 = 512 << 10;

    fn check(&self, section: &KeyPath) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (place, pattern) in self.redact.iter().enumerate() {
            if let Err(fault) = Regex::new(pattern) {
                let path = section.key("redact").index(place);
                // The lines before show the place in the pattern.
                let fault = fault.to_string();
                let why = fault.lines().last().unwrap_or_default();
                faults.push(path.fault(format!("not a regular expression: {why}")));
            }
        }
        if !(Self::LEAST_BYTES..=Self::MOST_BYTES).contains(&self.max_bytes.get()) {
            let path = section.key("max_bytes");
            faults.push(path.fault("expected a size from 1KiB to 512KiB"));
        }
        faults
    }
}

/// How spans are sent to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceProtocol {
    /// OTLP over gRPC.
    #[default]
    Grpc,
    /// OTLP over HTTP, in binary protobuf.
    Http,
}

/// Which requests are exported. One reason is enough.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SampleSettings {
    /// The share of all requests, from 0 to 1. With `parent`, services that sample by trace id choose the same traces.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
    /// Whether requests whose `traceparent` is sampled are exported.
    pub parent: bool,
    /// Whether failed requests are exported: status 500 or above, an answer that broke off, or a failed
    /// attempt at a provider.
    pub errors: bool,
    /// Requests that take longer than this are exported. `null`: none.
    pub slower_than: Option<Duration>,
}

impl Default for SampleSettings {
    fn default() -> Self {
        Self {
            share: 0.01,
            parent: true,
            errors: true,
            slower_than: None,
        }
    }
}

/// Checked trace settings, with their secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceTarget {
    /// The collector: scheme, host, port and path.
    pub endpoint: Uri,
    /// How spans are sent.
    pub protocol: TraceProtocol,
    /// Headers of each export.
    pub headers: Vec<(HeaderName, Secret)>,
    /// Which requests are exported.
    pub sample: SampleSettings,
    /// Which of them with prompts and answers.
    pub content: Option<ContentSettings>,
}

impl TraceSettings {
    /// Checks the settings and fetches the secrets. A relative file path is taken from `folder`.
    pub(super) fn check(
        &self,
        environment: &dyn Environment,
        folder: &dyn Fn(&KeyPath) -> PathBuf,
    ) -> Result<TraceTarget, Vec<Fault>> {
        let section = KeyPath::root().key("traces");
        let mut faults = Vec::new();
        let endpoint = endpoint(&self.endpoint, self.protocol)
            .map_err(|fault| faults.push(section.key("endpoint").fault(fault)));
        let mut headers = Vec::new();
        for (name, source) in &self.headers {
            let path = section.key("headers").key(name);
            match header(name, source, environment, &folder(&path)) {
                Ok(header) => headers.push(header),
                Err(fault) => faults.push(path.fault(fault)),
            }
        }
        if let Some(content) = &self.content {
            faults.extend(content.check(&section.key("content")));
        }
        match endpoint {
            Ok(endpoint) if faults.is_empty() => Ok(TraceTarget {
                endpoint,
                protocol: self.protocol,
                headers,
                sample: self.sample.clone(),
                content: self.content.clone(),
            }),
            _ => Err(faults),
        }
    }
}

fn endpoint(text: &str, protocol: TraceProtocol) -> Result<Uri, String> {
    let expected = match protocol {
        TraceProtocol::Grpc => "http://127.0.0.1:4317",
        TraceProtocol::Http => "http://127.0.0.1:4318/v1/traces",
    };
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.filter(|uri| {
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_user = uri.authority().is_some_and(|it| it.as_str().contains('@'));
        let has_path = !matches!(uri.path(), "" | "/");
        let needs_path = protocol == TraceProtocol::Http;
        is_known && !has_user && has_path == needs_path
    });
    // A password can stand in what was written.
    uri.ok_or_else(|| format!("expected the address of a collector, such as {expected}"))
}

fn header(
    name: &str,
    source: &SecretSource,
    environment: &dyn Environment,
    folder: &Path,
) -> Result<(HeaderName, Secret), String> {
    let parsed = HeaderName::try_from(name);
    let parsed = parsed.map_err(|_| format!("'{name}' is not the name of a header"))?;
    let secret = source.resolve(environment, folder);
    let secret = secret.map_err(|fault| fault.to_string())?;
    HeaderValue::try_from(secret.expose())
        .map_err(|_| "the secret has characters that a header cannot have".to_owned())?;
    Ok((parsed, secret))
}
