//! Providers: address, credentials, headers. `endpoint` builds the paths of their formats,
//! `passthrough` the other paths that are open.

mod endpoint;
mod passthrough;

use super::{Builder, names};
use crate::provider::LogIn;
use crate::{
    AnswerTimeouts, Credential, Endpoint, Provider, Timeouts, UpstreamTls,
    settings::{
        CredentialEntry, CredentialSettings, FormatEntry, FormatSettings, ProviderSettings,
        TimeoutSettings, UpstreamTlsSettings,
    },
};
use http::{HeaderName, HeaderValue, Uri, header};
use std::sync::Arc;
use tollgate_providers::{
    AwsLogIn, AwsSettings, AzureSettings, Building, CommandSettings, GoogleSettings, QuerySecret,
    Source,
};
use tollgate_settings::{KeyPath, Secret, SecretSource};
use tollgate_types::PerFormat;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Headers that the gateway alone decides: they carry credentials, frame the message,
/// or say where a request came from.
const RESERVED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Headers that carry a provider's credential, and belong where credentials stand.
const CREDENTIALS: &[&str] = &["api-key", "authorization", "x-api-key", "x-goog-api-key"];

/// The header of messages whose values a filter can limit.
const BETA: &str = "anthropic-beta";

/// A base URL in its parts.
struct Address {
    is_tls: bool,
    host: String,
    port: u16,
    authority: String,
    prefix: String,
}

impl<'a> Builder<'a> {
    pub(super) fn build_providers(&mut self) -> Vec<Arc<Provider>> {
        let section = KeyPath::root().key("providers");
        let mut built = Vec::new();
        for (name, settings) in &self.settings.providers {
            let path = section.key(name);
            if let Err(message) = names::check_plain(name, "a provider's name") {
                self.fault(&path, message);
            }
            if let Some(provider) = self.build_provider(name, settings, &path) {
                let provider = Arc::new(provider);
                self.providers.insert(name, Arc::clone(&provider));
                built.push(provider);
            }
        }
        built
    }

    fn build_provider(
        &mut self,
        name: &str,
        settings: &'a ProviderSettings,
        path: &KeyPath,
    ) -> Option<Provider> {
        let address = parse_address(&settings.address)
            .map_err(|message| self.fault(&path.key("address"), message))
            .ok();
        let prefix = address.as_ref().map_or("", |address| &address.prefix);
        let endpoints = self.build_endpoints(settings, prefix, path);
        let spoken = endpoints.iter().filter(|(_, at)| at.is_some());
        let spoken = spoken.map(|(format, _)| format).collect();
        self.check_refused_fields(&settings.capabilities.refused_fields, spoken, path);
        let credentials = self.build_credentials(&settings.credentials, path);
        let headers = self.build_headers(settings, path);
        let pass_headers = self.build_pass_headers(settings, path);
        let stream_events = self.build_stream_events(settings, path);
        let passthrough = self.build_passthrough(name, settings, prefix, &endpoints, path);
        let address = address?;
        let tls = self.build_tls(settings.tls.as_ref(), &address, path);
        let authority = HeaderValue::from_str(&address.authority)
            .map_err(|_| self.fault(&path.key("address"), "the host cannot stand in a header"))
            .ok()?;
        let health = self.build_health(settings.health.as_ref(), path);
        Some(Provider {
            name: name.into(),
            host: address.host.into(),
            port: address.port,
            tls,
            authority,
            http2: settings.http2,
            credentials,
            headers,
            pass_headers,
            timeouts: timeouts(&settings.timeouts),
            capabilities: settings.capabilities.clone(),
            stream_events,
            tokenizer: settings.tokenizer,
            health: health.policy(),
            max_retry_after: health.max_retry_after.get(),
            check: self.build_check(settings.check.as_ref(), path),
            passthrough,
            endpoints,
        })
    }

    fn build_endpoints(
        &mut self,
        provider: &ProviderSettings,
        prefix: &str,
        path: &KeyPath,
    ) -> PerFormat<Option<Endpoint>> {
        let path = path.key("formats");
        if provider.formats.is_empty() {
            self.fault(
                &path,
                "name at least one format: chat, responses, messages, gemini, converse, embeddings or rerank",
            );
        }
        let mut endpoints = PerFormat::<Option<Endpoint>>::default();
        for (index, entry) in provider.formats.iter().enumerate() {
            let settings = match entry {
                FormatEntry::Full(settings) => settings.clone(),
                FormatEntry::Name(name) => FormatSettings::usual(*name),
            };
            let at = path.index(index);
            let endpoint = &mut endpoints[settings.name];
            if endpoint.is_some() {
                self.fault(&at, format!("'{}' is given twice", settings.name));
            }
            *endpoint = Some(self.build_endpoint(&settings, &provider.capabilities, prefix, &at));
        }
        endpoints
    }

