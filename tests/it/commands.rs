//! The everyday commands, on gateways that run: `init`, `status`, `doctor`, `usage`, `logs`, and what is
//! made from the definition of the command line.

mod doctor;
mod init;
mod logs;
mod pages;
mod status;
mod top;
mod usage;

use crate::support::{Config, Gateway, Output, Provider, tollgate};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::Command;

const TOKEN: &str = "0123456789abcdef-the-token-of-the-tests";

/// A command as an operator runs it in a folder.
fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = tollgate();
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("TOLLGATE_CONFIG")
        .env_remove("TOLLGATE_ADMIN_TOKEN")
        .stdin(Stdio::null());
    command
}

async fn run(arguments: &[&str], folder: &Path) -> Output {
    Output::of(&mut command(arguments, folder)).await
}

/// Runs a command that must fail, with this in its error.
async fn refused(arguments: &[&str], folder: &Path, wanted: &str) {
    let output = run(arguments, folder).await;
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    assert!(output.stderr.contains(wanted), "{wanted}: {output:?}");
}

/// What a command that must succeed prints as JSON.
fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(&output.stdout).expect(&output.stdout)
}

/// A gateway with an admin token, and its provider.
async fn gateway() -> (Gateway, Provider) {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("token"), TOKEN).unwrap();
    let config = Config::of(&provider)
        .with("admin.token", json!("file:token"))
        .with("routing.health", json!({"cooldown": "1m"}));
    (Gateway::start_in(folder, config).await, provider)
}
