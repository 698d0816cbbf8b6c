//! `tollgate serve`.

use super::{Outcome, init_log};
use crate::{config, server};
use clap::Args;
use std::path::PathBuf;

/// What `serve` takes.
#[derive(Args)]
pub(super) struct Arguments {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let file = arguments.config.clone();
    let config = config::load(&file)?;
    init_log(config.log.level);
    let reload = Box::new(move || config::load(&file));
    server::run(&config, reload, || log::info!("serving"))?;
    Ok(())
}
