//! What of a configuration holds from the start of the program to its end.

use crate::config::{
    Config, ListenAddress, ListenSettings, LogSettings, ShutdownSettings, StoreSettings,
    UpgradeSettings,
};
use std::num::NonZeroU32;
use tollgate_settings::Duration;

/// The settings that a reload cannot change.
#[derive(PartialEq, Eq)]
pub(super) struct Started {
    listen: Vec<Listening>,
    threads: Option<u16>,
    upstream_keepalive_pool: u32,
    /// HTTP/2 connections keep the one that they were made under.
    keepalive_timeout: Duration,
    shutdown: ShutdownSettings,
    upgrade: UpgradeSettings,
    admin: ListenAddress,
    store: StoreSettings,
    pepper: String,
    failed_keys_per_minute: Option<NonZeroU32>,
    log: LogSettings,
}

/// What of a listener cannot be changed; its certificate can.
#[derive(PartialEq, Eq)]
struct Listening {
    address: ListenAddress,
    tls: bool,
    http2: bool,
}

impl Listening {
    const fn of(settings: &ListenSettings) -> Self {
        Self {
            address: settings.address,
            tls: settings.tls.is_some(),
            http2: settings.http2,
        }
    }
}

impl Started {
    pub(super) fn with(config: &Config) -> Self {
        let server = &config.server;
        Self {
            listen: server.listen.iter().map(Listening::of).collect(),
            threads: server.threads,
            upstream_keepalive_pool: server.upstream_keepalive_pool,
            keepalive_timeout: server.limits.keepalive_timeout,
            shutdown: server.shutdown.clone(),
            upgrade: server.upgrade.clone(),
            admin: config.admin.listen,
            store: config.store.clone(),
            pepper: config.pepper.expose().to_owned(),
            failed_keys_per_minute: config.failed_keys_per_minute,
            log: config.log.clone(),
        }
    }

    /// Whether something at or above or below a key path cannot be changed.
    pub(super) fn has(path: &str) -> bool {
        const PATHS: [&str; 12] = [
            "server.listen",
            "server.threads",
            "server.upstream_keepalive_pool",
            "server.limits.keepalive_timeout",
            "server.shutdown",
            "server.upgrade",
            "admin.listen",
            "store",
            "keys.pepper",
            "keys.failed_attempts_per_minute",
            "log.access",
            "log.level",
        ];
        let is_below = |path: &str, above: &str| {
            let rest = path.strip_prefix(above);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let is_certificate = path.ends_with(".tls.certificate") || path.ends_with(".tls.key");
        let mut all = PATHS.iter();
        !is_certificate && all.any(|it| is_below(path, it) || is_below(it, path))
    }

    /// The key paths of what another configuration wants otherwise.
    pub(super) fn differs_from(&self, other: &Self) -> Vec<&'static str> {
        [
            ("server.listen", self.listen != other.listen),
            ("server.threads", self.threads != other.threads),
            (
                "server.upstream_keepalive_pool",
                self.upstream_keepalive_pool != other.upstream_keepalive_pool,
            ),
            (
                "server.limits.keepalive_timeout",
                self.keepalive_timeout != other.keepalive_timeout,
            ),
            ("server.shutdown", self.shutdown != other.shutdown),
            ("server.upgrade", self.upgrade != other.upgrade),
            ("admin.listen", self.admin != other.admin),
            ("store", self.store != other.store),
            ("keys.pepper", self.pepper != other.pepper),
            (
                "keys.failed_attempts_per_minute",
                self.failed_keys_per_minute != other.failed_keys_per_minute,
            ),
            ("log", self.log != other.log),
        ]
        .into_iter()
        .filter_map(|(path, differs)| differs.then_some(path))
        .collect()
    }
}
