//! `tollgate serve`.

use super::{Outcome, init_log};
use crate::config::{self, Loader, Sources};
use crate::server;
use clap::Args;
use std::path::PathBuf;
use tollgate_settings::ProcessEnvironment;

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
    let reload = Box::new(move |sources: &mut Sources| {
        Loader::new(&ProcessEnvironment).load_noting(&file, sources)
    });
    server::run(config, reload, || log::info!("serving"))?;
    Ok(())
}
