//! The settings that hold from the start of the program to its end.

use crate::sources::Digest;
use crate::{
    Config, KeyLimitSettings, ListenAddress, ListenSettings, LogSettings, ShutdownSettings,
    Sources, StoreSettings, TraceTarget, UpgradeSettings,
};
use std::num::NonZeroU32;
use tollgate_settings::Duration;

/// The settings that a reload cannot change.
#[derive(PartialEq)]
pub struct Started {
    listen: Vec<Listening>,
    threads: Option<u16>,
    upstream_keepalive_pool: u32,
    /// HTTP/2 connections keep the one that they were made under.
    keepalive_timeout: Duration,
    shutdown: ShutdownSettings,
    upgrade: UpgradeSettings,
    admin: ListenAddress,
    store: StoreSettings,
    store_url: Option<String>,
    pepper: String,
    failed_keys_per_minute: Option<NonZeroU32>,
    limits: KeyLimitSettings,
    limits_url: Option<String>,
    log: LogSettings,
    traces: Option<TraceTarget>,
}

/// The settings of a listener that cannot be changed; its certificate can.
#[derive(PartialEq, Eq)]
struct Listening {
    address: ListenAddress,
    tls: bool,
    /// The content of the file: a session that was resumed would not be checked against other
    /// authorities. `None`: clients present no certificate.
    client_ca: Option<Digest>,
    http2: bool,
    proxy_protocol: bool,
}

impl Listening {
    fn of(settings: &ListenSettings, sources: &Sources) -> Self {
        let client_ca = settings.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
        Self {
            address: settings.address,
            tls: settings.tls.is_some(),
            client_ca: client_ca.and_then(|file| sources.file(file)).copied(),
            http2: settings.http2,
            proxy_protocol: settings.proxy_protocol,
        }
    }
}

impl Started {
    /// Those of a configuration.
    pub fn with(config: &Config) -> Self {
        let server = &config.server;
        Self {
            listen: server
                .listen
                .iter()
                .map(|listen| Listening::of(listen, config.sources()))
                .collect(),
            threads: server.threads,
            upstream_keepalive_pool: server.upstream_keepalive_pool,
            keepalive_timeout: server.limits.keepalive_timeout,
            shutdown: server.shutdown.clone(),
            upgrade: server.upgrade.clone(),
            admin: config.admin.listen,
            store: config.store.clone(),
            store_url: config.store_url.as_ref().map(|url| url.expose().to_owned()),
            pepper: config.pepper.expose().to_owned(),
            failed_keys_per_minute: config.failed_keys_per_minute,
            limits: config.limits.clone(),
            limits_url: config
                .limits_url
                .as_ref()
                .map(|url| url.expose().to_owned()),
            log: config.log.clone(),
            traces: config.traces.clone(),
        }
    }

    /// The unchangeable settings at a key path: the path itself if it is such a setting or is in one,
    /// otherwise the settings of that kind below it.
    fn parts_of(path: &str) -> Vec<&str> {
        let is_below = |path: &str, above: &str| {
            let rest = path.strip_prefix(above);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if path.ends_with(".tls.certificate") || path.ends_with(".tls.key") {
            return Vec::new();
        }
        let mut parts = PARTS.map(|(part, _)| part).to_vec();
        if parts.iter().any(|it| is_below(path, it)) {
            return vec![path];
        }
        parts.retain(|it| is_below(it, path));
        parts
    }

    /// The key paths of the values that differ in another configuration.
    pub fn differs_from(&self, other: &Self) -> Vec<&'static str> {
        let parts = PARTS.iter().filter(|(_, differs)| differs(self, other));
        parts.map(|(path, _)| *path).collect()
    }
}

/// The key paths of these settings, and whether two configurations differ there.
type Part = (&'static str, fn(&Started, &Started) -> bool);

const PARTS: [Part; 13] = [
    ("server.listen", |a, b| a.listen != b.listen),
    ("server.threads", |a, b| a.threads != b.threads),
    ("server.upstream_keepalive_pool", |a, b| {
        a.upstream_keepalive_pool != b.upstream_keepalive_pool
    }),
    ("server.limits.keepalive_timeout", |a, b| {
        a.keepalive_timeout != b.keepalive_timeout
    }),
    ("server.shutdown", |a, b| a.shutdown != b.shutdown),
    ("server.upgrade", |a, b| a.upgrade != b.upgrade),
    ("admin.listen", |a, b| a.admin != b.admin),
    ("store", |a, b| {
        a.store != b.store || a.store_url != b.store_url
    }),
    ("keys.pepper", |a, b| a.pepper != b.pepper),
    ("keys.failed_attempts_per_minute", |a, b| {
        a.failed_keys_per_minute != b.failed_keys_per_minute
    }),
    ("limits", |a, b| {
        a.limits != b.limits || a.limits_url != b.limits_url
    }),
    ("log", |a, b| a.log != b.log),
    ("traces", |a, b| a.traces != b.traces),
];

/// The key paths of what a gateway that serves `running` can take of `next` only by a restart
/// or an upgrade.
pub fn needs_restart(running: &Config, next: &Config) -> Vec<&'static str> {
    Started::with(running).differs_from(&Started::with(next))
}

/// Of a changed key path what takes a restart or an upgrade: itself, or settings that stand in it.
pub fn takes_restart(path: &str) -> Vec<&str> {
    Started::parts_of(path)
}