    fn build_credentials(
        &mut self,
        entries: &[CredentialEntry],
        path: &KeyPath,
    ) -> Vec<Credential> {
        let path = path.key("credentials");
        let mut built: Vec<Credential> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let at = path.index(index);
            let (settings, secret_path) = match entry {
                CredentialEntry::Full(settings) => {
                    (CredentialSettings::clone(settings), at.key("secret"))
                }
                CredentialEntry::Secret(source) => (
                    CredentialSettings {
                        secret: Some(source.clone()),
                        weight: 1,
                        ..CredentialSettings::default()
                    },
                    at.clone(),
                ),
            };
            let Some(source) = self.credential_source(&settings, &at) else {
                continue;
            };
            let name = settings.name.clone().unwrap_or_else(|| source.name());
            if built.iter().any(|earlier| *earlier.name == *name) {
                self.fault(&at, format!("another credential has the name '{name}'"));
            }
            let limits = self.build_limits(&settings.limits, &at);
            if let Some(login) = self.log_in(source, &settings, &secret_path, &at) {
                built.push(Credential {
                    name: name.into(),
                    weight: settings.weight,
                    limits,
                    login,
                });
            }
        }
        built
    }

    fn log_in(
        &mut self,
        source: CredentialSource<'_>,
        settings: &CredentialSettings,
        secret_path: &KeyPath,
        at: &KeyPath,
    ) -> Option<LogIn> {
        let source = match source {
            CredentialSource::Tokens(tokens) => return self.tokens(tokens, settings, at),
            CredentialSource::Secret(source) => source,
        };
        let folder = (self.folder)(secret_path);
        match source.resolve(self.environment, &folder) {
            Ok(secret) if settings.query.is_some() => self.query_secret(settings, &secret, at),
            Ok(secret) => {
                let headers = self.credential_headers(settings, &secret, at)?;
                Some(LogIn::Fixed(Box::new(headers)))
            }
            Err(cause) => {
                self.fault(secret_path, cause.to_string());
                None
            }
        }
    }

    /// The one source that the settings name.
    fn credential_source<'s>(
        &mut self,
        settings: &'s CredentialSettings,
        at: &KeyPath,
    ) -> Option<CredentialSource<'s>> {
        let CredentialSettings {
            secret,
            google,
            azure,
            aws,
            command,
            ..
        } = settings;
        let sources = [
            secret.as_ref().map(CredentialSource::Secret),
            google
                .as_ref()
                .map(|it| CredentialSource::Tokens(Tokens::Google(it))),
            azure
                .as_ref()
                .map(|it| CredentialSource::Tokens(Tokens::Azure(it))),
            aws.as_ref()
                .map(|it| CredentialSource::Tokens(Tokens::Aws(it))),
            command
                .as_ref()
                .map(|it| CredentialSource::Tokens(Tokens::Command(it))),
        ];
        let mut given = sources.into_iter().flatten();
        let (source @ Some(_), None) = (given.next(), given.next()) else {
            self.fault(at, ONE_SOURCE);
            return None;
        };
        source
    }

    /// Checks the source of tokens.
    fn tokens(
        &mut self,
        tokens: Tokens<'_>,
        settings: &CredentialSettings,
        at: &KeyPath,
    ) -> Option<LogIn> {
        let own = self.own_header(settings, at)?;
        if settings.query.is_some() {
            let message =
                "only a secret can stand in the query: tokens and signatures have headers";
            self.fault(&at.key("query"), message);
            return None;
        }
        let mut building = Building {
            environment: self.environment,
            folder: self.folder,
            faults: &mut self.faults,
        };
        let source = match tokens {
            Tokens::Google(it) => Source::google(it, &at.key("google"), &mut building),
            Tokens::Azure(it) => Source::azure(it, &at.key("azure"), &mut building),
            Tokens::Aws(it) => {
                let log_in = AwsLogIn::build(it, &at.key("aws"), &mut building);
                if own.is_some() {
                    let message = "a signature has its own headers, so this would do nothing";
                    self.fault(&at.key("header"), message);
                    return None;
                }
                match log_in? {
                    AwsLogIn::Fixed(signer) => return Some(LogIn::Signed(signer)),
                    AwsLogIn::Fetched(source) => Some(*source),
                }
            }
            Tokens::Command(it) => Source::command(it, &at.key("command"), &mut building),
        };
        Some(LogIn::Tokens {
            source: Arc::new(source?),
            header: own.unwrap_or(header::AUTHORIZATION),
        })
    }

    /// The header that the settings name; `None`: it is at fault.
    #[expect(clippy::option_option, reason = "settings need not name one")]
    fn own_header(
        &mut self,
        settings: &CredentialSettings,
        at: &KeyPath,
    ) -> Option<Option<HeaderName>> {
        const OF_CREDENTIALS: &[&str] = &["cookie", "proxy-authorization"];
        let Some(name) = &settings.header else {
            return Some(None);
        };
        let at = at.key("header");
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            self.fault(&at, "expected the name of a header");
            return None;
        };
        if RESERVED.contains(&name.as_str()) && !OF_CREDENTIALS.contains(&name.as_str()) {
            self.fault(&at, format!("'{name}' is set by the gateway alone"));
            return None;
        }
        Some(Some(name))
    }

    /// A secret in the query.
    fn query_secret(
        &mut self,
        settings: &CredentialSettings,
        secret: &Secret,
        at: &KeyPath,
    ) -> Option<LogIn> {
        let name = settings.query.as_deref()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let message = match () {
            () if settings.header.is_some() => "expected one of header and query",
            () if name.is_empty() || !name.bytes().all(is_plain) => {
                "expected the name of a parameter: letters, digits, '-', '_' and '.'"
            }
            () => return Some(LogIn::Query(QuerySecret::new(name, secret.expose()))),
        };
        self.fault(&at.key("query"), message);
        None
    }

    /// The header of the credential for each format.
    fn credential_headers(
        &mut self,
        settings: &CredentialSettings,
        secret: &Secret,
        at: &KeyPath,
    ) -> Option<PerFormat<(HeaderName, HeaderValue)>> {
        let own = self.own_header(settings, at)?;
        let header = |usual: HeaderName| {
            let name = own.clone().unwrap_or(usual);
            let text = if name == header::AUTHORIZATION {
                format!("Bearer {}", secret.expose())
            } else {
                secret.expose().to_owned()
            };
            let mut value = HeaderValue::from_str(&text).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        };
        let headers = header(header::AUTHORIZATION)
            .zip(header(X_API_KEY))
            .zip(header(X_GOOG_API_KEY));
        let Some(((bearer, api_key), google)) = headers else {
            self.fault(at, "the secret holds a character that no header can carry");
            return None;
        };
        Some(PerFormat {
            chat: bearer.clone(),
            responses: bearer.clone(),
            embeddings: bearer.clone(),
            rerank: bearer.clone(),
            messages: api_key,
            gemini: google,
            converse: bearer,
        })
    }

    fn build_headers(
        &mut self,
        settings: &ProviderSettings,
        path: &KeyPath,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let path = path.key("headers");
        let mut built = Vec::new();
        for (name, value) in &settings.headers {
            let at = path.key(name);
            let Some(name) = self.header_name(name, &at) else {
                continue;
            };
            match HeaderValue::from_str(value) {
                Ok(value) => built.push((name, value)),
                Err(_) => self.fault(&at, "the value holds a character that no header can carry"),
            }
        }
        built
    }

    fn build_pass_headers(
        &mut self,
        settings: &ProviderSettings,
        path: &KeyPath,
    ) -> Vec<HeaderName> {
        let path = path.key("pass_headers");
        let mut built = Vec::new();
        for (index, name) in settings.pass_headers.iter().enumerate() {
            let at = path.index(index);
            if name.eq_ignore_ascii_case(BETA) {
                let message =
                    format!("list '{BETA}' in `pass_to_provider` of the filter `headers` instead");
                self.fault(&at, message);
                continue;
            }
            built.extend(self.header_name(name, &at));
        }
        built
    }

    fn build_stream_events(
        &mut self,
        settings: &ProviderSettings,
        path: &KeyPath,
    ) -> Arc<[Box<str>]> {
        const LONGEST: usize = 64;
        const ERRORS: &[&str] = &["error", "response.failed"];
        let path = path.key("capabilities").key("stream_events");
        let names = &settings.capabilities.stream_events;
        for (index, name) in names.iter().enumerate() {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
            if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_plain) {
                let words = "expected a name of 1 to 64 letters, digits and . _ : -";
                self.fault(&path.index(index), words);
            } else if ERRORS.contains(&name.as_str()) {
                let words = format!("'{name}' is an error of the provider, which never passes");
                self.fault(&path.index(index), words);
            }
        }
        names.iter().map(|name| name.as_str().into()).collect()
    }

    fn header_name(&mut self, name: &str, at: &KeyPath) -> Option<HeaderName> {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            self.fault(at, "expected the name of a header");
            return None;
        };
        if CREDENTIALS.contains(&name.as_str()) {
            self.fault(
                at,
                format!("'{name}' carries a credential: put it under `credentials`"),
            );
            return None;
        }
        if RESERVED.contains(&name.as_str()) {
            self.fault(at, format!("'{name}' is set by the gateway alone"));
            return None;
        }
        Some(name)
    }

    fn build_tls(
        &mut self,
        settings: Option<&UpstreamTlsSettings>,
        address: &Address,
        path: &KeyPath,
    ) -> Option<UpstreamTls> {
        let path = path.key("tls");
        if !address.is_tls {
            if settings.is_some() {
                self.fault(
                    &path,
                    "the address is not https, so these settings would do nothing",
                );
            }
            return None;
        }
        let defaults = UpstreamTlsSettings::default();
        let settings = settings.unwrap_or(&defaults);
        let server_name = settings.server_name.as_deref().unwrap_or(&address.host);
        if server_name.is_empty() {
            self.fault(
                &path.key("server_name"),
                "an empty name would turn verification off",
            );
        }
        Some(UpstreamTls {
            ca: settings
                .ca
                .as_ref()
                .map(|file| (self.folder)(&path.key("ca")).join(file)),
            server_name: server_name.into(),
            verify: settings.verify,
        })
    }
}

