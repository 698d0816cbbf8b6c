//! The ledger: its folder, its disk and, without writing to it, its file.

use super::files::exposed;
use super::report::Report;
use crate::progress::Progress;
use rustix::fs::{Access, access, statvfs};
use std::path::Path;
use std::time::Duration;
use tollgate_config::Config;
use tollgate_engine::keys::{self, OpenError};
use tollgate_ledger::StoreError;

/// How long the structure of the file is looked at.
const PATIENCE: Duration = Duration::from_secs(5);
/// A gateway refuses requests when it can record nothing.
const LEAST_FREE: u64 = 64 << 20;
/// Some days of a busy gateway.
const USUAL_FREE: u64 = 1 << 30;

pub(super) fn check(config: &Config, has_secrets: bool, is_offline: bool, report: &mut Report) {
    const CHECK: &str = "ledger";
    if let Err(fault) = keys::check_folder(config) {
        return report.fail(
            CHECK,
            fault.to_string(),
            "create the folder, or change store.path",
        );
    }
    let path = &config.store.path;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        report.fail(
            CHECK,
            format!("this user cannot write to {}", folder.display()),
            "run this as the user of the service, or give the folder to that user",
        );
    }
    disk(folder, report);
    if config.store.postgres.is_some() {
        if !is_offline {
            server(config, has_secrets, report);
        }
        return;
    }
    let Ok(metadata) = path.metadata() else {
        let message = format!("{}: none yet, the first start creates it", path.display());
        return report.ok(CHECK, message);
    };
    if let Some((message, advice)) = exposed(&metadata, true) {
        let path = path.display();
        report.warn(
            CHECK,
            format!("{path} {message}"),
            format!("chmod {advice} {path}"),
        );
    }
    if !has_secrets {
        let advice = "correct the configuration first, then repeat this";
        return report.warn(CHECK, "not checked without the pepper", advice);
    }
    let progress = Progress::of("reading the ledger");
    let found = keys::glance(config, PATIENCE);
    drop(progress);
    let found = match found {
        Ok(found) => found,
        Err(fault) => {
            let advice = match &fault {
                OpenError::Store(StoreError::WrongPepper) => {
                    "set keys.pepper to the secret with which the ledger was created"
                }
                OpenError::Store(
                    StoreError::CommitsMissing { .. } | StoreError::Damaged { .. },
                ) => "docs/guides/ledger.md says how to restore it",
                _ => "check store.path, and the permissions of the file",
            };
            return report.fail(CHECK, fault.to_string(), advice);
        }
    };
    if found.quarantined > 0 {
        report.warn(
            CHECK,
            format!("{} records are in quarantine", found.quarantined),
            "tollgate ledger verify shows them",
        );
    }
    let keys = found.keys;
    let path = path.display();
    let message = match found.is_whole {
        true => {
            format!("{path}: keys {keys}, structure sound; tollgate ledger verify checks the sums")
        }
        false => format!(
            "{path}: keys {keys}, structure sound as far as {} s allow; tollgate ledger verify \
             checks all of it",
            PATIENCE.as_secs()
        ),
    };
    report.ok(CHECK, message)
}

/// The database on a server.
fn server(config: &Config, has_secrets: bool, report: &mut Report) {
    const CHECK: &str = "ledger";
    if !has_secrets {
        let advice = "correct the configuration first, then repeat this";
        return report.warn(CHECK, "not checked without the URL and the pepper", advice);
    }
    let progress = Progress::of("connecting to the database");
    let opened = keys::open_store(config);
    drop(progress);
    match opened {
        Ok(_) => report.ok(
            CHECK,
            "the database is reached, with its tables up to date; tollgate ledger verify checks the sums",
        ),
        Err(fault) => report.fail(
            CHECK,
            fault.to_string(),
            "docs/guides/several-gateways.md has the steps",
        ),
    }
}

/// The server through which limits are shared.
pub(super) fn limits(config: &Config, has_secrets: bool, report: &mut Report) {
    const CHECK: &str = "limits";
    if config.limits.shared.is_none() {
        return;
    }
    if !has_secrets {
        let advice = "correct the configuration first, then repeat this";
        return report.warn(CHECK, "not checked without the URL", advice);
    }
    let progress = Progress::of("connecting to the server of limits");
    let checked = keys::check_limit_server(config);
    drop(progress);
    match checked {
        Ok(address) => {
            let address = address.unwrap_or_default();
            report.ok(CHECK, format!("limits can be shared through {address}"))
        }
        Err(fault) => report.fail(
            CHECK,
            fault.to_string(),
            "docs/guides/shared-limits.md has the steps",
        ),
    }
}

fn disk(folder: &Path, report: &mut Report) {
    const CHECK: &str = "disk";
    let shown = folder.display();
    let free = match statvfs(folder) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(fault) => {
            let message = format!("the free space at {shown} is unknown: {fault}");
            return report.warn(CHECK, message, "look at it with df");
        }
    };
    let message = format!("{} MiB free at {shown}", free >> 20);
    let advice = "make room, or move store.path to another disk";
    match free {
        free if free < LEAST_FREE => report.fail(CHECK, message, advice),
        free if free < USUAL_FREE => report.warn(CHECK, message, advice),
        _ => report.ok(CHECK, message),
    }
}
