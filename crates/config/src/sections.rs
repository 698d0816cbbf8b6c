//! The sections of the configuration that the program itself owns, as they stand in the
//! file: where it listens, what it allows, where it keeps things.
//!
//! The comments here are the reference: the JSON Schema and the operator's page are made
//! from them.

use super::answer_memory::{MemoryPlace, MemorySettings};
use super::cors::CorsSettings;
use super::network::Network;
use super::schema::expect;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{
    borrow::Cow,
    fmt,
    net::SocketAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
};
use tollgate_settings::{
    ByteSize, Duration, Environment, KeyPath, Secret, SecretError, SecretSource,
};

/// Listeners for clients, and limits on their requests.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// The addresses on which clients are served. Default: `127.0.0.1:8080`, cleartext.
    #[schemars(length(min = 1))]
    pub listen: Vec<ListenSettings>,
    /// Networks of load balancers and proxies in front of the gateway. The gateway takes the
    /// client's address from their `x-forwarded-for`, and from the PROXY protocol if the listener
    /// expects it. `connections_per_address` does not apply to their own addresses.
    pub trusted_proxies: Vec<Network>,
    /// Which web pages may call the gateway from a browser.
    pub cors: CorsSettings,
    /// Threads that serve requests. Default: one for each core.
    #[schemars(range(min = 1, max = 1024))]
    pub threads: Option<u16>,
    /// What a caller may send, and how long it may take.
    pub limits: LimitSettings,
    /// Unused connections to providers that are kept for the next request.
    pub upstream_keepalive_pool: u32,
    /// How the program ends.
    pub shutdown: ShutdownSettings,
    /// When the configuration is read again.
    pub reload: ReloadSettings,
    /// How another process takes over.
    pub upgrade: UpgradeSettings,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: vec![ListenSettings {
                address: ListenAddress(SocketAddr::from(([127, 0, 0, 1], 8080))),
                tls: None,
                http2: true,
                proxy_protocol: false,
            }],
            trusted_proxies: Vec::new(),
            cors: CorsSettings::default(),
            threads: None,
            limits: LimitSettings::default(),
            upstream_keepalive_pool: 512,
            shutdown: ShutdownSettings::default(),
            reload: ReloadSettings::default(),
            upgrade: UpgradeSettings::default(),
        }
    }
}

/// One address on which callers are served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenSettings {
    /// IP address and port; `0.0.0.0` and `[::]` mean every interface.
    pub address: ListenAddress,
    /// Serve TLS. Default: cleartext.
    pub tls: Option<TlsSettings>,
    /// Whether HTTP/2 is served besides HTTP/1.1: by ALPN with TLS, with prior knowledge
    /// without.
    #[serde(default = "yes")]
    pub http2: bool,
    /// Whether each connection begins with a header of the PROXY protocol, version 1 or 2, before
    /// TLS. Connections without one, and from outside `server.trusted_proxies`, are closed.
    #[serde(default)]
    pub proxy_protocol: bool,
}

const fn yes() -> bool {
    true
}

/// The certificate of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with the certificate and its chain.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
    /// PEM file with certificate authorities. Clients must then present a certificate of one of them, besides
    /// their API key. Default: clients present none.
    pub client_ca: Option<PathBuf>,
}

