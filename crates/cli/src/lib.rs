//! The commands that do not run a gateway: their arguments and their output. The edge has the others.

#![forbid(unsafe_code)]

#[cfg(not(feature = "demo"))]
pub mod absent;
mod check;
mod doctor;
mod explain;
mod http;
mod init;
mod keys;
mod ledger;
mod logs;
mod operator;
mod pages;
mod partial;
mod progress;
#[cfg(feature = "demo")]
mod sim;
mod status;
mod top;
mod usage;

#[cfg(not(feature = "demo"))]
use absent as sim;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use tollgate_config::Config;

/// A command that does not run a gateway.
#[derive(Subcommand)]
pub enum Command {
    /// Run a simulated provider.
    Sim(sim::Arguments),
    /// Write a configuration for providers with a ready file.
    Init(init::Arguments),
    /// Check a configuration file and what it needs on this machine; report every fault.
    Check(check::Arguments),
    /// Show the state of a running gateway: readiness, requests, providers, ledger, warnings. Exits
    /// with 1 if it is not ready.
    Status(status::Arguments),
    /// Show the same with the rates of models, each second until Ctrl-C.
    Top(top::Arguments),
    /// Check what a gateway needs on this machine, and print what to do: configuration, files,
    /// limits, clock, providers, ledger. Exits with 1 if a check fails.
    Doctor(doctor::Arguments),
    /// Predict what happens to a request and why, without sending it. The body is read from
    /// standard input.
    Explain(explain::Arguments),
    /// Print the JSON Schema of the configuration file, for editors.
    Schema,
    /// Show one request, from the ledger and from logs.
    Logs(logs::Arguments),
    /// Export the usage of keys.
    Usage(usage::Arguments),
    /// Create, list, change and revoke API keys.
    Keys(keys::Arguments),
    /// Verify, back up or repair the ledger, also while gateways run.
    Ledger(ledger::Arguments),
    /// Print a script that completes this command line in a shell.
    Completions(pages::Completions),
    /// Write manual pages, one for each command.
    Man(pages::Man),
}

/// The parts of the program that commands need.
pub struct Edge {
    /// The checks of a configuration that need the edge.
    pub check: fn(&Config) -> Outcome,
    /// How many connections of clients the limit on open files allows.
    pub connections: fn() -> u32,
    /// The definition of the whole command line.
    pub program: fn() -> clap::Command,
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The message for the terminal.
    pub fn run(&self, edge: &Edge) -> Outcome {
        match self {
            Self::Sim(arguments) => sim::run(arguments),
            Self::Init(arguments) => init::run(arguments),
            Self::Check(arguments) => check::run(arguments, edge),
            Self::Status(arguments) => status::run(arguments),
            Self::Top(arguments) => top::run(arguments),
            Self::Doctor(arguments) => doctor::run(arguments, edge),
            Self::Explain(arguments) => explain::run(arguments),
            Self::Schema => print(tollgate_config::schema_text()),
            Self::Keys(arguments) => keys::run(arguments),
            Self::Logs(arguments) => logs::run(arguments),
            Self::Usage(arguments) => usage::run(arguments),
            Self::Ledger(arguments) => ledger::run(arguments),
            Self::Completions(arguments) => pages::completions(arguments, edge),
            Self::Man(arguments) => pages::man(arguments, edge),
        }
    }
}

/// Why a command ends before it has printed everything.
pub enum Failure {
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

/// The result of a command.
pub type Outcome = Result<(), Failure>;

/// Prints to the standard output. `print!` would panic if the reader of a pipe has left.
///
/// # Errors
///
/// Nothing reads it any more, or it cannot be written.
pub fn print(text: impl Display) -> Outcome {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderLeft),
        Err(fault) => Err(format!("the output cannot be written: {fault}").into()),
    }
}

/// The same with a line break.
///
/// # Errors
///
/// As [`print`].
pub fn print_line(text: impl Display) -> Outcome {
    print(format_args!("{text}\n"))
}

/// Prints a line to the standard error, whether anything reads it or not.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The path of a configuration file.
fn named(path: OsString) -> Result<PathBuf, &'static str> {
    match path.is_empty() {
        true => Err("--config or TOLLGATE_CONFIG is empty: name a file"),
        false => Ok(path.into()),
    }
}

/// Where a command finds its configuration; the same for all commands that need one.
#[derive(Args)]
pub struct ConfigFile {
    /// The configuration file.
    #[arg(
        id = "config",
        long = "config",
        value_name = "FILE",
        env = "TOLLGATE_CONFIG",
        default_value = "tollgate.yaml",
        value_parser = OsStringValueParser::new().try_map(named),
        global = true
    )]
    pub path: PathBuf,
}
