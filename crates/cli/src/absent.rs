//! Stands in for commands that this build leaves out.

use super::Outcome;
use clap::Args;
use std::ffi::OsString;

/// Any arguments.
#[derive(Args)]
pub struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _any: Vec<OsString>,
}

/// Fails, with the way to a build that has the command.
///
/// # Errors
///
/// Always.
pub fn run(_: &Arguments) -> Outcome {
    Err(
        "this build has no simulated provider: build one that has it with 'make build' or \
         'cargo build --features demo'"
            .into(),
    )
}
