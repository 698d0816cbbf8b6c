//! How a build of the gateway is configured for a comparison: one thread, keys, routing,
//! ledger and access log on, one model for each workload, one provider for each format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::contender::{Prepared, write_file};
use crate::failure::{Failure, Result};
use crate::machine;
use crate::watchers::Watchers;
use crate::workload::{self, Format};

/// Bound on making a key.
const KEY_LIMIT: Duration = Duration::from_secs(20);

/// A plan that no run uses up.
const PLENTY: &str = "plans: { plenty: { tokens: 1000000G, validity: 365d } }\n";
/// Limits that no run reaches.
const LIMITS: &str =
    "limits: { requests_per_minute: 4000000000, input_tokens_per_minute: 4000000000 }";
/// The filters without those that keep limits and balances.
const WITHOUT_LEDGER: &str = "filters: [headers, key, stored, model, errors]\n";

/// The token of the operator port.
const TOKEN: &str = "a token for a comparison and nothing else";

/// The parts of the gateway that are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Limits, balances and history in a file, the default.
    Usual,
    /// The same in a PostgreSQL database, by its URL.
    Server(String),
    /// Requests are neither limited nor charged nor recorded.
    WithoutLedger,
    /// As usual, with one request in a hundred traced and a dashboard open.
    Watched,
    /// As usual, with limits for the key that are shared through this Redis server.
    SharedLimits(String),
}

/// Writes the configuration, makes a key and returns the command that starts the gateway.
pub(crate) async fn prepare(
    binary: &Path,
    setup: &Setup,
    folder: &Path,
    listen: SocketAddr,
    provider: SocketAddr,
) -> Result<Prepared> {
    let admin = machine::free_address()?;
    write_file(folder, "token", TOKEN)?;
    let mut yaml = configuration(listen, admin, provider);
    let mut watchers = None;
    if *setup == Setup::WithoutLedger {
        yaml.push_str(WITHOUT_LEDGER);
    }
    if *setup == Setup::Watched {
        let (started, collector) = Watchers::start(admin, TOKEN).await?;
        watchers = Some(started);
        // Writing to a string cannot fail.
        let _ = writeln!(
            yaml,
            "traces: {{ endpoint: 'http://{collector}/v1/traces', protocol: http, sample: {{ share: 0.01 }} }}"
        );
    }
    if let Setup::SharedLimits(url) = setup {
        write_file(folder, "limits", url)?;
        yaml.push_str("limits: { shared: { url: 'file:limits' } }\n");
    }
    if let Setup::Server(url) = setup {
        write_file(folder, "url", url)?;
        let postgres = "postgres: { url: 'file:url', tls: false }";
        yaml = yaml.replace(
            "store: { path: tollgate.db }",
            &format!("store: {{ path: ledger, {postgres} }}"),
        );
    }
    let plan = match setup {
        Setup::SharedLimits(_) => PLENTY.replace("validity", &format!("{LIMITS}, validity")),
        _ => PLENTY.to_owned(),
    };
    let file = write_file(folder, "tollgate.yaml", &format!("{yaml}{plan}"))?;
    if let Setup::Server(_) = setup {
        migrate(binary, &file).await?;
    }
    let key = match create_key(binary, &file, &["--plan", "plenty"]).await {
        Ok(key) => key,
        // A build from before there were plans: its keys need none.
        Err(_) => {
            write_file(folder, "tollgate.yaml", &yaml)?;
            create_key(binary, &file, &[]).await?
        }
    };
    Ok(Prepared {
        program: binary.display().to_string(),
        arguments: ["serve", "--config", &file].map(str::to_owned).to_vec(),
        credential: Some(key),
        watchers,
    })
}

fn configuration(listen: SocketAddr, admin: SocketAddr, provider: SocketAddr) -> String {
    let mut yaml = format!(
        "\
server:
  listen: [{{ address: '{listen}' }}]
  threads: 1
admin: {{ listen: '{admin}', token: 'file:token' }}
store: {{ path: tollgate.db }}
keys: {{ pepper: 'literal:a pepper for a comparison and nothing else' }}
log: {{ access: stdout }}
"
    );
    let formats = Format::ALL.map(Format::name);
    // Writing to a string cannot fail.
    let _ = writeln!(yaml, "providers:");
    for format in formats {
        let address = format!("address: 'http://{provider}', formats: [{format}]");
        let _ = writeln!(yaml, "  canned-{format}: {{ {address} }}");
    }
    let _ = writeln!(yaml, "families:");
    for format in formats {
        let family = format!("group: other, deployments: [canned-{format}]");
        let _ = writeln!(yaml, "  canned-{format}: {{ {family} }}");
    }
    let _ = writeln!(yaml, "models:");
    let models: BTreeMap<_, _> = workload::all().map(|it| (it.model, it.speaks)).collect();
    for (model, speaks) in models {
        let family = format!("canned-{}", speaks.name());
        let _ = writeln!(
            yaml,
            "  {model}: {{ family: {family}, reasoning: provider_default }}"
        );
    }
    yaml
}

