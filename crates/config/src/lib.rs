//! The configuration: one YAML file in, one checked [`Config`] out, or every fault in it
//! at once with file, line and column.
//!
//! The way: files to one tree with positions (`files`, `yaml`, `tree`), its shape against
//! the JSON Schema that the types give (`check`, `schema`), then the types themselves
//! (`sections`, `plans`, `filters`, and the sections that other crates own), then the
//! rules that cross sections. The crates that own a section decide what it means.

#![forbid(unsafe_code)]

mod answer_memory;
mod answering;
mod check;
mod cors;
mod diff;
mod failover;
mod faults;
mod files;
mod filters;
mod hidden;
mod key_limits;
mod network;
mod plans;
mod restart;
mod schema;
mod sections;
mod settlement;
mod sources;
mod store;
mod traces;
mod tree;
mod yaml;

pub use answer_memory::{MemoryPlace, MemorySettings};
pub use answering::Answering;
pub use cors::CorsSettings;
pub use diff::{Change, ChangeKind};
pub use failover::{FailoverSettings, RetryBudgetSettings};
pub use faults::{Faults, Located};
pub use files::Override;
pub use filters::FilterEntry;
pub use key_limits::{KeyLimitSettings, SharedLimitSettings};
pub use network::Network;
pub use plans::{ALL_GROUPS, Decimal, PlanLimits, PlanSettings, Price, Support};
pub use restart::{Started, needs_restart, takes_restart};
pub use schema::schema_text;
pub use sections::{
    AccessFormat, AccessLog, AdminSettings, CountingSettings, LimitSettings, ListenAddress,
    ListenSettings, LogLevel, LogSettings, ReloadSettings, ServerSettings, ShutdownSettings,
    TlsSettings, TranslationSettings, UpgradeSettings,
};
pub use settlement::{DrainSettings, SettlementSettings};
pub use sources::Sources;
pub use store::{PostgresSettings, StoreSettings};
pub use traces::{ContentSettings, SampleSettings, TraceProtocol, TraceSettings, TraceTarget};
pub use tree::Position;

use check::Shape;
use indexmap::IndexMap;
use schemars::JsonSchema;
use sections::KeysSettings;
use serde::Deserialize;
use sources::Recording;
use std::cell::OnceCell;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use tollgate_routing::{
    Catalog, CatalogSettings,
    settings::{AutoSettings, FamilySettings, ModelSettings, ProviderSettings, RoutingSettings},
};
use tollgate_settings::{
    ByteSize, Environment, Fault, KeyPath, Secret, SecretError, unknown_name, without_rust_types,
};
use tree::{Node, NodeValue, Part};

/// The whole file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// A file that this one builds on, or several, relative to this one. Mappings are
    /// merged key by key; anything else given here replaces what the other file gives.
    include: Option<Include>,
    /// Listeners for clients, and limits on their requests.
    server: ServerSettings,
    /// The listener for operators: metrics, health and the admin API.
    admin: AdminSettings,
    /// The database for keys and usage.
    store: StoreSettings,
    /// API keys.
    keys: KeysSettings,
    /// How several gateways share the limits of keys.
    limits: KeyLimitSettings,
    /// Logs.
    log: LogSettings,
    /// Where traces are exported to. Default: no traces.
    traces: Option<TraceSettings>,
    /// Providers, by name.
    providers: IndexMap<String, ProviderSettings>,
    /// Families of models, by name.
    families: IndexMap<String, FamilySettings>,
    /// Models, by identifier.
    models: IndexMap<String, ModelSettings>,
    /// Additional names of models, each with the model that it stands for.
    aliases: IndexMap<String, String>,
    /// Rules for the model name `auto`. Default: `auto` is not a model.
    auto: Option<AutoSettings>,
    /// Attempts at other candidates if a provider fails before the answer is committed.
    failover: FailoverSettings,
    /// How requests are balanced over the deployments of a model, and when a deployment is passed
    /// over.
    routing: RoutingSettings,
    /// How requests are translated to the formats of their providers.
    translation: TranslationSettings,
    /// How input tokens are counted, for `count_tokens` and for reservations.
    counting: CountingSettings,
    /// How requests are settled.
    settlement: SettlementSettings,
    /// Token packages, by name.
    plans: IndexMap<String, PlanSettings>,
    /// The filters that a request passes, in order. Default: all, in the usual order.
    filters: Option<Vec<filters::FilterSettings>>,
}

