//! `tollgate eval-auto`: how good the choices of a profile are, on labelled prompts.

use super::{ConfigFile, Outcome, print};
use crate::{config, evaluation};
use clap::Args;
use std::path::PathBuf;

/// What `eval-auto` takes.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    /// The profile.
    #[arg(long, default_value = "auto")]
    profile: String,
    /// What the cost of the best single model is worth, as a quality: what thresholds are
    /// tuned for.
    #[arg(long, default_value_t = 0.2)]
    cost_weight: f64,
    /// The seed of the bootstrap.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Labelled prompts, one JSON object a line, as docs/auto.md has them.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let config = config::load(&arguments.config.path)?;
    let name = &arguments.profile;
    let profile = config.catalog.profile(name);
    let profile = profile.ok_or_else(|| format!("no profile '{name}'"))?;
    let mut rows = Vec::new();
    for file in &arguments.files {
        let text = std::fs::read_to_string(file)
            .map_err(|fault| format!("{}: {fault}", file.display()))?;
        rows.extend(evaluation::read(file, &text, profile)?);
    }
    if rows.is_empty() {
        return Err("no labelled prompts".into());
    }
    let settings = evaluation::Settings {
        cost_weight: arguments.cost_weight,
        seed: arguments.seed,
    };
    print(evaluation::evaluate(profile, &rows, settings))
}
