//! `tollgate status`: how a running gateway is, on one screen, from its operator port.

pub(super) mod metrics;
pub(super) mod view;

use super::http::wait;
use super::operator::OperatorPort;
use super::{ConfigFile, Outcome, print, print_line};
use clap::Args;
use view::Status;

/// The arguments of `status`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    port: OperatorPort,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let operator = arguments.port.find(&arguments.config)?;
    let status = wait(Status::of(&operator))?;
    let printed = match arguments.json {
        true => print_line(serde_json::to_string_pretty(&status)?),
        false => print(&status),
    };
    // The state decides the exit code, whether the output was read or not.
    match status.not_ready() {
        None => printed,
        Some(reason) => Err(format!("{} is {reason}", operator.authority).into()),
    }
}
