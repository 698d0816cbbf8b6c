//! Where keys and usage are kept: in a file, or in a database on a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{num::NonZeroU32, path::PathBuf};
use tollgate_settings::{Duration, Environment, Fault, KeyPath, Secret, SecretSource};

/// The database for keys and usage.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// The database file, created if it is missing. With `postgres`: where the settlement files of
    /// this machine are, on a local disk.
    pub path: PathBuf,
    /// A database on a PostgreSQL server (15 or newer) instead, which gateways on several machines share.
    pub postgres: Option<PostgresSettings>,
    /// How long records of requests are kept, at least `1h`. A PostgreSQL server drops those of a whole
    /// week together.
    pub history: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            path: "tollgate.db".into(),
            postgres: None,
            history: Duration::from_secs(90 * 86_400),
        }
    }
}

impl StoreSettings {
    /// The shortest history: the record of a request keeps it from being charged again.
    const MIN_HISTORY: Duration = Duration::from_secs(3600);

    /// The first fault of the settings, apart from those of the server.
    pub(crate) fn check(&self) -> Option<Fault> {
        let history = KeyPath::root().key("store").key("history");
        let fault = || history.fault(format!("{} is too short: at least 1h", self.history));
        (self.history < Self::MIN_HISTORY).then(fault)
    }

    /// With paths from the folders of the files that say them.
    pub(crate) fn with_paths_from(self, folder: impl Fn(&KeyPath) -> PathBuf) -> Self {
        let store = KeyPath::root().key("store");
        let path = folder(&store.key("path")).join(self.path);
        let postgres = self.postgres.map(|server| {
            let from = folder(&store.key("postgres").key("ca"));
            PostgresSettings {
                ca: server.ca.map(|ca| from.join(ca)),
                ..server
            }
        });
        Self {
            path,
            postgres,
            ..self
        }
    }
}

/// A database on a PostgreSQL server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostgresSettings {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`; several hosts, separated by commas, for a primary
    /// and its standbys. Through a connection pooler sessions must stay on one connection.
    pub url: SecretSource,
    /// Whether connections over TCP use TLS, with a certificate for the name of the host.
    #[serde(default = "PostgresSettings::default_tls")]
    pub tls: bool,
    /// A PEM file with the authorities that may sign the certificate of the server. Default: those of
    /// the system.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Most connections of this gateway, besides up to six of its own.
    #[serde(default = "PostgresSettings::default_connections")]
    pub connections: NonZeroU32,
    /// How long a gateway keeps its leased tokens while it cannot reach the database, at least 5 s.
    /// It serves from them for half of this time, then answers 503.
    #[serde(default = "PostgresSettings::default_lease_term")]
    pub lease_term: Duration,
}

impl PostgresSettings {
    /// The shortest term of leases.
    pub const MIN_LEASE_TERM: std::time::Duration = std::time::Duration::from_secs(5);

    const fn default_tls() -> bool {
        true
    }

    const fn default_connections() -> NonZeroU32 {
        match NonZeroU32::new(8) {
            Some(eight) => eight,
            None => NonZeroU32::MIN,
        }
    }

    const fn default_lease_term() -> Duration {
        Duration::from_secs(30)
    }

    /// The URL of the database.
    pub(crate) fn check(
        &self,
        environment: &dyn Environment,
        folder: impl Fn(&KeyPath) -> PathBuf,
        at: &KeyPath,
    ) -> Result<Secret, Vec<Fault>> {
        let mut faults = Vec::new();
        if self.lease_term.get() < Self::MIN_LEASE_TERM {
            faults.push(at.key("lease_term").fault(format!(
                "{} is too short: at least 5s, because gateways renew their leases once a second",
                self.lease_term
            )));
        }
        if !self.tls && self.ca.is_some() {
            let ca = at.key("ca");
            faults.push(ca.fault("without TLS no certificate is checked: leave it out".to_owned()));
        }
        let url = at.key("url");
        let found = self.url.resolve(environment, &folder(&url));
        match found {
            Ok(url) if faults.is_empty() => Ok(url),
            Ok(_) => Err(faults),
            Err(cause) => {
                faults.push(url.fault(cause.to_string()));
                Err(faults)
            }
        }
    }
}
