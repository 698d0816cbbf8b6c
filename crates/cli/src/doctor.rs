//! `tollgate doctor`: looks at everything that a gateway needs on this machine and says what to do.
//!
//! It changes nothing, and sends providers no credential and no request that costs anything.

mod files;
mod machine;
mod network;
mod report;
mod store;

use super::check::obstacles;
use super::http::wait;
use super::operator::{Operator, load_without_secrets};
use super::{ConfigFile, Edge, Outcome};
use clap::Args;
use report::Report;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use tollgate_config::{Answering, Config, Loader, Sources};

/// The arguments of `doctor`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Connect to nothing but the gateway itself, and resolve no name.
    #[arg(long)]
    offline: bool,
    /// Print JSON instead of lines.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, edge: &Edge) -> Outcome {
    let mut report = Report::new(arguments.json);
    report.ok(
        "program",
        format!(
            "tollgate {} on {} {}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
    );
    machine::core_dumps(&mut report);
    let mut sources = Sources::default();
    let config = configuration(&arguments.config.path, &mut sources, edge, &mut report);
    files::modes(
        &sources,
        config.as_ref().map(|(config, _)| config),
        &mut report,
    );
    if let Some((config, has_secrets)) = &config {
        machine::open_files(config, edge, &mut report);
        store::check(config, *has_secrets, arguments.offline, &mut report);
        if !arguments.offline {
            store::limits(config, *has_secrets, &mut report);
        }
        credentials(config, &mut report);
        gateway(config, &mut report);
        if !arguments.offline {
            network::check(config.catalog.providers(), &mut report)?;
        }
    }
    report.end()
}

/// Loads the configuration; `false` beside it if variables are missing that have secrets.
fn configuration(
    path: &Path,
    sources: &mut Sources,
    edge: &Edge,
    report: &mut Report,
) -> Option<(Config, bool)> {
    const CHECK: &str = "configuration";
    let loaded = Loader::new(&Answering).load_noting(path, sources);
    let faults = match loaded {
        Ok(config) => {
            match (edge.check)(&config) {
                Err(super::Failure::Fault(fault)) => {
                    report.fail(CHECK, fault, "correct the file");
                }
                Ok(()) | Err(super::Failure::ReaderLeft) => {
                    let catalog = &config.catalog;
                    let (providers, models) = (catalog.providers().len(), catalog.all().count());
                    let path = path.display();
                    let message = format!("{path}: models {models}, providers {providers}");
                    report.ok(CHECK, message);
                }
            }
            return Some((config, true));
        }
        Err(faults) => faults,
    };
    for fault in faults.iter().map(ToString::to_string) {
        let advice = match fault.contains("environment variable") {
            true => "export it, also for the service (EnvironmentFile= of systemd)",
            false => "correct the file; tollgate check reports the same",
        };
        report.fail(CHECK, fault, advice);
    }
    let config = load_without_secrets(path).ok()?;
    Some((config, false))
}

/// Programs and files of credentials that are missing.
fn credentials(config: &Config, report: &mut Report) {
    for obstacle in obstacles(config) {
        let check = format!("provider {}", obstacle.provider);
        let message = obstacle.fault.to_string();
        match obstacle.is_lasting {
            true => report.fail(check, message, "install the program, or correct the file"),
            false => report.warn(
                check,
                message,
                "check the path and the program that writes the file",
            ),
        }
    }
}

/// Whether a gateway runs with this configuration, or could.
fn gateway(config: &Config, report: &mut Report) {
    const CHECK: &str = "gateway";
    let operator = Operator::of(config);
    match wait(operator.open_page("/readyz")) {
        Ok((status, _)) if status.is_success() => {
            return report.ok(
                CHECK,
                format!("runs and is ready at {}", operator.authority),
            );
        }
        Ok((_, page)) => {
            let message = format!("answers at {}: {}", operator.authority, page.trim());
            return report.warn(CHECK, message, "see its log, and tollgate status");
        }
        Err(_) => {}
    }
    let listeners = config.server.listen.iter().map(|it| it.address.get());
    let mut is_free = true;
    for address in listeners.chain([config.admin.listen.get()]) {
        if let Err((message, advice)) = bind(address) {
            is_free = false;
            report.fail(CHECK, message, advice);
        }
    }
    if is_free {
        let advice = "start it: tollgate serve";
        report.warn(CHECK, "does not run; its addresses are free", advice);
    }
}

/// Whether an address can be listened on; if not, the reason and what to do.
fn bind(address: SocketAddr) -> Result<(), (String, &'static str)> {
    let Err(fault) = TcpListener::bind(address) else {
        return Ok(());
    };
    let advice = match fault.kind() {
        ErrorKind::AddrInUse => "end the program that uses it, or choose another address",
        ErrorKind::PermissionDenied => {
            "choose a port from 1024 on, or give the service CAP_NET_BIND_SERVICE"
        }
        _ => "choose an address of this machine",
    };
    Err((format!("cannot listen on {address}: {fault}"), advice))
}