/// Makes the tables, unless an earlier start has.
async fn migrate(binary: &Path, config: &str) -> Result<()> {
    let mut command = Command::new(binary);
    command.args(["ledger", "migrate", "--config", config]);
    let output = command.kill_on_drop(true).output().await;
    let output =
        output.map_err(|source| Failure::io(format!("start {}", binary.display()), source))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::Ended {
        name: format!("{} ledger migrate", binary.display()),
        status: output.status.to_string(),
        output: format!("\n{}", String::from_utf8_lossy(&output.stderr).trim()),
    })
}

pub(crate) async fn create_key(binary: &Path, config: &str, more: &[&str]) -> Result<String> {
    let mut command = Command::new(binary);
    command
        .args(["keys", "create", "--config", config, "load"])
        .args(more)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(KEY_LIMIT, command.output())
        .await
        .map_err(|_| Failure::TooSlow {
            what: "making a key".to_owned(),
            limit: KEY_LIMIT,
        })?
        .map_err(|source| Failure::io(format!("start {}", binary.display()), source))?;
    printed_key(&output).ok_or_else(|| Failure::Ended {
        name: format!("{} keys create", binary.display()),
        status: output.status.to_string(),
        output: format!("\n{}", String::from_utf8_lossy(&output.stderr).trim()),
    })
}

/// The key stands alone on a line.
fn printed_key(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let key = text
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("sk-"))?;
    output.status.success().then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program that stands in for the gateway's command line.
    fn script(folder: &Path, text: &str) -> std::path::PathBuf {
        let path = folder.join("gateway");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn addresses() -> (SocketAddr, SocketAddr) {
        (
            "127.0.0.1:4001".parse().unwrap(),
            "127.0.0.1:4002".parse().unwrap(),
        )
    }

    #[tokio::test]
    async fn the_key_is_what_the_gateway_prints() {
        let folder = tempfile::tempdir().unwrap();
        let binary = script(folder.path(), "echo 'Keep it:'; echo ' sk-abc'");
        let (listen, provider) = addresses();
        let prepared = prepare(&binary, &Setup::Usual, folder.path(), listen, provider)
            .await
            .unwrap();
        assert_eq!(prepared.credential.as_deref(), Some("sk-abc"));
        assert_eq!(prepared.arguments.first().unwrap(), "serve");
    }

    #[tokio::test]
    async fn a_build_that_knows_no_plans_gets_none() {
        let folder = tempfile::tempdir().unwrap();
        // Arguments: keys create --config FILE load, and what comes after.
        let old = "! grep -q plans \"$4\" && [ -z \"$6\" ] && echo sk-old";
        let binary = script(folder.path(), old);
        let (listen, provider) = addresses();
        let prepared = prepare(&binary, &Setup::Usual, folder.path(), listen, provider)
            .await
            .unwrap();
        assert_eq!(prepared.credential.as_deref(), Some("sk-old"));
    }

    #[tokio::test]
    async fn without_the_ledger_its_filters_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let binary = script(folder.path(), "echo sk-abc");
        let (listen, provider) = addresses();
        for (setup, left_out) in [(Setup::Usual, false), (Setup::WithoutLedger, true)] {
            prepare(&binary, &setup, folder.path(), listen, provider)
                .await
                .unwrap();
            let file = folder.path().join("tollgate.yaml");
            let yaml = std::fs::read_to_string(file).unwrap();
            assert_eq!(yaml.contains(WITHOUT_LEDGER), left_out, "{yaml}");
        }
    }

    #[tokio::test]
    async fn a_gateway_that_makes_no_key_is_reported_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let binary = script(
            folder.path(),
            "echo sk-abc; echo 'no such model' >&2; exit 1",
        );
        let (listen, provider) = addresses();
        let fault = prepare(&binary, &Setup::Usual, folder.path(), listen, provider)
            .await
            .unwrap_err();
        assert!(fault.to_string().contains("no such model"), "{fault}");
    }

    #[test]
    fn every_workload_has_its_model_once() {
        let (listen, provider) = addresses();
        let yaml = configuration(listen, listen, provider);
        for workload in workload::all() {
            assert_eq!(
                yaml.matches(&format!("  {}: ", workload.model)).count(),
                1,
                "{yaml}"
            );
        }
    }
}
