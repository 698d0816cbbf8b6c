//! Compares the gateway with bare Pingora and other proxies, in one run on one machine.
//!
//! Run it with `make bench-load`; `docs/internals/performance.md` says what is measured and how to read
//! it. The exit status says whether everything could be measured, not whether it was fast.

#![forbid(unsafe_code)]

mod bare;
mod client;
mod compare;
mod contender;
mod counts;
mod failure;
mod gateway;
mod growth;
mod machine;
mod metric;
mod process;
mod procfs;
mod provider;
mod record;
mod report;
mod response;
mod statistics;
mod syscalls;
mod watchers;
mod workload;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::compare::Effort;
use crate::contender::Contender;
use crate::failure::{Failure, Result};
use crate::gateway::Setup;
use crate::machine::Machine;
use crate::record::Record;
use crate::report::Report;

/// Name of the build under test in the report.
const GATEWAY: &str = "tollgate";
/// Name of the same without limits and balances.
const WITHOUT_LEDGER: &str = "without ledger";
/// Name of the same with its ledger in a database on a server.
const ON_A_SERVER: &str = "on postgresql";
/// Name of the same with limits in a server.
const SHARED_LIMITS: &str = "shared limits";
/// Name of the same with traces and a dashboard.
const WATCHED: &str = "watched";
/// Name of the build that it is compared with.
const OTHER_BUILD: &str = "other build";

/// Compares the gateway with bare Pingora and other proxies in one run
#[derive(Debug, clap::Parser)]
#[command(name = "tollgate-load", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    comparison: Comparison,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    /// Only serve as bare Pingora, the yardstick
    Bare(bare::Options),
    /// Measure a burst of token counts
    Counts(counts::Options),
    /// Measure how the gateway's cost grows with the work
    Growth(growth::Options),
    /// Only serve as the canned provider
    Provider {
        /// Addresses to listen on
        #[arg(long, required = true, value_delimiter = ',')]
        listen: Vec<SocketAddr>,
    },
}