/// One file name or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the shape alone matters")]
enum Include {
    /// One file.
    One(String),
    /// Several; a later one lies over an earlier one.
    Several(Vec<String>),
}

/// The most bytes of a file of certificates: all the authorities that a system comes with are a
/// small part of it.
pub const MOST_CERTIFICATE_BYTES: u64 = 16 << 20;

/// A configuration in which everything was checked that can be checked without running.
#[derive(Debug)]
pub struct Config {
    /// Listeners for clients, and limits on their requests.
    pub server: ServerSettings,
    /// The operator's own listener.
    pub admin: AdminSettings,
    /// The secret that the admin API asks for.
    pub admin_token: Option<Secret>,
    /// Where keys and usage are kept; the path is taken from the folder of the file that says it.
    pub store: StoreSettings,
    /// The URL of the database, if it is on a server.
    pub store_url: Option<Secret>,
    /// The secret under which API keys are hashed.
    pub pepper: Secret,
    /// Refused credentials that an address may send in a minute; `None`: any number.
    pub failed_keys_per_minute: Option<NonZeroU32>,
    /// How several gateways share the limits of keys.
    pub limits: KeyLimitSettings,
    /// The URL of the server through which they share them, if there is one.
    pub limits_url: Option<Secret>,
    /// Logs.
    pub log: LogSettings,
    /// Where traces are exported to. `None`: there are none.
    pub traces: Option<TraceTarget>,
    /// Providers and models.
    pub catalog: Catalog,
    /// How often and how long a request is tried.
    pub failover: FailoverSettings,
    /// Which fields may be lost in translation.
    pub translation: TranslationSettings,
    /// How much is remembered of translated answers; `None`: nothing.
    pub memory: Option<MemorySettings>,
    /// How input tokens are counted.
    pub counting: CountingSettings,
    /// How requests are settled.
    pub settlement: SettlementSettings,
    /// Token packages, in the order of the file.
    pub plans: IndexMap<String, PlanSettings>,
    /// The filters in order; their settings are theirs to read.
    pub filters: Vec<FilterEntry>,
    /// Where everything stands, for faults that show later.
    tree: Node,
    /// The files and variables that it was read from.
    sources: Sources,
}

impl Config {
    /// Whether the file says nothing.
    pub fn is_empty(&self) -> bool {
        match &self.tree.value {
            NodeValue::Mapping(entries) => entries.is_empty(),
            NodeValue::Scalar(value) => value.is_null(),
            NodeValue::Sequence(list) => list.is_empty(),
        }
    }

    /// Gives faults their places: those that a filter finds in its settings, for one.
    pub fn locate(&self, faults: impl IntoIterator<Item = Fault>) -> Faults {
        let mut located = Faults::default();
        located.extend(
            faults
                .into_iter()
                .map(|fault| locate(&self.tree, fault, Part::Value)),
        );
        located
    }

    /// The Unix socket on which others ask this gateway for its listeners.
    pub fn upgrade_socket(&self) -> PathBuf {
        self.server.upgrade.socket.clone().unwrap_or_else(|| {
            let mut name = self.store.path.clone().into_os_string();
            name.push(".upgrade.sock");
            name.into()
        })
    }

