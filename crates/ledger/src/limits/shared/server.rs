//! The address of the server, the connection to it, and its faults in one line. No message contains the
//! password.

use super::command::{Renewal, Script};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisError,
    ServerErrorKind, TlsCertificates, aio::MultiplexedConnection,
};
use rustls::crypto::ring;
use std::{path::Path, time::Duration};

const LIMITS: &str = include_str!("limits.lua");
/// The time limit for connecting, and for each of the first answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Commands on their way to the server at once.
pub(super) const MOST_PENDING: usize = 4096;

/// A Redis or Valkey server.
pub struct LimitServer {
    client: Client,
    address: String,
    is_encrypted: bool,
}

/// A fault of the server, for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {cause}")]
pub struct LimitServerError {
    address: String,
    cause: String,
}

impl LimitServer {
    /// Reads a URL `redis://USER:PASSWORD@HOST:PORT/NUMBER`, or `rediss://` for TLS. Certificate authorities:
    /// those of the PEM file, or of the system.
    ///
    /// # Errors
    /// The URL or the file cannot be read.
    pub fn new(url: &str, authorities: Option<&Path>) -> Result<Self, LimitServerError> {
        let is_encrypted = url.starts_with("rediss://");
        let is_url = is_encrypted || url.starts_with("redis://");
        // The error of the parser can contain a part of the password.
        let info = is_url.then(|| url.into_connection_info().ok()).flatten();
        let info = info.ok_or_else(|| LimitServerError {
            address: "limits.shared.url".to_owned(),
            cause:
                "expected redis://USER:PASSWORD@HOST:PORT/NUMBER, or rediss:// for TLS; special \
                    characters of the password are percent-encoded"
                    .to_owned(),
        })?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                format!("{host}:{port}")
            }
            _ => "limits.shared.url".to_owned(),
        };
        let fault = |cause: String| LimitServerError {
            address: address.clone(),
            cause,
        };
        let client = if is_encrypted {
            // The client uses the provider of the process; if there is one already, it is the same.
            let _ = ring::default_provider().install_default();
            let read = |path: &Path| {
                let read = std::fs::read(path);
                read.map_err(|it| fault(format!("{} cannot be read: {it}", path.display())))
            };
            let certificates = TlsCertificates {
                client_tls: None,
                root_cert: authorities.map(read).transpose()?,
            };
            Client::build_with_tls(info, certificates)
        } else {
            Client::open(info)
        };
        Ok(Self {
            client: client
                .map_err(|it| fault(format!("the URL or the authorities cannot be used: {it}")))?,
            address,
            is_encrypted,
        })
    }

    /// Host and port, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Checks whether limits can be shared through the server. Blocks for a few seconds at most.
    ///
    /// # Errors
    /// The fault of the server.
    pub fn check(&self) -> Result<(), LimitServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let checked = match runtime {
            Ok(runtime) => runtime.block_on(self.open("check")).map(|_| ()),
            Err(fault) => Err(fault.to_string()),
        };
        checked.map_err(|cause| LimitServerError {
            address: self.address.clone(),
            cause,
        })
    }

    /// Connects and loads the script. The error is a message for the operator.
    pub(super) async fn open(&self, node: &str) -> Result<(MultiplexedConnection, Script), String> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.try_open(node));
        match opened.await {
            Ok(opened) => opened.map_err(|fault| self.describe(&fault)),
            Err(_) => {
                let advice = match self.is_encrypted {
                    true => ": if the server does not support TLS, use redis://",
                    false => "",
                };
                let timeout = CONNECT_TIMEOUT.as_secs();
                Err(format!("no answer within {timeout} s{advice}"))
            }
        }
    }

    async fn try_open(&self, node: &str) -> Result<(MultiplexedConnection, Script), RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MOST_PENDING);
        let opening = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        let mut connection = opening.await?;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(LIMITS);
        let script = Script {
            sha: load.query_async(&mut connection).await?,
            node: node.to_owned(),
        };
        for trial in [1, 0].into_iter().flat_map(Renewal::trials) {
            let trial = trial.call(&script);
            trial.query_async::<Vec<i64>>(&mut connection).await?;
        }
        Ok((connection, script))
    }

    /// The fault, and what would be right.
    pub(super) fn describe(&self, fault: &RedisError) -> String {
        let words = fault.to_string().replace('\n', " ");
        if let Some(cause) = of_permission(fault, &words) {
            return cause;
        }
        if fault.is_cluster_error() {
            return format!(
                "the server is one of a cluster ({words}): name a server that has all keys"
            );
        }
        match fault.kind() {
            ErrorKind::Io if words.contains("certificate") => format!(
                "the certificate of the server is not trusted ({words}): name its authority with \
                 limits.shared.ca"
            ),
            ErrorKind::Io if words.contains("corrupt message") => format!(
                "the server does not support TLS ({words}): use redis:// on a network that is trusted"
            ),
            ErrorKind::Io if fault.is_connection_refusal() => {
                format!("the server cannot be reached ({words})")
            }
            ErrorKind::Io if fault.is_connection_dropped() && !self.is_encrypted => format!(
                "the server has closed the connection ({words}): if it expects TLS, use rediss://"
            ),
            ErrorKind::Parse => format!(
                "the answer is not of Redis or Valkey ({words}): correct limits.shared.url; if the server \
                 expects TLS, use rediss://"
            ),
            ErrorKind::Io => format!("the server cannot be reached ({words})"),
            _ => words,
        }
    }
}

/// The server refuses the user or a command of the user.
fn of_permission(fault: &RedisError, words: &str) -> Option<String> {
    if fault.kind() == ErrorKind::AuthenticationFailed
        || matches!(fault.code(), Some("WRONGPASS" | "NOAUTH"))
    {
        return Some(format!(
            "the server refuses the user or the password ({words}): correct limits.shared.url"
        ));
    }
    // Within a script, only the text shows it: "ACL failure in script", in Redis 7.0 "can't run this
    // command".
    let in_script = ["ACL failure in script", "The user executing the script"];
    if fault.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || in_script.iter().any(|text| words.contains(text))
    {
        return Some(format!(
            "the user lacks a permission ({words}): allow +evalsha +script|load +ping +select \
             +time +get +set for ~tollgate:limits:*"
        ));
    }
    if fault.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly) || words.contains("READONLY") {
        return Some("the server is a read-only replica: name the primary".to_owned());
    }
    None
}

impl std::fmt::Debug for LimitServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LimitServer").field(&self.address).finish()
    }
}
