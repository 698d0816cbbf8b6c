//! The command line: what each command takes, and what it prints.

mod bounded_log;
mod check;
mod demo;
mod explain;
mod http;
mod keys;
mod ledger;
mod serve;
mod sim;

use crate::{config, machine};
use bounded_log::Bounded;
use clap::{Args, Parser, Subcommand};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// An edge gateway to language models: one key, one address, every model.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve callers by a configuration file.
    Serve(serve::Arguments),
    /// Have the gateway that runs replaced by this program, without a request noticing.
    Upgrade(serve::UpgradeArguments),
    /// Serve the whole catalog from a simulated provider, and print a key that works.
    Demo(demo::Arguments),
    /// Be a simulated provider.
    Sim(sim::Arguments),
    /// Check a configuration file, and what it needs on this machine; report every fault.
    Check(check::Arguments),
    /// Report what would happen to a request and why, without sending it. The body of the request
    /// is read from standard input.
    Explain(explain::Arguments),
    /// Print the JSON Schema of the configuration file, for editors.
    Schema,
    /// Make, list and revoke API keys.
    Keys(keys::Arguments),
    /// Verify or back up the ledger, also while gateways run.
    Ledger(ledger::Arguments),
}

/// Runs the program.
pub fn main() -> ExitCode {
    machine::keep_private();
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Upgrade(arguments) => serve::upgrade(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Schema => print(config::schema_text()),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Ledger(arguments) => ledger::run(&arguments),
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

/// Why a command ends before it has printed everything.
enum Failure {
    /// It failed, in the words that the person at the keyboard reads.
    Fault(String),
    /// Nothing reads its standard output any more.
    ReaderLeft,
}

impl<E: Display> From<E> for Failure {
    fn from(cause: E) -> Self {
        Self::Fault(cause.to_string())
    }
}

type Outcome = Result<(), Failure>;

/// Prints to the standard output. `print!` would panic if the reader of a pipe has left.
fn print(text: impl Display) -> Outcome {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderLeft),
        Err(fault) => Err(format!("the output cannot be written: {fault}").into()),
    }
}

/// The same with a line break.
fn print_line(text: impl Display) -> Outcome {
    print(format_args!("{text}\n"))
}

/// Prints a line to the standard error, whether anything reads it or not.
fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Where a command finds its configuration; the same for all commands that need one.
#[derive(Args)]
struct ConfigFile {
    /// The configuration file.
    #[arg(
        id = "config",
        long = "config",
        value_name = "FILE",
        env = "TOLLGATE_CONFIG",
        default_value = "tollgate.yaml",
        global = true
    )]
    path: PathBuf,
}

/// Sends diagnostics to standard error, at `level` unless `RUST_LOG` says otherwise.
fn init_log(level: config::LogLevel) {
    let log = env_logger::Builder::new()
        .format_timestamp_millis()
        .filter_level(match level {
            config::LogLevel::Error => log::LevelFilter::Error,
            config::LogLevel::Warn => log::LevelFilter::Warn,
            config::LogLevel::Info => log::LevelFilter::Info,
        })
        // Pingora tells each connection's ups and downs; what matters of them is told by us.
        .filter_module("pingora", log::LevelFilter::Error)
        .filter_module("pingora_core", log::LevelFilter::Error)
        .filter_module("pingora_proxy", log::LevelFilter::Error)
        .parse_default_env()
        .build();
    // What is counted is counted however little is told.
    let most = log.filter().max(log::LevelFilter::Error);
    if log::set_boxed_logger(Box::new(Bounded::new(log))).is_ok() {
        log::set_max_level(most);
    }
}
