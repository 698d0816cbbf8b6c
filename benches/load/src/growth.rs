//! How the gateway's cost, memory and start grow with what it has to know and to keep open.
//!
//! Each dimension is a series of gateways of different sizes. They alternate within every round, as
//! contenders of a comparison do, and each round compares every size with the smallest. New processes
//! replace them regularly, on the same ledgers, which gives the figures of the start.

mod dimension;
mod ledger;
mod report;
mod subject;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::compare::{Provider, in_turn};
use crate::contender::own_binary;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::{on_one_thread, until_signal};
use dimension::Dimension;
use report::{Report, Series};
use subject::Subject;

/// Files that each process may have open: four for each of ten thousand streams, and more.
const OPEN_FILES: u64 = 50_000;
/// Rounds after which processes are replaced.
const ROUNDS_PER_LIFE: usize = 2;

/// What is measured, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The gateway [default: `tollgate` beside this binary]
    #[arg(long, value_name = "BINARY")]
    gateway: Option<PathBuf>,
    /// Dimensions to measure [default: all]
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Dimension>,
    /// Records of the longest history
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(10_000..=1_000_000_000))]
    records: u64,
    /// Alternating rounds of every dimension
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=1000))]
    rounds: u16,
    /// Milliseconds of measuring in every round
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,
    /// Write the plots into this folder
    #[arg(long, value_name = "FOLDER")]
    figures: Option<PathBuf>,
    /// Write the whole report, samples included, to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and reports; true if everything could be measured, whatever it showed.
///
/// # Errors
/// Nothing can be measured at all, or the report cannot be written.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let machine = Machine::prepare(false, OPEN_FILES)?;
    let binary = match &options.gateway {
        Some(binary) => binary.clone(),
        None => Path::new(&own_binary()?).with_file_name("tollgate"),
    };
    let series = on_one_thread(until_signal(measure(&machine, &binary, options)))?;
    let report = Report::new(&machine, &series);
    std::io::stdout()
        .write_all(report.to_text().as_bytes())
        .map_err(|source| Failure::io("print the report", source))?;
    if let Some(folder) = &options.figures {
        report.draw(folder)?;
    }
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    Ok(series.iter().all(|series| series.failure.is_none()))
}

async fn measure(machine: &Machine, binary: &Path, options: &Options) -> Result<Vec<Series>> {
    let mut all = Vec::new();
    for dimension in Dimension::ALL {
        if !options.only.is_empty() && !options.only.contains(&dimension) {
            continue;
        }
        let mut series = Series::new(dimension);
        let measured = measure_series(machine, binary, options, &mut series).await;
        if let Err(fault @ Failure::Usage(_)) = measured {
            return Err(fault);
        }
        series.failure = measured.err().map(|fault| fault.to_string());
        all.push(series);
    }
    Ok(all)
}

async fn measure_series(
    machine: &Machine,
    binary: &Path,
    options: &Options,
    series: &mut Series,
) -> Result<()> {
    let dimension = series.dimension;
    let sizes = dimension.sizes(options.records, machine.open_files());
    let largest = sizes.last().copied().unwrap_or_default();
    let mut provider = Provider::start(machine, dimension.addresses(largest)).await?;
    let mut subjects = Vec::new();
    for size in sizes {
        eprintln!("… {}: {size} are made", dimension.name());
        subjects.push(Subject::new(binary, dimension, size, &provider.addresses).await?);
        series.begin(size);
    }
    let places: Vec<usize> = (0..subjects.len()).collect();
    let window = Duration::from_millis(options.window);
    for round in 0..usize::from(options.rounds) {
        eprintln!(
            "… {}: {} of {}",
            dimension.name(),
            round + 1,
            options.rounds
        );
        provider.fail_if_ended()?;
        if round.is_multiple_of(ROUNDS_PER_LIFE) {
            for subject in &mut subjects {
                subject.stop();
            }
            for (subject, place) in subjects.iter_mut().zip(&places) {
                let started = subject.start(machine, binary, &provider.addresses).await?;
                series.add_start(*place, &started);
            }
        }
        for place in in_turn(&places, round) {
            if let Some(subject) = subjects.get_mut(*place) {
                series.add_load(*place, &subject.load(machine, window).await?);
            }
        }
    }
    Ok(())
}