/// What a caller may send, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// Most bytes of a request head: request line and headers. Larger heads get 431.
    pub head_bytes: ByteSize,
    /// Most bytes of a request body. Larger bodies get 413.
    pub body_bytes: ByteSize,
    /// Memory for the bodies of all requests, their copies and translations, and held answers.
    /// Beyond it requests get 503; an answer that needs no translation is forwarded as it arrives.
    /// Never more than `memory`. Default: half of `memory`, at most 4GiB.
    pub bodies_in_memory: Option<ByteSize>,
    /// Longest time for a whole request body to arrive. Slower bodies get 408.
    pub body_timeout: Duration,
    /// Lowest rate of a request body in bytes per second, after ten seconds. Slower bodies get 408.
    /// `null`: only `body_timeout` applies.
    pub min_body_rate: Option<ByteSize>,
    /// Longest time for a head from its first byte to its last (then 408), and for the first byte
    /// of a new connection (then it is closed).
    pub head_timeout: Duration,
    /// How long a client's unused connection stays open.
    pub keepalive_timeout: Duration,
    /// Longest time for a client to take one write of an answer.
    pub downstream_write_timeout: Duration,
    /// Lowest rate at which a client must read waiting bytes, in bytes per second. While it reads
    /// nothing, time adds up, at most to `downstream_write_timeout`; bytes that it reads reduce
    /// that time at this rate. `null`: only the time-out applies.
    pub min_send_rate: Option<ByteSize>,
    /// Most concurrent connections of clients; further ones are closed. Never more than a third of
    /// the file descriptors of the process.
    #[schemars(range(min = 1))]
    pub connections: u32,
    /// Most concurrent connections from one address, or from one /64 network of IPv6; further ones
    /// are closed. Behind a load balancer see `trusted_proxies`. `null`: no limit.
    #[schemars(range(min = 1))]
    pub connections_per_address: Option<u32>,
    /// Most concurrent requests on one HTTP/2 connection.
    #[schemars(range(min = 1, max = 1000))]
    pub http2_streams: u32,
    /// Most concurrent requests to providers. Further ones get 503. One key can use half of them.
    #[schemars(range(min = 1))]
    pub requests_in_flight: u32,
    /// Resident memory of the process above which it refuses requests with 503. Default: three
    /// quarters of the memory of the machine or the container.
    pub memory: Option<ByteSize>,
    /// Per cent of `requests_in_flight`, `bodies_in_memory`, `memory`, local requests and open files that are
    /// reserved for keys of plans with `support: priority`.
    #[schemars(range(max = 90))]
    pub reserved_for_priority: u8,
}

impl LimitSettings {
    /// What bodies take in memory at most, where nothing is said of them.
    const USUAL_BODIES: u64 = 4 << 30;

    /// What bodies may take at most in a program that may have `memory` bytes.
    pub fn bodies_within(&self, memory: u64) -> ByteSize {
        let usual = || Self::USUAL_BODIES.min(memory.div_euclid(2));
        let bodies = self.bodies_in_memory.map_or_else(usual, ByteSize::get);
        ByteSize::new(bodies.min(memory))
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            head_bytes: ByteSize::new(64 << 10),
            body_bytes: ByteSize::new(32 << 20),
            bodies_in_memory: None,
            body_timeout: Duration::from_secs(60),
            min_body_rate: Some(ByteSize::new(1 << 10)),
            head_timeout: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(75),
            downstream_write_timeout: Duration::from_secs(60),
            min_send_rate: Some(ByteSize::new(1 << 10)),
            connections: 10_000,
            connections_per_address: Some(1_000),
            http2_streams: 100,
            requests_in_flight: 10_000,
            memory: None,
            reserved_for_priority: 10,
        }
    }
}

/// How the program ends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShutdownSettings {
    /// How long running requests may take to end before they are cut.
    pub grace: Duration,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self {
            // Streams of reasoning models run for minutes.
            grace: Duration::from_secs(600),
        }
    }
}

/// When the configuration is read again, beside `SIGHUP` and the admin API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReloadSettings {
    /// Whether the gateway reloads when a file changes: this one, included ones, secrets and
    /// certificates.
    pub watch: bool,
    /// How often the files are checked. A change must be stable for this time before it is applied.
    pub interval: Duration,
}

impl Default for ReloadSettings {
    fn default() -> Self {
        Self {
            watch: false,
            interval: Duration::from_secs(1),
        }
    }
}

/// How another process takes over the listeners of a running one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpgradeSettings {
    /// The Unix socket on which `tollgate serve --upgrade` and `tollgate upgrade` find the
    /// running gateway; for the same user and root only. Default: `upgrade.sock` behind the
    /// name of the store (`tollgate.db.upgrade.sock`).
    pub socket: Option<PathBuf>,
    /// Longest time for the new process to become ready; then the old one continues.
    pub timeout: Duration,
    /// How long unused connections of clients stay open for one more request, after the new process
    /// serves.
    pub idle: Duration,
}

impl Default for UpgradeSettings {
    fn default() -> Self {
        Self {
            socket: None,
            timeout: Duration::from_secs(60),
            idle: Duration::from_secs(5),
        }
    }
}