/// How a credential logs in, as its settings say.
#[derive(Clone, Copy)]
enum CredentialSource<'a> {
    Secret(&'a SecretSource),
    Tokens(Tokens<'a>),
}

/// Where tokens come from.
#[derive(Clone, Copy)]
enum Tokens<'a> {
    Google(&'a GoogleSettings),
    Azure(&'a AzureSettings),
    Aws(&'a AwsSettings),
    Command(&'a CommandSettings),
}

const ONE_SOURCE: &str = "expected one of secret, google, azure, aws and command";

impl CredentialSource<'_> {
    /// The name of a credential without one.
    fn name(&self) -> String {
        match self {
            Self::Secret(source) => source_name(source),
            Self::Tokens(Tokens::Google(_)) => "google".to_owned(),
            Self::Tokens(Tokens::Azure(_)) => "azure".to_owned(),
            Self::Tokens(Tokens::Aws(_)) => "aws".to_owned(),
            Self::Tokens(Tokens::Command(_)) => "command".to_owned(),
        }
    }
}

fn source_name(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) => name.clone(),
        SecretSource::File(path) => path.file_name().map_or_else(
            || "file".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        ),
    }
}

pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/')
        && text
            .chars()
            .all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '\\'))
}

fn parse_address(text: &str) -> Result<Address, String> {
    const EXPECTED: &str =
        "expected http:// or https://, a host, and where needed a port and a path prefix";
    let uri: Uri = text.parse().map_err(|_| EXPECTED.to_owned())?;
    let (is_tls, usual_port) = match uri.scheme_str() {
        Some("https") => (true, 443),
        Some("http") => (false, 80),
        _ => return Err(EXPECTED.to_owned()),
    };
    let authority = uri.authority().ok_or(EXPECTED)?;
    if authority.as_str().contains('@') {
        return Err(
            "an address holds no user or password: put a secret under `credentials`".to_owned(),
        );
    }
    if uri.query().is_some() {
        return Err("an address has no query".to_owned());
    }
    // `Uri` drops it.
    if text.contains('#') {
        return Err("an address has no fragment (#)".to_owned());
    }
    if uri.path().contains(crate::MODEL) {
        return Err("an address names no model: put {model} into `path` of a format".to_owned());
    }
    let host = authority.host();
    let port = authority.port_u16();
    // A port that is no 16-bit number is there as text and not as a port.
    let is_port_lost = port.is_none() && authority.as_str() != host;
    if host.is_empty() || port == Some(0) || is_port_lost {
        return Err(EXPECTED.to_owned());
    }
    let port = port.unwrap_or(usual_port);
    let authority = if port == usual_port {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    Ok(Address {
        is_tls,
        host: host.trim_matches(['[', ']']).to_owned(),
        port,
        authority,
        prefix: uri.path().trim_end_matches('/').to_owned(),
    })
}

fn timeouts(settings: &TimeoutSettings) -> Timeouts {
    Timeouts {
        connect: settings.connect.get(),
        answer: AnswerTimeouts {
            first_byte: settings.first_byte.unwrap_or(settings.read).get(),
            first_token: settings.first_token.unwrap_or(settings.read).get(),
            between_events: settings.between_events.unwrap_or(settings.read).get(),
        },
        write: settings.write.get(),
        idle: settings.idle.get(),
    }
}
