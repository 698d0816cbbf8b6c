//! Runs a gateway: opens the store and the listeners, serves, and shuts down gracefully.
//!
//! Pingora runs on its own thread, so that this one can end the process after the last request. Pingora itself
//! would sleep for the whole grace period.

mod access_target;
mod connections;
mod grace_period;
mod handover;
mod listeners;
mod notify;
mod operator;
mod predecessor;
mod reload;
mod running;
mod services;
mod stop;
mod successor;
mod tokens;

pub use connections::fuzzing;
pub use predecessor::Predecessor;
pub use stop::Hangups;
pub use successor::{Program, ask_for_upgrade};

use crate::machine;
use crate::snapshot::{Current, Snapshot};
use crate::upstreams::Authorities;
use grace_period::Ends;
use listeners::{Certificates, Read, Sockets};
use once_cell::sync::OnceCell;
use operator::Operator;
use pingora_core::server::{RunArgs, Server};
use reload::{Material, Places, RESOLVE_LIMIT, Reloader};
use services::Services;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc;
use stop::{Sessions, Signals, Stopping, wait_for_the_end};
use successor::Succession;
use tokens::Tokens;
use tokio::sync::watch;
use tollgate_admin::{Api, Offer, Operations, Readiness};
use tollgate_config::{Config, Faults, ListenSettings, Sources, Started};
use tollgate_engine::accounts::Accounts;
use tollgate_engine::keys::{self, OpenError};
use tollgate_telemetry::access_log;
use tollgate_telemetry::events;
use tollgate_traces::{Exporter, Traces};

/// Why a gateway cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is at fault.
    #[error("{0}")]
    Config(#[from] Faults),
    /// The key store cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        cause: io::Error,
    },
    /// The running gateway does not hand over.
    #[error("the running gateway does not hand over: {0}")]
    Predecessor(io::Error),
    /// This process is fenced in the ledger.
    #[error("this process is fenced in the ledger (the log says why): start it again")]
    Fenced,
    /// The system gives no thread or runtime.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// How to load the configuration again. Notes the files that were read.
pub type Reload = Arc<dyn Fn(&mut Sources) -> Result<Config, Faults> + Send + Sync>;

/// How a gateway starts.
pub struct Start {
    /// The initial configuration.
    pub config: Config,
    /// How to load it again.
    pub reload: Reload,
    /// The process from which it takes over; `None`: it opens the listeners itself.
    pub predecessor: Option<Predecessor>,
    /// How to start its successor; `None`: it hands nothing over.
    pub program: Option<Program>,
}

impl Start {
    /// Serves until a signal ends it. Calls `announce` once it accepts requests.
    ///
    /// # Errors
    ///
    /// It cannot begin to serve. A predecessor gets the reason and continues.
    pub fn run(
        mut self,
        hangups: Hangups,
        announce: impl FnOnce() + Send + 'static,
    ) -> Result<(), RunError> {
        if let Some((before, now)) = machine::raise_open_files() {
            log::info!("the limit of open files was raised from {before} to {now}");
        }
        let (asked, most) = (
            self.config.server.limits.connections,
            machine::most_connections(),
        );
        if most < asked {
            log::warn!(
                "server.limits.connections is {asked}, but the limit of open files allows {most}: raise the limit (ulimit -n, LimitNOFILE)"
            );
        }
        let begun = self.begin(hangups);
        match begun {
            Ok(gateway) => gateway.serve(self, announce),
            Err(fault) => {
                if let Some(predecessor) = self.predecessor {
                    predecessor.fail(&fault.to_string());
                }
                Err(fault)
            }
        }
    }

