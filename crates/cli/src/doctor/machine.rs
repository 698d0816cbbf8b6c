//! Limits of the system: open files and core dumps.

use super::report::Report;
use crate::Edge;
use rustix::process::{Resource, getrlimit};
use std::fs;
use tollgate_config::Config;

/// Whether a crash could write prompts and keys to the disk. The program has set the limit that
/// `tollgate serve` sets as well.
pub(super) fn core_dumps(report: &mut Report) {
    const CHECK: &str = "core dumps";
    let limit = getrlimit(Resource::Core).current;
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    match limit {
        // A kernel that pipes dumps to a program leaves them out at a limit of 1 alone.
        Some(0) if pattern.starts_with('|') => report.warn(
            CHECK,
            "the kernel pipes them to a program, which a limit of 0 does not prevent",
            "set the hard limit to 1 byte (LimitCORE=1 of systemd), so that no dump holds keys and prompts",
        ),
        Some(0 | 1) => report.ok(CHECK, "off"),
        _ => report.warn(
            CHECK,
            "the system does not let the program turn them off",
            "set the hard limit to 0 (LimitCORE=0 of systemd), so that no dump holds keys and prompts",
        ),
    }
}

/// Whether the program can open as many files as the configuration allows connections.
pub(super) fn open_files(config: &Config, edge: &Edge, report: &mut Report) {
    const CHECK: &str = "open files";
    let (wanted, possible) = (config.server.limits.connections, (edge.connections)());
    let limit = getrlimit(Resource::Nofile).maximum;
    let limit = limit.map_or_else(
        || "no limit".to_owned(),
        |limit| format!("a limit of {limit}"),
    );
    if possible >= wanted {
        let message = format!("{limit}, enough for {wanted} connections");
        return report.ok(CHECK, message);
    }
    report.warn(
        CHECK,
        format!("{limit}, enough for {possible} of the {wanted} connections that are configured"),
        "raise the hard limit (LimitNOFILE= of systemd, ulimit -Hn), or lower server.limits.connections",
    );
}
