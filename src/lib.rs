//! Tollgate.
pub mod config;