    /// Builds everything without serving yet.
    fn begin(&mut self, hangups: Hangups) -> Result<Assembled, RunError> {
        let config = &self.config;
        reload::check_models(config)?;
        let (runtime, signals) = hangups.and_others()?;
        let (access_log, writer) = access_target::open(&config.log)?;
        let (traces, exporter) = match &config.traces {
            Some(target) => {
                Traces::to(target).map(|(traces, exporter)| (traces, Some(exporter)))?
            }
            None => (Traces::off(), None),
        };
        let (admin, sockets) = take_sockets(config, self.predecessor.as_mut())?;
        let material = Material::of(config)?;
        let certificates = Arc::new(Certificates::with(&material.certificates));
        // Last, after everything that can fail: a newer version migrates an older ledger, with which the old
        // version could not start again.
        Snapshot::check(config, &material.authorities)?;
        let accounts = Arc::new(Accounts::open(config)?);
        keys::check_plans(config, accounts.store())?;
        let snapshot = Snapshot::build(config, &material.authorities, &accounts, None)?;
        events::watch(&snapshot.fleet, snapshot.catalog.catalog());
        // The first request needs the addresses of providers.
        runtime.block_on(snapshot.upstreams.resolve(RESOLVE_LIMIT));
        let tokens = Tokens::new();
        if self.predecessor.is_some() {
            // The predecessor serves meanwhile. Without one, models that need no token are served.
            runtime.block_on(tokens.fetch_first(&snapshot.fleet));
        }
        let current = Arc::new(Current::from_pointee(snapshot));

        runtime.spawn(machine::watch_memory());
        let (cut, to_be_cut) = watch::channel(false);
        let (stop, ending) = watch::channel(None);
        let ends = Ends {
            cut: to_be_cut,
            ending,
            sessions: Sessions::default(),
        };
        let services = Services {
            sockets: &sockets,
            certificates: &certificates,
            current: &current,
            access_log: &access_log,
            traces: &traces,
            ends: &ends,
        };
        let server = services.server(&config.server)?;
        if let Some(predecessor) = &mut self.predecessor {
            predecessor.ready().map_err(RunError::Predecessor)?;
        }
        Ok(Assembled {
            runtime,
            signals,
            accounts,
            admin,
            sockets,
            material,
            certificates,
            current,
            tokens,
            server,
            cut,
            stop,
            ends,
            _writer: writer,
            _exporter: exporter,
        })
    }
}

/// A gateway that was built and does not serve yet.
struct Assembled {
    runtime: tokio::runtime::Runtime,
    signals: Signals,
    accounts: Arc<Accounts>,
    admin: TcpListener,
    sockets: Sockets,
    material: Material,
    certificates: Arc<Certificates>,
    current: Arc<Current>,
    tokens: Tokens,
    server: Server,
    cut: watch::Sender<bool>,
    stop: watch::Sender<stop::Ending>,
    ends: Ends,
    /// Writes the rest of the access log at the end of the process.
    _writer: Option<access_log::Writer>,
    /// Exports the last spans at the end of the process.
    _exporter: Option<Exporter>,
}

impl Assembled {
    /// A line for each address that is served.
    fn addresses(&self, config: &Config) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        for (place, settings) in config.server.listen.iter().enumerate() {
            let address = self.sockets.address(place)?;
            lines.push(shown(address, settings));
        }
        let operators = self.admin.local_addr()?;
        lines.push(format!("listening on http://{operators} for operators"));
        Ok(lines)
    }

    fn serve(self, start: Start, announce: impl FnOnce() + Send + 'static) -> Result<(), RunError> {
        let config = start.config;
        let settings = config.server.clone();
        let addresses = self.addresses(&config)?;
        let announce = move || {
            for line in addresses {
                log::info!("{line}");
            }
            announce();
        };
        let operations = Operations::new(Arc::clone(self.accounts.store()), Offer::of(&config));
        let api = Arc::new(Api::new(operations, &config));
        let places = Places {
            current: Arc::clone(&self.current),
            accounts: Arc::clone(&self.accounts),
            certificates: self.certificates,
            api: Arc::clone(&api),
            tokens: self.tokens.clone(),
            started: Started::with(&config),
        };
        let succession = match start.program {
            None => None,
            Some(program) => Some(Succession {
                program,
                socket: config.upgrade_socket(),
                timeout: settings.upgrade.timeout.get(),
                admin: (config.admin.listen.get(), self.admin.try_clone()?),
                callers: self.sockets,
                ledger: self.accounts.ledger().clone(),
                grace: settings.shutdown.grace.get(),
            }),
        };
        self.tokens.keep_fresh(Arc::clone(&self.current))?;
        let refused = Arc::new(OnceCell::new());
        let operator = Operator {
            current: self.current,
            accounts: Arc::clone(&self.accounts),
            reloader: Reloader::new(places, start.reload, config, self.material),
            readiness: Readiness::default(),
            api,
            accepting: self.server.watch_execution_phase(),
            predecessor: start.predecessor,
            succession,
            refused: Arc::clone(&refused),
            grace: settings.shutdown.grace.get(),
            idle: settings.upgrade.idle.get(),
            stop: self.stop,
        };
        std::thread::Builder::new()
            .name("operator".to_owned())
            .spawn(move || {
                self.runtime
                    .block_on(operator.serve(self.admin, self.signals, announce));
            })?;
        let (ended, end) = mpsc::channel();
        let shutdown_signal = Box::new(Stopping(self.ends.ending.clone()));
        std::thread::Builder::new()
            .name("pingora".to_owned())
            .spawn(move || {
                self.server.run(RunArgs { shutdown_signal });
                // The receiver may have ended for another reason.
                let _ = ended.send(());
            })?;
        let end = wait_for_the_end(&end, &self.ends.ending, &self.ends.sessions, &self.cut);
        self.accounts.close();
        end?;
        match refused.get() {
            Some(cause) => Err(RunError::Predecessor(io::Error::other(cause.clone()))),
            None if self.accounts.ledger().is_fenced() => Err(RunError::Fenced),
            None => Ok(()),
        }
    }
}

