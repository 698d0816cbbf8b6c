//! Where a database is, and how to connect to it.

use super::error;
use crate::store::StoreError;
use parking_lot::Mutex;
use postgres::{
    Client, Config, Error,
    config::{Host, SslMode, TargetSessionAttrs},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a connection may take to open, for each address of the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged: a server whose machine is gone ends a statement.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(15);

/// The shortest and the longest pause after an attempt to connect that failed.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSE: Duration = Duration::from_secs(1);

/// How a connection to PostgreSQL is protected. A Unix socket needs no protection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerTls {
    /// By TLS; the certificate must be signed by an authority that the system trusts.
    #[default]
    System,
    /// By TLS; the certificate must be signed by an authority of this PEM file.
    Authorities(PathBuf),
    /// Not at all: for a network that is trusted.
    Off,
}

/// A database on a PostgreSQL server. It shows its password to nothing.
pub struct Server {
    config: Config,
    tls: MakeRustlsConnect,
    place: PathBuf,
    /// The last attempt to connect, if it failed.
    failed: Mutex<Option<Failed>>,
}

/// An attempt to connect that failed. The next one has to wait, so that the gateways do not hinder a server
/// that starts or has no connection left.
struct Failed {
    at: Instant,
    cause: String,
    pause: Duration,
    next_at: Instant,
}

impl Server {
    /// Reads a URL `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, and the authorities for TLS.
    ///
    /// # Errors
    /// The URL cannot be read, or the file with the authorities.
    pub fn new(url: &str, tls: &ServerTls) -> Result<Self, StoreError> {
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        // What the parser reports may be a part of the password.
        let config = url.parse::<Config>().ok().filter(|config| {
            let plain = |name: &String| !name.is_empty() && !name.contains(['@', '/', '?']);
            let hosts = config.get_hosts();
            let are_plain = |host: &Host| !matches!(host, Host::Tcp(name) if !plain(name));
            is_url && !hosts.is_empty() && hosts.iter().all(are_plain)
        });
        let mut config = config.ok_or(StoreError::DatabaseUrl)?;
        let place = PathBuf::from(place(&config));
        let is_local = |host: &Host| matches!(host, Host::Unix(_));
        let is_off = *tls == ServerTls::Off || config.get_hosts().iter().all(is_local);
        config.ssl_mode(if is_off {
            SslMode::Disable
        } else {
            SslMode::Require
        });
        config.connect_timeout(CONNECT_TIMEOUT);
        config.tcp_user_timeout(NETWORK_TIMEOUT);
        config.keepalives_idle(NETWORK_TIMEOUT);
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("tollgate");
        }
        Ok(Self {
            tls: MakeRustlsConnect::new(client_config(tls, is_off)?),
            config,
            place,
            failed: Mutex::default(),
        })
    }

    /// Host, port and name of the database, for people.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default()
    }

    /// Whether it is time for another attempt to connect. After a failure, only one caller at a time may try,
    /// and after a pause.
    ///
    /// # Errors
    /// It is too early. The error is that of the last attempt.
    pub(super) fn may_connect(&self) -> Result<(), StoreError> {
        let mut failed = self.failed.lock();
        let Some(failed) = &mut *failed else {
            return Ok(());
        };
        let now = Instant::now();
        if now < failed.next_at {
            return Err(StoreError::Other {
                path: self.place.clone(),
                cause: failed.cause.clone(),
            });
        }
        failed.next_at = now.checked_add(CONNECT_TIMEOUT).unwrap_or(now);
        Ok(())
    }

    pub(super) fn connect(&self) -> Result<Client, Error> {
        self.connect_with(&self.config)
    }

    fn connect_with(&self, config: &Config) -> Result<Client, Error> {
        let begun = Instant::now();
        let connected = config.connect(self.tls.clone());
        let mut failed = self.failed.lock();
        match &connected {
            Ok(_) => *failed = None,
            // Connections that are lost together fail together.
            Err(_) if failed.as_ref().is_some_and(|it| it.at > begun) => {}
            Err(fault) => {
                let pause = failed
                    .as_ref()
                    .map_or(LEAST_PAUSE, |it| it.pause.saturating_mul(2));
                let pause = pause.min(MOST_PAUSE);
                let at = Instant::now();
                // Gateways that failed together try at different times.
                let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                *failed = Some(Failed {
                    at,
                    cause: match self.describe(fault) {
                        StoreError::Other { cause, .. } => cause,
                        other => other.to_string(),
                    },
                    pause,
                    next_at: at.checked_add(jittered).unwrap_or(at),
                });
            }
        }
        connected
    }

    /// Connects with an application name of its own, which identifies the session in `pg_stat_activity`.
    pub(super) fn connect_as(&self, name: &str) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.application_name(name);
        self.connect_with(&config)
    }

    pub(super) fn describe(&self, fault: &Error) -> StoreError {
        error::describe(fault, self)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.place).finish()
    }
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(place, host)| {
        let port = ports.get(place).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user());
    format!("{}/{}", hosts.join(","), database.unwrap_or_default())
}

fn client_config(tls: &ServerTls, is_off: bool) -> Result<ClientConfig, StoreError> {
    let mut roots = RootCertStore::empty();
    match tls {
        _ if is_off => {}
        ServerTls::Off => {}
        ServerTls::System => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.unwrap_or_default());
        }
        ServerTls::Authorities(path) => {
            let fault = |cause: String| StoreError::CannotOpen {
                path: path.clone(),
                cause,
            };
            let all = CertificateDer::pem_file_iter(path).map_err(|it| fault(it.to_string()))?;
            for certificate in all {
                let certificate = certificate.map_err(|it| fault(it.to_string()))?;
                roots.add(certificate).map_err(|it| fault(it.to_string()))?;
            }
            if roots.is_empty() {
                return Err(fault("it has no certificate".to_owned()));
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| StoreError::Other {
            path: PathBuf::from("TLS"),
            cause: cause.to_string(),
        })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