/// The listener for operators: metrics, health and the admin API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminSettings {
    /// IP address and port. Metrics and health need no key, and there is no TLS: keep it out of
    /// reach of clients.
    pub listen: ListenAddress,
    /// The token of the admin API, at least 16 characters. Default: the API refuses every request.
    pub token: Option<SecretSource>,
    /// Accepted host names, besides IP addresses and `localhost`. Requests for other names get 403
    /// (DNS rebinding).
    #[schemars(transform = expect_hosts, inner(regex(pattern = r"^[A-Za-z0-9._-]{1,253}$")))]
    pub hosts: Vec<String>,
    /// Whether the dashboard shows its overview without the token. Requests, keys and `explain` need the
    /// token in any case.
    pub open_overview: bool,
}

impl AdminSettings {
    /// The shortest token: shorter ones can be guessed.
    pub(super) const MIN_TOKEN_CHARS: usize = 16;
}

fn expect_hosts(schema: &mut Schema) {
    expect(
        schema,
        "a host name without a port, such as gateway.example.com",
    );
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            listen: ListenAddress(SocketAddr::from(([127, 0, 0, 1], 9080))),
            token: None,
            hosts: Vec::new(),
            open_overview: false,
        }
    }
}

/// How input tokens are counted, for `count_tokens` and for reservations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CountingSettings {
    /// Time for all providers together to return a count; then the gateway counts.
    pub timeout: Duration,
    /// How long a provider's count is cached for equal requests of the same key. `null`: not at
    /// all.
    pub cache: Option<Duration>,
    /// Whether the vocabulary is unpacked at the start: 67 MB of memory, and 0.1 to 0.25 seconds
    /// that the first count takes longer otherwise.
    pub preload: bool,
}

impl Default for CountingSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            cache: Some(Duration::from_secs(300)),
            preload: false,
        }
    }
}

/// How requests are translated to the formats of their providers.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationSettings {
    /// Fields of a request that are dropped instead of refused if the provider's format lacks them,
    /// by their paths in `docs/reference/translation.md` (`stop`, `logit_bias`). `x-dropped-fields`
    /// names them.
    pub lossy: Vec<String>,
    /// Fields of a request that are refused with 400 instead of dropped if the provider's format
    /// lacks them, by their paths in `x-dropped-fields` (`messages[].name`,
    /// `input[].internal_field`). `input[].*` means every unknown field of an item, likewise for
    /// other places below the top level.
    pub strict: Vec<String>,
    /// Whether translated answers are remembered, so that later requests in the responses format
    /// can refer to them (`item_reference`, `previous_response_id`). They hold the text of conversations.
    pub(super) memory: MemoryPlace,
    /// How many of these answers are remembered, and for how long.
    pub(super) memory_limits: MemorySettings,
}

/// API keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KeysSettings {
    /// The secret under which API keys are hashed, at least 32 characters. With another one,
    /// existing keys are unknown. `literal:TEXT` is accepted for demonstrations.
    pub pepper: PepperSource,
    /// Invalid keys from one address per minute. Further ones get 429 and slower look-ups. Valid
    /// keys are always accepted. `null`: no limit.
    #[schemars(range(min = 1))]
    pub failed_attempts_per_minute: Option<NonZeroU32>,
}

impl KeysSettings {
    /// The shortest pepper: with a shorter one, the keys of a stolen ledger could be looked for.
    pub(super) const MIN_PEPPER_CHARS: usize = 32;
}

impl Default for KeysSettings {
    fn default() -> Self {
        let variable = "TOLLGATE_PEPPER".to_owned();
        Self {
            pepper: PepperSource::Source(SecretSource::Env(variable)),
            failed_attempts_per_minute: const { NonZeroU32::new(60) },
        }
    }
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Where the access log goes, one line per request.
    pub access: AccessLog,
    /// A file for the access log, instead of `access`. If the file is renamed, the gateway creates
    /// a new one.
    pub access_file: Option<PathBuf>,
    /// The format of the access log. With `journald`, of the message of each entry.
    pub access_format: AccessFormat,
    /// The socket of the journal, for `access: journald`.
    pub journal_socket: PathBuf,
    /// The lowest logged level. `RUST_LOG` overrides it; a release build logs nothing below `info`.
    pub level: LogLevel,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            access: AccessLog::default(),
            access_file: None,
            access_format: AccessFormat::default(),
            journal_socket: PathBuf::from("/run/systemd/journal/socket"),
            level: LogLevel::default(),
        }
    }
}