/// The URL of a listener.
fn shown(address: SocketAddr, settings: &ListenSettings) -> String {
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let http2 = if settings.http2 { " and HTTP/2" } else { "" };
    let proxied = match settings.proxy_protocol {
        true => ", behind the PROXY protocol",
        false => "",
    };
    format!("listening on {scheme}://{address} for callers (HTTP/1.1{http2}{proxied})")
}

/// The sockets of operators and of clients, one for each listener: those of the predecessor or of systemd, and new
/// ones for the other addresses.
fn take_sockets(
    config: &Config,
    predecessor: Option<&mut Predecessor>,
) -> Result<(TcpListener, Sockets), RunError> {
    let admin = config.admin.listen.get();
    let (inherited_admin, mut inherited) = match predecessor {
        Some(predecessor) => (
            predecessor.admin.take(),
            std::mem::take(&mut predecessor.callers),
        ),
        None => {
            let mut activated = Sockets::activated()?;
            (activated.remove(admin), activated)
        }
    };
    let admin = take_admin(admin, inherited_admin)?;
    let mut sockets = Sockets::default();
    for listen in &config.server.listen {
        sockets.take(listen.address.get(), &mut inherited)?;
    }
    for (address, _) in inherited.iter() {
        log::warn!(
            "a socket for {address} was passed to this process, and no listener has this address"
        );
    }
    Ok((admin, sockets))
}

/// The operator's socket: the inherited one if it listens on this address.
fn take_admin(
    address: SocketAddr,
    inherited: Option<(SocketAddr, TcpListener)>,
) -> Result<TcpListener, RunError> {
    if !address.ip().is_loopback() {
        log::warn!(
            "admin.listen is {address}, which is not a loopback address: metrics and the \
             admin token pass over it without TLS"
        );
    }
    let taken = match inherited {
        // A socket of systemd blocks.
        Some((known, listener)) if known == address => {
            listener.set_nonblocking(true).map(|()| listener)
        }
        _ => tollgate_admin::bind(address),
    };
    taken.map_err(|cause| RunError::Listen { address, cause })
}

/// Checks what only building a gateway can show, and serves nothing.
///
/// # Errors
///
/// All faults of the configuration, and that of an access log that cannot be opened, a line each.
pub fn check(config: &Config) -> Result<(), String> {
    let authorities = Authorities::read(config.catalog.providers());
    let faults = [
        reload::check_models(config).err().map(RunError::from),
        access_target::check(&config.log).err().map(RunError::from),
        Read::of(config).err().map(RunError::from),
        Snapshot::check(config, &authorities)
            .err()
            .map(RunError::from),
    ];
    let lines = faults.iter().flatten().map(RunError::to_string);
    let text = lines.collect::<Vec<_>>().join("\n");
    match text.is_empty() {
        true => Ok(()),
        false => Err(text),
    }
}