    /// The gateway's use of `path`, if nothing else may write to that file.
    pub fn purpose_of(&self, path: &Path) -> Option<&'static str> {
        const FILE_SUFFIXES: &[&str] =
            &["", "-wal", "-shm", "-journal", ".sequence", ".upgrade.sock"];
        let path = without_links(path);
        let database = without_links(&self.store.path);
        let rest = path.as_os_str().as_encoded_bytes();
        let rest = rest.strip_prefix(database.as_os_str().as_encoded_bytes());
        let is_of_ledger = |rest: &[u8]| {
            FILE_SUFFIXES.iter().any(|it| it.as_bytes() == rest)
                || rest.starts_with(b".settlements-")
        };
        if rest.is_some_and(is_of_ledger) {
            return Some("a file of the ledger");
        }
        let is_source = self
            .sources
            .paths()
            .any(|source| without_links(source) == path);
        is_source.then_some("a file of the configuration")
    }

    /// Refuses an access log that would be written into another file of the gateway.
    fn check_access_file(self) -> Result<Self, Faults> {
        let file = self.log.access_file.as_deref();
        let purpose = file.and_then(|file| self.purpose_of(file));
        let path = KeyPath::root().key("log").key("access_file");
        let fault = purpose.map(|it| path.fault(format!("this is {it}: name another file")));
        self.locate(fault).none().map(|()| self)
    }

    /// Reads the certificates that are named, only to have them among the sources:
    /// the server reads them itself, and reports their faults.
    ///
    /// # Errors
    ///
    /// Those that do not answer, because a reader would wait for ever, and those that are too
    /// long, because a change of them would not be noticed.
    fn look_at_certificates(&self, environment: &dyn Environment) -> Result<(), Faults> {
        let own = self.server.listen.iter().filter_map(|it| it.tls.as_ref());
        let own = own.flat_map(|tls| {
            [&tls.certificate, &tls.key]
                .into_iter()
                .chain(&tls.client_ca)
        });
        let providers = self.catalog.providers().iter();
        let theirs = providers.filter_map(|provider| provider.tls.as_ref()?.ca.as_ref());
        let mut faults = Faults::default();
        for path in own.chain(theirs) {
            let Err(cause) = environment.read_bytes(path, MOST_CERTIFICATE_BYTES) else {
                continue;
            };
            let (late, long) = (io::ErrorKind::TimedOut, io::ErrorKind::FileTooLarge);
            if [late, long].contains(&cause.kind()) {
                faults.push(files::unreadable(path, &cause));
            }
        }
        faults.none()
    }
}

/// A path without links, as far as it exists.
fn without_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        folder.join(path.file_name().unwrap_or_default())
    })
}

/// Loads the configuration in `path` with the environment and files of this process.
///
/// # Errors
/// Every fault there is, as far as the file can be read.
pub fn load(path: &Path) -> Result<Config, Faults> {
    Loader::new(&Answering).load(path)
}

/// Loads configurations with an environment and overrides of one's own.
pub struct Loader<'a> {
    environment: &'a dyn Environment,
    overrides: Vec<Override>,
    /// Kept for the next file.
    shape: OnceCell<Shape>,
}

impl<'a> Loader<'a> {
    /// Files and variables come from `environment`.
    pub const fn new(environment: &'a dyn Environment) -> Self {
        Self {
            environment,
            overrides: Vec::new(),
            shape: OnceCell::new(),
        }
    }

    /// Puts `value` at `path` (`providers.sim.address`), whatever the file says there.
    #[must_use]
    pub fn with(mut self, path: KeyPath, value: impl Into<serde_json::Value>) -> Self {
        self.overrides.push(Override {
            path,
            value: value.into(),
        });
        self
    }

    /// Loads the configuration in `path`. A relative path in it is taken from the folder of
    /// the file in which it stands.
    ///
    /// # Errors
    /// Every fault there is, as far as the file can be read.
    pub fn load(&self, path: &Path) -> Result<Config, Faults> {
        self.load_noting(path, &mut Sources::default())
    }

