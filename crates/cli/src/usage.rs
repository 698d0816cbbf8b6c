//! `tollgate usage`: what keys have used, for other programs.

mod csv;
mod output;
mod parquet;

use super::progress::Progress;
use super::{ConfigFile, Failure, Outcome, note};
use clap::{Args, Subcommand, ValueEnum};
use output::Output;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;
use tollgate_engine::keys;
use tollgate_ledger::{Clock, GroupBy, ReportQuery, ReportRow, Timestamp};

/// The arguments of `usage`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Add up the records of requests and write a row for each group, also while gateways run.
    Export(Export),
}

#[derive(Args)]
struct Export {
    /// Requests from this time on, in UTC: 2026-11-01 or 2026-11-01T08:00:00Z. Default: the oldest
    /// record.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Timestamp>,
    /// Requests before this time. Default: now.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Timestamp>,
    /// The groups of the sums; several with commas. Days and months are in UTC.
    #[arg(
        long,
        value_name = "GROUPS",
        value_delimiter = ',',
        default_value = "key,plan,model"
    )]
    by: Vec<By>,
    /// The format of the output.
    #[arg(long, default_value = "csv")]
    format: Format,
    /// The file to write; an existing one is replaced once the export is complete. Default, or `-`:
    /// standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Key,
    Plan,
    Model,
    Day,
    Month,
}

impl From<By> for GroupBy {
    fn from(by: By) -> Self {
        match by {
            By::Key => Self::Key,
            By::Plan => Self::Plan,
            By::Model => Self::Model,
            By::Day => Self::Day,
            By::Month => Self::Month,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Parquet,
}

/// A day or a time.
fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_rfc3339(text)
        .or_else(|_| Timestamp::parse_rfc3339(&format!("{text}T00:00:00Z")))
        .map_err(|_| "expected a time such as 2026-11-01 or 2026-11-01T08:00:00Z".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Command::Export(order) = &arguments.command;
    let now = Clock::system().now();
    let query = query(order, now)?;
    let config = super::ledger::existing(&arguments.config.path)?;
    let target = order.output.as_deref().filter(|it| it.as_os_str() != "-");
    if order.format == Format::Parquet && target.is_none() && io::stdout().is_terminal() {
        return Err(
            "parquet is binary and cannot go to a terminal: name a file with --output".into(),
        );
    }
    let store = keys::open_store(&config)?;
    let kept = config.store.history;
    if order.from.is_some_and(|from| from < now.minus(kept.get())) {
        note(format_args!(
            "records are kept for {kept}: older ones are not in the export"
        ));
    }
    let columns: Vec<_> = query
        .by
        .iter()
        .flat_map(|by| by.columns())
        .copied()
        .collect();
    let purpose = target.and_then(|target| Some((target.display(), config.purpose_of(target)?)));
    if let Some((target, purpose)) = purpose {
        return Err(format!("{target} is {purpose}: name another file with --output").into());
    }
    let output = Output::to(target)?;
    let mut table: Box<dyn Table> = match order.format {
        Format::Csv => Box::new(csv::Csv::new(output, &columns)),
        Format::Parquet => Box::new(parquet::Parquet::new(output, &columns)?),
    };
    let progress = Progress::of("adding up the records of requests");
    let mut written = Ok(());
    store.report(&query, &mut |row| {
        written = table.write(row);
        written.is_ok()
    })?;
    written?;
    let ended = table.end();
    drop(progress);
    ended
}

fn query(order: &Export, now: Timestamp) -> Result<ReportQuery, Failure> {
    let from = order.from.unwrap_or_default();
    let to = order
        .to
        .unwrap_or_else(|| now.plus(Duration::from_millis(1)));
    if from >= to {
        return Err(format!("--from {from} is not before --to {to}").into());
    }
    for (place, by) in order.by.iter().enumerate() {
        if order.by.iter().take(place).any(|earlier| earlier == by) {
            return Err("--by names a group twice: give each once".into());
        }
    }
    Ok(ReportQuery {
        from,
        to,
        by: order.by.iter().copied().map(GroupBy::from).collect(),
    })
}

/// A format that is written row by row.
trait Table {
    /// Writes a row.
    fn write(&mut self, row: ReportRow) -> Outcome;
    /// Writes what is left. Without this call the output is removed.
    fn end(self: Box<Self>) -> Outcome;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_first_moment() {
        let day = time("2026-11-01").unwrap();
        assert_eq!(Ok(day), time("2026-11-01T00:00:00Z"));
        assert_eq!(Ok(day), time("2026-11-01T01:00:00+01:00"));
        for wrong in ["", "yesterday", "2026-13-01", "2026-11-01 08:00"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