#[derive(Debug, clap::Args)]
struct Comparison {
    /// The gateway under test [default: `tollgate` beside this binary]
    #[arg(long, value_name = "BINARY")]
    gateway: Option<PathBuf>,
    /// Leave the gateway out
    #[arg(long, conflicts_with = "gateway")]
    without_gateway: bool,
    /// Also run the gateway without limits and balances, to compare with
    #[arg(long, conflicts_with = "without_gateway")]
    without_ledger: bool,
    /// Also run the gateway with its ledger in this PostgreSQL database, which is reached without TLS
    #[arg(long, value_name = "URL", conflicts_with = "without_gateway")]
    postgres: Option<String>,
    /// Also run the gateway with one request in a hundred traced and a dashboard open
    #[arg(long, conflicts_with = "without_gateway")]
    watched: bool,
    /// Also run the gateway with limits that are shared through this Redis server
    #[arg(long, value_name = "URL", conflicts_with = "without_gateway")]
    limits: Option<String>,
    /// Another build of the gateway to compare with
    #[arg(long, value_name = "BINARY")]
    against: Option<PathBuf>,
    /// Another proxy: NAME=COMMAND with {listen}, {provider} and {self} filled in
    #[arg(long, value_name = "NAME=COMMAND")]
    proxy: Vec<String>,
    /// Alternating rounds of every load
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Fresh starts of every contender
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    starts: u16,
    /// Milliseconds of measuring in every round
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,
    /// Parts to run [default: all]
    #[arg(long, value_delimiter = ',', value_parser =
        ["1k", "100k-request", "100k-answer", "1k-to-messages", "100k-to-messages", "1k-to-responses",
         "100k-to-responses", "1k-to-gemini", "100k-to-gemini", "streams", "500-streams", "latency",
         "latency-100k", "start"])]
    only: Vec<String>,
    /// Pin no process, so that a proxy's threads may use every CPU, as on a machine of its own
    #[arg(long)]
    unpinned: bool,
    /// Count system calls per request with strace at the end
    #[arg(long)]
    syscalls: bool,
    /// Write the whole report, samples included, to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        Some(Role::Bare(options)) => bare::serve(&options),
        Some(Role::Provider { listen }) => on_one_thread(provider::serve(&listen)).map(|()| true),
        Some(Role::Counts(options)) => on_one_thread(until_signal(counts::measure(&options))),
        Some(Role::Growth(options)) => growth::run(&options),
        None => compare(&arguments.comparison),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("tollgate-load: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the comparison and prints it; true when everything could be measured.
fn compare(arguments: &Comparison) -> Result<bool> {
    let machine = Machine::prepare(arguments.unpinned, machine::OPEN_FILES)?;
    let contenders = contenders(arguments)?;
    let effort = Effort {
        rounds: arguments.rounds.into(),
        starts: arguments.starts.into(),
        window: Duration::from_millis(arguments.window),
        only: arguments.only.clone(),
        syscalls: arguments.syscalls,
    };
    let mut record = Record::default();
    on_one_thread(until_signal(compare::run(
        &machine,
        &contenders,
        &effort,
        &mut record,
    )))?;
    let names = contenders
        .iter()
        .map(|contender| contender.name.as_str())
        .collect();
    let other_build = arguments.against.as_ref().map(|_| OTHER_BUILD);
    let without_ledger = arguments.without_ledger.then_some(WITHOUT_LEDGER);
    let server = arguments.postgres.as_ref().map(|_| ON_A_SERVER);
    let watched = arguments.watched.then_some(WATCHED);
    let limits = arguments.limits.as_ref().map(|_| SHARED_LIMITS);
    let others = [other_build, without_ledger, server, limits, watched];
    let others = others.into_iter().flatten();
    let report = Report::new(&machine, &record, names, others);
    std::io::stdout()
        .write_all(report.to_text().as_bytes())
        .map_err(|source| Failure::io("print the report", source))?;
    if let Some(path) = &arguments.json {
        report.write_json(path)?;
    }
    Ok(record.failures().is_empty())
}

fn contenders(arguments: &Comparison) -> Result<Vec<Contender>> {
    let mut contenders = vec![Contender::bare()];
    if !arguments.without_gateway {
        let binary = match &arguments.gateway {
            Some(binary) => binary.clone(),
            None => Path::new(&contender::own_binary()?).with_file_name("tollgate"),
        };
        contenders.push(Contender::gateway(GATEWAY, &binary, Setup::Usual)?);
        if arguments.without_ledger {
            let without = Contender::gateway(WITHOUT_LEDGER, &binary, Setup::WithoutLedger)?;
            contenders.push(without);
        }
        if let Some(url) = &arguments.postgres {
            let server = Setup::Server(url.clone());
            contenders.push(Contender::gateway(ON_A_SERVER, &binary, server)?);
        }
        if let Some(url) = &arguments.limits {
            let limits = Setup::SharedLimits(url.clone());
            contenders.push(Contender::gateway(SHARED_LIMITS, &binary, limits)?);
        }
        if arguments.watched {
            contenders.push(Contender::gateway(WATCHED, &binary, Setup::Watched)?);
        }
    }
    if let Some(binary) = &arguments.against {
        contenders.push(Contender::gateway(OTHER_BUILD, binary, Setup::Usual)?);
    }
    contenders.extend(Contender::nginx());
    for definition in &arguments.proxy {
        contenders.push(Contender::custom(definition)?);
    }
    Ok(contenders)
}

/// Everything of ours runs on one thread: it has one CPU.
fn on_one_thread<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Failure::io("start a runtime", source))?
        .block_on(task)
}

/// Gives up on INT and TERM, so that guards end their processes.
async fn until_signal<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    let listen = |kind| signal(kind).map_err(|source| Failure::io("listen for signals", source));
    let (mut interrupt, mut terminate) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
    );
    tokio::select! {
        outcome = task => outcome,
        _ = interrupt.recv() => Err(Failure::Usage("interrupted".to_owned())),
        _ = terminate.recv() => Err(Failure::Usage("terminated".to_owned())),
    }
}
