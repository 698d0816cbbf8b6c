//! `tollgate serve` and `tollgate upgrade`: a gateway, and the one that takes over from it.

use super::init_log;
use crate::server::{self, Hangups, Predecessor, Program, Start};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_cli::{ConfigFile, Outcome, print_line};
use tollgate_config::{Answering, Loader, Sources};

/// What `serve` takes.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Take over the listeners of the gateway that runs with the same configuration.
    #[arg(
        long,
        value_name = "FROM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "socket",
        hide_possible_values = true
    )]
    upgrade: Option<From>,
    /// The Unix socket of the running gateway, if `server.upgrade.socket` or `store.path` has changed
    /// in the file.
    #[arg(long, value_name = "PATH", requires = "upgrade")]
    socket: Option<PathBuf>,
}

/// Where the gateway is found that runs.
#[derive(Clone, Copy, ValueEnum)]
enum From {
    /// Behind `server.upgrade.socket`.
    Socket,
    /// It has started this process and holds the other end of its standard input.
    Parent,
}

/// What `upgrade` takes.
#[derive(Args)]
pub(super) struct UpgradeArguments {
    #[command(flatten)]
    config: ConfigFile,
    /// The Unix socket of the running gateway, if `server.upgrade.socket` or `store.path` has changed
    /// in the file.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// How to find a gateway that runs by other settings than those of the file.
const ELSEWHERE: &str = "if server.upgrade.socket or store.path has changed, name the old socket with --socket, or send SIGQUIT to the running gateway";

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let hangups = Hangups::take()?;
    let parent = match arguments.upgrade {
        Some(From::Parent) => Some(Predecessor::at_standard_input()),
        Some(From::Socket) | None => None,
    };
    let config = match tollgate_config::load(&arguments.config.path) {
        Ok(config) => config,
        Err(faults) => {
            if let Some(Ok(parent)) = parent {
                parent.fail(&faults.to_string());
            }
            return Err(faults.into());
        }
    };
    init_log(config.log.level);
    let socket = arguments.socket.clone();
    let socket = socket.unwrap_or_else(|| config.upgrade_socket());
    let asked = match arguments.upgrade {
        Some(From::Socket) => Some(Predecessor::behind(&socket)),
        Some(From::Parent) | None => parent,
    };
    let predecessor = match asked {
        Some(asked) => predecessor(asked, &socket)?,
        None => None,
    };
    let file = arguments.config.path.clone();
    let start = Start {
        program: Some(program(&file)),
        reload: Arc::new(move |sources: &mut Sources| {
            Loader::new(&Answering).load_noting(&file, sources)
        }),
        config,
        predecessor,
    };
    start.run(hangups, || log::info!("serving"))?;
    log::info!("stopped");
    Ok(())
}

/// The process to take over from; `None` if it has died meanwhile, so that the addresses are free.
fn predecessor(
    asked: io::Result<Predecessor>,
    socket: &Path,
) -> Result<Option<Predecessor>, String> {
    match asked {
        Ok(predecessor) => Ok(Some(predecessor)),
        Err(fault) if has_died(&fault) && UnixStream::connect(socket).is_err() => {
            log::warn!("the old gateway has crashed: this one takes its place");
            Ok(None)
        }
        Err(fault) => {
            let socket = socket.display();
            Err(format!(
                "no gateway hands over at {socket}: {fault}; is it running with this configuration? ({ELSEWHERE})"
            ))
        }
    }
}

/// Whether the other end of a stream was there and is no more.
fn has_died(fault: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(fault.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// This program as it was started, for its successor: by its name and not by the running file, which
/// may have been replaced.
fn program(config: &Path) -> Program {
    let name = std::env::args_os().next();
    let name = name.unwrap_or_else(|| "tollgate".into());
    let file = match Path::new(&name).components().count() {
        // It was found in the PATH.
        0 | 1 => name,
        _ => std::path::absolute(&name).map_or(name, OsString::from),
    };
    Program {
        file,
        arguments: vec![
            "serve".into(),
            "--config".into(),
            config.into(),
            "--upgrade=parent".into(),
        ],
    }
}

/// Has the gateway that runs start this program anew and hand over to it.
pub(super) fn upgrade(arguments: &UpgradeArguments) -> Outcome {
    // Under a service manager this is a process of the service as well.
    let _hangups = Hangups::take()?;
    let config = tollgate_config::load(&arguments.config.path)?;
    let socket = arguments.socket.clone();
    let socket = socket.unwrap_or_else(|| config.upgrade_socket());
    let patience = config.server.upgrade.timeout.get();
    let pid =
        server::ask_for_upgrade(&socket, patience).map_err(|fault| unconfirmed(&fault, &socket))?;
    print_line(format_args!("process {pid} has taken over"))
}

/// The error of an upgrade that was not confirmed.
fn unconfirmed(fault: &io::Error, socket: &Path) -> String {
    let socket = socket.display();
    match fault.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no gateway hands over at {socket}: {fault}; is it running with this configuration? ({ELSEWHERE})"
        ),
        _ if has_died(fault) => format!(
            "the gateway at {socket} has ended, by another upgrade or for the reason in its log"
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "the gateway at {socket} did not report the result in time: the upgrade may still succeed or fail; see its log"
        ),
        _ => format!("the gateway at {socket} continues unchanged: {fault}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_an_unconfirmed_upgrade_claims_no_result() {
        let socket = Path::new("tollgate.db.upgrade.sock");
        // A stream that times out returns either.
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            let error = unconfirmed(&kind.into(), socket);
            assert!(error.contains("may still succeed or fail"), "{error}");
            assert!(!error.contains("continues"), "{error}");
        }
        let error = unconfirmed(&io::Error::other("an address is taken"), socket);
        assert!(
            error.ends_with("continues unchanged: an address is taken"),
            "{error}"
        );
    }
}
