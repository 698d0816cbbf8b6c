//! Runs a gateway: opens the store, takes the addresses, serves, and ends in good order.
//!
//! Pingora runs on a thread of its own, so that this one can end the program as soon as the
//! last request has ended: Pingora itself would sleep through the whole grace period.

mod cut;
mod operator;
mod started;
mod stop;

use crate::access_log::{self, AccessLog};
use crate::accounts::Accounts;
use crate::admin::{self, Api, Offer, Operations, Readiness};
use crate::config::{self, AccessLog as AccessLogTarget, Config, Faults, ListenSettings};
use crate::gateway::Gateway;
use crate::snapshot::{Current, Snapshot};
use cut::Cuttable;
use operator::Operator;
use pingora_core::apps::HttpServerOptions;
use pingora_core::listeners::ListenerConfig;
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora_core::protocols::l4::stream::L4BufferSettings;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server};
use pingora_core::services::listening::Service;
use pingora_proxy::HttpProxy;
use started::Started;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc;
use stop::{EndSignals, Stopping, wait_for_the_end};
use tokio::sync::watch;
use tollgate_ledger::StoreError;

/// Why a gateway cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is at fault.
    #[error("{0}")]
    Config(#[from] Faults),
    /// The key store cannot be used.
    #[error("the key store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// A file that is read while it is written is empty for a moment.
    #[error("the configuration serves no model")]
    NoModel,
    /// The pepper is empty.
    #[error("keys.pepper is empty: API keys would be hashed without a secret")]
    Pepper,
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// A certificate cannot be used.
    #[error("the certificate {certificate} with the key {key} cannot be used: {cause}")]
    Certificate {
        /// The file of the certificate.
        certificate: String,
        /// The file of the key.
        key: String,
        /// What is wrong with them.
        cause: String,
    },
    /// The system gives no thread or runtime.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// How to load the configuration again.
pub type Reload = Box<dyn Fn() -> Result<Config, Faults> + Send>;

/// Serves until a signal says to end. `announce` is called once requests are taken.
///
/// # Errors
///
/// When it cannot begin to serve.
pub fn run(
    config: &Config,
    reload: Reload,
    announce: impl FnOnce() + Send + 'static,
) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let end_signals = {
        let _guard = runtime.enter();
        EndSignals::take()?
    };
    let (access_log, _writer) = access_log(config.log.access)?;
    let accounts = Arc::new(Accounts::open(config)?);
    let settings = config.server.clone();
    let admin_address = config.admin.listen.get();
    let admin_listener = admin::bind(admin_address).map_err(|cause| RunError::Listen {
        address: admin_address,
        cause,
    })?;
    if !admin_address.ip().is_loopback() {
        log::warn!(
            "admin.listen is {admin_address}, which is not a loopback address: metrics and the \
             admin token pass over it without TLS"
        );
    }
    let operations = Operations::new(Arc::clone(accounts.store()), Offer::of(config));
    let snapshot = Snapshot::build(config, Some(&accounts))?;
    let current = Arc::new(Current::from_pointee(snapshot));

    let (cut, to_be_cut) = watch::channel(false);
    let mut server = Server::new_with_opt_and_conf(None, server_conf(&settings));
    server.bootstrap();
    let proxy = |conf: &Arc<ServerConf>, http2| {
        let gateway = Gateway::new(Arc::clone(&current), access_log.clone());
        let mut proxy = HttpProxy::new(gateway, Arc::clone(conf));
        proxy.handle_init_modules();
        let mut options = HttpServerOptions::default();
        options.h2c = http2;
        options.h2_idle_timeout = Some(current.load().limits.keepalive);
        proxy.server_options = Some(options);
        proxy.h2_options = Some(http2_options());
        Cuttable::new(proxy, to_be_cut.clone())
    };
    add_services(&mut server, &settings.listen, proxy)?;

    let (stop, stopping) = watch::channel(None);
    let operator = Operator {
        current,
        accounts: Arc::clone(&accounts),
        reload,
        readiness: Readiness::default(),
        api: Arc::new(Api::new(operations, config.admin_token.clone())),
        addresses: settings.listen.iter().map(|it| it.address.get()).collect(),
        grace: settings.shutdown.grace.get(),
        stop,
        started: Started::with(config),
    };
    std::thread::Builder::new()
        .name("operator".to_owned())
        .spawn(move || runtime.block_on(operator.serve(admin_listener, end_signals, announce)))?;
    let (ended, end) = mpsc::channel();
    let shutdown_signal = Box::new(Stopping(stopping.clone()));
    std::thread::Builder::new()
        .name("pingora".to_owned())
        .spawn(move || {
            server.run(RunArgs { shutdown_signal });
            // Whoever waits for the end may have seen another one already.
            let _ = ended.send(());
        })?;
    let end = wait_for_the_end(&end, &stopping, &cut);
    accounts.close();
    Ok(end?)
}

