//! The configuration as an operator meets it: good files load, faults are reported.

mod examples;
mod faults;
mod files;
mod reference;

use super::*;
use std::path::PathBuf;
use std::{collections::BTreeSet, io, sync::Arc};
use tollgate_settings::ProcessEnvironment;
use tollgate_types::{Format, ReasoningMode};

/// Every variable is set, to something that must show nowhere; files are those on disk.
struct Workshop;

const SECRET: &str = "a-s3cret-value-that-must-not-show";

impl Environment for Workshop {
    fn variable(&self, name: &str) -> Option<String> {
        (name != "UNSET").then(|| SECRET.to_owned())
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        ProcessEnvironment.read_bytes(path, max_bytes)
    }
}

/// The schema, made once.
fn schema() -> &'static serde_json::Value {
    static SCHEMA: once_cell::sync::Lazy<serde_json::Value> =
        once_cell::sync::Lazy::new(super::schema::schema);
    &SCHEMA
}

fn conf() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf")
}

fn load(name: &str) -> Result<Config, Faults> {
    Loader::new(&Workshop).load(&conf().join(name))
}

fn parse(text: &str) -> Result<Config, Faults> {
    Loader::new(&Workshop).parse(text, Path::new("x.yaml"))
}

/// The faults of `text`, a line each.
fn faults(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.to_string().lines().map(str::to_owned).collect(),
    }
}

const GOOD: &str = "\
providers:
  a: {address: 'http://localhost:1', formats: [chat]}
families:
  f: {group: g, deployments: [a]}
models:
  m-1: {family: f}
";
