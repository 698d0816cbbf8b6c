//! The modes of the files that a configuration is read from.

use super::report::Report;
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tollgate_config::{Config, Sources};

/// Warns of files that other users can change, and of secrets that they can read.
pub(super) fn modes(sources: &Sources, config: Option<&Config>, report: &mut Report) {
    const CHECK: &str = "files";
    let public = config.map(certificates).unwrap_or_default();
    let mut is_well = true;
    let mut count = 0_usize;
    for path in sources.paths() {
        // A file that is missing is a fault of the configuration.
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        count = count.saturating_add(1);
        let is_secret = !is_yaml(path) && !public.contains(path);
        if let Some((message, advice)) = exposed(&metadata, is_secret) {
            is_well = false;
            let path = path.display();
            report.warn(
                CHECK,
                format!("{path} {message}"),
                format!("chmod {advice} {path}"),
            );
        }
    }
    if is_well {
        report.ok(CHECK, format!("the modes of {count} files are right"));
    }
}

/// The access of other users to a file, and the change of its mode that prevents it. A group may read
/// secrets: that of the service.
pub(super) fn exposed(
    metadata: &Metadata,
    is_secret: bool,
) -> Option<(&'static str, &'static str)> {
    let mode = metadata.mode();
    if mode & 0o022 != 0 {
        Some(("can be changed by other users", "go-w"))
    } else if is_secret && mode & 0o007 != 0 {
        Some(("has a secret that every user can read", "o-rwx"))
    } else {
        None
    }
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|it| it == "yaml" || it == "yml")
}

/// Files without a secret.
fn certificates(config: &Config) -> BTreeSet<&Path> {
    let listeners = config.server.listen.iter();
    let listeners = listeners.filter_map(|it| it.tls.as_ref());
    let own = listeners.flat_map(|tls| iter::once(&tls.certificate).chain(&tls.client_ca));
    let own = own.map(PathBuf::as_path);
    let providers = config.catalog.providers().iter();
    let authorities = providers.filter_map(|it| it.tls.as_ref()?.ca.as_deref());
    own.chain(authorities).collect()
}
