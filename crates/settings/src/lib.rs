//! The values that stand in configuration files: durations, sizes, token counts,
//! secrets; and how a fault in one of them is reported.
//!
//! Every crate that owns a section of the configuration writes its types with these
//! words and reports [`Fault`]s by key path. Files, positions in them and the checks
//! that cross sections are left to the program.

#![forbid(unsafe_code)]

mod date;
mod fault;
mod name;
mod secret;
mod units;

pub use date::Date;
pub use fault::{Fault, KeyPath, KeyPathError, Segment, without_rust_types};
pub use name::{did_you_mean, unknown_name};
pub use secret::{Environment, ProcessEnvironment, Secret, SecretError, SecretSource};
pub use units::{ByteSize, Duration, TokenCount, UnitError};
