//! Where a command finds the operator port of a running gateway, and with which token.

use super::{ConfigFile, Failure, http};
use ::http::uri::Authority;
use clap::Args;
use hyper::StatusCode;
use serde::de::DeserializeOwned;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use tollgate_config::{Answering, Config, Faults, Loader};
use tollgate_settings::Environment;

/// The operator port of a gateway, as a command takes it.
#[derive(Args)]
pub(super) struct OperatorPort {
    /// The operator port of the gateway, such as `http://127.0.0.1:9080`; the token comes from
    /// TOLLGATE_ADMIN_TOKEN. Default: `admin.listen` of the configuration, with its token unless the
    /// variable is set.
    #[arg(long, value_name = "URL")]
    at: Option<String>,
    /// The admin token.
    #[arg(
        long,
        env = "TOLLGATE_ADMIN_TOKEN",
        hide_env_values = true,
        hide = true
    )]
    token: Option<String>,
}

impl OperatorPort {
    /// Finds the port. No configuration is read if the address is given.
    ///
    /// # Errors
    ///
    /// The address is none, or the configuration has faults.
    pub(super) fn find(&self, config: &ConfigFile) -> Result<Operator, Failure> {
        // A variable that is set to nothing is not set.
        let token = self.token.clone().filter(|it| !it.is_empty());
        if let Some(address) = &self.at {
            let authority = authority(address)?.to_owned();
            return Ok(Operator { authority, token });
        }
        let config = load_without_secrets(&config.path)
            .map_err(|faults| format!("{faults}\nor name the gateway with --at URL"))?;
        let mut operator = Operator::of(&config);
        operator.token = token.or(operator.token);
        Ok(operator)
    }
}

/// The host and port of an address of the operator port.
///
/// # Errors
///
/// The address has another scheme, or more than a host and a port.
pub(super) fn authority(address: &str) -> Result<&str, Failure> {
    match address.split_once("://") {
        Some((scheme, authority)) if scheme.eq_ignore_ascii_case("http") => {
            let authority = authority.trim_end_matches('/');
            let is_plain = authority.parse::<Authority>().is_ok() && !authority.contains('@');
            is_plain.then_some(authority).ok_or_else(|| {
                "expected only the host and port of the operator port, such as \
                 http://127.0.0.1:9080"
                    .into()
            })
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
            Err("the operator port has no TLS: give its address as http://".into())
        }
        _ => Err(
            format!("expected an address such as http://127.0.0.1:9080, not '{address}'").into(),
        ),
    }
}

/// The operator port of a gateway.
pub(super) struct Operator {
    pub(super) authority: String,
    pub(super) token: Option<String>,
}

impl Operator {
    /// That of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        let token = config.admin_token.as_ref().map(|token| token.expose());
        Self {
            authority: reachable(config.admin.listen.get()).to_string(),
            token: token.filter(|it| *it != UNSET).map(str::to_owned),
        }
    }

    /// The metrics of the gateway.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or is not a gateway and must not get the token.
    pub(super) async fn metrics(&self) -> Result<String, Failure> {
        let (found, page) = self.open_page("/metrics").await?;
        let is_gateway = page.lines().any(|line| line.starts_with("tollgate_"));
        match found.is_success() && is_gateway {
            true => Ok(page),
            false => Err(format!(
                "{} serves no metrics of Tollgate: give the address of a gateway's operator port",
                self.authority
            )
            .into()),
        }
    }

    /// A page that needs no token, with its status.
    ///
    /// # Errors
    ///
    /// The gateway cannot be reached.
    pub(super) async fn open_page(&self, target: &str) -> Result<(StatusCode, String), Failure> {
        let (status, body) = http::fetch(&self.authority, target, None).await?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// The answer of the admin API; `None` without a token.
    ///
    /// # Errors
    ///
    /// The gateway cannot be reached, or refuses the request.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        target: &str,
    ) -> Result<Option<T>, Failure> {
        let Some(token) = &self.token else {
            return Ok(None);
        };
        let page = http::get(&self.authority, target, token).await?;
        Ok(Some(serde_json::from_slice(&page)?))
    }
}

/// The address under which this machine reaches a listener.
fn reachable(mut listener: SocketAddr) -> SocketAddr {
    match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => listener.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => listener.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listener
}

/// The value of variables that are not set: long enough for every secret.
const UNSET: &str = "this variable is not set in the environment of the command";

/// Loads a configuration for a command that uses no secret: the variables of the service need not be
/// set in the shell of the operator.
///
/// # Errors
///
/// Every fault there is, apart from variables that are not set.
pub(super) fn load_without_secrets(path: &Path) -> Result<Config, Faults> {
    Loader::new(&WithoutSecrets).load(path)
}

/// The environment and the files of this process, with a value for every variable.
struct WithoutSecrets;

impl Environment for WithoutSecrets {
    fn variable(&self, name: &str) -> Option<String> {
        Answering.variable(name).or_else(|| Some(UNSET.to_owned()))
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        Answering.read_bytes(path, max_bytes)
    }
}
