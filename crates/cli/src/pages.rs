//! `tollgate completions` and `tollgate man`: made from the definition of the command line.

use super::{Edge, Outcome, print};
use clap::Args;
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

/// The arguments of `completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Args)]
pub struct Man {
    /// The folder for the pages; created if missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn completions(arguments: &Completions, edge: &Edge) -> Outcome {
    let mut script = Vec::new();
    let mut program = (edge.program)();
    clap_complete::generate(arguments.shell, &mut program, "tollgate", &mut script);
    print(String::from_utf8_lossy(&script))
}

pub(super) fn man(arguments: &Man, edge: &Edge) -> Outcome {
    let folder = &arguments.folder;
    let written = fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to((edge.program)().name("tollgate"), folder));
    Ok(written.map_err(|fault| format!("{} cannot be written: {fault}", folder.display()))?)
}