/// Checks what only shows when a gateway is put together, and serves nothing.
///
/// # Errors
///
/// What is wrong with the configuration, but not what the machine lacks.
pub fn check(config: &Config) -> Result<(), RunError> {
    for listen in &config.server.listen {
        if let Some(tls) = &listen.tls {
            tls_settings(tls, listen.http2)?;
        }
    }
    Snapshot::build(config, None)?;
    Ok(())
}

/// Pingora's 64 KiB read buffer is cleared for each connection and half of what an open
/// stream holds, and saves no read: heads and bodies are read into buffers of their own.
const CALLER_BUFFER: L4BufferSettings = L4BufferSettings {
    read: Some(4 * 1024),
    write: None,
};

fn access_log(target: AccessLogTarget) -> io::Result<(AccessLog, Option<access_log::Writer>)> {
    let (log, writer) = match target {
        AccessLogTarget::None => return Ok((AccessLog::off(), None)),
        AccessLogTarget::Stdout => AccessLog::to(io::stdout())?,
        AccessLogTarget::Stderr => AccessLog::to(io::stderr())?,
    };
    Ok((log, Some(writer)))
}

fn server_conf(settings: &config::ServerSettings) -> ServerConf {
    let threads = settings.threads.map(usize::from);
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    ServerConf {
        threads: threads.unwrap_or_else(cores),
        upstream_keepalive_pool_size: usize::try_from(settings.upstream_keepalive_pool)
            .unwrap_or(usize::MAX),
        max_retries: Gateway::MOST_ATTEMPTS,
        // This program ends by itself before: what was cut is told then.
        grace_period_seconds: Some(settings.shutdown.grace.get().as_secs().saturating_add(5)),
        graceful_shutdown_timeout_seconds: Some(1),
        ..ServerConf::default()
    }
}

/// One service for listeners with HTTP/2 and one for those without: what is served over
/// cleartext is an option of the service.
fn add_services(
    server: &mut Server,
    listeners: &[ListenSettings],
    proxy: impl Fn(&Arc<ServerConf>, bool) -> Cuttable,
) -> Result<(), RunError> {
    for http2 in [true, false] {
        let listeners: Vec<_> = listeners.iter().filter(|it| it.http2 == http2).collect();
        if listeners.is_empty() {
            continue;
        }
        let name = match http2 {
            true => "gateway",
            false => "gateway (HTTP/1.1)",
        };
        let proxy = proxy(&server.configuration, http2);
        let mut service = Service::new(name.to_owned(), proxy);
        for listen in listeners {
            let address = listen.address.get();
            // Pingora would panic on a thread of its own.
            TcpListener::bind(address).map_err(|cause| RunError::Listen { address, cause })?;
            match &listen.tls {
                None => service.add_listener(
                    ListenerConfig::tcp(address.to_string()).l4_buffer(CALLER_BUFFER),
                ),
                Some(tls) => {
                    let tls = tls_settings(tls, http2)?;
                    service.add_tls_with_settings(&address.to_string(), None, tls);
                }
            }
        }
        server.add_service(service);
    }
    Ok(())
}

/// Pingora's bounds, and windows that let a body of megabytes in without a round trip for
/// each 64 KiB of it, which a caller across an ocean would wait for.
fn http2_options() -> H2Options {
    const STREAM_WINDOW: u32 = 1024 * 1024;
    const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
    let mut options = default_h2_options();
    options.initial_window_size(STREAM_WINDOW);
    options.initial_connection_window_size(CONNECTION_WINDOW);
    options
}

fn tls_settings(tls: &config::TlsSettings, http2: bool) -> Result<TlsSettings, RunError> {
    let (certificate, key) = (
        tls.certificate.display().to_string(),
        tls.key.display().to_string(),
    );
    let fault = |cause: String| RunError::Certificate {
        certificate: certificate.clone(),
        key: key.clone(),
        cause,
    };
    check_certificate(&certificate, &key).map_err(fault)?;
    let mut settings =
        TlsSettings::intermediate(&certificate, &key).map_err(|cause| fault(cause.to_string()))?;
    if http2 {
        settings.enable_h2();
    }
    Ok(settings)
}

/// Reads a certificate and its key and puts them together, which Pingora does only when it
/// serves, and panics where it cannot.
fn check_certificate(certificate: &str, key: &str) -> Result<(), String> {
    use pingora_core::tls;

    tls::install_default_crypto_provider();
    let (chain, key) = tls::load_certs_and_key_files(certificate, key)
        .map_err(|cause| cause.to_string())?
        .ok_or("there is no certificate or no key in them")?;
    tls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|cause| cause.to_string())?;
    Ok(())
}
