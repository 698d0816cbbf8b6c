//! How several gateways share the limits of keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tollgate_settings::{Duration, Environment, Fault, KeyPath, Secret, SecretSource};

/// How several gateways on one database share the limits of keys. Default: they lease shares of each limit
/// through PostgreSQL, by demand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyLimitSettings {
    /// Whether each gateway applies the whole of each limit, whatever the others do.
    pub per_node: bool,
    /// A Redis (7 or newer) or Valkey server through which all gateways count against the same limits.
    pub shared: Option<SharedLimitSettings>,
}

/// A server through which gateways share limits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedLimitSettings {
    /// `redis://USER:PASSWORD@HOST:PORT/NUMBER`, or `rediss://` for TLS with a certificate for the name of
    /// the host.
    pub url: SecretSource,
    /// A PEM file with the authorities that may sign the certificate of the server. Default: those of
    /// the system.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// How long a request waits for the server, from 5 ms to 1 s. After that the gateway applies its leased
    /// share until the server answers again.
    #[serde(default = "SharedLimitSettings::default_timeout")]
    pub timeout: Duration,
}

impl KeyLimitSettings {
    /// With paths from the folders of the files that say them.
    pub(crate) fn with_paths_from(self, folder: impl Fn(&KeyPath) -> PathBuf) -> Self {
        let shared = self.shared.map(|server| {
            let from = folder(&section().key("shared").key("ca"));
            SharedLimitSettings {
                ca: server.ca.map(|ca| from.join(ca)),
                ..server
            }
        });
        Self { shared, ..self }
    }

    /// The URL of the server, if there is one.
    pub(crate) fn check(
        &self,
        environment: &dyn Environment,
        folder: impl Fn(&KeyPath) -> PathBuf,
    ) -> Result<Option<Secret>, Vec<Fault>> {
        let Some(shared) = &self.shared else {
            return Ok(None);
        };
        if self.per_node {
            let fault = "leave out one of the two: with per_node the gateways share nothing";
            return Err(vec![section().key("per_node").fault(fault)]);
        }
        shared
            .check(environment, folder, &section().key("shared"))
            .map(Some)
    }
}

fn section() -> KeyPath {
    KeyPath::root().key("limits")
}

impl SharedLimitSettings {
    const TIMEOUTS: [std::time::Duration; 2] = [
        std::time::Duration::from_millis(5),
        std::time::Duration::from_secs(1),
    ];

    const fn default_timeout() -> Duration {
        Duration::from_millis(50)
    }

    fn check(
        &self,
        environment: &dyn Environment,
        folder: impl Fn(&KeyPath) -> PathBuf,
        at: &KeyPath,
    ) -> Result<Secret, Vec<Fault>> {
        let mut faults = Vec::new();
        let [least, most] = Self::TIMEOUTS;
        if !(least..=most).contains(&self.timeout.get()) {
            let path = at.key("timeout");
            faults.push(path.fault(format!("{} is out of range: from 5ms to 1s", self.timeout)));
        }
        let path = at.key("url");
        let url = match self.url.resolve(environment, &folder(&path)) {
            Ok(url) => url,
            Err(cause) => {
                faults.push(path.fault(cause.to_string()));
                return Err(faults);
            }
        };
        if self.ca.is_some() && !url.expose().starts_with("rediss://") {
            let ca = at.key("ca");
            faults
                .push(ca.fault("without TLS (rediss://) no certificate is checked: leave it out"));
        }
        if faults.is_empty() {
            Ok(url)
        } else {
            Err(faults)
        }
    }
}
