//! A gateway with a filter of its own. `docs/guides/write-a-filter.md` explains the filter.

mod project;

fn main() -> std::process::ExitCode {
    tollgate::cli::run(&[project::KIND])
}
