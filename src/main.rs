//! The `tollgate` program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Spends fewer instructions a request than the system's allocator, at the same memory
/// (`docs/internals/performance.md`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tollgate::cli::run(&[])
}