    /// The same, and leaves in `sources` what was looked at, whether it was of use or not.
    ///
    /// # Errors
    /// As [`Loader::load`].
    pub fn load_noting(&self, path: &Path, sources: &mut Sources) -> Result<Config, Faults> {
        let recording = Recording::of(self.environment);
        let loaded = files::read(path, &recording)
            .and_then(|tree| self.build(tree, path, &recording))
            .and_then(|config| config.look_at_certificates(&recording).map(|()| config));
        *sources = recording.into_sources();
        let config = Config {
            sources: sources.clone(),
            ..loaded?
        };
        config.check_access_file()
    }

    /// Takes `text` for the file `path`.
    ///
    /// # Errors
    /// As [`Loader::load`].
    pub fn parse(&self, text: &str, path: &Path) -> Result<Config, Faults> {
        let tree = files::read_text(text, path, self.environment)?;
        self.build(tree, path, self.environment)
    }

    fn build(
        &self,
        mut tree: Node,
        path: &Path,
        environment: &dyn Environment,
    ) -> Result<Config, Faults> {
        files::apply(&mut tree, &self.overrides)?;
        let value = tree.to_value();
        let mut faults = hidden::faults(&tree);
        let shape = self.shape.get_or_init(Shape::new).faults(&value);
        faults.extend(
            shape
                .into_iter()
                .map(|(part, fault)| locate(&tree, fault, part)),
        );
        // What has the wrong shape cannot be read further.
        faults.none()?;
        let settings = read_types(&value).map_err(|fault| {
            let mut faults = Faults::default();
            faults.push(locate(&tree, fault, Part::Value));
            faults
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::check(settings, folder, tree, environment)
    }

    /// The rules that the types alone do not give.
    fn check(
        settings: Settings,
        folder: &Path,
        tree: Node,
        environment: &dyn Environment,
    ) -> Result<Config, Faults> {
        let folder = |path: &KeyPath| match tree.file(path) {
            Some(file) => Path::new(file).parent().unwrap_or(folder).to_owned(),
            // A default, or put there by the command line.
            None => folder.to_owned(),
        };
        let mut faults = Vec::new();
        let pepper_path = KeyPath::root().key("keys").key("pepper");
        let pepper = settings
            .keys
            .pepper
            .resolve(environment, &folder(&pepper_path));
        let pepper = long_enough(pepper, KeysSettings::MIN_PEPPER_CHARS, &pepper_path)
            .map_err(|fault| faults.push(fault))
            .ok();
        let token_path = KeyPath::root().key("admin").key("token");
        let admin_token = settings.admin.token.as_ref().and_then(|source| {
            let token = source.resolve(environment, &folder(&token_path));
            long_enough(token, AdminSettings::MIN_TOKEN_CHARS, &token_path)
                .and_then(|token| sendable(token, &token_path))
                .map_err(|fault| faults.push(fault))
                .ok()
        });
        let traces = settings.traces.as_ref().and_then(|traces| {
            let target = traces.check(environment, &folder);
            target.map_err(|found| faults.extend(found)).ok()
        });
        let store_path = KeyPath::root().key("store");
        let store = settings.store.with_paths_from(folder);
        faults.extend(store.check());
        let store_url = store.postgres.as_ref().and_then(|server| {
            let url = server.check(environment, folder, &store_path.key("postgres"));
            url.map_err(|found| faults.extend(found)).ok()
        });
        let limits = settings.limits.with_paths_from(folder);
        let limits_url = limits.check(environment, folder).unwrap_or_else(|found| {
            faults.extend(found);
            None
        });
        let catalog = CatalogSettings {
            providers: settings.providers,
            families: settings.families,
            models: settings.models,
            aliases: settings.aliases,
            auto: settings.auto,
            routing: settings.routing,
        };
        let catalog = Catalog::build(&catalog, environment, &folder)
            .map_err(|found| faults.extend(found))
            .ok();
        if let Some(catalog) = &catalog {
            faults.extend(plans::check(&settings.plans, catalog));
        }
        faults.extend(settings.failover.check());
        faults.extend(check_translation(&settings.translation));
        faults.extend(check_server(&settings.server, &settings.admin));
        let filters = settings.filters.map_or_else(filters::default_list, |list| {
            let (filters, found) = filters::build(list);
            faults.extend(found);
            filters
        });
        let (Some(pepper), Some(catalog), true) = (pepper, catalog, faults.is_empty()) else {
            let mut located = Faults::default();
            located.extend(
                faults
                    .into_iter()
                    .map(|fault| locate(&tree, fault, Part::Value)),
            );
            return Err(located);
        };
        let log_path = KeyPath::root().key("log");
        Ok(Config {
            server: settings.server.with_paths_from(folder),
            admin: settings.admin,
            admin_token,
            store,
            store_url,
            pepper,
            failed_keys_per_minute: settings.keys.failed_attempts_per_minute,
            limits,
            limits_url,
            log: LogSettings {
                access_file: settings
                    .log
                    .access_file
                    .map(|file| folder(&log_path.key("access_file")).join(file)),
                journal_socket: folder(&log_path.key("journal_socket"))
                    .join(&settings.log.journal_socket),
                ..settings.log
            },
            traces,
            catalog,
            failover: settings.failover,
            memory: match settings.translation.memory {
                MemoryPlace::Store => Some(settings.translation.memory_limits.clone()),
                MemoryPlace::None => None,
            },
            translation: settings.translation,
            counting: settings.counting,
            settlement: settings.settlement,
            plans: settings.plans,
            filters,
            tree,
            sources: Sources::default(),
        })
    }
}

/// Refuses a secret with fewer than `least` characters.
fn long_enough(
    secret: Result<Secret, SecretError>,
    least: usize,
    path: &KeyPath,
) -> Result<Secret, Fault> {
    let secret = secret.map_err(|cause| path.fault(cause.to_string()))?;
    if secret.expose().trim().chars().count() < least {
        return Err(path.fault(format!(
            "the secret needs at least {least} characters, so that it cannot be guessed: \
             `openssl rand -hex 32` makes one"
        )));
    }
    Ok(secret)
}

/// Refuses a token that no request can have: spaces around the value of a header are not part of it.
fn sendable(token: Secret, path: &KeyPath) -> Result<Secret, Fault> {
    if token.expose().ends_with(' ') {
        return Err(path.fault("the token ends in a space, which no header can carry: remove it"));
    }
    Ok(token)
}

fn locate(tree: &Node, fault: Fault, part: Part) -> Located {
    Located {
        position: tree.locate(&fault.path, part).clone(),
        fault,
    }
}

/// Reads what has the right shape already; what a pattern cannot say is found here.
fn read_types(value: &serde_json::Value) -> Result<Settings, Fault> {
    serde_path_to_error::deserialize(value).map_err(|fault| {
        use serde_path_to_error::Segment as Step;
        let path = fault
            .path()
            .iter()
            .fold(KeyPath::root(), |path, step| match step {
                Step::Seq { index } => path.index(*index),
                Step::Map { key } => path.key(key),
                Step::Enum { .. } | Step::Unknown => path,
            });
        path.fault(without_rust_types(&fault.inner().to_string()))
    })
}

fn check_translation(settings: &TranslationSettings) -> Vec<Fault> {
    let section = KeyPath::root().key("translation");
    let known = tollgate_translate::table::paths();
    let unknown = |path: &str| {
        let known = known.iter().map(String::as_str);
        unknown_name("field of a request", path, known)
    };
    let lossy = settings.lossy.iter().enumerate();
    let lossy = lossy.filter(|(_, path)| !known.contains(*path));
    let lossy = lossy.map(|(at, path)| section.key("lossy").index(at).fault(unknown(path)));
    let strict = settings.strict.iter().enumerate().filter_map(|(at, path)| {
        let fault = if settings.lossy.contains(path) {
            "must not stand in `translation.lossy` too".to_owned()
        } else if tollgate_translate::table::is_droppable(path) {
            return None;
        } else {
            unknown(path)
        };
        Some(section.key("strict").index(at).fault(fault))
    });
    lossy.chain(strict).collect()
}

fn check_server(server: &ServerSettings, admin: &AdminSettings) -> Vec<Fault> {
    let section = KeyPath::root().key("server");
    let mut faults = Vec::new();
    let mut seen = vec![admin.listen];
    for (place, listen) in server.listen.iter().enumerate() {
        let address = listen.address;
        if let Some(other) = seen.iter().find(|other| address.overlaps(**other)) {
            let path = section.key("listen").index(place).key("address");
            faults.push(path.fault(format!("{address} overlaps with the listener {other}")));
        }
        seen.push(address);
        if listen.proxy_protocol && server.trusted_proxies.is_empty() {
            let path = section.key("listen").index(place).key("proxy_protocol");
            faults.push(path.fault(
                "no client could be served: name the networks of the load balancers in \
                 server.trusted_proxies",
            ));
        }
    }
    faults.extend(check_limits(&server.limits, &section.key("limits")));
    faults.extend(check_bodies(&server.limits, &section.key("limits")));
    faults
}

/// Reports limits with which the gateway would refuse every request.
fn check_limits(limits: &LimitSettings, section: &KeyPath) -> Vec<Fault> {
    const LEAST_MEMORY: ByteSize = ByteSize::new(1 << 20);
    let mut faults = Vec::new();
    for (key, size) in [
        ("head_bytes", limits.head_bytes),
        ("body_bytes", limits.body_bytes),
    ] {
        if size.get() == 0 {
            faults.push(section.key(key).fault("must be at least 1"));
        }
    }
    if limits.memory.is_some_and(|memory| memory < LEAST_MEMORY) {
        let fault = format!("must be at least {LEAST_MEMORY}: an idle process already uses more");
        faults.push(section.key("memory").fault(fault));
    }
    let (requests, reserved) = (limits.requests_in_flight, limits.reserved_for_priority);
    let standard = u64::from(requests).saturating_mul(100_u64.saturating_sub(reserved.into()));
    if standard < 100 {
        let path = section.key("requests_in_flight");
        faults.push(path.fault(format!(
            "with {reserved}% reserved for priority keys (reserved_for_priority), {requests} leaves no request for other keys"
        )));
    }
    faults
}

/// Whether what bodies may take fits what else is said, where that does not depend on the machine.
fn check_bodies(limits: &LimitSettings, section: &KeyPath) -> Vec<Fault> {
    let mut faults = Vec::new();
    let path = section.key("bodies_in_memory");
    if let (Some(bodies), Some(memory)) = (limits.bodies_in_memory, limits.memory)
        && bodies > memory
    {
        faults.push(path.fault(format!(
            "{bodies} is more than the process may use (memory: {memory})"
        )));
        return faults;
    }
    if limits.bodies_in_memory.is_none() && limits.memory.is_some() {
        // Half of it, whatever that is: bodies are refused that are larger.
        return faults;
    }
    // Another model's name in it is enough for a copy.
    let two = u128::from(limits.body_bytes.get()).saturating_mul(2);
    let bodies = limits.bodies_within(u64::MAX);
    if u128::from(bodies.get()) < two {
        faults.push(path.fault(format!(
            "{bodies} is less than one body ({}) and its copy",
            limits.body_bytes
        )));
        return faults;
    }
    let rest = 100_u128.saturating_sub(limits.reserved_for_priority.into());
    let standard = u128::from(bodies.get())
        .saturating_mul(rest)
        .div_euclid(100);
    if standard < two {
        let path = section.key("reserved_for_priority");
        faults.push(path.fault(format!(
            "{}% of bodies_in_memory ({bodies}) leave other keys less than one body may have ({}) \
             and a copy of it",
            limits.reserved_for_priority, limits.body_bytes
        )));
    }
    faults
}

#[cfg(test)]
mod tests;
