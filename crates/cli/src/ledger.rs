//! `tollgate ledger`: whether the ledger adds up, copies of it, and going on after a loss. All of it
//! works while gateways run, apart from the end of a copy between a file and a server.

use super::progress::{Done, Progress};
use super::{ConfigFile, Failure, Outcome, note, print, print_line};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate_config::{self as config, Config};
use tollgate_engine::keys::{self, OpenError};
use tollgate_ledger::{Copied, Store, StoreError, Verification};
use tollgate_types::Money;

/// The arguments of `ledger`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check that grants, charges and balances add up; name every fault.
    Verify,
    /// Copy the ledger, also while gateways run.
    Backup {
        /// The file to write; an existing file is refused.
        file: PathBuf,
    },
    /// Copy the ledger into an empty one, from a file to a server or back.
    ///
    /// While gateways use a file, its history is copied. Stop them and repeat the command to copy the rest.
    Copy {
        /// The configuration with the ledger to copy.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// The configuration with the empty ledger.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Create or migrate the tables of a database on a server.
    Migrate,
    /// Accept the rows of a ledger that lacks commits or has damaged rows.
    AcceptLoss,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let (file, json) = (&arguments.config.path, arguments.json);
    match &arguments.command {
        Command::Migrate => migrate(&config::load(file)?, json),
        Command::Verify => verify(&keys::open_store(&existing(file)?)?, json),
        Command::Backup { file: copy } => backup(&keys::open_store(&existing(file)?)?, copy, json),
        Command::Copy { from, to } => copy(&existing(from)?, &config::load(to)?, json),
        Command::AcceptLoss => accept_loss(&existing(file)?, json),
    }
}

/// The configuration of a ledger that exists: opening a file that is missing would make an empty one.
pub(super) fn existing(file: &Path) -> Result<Config, Failure> {
    let config = config::load(file)?;
    let path = &config.store.path;
    if config.store.postgres.is_none() && !path.exists() {
        return Err(format!("there is no ledger at {}", path.display()).into());
    }
    Ok(config)
}

fn copy(from: &Config, to: &Config, json: bool) -> Outcome {
    let (from, to) = (keys::open_store(from)?, keys::open_store(to)?);
    let done = Arc::<Done>::default();
    let progress = Progress::counted("copying the ledger", &done);
    let copied = from.copy_to(&to, &|part, all| done.set(part, all))?;
    drop(progress);
    match copied {
        Copied::All(found) => print_verified(&found, json),
        Copied::History(gateway) => Err(format!(
            "the history is copied, the rest is not: a gateway uses the ledger (settlement file {gateway}); \
             stop all gateways and repeat the command. If the gateway has crashed, start and stop it once"
        )
        .into()),
    }
}

fn migrate(config: &Config, json: bool) -> Outcome {
    let progress = Progress::of("migrating the tables");
    let steps = keys::migrate(config)?;
    drop(progress);
    if json {
        return print_line(json!({ "steps": steps.unwrap_or(0) }));
    }
    print_line(match steps {
        None => "nothing to do: the first start creates the file and migrates it".to_owned(),
        Some(0) => "the tables are up to date".to_owned(),
        Some(steps) => format!("steps taken: {steps}; the tables are up to date"),
    })
}

fn verify(store: &Store, json: bool) -> Outcome {
    let progress = Progress::of("verifying the ledger");
    let found = store.verify()?;
    drop(progress);
    let printed = print_verified(&found, json);
    // Faults decide the exit code, whether the output was read or not.
    match found.faults.len() {
        0 => printed,
        1 => Err("the ledger has 1 fault".into()),
        many => Err(format!("the ledger has {many} faults").into()),
    }
}

fn print_verified(found: &Verification, json: bool) -> Outcome {
    match json {
        true => print_line(serde_json::to_string_pretty(found)?),
        false => print(table(found)),
    }
}

/// Prints what is given up, then what `verify` finds in what is left.
fn accept_loss(config: &Config, json: bool) -> Outcome {
    if config.store.postgres.is_some() {
        return Err("accept-loss is for files: restore a database on its server".into());
    }
    match keys::open_store(config) {
        Ok(store) => {
            for fault in store.verify()?.faults {
                note(format_args!("found: {fault}"));
            }
        }
        Err(OpenError::Store(lost @ StoreError::CommitsMissing { .. })) => {
            note(format_args!("given up: {lost}"));
        }
        Err(fault) => return Err(fault.into()),
    }
    verify(&keys::accept_loss(config)?, json)
}

/// The sums, and below them the warnings and the faults, a line each.
fn table(found: &Verification) -> String {
    let sums = [
        ("grants", found.grants),
        ("requests on record", found.requests),
        ("tokens granted", found.granted),
        ("tokens spent", found.spent),
        ("tokens leased to gateways", found.leased),
    ];
    let money = [
        ("money granted", found.money_granted),
        ("money spent", found.money_spent),
        ("money leased to gateways", found.money_leased),
    ];
    let has_money = found.money_granted > Money::ZERO;
    let money = money.into_iter().filter(|_| has_money);
    let sums = sums.into_iter().map(|(name, sum)| (name, sum.to_string()));
    let sums = sums.chain(money.map(|(name, sum)| (name, sum.to_string())));
    let sums: Vec<(&str, String)> = sums.collect();
    let width = sums.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = sums.iter();
    let lines = lines.map(|(name, sum)| format!("{name:width$}  {sum}\n"));
    let mut table: String = lines.collect();
    for warning in &found.warnings {
        table += &format!("WARNING  {warning}\n");
    }
    if found.holds() {
        return table + "everything adds up\n";
    }
    let faults = found.faults.iter().map(|fault| format!("FAULT  {fault}\n"));
    table + &faults.collect::<String>()
}

fn backup(store: &Store, file: &Path, json: bool) -> Outcome {
    let progress = Progress::of("copying the ledger");
    store.backup(file)?;
    drop(progress);
    let bytes = std::fs::metadata(file)?.len();
    if json {
        let done = json!({ "file": std::path::absolute(file)?, "bytes": bytes });
        print_line(serde_json::to_string_pretty(&done)?)
    } else {
        print_line(format_args!("{}: {bytes} bytes", file.display()))
    }
}
