//! The command line of the program: the commands that run a gateway. The others are in `tollgate_cli`.

mod bounded_log;
#[cfg(feature = "demo")]
mod demo;
mod serve;

use crate::{machine, server};
use bounded_log::Bounded;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
#[cfg(not(feature = "demo"))]
use tollgate_cli::absent as demo;
use tollgate_cli::{Edge, Failure, note};
use tollgate_config::LogLevel;
use tollgate_filter::FilterKind;

/// An edge gateway for language models: one key, one address, every model.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clients with a configuration file.
    Serve(serve::Arguments),
    /// Replace the running gateway with this program, without failing a request.
    Upgrade(serve::UpgradeArguments),
    /// Serve the whole catalog from a simulated provider, and print a key.
    Demo(demo::Arguments),
    #[command(flatten)]
    Other(tollgate_cli::Command),
}

/// What the other commands need of the edge.
const EDGE: Edge = Edge {
    check: |config| Ok(server::check(config)?),
    connections: || {
        machine::raise_open_files();
        machine::most_connections()
    },
    program: Arguments::command,
};

/// Runs the program. Configurations can name these kinds of filters beside the built-in ones
/// (`examples/own-filter`).
pub fn run(kinds: &'static [FilterKind]) -> ExitCode {
    machine::keep_private();
    if let Err(fault) = tollgate_filters::register(kinds) {
        note(fault);
        return ExitCode::FAILURE;
    }
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Upgrade(arguments) => serve::upgrade(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Other(command) => command.run(&EDGE),
    };
    match outcome {
        // The reader of a pipe (`tollgate schema | head`) has all that it needs.
        Ok(()) | Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(Failure::Fault(text)) => {
            note(text);
            ExitCode::FAILURE
        }
    }
}

/// Sends diagnostics to standard error, at `level` unless `RUST_LOG` says otherwise.
fn init_log(level: LogLevel) {
    let log = env_logger::Builder::new()
        .format_timestamp_millis()
        .filter_level(match level {
            LogLevel::Error => log::LevelFilter::Error,
            LogLevel::Warn => log::LevelFilter::Warn,
            LogLevel::Info => log::LevelFilter::Info,
        })
        // Pingora logs each connection's faults; the gateway logs those that matter.
        .filter_module("pingora", log::LevelFilter::Error)
        .filter_module("pingora_core", log::LevelFilter::Error)
        .filter_module("pingora_proxy", log::LevelFilter::Error)
        .parse_default_env()
        .build();
    // Lines are counted at every level of the log.
    let most = log.filter().max(log::LevelFilter::Error);
    if log::set_boxed_logger(Box::new(Bounded::new(log))).is_ok() {
        log::set_max_level(most);
    }
}