/// Where the access log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessLog {
    /// To the standard output.
    #[default]
    Stdout,
    /// To the standard error, where other log lines go.
    Stderr,
    /// To the journal of systemd, with each field as a field of the entry, such as `TOLLGATE_ID`.
    Journald,
    /// Nowhere.
    None,
}

/// The form of a line of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessFormat {
    /// A JSON object with all fields.
    #[default]
    Json,
    /// The Common Log Format of web servers.
    Common,
}

/// How severe an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the usual names")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
}

/// An IP address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct ListenAddress(SocketAddr);

impl ListenAddress {
    const EXPECTED: &'static str =
        "an IP address and a port such as 127.0.0.1:8080, 0.0.0.0:443 or [::]:8080";

    /// The address as the standard library has it.
    pub const fn get(self) -> SocketAddr {
        self.0
    }

    /// Whether only one of two addresses can be listened on. A socket for all addresses of IPv6 takes
    /// those of IPv4 too on some machines only.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let [one, two] = [self.0, other.0].map(|it| it.ip().to_canonical());
        let is_wide = one.is_unspecified() || two.is_unspecified();
        let is_same = one == two || (is_wide && one.is_ipv4() == two.is_ipv4());
        // Port 0 is another port each time.
        is_same && self.0.port() == other.0.port() && self.0.port() != 0
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        let address = text
            .parse()
            .map_err(|_| de::Error::custom(format_args!("expected {}", Self::EXPECTED)))?;
        Ok(Self(address))
    }
}

impl JsonSchema for ListenAddress {
    fn schema_name() -> Cow<'static, str> {
        "ListenAddress".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "address",
            "description": "An IP address and a port.",
            "type": "string",
            "pattern": r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
            "x-expected": Self::EXPECTED,
        })
    }
}

/// Where the pepper is to be had, or for demonstrations the pepper itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PepperSource {
    /// Outside of the file.
    Source(SecretSource),
    /// In the file itself, readable by all its readers.
    Literal(Secret),
}

impl PepperSource {
    const LITERAL: &'static str = "literal:";

    pub(super) fn resolve(
        &self,
        environment: &dyn Environment,
        folder: &Path,
    ) -> Result<Secret, SecretError> {
        match self {
            Self::Source(source) => source.resolve(environment, folder),
            Self::Literal(secret) => Ok(secret.clone()),
        }
    }
}

impl Serialize for PepperSource {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Source(source) => source.serialize(serializer),
            Self::Literal(secret) => secret.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PepperSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        match text.strip_prefix(Self::LITERAL) {
            Some(literal) if !literal.is_empty() => Ok(Self::Literal(Secret::new(literal))),
            _ => SecretSource::parse(&text)
                .map(Self::Source)
                .map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for PepperSource {
    fn schema_name() -> Cow<'static, str> {
        "PepperSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "secret",
            "description": "The source of a secret: env:NAME or file:PATH; for demonstrations also literal:TEXT.",
            "type": "string",
            "pattern": "^(env|file|literal):.+$",
            "writeOnly": true,
            "x-expected": "env:NAME or file:PATH, so that the secret itself does not stand in this file",
        })
    }
}

impl ServerSettings {
    /// Relative paths are taken from what `folder` says for the place at which they stand.
    pub(super) fn with_paths_from(mut self, folder: impl Fn(&KeyPath) -> PathBuf) -> Self {
        let section = KeyPath::root().key("server").key("listen");
        for (place, listen) in self.listen.iter_mut().enumerate() {
            let Some(tls) = &mut listen.tls else { continue };
            let path = section.index(place).key("tls");
            tls.certificate = folder(&path.key("certificate")).join(&tls.certificate);
            tls.key = folder(&path.key("key")).join(&tls.key);
            if let Some(file) = &mut tls.client_ca {
                *file = folder(&path.key("client_ca")).join(&*file);
            }
        }
        if let Some(socket) = &mut self.upgrade.socket {
            let path = KeyPath::root().key("server").key("upgrade").key("socket");
            *socket = folder(&path).join(&*socket);
        }
        self
    }
}
